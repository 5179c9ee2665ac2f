"""One call over a pipe: its frames are an answer like any other, of JSON or of events."""

import asyncio
import json
from typing import Any

import pytest

from gateway.a2a.bindings.stdio import hear
from gateway.a2a.dialect import Version
from gateway.a2a.fault import Overloaded, UpstreamIdle, UpstreamReset, UpstreamTimeout
from gateway.a2a.framing.lsp import Frame, Framing
from gateway.upstream import stdio_call
from gateway.upstream.stdio_call import StdioCall

pytestmark = pytest.mark.anyio

WORKING = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}
WAITING = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}}
DONE = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}


class Pipe:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.forgotten: list[bytes] = []

    def forget(self, key: bytes) -> None:
        self.forgotten.append(key)


def asked(*, streams: bool, longest: int = 10_000) -> tuple[StdioCall, Pipe]:
    pipe = Pipe()
    return StdioCall(pipe, b'"g-1"', b"5", Version.V1_0, streams=streams, longest=longest), pipe


def say(call: StdioCall, *headers: tuple[bytes, bytes], **members: Any) -> None:
    content = json.dumps({"jsonrpc": "2.0", "id": "g-1", **members}).encode()
    heard = hear(content)
    assert heard is not None
    call.deliver(Frame(content, list(headers), Framing.LSP), heard)


async def soon() -> float:
    return asyncio.get_running_loop().time() + 10


async def events(call: StdioCall, seconds: float = 10) -> list[Any]:
    found = b""

    def take(data: bytes) -> bool:
        nonlocal found
        found += data
        return True

    async def settle() -> None:
        return None

    await call.response.head(await soon())
    assert call.response.header(b"content-type") == b"text/event-stream"
    await call.response.flow(take, settle, seconds)
    return [json.loads(event.removeprefix(b"data: ")) for event in found.split(b"\n\n") if event]


async def test_an_answer_is_whole_with_its_first_frame() -> None:
    call, pipe = asked(streams=False)
    say(call, (b"a2a-extensions", b"urn:x"), (b"set-cookie", b"no"), result={"id": "t"})
    response = await call.response.head(await soon())
    assert response.headers == [(b"content-type", b"application/json"), (b"a2a-extensions", b"urn:x")]
    assert json.loads(response.whole() or b"") == {"jsonrpc": "2.0", "id": 5, "result": {"id": "t"}}
    assert pipe.forgotten == [b'"g-1"']


async def test_a_stream_is_its_frames_as_events_to_the_one_that_ends_it() -> None:
    call, pipe = asked(streams=True)
    flowing = asyncio.ensure_future(events(call))
    for result in (WORKING, WORKING, DONE):
        say(call, result=result)
        await asyncio.sleep(0)
    assert [each["result"] for each in await flowing] == [WORKING, WORKING, DONE]
    assert pipe.forgotten == [b'"g-1"']


async def test_a_stream_that_begins_with_an_error_is_none() -> None:
    call, _ = asked(streams=True)
    say(call, error={"code": -32001, "message": "no such task"})
    response = await call.response.head(await soon())
    assert response.header(b"content-type") == b"application/json"


async def test_a_null_result_and_a_header_end_a_stream() -> None:
    call, _ = asked(streams=True)
    say(call, result=WORKING)
    say(call, result=None)
    assert [each["result"] for each in await events(call)] == [WORKING]
    call, _ = asked(streams=True)
    say(call, (b"a2a-stream", b"end"), result=WORKING)
    assert [each["result"] for each in await events(call)] == [WORKING]


async def test_an_event_that_may_be_the_last_is_if_nothing_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_call, "PATIENCE", 0.01)
    call, _ = asked(streams=True)
    say(call, result=WAITING)
    assert [each["result"] for each in await events(call)] == [WAITING]
    monkeypatch.setattr(stdio_call, "PATIENCE", 60)
    call, _ = asked(streams=True)
    for result in (WAITING, WORKING, DONE):
        say(call, result=result)
    assert len(await events(call)) == 3


async def test_what_a_slow_client_does_not_take_ends_its_stream_when_it_is_too_much() -> None:
    call, pipe = asked(streams=True, longest=300)
    for _ in range(10):
        say(call, result=WORKING)
    assert pipe.forgotten == [b'"g-1"']
    with pytest.raises(Overloaded):
        await events(call)


async def test_silence_before_and_in_the_midst_of_an_answer_is_a_fault() -> None:
    call, _ = asked(streams=False)
    with pytest.raises(UpstreamTimeout):
        await call.response.head(call.loop.time() + 0.01)
    call, pipe = asked(streams=True)
    say(call, result=WORKING)
    with pytest.raises(UpstreamIdle):
        await events(call, 0.01)
    assert pipe.forgotten == [b'"g-1"']


async def test_a_deadline_moves_on_with_every_event() -> None:
    call, _ = asked(streams=True)
    say(call, result=WORKING)
    flowing = asyncio.ensure_future(events(call, 0.2))
    for _ in range(5):
        await asyncio.sleep(0.08)
        say(call, result=WORKING)
    say(call, result=DONE)
    assert len(await flowing) == 7


async def test_who_gives_up_lets_the_pipe_forget_the_call() -> None:
    for fails in (False, True):
        call, pipe = asked(streams=True)
        for _ in range(2):
            if fails:
                call.fail(UpstreamReset("gone"))
            else:
                call.response.close()
        assert pipe.forgotten == [b'"g-1"']
    call, pipe = asked(streams=False)
    waiting = asyncio.ensure_future(call.response.head(await soon()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pipe.forgotten == [b'"g-1"']


async def test_a_foreign_answer_is_no_reason_to_distrust_a_pipe() -> None:
    call, pipe = asked(streams=False)
    say(call, result={})
    call.response.disown()
    call.resume_reading()
    assert pipe.forgotten == [b'"g-1"']
