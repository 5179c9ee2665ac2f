"""A gateway in this process with an agent behind it that is called over every binding.

What the agents do with a message is in `agents/executor.py`.
"""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gateway.app import Gateway
from gateway.config.check import examine
from gateway.tasks.state_url import StateUrl
from tests.e2e.agents.agent import Agent
from tests.e2e.agents.received import App
from tests.e2e.agents.server import Server
from tests.e2e.process import write
from tests.support.names import public_names

AGENT = "over-rpc"
"""The agent that is behind the gateway, which speaks JSON-RPC."""
OPEN = {"defaults": {"isolation": "none"}}
"""Settings of a gateway that lets anybody in."""


@dataclass
class Place:
    """An agent.

    Attributes:
        agent: Its executor, and what it received.
        left: The calls that the other side broke off.
    """

    agent: Agent
    left: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)


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


@dataclass
class Site:
    """A gateway in this process, and the agent behind it.

    Attributes:
        address: Host and port where it is called over gRPC.
    """

    gateway: Gateway
    place: Place
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
async def site(folder: Path, settings: Mapping[str, Any] = OPEN) -> AsyncIterator[Site]:
    """An agent, and a gateway that lists gRPC on its card.

    Args:
        settings: Further configuration.
    """
    server = Server()
    place = Place(Agent(AGENT, server.port, asyncio.get_running_loop()))
    backend = {"url": place.agent.url, "protocol": "jsonrpc"}
    agents = {AGENT: {"backend": backend, "expose": ["jsonrpc", "rest", "grpc"]}}
    async with server.serving(noticing(place.agent.app(), place)):
        file = write({"gateway": {"listen_grpc": "127.0.0.1:0"}, **settings, "agents": agents}, folder)
        examined = examine(file, os.environ)
        assert not examined.errors, examined.errors
        log = io.BytesIO()
        gateway = Gateway(examined, access_stream=log, state=StateUrl("memory"), resolver=public_names())
        await gateway.start()
        # A test may stop the loop while it starts a process, for longer than a card is waited for.
        for each in gateway.snapshot.backends.values():
            await each.source.settled.wait()
        found = Site(gateway, place, log)
        try:
            yield found
        finally:
            if not gateway.draining:
                await found.stop()
