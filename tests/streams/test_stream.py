"""A stream reaches the client event by event, says so when it breaks, and is read no faster than it is taken."""

import asyncio
import json
from typing import Any

import pytest

from tests.loops import both_loops
from tests.support.gateway import STREAM, fronted
from tests.support.scripted import (
    SSE,
    Wire,
    answers,
    answers_and_closes,
    answers_and_resets,
    chunk,
    events,
    whole,
)
from tests.support.streaming import V03, V1, Held, frame, opened, reasons, said
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio
anyio_backend = both_loops


async def test_each_event_arrives_before_the_next_is_sent() -> None:
    agent = Held()
    async with fronted(agent) as (gateway, _):
        client = await opened(gateway)
        status, headers = await client.head()
        assert status == 200
        assert dict(headers)["content-type"] == "text/event-stream"
        assert dict(headers)["cache-control"] == "no-store"
        assert dict(headers)["x-accel-buffering"] == "no"
        for number in range(5):
            event = b"data: " + frame(number) + b"\n\n"
            agent.say(chunk(event))
            assert await client.piece() == event
        agent.say(chunk(b""))
        assert await client.piece() == b""
        line = await gateway.line()
        assert (line["events"], line["closed_by"], line["outcome"]) == (5, "agent", "ok")
        assert (line["task_id"], line["task_state"], line["stream"]) == ("t", "working", True)
        assert gateway.metric("stream_events_total", agent="echo", event="status") == 5
        assert gateway.metric("streams_closed_total", agent="echo", by="agent") == 1
        await gateway.rested()


async def test_events_pass_unchanged_with_any_chunk_borders() -> None:
    raw = (
        b'\xef\xbb\xbf: a comment\r\n\r\nid: 7\r\nevent: message\r\ndata: {\r\ndata:  "jsonrpc":"2.0","id":1,\r\n'
        b'data: "result":{}}\r\n\r\nretry: 10\n\n: ping\n\ndata: '
        + frame(1)
        + b"\n\ndata\n\ndata: "
        + frame(2)
        + b"\r\r"
    )
    for size in (1, 2, 3, 7, 1000):
        pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
        async with fronted(answers(SSE + b"".join(map(chunk, pieces)) + chunk(b""))) as (gateway, _):
            client = await opened(gateway)
            await client.head()
            assert await client.rest() == raw


async def test_a_stream_over_http_json_is_passed_as_it_came() -> None:
    raw = b'data: {\ndata:   "task": {"id": "t1",\ndata: "status":{"state":"TASK_STATE_CANCELLED"}}}\n\n'
    async with fronted(answers(SSE + chunk(raw) + chunk(b""))) as (gateway, backend):
        client = await opened(gateway, "/echo/v1/message:stream", b'{"message":{}}')
        await client.head()
        assert await client.rest() == raw
        assert backend.requests[0].target == b"/v1/message:stream"
        line = await gateway.line()
        assert (line["task_id"], line["task_state"], line["a2a_version"]) == ("t1", "canceled", "0.3")


