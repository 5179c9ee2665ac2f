"""The pipe to one process: answers go to whose call it was, and what is no frame breaks it for all."""

import asyncio
import json
from typing import Any

import pytest

from gateway.a2a.bindings.stdio import hear
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import NoHealthyBackend, Overloaded, UpstreamProtocol, UpstreamReset, UpstreamTimeout
from gateway.a2a.framing.lsp import Frame, FrameDecoder, Framing, encode
from gateway.a2a.operation import Operation
from gateway.upstream import stdio_link
from gateway.upstream.response import Response
from gateway.upstream.stdio_link import MOST_STRAYS, MOST_UNREAD, Link

pytestmark = pytest.mark.anyio

DIALECT = Dialect(Binding.JSONRPC, Version.V1_0)


class Agent:
    """The other end of the pipe."""

    def __init__(self, framing: Framing = Framing.LSP, **more: Any) -> None:
        self.unread = 0
        self.learnt: list[tuple[str | None, str | None]] = []
        self._got = FrameDecoder()
        self.frames: list[Frame] = []
        self.link = Link(
            "notes",
            framing=framing,
            write=lambda data: self.frames.extend(self._got.feed(data)),
            unread=lambda: self.unread,
            learn=lambda _link, task, context: self.learnt.append((task, context)),
            **more,
        )

    def ask(self, identity: bytes = b"7", operation: Operation = Operation.GET_TASK) -> Response:
        body = b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{"id":"t"}}' % identity
        heard = hear(body)
        assert heard is not None
        call = Call(operation, DIALECT, "GetTask", id=identity)
        return self.link.ask(call, heard.members, b"a2a-version: 1.0\r\n", Version.V1_0)

    def id(self, number: int = -1) -> str:
        return str(json.loads(self.frames[number].content)["id"])

    def say(self, tree: Any, framing: Framing = Framing.LSP) -> None:
        self.link.hear(encode(json.dumps(tree).encode(), framing))

    def answer(self, result: Any, number: int = -1) -> None:
        self.say({"jsonrpc": "2.0", "id": self.id(number), "result": result})


async def whole(response: Response) -> Any:
    await response.head(asyncio.get_running_loop().time() + 10)
    return json.loads(await response.read(10_000_000, 10))


async def test_a_call_goes_out_under_an_id_of_the_gateways_and_comes_back_under_its_own() -> None:
    agent = Agent()
    response = agent.ask(b'"mine"')
    [frame] = agent.frames
    assert frame.header(b"a2a-version") == b"1.0"
    sent = json.loads(frame.content)
    assert (sent["id"], sent["method"], sent["params"]) == ("g-1", "GetTask", {"id": "t"})
    agent.answer({"id": "t", "status": {"state": "TASK_STATE_WORKING"}})
    assert (await whole(response))["id"] == "mine"
    assert (response.status, response.header(b"content-type")) == (200, b"application/json")
    assert agent.link.calls == 0
    assert agent.learnt == [("t", None)]


async def test_many_calls_are_answered_in_any_order_and_framing() -> None:
    agent = Agent(Framing.NDJSON)
    responses = [agent.ask(b"%d" % number) for number in range(20)]
    for number in reversed(range(20)):
        told = {"jsonrpc": "2.0", "id": agent.id(number), "result": {"id": f"t{number}"}}
        agent.say(told, Framing.LSP if number % 2 else Framing.NDJSON)
    for number, response in enumerate(responses):
        assert await whole(response) == {"jsonrpc": "2.0", "id": number, "result": {"id": f"t{number}"}}


async def test_a_call_that_is_given_up_is_forgotten_and_what_comes_for_it_is_late() -> None:
    agent = Agent()
    response = agent.ask()
    response.close()
    assert agent.link.calls == 0
    agent.answer({"id": "t"})
    assert (agent.link.late, agent.link.strays) == (1, 0)
    assert agent.link.is_up


@pytest.mark.parametrize("identity", ["g-99", "nobody", 1, None, "g-" + "9" * 5000, "g-x"])
async def test_an_answer_to_no_call_is_dropped_and_counted(identity: object) -> None:
    agent = Agent()
    agent.ask()
    agent.say({"jsonrpc": "2.0", "id": identity, "result": {}})
    assert (agent.link.late, agent.link.strays, agent.link.calls) == (0, 1, 1)


