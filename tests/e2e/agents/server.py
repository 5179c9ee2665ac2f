"""uvicorn in an event loop of ours, on a port that the system picks."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from tests.e2e.agents.received import App


class Server:
    """One listening socket; it takes connections from the start, and answers them while `serving`."""

    def __init__(self) -> None:
        # With the protocol written out: asyncio sets TCP_NODELAY for no other socket, and each answer would take 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None

    @property
    def requests(self) -> int:
        """Return the number of requests that are being served."""
        return 0 if self._server is None else len(self._server.server_state.tasks)

    @asynccontextmanager
    async def serving(self, app: App, **options: Any) -> AsyncIterator[None]:
        """Serve an application until the end of the block; streams that are open then are cut.

        Args:
            options: More of uvicorn's.
        """
        # A lifespan would outlive what it belongs to, and these applications need none.
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False, **options)
        self._server = server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[self._socket]))
        try:
            yield
        finally:
            server.leaving.set()
            await running


class _Server(uvicorn.Server):
    """Ends when it is told to: uvicorn's own looks ten times a second, and waits for whoever is still there."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.leaving = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.leaving.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        state = self.server_state
        for connection in state.connections:
            connection.shutdown()
        for task in state.tasks:
            task.cancel()
        while state.tasks:
            await asyncio.wait(list(state.tasks))
        for connection in list(state.connections):
            connection.transport.abort()
        while state.connections:  # noqa: ASYNC110 - uvicorn tells nobody when one is gone
            await asyncio.sleep(0)