async def test_an_event_without_an_end_is_passed_when_the_stream_ends_cleanly() -> None:
    raw = b"data: " + frame(1) + b"\n\ndata: " + frame(2)
    async with fronted(answers(SSE + chunk(raw) + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        assert await client.rest() == raw


async def test_silence_is_filled_with_heartbeats() -> None:
    agent = Held()
    async with fronted(agent, settings="heartbeat: 20ms") as (gateway, _):
        client = await opened(gateway)
        await client.head()
        assert [await client.piece() for _ in range(3)] == [b": keep-alive\n\n"] * 3
        # Half an event: a heartbeat must not land in the middle of it.
        event = b"data: " + frame(1) + b"\n\n"
        agent.say(chunk(event[:20]))
        assert await client.piece() == b": keep-alive\n\n"
        agent.say(chunk(event[20:]))
        pieces = [await client.piece()]
        while pieces[-1] == b": keep-alive\n\n":
            pieces.append(await client.piece())
        assert pieces[-1] == event


@undisturbed(0.05)
async def test_an_agent_that_falls_silent_has_its_stream_ended_by_the_gateway() -> None:
    agent = Held()
    async with fronted(agent, "timeouts: { stream_idle: 250ms }", settings="heartbeat: 100ms") as (gateway, backend):
        client = await opened(gateway)
        await client.head()
        body = await client.rest()
        last = said(body)
        assert (last["id"], last["error"]["code"], reasons(last["error"]["data"])) == (1, -32603, ["UPSTREAM_IDLE"])
        # Heartbeats of the gateway's own are no sign of life of the agent.
        assert body.count(b": keep-alive\n\n") == 2
        line = await gateway.line()
        assert (line["reason"], line["closed_by"]) == ("upstream_idle", "gateway")
        assert gateway.metric("streams_closed_total", agent="echo", by="gateway") == 1
        await backend.until(lambda: all(wire.gone for wire in backend.wires))


@undisturbed(0.1)
async def test_comments_keep_a_stream_alive() -> None:
    agent = Held()
    async with fronted(agent, "timeouts: { stream_idle: 200ms }") as (gateway, _):
        client = await opened(gateway)
        await client.head()
        for _ in range(5):
            await asyncio.sleep(0.08)
            agent.say(chunk(b": ping\n\n"))
            assert await client.piece() == b": ping\n\n"
        client.leave()


DEATHS = {"reset": answers_and_resets, "close": answers_and_closes}


@for_each("death", DEATHS.values())
@for_each("version", [V1, V03])
async def test_the_last_event_of_a_broken_json_rpc_stream_says_so(death: Any, version: tuple[bytes, bytes]) -> None:
    event = b"data: " + frame(1) + b"\n\n"
    method = b"SendStreamingMessage" if version is V1 else b"message/stream"
    call = STREAM.replace(b"SendStreamingMessage", method).replace(b'"id":1', b'"id":"\\u0041"')
    event = event.replace(b'"id": 1', b'"id": "A"')
    async with fronted(death(SSE + chunk(event) + chunk(b"data: half"))) as (gateway, _):
        client = await opened(gateway, "/echo", call.replace(b"ROLE_USER", b"user"), version)
        _, headers = await client.head()
        body = await client.rest()
        assert body.startswith(event + (b"event: error\ndata: " if version is V1 else b"data: "))
        assert b"half" not in body
        assert b'"id":"\\u0041"' in body
        last = said(body)
        assert (last["error"]["code"], reasons(last["error"]["data"])) == (-32603, ["UPSTREAM_RESET"])
        assert last["error"]["data"][0]["metadata"]["requestId"] == dict(headers)["x-request-id"]
        line = await gateway.line()
        assert (line["reason"], line["closed_by"], line["rpc_code"]) == ("upstream_reset", "agent", -32603)
        assert line["outcome"] == "upstream_error"
        await gateway.rested()


async def test_the_last_event_of_a_broken_http_json_stream_says_so() -> None:
    event = b'data: {"task":{"id":"t"}}\n\n'
    async with fronted(answers_and_resets(SSE + chunk(event))) as (gateway, _):
        client = await opened(gateway, "/echo/message:stream", b'{"message":{}}', V1)
        await client.head()
        body = await client.rest()
        assert body.startswith(event + b"event: error\ndata: ")
        assert reasons(said(body)["error"]["details"]) == ["UPSTREAM_RESET"]


async def test_a_broken_http_json_stream_of_0_3_is_cut_for_it_has_no_error_event() -> None:
    event = b'data: {"task":{"id":"t"}}\n\n'
    async with fronted(answers_and_resets(SSE + chunk(event))) as (gateway, _):
        client = await opened(gateway, "/echo/v1/message:stream", b'{"message":{}}')
        await client.head()
        assert await client.piece() == event
        with pytest.raises(asyncio.IncompleteReadError):
            await client.piece()
        assert (await gateway.line())["reason"] == "upstream_reset"


async def test_an_event_over_the_cap_ends_the_stream_and_is_not_shortened() -> None:
    event = b"data: " + frame(1) + b"\n\n"
    agent = Held()
    async with fronted(agent, "connections: { event: 1000 }") as (gateway, backend):
        client = await opened(gateway)
        await client.head()
        agent.say(chunk(event), chunk(b"data: " + b"x" * 600), chunk(b"x" * 600))
        body = await client.rest()
        assert b"xxx" not in body
        assert reasons(said(body)["error"]["data"])[-1] == "UPSTREAM_PROTOCOL"
        await backend.until(lambda: all(wire.gone for wire in backend.wires))


OWN_IDS = {
    "its own": b"data: %b\n\n" % frame(2).replace(b'"id": 1', b'"id": "other"'),
    "null": b"data: %b\n\n" % frame(2).replace(b'"id": 1', b'"id": null'),
    "none": b"data: %b\n\n" % frame(2).replace(b'"id": 1, ', b""),
    "a number of its own": b"id: 7\ndata: %b\n\n" % frame(2).replace(b'"id": 1', b'"id": 2'),
    "in two lines": b"event: message\r\ndata: %b\r\n\r\n"
    % frame(2).replace(b'"id": 1,', b'\r\ndata: "id": 2,\r\ndata:'),
    "bare CRs": b"data: %b\r\r" % frame(2).replace(b'"id": 1', b'"id": 2'),
}


@for_each("foreign", OWN_IDS.values())
@for_each("apart", [True, False])
async def test_events_under_ids_of_the_agents_own_get_the_clients_id_back(foreign: bytes, *, apart: bool) -> None:
    raw = b"data: " + frame(1) + b"\n\n"
    events = chunk(raw) + chunk(foreign) if apart else chunk(raw + foreign)
    async with fronted(answers(SSE + events + chunk(raw) + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        body = await client.rest()
        assert body.startswith(raw)
        data = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data")]
        assert [json.loads(each) for each in data] == [json.loads(frame(number)) for number in (1, 2, 1)]
        assert (b"id: 7\n" in body) == (b"id: 7\n" in foreign)
        assert (await gateway.line())["outcome"] == "ok"


async def test_a_connection_on_which_a_stream_came_under_an_id_of_the_agents_own_serves_no_other_call() -> None:
    foreign = b"data: " + frame(1).replace(b'"id": 1', b'"id": "other"') + b"\n\n"
    async with fronted(answers(SSE + chunk(foreign) + chunk(b""))) as (gateway, backend):
        for _ in range(2):
            client = await opened(gateway)
            await client.head()
            assert b'"other"' not in await client.rest()
        assert len({received.connection for received in backend.requests}) == 2
        await gateway.rested()
        await backend.all_gone()


async def test_an_early_error_to_a_request_for_a_stream_is_passed_as_json() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}'
    async with fronted(answers(whole(body))) as (gateway, _):
        client = await opened(gateway)
        answer = await client.answer()
        assert (answer.status, answer.body, answer.header("content-type")) == (200, body, "application/json")
        line = await gateway.line()
        assert (line["stream"], line["rpc_code"]) == (False, -32602)
        assert gateway.metric("streams_open") == 0


async def test_a_stream_with_the_status_of_an_error_is_no_answer() -> None:
    raw = (SSE + chunk(b"data: {}\n\n") + chunk(b"")).replace(b"200 OK", b"500 No")
    async with fronted(answers(raw)) as (gateway, _):
        answer = await (await opened(gateway)).answer()
        assert answer.json["error"]["code"] == -32006


async def test_states_and_events_are_counted_by_closed_words() -> None:
    bare = b'{"jsonrpc":"2.0","id":1,"result":"text"}'
    frames = [frame(1), frame(2).replace(b"TASK_STATE_WORKING", b"evil\\n\\u0022"), bare]
    async with fronted(events(frames)) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        await client.rest()
        assert (await gateway.line())["events"] == 3
        assert {labels["event"] for labels, _ in gateway.series("stream_events_total")} == {"status", "other"}
        assert {labels["state"] for labels, _ in gateway.series("tasks_total")} == {"unknown"}


# ---- Slow clients --------------------------------------------------------------------------------------------------


async def test_an_agent_is_not_read_faster_than_the_client_reads() -> None:
    event = b"data: " + frame(1, x="x" * 50_000) + b"\n\n"
    stuck = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(SSE)
        while wire.sent < 1 << 28:
            await asyncio.sleep(0)
            if wire.stuck:
                stuck.set()
            await wire.send(chunk(event))

    async with fronted(script) as (gateway, backend):
        client = await opened(gateway)
        await client.head()
        await gateway.until(lambda: any(wire.stuck for wire in backend.wires))
        wire = next(wire for wire in backend.wires if wire.stuck)
        held = wire.sent
        # The bytes in the kernel and the gateway's two buffers, not all that the agent could send.
        assert held < 1 << 25
        got = 0
        while got < held:
            got += len(await client.piece())
        client.leave()
        await gateway.rested()


async def test_a_long_good_event_goes_out_although_a_bad_one_follows_it_at_once() -> None:
    agent = Held()
    long = b"data: " + frame(1, pad="x" * 40_000) + b"\n\n"
    async with fronted(agent) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        # In one write: what the loop reads together is decided on together.
        agent.pieces.put_nowait(chunk(long + b"data: nope\n\n"))
        body = await client.rest()
        assert body.startswith(long)
        assert b"-32603" in body[len(long) :]


async def test_framing_without_events_is_silence() -> None:
    ended = asyncio.Event()

    async def drips(wire: Wire) -> None:
        await wire.request()
        await wire.send(SSE + chunk(b": hi\n\n") + b"5;")
        while not ended.is_set():
            await wire.send(b"x")
            await asyncio.sleep(0.02)

    async with fronted(drips, "timeouts: { stream_idle: 200ms }") as (gateway, _):
        client = await opened(gateway)
        await client.head()
        # The client's own patience would end the test if the drip counted.
        assert b"-32603" in await client.rest()
        ended.set()
        assert (await gateway.line())["reason"] == "upstream_idle"
