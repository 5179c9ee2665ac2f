"""What becomes of a call whose agent fails: safety R1 to R6, R8 and R11, with figures (`pytest -rP` shows them)."""

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.loops import both_loops
from tests.support.gateway import CALL, JSON, RESULT, STREAM, Client, Running, fronted, running
from tests.support.pool import pool_of
from tests.support.scripted import (
    SSE,
    Script,
    Wire,
    answers,
    answers_and_closes,
    answers_and_hangs,
    answers_and_resets,
    chunk,
    closes_at_once,
    drips,
    head,
    in_turn,
    refused_port,
    resets_at_once,
    whole,
)
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio
anyio_backend = both_loops
EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
SOON = 0.1
"""Seconds in which what is known at once is told (R1, R2)."""
PRECISION = 0.5
"""Seconds by which a timeout may be late (R3)."""


def now() -> float:
    return asyncio.get_running_loop().time()


def figure(row: str, text: str) -> None:
    sys.stdout.write(f"{row}: {text}\n")


async def timed(gateway: Running, target: str = "/echo", body: bytes | None = CALL) -> tuple[float, Any]:
    began = now()
    answer = await (gateway.post(target, body) if body is not None else gateway.get(target))
    return now() - began, answer


# ---- R1, R2: what is known at once -----------------------------------------------------------------------------------


@undisturbed(0.05)
async def test_r1_an_agent_that_refuses_is_told_at_once_and_costs_others_nothing() -> None:
    async with fronted(answers(whole(RESULT))) as (other, backend):
        refused = f"http://127.0.0.1:{refused_port()}"
        text = (
            f"agents:\n  echo: {{ backend: '{refused}', retry: {{ max: 0 }} }}\n  good: {backend.url}\n"
            f"  again: {refused}\n"
        )
        async with running(text, settled=False) as gateway:
            spent = []
            for _ in range(20):
                took, answer = await timed(gateway)
                assert (answer.status, answer.json["error"]["code"]) == (200, -32603)
                spent.append(took)
                assert (await gateway.post("/good")).body == RESULT
            rest = (await timed(gateway, "/echo/tasks/t", None))[1]
            assert (rest.status, rest.reasons) == (502, ["UPSTREAM_CONNECT"])
            assert gateway.metric("rejected_total", agent="echo", reason="upstream_connect") == 21
            figure("R1", f"upstream_connect in {max(spent) * 1e3:.1f} ms at the worst of {len(spent)} (target < 100)")
            assert max(spent) < SOON
            repeated = [(await timed(gateway, "/again"))[0] for _ in range(10)]
            retries = gateway.metric("backend_retries_total", agent="again", reason="connect")
            most = max(line["attempts"] for line in gateway.lines)
            figure("R1", f"with repeats {max(repeated) * 1e3:.0f} ms at the worst, at most {most - 1} for a call")
            assert most == 3
            # Once it has failed for some time there are none.
            assert retries <= 4
            assert max(repeated) < SOON + 2 * 0.25
            assert max(repeated[2:]) < SOON
        assert other.lines == []


LEAVING = {
    "reset": resets_at_once, "close": closes_at_once, "reset, asked": answers_and_resets(),
    "close, asked": answers_and_closes(),
}  # fmt: skip


@for_each("script", LEAVING.values())
@undisturbed(0.05)
async def test_r2_an_agent_that_leaves_without_a_byte_is_told_at_once_and_asked_once(script: Script) -> None:
    async with fronted(script) as (gateway, backend):
        backend.script = script
        before, spent = len(backend.wires), []
        for target, body, status in (("/echo", CALL, 200), ("/echo/message:send", b'{"message":{}}', 502)):
            took, answer = await timed(gateway, target, body)
            assert answer.status == status
            spent.append(took)
        assert len(backend.wires) == before + 2
        assert len(backend.requests) <= 2
        await gateway.until(lambda: len(gateway.lines) == 2)
        assert {line["reason"] for line in gateway.lines} == {"upstream_reset"}
        figure("R2", f"upstream_reset in {max(spent) * 1e3:.1f} ms at the worst (target < 100), sent once")
        assert max(spent) < SOON


