"""An agent that answers every call alike, over gRPC and JSON-RPC. What it costs counts for nobody.

    python -m benchmarks.grpc.agent GRPC_PORT JSONRPC_PORT --together 20 --events 500 --every 0.02

Over gRPC it streams at a fixed pace. A stream begins with its task. Once `together` streams are open, all of them get
an event `every` so many seconds. With `--events 0` streams stay silent.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # it ships no types
import uvloop
from grpc import aio

from benchmarks.edge.process import free_port, started
from benchmarks.grpc import jsonrpc
from benchmarks.grpc.gateway import Agents
from benchmarks.grpc.workload import SEND, STREAM, answer, events


@contextmanager
def running(folder: Path, root: Path, *, together: int = 1, events: int = 0, every: float = 0.02) -> Iterator[Agents]:
    """Start it as a process; where it is.

    Args:
        root: The project's folder.
        events: Of a stream, its task and its end included; 0 for streams that never end.
        every: Seconds between two events of a stream.
    """
    options = ["--together", str(together), "--events", str(events), "--every", str(every)]
    agents = Agents(free_port(), free_port())
    ports = [agents.grpc, agents.jsonrpc]
    command = [sys.executable, "-m", "benchmarks.grpc.agent", *ports, *options]
    with started("our-agent", command, folder=folder, ports=ports, environ={"PYTHONPATH": str(root)}):
        yield agents


class Answering(grpc.GenericRpcHandler):  # type: ignore[misc]  # as above
    """Sends and streams; whatever else is called is unimplemented."""

    def __init__(self, together: int, count: int, every: float) -> None:
        self._events = events(count)
        self._silent = not count
        self._together = together
        self._every = every
        self._answer = answer()
        self._open: list[asyncio.Future[float]] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method == SEND:
            return grpc.unary_unary_rpc_method_handler(self._send)
        if details.method == STREAM:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return None

    async def _send(self, _: bytes, __: aio.ServicerContext) -> bytes:
        return self._answer

    async def _stream(self, _: bytes, context: aio.ServicerContext) -> None:
        loop = asyncio.get_running_loop()
        await context.write(self._events[0])
        begins: asyncio.Future[float] = loop.create_future()
        self._open.append(begins)
        if len(self._open) == self._together and not self._silent:
            # The time in which whoever measures sees that all streams are open.
            for each in self._open:
                each.set_result(loop.time() + 10 * self._every)
            self._open = []
        begun = await begins
        for number, event in enumerate(self._events[1:]):
            await asyncio.sleep(begun + number * self._every - loop.time())
            await context.write(event)


async def serve(agents: Agents, answering: Answering) -> None:
    """Serve until the process is stopped."""
    loop = asyncio.get_running_loop()
    await loop.create_server(jsonrpc.Answering, "127.0.0.1", agents.jsonrpc)
    server = aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((answering,))
    server.add_insecure_port(f"127.0.0.1:{agents.grpc}")
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("grpc", type=int)
    parser.add_argument("jsonrpc", type=int)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.02)
    chosen = parser.parse_args()
    uvloop.run(serve(Agents(chosen.grpc, chosen.jsonrpc), Answering(chosen.together, chosen.events, chosen.every)))


if __name__ == "__main__":
    main()
