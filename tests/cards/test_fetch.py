"""Reading agents' cards in the background."""

import asyncio
import json
import logging
import math
from pathlib import Path

import httpx
import pytest

from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import Discretion
from gateway.cards.fetch import KEEP, CardPlace, CardReport, CardSource, CardWatch, Timing, origin
from tests.cards.double import ECHO, Asked, agent, always, choose, reply
from tests.table import for_each

pytestmark = pytest.mark.anyio

VECTORS: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "AgentCard.json").read_text())
WELL_KNOWN = "/.well-known/agent-card.json"
OLD = "/.well-known/agent.json"

ECHO_SPOKEN = (CardInterface(Dialect(Binding.JSONRPC, Version.V1_0), "http://a/rpc"),)


class Clock:
    """Holds still until told; `rest` ends only when the test lets it, or at once for `free` rests."""

    def __init__(self, free: int = 0) -> None:
        self.now = 1000.0
        self.rests: list[float] = []
        self.resting = asyncio.Event()
        self._free = free

    async def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds
        if len(self.rests) > self._free:
            self.resting.set()
            await asyncio.Event().wait()

    def timing(self, chance: float = 0.0) -> Timing:
        return Timing(clock=lambda: self.now, rest=self.rest, chance=lambda: chance)


async def run_until_it_rests(source: CardSource, clock: Clock) -> None:
    task = asyncio.get_running_loop().create_task(source.run())
    async with asyncio.timeout(10):
        await clock.resting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---- A card is read ------------------------------------------------------------------------------------------------


async def test_a_card_is_read_from_the_well_known_path_as_1_0(client: httpx.AsyncClient) -> None:
    reports: list[CardReport] = []
    changes: list[int] = []
    async with agent(always(reply(ECHO))) as echo:
        watch = CardWatch(reports.append, lambda: changes.append(1))
        source = CardSource(CardPlace(echo.url + "/base/"), client, watch)
        assert (source.card, source.spoken, source.version, source.error) == (None, (), 0, None)
        assert not source.settled.is_set()
        assert not source.stale
        assert source.age == math.inf
        assert await source.refresh() is CardReport.READ
    assert source.settled.is_set()
    assert (source.card, source.spoken, source.version, source.error) == (ECHO, ECHO_SPOKEN, 1, None)
    assert (reports, changes) == ([CardReport.READ], [1])
    [asked] = echo.asked
    assert asked.path == "/base" + WELL_KNOWN
    assert asked.headers["a2a-version"] == "1.0"
    assert asked.headers["accept-encoding"] == "identity"
    assert "authorization" not in asked.headers


async def test_the_old_name_is_asked_when_the_new_one_is_missing(client: httpx.AsyncClient) -> None:
    missing = reply(b"", status=404)
    async with agent(choose(lambda asked: missing if asked.path == WELL_KNOWN else reply(VECTORS["v0.1"]))) as old:
        source = CardSource(CardPlace(old.url), client)
        await source.refresh()
    assert [asked.path for asked in old.asked] == [WELL_KNOWN, OLD]
    assert [each.dialect.version for each in source.spoken] == [Version.V0_1]


@pytest.mark.parametrize(
    ("card_url", "paths"),
    [
        ("/cards/echo.json", ["/cards/echo.json"]),
        ("/card?assistant_id=7", ["/card?assistant_id=7"]),
        ("/elsewhere", ["/elsewhere" + WELL_KNOWN, "/elsewhere" + OLD, "/elsewhere"]),
    ],
)
async def test_a_card_may_be_elsewhere(client: httpx.AsyncClient, card_url: str, paths: list[str]) -> None:
    async with agent(choose(lambda asked: reply(ECHO) if asked.path == paths[-1] else reply(b"", status=404))) as echo:
        source = CardSource(CardPlace("http://192.0.2.1/", card_url=echo.url + card_url), client)
        assert await source.refresh() is CardReport.READ
    assert [asked.path for asked in echo.asked] == paths


