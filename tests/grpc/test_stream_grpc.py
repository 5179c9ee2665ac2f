"""Streams of agents behind gRPC, message by message, to clients of gRPC and as events to all others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it ships no types

from gateway.a2a.dialect import Version
from gateway.a2a.framing.grpc import frame
from gateway.a2a.operation import Operation
from tests.loops import both_loops
from tests.support.gateway import Client, Running, card_of
from tests.support.grpc_agent import fails, grpc_over, hangs, says
from tests.support.grpc_events import FUTURE, JSON, Held, artifact, hearing, state_of, status, status_0_3
from tests.support.grpc_gateway import ADDRESSES, fronting, grpc_fronted, request
from tests.support.http2_server import Turn, http2_server
from tests.support.scripted import WAIT
from tests.support.streaming import reasons, said
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
anyio_backend = both_loops
__all__ = ("grpc_over",)

V0_3, V1_0 = Version.V0_3, Version.V1_0
STREAM = Operation.SEND_STREAMING_MESSAGE
ANYWHERE = "match: [{ path: /echo }, { path: / }]"
SPEAKS_0_3 = 'protocol: grpc, a2a_version: "0.3"'
SPEAKS_1_0 = 'protocol: grpc, a2a_version: "1.0"'
HEARTBEAT = b": keep-alive\n\n"

FIRST, SECOND, LAST = status(), artifact(), status("TASK_STATE_COMPLETED")
TASK = new.Task(id="t", context_id="c", status=new.TaskStatus(state="TASK_STATE_WORKING"))
BEGUN = new.StreamResponse(task=TASK).SerializeToString()
"""The first event to a client of 1.0 of a stream that an agent of 0.3 begins with FIRST."""
LONG = status("TASK_STATE_COMPLETED", long="x" * 300_000)
MESSAGE_1_0 = new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="hi")])
MESSAGE_0_3 = old.Message(message_id="m", role="ROLE_USER", content=[old.Part(text="hi")])
every_json = pytest.mark.parametrize("name", JSON)


# ---- One by one ------------------------------------------------------------------------------------------------------


@for_each("version", [V1_0, V0_3])
async def test_the_client_has_each_message_before_the_agent_sends_the_next(version: Version) -> None:
    messages = [FIRST + FUTURE, SECOND, FIRST, LAST] if version is V1_0 else [status_0_3(), status_0_3() + FUTURE]
    agent = Held()
    async with grpc_fronted(agent, ANYWHERE) as site:
        stream = site.client.stream(STREAM, version=version)
        for message in messages:
            agent.say(message)
            assert await stream.next() == message
        agent.say(None)
        told = await stream.end()
        assert (told.code, told.words, set(told.headers), told.trailers) == ("OK", "", {"x-request-id"}, {})
        line = await site.gateway.line()
        assert (line["events"], line["closed_by"], line["outcome"]) == (len(messages), "agent", "ok")
        await site.gateway.rested()


async def test_clients_of_json_get_each_message_as_an_event_before_the_next() -> None:
    agent = Held()
    async with grpc_fronted(agent, backend=SPEAKS_1_0) as site:
        for number, name in enumerate(JSON, 1):
            agent.say(FIRST)
            reader = await hearing(site.gateway, name)
            assert state_of(await reader.piece()) == "working"
            agent.say(SECOND)
            assert "artifact" in (await reader.piece()).decode()
            agent.say(LAST, None)
            assert state_of(await reader.piece()) == "completed"
            assert await reader.piece() == b""
            line = await site.gateway.line(of=number)
            assert (line["events"], line["closed_by"], line["outcome"]) == (3, "agent", "ok")
            assert line["task_state"] == "completed"
        await site.gateway.rested()


async def test_a_stream_passes_between_generations_of_grpc() -> None:
    async with grpc_fronted(says(status_0_3(), status_0_3(final=True)), ANYWHERE, backend=SPEAKS_0_3) as site:
        told = await site.client.stream(STREAM, request(STREAM, message=MESSAGE_1_0)).end()
        assert (told.messages, told.code) == ((BEGUN, FIRST), "OK")
    async with grpc_fronted(says(FIRST, LAST), ANYWHERE, backend=SPEAKS_1_0) as site:
        told = await site.client.stream(STREAM, request(STREAM, V0_3, request=MESSAGE_0_3), version=V0_3).end()
        assert told.messages == (status_0_3(), status_0_3("TASK_STATE_COMPLETED", final=True))
        assert told.code == "OK"


async def test_long_messages_keep_their_place_and_their_bytes() -> None:
    long = artifact(300_000)
    messages = (FIRST, long, FIRST, long, long, LAST)
    async with grpc_fronted(says(*messages)) as site:
        assert (await site.client.stream(STREAM).end()).messages == messages


# ---- Long ones -------------------------------------------------------------------------------------------------------


async def test_long_messages_keep_their_place_where_they_are_translated() -> None:
    """From 128 KiB on that is done in a thread, and what comes behind waits.

    The last may have to be held back, as any event that may be the last is towards clients of 0.3.
    """
    long = artifact(300_000)
    async with grpc_fronted(says(FIRST, long, FIRST, long, long, LONG), backend=SPEAKS_1_0) as site:
        for number, name in enumerate(JSON, 1):
            reader = await hearing(site.gateway, name)
            events = (await reader.rest()).split(b"\n\n")[:-1]
            assert [len(event) > 300_000 for event in events] == [False, True, False, True, True, True]
            assert state_of(events[-1] + b"\n\n") == "completed"
            line = await site.gateway.line(of=number)
            assert (line["events"], line["outcome"]) == (6, "ok")
        await site.gateway.rested()


async def test_a_message_that_is_longer_than_it_may_be_ends_the_stream() -> None:
    limits = "connections: { event: 1000, kept: 1000 }"
    for backend in ("", SPEAKS_0_3):
        first = status_0_3() if backend else FIRST
        async with grpc_fronted(says(first, artifact(2000)), limits, backend=backend) as site:
            told = await site.client.stream(STREAM, request(STREAM, message=MESSAGE_1_0)).end()
            assert (told.messages, told.code) == ((BEGUN if backend else FIRST,), "INTERNAL")
            assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]


# ---- What ends badly -------------------------------------------------------------------------------------------------

DETAILS = bytes(Status(code=9, message="too late").SerializeToString()) + FUTURE


async def test_an_error_behind_some_messages_stands_behind_them() -> None:
    async with grpc_fronted(fails("FAILED_PRECONDITION", "too late", DETAILS, after=(FIRST, SECOND))) as site:
        told = await site.client.stream(STREAM).end()
        assert told.messages == (FIRST, SECOND)
        assert (told.code, told.words, told.details) == ("FAILED_PRECONDITION", "too late", DETAILS)
        line = await site.gateway.line()
        assert (line["outcome"], line["rpc_code"], line["closed_by"]) == ("client_error", 9, "agent")


async def test_an_error_behind_some_messages_is_the_last_event_of_clients_that_know_one() -> None:
    async with grpc_fronted(fails("NOT_FOUND", "gone", after=(FIRST, LAST)), backend=SPEAKS_1_0) as site:
        for name, version in (("jsonrpc 1.0", "1.0"), ("jsonrpc 0.3", "0.3"), ("rest 1.0", "1.0")):
            reader = await hearing(site.gateway, name)
            body = await reader.rest()
            first, held, last = body.split(b"\n\n")[:-1]
            assert [state_of(each + b"\n\n") for each in (first, held)] == ["working", "completed"]
            assert last.startswith(b"event: error\ndata: " if version == "1.0" else b"data: ")
            error = said(body)["error"]
            assert error["code"] == (404 if name == "rest 1.0" else -32001)
            assert (error["message"], said(body).get("id", "a")) == ("gone", "a")
        await site.gateway.line(of=3)
        assert {(each["outcome"], each["rpc_code"]) for each in site.gateway.lines} == {("client_error", -32001)}


async def test_an_error_breaks_off_the_stream_of_clients_that_know_no_event_for_it() -> None:
    async with grpc_fronted(fails("NOT_FOUND", "gone", after=(FIRST, LAST)), backend=SPEAKS_1_0) as site:
        reader = await hearing(site.gateway, "rest 0.3")
        assert state_of(await reader.piece()) == "working"
        assert state_of(await reader.piece()) == "completed"
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.piece()
        line = await site.gateway.line()
        assert (line["closed_by"], line["outcome"]) == ("agent", "upstream_error")


async def test_an_error_before_the_first_message_is_a_plain_answer_where_clients_take_one() -> None:
    async with grpc_fronted(fails("NOT_FOUND", "gone"), backend=SPEAKS_1_0) as site:
        told = await site.client.stream(STREAM).end()
        assert (told.messages, told.code, told.words) == ((), "NOT_FOUND", "gone")
        for name, content_type in (
            ("jsonrpc 1.0", "application/json"),
            ("jsonrpc 0.3", "text/event-stream"),
            ("rest 1.0", "application/json"),
            ("rest 0.3", "application/json"),
        ):
            reader = await JSON[name](site.gateway)
            answer = await reader.answer()
            assert answer.status == (200 if name.startswith("jsonrpc") else 404)
            assert answer.header("content-type") == content_type
            assert b"gone" in answer.body


async def test_an_agent_challenges_nobody_in_the_middle_of_a_stream_either() -> None:
    async with grpc_fronted(fails("UNAUTHENTICATED", "who is 10.0.0.7", after=(FIRST,)), backend=SPEAKS_1_0) as site:
        told = await site.client.stream(STREAM).end()
        assert (told.messages, told.code) == ((FIRST,), "INTERNAL")
        assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        # It is no event.
        assert (await site.gateway.line())["detail"] == "status UNAUTHENTICATED"
        assert "10.0.0.7" not in told.text
        reader = await hearing(site.gateway, "jsonrpc 1.0")
        body = await reader.rest()
        assert reasons(said(body)["error"]["data"])[-1] == "UPSTREAM_PROTOCOL"
        assert b"10.0.0.7" not in body


async def test_a_malformed_message_ends_a_stream() -> None:
    async with grpc_fronted(hangs(FIRST, b"<html>10.0.0.7"), backend=SPEAKS_1_0) as site:
        told = await site.client.stream(STREAM).end()
        assert (told.messages, told.code) == ((FIRST,), "INTERNAL")
        assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        reader = await hearing(site.gateway, "jsonrpc 0.3")
        body = await reader.rest()
        assert (body.count(b"data: "), said(body)["error"]["code"]) == (2, -32603)
        assert reasons(said(body)["error"]["data"]) == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        assert b"10.0.0.7" not in body + told.text.encode()
        for asked in site.agent.asked:
            await asked.cancelled.wait()
        await site.gateway.line(of=2)
        assert {(each["reason"], each["closed_by"]) for each in site.gateway.lines} == {
            ("upstream_protocol", "gateway")
        }
        assert {each["detail"].partition(":")[0] for each in site.gateway.lines} == {"event 2"}


async def test_a_message_that_tells_nothing_passes_to_who_speaks_as_the_agent_does_and_ends_other_streams() -> None:
    async with grpc_fronted(says(b"", FUTURE, FIRST), backend=SPEAKS_1_0) as site:
        assert (await site.client.stream(STREAM).end()).messages == (b"", FUTURE, FIRST)
        reader = await hearing(site.gateway, "jsonrpc 1.0")
        assert reasons(said(await reader.rest())["error"]["data"])[-1] == "UPSTREAM_PROTOCOL"


# ---- What breaks off -------------------------------------------------------------------------------------------------


def written(folder: Path) -> dict[str, Any]:
    """An agent whose card is a file, so that nobody asks it for one."""
    (folder / "card.json").write_bytes(card_of("127.0.0.1:1", "GRPC 1.0"))
    return {"more": "card: card.json", "path": folder / "gateway.yaml"}


class Plugged:
    """An agent that says the first message, and is there until the test pulls the plug."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def __call__(self, turn: Turn) -> None:
        self.turns.append(turn.head().data(frame(FIRST)))

    def pull(self) -> None:
        [turn] = self.turns
        turn.hang_up()


