"""Answers requests that call no agent: for cards, for the catalog, and preflights of browsers."""

from collections.abc import Callable

from gateway.a2a.fault import NotAdmitted, WrongHttpMethod
from gateway.a2a.headers import Pairs
from gateway.a2a.params import of_card
from gateway.proxy import card_requests, catalog_requests
from gateway.proxy.admission import Admission
from gateway.proxy.connection_cache import Location
from gateway.proxy.locate import refuse_method
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.proxy.selection import select
from gateway.snapshot import Snapshot


async def show(
    snapshot: Snapshot,
    request: RequestContext,
    location: Location,
    client: Responder,
    *,
    admission: Admission,
    clock: Callable[[], float],
) -> None:
    """Answer with the card, the feed or the page that a location names.

    Raises:
        Fault: the caller may not read it, or there is none.
    """
    if location.path is not None and location.path.card is not None:
        path = of_card(location.path, request.head.query)
        verdict = select(snapshot, request, location, path.tenant)
        refuse_method(path)
        await card_requests.show(snapshot, request, verdict, client, path=path, clock=clock)
        return
    await admission.arrive(request, client)
    _refuse_reader(snapshot, request)
    if location.feed is not None:
        await catalog_requests.show_feed(snapshot, request, location.feed, client, clock=clock)
    elif location.page is not None:
        await catalog_requests.show_page(snapshot, request, location.page, client, clock=clock)


def _refuse_reader(snapshot: Snapshot, request: RequestContext) -> None:
    """Refuse a request that does not read the catalog, or whose caller may not.

    Raises:
        WrongHttpMethod: neither GET nor HEAD.
        NotAdmitted: the caller's tenant is not admitted.
    """
    if request.head.method not in ("GET", "HEAD"):
        raise WrongHttpMethod("this path is for GET, HEAD", allowed=("GET", "HEAD"))
    principal = request.principal
    if principal is None or principal.method == "anonymous":
        return
    if snapshot.table.admitted(principal) is None:
        raise NotAdmitted(NotAdmitted.words)


async def permit(request: RequestContext, client: Responder, preflight: Pairs, clock: Callable[[], float]) -> None:
    """Answer a browser's preflight: before authentication, because it never shows a credential."""
    request.status = 204
    request.first_byte = clock()
    await client.answer(204, [*preflight, (b"x-request-id", request.id.encode("ascii"))], b"")
