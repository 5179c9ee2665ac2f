"""The card of an agent on stdio: what the process says, over what the operator wrote, and never a command."""

import json
from typing import Any, cast

import pytest

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.cards.fetch import CardPlace, CardReport, CardSource, open_client
from gateway.cards.fetch_stdio import StdioCards
from gateway.upstream.stdio.agent import CardQuery, Handshake, StdioAgent
from tests.table import for_each

pytestmark = pytest.mark.anyio

CARD: dict[str, Any] = {
    "name": "Notes",
    "description": "Keeps notes.",
    "version": "1.0.0",
    "url": "rm -rf /",
    "preferredTransport": "stdio",
    "protocolVersion": "0.3.0",
    "capabilities": {"streaming": True},
    "skills": [],
}
STUB: dict[str, Any] = {"name": "Stub", "url": "notes --secret", "preferredTransport": "stdio", "iconUrl": "https://x/"}


class CardAnswer:
    """An agent that tells this of itself."""

    def __init__(self, card: object, *versions: Version) -> None:
        self.asked: list[bool] = []
        self.card = card if isinstance(card, bytes | None) else json.dumps(card).encode()
        self.versions = versions

    async def handshake(self, query: CardQuery, seconds: float, *, again: bool = False) -> Handshake:
        del query
        self.asked.append(again)
        return Handshake(self.card, self.versions)


def cards(told: CardAnswer, stub: dict[str, Any] | None = None, version: Version | None = None) -> StdioCards:
    return StdioCards(cast("StdioAgent", told), stub, CardQuery(version))


async def test_the_card_is_the_agents_own_behind_its_pipe() -> None:
    told = await cards(CardAnswer(CARD)).ask(1, 10_000)
    assert [each.dialect for each in told.spoken] == [Dialect(Binding.JSONRPC, Version.V0_3)]
    assert not told.personal
    card = json.loads(told.card or b"")
    assert (card["name"], card["supportedInterfaces"]) == (
        "Notes",
        [{"url": "stdio:", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}],
    )
    assert "rm -rf" not in str(card)


async def test_configured_members_fill_gaps_of_the_agents_card() -> None:
    told = await cards(CardAnswer({**CARD, "url": None}, Version.V1_0), STUB).ask(1, 10_000)
    card = json.loads(told.card or b"")
    assert (card["name"], card["iconUrl"]) == ("Notes", "https://x/")
    assert [each.dialect.version for each in told.spoken] == [Version.V1_0]
    told = await cards(CardAnswer(None), STUB).ask(1, 10_000)
    assert json.loads(told.card or b"")["name"] == "Stub"
    assert [each.dialect.version for each in told.spoken] == [Version.V0_3]


async def test_the_files_word_on_the_generation_is_the_last() -> None:
    told = await cards(CardAnswer(CARD, Version.V1_0), version=Version.V1_0).ask(1, 10_000)
    assert [each.dialect.version for each in told.spoken] == [Version.V1_0]


async def test_an_agent_without_a_card_may_have_shown_its_generation() -> None:
    told = await cards(CardAnswer(None, Version.V1_0)).ask(1, 10_000)
    assert (told.card, [each.dialect.version for each in told.spoken]) == (None, [Version.V1_0])


TWICE = b'{"name": "Notes", "name": "Other"}'


@for_each("card", [b"[]", b"{", b'{"description": 1}', b'"x"', TWICE, b'{"name": "%b"}' % (b"x" * 20_000)])
async def test_a_malformed_card_is_refused(card: bytes) -> None:
    with pytest.raises(UpstreamProtocol):
        await cards(CardAnswer(card)).ask(1, 10_000)
    if not card.startswith(b'{"desc') and card is not TWICE:
        with pytest.raises(UpstreamProtocol):
            await cards(CardAnswer(card), STUB).ask(1, 10_000)


@for_each("member", [b'"name": "Other"', b'"build": 20261129002900000000001'])
async def test_a_card_that_is_not_strict_leaves_the_written_one_and_tells_the_version(member: bytes) -> None:
    card = json.dumps(CARD).encode().removesuffix(b"}") + b", " + member + b"}"
    async with open_client() as client:
        asker = cards(CardAnswer(card), STUB)
        answer = await asker.ask(1, 10_000)
        assert [each.dialect.version for each in answer.spoken] == [Version.V0_3]
        source = CardSource(CardPlace("stdio:notes", keep=0.0), client, asker=asker)
        assert asker.stub is not None
        source.begin_with(asker.stub)
        assert await source.refresh() is CardReport.INVALID
        assert source.card is not None
        assert source.card["name"] == "Stub"


async def test_the_stub_is_shown_until_the_agent_has_told_its_own_and_is_never_stale() -> None:
    async with open_client() as client:
        told = CardAnswer(b"{")
        asker = cards(told, STUB)
        source = CardSource(CardPlace("stdio:notes", keep=0.0), client, asker=asker)
        assert asker.stub is not None
        source.begin_with(asker.stub)
        assert source.card is not None
        assert await source.refresh() is CardReport.REFUSED
        assert (source.card["name"], source.stale) == ("Stub", False)
        told.card = json.dumps(CARD).encode()
        assert await source.refresh() is CardReport.READ
        assert source.card["name"] == "Notes"
    assert cards(told).stub is None
