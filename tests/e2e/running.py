"""The gateway in this process, in front of agents that a test scripts on raw sockets."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gateway.app import Gateway
from gateway.config.check import examine
from gateway.config.state import StateUrl
from tests.e2e.agents.server import Server
from tests.e2e.process import write
from tests.edge import IS_ASGI, in_front_of
from tests.support.names import public_names
from tests.support.scripted import Script, ScriptedBackend


@dataclass
class Running:
    """One gateway in this process.

    Attributes:
        log: What it wrote to its access log; see `access`.
    """

    gateway: Gateway
    backend: ScriptedBackend
    log: io.BytesIO

    @property
    def url(self) -> str:
        """Where the only agent is."""
        return self.gateway.public_url.rstrip("/") + "/agent"

    @property
    def port(self) -> int:
        return int(self.gateway.public_url.rstrip("/").rpartition(":")[2])

    async def stop(self) -> None:
        """Stop it now, with the last words that open calls get."""
        hurry = asyncio.Event()
        hurry.set()
        await self.gateway.stop(hurry)

    @property
    def access(self) -> list[dict[str, Any]]:
        """The lines of its access log; complete once it has stopped."""
        return [msgspec.json.decode(line) for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def running(
    script: Script,
    folder: Path,
    *,
    url: str | None = None,
    below: str = "",
    speaks: tuple[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A gateway in front of one scripted agent that speaks 1.0 and 0.3 over both bindings; its card is a file.

    Args:
        url: Where the agent is, instead of where the script is played.
        below: Path of the agent there.
        speaks: The only protocol and version that it speaks, instead.
        settings: More members of the agent in the file.
    """
    async with ScriptedBackend(script) as backend:
        at = (url or backend.url) + below
        (folder / "card.json").write_text(json.dumps(_card(at)))
        protocol = {} if speaks is None else {"protocol": speaks[0], "a2a_version": speaks[1]}
        file = write(
            {"agents": {"agent": {"backend": {"url": at, **protocol}, "card": "card.json", **settings}}}, folder
        )
        server = Server() if IS_ASGI else None
        if server is not None:
            file.write_text(file.read_text().replace("listen: 127.0.0.1:0", f"listen: 127.0.0.1:{server.port}"))
        examined = examine(file, os.environ)
        assert not examined.errors, examined.errors
        log = io.BytesIO()
        gateway = Gateway(
            examined,
            access_stream=log,
            state=StateUrl("memory"),
            resolver=public_names(),
            over_http=server is None,
        )
        await gateway.start()
        found = Running(gateway, backend, log)
        async with AsyncExitStack() as stack:
            if server is not None:
                await stack.enter_async_context(in_front_of(gateway, server))
            try:
                yield found
            finally:
                if not gateway.draining:
                    await found.stop()


def _card(url: str) -> dict[str, Any]:
    interfaces = [
        {"url": url, "protocolBinding": binding, "protocolVersion": version}
        for version in ("1.0", "0.3")
        for binding in ("JSONRPC", "HTTP+JSON")
    ]
    return {
        "name": "scripted",
        "description": "",
        "version": "1",
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }
