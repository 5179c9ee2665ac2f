"""The wire between a client and an agent: events as they come, and both ends told at once when the other leaves."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.e2e.sdk import open_http
from tests.e2e.wire import V1, check_request_id, error, frame, message, old_message, reasons
from tests.support.gateway import Scripted, scripted
from tests.support.scripted import (
    Script,
    Wire,
    answers,
    answers_and_closes,
    answers_and_hangs,
    answers_and_resets,
    chunk,
    head,
    refused_port,
    whole,
)
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.anyio

EVENT_STREAM = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
PROMPT = 0.2
"""Seconds within which an agent must be told that its client has left."""


def working(number: int, *, rpc: bool) -> bytes:
    """An event of a stream, as an agent sends it."""
    status = {"statusUpdate": {"taskId": f"t{number}", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    tree = {"jsonrpc": "2.0", "id": "same", "result": status} if rpc else status
    return b"data: " + msgspec.json.encode(tree) + b"\r\n\r\n"


STREAMS = [
    pytest.param("", frame("SendStreamingMessage", message(), id="same"), True, id="JSONRPC"),
    pytest.param("/message:stream", msgspec.json.encode(message()), False, id="HTTP+JSON"),
]
UNARY = [
    pytest.param("", frame("SendMessage", message(), id="same"), id="JSONRPC"),
    pytest.param("/message:send", msgspec.json.encode(message()), id="HTTP+JSON"),
]


@asynccontextmanager
async def streaming(gateway: Scripted, path: str, body: bytes) -> AsyncIterator[httpx.Response]:
    async with open_http(V1) as http, http.stream("POST", gateway.url + path, content=body) as answer:
        yield answer


@pytest.mark.parametrize(("path", "body", "rpc"), STREAMS)
async def test_each_event_goes_out_before_the_next_comes_in(
    tmp_path: Path,
    path: str,
    body: bytes,
    rpc: bool,  # noqa: FBT001 - a column of STREAMS
) -> None:
    read = asyncio.Queue[None]()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(EVENT_STREAM)
        for number in range(4):
            await wire.send(chunk(working(number, rpc=rpc)))
            # The next event is not sent until the client has read this one.
            await read.get()
        await wire.send(chunk(b""))
        await wire.hang()

    async with scripted(script, tmp_path) as gateway, streaming(gateway, path, body) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        pieces = answer.aiter_raw()
        for number in range(4):
            assert await anext(pieces) == working(number, rpc=rpc)
            read.put_nowait(None)
        assert [piece async for piece in pieces] == []


@pytest.mark.parametrize(("path", "body", "rpc"), STREAMS)
async def test_an_event_in_pieces_goes_out_whole(tmp_path: Path, path: str, body: bytes, rpc: bool) -> None:  # noqa: FBT001 - a column of STREAMS
    whole_event = working(1, rpc=rpc)

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(EVENT_STREAM)
        for byte in b": ping\r\n\r\n" + whole_event * 2:
            await wire.send(chunk(bytes((byte,))))
        await wire.send(chunk(b""))
        await wire.hang()

    async with scripted(script, tmp_path) as gateway, streaming(gateway, path, body) as answer:
        pieces = [piece async for piece in answer.aiter_raw()]
    assert b"".join(pieces).replace(b": ping\r\n\r\n", b"") == whole_event * 2
    assert all(piece.endswith(b"\r\n\r\n") for piece in pieces)


def _leaves(port: int, path: str, body: bytes) -> socket.socket:
    """A request on a socket of its own, so that leaving is one call."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=5)
    sock.sendall(
        b"POST /agent%b HTTP/1.1\r\nHost: a\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n"
        % (path.encode(), len(body))
        + body
    )
    return sock


async def _told_within(gateway: Scripted, leave: Callable[[], Awaitable[None] | None]) -> float:
    """Leave, and give how long it took until the agent's connection was closed."""
    [wire] = gateway.backend.wires
    left = asyncio.get_running_loop().time()
    waited = leave()
    if waited is not None:
        await waited
    await gateway.backend.all_gone()
    assert wire.left_at is not None
    return wire.left_at - left


