"""The floor: bytes from one connection to another on uvloop, without reading any of them.

No gateway in Python on this event loop can cost less, whatever it does: this is the event loop and the kernel alone.

python -m benchmarks.edge.bare PORT AGENT_PORT
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.edge.process import Process, started


@contextmanager
def running(folder: Path, root: Path, port: int, agent: int) -> Iterator[Process]:
    """Start it.

    Args:
        root: The project's folder, where `benchmarks` is found.
    """
    command = [sys.executable, "-m", "benchmarks.edge.bare", str(port), str(agent)]
    with started("bare", command, folder=folder, ports=[port], environ={"PYTHONPATH": str(root)}) as process:
        yield process


class _Half(asyncio.Protocol):
    """One side of a forwarded connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Half | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def serve(port: int, agent: int) -> None:
    """Forward connections until the process is stopped."""
    loop = asyncio.get_running_loop()
    connecting: set[asyncio.Task[None]] = set()

    async def connect(client: _Half) -> None:
        _, upstream = await loop.create_connection(_Half, "127.0.0.1", agent)
        upstream.other, client.other = client, upstream
        assert upstream.transport is not None
        upstream.transport.writelines(client.early)

    def accept() -> _Half:
        client = _Half()
        task = loop.create_task(connect(client))
        connecting.add(task)
        task.add_done_callback(connecting.discard)
        return client

    server = await loop.create_server(accept, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
