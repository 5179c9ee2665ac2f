"""Cards of an agent whose own card can be changed, as the gateway serves them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from gateway.a2a.card import MAX_CARD, parse_card
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.sanitized_card import Discretion, sanitize
from gateway.cards.fetch import CardPlace, CardSource, Timing
from gateway.cards.serve import PublicUrl, ServedCards
from gateway.routing.route import Place, Rule
from gateway.upstream.connection_pool import ConnectionPool, Origin
from gateway.upstream.http import HttpUpstream
from gateway.upstream.upstream import Treatment, UpstreamTimeouts
from tests.support.gateway import card_of

HERE = Place("gateway.yaml", 1)
SHARED = Rule("billing", None, ("a2a",), frozenset({("tenant", "billing")}), HERE)
OWN = Rule("echo", None, ("echo",), frozenset(), HERE)
HOSTED = Rule("hosted", "agents.test", (), frozenset(), HERE)
WILD = Rule("wild", "*.agents.test", ("x",), frozenset(), HERE)
MODERN = Dialect(Binding.JSONRPC, Version.V1_0)
LEGACY = Dialect(Binding.JSONRPC, Version.V0_3)
LEGACY_REST = Dialect(Binding.REST, Version.V0_3)

DIALECTS = ("JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Cards:
    """Cards of an agent whose own card can be changed."""

    def __init__(self, client: httpx.AsyncClient, public: str, **more: Any) -> None:
        self.clock = Clock()
        place = CardPlace("http://agent.internal:7000/deep", longest=more.pop("longest", MAX_CARD))
        discretion = Discretion(more.pop("overrides", {}), ("agent.internal",), ("gw.test", "*.agents.test"))
        self.source = CardSource(place, client, discretion=discretion, timing=Timing(clock=self.clock))
        upstream = HttpUpstream(
            backend="echo",
            url="http://agent.internal:7000/deep",
            pool=ConnectionPool(Origin("http", "agent.internal", 7000)),
            cards=self.source,
            timeouts=UpstreamTimeouts(1, 1, 1, 1, 1),
            treatment=Treatment(),
            binding=more.pop("binding", None),
            version=more.pop("version", None),
        )
        settings: dict[str, Any] = {"schemes": (), **more}
        self.cards = ServedCards(self.source, upstream.dialects, PublicUrl.parse(public), **settings)

    def learn(self, raw: bytes) -> None:
        card = parse_card(raw)
        if card != self.source.card:
            self.source.hold(card, sanitize(card, self.source.discretion))
        self.source.fetched_at = self.clock.now

    def shown(
        self,
        rule: Rule = OWN,
        tenant: str | None = None,
        host: str = "gw.test",
        *,
        old: bool = False,
        modern: bool = False,
    ) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cards.card(rule, tenant, host, old=old, modern=modern).body)
        return found


@asynccontextmanager
async def cards(
    public: str = "https://gw.test/agents", *, raw: bytes | None = None, **more: Any
) -> AsyncIterator[Cards]:
    async with httpx.AsyncClient(verify=False) as client:
        made = Cards(client, public, **more)
        made.learn(card_of("http://agent.internal:7000/deep", *DIALECTS) if raw is None else raw)
        yield made


def places(card: dict[str, Any]) -> set[tuple[str, str, str, str | None]]:
    return {
        (each["url"], each["protocolBinding"], each["protocolVersion"], each.get("tenant"))
        for each in card["supportedInterfaces"]
    }


async def extended(made: Cards, raw: bytes, rule: Rule = OWN, **more: Any) -> bytes:
    where = {"host": "gw.test", "dialect": MODERN, **more}
    return await made.cards.extended(raw, rule, where.pop("tenant", None), **where)
