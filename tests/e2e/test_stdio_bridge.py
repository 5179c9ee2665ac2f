"""A client built with the official SDK reaches agents over HTTP through `a2a-gateway stdio`.

The SDK has no such binding, but a place for one: `register`. Its JSON-RPC transport is kept, and what it would send
over HTTP goes to the process in a frame, as to an agent.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.transports import JsonRpcTransport
from a2a.helpers import get_message_text
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # it ships no types

from tests.doubles.stdio_host import Host, ProcessHost, frame, hosting, rests
from tests.e2e.agents.agent import SECRET_SKILL, Shape
from tests.e2e.agents.grounds import Grounds
from tests.e2e.previous import previous_agent
from tests.e2e.sdk import COMPLETED, saying, send, texts, told

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("framing", ["lsp", "ndjson"]),
    pytest.mark.parametrize("name", ["new", "old"]),
]


class OverPipe(httpx.AsyncBaseTransport):
    """Sends what a client would send over HTTP in a frame, and gives the frames that come back as HTTP."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; its answer, or the events of its stream."""
        content = await request.aread()
        tree = json.loads(content)
        queue = self._host.expect(tree["id"])
        fields = {name: request.headers[name] for name in ("a2a-version", "a2a-extensions") if name in request.headers}
        if self._host.framing == "ndjson":
            await self._host.write(content.replace(b"\n", b" ") + b"\n")
        else:
            await self._host.write(frame(content, fields))
        first = await self._host.answer(queue)
        if tree["method"] not in ("SendStreamingMessage", "SubscribeToTask") or "error" in first:
            return httpx.Response(200, json=first)

        async def events() -> AsyncIterator[bytes]:
            answer = first
            while True:
                yield b"data: " + json.dumps(answer).encode() + b"\n\n"
                if rests(answer):
                    return
                answer = await self._host.answer(queue)

        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=events())


@dataclass(frozen=True, slots=True)
class Caller:
    """A client of the agent behind the process."""

    host: ProcessHost
    card: AgentCard
    streaming: Client
    unary: Client
    polling: Client


@asynccontextmanager
async def calling(ground: Grounds, name: str, framing: str) -> AsyncIterator[Caller]:
    async with AsyncExitStack() as stack:
        url = ground.agent(Shape(name)).url if name == "new" else stack.enter_context(previous_agent(name)).url
        command = (sys.executable, "-m", "gateway", "stdio", "--agent", url, "--framing", framing)
        host = await stack.enter_async_context(hosting(*command, framing=framing))
        card = ParseDict(
            await host.ask("GetExtendedAgentCard", A2A_Version="1.0"), AgentCard(), ignore_unknown_fields=True
        )
        http = await stack.enter_async_context(httpx.AsyncClient(transport=OverPipe(host)))
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=["stdio"])

        def client(how: ClientConfig) -> Client:
            factory = ClientFactory(how)
            factory.register("stdio", lambda shown, _url, _config: JsonRpcTransport(http, shown, "http://pipe/"))
            return factory.create(card)

        yield Caller(
            host,
            card,
            client(config),
            client(replace(config, streaming=False)),
            client(replace(config, streaming=False, polling=True)),
        )
        assert await host.close() == 0
        assert host.strays == []


async def test_every_operation_is_there(ground: Grounds, name: str, framing: str) -> None:
    async with calling(ground, name, framing) as caller:
        assert caller.card.name == name
        assert {each.protocol_binding for each in caller.card.supported_interfaces} == {"stdio"}
        task = await send(caller.unary, saying("hello"))
        assert (task.status.state, texts(task)) == (COMPLETED, [f"{name}: hello"])
        assert (await caller.unary.get_task(GetTaskRequest(id=task.id))).artifacts == task.artifacts
        with pytest.raises(TaskNotFoundError):
            await caller.unary.get_task(GetTaskRequest(id="no-such-task"))
        [event] = [event async for event in caller.streaming.send_message(saying("talk to me"))]
        assert get_message_text(event.message) == f"{name}: talk to me"
        question = await send(caller.unary, saying("ask"))
        again = await send(caller.unary, saying("blue", question))
        assert (again.id, again.status.state) == (question.id, COMPLETED)
        if name == "new":
            page = await caller.unary.list_tasks(ListTasksRequest(context_id=task.context_id))
            assert [each.id for each in page.tasks] == [task.id]
        else:
            with pytest.raises(UnsupportedOperationError):
                await caller.unary.list_tasks(ListTasksRequest())
        running = await send(caller.polling, saying("wait"))
        joined: list[Any] = []
        async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=running.id)):
            if not joined:
                cancelled = await caller.unary.cancel_task(CancelTaskRequest(id=running.id))
                assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
            joined.append(event)
            if name == "old":
                # a2a-sdk 0.3 ends the stream without a word.
                break
        card = await caller.unary.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert SECRET_SKILL in {skill.id for skill in card.skills}


async def test_a_stream_of_a_thousand_events_comes_whole(ground: Grounds, name: str, framing: str) -> None:
    async with calling(ground, name, framing) as caller:
        events = [event async for event in caller.streaming.send_message(saying("stream 1000"))]
        assert told(events) == [f"{name}: part {number}" for number in range(1000)]


async def test_of_two_hundred_calls_at_a_time_each_gets_its_own_answer(
    ground: Grounds, name: str, framing: str
) -> None:
    async with calling(ground, name, framing) as caller:

        async def one(number: int) -> list[str]:
            if number % 4:
                return texts(await send(caller.unary, saying(f"number {number}")))
            return told([event async for event in caller.streaming.send_message(saying(f"stream {number % 7}"))])

        answers = await asyncio.gather(*map(one, range(200)))
    for number, answer in enumerate(answers):
        if number % 4:
            assert answer == [f"{name}: number {number}"]
        else:
            assert answer == [f"{name}: part {part}" for part in range(number % 7)]
