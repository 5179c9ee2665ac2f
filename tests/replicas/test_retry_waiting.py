"""Calls that wait for their replica: what a rolling restart is to them, in the order in which agents stop."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.upstream.balancer import Balancer
from tests.support.gateway import JSON, Running, agent
from tests.support.replicated import asks, count, get, named, replicated, sends, sent, task
from tests.support.scripted import WAIT, Script, ScriptedBackend, Wire, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

WAITS = "    affinity: { wait: 30s }\n    health: { eject: { after: 1000 } }\n"


class Site:
    """A gateway in front of two replicas, of which the first has the task `a-1`."""

    def __init__(self, gateway: Running, first: ScriptedBackend) -> None:
        self.gateway = gateway
        self.first = first

    @property
    def balancer(self) -> Balancer:
        return self.gateway.gateway.snapshot.backends["echo"].balancer

    def ask(self, body: bytes) -> "asyncio.Task[Any]":
        return asyncio.create_task(sent(self.gateway, body))

    async def missed(self, times: int) -> None:
        """Wait until the first replica was missed so often in a row."""
        condition = next(iter(self.balancer.replicas.values())).condition
        await self.gateway.until(lambda: condition.ejection.failures >= times)

    @asynccontextmanager
    async def successor(self, script: Script) -> AsyncIterator[ScriptedBackend]:
        """Another process in the place of the first replica."""
        async with ScriptedBackend(agent(script), port=self.first.port) as backend:
            yield backend


@asynccontextmanager
async def site(first: Script | None = None, more: str = WAITS) -> AsyncIterator[Site]:
    """Both replicas are up, and the first one has nothing to do."""
    async with replicated(named("a") if first is None else agent(first), named("b"), more=more) as (gateway, backends):
        while (await sent(gateway))["result"]["task"]["id"] != "a-1":
            pass
        yield Site(gateway, backends[0])


async def resets(wire: Wire) -> None:
    """Reads a call and resets, on every connection."""
    await wire.request()
    wire.reset()


GET = asks("GetTask", id="a-1")


async def test_a_read_is_not_sent_on_what_an_agent_that_stops_has_left_open() -> None:
    held, go = asyncio.Event(), asyncio.Event()

    async def stops(wire: Wire) -> None:
        """Finishes what it has, says nothing of the end, and resets the connection for the next request."""
        while json.loads((await wire.request()).body)["method"] == "SendMessage":
            await wire.send(whole(task("a-1")))
        held.set()
        await go.wait()
        await wire.send(whole(get("a-1")))
        await resets(wire)

    async with site(stops) as there:
        client = await there.gateway.client()
        await client.ask("POST", "/echo", asks("CancelTask", id="a-1"), (JSON,))
        await held.wait()
        there.first.deafen()
        reading = there.ask(GET)
        # More often than a call is repeated.
        await there.missed(3)
        go.set()
        assert (await client.answer()).json["result"]["id"] == "a-1"
        await there.missed(2)
        assert not reading.done()
        async with there.successor(named("a")) as successor:
            async with asyncio.timeout(WAIT):
                assert (await reading)["result"]["id"] == "a-1"
            assert count(successor) == 1
        assert not [each for each in there.first.requests if b"GetTask" in each.body]


async def test_a_call_that_waited_is_still_retried_once() -> None:
    broken = 0

    async def breaks_once(wire: Wire) -> None:
        nonlocal broken
        broken += 1
        await (resets(wire) if broken == 1 else named("a")(wire))

    async with site() as there:
        await there.first.__aexit__(None, None, None)
        reading = there.ask(GET)
        await there.missed(3)
        async with there.successor(breaks_once) as successor:
            async with asyncio.timeout(WAIT):
                assert (await reading)["result"]["id"] == "a-1"
            assert count(successor) == 2


@for_each(
    ("body", "times"),
    [(GET, 2), (asks("CancelTask", id="a-1"), 2), (sends(task="a-1"), 1)],
)
async def test_and_no_more_than_that(body: bytes, times: int) -> None:
    async with site() as there:
        await there.first.__aexit__(None, None, None)
        asking = there.ask(body)
        await there.missed(3)
        async with there.successor(resets) as successor:
            async with asyncio.timeout(WAIT):
                assert (await asking)["error"]["data"][0]["reason"] == "UPSTREAM_RESET"
            assert count(successor) == times


async def test_waiting_calls_cost_no_retry_budget() -> None:
    async with site(more=WAITS + "    retry: { budget: 0 }\n") as there:
        await there.first.__aexit__(None, None, None)
        waiting = [there.ask(GET) for _ in range(30)]
        await there.missed(90)
        async with there.successor(named("a")):
            async with asyncio.timeout(WAIT):
                assert {each["result"]["id"] for each in await asyncio.gather(*waiting)} == {"a-1"}
        assert there.gateway.metric("backend_retries_total") == 0


async def test_one_waiting_call_tries_an_ejected_backend() -> None:
    more = WAITS.replace("eject: {", "breaker: { after: 3, time: 1s }, eject: {")
    async with site(more=more) as there:
        await there.first.__aexit__(None, None, None)
        breaker, clock = there.balancer.breaker, there.balancer.clock
        waiting = [there.ask(GET) for _ in range(8)]
        await there.gateway.until(lambda: breaker.is_open)
        left: list[float] = []
        go = asyncio.Event()
        play = named("a")

        async def watched(wire: Wire) -> None:
            left.append(breaker.left(clock()))
            # Long enough for the trial to be the only one.
            breaker.time = 60
            await go.wait()
            await play(wire)

        async with there.successor(watched) as successor, asyncio.timeout(WAIT):
            await successor.until(lambda: bool(left))
            assert left == [0.0]
            assert not breaker.admits(clock())
            go.set()
            # Some may have come when it was ejected already.
            assert any("result" in each for each in await asyncio.gather(*waiting))
        assert not breaker.is_open
