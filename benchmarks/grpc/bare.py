"""A bare proxy on grpc.aio: generic handlers, bytes in and bytes out, one channel, uvloop. It does nothing else.

python -m benchmarks.grpc.bare PORT AGENT_PORT
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # it ships no types
import uvloop
from grpc import aio

from benchmarks.edge.process import Process, started
from benchmarks.grpc.workload import SEND, STREAM


@contextmanager
def running(folder: Path, root: Path, port: int, agent: int) -> Iterator[Process]:
    """Start it.

    Args:
        root: The project's folder, where `benchmarks` is found.
    """
    command = [sys.executable, "-m", "benchmarks.grpc.bare", str(port), str(agent)]
    with started("bare", command, folder=folder, ports=[port], environ={"PYTHONPATH": str(root)}) as process:
        yield process


class Passing(grpc.GenericRpcHandler):  # type: ignore[misc]  # as above
    """Passes calls to one channel; which of them stream is known."""

    def __init__(self, channel: aio.Channel) -> None:
        self._unary = channel.unary_unary(SEND)
        self._streaming = channel.unary_stream(STREAM)
        self._handlers = {
            SEND: grpc.unary_unary_rpc_method_handler(self._pass_one),
            STREAM: grpc.unary_stream_rpc_method_handler(self._pass_many),
        }

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(details.method)

    async def _pass_one(self, request: bytes, _: aio.ServicerContext) -> bytes:
        answer: bytes = await self._unary(request)
        return answer

    async def _pass_many(self, request: bytes, context: aio.ServicerContext) -> None:
        call = self._streaming(request)
        try:
            while (message := await call.read()) is not aio.EOF:
                await context.write(message)
        finally:
            call.cancel()


async def serve(port: int, agent: int) -> None:
    """Serve until the process is stopped."""
    async with aio.insecure_channel(f"127.0.0.1:{agent}") as channel:
        server = aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((Passing(channel),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()


def main() -> None:
    port, agent = sys.argv[1:]
    uvloop.run(serve(int(port), int(agent)))


if __name__ == "__main__":
    main()
