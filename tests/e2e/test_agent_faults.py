"""Agents that refuse, leave, hang, die, drip or lie at a gateway process, and clients that leave them.

R1 to R8 and R11, each with its figure. Every way to go wrong is in `tests/wire/test_hostile_agents.py`; here it is the
process that is looked at.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faults import Caller, calling, figure, ms, now, quantile, site
from tests.e2e.process import gateway_process
from tests.support.gateway import CALL, JSON, RESULT, STREAM, Answer, agent
from tests.support.hostile import BEHAVIOURS
from tests.support.scripted import (
    SSE,
    Script,
    ScriptedBackend,
    Wire,
    answers,
    answers_and_closes,
    answers_and_hangs,
    answers_and_resets,
    chunk,
    closes_at_once,
    drips,
    head,
    refused_port,
    resets_at_once,
    whole,
)
from tests.support.undisturbed import undisturbed
from tests.wire.test_hostile_memory import Memory, Player

pytestmark = pytest.mark.anyio

EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
GOOD = answers(whole(RESULT))
SOON = 0.1
PRECISION = 0.5
SLOW = 5.0
"""Seconds by which a machine that is busy may be late."""


@asynccontextmanager
async def fronting(
    folder: Path, more: dict[str, Any] | None = None, **agents: Any
) -> AsyncIterator[tuple[Caller, ScriptedBackend]]:
    """A gateway process before one agent at /echo, whose script is good at first, and others."""
    async with ScriptedBackend(agent(GOOD)) as backend:
        speaks = {"url": backend.url, "protocol": "jsonrpc", "a2a_version": "1.0"}
        file = site({"echo": {"backend": speaks, **(more or {})}, **agents})
        with gateway_process(file, folder) as process:
            async with calling(process) as caller:
                await caller.until_answered("/echo", 200)
                # From here on every connection is one for a call.
                await asyncio.to_thread(process.said, f"no card from {backend.url}")
                yield caller, backend


async def plays(backend: ScriptedBackend, script: Script) -> None:
    """From here on each connection plays this, and none is left that plays another."""
    backend.script = agent(script)
    for wire in backend.wires:
        wire.close()
    await backend.all_gone()


def reason(answer: Answer) -> str:
    return str(answer.reasons[-1])


# ---- R1, R2 ----------------------------------------------------------------------------------------------------------


async def test_r1_an_agent_that_refuses_is_told_at_once_and_costs_others_nothing(tmp_path: Path) -> None:
    refused = f"http://127.0.0.1:{refused_port()}"
    none, some = {"backend": refused, "retry": {"max": 0}}, {"backend": refused}
    async with fronting(tmp_path, none=none, some=some) as (caller, _):

        async def p99() -> float:
            return quantile([(await caller.timed("/echo"))[0] for _ in range(100)], 0.99)

        async def told(target: str, times: int) -> list[float]:
            spent = []
            for _ in range(times):
                took, answer = await caller.timed(target)
                assert (answer.status, reason(answer)) == (200, "UPSTREAM_CONNECT")
                spent.append(took)
            return spent

        alone = await p99()
        over = asyncio.Event()

        async def hammer() -> None:
            while not over.is_set():
                await told("/none", 1)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(hammer())
            beside = await p99()
            over.set()
        spent, again = await told("/none", 50), await told("/some", 10)
    figure(
        "R1",
        f"upstream_connect within {ms(max(spent))} at the worst of {len(spent)}, with repeats within {ms(max(again))}; "
        f"p99 of another agent {ms(alone)}, beside 4 callers of the one that refuses {ms(beside)}",
        holds=max(spent) < SOON and beside < max(3 * alone, alone + 0.05),
    )
    assert max(spent) < SLOW


async def test_r2_an_agent_that_leaves_without_a_byte_is_told_at_once_and_asked_once(tmp_path: Path) -> None:
    leaving = (resets_at_once, closes_at_once, answers_and_resets(), answers_and_closes())
    async with fronting(tmp_path) as (caller, backend):
        spent: list[float] = []
        for script in leaving:
            asked: list[Wire] = []

            async def noted(wire: Wire, script: Script = script, asked: list[Wire] = asked) -> None:
                asked.append(wire)
                await script(wire)

            # Not the connections: the card is asked for again meanwhile.
            await plays(backend, noted)
            for _ in range(10):
                took, answer = await caller.timed("/echo")
                assert reason(answer) == "UPSTREAM_RESET"
                spent.append(took)
            assert len(asked) == 10
        assert await caller.metric("backend_retries_total") == 0
    figure(
        "R2",
        f"upstream_reset within {ms(max(spent))} at the worst of {len(spent)} messages, each sent once",
        holds=max(spent) < SOON,
    )
    assert max(spent) < SLOW


# ---- R3, R4, R6 ------------------------------------------------------------------------------------------------------


async def test_r3_an_agent_that_hangs_in_its_head_is_given_up_in_time(tmp_path: Path) -> None:
    more = {"timeouts": {"first_byte": "500ms", "send": "500ms"}, "connections": {"max": 1}}
    async with fronting(tmp_path, more) as (caller, backend):
        late = []
        for sent in (b"", b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 100 Continue\r\n\r\n"):
            await plays(backend, answers_and_hangs(sent))
            took, answer = await caller.timed("/echo")
            assert reason(answer) == "UPSTREAM_TIMEOUT"
            late.append(took - 0.5)
            await backend.all_gone()
            # Its place is free, and the connection is not used again.
            await plays(backend, GOOD)
            assert (await caller.post("/echo")).body == RESULT
    figure(
        "R3",
        f"upstream_timeout {ms(max(late))} late at the worst of {len(late)} ways to hang (limit 500 ms); the next call "
        "is served, by another connection",
        holds=max(late) < PRECISION,
    )
    assert min(late) > -0.05
    assert max(late) < SLOW


async def test_r4_an_agent_that_hangs_or_dies_in_a_body_is_reported_at_any_point(tmp_path: Path) -> None:
    half = head(b"content-length: 100") + b"{"
    long = head(b"transfer-encoding: chunked") + chunk(b'{"id":1,"result":"' + b"x" * (1 << 21))
    async with fronting(tmp_path, {"timeouts": {"total": "500ms"}}) as (caller, backend):
        spent = []
        for begun in (half, long):
            for way in (answers_and_hangs, answers_and_closes, answers_and_resets):
                await plays(backend, way(begun))
                took, answer = await caller.timed("/echo")
                assert reason(answer) == ("UPSTREAM_TIMEOUT" if way is answers_and_hangs else "UPSTREAM_RESET")
                spent.append(took)
    figure(
        "R4",
        f"upstream_timeout or upstream_reset, also where 2 MiB had come; all within {ms(max(spent))} (limit 500 ms)",
        holds=max(spent) < 0.5 + PRECISION,
    )
    assert max(spent) < SLOW


@undisturbed(0.2)
async def test_r6_a_slow_drip_passes_for_only_silence_counts(tmp_path: Path) -> None:
    opening = SSE + b"%x\r\n" % len(EVENT)
    async with fronting(tmp_path, {"timeouts": {"stream_idle": "500ms"}}) as (caller, backend):
        await plays(backend, drips(opening, EVENT, 0.01))
        client = await caller.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        await client.head()
        began = now()
        assert await client.piece() == EVENT
        took = now() - began
    figure("R6", f"an event that drips for {took:.1f} s passes under an idle limit of 0.5 s")
    assert took > 0.5


# ---- R5 --------------------------------------------------------------------------------------------------------------


async def test_r5_a_stream_that_dies_says_so_and_the_client_resumes(tmp_path: Path) -> None:
    again = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t1"}}'
    async with fronting(tmp_path) as (caller, backend):
        told = 0
        for death in (answers_and_closes, answers_and_resets):
            await plays(backend, death(SSE + chunk(EVENT)))
            for _ in range(10):
                asked = len(backend.requests)
                client = await caller.client()
                await client.ask("POST", "/echo", STREAM, [JSON])
                await client.head()
                # A clean end, behind whole events.
                body = await client.rest()
                assert body.startswith(EVENT + b"event: error\ndata: ")
                error = json.loads(body.rpartition(b"data: ")[2])["error"]
                assert error["code"] == -32603
                assert error["data"][-1]["metadata"]["requestId"]
                assert len(backend.requests) == asked + 1
                told += 1
        await plays(backend, answers(SSE + chunk(EVENT) + chunk(b"")))
        resumed = await caller.post("/echo", again)
        assert resumed.body == EVENT
    figure(
        "R5", f"{told} of {told} streams end with an error event that has the request id; none is sent again; resumed"
    )


# ---- R7 --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_r7_no_answer_that_lies_passes_and_none_costs_much(tmp_path: Path) -> None:
    times = {"send": "500ms", "first_byte": "500ms", "stream_idle": "500ms", "total": "1s"}
    lies = {name: each for name, each in BEHAVIOURS.items() if each.reason is not None and not each.large}
    player = Player()
    async with fronting(tmp_path, {"timeouts": times, "connections": {"idle": "20ms"}}) as (caller, backend):
        await plays(backend, player)
        for _ in range(5):
            assert (await caller.post("/echo")).body == RESULT
        memory = Memory(caller.process.pid)
        grown, said = 0, set()
        for name, lie in lies.items():
            await backend.all_gone()
            player.play(lie.script)
            memory.begin()
            answer = await caller.post("/echo", STREAM if lie.stream else CALL)
            assert lie.reason is not None
            assert lie.reason.upper().encode() in answer.body, (name, answer.body[-300:])
            said.add(lie.reason)
            grown = max(grown, memory.growth)
            # The connection is not used again.
            await backend.all_gone()
            assert (await caller.post("/echo")).body == RESULT, name
    figure(
        "R7",
        f"all of {len(lies)} ways to lie are told as what they are ({', '.join(sorted(said))}), no connection is used "
        f"again; the process grows by {grown / (1 << 20):.0f} MiB at most",
        holds=grown < 32 << 20,
    )


# ---- R8 --------------------------------------------------------------------------------------------------------------


async def test_r8_an_agents_own_errors_pass_unchanged(tmp_path: Path) -> None:
    body = b' {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "out of tokens", "data": {"x": 1.0}}}\n'
    statuses = (b"429 Too Many", b"500 Oops", b"502 Bad", b"503 Busy", b"504 Late", b"599 X")
    async with fronting(tmp_path) as (caller, backend):
        for status in statuses:
            await plays(backend, answers(whole(body, b"retry-after: 3", status=status)))
            asked = len(backend.requests)
            answer = await caller.post("/echo")
            assert (answer.status, answer.body, answer.header("retry-after")) == (int(status[:3]), body, "3")
            assert len(backend.requests) == asked + 1
        assert await caller.metric("rejected_total", agent="echo") == 0
    figure(
        "R8",
        f"{len(statuses)} of {len(statuses)} statuses pass, byte for byte and with Retry-After; each is asked once",
    )


# ---- R11 -------------------------------------------------------------------------------------------------------------


async def test_r11_the_agents_connection_closes_when_the_client_leaves(tmp_path: Path) -> None:
    async with fronting(tmp_path, {"connections": {"max": 200}}) as (caller, backend):
        spent = []
        for call, sent in ((STREAM, SSE + chunk(EVENT)), (CALL, b"")):
            await plays(backend, answers_and_hangs(sent))
            for _ in range(10):
                asked = len(backend.requests)
                client = await caller.client()
                await client.ask("POST", "/echo", call, [JSON])
                await backend.until(lambda asked=asked: len(backend.requests) > asked)  # type: ignore[misc]  # as drawn
                wire, left = backend.wires[-1], now()
                client.leave()
                await backend.all_gone()
                assert wire.left_at is not None
                spent.append(wire.left_at - left)
        await plays(backend, answers_and_hangs(SSE + chunk(EVENT)))
        clients = []
        for _ in range(200):
            client = await caller.client()
            await client.ask("POST", "/echo", STREAM, [JSON])
            await client.head()
            clients.append(client)
        assert backend.open == 200
        began = now()
        for client in clients:
            client.leave()
        await backend.all_gone()
        all_gone = now() - began
        assert {received.method for received in backend.requests} == {b"POST"}
        assert not any(b"CancelTask" in received.body for received in backend.requests)
    figure(
        "R11",
        f"the agent's connection is closed {ms(max(spent))} after its client left, worst of {len(spent)}; 200 of 200 "
        f"within {ms(all_gone)}; no task is cancelled",
        holds=max(spent) < 0.2 and all_gone < 2,
    )
    assert max(*spent, all_gone) < SLOW
