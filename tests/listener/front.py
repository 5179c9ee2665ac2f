"""A listener on a real socket without a gateway behind it, clients on raw sockets, and both event loops."""

import asyncio
import ipaddress
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import trustme

from gateway.a2a.call import Head
from gateway.background import Background
from gateway.config.limit import Http
from gateway.listener.http1 import ClientConnection, ClientResponder, ListenerState
from gateway.listener.http_limits import HttpLimits
from gateway.listener.server import HttpServer, bind, server_tls
from gateway.startup import http_limits
from tests.support.assembly import until
from tests.support.gateway import Client

TEXT = (b"content-type", b"text/plain")
Serve = Callable[["Front", Head, ClientResponder], Awaitable[None]]


def limited(**bounds: Any) -> HttpLimits:
    """The default bounds, but for these; times in seconds."""
    return replace(http_limits(Http()), **bounds)


async def echoes(front: "Front", head: Head, wire: ClientResponder) -> None:
    """Answers with the body, or with the method and the path where there is none."""
    body = await wire.read(front.longest)
    await wire.answer(200, [TEXT], body or head.method.encode() + b" " + head.path)


async def refuses(front: "Front", head: Head, wire: ClientResponder) -> None:
    """Answers 401 without reading the body."""
    await wire.answer(401, [TEXT], b"who are you?")


async def streams(front: "Front", head: Head, wire: ClientResponder) -> None:
    """Writes pieces until `front.go` is set, then ends."""
    wire.open(200, [TEXT])
    await wire.write(b"first")
    await front.go.wait()
    await wire.close()


async def patient(front: "Front", head: Head, wire: ClientResponder) -> None:
    """Answers when `front.go` is set."""
    await front.go.wait()
    await wire.answer(200, [TEXT], b"at last")


@dataclass(slots=True)
class Front:
    """A listener that runs.

    Attributes:
        refused: Status and words of what was no request.
        heads: Of every request.
        gone: The number of clients that left before their answer.
    """

    serve: Serve
    longest: int = 10 * 1024 * 1024
    go: asyncio.Event = field(default_factory=asyncio.Event)
    heads: list[Head] = field(default_factory=list)
    wires: list[ClientResponder] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    gone: int = 0
    cancelled: int = 0
    port: int = 0
    tls: ssl.SSLContext | None = None
    http_server: HttpServer | None = None
    clients: list[Client] = field(default_factory=list)

    @property
    def server(self) -> HttpServer:
        assert self.http_server is not None
        return self.http_server

    @property
    def edge(self) -> ListenerState:
        return self.server.state

    @property
    def connections(self) -> list[ClientConnection]:
        return cast("list[ClientConnection]", list(self.server.state.connections))  # those of its protocol

    @property
    def connection(self) -> ClientConnection:
        [only] = self.connections
        return only

    async def answer(self, head: Head, wire: ClientResponder) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.heads.append(head)
        self.wires.append(wire)

        def left() -> None:
            self.gone += 1
            task.cancel()

        wire.when_gone(left)
        try:
            await self.serve(self, head, wire)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def told(self, peer: str, request_id: str, status: int, words: str) -> None:
        self.refused.append((status, words))

    async def client(self, **more: Any) -> Client:
        """A new connection."""
        if self.tls is not None and "ssl" not in more:
            more |= {"ssl": self.tls, "server_hostname": "127.0.0.1"}
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, **more))
        self.clients.append(client)
        return client

    async def says(self, data: bytes) -> bytes:
        """All that a new connection says to `data`, until it ends."""
        client = await self.client()
        client.writer.write(data)
        return await client.ended()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds."""
        await until(true)

    async def rested(self) -> None:
        """Wait until no connection is left, and see that nobody counts one that is not there."""
        connection_limit = self.edge.connection_limit
        await self.until(lambda: not self.edge.connections and not self.edge.tasks and not connection_limit.size)
        assert connection_limit.networks == {}


@asynccontextmanager
async def fronting(
    serve: Serve = echoes,
    limits: HttpLimits | None = None,
    *,
    tls: "Tls | None" = None,
    proxies: Sequence[str] = (),
    **more: Any,
) -> AsyncIterator[Front]:
    """A listener that runs while this is entered; `more` is for its `ListenerState`."""
    front = Front(serve)
    edge = ListenerState(front.answer, limits or limited(), front.told, **more)
    listener = bind("127.0.0.1:0")
    front.port = listener.getsockname()[1]
    networks = [ipaddress.ip_network(proxy) for proxy in proxies]
    front.http_server = HttpServer(listener, edge, tls=None if tls is None else tls.server, proxies=networks)
    front.tls = None if tls is None else tls.client
    background = Background()
    await front.http_server.start(background, "test")
    try:
        yield front
    finally:
        front.go.set()
        for client in front.clients:
            client.leave()
        await front.http_server.aclose(0.2)
        await background.aclose()
        await front.rested()


class Tls:
    """Both sides of a handshake that works."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        self.chain, self.key = folder / "chain.pem", folder / "key.pem"
        self.chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        self.key.write_bytes(certificate.private_key_pem.bytes())
        self.server = server_tls(self.chain, self.key)
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)


def slow_socket(port: int, *, window: int = 4096) -> socket.socket:
    """A connection whose client takes a few bytes at once, and only when asked to."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.setblocking(False)
    with suppress(BlockingIOError):
        client.connect(("127.0.0.1", port))
    return client


@contextmanager
def starved() -> Iterator[None]:
    """A process that can open no more files while this is entered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(name) for name in os.listdir("/proc/self/fd")) + 8  # noqa: PTH208 - the numbers alone
    hoard: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        with suppress(OSError):
            while True:
                hoard.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for number in hoard:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
