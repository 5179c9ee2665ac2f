"""Answers requests for the catalog: each caller gets its own view, and pays for it as for a call."""

from collections.abc import Callable

from gateway.a2a.headers import Pairs, holds
from gateway.catalog.feeds import CONTENT_TYPES, Filters, feed
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.snapshot import Snapshot

MAX_AGE = 60
"""Seconds for which a client may keep a page."""


async def show(
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
