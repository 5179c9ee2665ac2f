"""A gateway in this process with an agent behind it for each binding, and the official client of 1.0 over gRPC.

What the agents do with a message is in `agents/executor.py`.
"""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import msgspec
from a2a.client import ClientConfig, ClientFactory
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCard, AgentInterface, a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # protobuf ships no types

from gateway.app import Gateway
from gateway.config.check import examine
from gateway.tasks.state_url import StateUrl
from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.agents.received import App
from tests.e2e.agents.server import Server
from tests.e2e.process import write
from tests.e2e.sdk import Caller, open_http
from tests.support.names import public_names

BINDINGS = {"over-grpc": "GRPC", "over-rpc": "JSONRPC", "over-rest": "HTTP+JSON"}
"""Agents by their names, and the one binding that each speaks."""
OPEN = {"defaults": {"isolation": "none"}}
"""Settings of a gateway that lets anybody in."""


@dataclass
class Place:
    """An agent.

    Attributes:
        entry: What the configuration says of it.
        agent: Its executor, and what it received over HTTP.
        asked: Each call that it received over gRPC, as a text.
        left: The calls that the other side broke off.
    """

    entry: dict[str, Any]
    agent: Agent
    asked: list[str] = field(default_factory=list)
    left: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)

    def seen(self, text: str) -> int:
        """How many calls it received up to the first one that holds a text."""
        if not self.asked:
            return self.agent.seen(text)
        return next(number for number, call in enumerate(self.asked, 1) if text in call)

    def call(self, text: str) -> str:
        """The first call that holds a text."""
        return next((call for call in self.asked if text in call), "") or self.agent.call(text)

    def knows(self, text: str) -> bool:
        """Whether any call that it received held a text."""
        return self.agent.knows(text) or any(text in call for call in self.asked)


@asynccontextmanager
async def agent_over_http(name: str, *, push: bool = True) -> AsyncIterator[Place]:
    """An agent that is asked over one of its bindings alone."""
    server = Server()
    agent = Agent(Shape(name, push=push), server.port, asyncio.get_running_loop())
    protocol = "jsonrpc" if BINDINGS[name] == "JSONRPC" else "rest"
    place = Place({"backend": {"url": agent.url, "protocol": protocol}}, agent)
    async with server.serving(noticing(agent.app(), place)):
        yield place


def noticing(app: App, place: Place) -> App:
    """An application that tells who hangs up on it."""

    async def noticed(scope: Any, receive: Callable[[], Any], send_: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send_)
            return
        answered = False
        # The SDK looks for a disconnect only while it streams.
        watching: asyncio.Task[Any] | None = None

        async def gone() -> Any:
            message = await receive()
            if not answered:
                place.left.put_nowait(scope["path"])
            return message

        async def received() -> Any:
            nonlocal watching
            if watching is not None:
                return await asyncio.shield(watching)
            message = await receive()
            if not message.get("more_body", False):
                watching = asyncio.ensure_future(gone())
            return message

        async def sent(message: Any) -> None:
            nonlocal answered
            answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send_(message)

        try:
            await app(scope, received, sent)
        finally:
            if watching is not None and not watching.done():
                watching.cancel()

    return noticed


@asynccontextmanager
async def agent_over_grpc(name: str, folder: Path, *, push: bool = True) -> AsyncIterator[Place]:
    """An agent that speaks gRPC alone; its card is a file."""
    place = Place({}, Agent(Shape(name, push=push), 0, asyncio.get_running_loop()))
    server = grpc.aio.server(interceptors=[Noticing(place)])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    interface = AgentInterface(url=address, protocol_binding="GRPC", protocol_version="1.0")
    cards = [place.agent.card(), place.agent.extended_card()]
    for card in cards:
        del card.supported_interfaces[:]
        card.supported_interfaces.append(interface)
    handler = DefaultRequestHandler(
        agent_executor=place.agent.executor,
        task_store=InMemoryTaskStore(),
        agent_card=cards[0],
        push_config_store=InMemoryPushNotificationConfigStore() if push else None,
        extended_agent_card=cards[1],
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)  # type: ignore[no-untyped-call]  # generated
    file = folder / f"{name}.json"
    file.write_text(json.dumps(MessageToDict(cards[0])))
    place.entry |= {"backend": f"grpc://{address}", "card": {"file": file.name}}
    await server.start()
    try:
        yield place
    finally:
        await server.stop(None)


