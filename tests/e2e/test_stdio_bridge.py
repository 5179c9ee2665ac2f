"""A client built with the official SDK reaches agents over HTTP through `a2a-gateway stdio`.

The SDK has no such binding, but a place for one: `register`. Its JSON-RPC transport is kept, and what it would send
over HTTP goes to the process in a frame, as to an agent.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.transports import JsonRpcTransport
from a2a.types import (
    AgentCard,
)
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # it ships no types

from tests.e2e.agents.agent import Shape
from tests.e2e.agents.grounds import Grounds
from tests.e2e.every_operation import (
    answers_each,
    keeps_tasks,
    shows_its_extended_card,
    streams,
    talks,
)
from tests.e2e.previous import previous_agent
from tests.e2e.sdk import Caller
from tests.support.stdio_host import Host, frame, hosting, rests

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("framing", ["lsp", pytest.param("ndjson", marks=pytest.mark.long)]),
    pytest.mark.parametrize("name", ["new", pytest.param("old", marks=pytest.mark.long)]),
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
            # A null result is no event, but the end of a stream whose last event does not say so.
            while answer.get("result", ()) is not None:
                yield b"data: " + json.dumps(answer).encode() + b"\n\n"
                if rests(answer):
                    return
                answer = await self._host.answer(queue)

        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=events())


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
            http=http,
            card=card,
            streaming=client(config),
            unary=client(replace(config, streaming=False)),
            polling=client(replace(config, streaming=False, polling=True)),
        )
        assert await host.close() == 0
        assert host.strays == []


async def test_every_operation_is_there_and_of_many_calls_each_gets_its_own_answer(
    ground: Grounds, name: str, framing: str
) -> None:
    async with calling(ground, name, framing) as caller:
        assert caller.card.name == name
        assert {each.protocol_binding for each in caller.card.supported_interfaces} == {"stdio"}
        await talks(caller, name)
        await keeps_tasks(caller, name, old=name == "old")
        await shows_its_extended_card(caller)
        await streams(caller, name)
        await answers_each(caller, name, 60)
