"""The caller of a hostile agent gets one clean answer, and nobody else gets anything of it (safety B4, T14, R7)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.gateway import CALL, JSON, RESULT, STREAM, Answer, Client, Running, agent, card_of, running
from tests.support.hostile import BEHAVIOURS, Behaviour
from tests.support.kept import shared
from tests.support.pool import pool_of
from tests.support.scripted import Script, ScriptedBackend, Wire, answers, answers_and_closes, answers_and_resets, whole
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

CARD = card_of("http://agent/", "JSONRPC 1.0", "HTTP+JSON 1.0")
NEXT = CALL.replace(b'"id":1', b'"id":"next"')
TIMES = "timeouts: { send: 300ms, first_byte: 300ms, stream_idle: 300ms, total: 700ms }"
"""For agents that fall silent; a slow machine is none."""
BOUNDS = "connections: { max: 2, event: 1MiB }"
CODES = {"upstream_protocol": -32006, "upstream_reset": -32603, "upstream_timeout": -32603}
OURS = {"content-type", "content-length", "cache-control", "x-request-id", "transfer-encoding", "x-accel-buffering"}
"""Every header that may reach a client whose agent says nothing of a retry."""


class Turning:
    """Plays `script` on the first connection, and on all others an agent that answers each call under its own id."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.played: Wire | None = None

    async def __call__(self, wire: Wire) -> None:
        if self.played is None:
            self.played = wire
            await self._script(wire)
            return
        while True:
            received = await wire.request()
            identity = json.dumps(json.loads(received.body)["id"]).encode()
            await wire.send(whole(RESULT.replace(b'"id":1', b'"id":' + identity)))


async def called(gateway: Running, behaviour: Behaviour) -> tuple[Client, int, tuple[tuple[str, str], ...]]:
    """Make the call on which it is played."""
    call = STREAM if behaviour.stream else CALL
    if behaviour.large:
        call = call.replace(b'"hi"', b'"' + b"x" * (8 << 20) + b'"')
    client = await gateway.client()
    await client.ask("POST", "/echo", call, [JSON])
    return client, *await client.head()


def said(body: bytes) -> Any:
    """The data of the last event of a stream."""
    return json.loads(body.rstrip(b"\n").rpartition(b"data: ")[2])


async def assert_told(behaviour: Behaviour, client: Client, status: int, headers: tuple[tuple[str, str], ...]) -> None:
    """The client has the agent's good answer, or the gateway's own word on what was wrong."""
    body = await client.rest()
    assert status == 200
    assert {name for name, _ in headers} <= OURS
    assert len({name for name, _ in headers}) == len(headers)
    assert not [value for _, value in headers if "evil" in value or "forged" in value or "169.254" in value]
    for hidden in (b"10.9.8.7", b"169.254", b"<script", b"of another", b"127.0.0.1"):
        assert hidden not in body
    if behaviour.reason is None:
        assert body == RESULT
        assert dict(headers)["content-type"] == "application/json"
        return
    streamed = dict(headers)["content-type"] == "text/event-stream"
    answer = said(body) if streamed else json.loads(body)
    code = -32603 if streamed else CODES[behaviour.reason]
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", 1, code)
    assert answer["error"]["data"][-1]["reason"] == behaviour.reason.upper()
    assert dict(headers)["x-request-id"] == answer["error"]["data"][-1]["metadata"]["requestId"]


@asynccontextmanager
async def opened(times: str) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    async with ScriptedBackend(agent(answers(whole(RESULT)), CARD)) as backend:
        breaker = "health: { breaker: { after: 1000 } }"
        text = f"agents:\n  echo:\n    backend: {backend.url}\n    {times}\n    {BOUNDS}\n    {breaker}\n"
        async with running(text) as gateway:
            yield gateway, backend


