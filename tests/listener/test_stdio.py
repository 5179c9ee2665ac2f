"""The host's frames are calls, and what the line answers are frames."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge
from gateway.a2a.framing.lsp import BadFrame, Framing
from gateway.background import Background
from gateway.listener.stdio import MOST_CALLS, Pipes, Rewrite, Serve, StdioClient
from gateway.proxy.responder import Responder
from tests.support.scripted import WAIT
from tests.support.stdio_host import PipeHost, frame, over_pipes
from tests.table import for_each

pytestmark = pytest.mark.anyio

EVENTS = [(b"content-type", b"text/event-stream")]


@asynccontextmanager
async def served(
    serve: Serve, *, framing: str = "lsp", rewrites: dict[str, Rewrite] | None = None
) -> AsyncIterator[tuple[PipeHost, StdioClient]]:
    """A host, and the client that it is to a line that does what `serve` says."""
    source, says = os.pipe()
    hears, target = os.pipe()
    background = Background()
    pipes = Pipes(source, target)
    client = StdioClient(pipes, serve, path=b"/agent", framing=Framing(framing), rewrites=rewrites)
    running = asyncio.ensure_future(client.run(background))
    try:
        async with over_pipes(hears, says, framing) as host:
            yield host, client
            host.leave()
            async with asyncio.timeout(WAIT):
                await running
            await client.ended(WAIT)
            await pipes.flushed(WAIT)
            os.close(target)
    finally:
        running.cancel()
        await background.aclose()
        pipes.close()
        os.close(source)


def event(call: Any, result: Any) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": call, "result": result}).encode() + b"\n\n"


def status(state: str, **more: Any) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}, **more}}


async def echo(head: Head, wire: Responder) -> None:
    """Answer with what came."""
    asked = json.loads(await wire.read(10_000))
    headers = {name.decode(): value.decode() for name, value in head.headers}
    told = {"method": head.method, "path": head.path.decode(), "headers": headers, "params": asked["params"]}
    answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}, indent=1)
    await wire.answer(200, [(b"a2a-extensions", b"urn:x"), (b"x-request-id", b"r")], answer.encode())


def streams(*events: bytes) -> Serve:
    async def serve(head: Head, wire: Responder) -> None:
        wire.open(200, EVENTS)
        for each in events:
            wire.write_nowait(each)
        await wire.drained()
        await wire.close()

    return serve


@for_each("framing", ["lsp", "ndjson"])
async def test_a_frame_is_a_call_and_its_answer_one_frame(framing: str) -> None:
    async with served(echo, framing=framing) as (host, _):
        told = await host.ask(
            "GetTask",
            {"id": "t"},
            A2A_Version="1.0",
            A2A_Extensions="urn:y",
            Traceparent="00-1-2-3",
            Authorization="Bearer secret",
            X_A2A_Tenant="globex",
            Host="elsewhere",
        )
        assert (told["method"], told["path"], told["params"]) == ("POST", "/agent", {"id": "t"})
        # A line says none of it; the version shows in the name of the method.
        asked = {"a2a-extensions": "urn:y", "traceparent": "00-1-2-3"} if framing == "lsp" else {}
        own = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        assert told["headers"] == {**own, "a2a-version": "1.0", **asked}
        # Of the agent's headers only these are a host's; a line has none.
        [headers] = host.headers
        assert headers.get("a2a-extensions") == ("urn:x" if framing == "lsp" else None)
        assert "x-request-id" not in headers


async def test_a_call_in_words_of_0_3_says_no_version_that_its_host_does_not() -> None:
    async with served(echo) as (host, _):
        assert "a2a-version" not in (await host.ask("tasks/get", {"id": "t"}))["headers"]


@for_each(
    ("method", "last", "ends"),
    [
        ("SendStreamingMessage", status("TASK_STATE_COMPLETED"), True),
        ("SendStreamingMessage", {"message": {"messageId": "m"}}, True),
        ("SendStreamingMessage", status("TASK_STATE_INPUT_REQUIRED"), False),
        ("SendStreamingMessage", status("TASK_STATE_WORKING"), False),
        ("message/stream", {"kind": "status-update", "status": {"state": "working"}, "final": True}, True),
        ("message/stream", {"kind": "status-update", "status": {"state": "completed"}, "final": False}, False),
        ("message/stream", {"kind": "artifact-update", "artifact": {}}, False),
    ],
)
async def test_a_stream_has_an_end_that_the_host_can_see(method: str, last: Any, *, ends: bool) -> None:
    serve = streams(b": keep-alive\n\n", event(1, {"task": {"id": "t"}}), event(1, last)[:9], event(1, last)[9:])
    async with served(serve) as (host, _):
        queue = await host.send(method)
        assert (await host.answer(queue))["result"] == {"task": {"id": "t"}}
        assert (await host.answer(queue))["result"] == last
        if not ends:
            assert (await host.answer(queue))["result"] is None
            assert host.headers[-1]["a2a-stream"] == "end"
    assert len(host.answers) == (2 if ends else 3)


async def test_an_error_may_be_the_only_event() -> None:
    async def serve(head: Head, wire: Responder) -> None:
        await wire.answer(200, EVENTS, b'event: error\ndata: {"jsonrpc":"2.0","id":1,"error":{"code":-1}}\n\n')

    async with served(serve) as (host, _):
        assert await host.ask("message/stream") == {"error": {"code": -1}}


async def test_a_broken_off_answer_is_an_error() -> None:
    async def serve(head: Head, wire: Responder) -> None:
        wire.open(200, EVENTS)
        await wire.write(event(1, {"task": {"id": "t"}}))
        wire.cut()
        await wire.write(event(1, {"task": {"id": "late"}}))

    async with served(serve) as (host, _):
        queue = await host.send("SendStreamingMessage")
        await host.answer(queue)
        assert (await host.answer(queue))["error"]["code"] == -32603
    assert len(host.answers) == 2


async def test_a_call_is_given_up_by_its_id_and_no_other() -> None:
    gone = asyncio.Event()
    began = asyncio.Event()

    async def serve(head: Head, wire: Responder) -> None:
        if b"SendMessage" not in await wire.read(1000):
            await wire.answer(200, [], b'{"jsonrpc":"2.0","id":2,"result":{}}')
            return
        wire.when_gone(gone.set)
        began.set()
        await gone.wait()
        await wire.answer(200, [], b'{"jsonrpc":"2.0","id":1,"result":{"late":true}}')

    async with served(serve) as (host, _):
        queue = await host.send("SendMessage")
        await began.wait()
        for params in ('{"id":"1"}', '{"id":7}', "{}", "[]"):
            await host.write(frame(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":%b}' % params.encode()))
        await host.write(frame(b'{"jsonrpc":"2.0","method":"$/cancelRequest"}'))
        assert await host.ask("GetTask") == {}
        assert not gone.is_set()
        await host.write(frame(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}'))
        assert (await host.answer(queue))["error"]["code"] == -32800
        async with asyncio.timeout(WAIT):
            await gone.wait()
    assert [answer["id"] for answer in host.answers] == [2, 1]


async def test_notifications_and_answers_are_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    async with served(echo) as (host, _):
        await host.write(frame(b'{"jsonrpc":"2.0","method":"initialized","params":{}}'))
        await host.write(frame(b'{"jsonrpc":"2.0","id":1,"result":{}}'))
        await host.ask("GetTask")
    assert len(host.answers) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


async def test_malformed_calls_are_refused_by_the_pipeline() -> None:
    bodies = []

    async def serve(head: Head, wire: Responder) -> None:
        bodies.append(await wire.read(1000))
        await wire.answer(200, [], b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}')

    async with served(serve) as (host, _):
        for body in (b"[]", b"nothing", b'{"id":1}', b'{"id":1,"method":7}', b'{"id":{},"method":"GetTask"}'):
            await host.write(frame(body))
    assert len(host.answers) == 5
    assert bodies[:2] == [b"[]", b"nothing"]


REFUSED = b'"jsonrpc":"2.0","error":{"code":-32029,"message":"no","data":[{"id":null}]}'


@for_each("identity", ['"a-1"', "7", "-7", "0", "1.5", '"\\u0061"', "9007199254740993", '"%s"' % ("x" * 600)])
@for_each("said", [b'"id":null,%b', b' "id" : null ,%b', b"%b", b'%b,"id":null', b'"id":9007199254740992,%b'])
@for_each("streamed", [False, True])
async def test_every_answer_has_the_id_of_its_call(identity: str, said: bytes, *, streamed: bool) -> None:
    body = b"{%b}" % (said % REFUSED)

    async def serve(head: Head, wire: Responder) -> None:
        # As a refusal from before the body was read, or an agent that does not keep ids.
        await wire.answer(200, EVENTS if streamed else [], b"data: %b\n\n" % body if streamed else body)

    async with served(serve) as (host, _):
        queue = host.expect(json.loads(identity))
        await host.write(frame(b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{}}' % identity.encode()))
        answer = await host.answer(queue)
    assert answer == {**json.loads(b"{%b}" % REFUSED), "id": json.loads(identity)}
    assert len(host.answers) == 1


@for_each(
    "body",
    [b"[]", b"nothing", b'{"id":null,"method":"GetTask"}', b'{"id":{},"method":"x"}', b'{"id":1,"id":2,"method":"x"}'],
)
async def test_a_call_without_one_usable_id_is_answered_without_one(body: bytes) -> None:
    async def serve(head: Head, wire: Responder) -> None:
        await wire.answer(200, [], b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}')

    async with served(serve) as (host, _):
        queue = host.expect(None)
        await host.write(frame(body))
        assert (await host.answer(queue))["error"]["code"] == -32600


async def test_a_body_may_be_too_long_for_the_line() -> None:
    async def serve(head: Head, wire: Responder) -> None:
        with pytest.raises(BodyTooLarge):
            await wire.read(10)
        await wire.answer(200, [], b'{"jsonrpc":"2.0","id":1,"result":"refused"}')

    async with served(serve) as (host, _):
        assert await host.ask("GetTask") == "refused"


async def test_the_number_of_open_calls_is_bounded() -> None:
    go = asyncio.Event()

    async def serve(head: Head, wire: Responder) -> None:
        await go.wait()
        await echo(head, wire)

    async with served(serve) as (host, _):
        queues = [await host.send("GetTask") for _ in range(MOST_CALLS + 1)]
        refused = await host.answer(queues[-1])
        assert (refused["id"], refused["error"]["code"]) == (MOST_CALLS + 1, -31503)
        go.set()
        assert [(await host.answer(queue))["id"] for queue in queues[:-1]] == list(range(1, MOST_CALLS + 1))


async def test_a_host_that_asks_and_does_not_read_is_not_heard_for_ever() -> None:
    asked = 0

    async def serve(head: Head, wire: Responder) -> None:
        nonlocal asked
        asked += 1
        await wire.answer(200, [], b'{"jsonrpc":"2.0","id":1,"result":"%b"}' % (b"x" * 10_000))

    async with served(serve) as (host, client):
        host.pause()
        call = frame(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}')
        queue = host.expect(1)
        host.writer.write(call * 2000)
        while not client.pipes.full:  # noqa: ASYNC110 - the pipe tells nobody
            await asyncio.sleep(0.001)
        # The bytes of one read, and no more.
        assert asked < 1_500
        host.resume()
        for _ in range(2000):
            await host.answer(queue)


async def test_a_host_that_is_gone_has_no_calls() -> None:
    gone = asyncio.Event()

    async def serve(head: Head, wire: Responder) -> None:
        wire.when_gone(gone.set)
        await gone.wait()
        wire.cut()

    async with served(serve) as (host, client):
        await host.send("SendMessage")
        while not client.open:  # noqa: ASYNC110 - the frame is on its way
            await asyncio.sleep(0)
        client.leave()
        client.leave()
        async with asyncio.timeout(WAIT):
            await gone.wait()
    assert host.answers == []


async def test_the_last_line_needs_no_end() -> None:
    async with served(echo, framing="ndjson") as (host, _):
        queue = host.expect(1)
        await host.write(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}')
        host.leave()
        assert (await host.answer(queue))["result"]["params"] == {}


async def test_text_that_is_not_utf_8_does_not_end_the_reading() -> None:
    async def serve(_head: Head, wire: Responder) -> None:
        await wire.answer(200, [], b'{"jsonrpc":"2.0","id":1,"result":null}')

    async with served(serve) as (host, _):
        queue = host.expect(1)
        for content in (
            b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
            b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"\xff"}}',
            b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"\xff":1}}',
            b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}',
        ):
            await host.write(frame(content))
        assert [(await host.answer(queue))["id"] for _ in range(2)] == [1, 1]


async def test_a_bad_frame_is_reported_and_ends_the_reading() -> None:
    source, says = os.pipe()
    hears, target = os.pipe()
    background = Background()
    pipes = Pipes(source, target)
    client = StdioClient(pipes, echo, path=b"/agent")
    async with over_pipes(hears, says, "lsp") as host:
        queue = host.expect(1)
        await host.write(frame(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}') + b"hello\r\n\r\n")
        with pytest.raises(BadFrame):
            await client.run(background)
        # Earlier calls are answered all the same.
        assert "result" in await host.answer(queue)
        await client.ended(WAIT)
        await pipes.flushed(WAIT)
        os.close(target)
    assert [answer.get("error", {}).get("code") for answer in host.answers] == [-32700, None]
    await background.aclose()
    pipes.close()
    os.close(source)
