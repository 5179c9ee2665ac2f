"""Answers requests for the catalog on the public port, as documents and as a page for people.

Each caller sees the agents that it may reach, and is charged as for a call. The page has the list and the cards, and no
data for operators: no replica, limit, route or request.
"""

from collections.abc import Callable
from urllib.parse import parse_qs

from gateway.a2a.fault import BadParams
from gateway.a2a.headers import Pairs, holds
from gateway.catalog.feeds import CONTENT_TYPES, Filters, feed
from gateway.catalog.render import ASSETS, HEADERS, HTML, page
from gateway.proxy import catalog_view as view
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.snapshot import Snapshot

FOLDER = ("-", "catalog")
"""Segments of the folder of the page, behind the public prefix."""
LIST, AGENT, MOVED = "", "agent", "moved"
FACETS = ("skill", "tag")
_HEADERS: Pairs = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
MAX_AGE = 60
"""Seconds for which a client may keep a feed."""
_ASSET_AGE = b"public, max-age=300"


def page_at(path: tuple[str, ...], raw: bytes) -> str | None:
    """Return the name of the page or of the file at a path behind the public prefix, or None.

    Args:
        raw: The path as it came: without a slash behind the folder, relative links would lead elsewhere.
    """
    if path in ((), FOLDER):
        return LIST if path and raw.endswith(b"/") else MOVED
    is_inside = path[:-1] == FOLDER and not raw.endswith(b"/")
    return path[-1] if is_inside and (path[-1] == AGENT or path[-1] in ASSETS) else None


async def show_feed(
    snapshot: Snapshot, request: RequestContext, path: str, client: Responder, *, clock: Callable[[], float]
) -> None:
    """Answer with a page of the catalog.

    Args:
        path: The path of the feed; see `catalog.feeds`.

    Raises:
        BadParams: the query cannot be used.
    """
    head, principal = request.head, request.principal
    is_known = principal is not None and principal.method != "anonymous"
    filters = Filters.read(head.query)
    page = feed(snapshot.directory, snapshot.table, snapshot.public, principal, path=path, filters=filters)
    request.first_byte = clock()
    tag = page.etag.encode("ascii")
    headers: Pairs = [
        (b"etag", tag),
        (b"cache-control", b"%s, max-age=%d" % (b"private" if is_known else b"public", MAX_AGE)),
        (b"vary", b"Authorization, X-API-Key"),
        *((b"link", link.encode("ascii")) for link in page.links),
        (b"x-request-id", request.id.encode("ascii")),
    ]
    if holds(head.first(b"if-none-match"), tag):
        request.status = 304
        await client.answer(304, headers, b"")
        return
    request.status = 200
    request.bytes_out = len(page.body)
    headers.append((b"content-type", CONTENT_TYPES[path]))
    await client.answer(200, headers, page.body)


async def show_page(
    snapshot: Snapshot, request: RequestContext, name: str, client: Responder, *, clock: Callable[[], float]
) -> None:
    """Answer with a page or a file.

    Args:
        name: As `page_at` returns it.

    Raises:
        BadParams: the query cannot be read.
    """
    head = request.head
    status, headers, body = (
        _asset(head.first(b"if-none-match"), name) if name in ASSETS else _page(snapshot, request, name)
    )
    request.first_byte = clock()
    request.status, request.bytes_out = status, len(body)
    await client.answer(status, [*headers, *_HEADERS, (b"x-request-id", request.id.encode("ascii"))], body)


def _asset(held: bytes | None, name: str) -> tuple[int, Pairs, bytes]:
    asset = ASSETS[name]
    etag = asset.etag.encode("ascii")
    headers: Pairs = [(b"etag", etag), (b"cache-control", _ASSET_AGE)]
    if holds(held, etag):
        return 304, headers, b""
    return 200, [*headers, (b"content-type", asset.media_type.encode("ascii"))], asset.body


def _page(snapshot: Snapshot, request: RequestContext, name: str) -> tuple[int, Pairs, bytes]:
    if name == MOVED:
        return 303, [(b"location", f"{snapshot.public.prefix}/{'/'.join(FOLDER)}/".encode("ascii"))], b""
    query, principal = _query(request.head.query), request.principal
    status = 200
    if name == LIST:
        found = view.find(view.entries_for(snapshot, principal), view.Search.read(query, FACETS), FACETS)
        body = page("list.html", {"found": found, "facets": FACETS})
    elif (values := view.agent_for(snapshot, principal, query.get("name", ""))) is None:
        # A hidden agent looks like a missing one.
        status, body = 404, page("message.html", {"title": "No such agent", "text": query.get("name", "")})
    else:
        body = page("agent.html", values)
    headers: Pairs = [
        (b"content-type", HTML.encode("ascii")),
        (b"cache-control", b"no-store"),
        (b"vary", b"Authorization, X-API-Key"),
    ]
    return status, headers, body


def _query(raw: bytes) -> dict[str, str]:
    """Return the first value of each parameter.

    Raises:
        BadParams: there are too many, or one is not text.
    """
    try:
        found = parse_qs(raw.decode("ascii"), errors="strict", max_num_fields=32)
    except ValueError as error:
        raise BadParams("the query cannot be read") from error
    return {name: values[0] for name, values in found.items()}
