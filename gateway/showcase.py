"""The answer to who reads an agent's card at a well-known path."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from gateway.a2a import envelope
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version, parse_version
from gateway.a2a.headers import A2A_JSON, Pairs, accepts
from gateway.a2a.operation import Operation
from gateway.a2a.path import PathCall
from gateway.a2a.query import query_value
from gateway.backing import Backing
from gateway.cards.serve import ServedCard, sign_in_card
from gateway.exchange import Exchange
from gateway.routing.route import Rule, Verdict
from gateway.snapshot import Snapshot
from gateway.wire import Wire

FIRST_CARD = 5.0
"""Seconds to wait for an agent's first card, while the gateway is asking for it; later ones are never waited for."""
MAX_AGE = 60
"""Seconds for which a client may keep a card."""
_GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)
_OLD = "agent.json"
"""Where clients before 0.3 look, and no others."""


async def show(
    snapshot: Snapshot,
    exchange: Exchange,
    verdict: Verdict,
    wire: Wire,
    *,
    path: PathCall,
    clock: Callable[[], float],
) -> None:
    """Answer with the card of the agent that was found, or with the one that says how to sign in.

    Args:
        path: Which of the two cards is asked for, and the tenant that it names.

    Raises:
        UpstreamConnect, UpstreamProtocol: there is no card to show.
    """
    old = path.card == _OLD
    modern = not old and _asks_for_modern(exchange)
    if verdict.signs_in:
        card = _sign_in(snapshot, exchange, verdict.contenders[0], path, modern=modern)
        await _answer(exchange, wire, card, public=False, modern=modern, clock=clock)
        return
    route, rule = verdict.route, verdict.rule
    assert route is not None
    assert rule is not None
    backing = snapshot.backings[route.backend]
    if backing.source.card is None and not backing.source.settled.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_CARD):
                await backing.source.settled.wait()
    tenant, bare = rule.tenant, False
    if route.tenant is not None:
        # A known caller sees its own backend's card and the tenant that it must write; anybody else sees none of
        # a customer's: the product's card where the file has one, else only how to call the agent.
        own = _is_own(snapshot, exchange, backing, (route.tenant, path.tenant))
        tenant, bare = (route.tenant if own else None), not (own or backing.product)
    personal = backing.source.personal
    if personal and not _may_call(snapshot, exchange, backing):
        # The agent meant it for who may call it.
        bare = True
    card = backing.cards.card(rule, tenant, exchange.head.host, bare=bare, old=old, modern=modern)
    # Picked by a credential, or a tenant's own: nobody else may be shown it from a cache.
    picked = route.tenant is not None or any(condition[0] in ("key", "claim") for condition in rule.conditions)
    public = snapshot.table.agents[backing.agent].public and not picked and not personal
    await _answer(exchange, wire, card, public=public, modern=modern, clock=clock)


def _sign_in(snapshot: Snapshot, exchange: Exchange, rule: Rule, path: PathCall, *, modern: bool) -> ServedCard:
    """The card for strangers where credentials pick among several agents: it names none, whoever they are.

    Args:
        rule: Any of those at the endpoint; only where it is found counts.
    """
    return sign_in_card(
        snapshot.public,
        exchange.head.host if rule.host is not None and rule.host.startswith("*.") else rule.host,
        rule.path,
        tenant=path.tenant,
        schemes=snapshot.authenticator.schemes,
        old=path.card == _OLD,
        modern=modern,
    )


async def _answer(
    exchange: Exchange, wire: Wire, card: ServedCard, *, public: bool, modern: bool, clock: Callable[[], float]
) -> None:
    exchange.first_byte = clock()
    etag = card.etag.encode("ascii")
    headers: Pairs = [
        (b"etag", etag),
        (b"cache-control", b"%s, max-age=%d" % (b"public" if public else b"private", MAX_AGE)),
        (b"vary", b"Authorization, X-API-Key, Accept, A2A-Version"),
        (b"x-request-id", exchange.id.encode("ascii")),
    ]
    if _holds(exchange, etag):
        exchange.status = 304
        await wire.answer(304, headers, b"")
        return
    exchange.status = 200
    exchange.bytes_out = len(card.body)
    headers.append((b"content-type", A2A_JSON if modern and _takes_a2a_json(exchange) else b"application/json"))
    await wire.answer(200, headers, card.body)


def answers(backing: Backing, call: Call) -> bool:
    """Whether a call is for the card that anybody may see, and not for an extended one.

    0.3 has one method over gRPC for both (protocol trap 27), and its SDKs call it for either.
    """
    if call.operation is not Operation.GET_EXTENDED_CARD or call.dialect != _GRPC_0_3:
        return False
    portrait = backing.source.portrait
    return portrait is not None and not portrait.extended and _GRPC_0_3 not in backing.upstream.interfaces()


async def tell(exchange: Exchange, backing: Backing, call: Call, wire: Wire, clock: Callable[[], float]) -> None:
    """Answer such a call.

    Raises:
        UpstreamConnect, UpstreamProtocol: as `show`.
    """
    assert exchange.rule is not None
    card = backing.cards.inside(exchange.rule, call.tenant, exchange.head.host, call.dialect)
    body = envelope.answer(call, msgspec.Raw(card))
    exchange.status = 200
    exchange.first_byte = clock()
    exchange.bytes_out = len(body)
    await wire.answer(200, [(b"x-request-id", exchange.id.encode("ascii"))], body)


def _asks_for_modern(exchange: Exchange) -> bool:
    """Return whether the client asks for the card of 1.0 alone: by the version, or without one by its media type."""
    head = exchange.head
    said = (head.first(b"a2a-version") or b"").decode("latin-1") or query_value(head.query, "A2A-Version")
    version = parse_version(said or "")
    return version is Version.V1_0 or (version is None and _takes_a2a_json(exchange))


def _takes_a2a_json(exchange: Exchange) -> bool:
    return accepts(exchange.head.all(b"accept"), A2A_JSON)


def _is_own(snapshot: Snapshot, exchange: Exchange, backing: Backing, tenants: tuple[str, str | None]) -> bool:
    """Whether the backend that was found is the caller's: by its own tenant, or by the one it may name and did."""
    principal = exchange.principal
    if principal is None or not _may_call(snapshot, exchange, backing):
        return False
    found, named = tenants
    return found in (principal.tenant, named)


def _may_call(snapshot: Snapshot, exchange: Exchange, backing: Backing) -> bool:
    principal = exchange.principal
    return principal is not None and snapshot.table.may_call(principal, backing.agent)


def _holds(exchange: Exchange, etag: bytes) -> bool:
    # RFC 9110 §13.1.2: weak comparison, and `*` for whatever there is.
    shown = exchange.head.first(b"if-none-match")
    if shown is None:
        return False
    return any(tag.strip() in (etag, b"*", etag.removeprefix(b"W/")) for tag in shown.split(b","))