async def refuse_address(gateway: Running, port: int, text: str) -> None:
    assert not any(address in text for address in (*ADDRESSES, str(port)))
    line = await gateway.line()
    assert (line["reason"], line["closed_by"], line["outcome"]) == ("upstream_reset", "agent", "upstream_error")


async def test_a_lost_connection_ends_the_stream_and_tells_no_address(tmp_path: Path) -> None:
    plug = Plugged()
    async with http2_server(plug) as server, fronting(server.url, **written(tmp_path)) as (gateway, client):
        stream = client.stream(STREAM)
        assert await stream.next() == FIRST
        plug.pull()
        told = await stream.end()
        assert (told.messages, told.code, told.reasons) == ((FIRST,), "UNAVAILABLE", ["UPSTREAM_RESET"])
        await refuse_address(gateway, server.port, told.text)


@every_json
async def test_a_lost_connection_ends_every_other_stream_and_tells_no_address(name: str, tmp_path: Path) -> None:
    plug, body = Plugged(), b""
    async with http2_server(plug) as server, fronting(server.url, **written(tmp_path)) as (gateway, _):
        reader = await hearing(gateway, name)
        assert state_of(await reader.piece()) == "working"
        plug.pull()
        if name == "rest 0.3":
            with pytest.raises(asyncio.IncompleteReadError):
                await reader.piece()
        else:
            body = await reader.rest()
            error = said(body)["error"]
            assert reasons(error.get("data") or error["details"]) == ["UPSTREAM_RESET"]
        await refuse_address(gateway, server.port, body.decode())


