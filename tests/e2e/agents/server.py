"""uvicorn in an event loop of ours, on a port that the system picks."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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

    @asynccontextmanager
    async def serving(self, app: App) -> AsyncIterator[None]:
        """Serve an application until the end of the block; streams that are open then are cut."""
        # A lifespan would outlive what it belongs to, and these applications need none.
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[self._socket]))
        try:
            yield
        finally:
            server.should_exit = True
            await running
