"""The connection to one process: answers go to their own calls, and what is no frame breaks it for all."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from gateway.a2a.bindings.stdio import read_message
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import (
    NoHealthyBackend,
    Overloaded,
    UpstreamProtocol,
    UpstreamReset,
    UpstreamTimeout,
)
from gateway.a2a.framing.lsp import Frame, FrameDecoder, Framing, encode
from gateway.a2a.operation import Operation
from gateway.upstream.response import Response
from gateway.upstream.stdio import rpc
from gateway.upstream.stdio.rpc import MOST_UNREAD, Rpc
from tests.table import for_each

pytestmark = pytest.mark.anyio

DIALECT = Dialect(Binding.JSONRPC, Version.V1_0)


class Agent:
    """The other end of the pipe."""

    def __init__(self, framing: Framing = Framing.LSP, longest: int = 4_000_000) -> None:
        self.unread = 0
        self.learnt: list[tuple[str | None, str | None]] = []
        self.dropped: Counter[str] = Counter()
        self.frames: list[Frame] = []
        self._decoder = FrameDecoder()
        self.rpc = Rpc(
            "notes",
            self,
            framing=framing,
            longest=longest,
            asked=longest,
            dropped=self.dropped,
            learn=lambda _rpc, task, context: self.learnt.append((task, context)),
        )

    def write(self, data: bytes) -> None:
        self.frames += self._decoder.feed(data)

    def ask(self, identity: bytes = b"7", operation: Operation = Operation.GET_TASK) -> Response:
        body = b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{"id":"t"}}' % identity
        received = read_message(body)
        assert received is not None
        call = Call(operation, DIALECT, "GetTask", id=identity)
        return self.rpc.ask(call, received.members, b"a2a-version: 1.0\r\n", Version.V1_0)

    def stream(self) -> Response:
        return self.ask(operation=Operation.SUBSCRIBE_TO_TASK)

    def id(self, number: int = -1) -> str:
        return str(json.loads(self.frames[number].content)["id"])

    def say(self, tree: Any, framing: Framing = Framing.LSP, *headers: tuple[bytes, bytes]) -> None:
        self.rpc.data_received(encode(json.dumps(tree).encode(), framing, headers))

    def answer(self, result: Any, number: int = -1, *headers: tuple[bytes, bytes]) -> None:
        self.say({"jsonrpc": "2.0", "id": self.id(number), "result": result}, Framing.LSP, *headers)


async def whole(response: Response) -> Any:
    await response.head(asyncio.get_running_loop().time() + 10)
    return json.loads(await response.read(10_000_000, 10))


async def test_a_call_that_is_given_up_is_forgotten_and_what_comes_for_it_is_late() -> None:
    agent = Agent()
    response = agent.ask()
    response.close()
    assert agent.rpc.calls == 0
    agent.answer({"id": "t"})
    assert (agent.dropped["late"], agent.dropped["stray"]) == (1, 0)
    assert agent.rpc.is_open


@for_each("identity", ["g-99", "nobody", 1, None, "g-" + "9" * 5000, "g-x"])
async def test_an_answer_to_no_call_is_dropped_and_counted(identity: object) -> None:
    agent = Agent()
    agent.ask()
    agent.say({"jsonrpc": "2.0", "id": identity, "result": {}})
    assert (agent.dropped["late"], agent.dropped["stray"], agent.rpc.calls) == (0, 1, 1)


@for_each(
    "said",
    [
        b'{"jsonrpc": "2.0", "id": "g-1", "result": {"score": NaN}}',
        b'{"id":"g-1","jsonrpc":"2.0","result":%b}' % (b"[" * 100_000 + b"]" * 100_000),
        b'{"result": {"score": Infinity}, "id": "g-1", "jsonrpc": "2.0"}\n',
    ],
)
async def test_a_malformed_answer_fails_its_own_call_alone(said: bytes) -> None:
    agent = Agent()
    response, other = agent.ask(), agent.ask()
    agent.rpc.data_received(encode(said, Framing.LSP))
    with pytest.raises(UpstreamProtocol):
        await whole(response)
    assert (agent.rpc.calls, agent.dropped["stray"], agent.rpc.is_open) == (1, 1, True)
    agent.answer({"id": "t"})
    assert (await whole(other))["result"] == {"id": "t"}


async def test_a_request_of_the_agents_own_is_refused_but_not_without_end() -> None:
    agent = Agent()
    agent.say({"jsonrpc": "2.0", "id": "a-1", "method": "sampling/create"})
    assert json.loads(agent.frames[-1].content)["error"]["code"] == -32601
    agent.say({"jsonrpc": "2.0", "method": "log"})
    agent.unread = 100_000
    agent.say({"jsonrpc": "2.0", "id": "a-2", "method": "sampling/create"})
    assert len(agent.frames) == 1


@for_each("data", [b"\x00", b"Content-Length: x\r\n\r\n"])
async def test_a_bad_frame_fails_every_call_and_no_more_are_made(data: bytes) -> None:
    agent = Agent()
    responses = [agent.ask(), agent.ask()]
    agent.rpc.data_received(data)
    for response in responses:
        with pytest.raises(UpstreamReset):
            await whole(response)
    with pytest.raises(NoHealthyBackend):
        agent.ask()
    assert "an invalid frame" in await agent.rpc.broken


async def test_a_line_at_the_very_end_is_an_answer_all_the_same() -> None:
    agent = Agent()
    response = agent.ask()
    agent.rpc.data_received(json.dumps({"jsonrpc": "2.0", "id": agent.id(), "result": {}}).encode())
    agent.rpc.connection_lost(None)
    assert (await whole(response))["result"] == {}


async def test_silence_in_the_middle_of_a_frame_breaks_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "STALL", 0.01)
    agent = Agent()
    agent.rpc.data_received(b"Content-Len")
    assert "in the middle of a frame" in await asyncio.wait_for(agent.rpc.broken, 10)


async def test_a_process_that_does_not_read_is_sent_no_more() -> None:
    agent = Agent()
    agent.unread = MOST_UNREAD + 1
    with pytest.raises(Overloaded):
        agent.ask()


async def test_a_request_of_the_gateways_own_has_its_time() -> None:
    agent = Agent()
    asking = asyncio.ensure_future(agent.rpc.request("ping", b"", Version.V1_0, 10))
    await asyncio.sleep(0)
    agent.say({"jsonrpc": "2.0", "id": agent.id(), "error": {"code": -32601, "message": "no"}})
    assert json.loads(await asking)["error"]["code"] == -32601
    with pytest.raises(UpstreamTimeout):
        await agent.rpc.request("ping", b"", Version.V1_0, 0.01)


async def test_closing_fails_calls_with_the_fault_that_is_given() -> None:
    agent = Agent()
    response = agent.ask()
    first = agent.rpc.expect_first()
    agent.rpc.close(NoHealthyBackend("gone"))
    agent.rpc.close(UpstreamReset("again"))
    with pytest.raises(NoHealthyBackend):
        await whole(response)
    assert first.cancelled()
    agent.rpc.data_received(b"\x00")
    assert isinstance(agent.rpc.broken.result(), str)


# ---- Streams ---------------------------------------------------------------------------------------------------------


WORKING = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}
WAITING = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}}
DONE = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}


async def events(response: Response, seconds: float = 10) -> list[Any]:
    found = b""

    def take(data: bytes) -> bool:
        nonlocal found
        found += data
        return True

    async def settle() -> None:
        return None

    await response.head(asyncio.get_running_loop().time() + 10)
    assert response.header(b"content-type") == b"text/event-stream"
    await response.flow(take, settle, seconds)
    return [json.loads(event.removeprefix(b"data: "))["result"] for event in found.split(b"\n\n") if event]


async def test_an_event_that_may_be_the_last_is_if_nothing_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    monkeypatch.setattr(rpc, "END_PAUSE", 0.01)
    response = agent.stream()
    agent.answer(WAITING)
    assert await events(response) == [WAITING]
    monkeypatch.setattr(rpc, "END_PAUSE", 60)
    response = agent.stream()
    for result in (WAITING, WORKING, DONE):
        agent.answer(result)
    assert await events(response) == [WAITING, WORKING, DONE]
