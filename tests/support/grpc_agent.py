"""An agent over gRPC that answers any method as it is told, in raw bytes, and remembers what it was asked."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.upstream.grpc_library import aio, grpc

DETAILS = "grpc-status-details-bin"
Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass
class Asked:
    """One call, while it is answered.

    Attributes:
        timeout: Seconds that the caller gave it, or None.
        peer: Where it comes from.
        context: gRPC's, which is gone once the call is over.
        cancelled: Set when the caller has cancelled it.
        over: Set when nothing more is said.
    """

    path: str
    metadata: Metadata
    message: bytes
    timeout: float | None
    peer: str
    context: Any
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def told(self, name: str) -> list[str | bytes]:
        return [value for known, value in self.metadata if known == name]

    async def open(self, *metadata: tuple[str, str | bytes]) -> None:
        await self.context.send_initial_metadata(metadata)

    async def write(self, message: bytes) -> None:
        await self.context.write(message)

    def close(self, *metadata: tuple[str, str | bytes]) -> None:
        self.context.set_trailing_metadata(metadata)

    async def fail(self, code: str, words: str = "", details: bytes = b"") -> None:
        trailing = ((DETAILS, details),) if details else ()
        await self.context.abort(grpc.StatusCode[code], words, trailing)


Answer = Callable[[Asked], Awaitable[None]]


@dataclass
class GrpcAgent:
    """A gRPC server at `port`."""

    answer: Answer
    port: int = 0
    scheme: str = "grpc"
    host: str = "127.0.0.1"
    asked: list[Asked] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    server: Any = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    async def next(self) -> Asked:
        """The call that arrives next."""
        self.arrived.clear()
        await self.arrived.wait()
        return self.asked[-1]

    async def serve(self, message: bytes, context: Any, path: str) -> None:
        metadata = tuple(context.invocation_metadata())
        asked = Asked(path, metadata, message, context.time_remaining(), context.peer(), context)
        self.asked.append(asked)
        self.arrived.set()
        try:
            await self.answer(asked)
        except asyncio.CancelledError:
            asked.cancelled.set()
            raise
        finally:
            asked.context = None
            asked.over.set()

    def service(self, details: Any) -> Any:
        """The handler of any method: of one whose answer is a stream, which has one message as well."""

        async def handler(message: bytes, context: Any) -> None:
            await self.serve(message, context, details.method)

        return grpc.unary_stream_rpc_method_handler(handler)


@pytest.fixture
def grpc_over() -> Iterator[None]:
    """See that gRPC has nothing left to say when a test is over: it would say it to the loop of the next one.

    All loops of a process share one queue of gRPC's, which goes with the last call and channel.
    """
    yield
    gc.collect()


@asynccontextmanager
async def grpc_agent(
    answer: Answer, *, port: int = 0, tls: Any = None, options: tuple[tuple[str, Any], ...] = ()
) -> AsyncIterator[GrpcAgent]:
    """An agent on loopback.

    Args:
        tls: `grpc.ssl_server_credentials`, for TLS.
    """
    agent = GrpcAgent(
        answer, scheme="grpc" if tls is None else "grpcs", host="127.0.0.1" if tls is None else "localhost"
    )
    agent.server = aio.server(options=(("grpc.so_reuseport", 0), *options))
    agent.server.add_generic_rpc_handlers((agent,))
    address = f"127.0.0.1:{port}"
    agent.port = agent.server.add_secure_port(address, tls) if tls else agent.server.add_insecure_port(address)
    await agent.server.start()
    try:
        yield agent
    finally:
        await agent.server.stop(0)


def says(*messages: bytes, headers: Metadata = (), trailers: Metadata = ()) -> Answer:
    """One message after the other, then OK."""

    async def answer(asked: Asked) -> None:
        await asked.open(*headers)
        for message in messages:
            await asked.write(message)
        asked.close(*trailers)

    return answer


def fails(code: str, words: str = "", details: bytes = b"", *, after: tuple[bytes, ...] = ()) -> Answer:
    """A status, behind some messages."""

    async def answer(asked: Asked) -> None:
        for message in after:
            await asked.write(message)
        await asked.fail(code, words, details)

    return answer


def hangs(*messages: bytes) -> Answer:
    """Some messages, and then nothing for ever."""

    async def answer(asked: Asked) -> None:
        for message in messages:
            await asked.write(message)
        await asyncio.Event().wait()

    return answer


def by_path(answers: Mapping[str, Answer]) -> Answer:
    """To each method its own; those that are left out do not exist, in the words that servers of gRPC have for it."""

    async def answer(asked: Asked) -> None:
        found = answers.get(asked.path)
        await (asked.fail("UNIMPLEMENTED", "Method not found!") if found is None else found(asked))

    return answer