@pytest.mark.parametrize(("path", "body", "rpc"), STREAMS)
@undisturbed(0.1)
async def test_a_client_that_leaves_a_stream_closes_it_at_the_agent(
    tmp_path: Path,
    path: str,
    body: bytes,
    rpc: bool,  # noqa: FBT001 - a column of STREAMS
) -> None:
    script = answers_and_hangs(EVENT_STREAM + chunk(working(1, rpc=rpc)))
    async with scripted(script, tmp_path) as gateway:
        sock = await asyncio.to_thread(_leaves, gateway.port, path, body)
        got = b""
        while working(1, rpc=rpc) not in got:
            got += await asyncio.to_thread(sock.recv, 65536)
        assert await _told_within(gateway, sock.close) < PROMPT
        await gateway.stop()
    [line] = gateway.access
    assert (line["outcome"], line["reason"], line["closed_by"]) == ("client_gone", "client_gone", "client")
    assert (line["stream"], line["events"], line["task_id"]) == (True, 1, "t1")


@pytest.mark.parametrize(("path", "body"), UNARY)
@pytest.mark.parametrize("answered", [b"", head(b"content-length: 100"), head(b"content-length: 100") + b'{"a":'])
@undisturbed(0.1)
async def test_a_client_that_leaves_a_unary_call_closes_it_at_the_agent(
    tmp_path: Path, path: str, body: bytes, answered: bytes
) -> None:
    async with scripted(answers_and_hangs(answered), tmp_path) as gateway:
        sock = await asyncio.to_thread(_leaves, gateway.port, path, body)
        await gateway.backend.until(lambda: len(gateway.backend.requests) == 1)
        assert await _told_within(gateway, sock.close) < PROMPT
        await gateway.stop()
    [line] = gateway.access
    assert (line["outcome"], line["stream"]) == ("client_gone", False)


