"""The cards that are served: from the agent's card, for an endpoint, kept until the agent's card changes."""

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from gateway.a2a import sanitized_card
from gateway.a2a.card import CardInvalid
from gateway.a2a.fault import UpstreamConnect, UpstreamProtocol
from gateway.a2a.operation import Operation
from gateway.a2a.sanitized_card import SanitizedCard, sanitize
from gateway.cards import serve
from gateway.cards.fetch import ASIDE, KEEP
from gateway.cards.serve import PublicUrl, upstream_hosts
from tests.cards.serving import (
    DIALECTS,
    LEGACY,
    LEGACY_REST,
    MODERN,
    OWN,
    SHARED,
    WILD,
    Cards,
    cards,
    extended,
)
from tests.support.gateway import card_of
from tests.table import for_each

pytestmark = pytest.mark.anyio

# ---- Where it says the agent is ------------------------------------------------------------------------------------


@for_each(
    ("public", "host", "path", "url"),
    [
        ("https://gw.test", None, ("echo",), "https://gw.test/echo"),
        ("https://gw.test/", None, ("echo",), "https://gw.test/echo"),
        ("https://gw.test/a/b/", None, ("echo", "x"), "https://gw.test/a/b/echo/x"),
        ("https://gw.test:8443/a", "agents.test", (), "https://agents.test:8443/a/"),
        ("http://127.0.0.1:8080", None, (), "http://127.0.0.1:8080/"),
        ("https://[::1]:8443", None, ("echo",), "https://[::1]:8443/echo"),
    ],
)
def test_a_public_url_is_never_guessed(public: str, host: str | None, path: tuple[str, ...], url: str) -> None:
    assert PublicUrl.parse(public).at(host, path) == url


async def test_a_card_promises_only_relayed_capabilities() -> None:
    every = {Operation.SEND_MESSAGE}
    async with cards(methods=frozenset(every)) as made:
        told = made.shown()["capabilities"]
        assert not told.get("streaming")
        assert not told.get("pushNotifications")
        assert not told.get("extendedAgentCard")
    async with cards() as made:
        told = made.shown()["capabilities"]
        assert (told["streaming"], told["pushNotifications"], told["extendedAgentCard"]) == (True, True, True)


# ---- How long it is kept -------------------------------------------------------------------------------------------


async def test_a_card_is_made_once_for_each_endpoint_and_tenant() -> None:
    async with cards() as made:
        first = made.cards.card(OWN, None, "gw.test")
        assert made.cards.card(OWN, None, "other.test") is first
        assert made.cards.card(OWN, "acme", "gw.test") is not first
        assert made.cards.card(SHARED, None, "gw.test") is not first
        old = made.cards.card(OWN, None, "gw.test", old=True)
        assert old.etag != first.etag
        assert made.cards.card(OWN, None, "gw.test", old=True) is old
        assert first.etag != made.cards.card(OWN, "acme", "gw.test").etag


async def test_a_card_is_made_again_when_the_agents_changes() -> None:
    async with cards() as made:
        first = made.cards.card(OWN, None, "gw.test")
        made.learn(card_of("http://agent.internal:7000/deep", *DIALECTS, name="Changed"))
        second = made.cards.card(OWN, None, "gw.test")
        assert json.loads(second.body)["name"] == "Changed"
        assert second.etag != first.etag
        made.learn(card_of("http://agent.internal:7000/deep", *DIALECTS, name="Changed"))
        assert made.cards.card(OWN, None, "gw.test") is second


async def test_frequently_requested_cards_are_kept_longest() -> None:
    async with cards() as made:
        first = made.cards.card(OWN, None, "gw.test")
        for number in range(200):
            made.cards.card(WILD, None, f"x{number}.agents.test")
            assert made.cards.card(OWN, None, "gw.test") is first


async def test_the_agents_card_is_never_searched_because_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    async with cards() as made:
        for module in (serve, sanitized_card):
            monkeypatch.setattr(module, "sanitize", refuse)
        made.cards.card(OWN, None, "gw.test")
        made.cards.card(WILD, "acme", "a.agents.test", bare=True)


async def test_a_card_that_was_never_read_is_not_there() -> None:
    async with httpx.AsyncClient(verify=False) as client:
        made = Cards(client, "https://gw.test")
        with pytest.raises(UpstreamConnect) as raised:
            made.cards.card(OWN, None, "gw.test")
        assert "agent.internal" not in raised.value.message