async def test_r2_a_message_is_sent_once_also_where_the_connection_was_used_before() -> None:
    async def twice(wire: Wire) -> None:
        await wire.request()
        await wire.send(whole(RESULT))
        await wire.request()
        wire.reset()

    async with fronted(in_turn(twice)) as (gateway, backend):
        assert (await gateway.post("/echo")).body == RESULT
        answer = await gateway.post("/echo")
        assert answer.json["error"]["code"] == -32603
        assert len(backend.requests) == 2


# ---- R3, R4, R6: silence and drips -----------------------------------------------------------------------------------

HANGS = {
    "before the head": b"",
    "in the status line": b"HTTP/1.1 20",
    "in a header": b"HTTP/1.1 200 OK\r\nx: ",
    "behind an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@for_each("sent", HANGS.values())
@undisturbed(0.2)
async def test_r3_an_agent_that_hangs_in_its_head_is_given_up_in_time_and_frees_its_place(sent: bytes) -> None:
    more = "timeouts: { first_byte: 300ms, send: 400ms }\nconnections: { max: 1 }"
    async with fronted(answers_and_hangs(sent), more) as (gateway, backend):
        late = []
        for target, body, limit in (("/echo", CALL, 0.4), ("/echo/tasks/t", None, 0.3)):
            took, answer = await timed(gateway, target, body)
            assert answer.status == (200 if body else 504)
            assert took >= limit - 0.02
            late.append(took - limit)
        figure("R3", f"upstream_timeout {max(late) * 1e3:.0f} ms late at the worst (target ± 500)")
        assert max(late) < PRECISION
        await gateway.until(lambda: len(gateway.lines) == 2)
        assert {line["reason"] for line in gateway.lines} == {"upstream_timeout"}
        await gateway.rested()
        await backend.all_gone()
        assert pool_of(gateway.gateway.snapshot.backends["echo"]).idle == 0


@undisturbed(0.2)
async def test_r4_an_agent_that_hangs_or_dies_in_a_body_is_told_while_nothing_went_out() -> None:
    half = head(b"content-length: 100") + b"{"
    for script, reason, status in (
        (answers_and_hangs(half), "upstream_timeout", 504),
        (answers_and_closes(half), "upstream_reset", 502),
        (answers_and_resets(half), "upstream_reset", 502),
    ):
        async with fronted(script, "timeouts: { total: 300ms }") as (gateway, _):
            took, answer = await timed(gateway, "/echo/message:send", b'{"message":{}}')
            assert (answer.status, (await gateway.line())["reason"]) == (status, reason)
            figure("R4", f"{reason} after {took * 1e3:.0f} ms (limit 300)")
            assert took < 0.3 + PRECISION


@undisturbed(0.2)
async def test_r4_nothing_of_a_long_answer_goes_out_before_all_of_it_has_come() -> None:
    half = head(b"transfer-encoding: chunked") + chunk(b'{"id":1,"result":"' + b"x" * (1 << 21))
    for script, reason in (
        (answers_and_hangs(half), "UPSTREAM_TIMEOUT"),
        (answers_and_closes(half), "UPSTREAM_RESET"),
        (answers_and_resets(half), "UPSTREAM_RESET"),
    ):
        async with fronted(script, "timeouts: { total: 500ms }") as (gateway, _):
            answer = await gateway.post("/echo")
            assert answer.reasons[-1] == reason
            assert b"xxx" not in answer.body


@undisturbed(0.15)
async def test_r6_a_slow_drip_passes_for_only_silence_counts() -> None:
    slow = SSE + b"%x\r\n" % len(EVENT)
    async with fronted(drips(slow, EVENT, 0.01), "timeouts: { stream_idle: 300ms }") as (gateway, _):
        client = await opened(gateway)
        began = now()
        assert await client.piece() == EVENT
        figure("R6", f"an event dripped for {now() - began:.2f} s under an idle limit of 0.3 s")
        assert now() - began > 0.6
        client.leave()


async def opened(gateway: Running, body: bytes = STREAM) -> Client:
    client = await gateway.client()
    await client.ask("POST", "/echo", body, [JSON])
    assert (await client.head())[0] == 200
    return client


# ---- R5: a stream that dies ------------------------------------------------------------------------------------------


@for_each("death", [answers_and_closes, answers_and_resets])
async def test_r5_the_last_event_of_a_stream_that_died_says_so_and_the_client_resumes(death: Any) -> None:
    async with fronted(death(SSE + chunk(EVENT))) as (gateway, backend):
        client = await opened(gateway)
        body = await client.rest()
        assert body.startswith(EVENT + b"event: error\ndata: ")
        last = json.loads(body.rpartition(b"data: ")[2])
        assert (last["id"], last["error"]["code"]) == (1, -32603)
        line = await gateway.line()
        assert last["error"]["data"][0]["metadata"]["requestId"] == line["request_id"]
        assert len(backend.requests) == 1, "a stream is never sent again"
        backend.script = answers(SSE + chunk(EVENT) + chunk(b""))
        again = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t1"}}'
        assert await (await opened(gateway, again)).rest() == EVENT


# ---- R8: an agent's own errors ---------------------------------------------------------------------------------------


@for_each("status", [b"429 Too Many", b"500 Oops", b"502 Bad", b"503 Busy", b"504 Late", b"599 X"])
async def test_r8_an_agents_own_5xx_and_429_pass_unchanged(status: bytes) -> None:
    rpc = b' {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "out of tokens", "data": {"x": 1.0}}}\n'
    rest = b' {"error": {"code": 500, "status": "INTERNAL", "message": "out of tokens"}, "x": 1.0}\n'
    async with fronted(answers(whole(rpc, b"retry-after: 3", status=status))) as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.body, answer.header("retry-after")) == (int(status[:3]), rpc, "3")
    async with fronted(answers(whole(rest, b"retry-after: 3", status=status))) as (gateway, backend):
        answer = await gateway.post("/echo/message:send", b'{"message":{}}')
        assert (answer.status, answer.body, answer.header("retry-after")) == (int(status[:3]), rest, "3")
        assert (len(backend.requests), gateway.metric("rejected_total", agent="echo")) == (1, 0)


