"""Answers card requests: those at a well-known path, and calls of gRPC 0.3 for the public card."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from gateway.a2a.bindings import binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version, parse_version
from gateway.a2a.headers import A2A_JSON, Pairs, accepts, holds
from gateway.a2a.operation import Operation
from gateway.a2a.params import query_value
from gateway.a2a.paths import PathCall
from gateway.backend.backend import Backend
from gateway.cards.serve import ServedCard, sign_in_card
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.routing.route import Verdict
from gateway.snapshot import Snapshot

FIRST_CARD = 5.0
"""Seconds to wait for an agent's first card while it is being fetched; later cards are served from the cache."""
MAX_AGE = 60
"""Seconds for which a client may keep a card."""
_GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)
_OLD = "agent.json"
"""The file name that only clients before 0.3 request."""


async def show(
    snapshot: Snapshot,
    request: RequestContext,
    verdict: Verdict,
    client: Responder,
    *,
    path: PathCall,
    clock: Callable[[], float],
) -> None:
    """Answer with the card of the selected agent, or with the card that only describes how to sign in.

    Args:
        path: The requested one of the two cards, and the tenant that it names.

    Raises:
        UpstreamConnect, UpstreamProtocol: there is no card.
        StateUnavailable: it cannot be signed now.
    """
    old = path.card == _OLD
    modern = not old and _wants_modern(request)
    if verdict.signs_in:
        card = await snapshot.sign_in_cards.signed(_sign_in(snapshot, request, verdict, path, modern=modern))
        public = False
    else:
        card, public = await _agent_card(snapshot, request, verdict, path, modern=modern)
    request.first_byte = clock()
    etag = card.etag.encode("ascii")
    headers: Pairs = [
        (b"etag", etag),
        (b"cache-control", b"%s, max-age=%d" % (b"public" if public else b"private", MAX_AGE)),
        (b"vary", b"Authorization, X-API-Key, Accept, A2A-Version"),
        (b"x-request-id", request.id.encode("ascii")),
    ]
    if holds(request.head.first(b"if-none-match"), etag):
        request.status = 304
        await client.answer(304, headers, b"")
        return
    request.status = 200
    request.bytes_out = len(card.body)
    headers.append((b"content-type", A2A_JSON if modern and _accepts_a2a_json(request) else b"application/json"))
    await client.answer(200, headers, card.body)


async def _agent_card(
    snapshot: Snapshot, request: RequestContext, verdict: Verdict, path: PathCall, *, modern: bool
) -> tuple[ServedCard, bool]:
    """Return the card of the selected agent, and whether shared caches may keep it."""
    route, rule, principal = verdict.route, verdict.rule, request.principal
    assert route is not None
    assert rule is not None
    backend = snapshot.backends[route.backend]
    if backend.source.card is None and not backend.source.settled.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_CARD):
                await backend.source.settled.wait()
    may_call = principal is not None and snapshot.table.may_call(principal, backend.agent)
    tenant, bare = rule.tenant, False
    if route.tenant is not None:
        # Only a caller of the backend's own tenant, or one that may name that tenant and did, sees its card. Others see
        # the product's card if the file has one, else a bare card.
        own = may_call and principal is not None and route.tenant in (principal.tenant, path.tenant)
        tenant, bare = (route.tenant if own else None), not (own or backend.product)
    personal = backend.source.personal
    if personal and not may_call:
        # It is for the agent's callers only.
        bare = True
    card = backend.cards.card(rule, tenant, request.head.host, bare=bare, old=path.card == _OLD, modern=modern)
    card = await backend.cards.signed(card)
    # A card that was picked by or for a caller, or is a tenant's own, must not come from a shared cache.
    picked = route.tenant is not None or any(condition[0] != "tenant" for condition in rule.conditions)
    return card, snapshot.table.agents[backend.agent].public and not picked and not personal


def _sign_in(
    snapshot: Snapshot, request: RequestContext, verdict: Verdict, path: PathCall, *, modern: bool
) -> ServedCard:
    """Return the card for strangers at an endpoint of several agents that credentials select: it names none of them."""
    # Any rule of the endpoint: only its host and path are used.
    rule = verdict.contenders[0]
    return sign_in_card(
        snapshot.public,
        request.head.host if rule.host is not None and rule.host.startswith("*.") else rule.host,
        rule.path,
        tenant=path.tenant,
        schemes=snapshot.authenticator.schemes,
        issuers=snapshot.authenticator.issuers,
        old=path.card == _OLD,
        modern=modern,
    )


def answers(backend: Backend, call: Call) -> bool:
    """Return whether a call asks for the public card: over gRPC, 0.3 has one method for both (protocol trap 27)."""
    if call.operation is not Operation.GET_EXTENDED_CARD or call.dialect != _GRPC_0_3:
        return False
    sanitized = backend.source.sanitized
    return sanitized is not None and not sanitized.extended and _GRPC_0_3 not in backend.upstream.dialects.interfaces()


async def send_extended(
    request: RequestContext, backend: Backend, call: Call, client: Responder, clock: Callable[[], float]
) -> None:
    """Answer a call for the extended card from the cards of the gateway.

    Raises:
        UpstreamConnect, UpstreamProtocol: there is no card.
    """
    assert request.rule is not None
    card = await backend.cards.inside(request.rule, call.tenant, request.head.host, call.dialect)
    body = binding.of(call.dialect).answer(call, msgspec.Raw(card))
    request.status = 200
    request.first_byte = clock()
    request.bytes_out = len(body)
    await client.answer(200, [(b"x-request-id", request.id.encode("ascii"))], body)


def _wants_modern(request: RequestContext) -> bool:
    """Return whether the client asks for the card of 1.0 alone: by the version, or else by its media type."""
    head = request.head
    written = (head.first(b"a2a-version") or b"").decode("latin-1") or query_value(head.query, "A2A-Version")
    version = parse_version(written or "")
    return version is Version.V1_0 or (version is None and _accepts_a2a_json(request))


def _accepts_a2a_json(request: RequestContext) -> bool:
    return accepts(request.head.all(b"accept"), A2A_JSON)