@undisturbed(0.1)
async def test_an_agent_that_falls_silent_has_its_stream_ended_by_the_gateway() -> None:
    async with grpc_fronted(hangs(FIRST), "timeouts: { stream_idle: 200ms }", backend=SPEAKS_1_0) as site:
        told = await site.client.stream(STREAM).end()
        assert (told.messages, told.code, told.reasons) == ((FIRST,), "DEADLINE_EXCEEDED", ["UPSTREAM_IDLE"])
        body = await (await hearing(site.gateway, "jsonrpc 1.0")).rest()
        assert reasons(said(body)["error"]["data"]) == ["UPSTREAM_IDLE"]
        for asked in site.agent.asked:
            await asked.cancelled.wait()
        await site.gateway.line(of=2)
        assert {(each["reason"], each["closed_by"]) for each in site.gateway.lines} == {("upstream_idle", "gateway")}
        assert [each["rpc_code"] for each in site.gateway.lines] == [4, -32603]


# ---- Silence ---------------------------------------------------------------------------------------------------------


async def event_of(reader: Client) -> bytes:
    """The next piece that is no heartbeat."""
    while (piece := await reader.piece()) == HEARTBEAT:
        pass
    return piece


async def test_the_silence_of_an_agent_is_filled_with_heartbeats() -> None:
    agent = Held()
    async with grpc_fronted(agent, backend=SPEAKS_1_0, settings="heartbeat: 20ms") as site:
        for name in JSON:
            agent.say(FIRST)
            reader = await hearing(site.gateway, name)
            first = await event_of(reader)
            assert state_of(first) == "working"
            assert [await reader.piece() for _ in range(3)] == [HEARTBEAT] * 3
            agent.say(FIRST, None)
            rest = await reader.rest()
            assert rest.replace(HEARTBEAT, b"") == first