# ---- R11: a client that leaves ---------------------------------------------------------------------------------------


@for_each("call", [STREAM, CALL])
@undisturbed(0.1)
async def test_r11_the_agents_connection_closes_when_the_client_leaves(call: bytes) -> None:
    sent = SSE + chunk(EVENT) if call is STREAM else b""
    async with fronted(answers_and_hangs(sent)) as (gateway, backend):
        spent = []
        for turn in range(10):
            client = await gateway.client()
            await client.ask("POST", "/echo", call, [JSON])
            await backend.until(lambda turn=turn: len(backend.requests) == turn + 1)  # type: ignore[misc] # as drawn
            wire = backend.wires[-1]
            left = now()
            client.leave()
            await backend.until(lambda wire=wire: wire.gone)  # type: ignore[misc] # as above
            assert wire.left_at is not None
            spent.append(wire.left_at - left)
        figure("R11", f"upstream closed {max(spent) * 1e3:.1f} ms after the client left, worst of 10 (target 200)")
        assert max(spent) < 0.2
        assert {received.method for received in backend.requests} == {b"POST"}, "no task is cancelled"
        assert len(backend.requests) == 10


@undisturbed(0.5)
async def test_r11_two_hundred_clients_that_leave_leave_no_connection() -> None:
    more = "connections: { max: 200 }"
    async with fronted(answers_and_hangs(SSE + chunk(EVENT)), more) as (gateway, backend):
        clients = [await opened(gateway) for _ in range(200)]
        pool = pool_of(gateway.gateway.snapshot.backends["echo"])
        assert (pool.active, backend.open) == (200, 200)
        left = now()
        for client in clients:
            client.leave()
        await backend.all_gone()
        await gateway.rested()
        figure("R11", f"200 upstream connections gone {(now() - left) * 1e3:.0f} ms after as many clients (target 2 s)")
        assert now() - left < 2.0
        assert (pool.active, pool.idle) == (0, 0)