async def test_credentials_go_to_the_backends_own_origin_only(client: httpx.AsyncClient) -> None:
    credentials = {"Authorization": "Bearer upstream-secret"}
    async with agent(always(reply(ECHO))) as own, agent(always(reply(ECHO))) as other:
        await CardSource(CardPlace(own.url, credentials=credentials), client).refresh()
        await CardSource(CardPlace(own.url, card_url=own.url + "/c.json", credentials=credentials), client).refresh()
        await CardSource(CardPlace(own.url, card_url=other.url + "/c.json", credentials=credentials), client).refresh()
    assert [asked.headers["authorization"] for asked in own.asked] == ["Bearer upstream-secret"] * 2
    assert "authorization" not in other.asked[0].headers


async def test_a_static_card_is_never_fetched(client: httpx.AsyncClient) -> None:
    source = CardSource(CardPlace("http://192.0.2.1/", static=ECHO), client)
    assert (source.card, source.spoken, source.version) == (ECHO, ECHO_SPOKEN, 1)
    assert source.settled.is_set()
    assert (source.stale, source.age) == (False, 0.0)
    async with asyncio.timeout(5):
        await source.run()


async def test_the_sanitized_card_is_made_when_a_card_is_read(client: httpx.AsyncClient) -> None:
    discretion = Discretion(overrides={"version": "9"}, secrets=("orders.internal",))
    async with agent(always(reply({**ECHO, "description": "at orders.internal:1"}))) as echo:
        source = CardSource(CardPlace(echo.url), client, discretion=discretion)
        assert source.sanitized is None
        await source.refresh()
    assert source.sanitized is not None
    assert (source.sanitized.version, source.sanitized.description) == ("9", "at [removed]")


# ---- Two shapes at one address -------------------------------------------------------------------------------------


async def test_an_agent_that_answers_by_version_gets_asked_for_both_shapes(client: httpx.AsyncClient) -> None:
    def pick(asked: Asked) -> bytes:
        shape = "v1.0" if asked.headers.get("a2a-version") == "1.0" else "v0.3"
        etag = f'"{shape}"'
        if asked.headers.get("if-none-match") == etag:
            return reply(b"", "Vary: Accept, A2A-Version", status=304)
        modern = {**VECTORS[shape]}
        if shape == "v1.0":
            modern["supportedInterfaces"] = modern["supportedInterfaces"][:2]
        return reply(modern, "Vary: Accept", "Vary: a2a-version", f"ETag: {etag}")

    async with agent(choose(pick)) as varying:
        source = CardSource(CardPlace(varying.url), client)
        assert await source.refresh() is CardReport.READ
        assert [str(each.dialect) for each in source.spoken] == [
            "JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3",
        ]  # fmt: skip
        assert await source.refresh() is CardReport.UNCHANGED
    assert source.version == 1
    assert [asked.headers.get("a2a-version") for asked in varying.asked] == ["1.0", None, "1.0", None]


async def test_the_second_shape_of_last_time_stays_while_it_cannot_be_read(client: httpx.AsyncClient) -> None:
    broken = False

    def pick(asked: Asked) -> bytes:
        if asked.headers.get("a2a-version") == "1.0":
            return reply(ECHO, "Vary: A2A-Version")
        return reply(b"", status=500) if broken else reply(VECTORS["v0.3"], "Vary: A2A-Version")

    async with agent(choose(pick)) as varying:
        source = CardSource(CardPlace(varying.url), client)
        await source.refresh()
        before = source.spoken
        broken = True
        assert await source.refresh() is CardReport.READ
        assert source.spoken == before
        half = CardSource(CardPlace(varying.url), client)
        await half.refresh()
        assert half.spoken == ECHO_SPOKEN


# ---- A card is kept fresh ------------------------------------------------------------------------------------------


async def test_a_card_is_revalidated_and_a_change_counts_once(client: httpx.AsyncClient) -> None:
    name = "Echo"

    def pick(asked: Asked) -> bytes:
        if asked.headers.get("if-none-match") == f'W/"{name}"':
            return reply(b"", status=304)
        return reply({**ECHO, "name": name}, f'ETag: W/"{name}"')

    async with agent(choose(pick)) as echo:
        clock = Clock()
        source = CardSource(CardPlace(echo.url), client, timing=clock.timing())
        assert await source.refresh() is CardReport.READ
        clock.now += 60
        assert source.age == 60
        assert await source.refresh() is CardReport.UNCHANGED
        assert (source.age, source.version) == (0, 1)
        name = "Other"
        assert await source.refresh() is CardReport.READ
        assert (source.card or {})["name"] == "Other"
        assert source.version == 2