@pytest.mark.parametrize(
    "said",
    [
        b'{"jsonrpc": "2.0", "id": "g-1", "result": {"score": NaN}}',
        b'{"id":"g-1","jsonrpc":"2.0","result":%b}' % (b"[" * 100_000 + b"]" * 100_000),
        b'{"result": {"score": Infinity}, "id": "g-1", "jsonrpc": "2.0"}\n',
    ],
    ids=["nan", "deep", "behind"],
)
async def test_who_is_answered_by_what_is_no_json_is_told_and_nobody_else(said: bytes) -> None:
    agent = Agent()
    response, other = agent.ask(), agent.ask()
    agent.link.hear(encode(said, Framing.LSP))
    with pytest.raises(UpstreamProtocol):
        await whole(response)
    assert (agent.link.calls, agent.link.strays, agent.link.is_up) == (1, 1, True)
    agent.answer({"id": "t"})
    assert (await whole(other))["result"] == {"id": "t"}


async def test_too_many_of_them_in_a_row_break_the_pipe() -> None:
    agent = Agent()
    for _ in range(MOST_STRAYS):
        agent.say({"id": "nobody", "result": {}})
    assert agent.link.is_up
    agent.say({"id": "nobody", "result": {}})
    assert "in a row" in agent.link.broken.result()


async def test_a_request_of_the_agents_own_is_refused_but_not_without_end() -> None:
    agent = Agent()
    agent.say({"jsonrpc": "2.0", "id": "a-1", "method": "sampling/create"})
    assert json.loads(agent.frames[-1].content)["error"]["code"] == -32601
    agent.say({"jsonrpc": "2.0", "method": "log"})
    agent.unread = 100_000
    agent.say({"jsonrpc": "2.0", "id": "a-2", "method": "sampling/create"})
    assert len(agent.frames) == 1


@pytest.mark.parametrize("data", [b"\x00", b"Content-Length: x\r\n\r\n"])
async def test_a_bad_frame_fails_every_call_and_no_more_are_made(data: bytes) -> None:
    agent = Agent()
    responses = [agent.ask(), agent.ask()]
    agent.link.hear(data)
    for response in responses:
        with pytest.raises(UpstreamReset):
            await whole(response)
    with pytest.raises(NoHealthyBackend):
        agent.ask()
    assert "no frame" in await agent.link.broken


async def test_the_end_of_either_side_breaks_the_pipe() -> None:
    for end in ("hear_end", "deaf"):
        agent = Agent()
        response = agent.ask()
        getattr(agent.link, end)()
        with pytest.raises(UpstreamReset):
            await whole(response)
        assert "it closed its standard" in agent.link.broken.result()


async def test_a_line_at_the_very_end_is_an_answer_all_the_same() -> None:
    agent = Agent()
    response = agent.ask()
    agent.link.hear(json.dumps({"jsonrpc": "2.0", "id": agent.id(), "result": {}}).encode())
    agent.link.hear_end()
    assert (await whole(response))["result"] == {}


async def test_silence_in_the_middle_of_a_frame_breaks_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_link, "STALL", 0.01)
    agent = Agent()
    agent.link.hear(b"Content-Len")
    assert "in the middle of a frame" in await asyncio.wait_for(agent.link.broken, 10)


async def test_a_process_that_does_not_read_is_sent_no_more() -> None:
    agent = Agent()
    agent.unread = MOST_UNREAD + 1
    with pytest.raises(Overloaded):
        agent.ask()


async def test_a_request_of_the_gateways_own_has_its_time() -> None:
    agent = Agent()
    asking = asyncio.ensure_future(agent.link.request("ping", b"", Version.V1_0, 10))
    await asyncio.sleep(0)
    agent.say({"jsonrpc": "2.0", "id": agent.id(), "error": {"code": -32601, "message": "no"}})
    assert json.loads(await asking)["error"]["code"] == -32601
    with pytest.raises(UpstreamTimeout):
        await agent.link.request("ping", b"", Version.V1_0, 0.01)


async def test_the_first_frame_may_be_asked_for_whatever_it_is() -> None:
    agent = Agent()
    first = agent.link.expect_first()
    agent.say({"name": "a card"})
    assert json.loads(await first) == {"name": "a card"}


async def test_closing_fails_calls_with_the_fault_that_is_given() -> None:
    agent = Agent()
    response = agent.ask()
    first = agent.link.expect_first()
    agent.link.close(NoHealthyBackend("gone"))
    agent.link.close(UpstreamReset("again"))
    with pytest.raises(NoHealthyBackend):
        await whole(response)
    assert first.cancelled()
    agent.link.hear(b"\x00")
    assert isinstance(agent.link.broken.result(), str)


async def test_notifications_of_its_own_are_dropped_however_many_there_are() -> None:
    agent = Agent()
    for number in range(MOST_STRAYS + 1):
        agent.say({"jsonrpc": "2.0", "method": "log", "params": {"number": number}})
    assert (agent.link.notices, agent.link.strays, agent.link.is_up) == (MOST_STRAYS + 1, 0, True)
    assert agent.frames == []