# ---- Who leaves ------------------------------------------------------------------------------------------------------


async def test_a_client_that_breaks_off_breaks_off_the_agents_stream() -> None:
    async with grpc_fronted(hangs(FIRST), backend=SPEAKS_1_0) as site:
        stream = site.client.stream(STREAM)
        assert await stream.next() == FIRST
        stream.cancel()
        reader = await hearing(site.gateway, "jsonrpc 1.0")
        await reader.piece()
        reader.leave()
        async with asyncio.timeout(WAIT):
            for asked in site.agent.asked:
                await asked.cancelled.wait()
        await site.gateway.line(of=2)
        assert {(each["reason"], each["closed_by"]) for each in site.gateway.lines} == {("client_gone", "client")}
        assert {each["rpc_code"] for each in site.gateway.lines} == {None}
        await site.gateway.rested()


async def test_a_gateway_that_stops_says_so_behind_the_messages() -> None:
    async with grpc_fronted(hangs(FIRST), backend=SPEAKS_1_0) as site:
        stream = site.client.stream(STREAM)
        assert await stream.next() == FIRST
        reader = await hearing(site.gateway, "jsonrpc 1.0")
        await reader.piece()
        hurry = asyncio.Event()
        hurry.set()
        ending = asyncio.ensure_future(site.gateway.gateway.stop(hurry, delay=0.0))
        told = await stream.end()
        assert (told.messages, told.code, told.reasons) == ((FIRST,), "UNAVAILABLE", ["DRAINING"])
        assert reasons(said(await reader.rest())["error"]["data"]) == ["DRAINING"]
        await ending
