"""Shutdown of the gateway: balancers notice, open calls may end, and nothing waits longer than it may."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway import app
from tests.support.assembly import ANYWHERE, CARD, EVENT, HERE, Held, streaming, until
from tests.support.gateway import CALL, JSON, RESULT, STREAM, Running, agent, fronted, running
from tests.support.scripted import WAIT, ScriptedBackend, Wire, answers, chunk, head, whole

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def patient(held: Held, patience: str) -> AsyncIterator[Running]:
    """A gateway that gives what is open so much time to end, in front of one agent at /echo."""
    async with ScriptedBackend(agent(held, CARD)) as backend:
        listens = HERE.replace(" }", f", drain: {patience} }}")
        async with running(f"gateway: {listens}\nagents: {{ echo: '{backend.url}' }}\n") as site:
            yield site


@pytest.mark.parametrize(
    ("written", "drain", "asked", "delay"),
    [
        (HERE, "", None, 0.0),
        (HERE.replace("127.0.0.1:0", "localhost:0", 1), "", None, 0.0),
        (ANYWHERE, "", None, 5.0),
        (ANYWHERE, "drain: 1s", None, 5.0),
        (ANYWHERE, "drain: { delay: 7s }", None, 7.0),
        (ANYWHERE, "drain: { delay: 0s }", None, 0.0),
        (HERE, "drain: { delay: 3s }", None, 3.0),
        (ANYWHERE, "drain: { delay: 7s }", 0.0, 0.0),
    ],
)
async def test_balancers_get_time_to_notice_where_there_may_be_some(
    monkeypatch: pytest.MonkeyPatch, written: str, drain: str, asked: float | None, delay: float
) -> None:
    waited: list[float] = []

    async def within(_event: asyncio.Event, seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(app, "wait_within", within)
    gateway = written.replace(" }", f", {drain} }}") if drain else written
    async with running(f"gateway: {gateway}\nagents: {{}}") as site:
        await site.gateway.stop(asyncio.Event(), delay=asked)
    assert waited == ([delay] if delay else [])


async def test_while_the_delay_runs_requests_are_served_and_nobody_is_called_ready() -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)), CARD)) as backend:
        anywhere = ANYWHERE.replace(" }", ", drain: { delay: 60s } }")
        text = f"gateway: {anywhere}\nagents: {{ echo: '{backend.url}' }}\n"
        async with running(text) as site, asyncio.TaskGroup() as group:
            hurry = asyncio.Event()
            stopping = group.create_task(site.gateway.stop(hurry))
            await until(lambda: site.gateway.draining)
            for admin in (False, True):
                ready = await site.get("/-/ready", admin=admin)
                assert (ready.status, ready.body) == (503, b"draining\n")
                assert (await site.get("/-/live", admin=admin)).status == 200
            answer = await site.post("/echo")
            # Clients that have a connection are told to get another one, elsewhere.
            assert (answer.json, answer.header("connection")) == (json.loads(RESULT), "close")
            assert site.metric("draining") == 1
            assert not stopping.done()
            hurry.set()
            async with asyncio.timeout(WAIT):
                await stopping


async def test_a_call_that_ends_in_time_gets_its_answer_and_nobody_new_is_let_in() -> None:
    held = Held()
    async with fronted(held, card=CARD) as (site, _), asyncio.TaskGroup() as group:
        client = await site.client()
        await client.ask("POST", "/echo", CALL, [JSON])
        await held.asked.wait()
        port = site.port
        stopping = group.create_task(site.gateway.stop(asyncio.Event()))
        await until(lambda: not site.gateway.listeners.servers[0].is_listening)
        with pytest.raises(OSError):  # noqa: PT011 - refused, or reset by a queue that closes
            await (await asyncio.open_connection("127.0.0.1", port))[0].readexactly(1)
        # Watchers see to the end that it drains.
        ready = await site.get("/-/ready", admin=True)
        assert (ready.status, ready.body) == (503, b"draining\n")
        assert not stopping.done()
        held.go.set()
        answer = await client.answer()
        assert answer.json == json.loads(RESULT)
        assert answer.header("connection") == "close"
        await stopping
        line = await site.line()
        assert (line["outcome"], line["status"]) == ("ok", 200)


async def test_a_call_that_does_not_end_in_time_is_told_to_come_back() -> None:
    held = Held()
    async with patient(held, "50ms") as site, asyncio.TaskGroup() as group:
        client = await site.client()
        await client.ask("POST", "/echo", CALL, [JSON])
        await held.asked.wait()
        stopping = group.create_task(site.gateway.stop(asyncio.Event()))
        answer = await client.answer()
        assert (answer.status, answer.json["error"]["code"]) == (503, -31503)
        assert answer.header("retry-after") == "1"
        await stopping
        assert (await site.line())["reason"] == "draining"


@pytest.mark.parametrize("way", ["timeout", "hurry"])
async def test_a_stream_gets_a_last_event_and_a_clean_end(way: str, caplog: pytest.LogCaptureFixture) -> None:
    held = streaming()
    async with patient(held, "50ms" if way == "timeout" else "25s") as site, asyncio.TaskGroup() as group:
        hurry = asyncio.Event()
        client = await site.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        assert (await client.head())[0] == 200
        assert await client.piece() == EVENT
        stopping = group.create_task(site.gateway.stop(hurry))
        if way == "hurry":
            await until(lambda: not site.gateway.listeners.servers[0].is_listening)
            assert not stopping.done()
            hurry.set()
        last = await client.rest()
        assert b"event: error\n" in last
        assert b"DRAINING" in last
        await stopping
        line = await site.line()
        assert (line["reason"], line["closed_by"], line["stream"]) == ("draining", "gateway", True)
        assert "drain timeout: ended 1 open calls" in caplog.messages


async def test_a_client_that_does_not_read_cannot_keep_the_gateway() -> None:
    async def floods(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream"))
        while True:
            await wire.send(chunk(EVENT * 100))

    async with fronted(floods, card=CARD) as (site, backend):
        client = await site.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it can read too
        await client.ask("POST", "/echo", STREAM, [JSON])
        await backend.until(lambda: any(wire.stuck for wire in backend.wires))
        hurry = asyncio.Event()
        hurry.set()
        async with asyncio.timeout(2 * WAIT):
            await site.gateway.stop(hurry)
        assert site.serving == 0