@pytest.mark.parametrize(("path", "body"), UNARY)
async def test_half_a_request_that_is_abandoned_reaches_no_agent(tmp_path: Path, path: str, body: bytes) -> None:
    async with scripted(answers(whole()), tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST /agent%b HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" % path.encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert await reader.read() == b""
        await gateway.stop()
        assert gateway.backend.requests == []


@pytest.mark.parametrize(("path", "body"), UNARY)
async def test_a_connection_that_carried_an_abandoned_call_is_not_used_again(
    tmp_path: Path, path: str, body: bytes
) -> None:
    answer = whole(b'{"jsonrpc":"2.0","id":"same","result":{}}')

    async def script(wire: Wire) -> None:
        if wire.number == 0:
            await wire.request()
            await wire.hang()
        else:
            await wire.request()
            await wire.send(answer)
            await wire.hang()

    async with scripted(script, tmp_path) as gateway:
        sock = await asyncio.to_thread(_leaves, gateway.port, path, body)
        await gateway.backend.until(lambda: len(gateway.backend.requests) == 1)
        sock.close()
        await gateway.backend.all_gone()
        async with open_http(V1) as http:
            assert (await http.post(gateway.url + path, content=body)).status_code == 200
        assert [received.connection for received in gateway.backend.requests] == [0, 1]


@pytest.mark.parametrize(("path", "body", "rpc"), STREAMS)
@pytest.mark.parametrize("breaks", [answers_and_resets, answers_and_closes])
async def test_a_stream_that_breaks_off_ends_with_an_error(
    tmp_path: Path,
    breaks: Callable[[bytes], Script],
    path: str,
    body: bytes,
    rpc: bool,  # noqa: FBT001 - a column of STREAMS
) -> None:
    first = working(1, rpc=rpc)
    async with (
        scripted(breaks(EVENT_STREAM + chunk(first)), tmp_path) as gateway,
        streaming(gateway, path, body) as answer,
    ):
        got = b"".join([piece async for piece in answer.aiter_raw()])
    assert got.startswith(first)
    assert _last_word(got.removeprefix(first), rpc=rpc)["message"]
    [line] = gateway.access
    assert (line["reason"], line["outcome"], line["closed_by"]) == ("upstream_reset", "upstream_error", "agent")


def _last_word(event: bytes, *, rpc: bool) -> dict[str, object]:
    """The error in the event that ends a stream of 1.0."""
    name, data, *rest = event.split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    tree = msgspec.json.decode(data.removeprefix(b"data: "))
    if rpc:
        assert (tree["jsonrpc"], tree["id"], tree["error"]["code"]) == ("2.0", "same", -32603)
    found: dict[str, object] = tree["error"]
    return found


@pytest.mark.parametrize(("path", "body", "rpc"), STREAMS)
async def test_a_gateway_that_stops_ends_a_stream_with_an_error(
    tmp_path: Path,
    path: str,
    body: bytes,
    rpc: bool,  # noqa: FBT001 - a column of STREAMS
) -> None:
    first = working(1, rpc=rpc)
    async with (
        scripted(answers_and_hangs(EVENT_STREAM + chunk(first)), tmp_path) as gateway,
        streaming(gateway, path, body) as answer,
    ):
        pieces = answer.aiter_raw()
        assert await anext(pieces) == first
        _, *rest = await asyncio.gather(gateway.stop(), anext(pieces))
        error_event = b"".join([*rest, *[piece async for piece in pieces]])
        await gateway.backend.all_gone()
    name, data, *_ = error_event.split(b"\n")
    assert name == b"event: error"
    tree = msgspec.json.decode(data.removeprefix(b"data: "))
    details = tree["error"].get("data") or tree["error"]["details"]
    assert "DRAINING" in {detail["reason"] for detail in details}
    [line] = gateway.access
    assert (line["reason"], line["closed_by"]) == ("draining", "gateway")


async def test_a_stream_of_0_3_over_http_json_that_breaks_off_has_no_clean_end(tmp_path: Path) -> None:
    first = b'data: {"statusUpdate":{"taskId":"t1"}}\n\n'
    script = answers_and_resets(EVENT_STREAM + chunk(first))
    got = bytearray()

    async def read(url: str) -> None:
        body = msgspec.json.encode(old_message())
        async with open_http() as http, http.stream("POST", url + "/v1/message:stream", content=body) as answer:
            async for piece in answer.aiter_raw():
                got.extend(piece)

    async with scripted(script, tmp_path) as gateway:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await read(gateway.url)
    assert got == first


async def test_a_stream_of_0_3_over_json_rpc_that_breaks_off_ends_with_an_error(tmp_path: Path) -> None:
    first = b'data: {"jsonrpc":"2.0","id":"same","result":{"kind":"status-update","taskId":"t1"}}\n\n'
    script = answers_and_resets(EVENT_STREAM + chunk(first))
    async with scripted(script, tmp_path) as gateway, open_http() as http:
        answer = await http.post(gateway.url, content=frame("message/stream", old_message(), id="same"))
    data = answer.content.removeprefix(first)
    assert data.startswith(b"data: {")
    tree = msgspec.json.decode(data.removeprefix(b"data: "))
    assert (tree["id"], tree["error"]["code"]) == ("same", -32603)


WRONG: dict[str, tuple[Script, int, int, str]] = {
    "no JSON": (answers(whole(b"<html>")), -32006, 502, "UPSTREAM_PROTOCOL"),
    "another content": (
        answers(head(b"content-length: 2", content_type=b"text/html") + b"{}"),
        -32006,
        502,
        "UPSTREAM_PROTOCOL",
    ),
    "a redirect": (
        answers(whole(b"{}", b"location: http://agent.internal/x", status=b"307 Temporary Redirect")),
        -32006,
        502,
        "UPSTREAM_PROTOCOL",
    ),
    "no HTTP": (answers_and_closes(b"HELLO\r\n\r\n"), -32006, 502, "UPSTREAM_PROTOCOL"),
    "nothing": (answers_and_closes(), -32603, 502, "UPSTREAM_RESET"),
    "half an answer": (answers_and_closes(head(b"content-length: 100") + b'{"a"'), -32603, 502, "UPSTREAM_RESET"),
    "an encoded answer": (answers(whole(b"\x1f\x8b", b"content-encoding: gzip")), -32006, 502, "UPSTREAM_PROTOCOL"),
}


@pytest.mark.parametrize(("path", "body"), UNARY)
@pytest.mark.parametrize("wrong", WRONG)
async def test_an_agent_that_answers_wrongly_is_reported_and_not_shown(
    tmp_path: Path, wrong: str, path: str, body: bytes
) -> None:
    script, code, status, reason = WRONG[wrong]
    async with scripted(script, tmp_path) as gateway, open_http(V1) as http:
        answer = await http.post(gateway.url + path, content=body)
        assert (answer.status_code, error(answer)["code"]) == ((status, status) if path else (200, code))
        assert reason in reasons(answer)
        check_request_id(answer)
        shown = answer.text + str(answer.headers)
        assert f":{gateway.backend.port}" not in shown
        assert "internal" not in shown.lower().replace("internal error", "").replace('"status":"internal"', "")


@pytest.mark.parametrize(("path", "body"), UNARY)
async def test_an_agent_that_is_not_there_is_reported_and_not_shown(tmp_path: Path, path: str, body: bytes) -> None:
    port = refused_port()
    async with (
        scripted(answers(), tmp_path, url=f"http://127.0.0.1:{port}") as gateway,
        open_http(V1) as http,
    ):
        answer = await http.post(gateway.url + path, content=body)
    assert (answer.status_code, error(answer)["code"]) == ((502, 502) if path else (200, -32603))
    assert "UPSTREAM_CONNECT" in reasons(answer)
    assert f":{port}" not in answer.text


@pytest.mark.parametrize(("path", "body"), UNARY)
async def test_an_agent_that_does_not_answer_in_time_is_given_up(tmp_path: Path, path: str, body: bytes) -> None:
    async with (
        scripted(answers_and_hangs(), tmp_path, timeouts={"send": "100ms"}) as gateway,
        open_http(V1) as http,
    ):
        answer = await http.post(gateway.url + path, content=body)
        await gateway.backend.all_gone()
    assert (answer.status_code, error(answer)["code"]) == ((504, 504) if path else (200, -32603))
    assert "UPSTREAM_TIMEOUT" in reasons(answer)


async def test_headers_of_an_agent_pass_by_allow_list(tmp_path: Path) -> None:
    body = b'{"jsonrpc":"2.0","id":"same","result":{}}'
    fields = (
        b"set-cookie: a=b",
        b"server: agent/1.0",
        b"location: http://agent.internal/",
        b"x-request-id: the-agents",
        b"x-internal: secret",
        b"via: 1.1 proxy.internal",
        b"connection: keep-alive, a2a-extensions",
        b"a2a-extensions: https://e.example",
        b"cache-control: no-store",
        b"a2a-version: 1.0",
    )
    async with scripted(answers(whole(body, *fields)), tmp_path) as gateway, open_http(V1) as http:
        answer = await http.post(gateway.url, content=frame("GetTask", {"id": "t"}, id="same"))
    assert answer.content == body
    assert set(answer.headers) == {
        "content-type", "content-length", "date", "x-request-id", "cache-control", "a2a-version",
    }  # fmt: skip
    assert answer.headers["x-request-id"] != "the-agents"


@pytest.mark.parametrize("identity", ['"a b\\u00e9"', "7", "-7", "9007199254740993", "null", '""', '"\\"{}"'])
async def test_bytes_are_relayed_untouched_in_both_directions(tmp_path: Path, identity: str) -> None:
    asked = (
        b'{ "jsonrpc" : "2.0",\n "method":"GetTask", "params":{"id":"\\u0074", "x": 1.50e3}, "id":%b }'
        % identity.encode()
    )
    told = b'{"id":%b, "jsonrpc":"2.0" ,"result":{"id":"\\u0074","n":1.0, "u":{"k":[1,  2]}}}' % identity.encode()
    async with scripted(answers(whole(told)), tmp_path) as gateway, open_http(V1) as http:
        answer = await http.post(gateway.url, content=asked)
        [received] = gateway.backend.requests
    assert (answer.content, received.body) == (told, asked)
