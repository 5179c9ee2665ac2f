"""The gRPC listener on a real socket with a stand-in for the pipeline, and clients of grpc.aio and of bare frames."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import grpc.aio  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_status import CODES, Status, trailers
from gateway.a2a.call import Head
from gateway.a2a.fault import Fault
from gateway.a2a.framing.grpc import frame
from gateway.config.model import Gateway
from gateway.listener.grpc import GrpcListener, GrpcResponder
from gateway.listener.server import reserve
from gateway.listener.tls import PemTls
from gateway.proxy.connection_cache import ConnectionCache
from gateway.startup import grpc_limits
from tests.support.assembly import until
from tests.support.http2_client import RawClient

Serve = Callable[["Front", Head, GrpcResponder], Awaitable[None]]
LONGEST = 8 * 1024 * 1024


async def echoes(front: "Front", head: Head, wire: GrpcResponder) -> None:
    """Answer with the message."""
    message = await wire.read(front.longest)
    await wire.answer(200, [(b"x-request-id", b"1")], frame(message))


async def streams(front: "Front", head: Head, wire: GrpcResponder) -> None:
    """Write a message, and end when `front.go` is set."""
    await wire.read(front.longest)
    wire.open(200, [(b"x-request-id", b"1")])
    await wire.write(frame(b"first"))
    await front.go.wait()
    await wire.close()


async def patient(front: "Front", head: Head, wire: GrpcResponder) -> None:
    """Answer when `front.go` is set."""
    await front.go.wait()
    await wire.answer(200, [], frame(b"at last"))


@dataclass(slots=True)
class Front:
    """A listener that runs, and what its pipeline saw.

    Attributes:
        gone: The number of clients that left before their answer.
        unread: Peer, status and words of what was no call.
        open: Calls that are being served.
    """

    serve_one: Serve
    longest: int = LONGEST
    ready: bool = True
    go: asyncio.Event = field(default_factory=asyncio.Event)
    heads: list[Head] = field(default_factory=list)
    wires: list[GrpcResponder] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unread: list[tuple[str, int, str]] = field(default_factory=list)
    gone: int = 0
    open: int = 0
    address: str = ""
    grpc_listener: GrpcListener | None = None
    clients: list[RawClient] = field(default_factory=list)

    @property
    def listener(self) -> GrpcListener:
        assert self.grpc_listener is not None
        return self.grpc_listener

    async def serve(self, head: Head, wire: GrpcResponder) -> None:
        """Serve a call as the pipeline does: a client that leaves cancels it, and a fault is an answer."""
        task = asyncio.current_task()
        assert task is not None
        self.heads.append(head)
        if head.cache is None:
            # As the pipeline does.
            head.remember(ConnectionCache())
        self.wires.append(wire)
        self.open += 1

        def left() -> None:
            self.gone += 1
            task.cancel()

        wire.when_gone(left)
        try:
            await self.serve_one(self, head, wire)
        except Fault as fault:
            self.faults.append(fault)
            await wire.answer(200, trailers(Status(CODES[fault.grpc_status], fault.message)), b"")
        finally:
            self.open -= 1

    def unreadable(self, peer: str, request_id: str, status: int, words: str) -> None:
        self.unread.append((peer, status, words))

    def channel(self, **options: Any) -> grpc.aio.Channel:
        """A channel of its own connection; `grpc.` is put before each option."""
        chosen = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        chosen += [(f"grpc.{name}", value) for name, value in options.items()]
        return grpc.aio.insecure_channel(self.address, options=chosen)

    async def client(self) -> RawClient:
        """A new connection that has said what a client says first."""
        host, _, port = self.address.rpartition(":")
        client = RawClient(*await asyncio.open_connection(host, int(port)))
        self.clients.append(client)
        client.greet()
        return client

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds."""
        await until(true)


@asynccontextmanager
async def fronting(
    serve: Serve = echoes, *, tls: PemTls | None = None, http: dict[str, Any] | None = None, **bounds: Any
) -> AsyncIterator[Front]:
    """A listener that runs while this is entered.

    Args:
        http, bounds: Of `gateway.http` and `gateway.grpc`.
    """
    front = Front(serve)
    line: Any = front
    gateway = Gateway(http=http or {}, grpc=bounds, body_limit=LONGEST)
    front.grpc_listener = GrpcListener(reserve("127.0.0.1:0"), grpc_limits(gateway), line, lambda: front.ready, tls)
    front.address = front.listener.address
    await front.listener.start()
    try:
        yield front
    finally:
        front.go.set()
        for client in front.clients:
            client.leave()
        await front.listener.aclose(0.2)
        assert front.open == 0