async def test_a_card_whose_agent_has_long_been_silent_is_not_shown() -> None:
    async with cards() as made:
        made.clock.now = KEEP + 1
        made.shown()
        made.source.error = "answered 500"
        made.clock.now = KEEP
        made.shown()
        made.clock.now = KEEP + 1
        with pytest.raises(UpstreamConnect):
            made.shown()


async def test_a_card_that_cannot_be_served_is_tried_once_until_the_agents_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        tried.append(arguments)
        raise CardInvalid("too long by 7 bytes")

    async with cards() as made:
        with monkeypatch.context() as patch:
            patch.setattr(serve, "encode_card", refuse)
            for _ in range(3):
                with pytest.raises(UpstreamProtocol) as raised:
                    made.shown()
                assert raised.value.detail == "too long by 7 bytes"
            assert len(tried) == 1
        made.learn(card_of("http://agent.internal:7000/deep", *DIALECTS, name="Changed"))
        assert made.shown()["name"] == "Changed"


# ---- Extended cards ------------------------------------------------------------------------------------------------


async def test_an_extended_card_is_in_the_dialect_of_the_call() -> None:
    raw = card_of("http://agent.internal:7000/deep", *DIALECTS)
    async with cards(schemes=("bearer",)) as made:
        modern, legacy, rest = [
            json.loads(await extended(made, raw, dialect=dialect)) for dialect in (MODERN, LEGACY, LEGACY_REST)
        ]
    assert "supportedInterfaces" in modern
    assert "preferredTransport" in legacy
    assert legacy["securitySchemes"] == {"bearer": {"type": "http", "scheme": "Bearer"}}
    assert rest["securitySchemes"]["bearer"]["httpAuthSecurityScheme"] == {"scheme": "Bearer"}


async def test_long_extended_cards_are_worked_on_in_a_thread_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    here, at_work, most = threading.get_ident(), threading.Lock(), []

    def watched(*arguments: Any) -> SanitizedCard:
        most.append((threading.get_ident() == here, at_work.acquire(blocking=False)))
        try:
            return sanitize(*arguments)
        finally:
            at_work.release()

    monkeypatch.setattr(serve, "sanitize", watched)
    async with cards() as made:
        await extended(made, card_of("http://agent.internal/", *DIALECTS))
        assert most == [(True, True)]
        long = [
            card_of("http://agent.internal/", *DIALECTS, name=str(number), description="x" * ASIDE)
            for number in (1, 2, 3, 3)
        ]
        bodies = await asyncio.gather(*(extended(made, raw) for raw in long))
        assert [json.loads(body)["name"] for body in bodies] == ["1", "2", "3", "3"]
        assert most[1:] == [(False, True)] * 3


@for_each("raw", [b"null", b"[]", b'"x"', b"{", b"\xff", b'{"name":"a","name":"a"}', b" " * 300_000])
async def test_a_malformed_extended_card_is_refused(raw: bytes) -> None:
    async with cards() as made:
        for _ in range(2):
            with pytest.raises(UpstreamProtocol):
                await extended(made, raw)


async def test_an_extended_card_of_an_agent_that_is_not_known_yet_is_refused() -> None:
    async with httpx.AsyncClient(verify=False) as client:
        made = Cards(client, "https://gw.test")
        with pytest.raises(UpstreamProtocol):
            await extended(made, card_of("http://x/", "JSONRPC 1.0"))


# ---- What must not be seen -----------------------------------------------------------------------------------------


def test_the_gateways_own_places_have_the_port_that_its_urls_show() -> None:
    assert PublicUrl.parse("https://GW.test/x").places(("a.test", "*.b.test")) == ("gw.test", "a.test", "*.b.test")
    assert PublicUrl.parse("https://gw.test:8443").places(("a.test",)) == ("gw.test:8443", "a.test:8443")


def test_hosts_are_secret_with_and_without_their_port() -> None:
    assert upstream_hosts("http://agent.internal:7000/deep", None, "https://cards.internal/x.json") == (
        "agent.internal:7000",
        "agent.internal",
        "cards.internal",
    )
    assert upstream_hosts("http://user:word@agent.internal/") == ("agent.internal",)