async def test_a_304_that_was_not_asked_for_is_no_card(client: httpx.AsyncClient) -> None:
    async with agent(always(reply(b"", status=304))) as odd:
        source = CardSource(CardPlace(odd.url), client)
        assert await source.refresh() is CardReport.REFUSED


@for_each(
    ("raw", "chance", "rests"),
    [
        (reply(ECHO), 0.0, [600.0] * 3),
        # Pauses differ by chance; who is silent is asked again sooner, and then more rarely.
        (reply(ECHO), 1.0, [450.0]),
        (b"", 0.0, [1, 2, 4, 8, 16, 30, 30]),
    ],
)
async def test_a_card_is_read_again_after_a_pause(
    client: httpx.AsyncClient, raw: bytes, chance: float, rests: list[float]
) -> None:
    clock = Clock(free=len(rests) - 1)
    async with agent(always(raw)) as there:
        await run_until_it_rests(CardSource(CardPlace(there.url), client, timing=clock.timing(chance)), clock)
    assert clock.rests == rests
    assert len(there.asked) >= len(rests)


async def test_the_last_good_card_stays_for_an_hour_and_is_stale_then(client: httpx.AsyncClient) -> None:
    clock = Clock()
    async with agent(always(reply(ECHO))) as echo:
        source = CardSource(CardPlace(echo.url), client, timing=clock.timing())
        await source.refresh()
        echo.answer = always(reply(b"<html>"))
        assert await source.refresh() is CardReport.INVALID
        clock.now += KEEP
        assert await source.refresh() is CardReport.INVALID
        assert source.error is not None
        staleness = [source.stale]
        clock.now += 1
        staleness.append(source.stale)
        assert (source.card, source.version) == (ECHO, 1)
        echo.answer = always(reply(ECHO))
        assert await source.refresh() is CardReport.READ
        staleness.append(source.stale)
        assert staleness == [False, True, False]
        assert source.error is None
        assert source.version == 1


async def test_an_agent_that_is_asked_rarely_has_no_stale_card_while_it_answers(client: httpx.AsyncClient) -> None:
    clock = Clock()
    async with agent(always(reply(ECHO))) as echo:
        source = CardSource(CardPlace(echo.url, keep=60, ttl=600), client, timing=clock.timing())
        await source.refresh()
        clock.now += 600
        assert not source.stale
        echo.answer = always(reply(b"", status=500))
        await source.refresh()
        assert source.stale


async def test_one_kind_of_failure_is_logged_once(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gateway.cards.fetch")
    async with agent(always(reply(b"", status=500))) as echo:
        source = CardSource(CardPlace(echo.url, card_url=echo.url + "/c.json?token=secret"), client)
        await source.refresh()
        await source.refresh()
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text


async def test_a_cancelled_first_attempt_lets_waiters_go(client: httpx.AsyncClient) -> None:
    asked = asyncio.Event()

    async def hang(_asked: Asked, _writer: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with agent(hang) as hanging:
        source = CardSource(CardPlace(hanging.url), client)
        task = asyncio.get_running_loop().create_task(source.run())
        await asked.wait()
        assert not source.settled.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.settled.is_set()


def test_replicas_are_asked_in_turn() -> None:
    place = CardPlace("http://a", others=("http://b", "http://c"))
    turns = [place, second := place.elsewhere(), third := second.elsewhere(), third.elsewhere()]
    assert [each.backend_url for each in turns] == ["http://a", "http://b", "http://c", "http://a"]
    assert all(len(each.others) == 2 for each in turns)
    alone = CardPlace("http://a")
    assert alone.elsewhere() is alone


def test_an_origin_is_scheme_host_and_port() -> None:
    assert origin("http://A.example/x") == origin("http://a.example:80/y?z") != origin("https://a.example")
    assert origin("https://a.example") == origin("https://a.example:443")
    # A URL without a valid port equals no other.
    assert origin("http://a.example:x") != origin("http://a.example:y")
    assert origin("http://a.example:x")[1] is None