@for_each("behaviour", BEHAVIOURS.values())
async def test_hostile_answers_are_clean_errors_and_reach_no_other_caller(behaviour: Behaviour) -> None:
    turning = Turning(behaviour.script)
    times = TIMES if behaviour.reason in ("upstream_timeout", "upstream_idle") else ""
    # The gateway remembers of an agent whether it makes up ids, and then takes no connection twice.
    async with shared((times, behaviour.reused), lambda: opened(times)) as ((gateway, backend), _):
        await gateway.forget()
        # From here on connections are the hostile agent's from their first byte.
        await backend.plays(turning)
        await assert_told(behaviour, *await called(gateway, behaviour))
        line = await gateway.line()
        assert line.get("reason") == behaviour.reason
        assert line["outcome"] == ("ok" if behaviour.reason is None else "upstream_error")
        if behaviour.reason is not None:
            assert gateway.metric("rejected_total", agent="echo", reason=behaviour.reason) == 1
            assert gateway.metric("requests_total", agent="echo", outcome="upstream_error") == 1
        await gateway.rested()
        wire = turning.played
        assert wire is not None
        if not behaviour.reused:
            await backend.until(lambda: wire.gone)
        answer = await gateway.post("/echo", NEXT)
        assert (answer.json["id"], "result" in answer.json) == ("next", True)
        served = backend.requests[-1].connection
        assert (served == wire.number) == behaviour.reused


# ---- A death at any byte -------------------------------------------------------------------------------------------

ANSWER = whole(RESULT)


@for_each("death", [answers_and_closes, answers_and_resets])
async def test_an_answer_that_ends_at_any_byte_but_the_last_is_no_answer(death: Any) -> None:
    async with ScriptedBackend(agent(death(), CARD)) as backend:
        text = f"agents:\n  echo:\n    backend: {backend.url}\n    {BOUNDS}\n"
        async with running(text) as gateway:
            asked = 0
            # A few of those in the head, all of those where something ends.
            for size in [*range(0, 60, 7), *range(len(ANSWER) - len(RESULT) - 5, len(ANSWER), 9), len(ANSWER) - 1]:
                backend.script = death(ANSWER[:size])
                answer: Answer = await gateway.post("/echo")
                asked += 1
                assert (answer.status, answer.json["error"]["code"]) == (200, -32603), size
            await gateway.until(lambda: len(gateway.lines) == asked)
            assert {line["reason"] for line in gateway.lines} == {"upstream_reset"}
            assert len(backend.requests) == asked
            await gateway.rested()
            await backend.all_gone()


# ---- What the wire cannot show ---------------------------------------------------------------------------------------


async def test_a_connection_with_another_calls_answer_serves_no_waiting_call() -> None:
    """The next caller queues for that very connection, and would be handed it in the same moment."""
    go_on = asyncio.Event()

    async def swapped(wire: Wire) -> None:
        await wire.request()
        await go_on.wait()
        await wire.send(whole(RESULT.replace(b'"id":1', b'"id":"next"').replace(b'"ho"', b'"of another"')))
        # Its answer to the next call.
        await wire.request()
        await wire.send(whole(RESULT.replace(b'"id":1', b'"id":"next"').replace(b'"ho"', b'"of another"')))

    turning = Turning(swapped)
    async with ScriptedBackend(agent(turning, CARD)) as backend:
        text = f"agents:\n  echo:\n    backend: {backend.url}\n    connections: {{ max: 1 }}\n"
        async with running(text) as gateway:
            backend.script = turning
            first = asyncio.ensure_future(gateway.post("/echo"))
            await backend.until(lambda: turning.played is not None and len(backend.requests) == 1)
            pool = pool_of(gateway.gateway.snapshot.backends["echo"])
            second = asyncio.ensure_future(gateway.post("/echo", NEXT))
            await gateway.until(lambda: pool.waiting == 1)
            go_on.set()
            # Nobody can tell it from an id that the agent makes up.
            assert (await first).json["id"] == 1
            assert (await second).json == json.loads(RESULT.replace(b'"id":1', b'"id":"next"'))
            await gateway.rested()