class Noticing(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # as above
    """Writes down what calls say, and which of them are broken off."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        found = await continuation(details)

        async def whole(request: Any, context: Any) -> Any:
            with self._noticed(details.method, request):
                return await found.unary_unary(request, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._noticed(details.method, request):
                async with aclosing(found.unary_stream(request, context)) as events:
                    async for event in events:
                        yield event

        if found.response_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, found.request_deserializer, found.response_serializer)
        return grpc.unary_unary_rpc_method_handler(whole, found.request_deserializer, found.response_serializer)

    @contextmanager
    def _noticed(self, method: str, request: Any) -> Iterator[None]:
        self._place.asked.append(str(request))
        serving = asyncio.current_task()
        assert serving is not None
        try:
            yield
        finally:
            # The SDK ends its stream and swallows the cancellation.
            if serving.cancelling():
                self._place.left.put_nowait(method)


@dataclass
class Site:
    """A gateway in this process, and the agents behind it.

    Attributes:
        address: Host and port where it is called over gRPC.
    """

    gateway: Gateway
    places: dict[str, Place]
    log: io.BytesIO

    @property
    def url(self) -> str:
        return self.gateway.public_url.rstrip("/")

    @property
    def address(self) -> str:
        return self.gateway.grpc_address

    async def stop(self) -> list[dict[str, Any]]:
        """End the gateway; the lines of its access log."""
        hurry = asyncio.Event()
        hurry.set()
        await self.gateway.stop(hurry)
        return [msgspec.json.decode(line) for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def site(
    folder: Path,
    settings: Mapping[str, Any] = OPEN,
    entries: Mapping[str, dict[str, Any]] | None = None,
    *,
    push: bool = True,
    others: Mapping[str, dict[str, Any]] | None = None,
) -> AsyncIterator[Site]:
    """The three agents and a gateway that lists gRPC on their cards.

    Args:
        settings: What else its configuration says.
        entries: What it says of some agents besides.
        others: Agents that it has besides.
    """
    async with AsyncExitStack() as stack:
        places = {}
        for name, binding in BINDINGS.items():
            start = agent_over_grpc(name, folder, push=push) if binding == "GRPC" else agent_over_http(name, push=push)
            places[name] = await stack.enter_async_context(start)
        agents = {
            name: {**place.entry, "expose": ["jsonrpc", "rest", "grpc"], **(entries or {}).get(name, {})}
            for name, place in places.items()
        } | dict(others or {})
        file = write({"gateway": {"listen_grpc": "127.0.0.1:0"}, **settings, "agents": agents}, folder)
        examined = examine(file, os.environ)
        assert not examined.errors, examined.errors
        log = io.BytesIO()
        gateway = Gateway(examined, access_stream=log, state=StateUrl("memory"), resolver=public_names())
        await gateway.start()
        found = Site(gateway, places, log)
        try:
            yield found
        finally:
            if not gateway.draining:
                await found.stop()


@asynccontextmanager
async def calling(here: Site, path: str) -> AsyncIterator[Caller]:
    """Clients of the agent whose card is at a path, over gRPC."""
    async with open_http() as http:
        config = ClientConfig(
            httpx_client=http, supported_protocol_bindings=["GRPC"], grpc_channel_factory=grpc.aio.insecure_channel
        )
        streaming = await ClientFactory(config).create_from_url(f"{here.url}/{path}")
        card: AgentCard = streaming._card  # type: ignore[attr-defined]  # the factory gives it to nobody
        caller = Caller(
            http=http,
            card=card,
            streaming=streaming,
            unary=ClientFactory(replace(config, streaming=False)).create(card),
            polling=ClientFactory(replace(config, streaming=False, polling=True)).create(card),
        )
        try:
            yield caller
        finally:
            for client in (caller.streaming, caller.unary, caller.polling):
                await client.close()
