"""A listener of gRPC on a real socket without a gateway behind it, clients of grpc.aio, and clients of bare frames."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import grpc.aio  # type: ignore[import-untyped]  # as above
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection

from gateway.a2a.call import Head
from gateway.a2a.framing.grpc import frame, unframe
from gateway.background import Background
from gateway.listener.edge import Edge
from gateway.listener.grpc_request import GrpcBounds
from gateway.listener.grpc_wire import GrpcWire
from gateway.listener.http2 import Http2Connection
from gateway.listener.http2_frames import Kind
from gateway.listener.server import HttpServer, bind, server_tls
from tests.doubles.gateway import Client
from tests.doubles.scripted import WAIT
from tests.listener.front import Tls, limited

SEND = "/lf.a2a.v1.A2AService/SendMessage"
STREAM = "/lf.a2a.v1.A2AService/SendStreamingMessage"
REQUEST = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", SEND.encode()),
    (b":authority", b"gateway.example"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]
STREAMING = [(name, STREAM.encode() if name == b":path" else value) for name, value in REQUEST]
OK = (200, b"0", [b"ok"])
"""What is said to a message of `ok` where messages are echoed."""
# RFC 9113 §7.
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 7, 8, 11
Serve = Callable[["GrpcFront", Head, GrpcWire], Awaitable[None]]
Pairs = list[tuple[bytes, bytes]]


def bounded(**bounds: Any) -> GrpcBounds:
    """The default bounds, but for these."""
    return GrpcBounds(**bounds)


async def echoes(front: "GrpcFront", head: Head, wire: GrpcWire) -> None:
    """Answers with the message."""
    message = await wire.read(front.longest)
    await wire.answer(200, [(b"x-request-id", b"1")], frame(message))


async def streams(front: "GrpcFront", head: Head, wire: GrpcWire) -> None:
    """Writes a message, and ends when `front.go` is set."""
    await wire.read(front.longest)
    wire.open(200, [])
    await wire.write(frame(b"first"))
    await front.go.wait()
    await wire.close()


async def patient(front: "GrpcFront", head: Head, wire: GrpcWire) -> None:
    """Answers when `front.go` is set."""
    await front.go.wait()
    await wire.answer(200, [], frame(b"at last"))


@dataclass(slots=True)
class GrpcFront:
    """A listener that runs.

    Attributes:
        refused: Status and words of what was no call.
        gone: How many clients left before their answer.
    """

    serve: Serve
    longest: int = 10 * 1024 * 1024
    go: asyncio.Event = field(default_factory=asyncio.Event)
    heads: list[Head] = field(default_factory=list)
    wires: list[GrpcWire] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    gone: int = 0
    cancelled: int = 0
    port: int = 0
    tls: "GrpcTls | None" = None
    _server: HttpServer | None = None
    _clients: list["RawClient | Client"] = field(default_factory=list)

    @property
    def server(self) -> HttpServer:
        assert self._server is not None
        return self._server

    @property
    def edge(self) -> Edge:
        return self.server._edge

    @property
    def state(self) -> Any:
        return self.server._server.server_state

    @property
    def connections(self) -> list[Http2Connection]:
        return list(self.state.connections)

    @property
    def connection(self) -> Http2Connection:
        [only] = self.connections
        return only

    @property
    def open(self) -> int:
        """Calls that are open."""
        return sum(len(connection._session.open) for connection in self.connections)

    async def answer(self, head: Head, wire: GrpcWire) -> None:
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
        except Exception as error:
            self.faults.append(error)
            raise

    def told(self, peer: str, request_id: str, status: int, words: str) -> None:
        self.refused.append((status, words))

    def channel(self, **options: Any) -> grpc.aio.Channel:
        """A channel of its own connection; `grpc.` is put before each option."""
        chosen = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        chosen += [(f"grpc.{name}", value) for name, value in options.items()]
        if self.tls is None:
            return grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=chosen)
        credentials = grpc.ssl_channel_credentials(self.tls.authority)
        return grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials, options=chosen)

    async def client(self, **more: Any) -> "RawClient":
        """A new connection that has said what a client says first."""
        client = RawClient(*await asyncio.open_connection("127.0.0.1", self.port, **more))
        self._clients.append(client)
        client.greet()
        return client

    async def stranger(self) -> Client:
        """A new connection that has said nothing."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._clients.append(client)
        return client

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(WAIT):
            while not true():  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0.005)

    async def rested(self) -> None:
        """Wait until no connection is left, and see that nobody counts one that is not there."""
        crowd = self.edge.crowd
        await self.until(lambda: not self.state.connections and not self.state.tasks and not crowd.size)
        assert crowd._networks == {}
        assert self.edge.farewells == set()


class GrpcTls(Tls):
    """Both sides of a handshake that works, for HTTP/2."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = server_tls(self.chain, self.key, protocol="h2")
        self.authority = self.chain.read_bytes()


@asynccontextmanager
async def grpc_fronting(
    serve: Serve = echoes,
    bounds: GrpcBounds | None = None,
    limits: Any = None,
    *,
    tls: GrpcTls | None = None,
    **more: Any,
) -> AsyncIterator[GrpcFront]:
    """A listener that runs while this is entered; `more` is for its `Edge`."""
    front = GrpcFront(serve)
    edge = Edge(front.answer, limits or limited(), front.told, **more)
    listener = bind("127.0.0.1:0")
    front.port = listener.getsockname()[1]
    protocol = partial(Http2Connection, bounds=bounds or GrpcBounds())
    front._server = HttpServer(listener, edge, tls=None if tls is None else tls.server, protocol=protocol)
    front.tls = tls
    background = Background()
    await front._server.start(background, "test")
    try:
        yield front
    finally:
        front.go.set()
        for client in front._clients:
            client.leave()
        await front._server.aclose(0.2)
        await background.aclose()
        await front.rested()


# ---- A client of bare frames ----------------------------------------------------------------------------------------


async def ok(client: "RawClient") -> None:
    """Calls are answered on this connection, which echoes."""
    assert await client.answer(client.ask(body=frame(b"ok"))) == OK


def raw_frame(kind: int, flags: int = 0, stream: int = 0, body: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(body).to_bytes(3, "big") + struct.pack(">BBL", kind, flags, stream) + body


class RawClient:
    """One connection, by h2 as far as it lets one, and by bare frames.

    Attributes:
        goaway: The error code of the server's GOAWAY, and the last stream that it served.
        ended: Streams that ended, each with how: None for well, or an error code.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h2 = H2Connection(
            H2Configuration(
                client_side=True,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.goaway: tuple[int, int] | None = None
        self.headers: dict[int, Pairs] = {}
        self.trailers: dict[int, Pairs] = {}
        self.body: dict[int, bytes] = {}
        self.ended: dict[int, int | None] = {}
        self.pongs = 0
        self.grants = 0
        self.acknowledges = True
        self._unread = b""

    def greet(self) -> None:
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data:
            self.writer.write(data)

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self.flush()
        self.writer.write(data)

    def ask(
        self,
        headers: Iterable[tuple[bytes, bytes]] = REQUEST,
        body: bytes | None = None,
        *,
        end: bool = True,
        more: Iterable[tuple[bytes, bytes]] = (),
    ) -> int:
        """Make a call; the number of its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [*headers, *more], end_stream=end and body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    async def hear(self) -> bool:
        """Read once; False at the end of the connection."""
        async with asyncio.timeout(WAIT):
            data = await self.reader.read(65536)
        if not data:
            return False
        self._unread += data
        while len(self._unread) >= 9 and len(self._unread) >= (end := 9 + int.from_bytes(self._unread[:3], "big")):
            whole, self._unread = self._unread[:end], self._unread[end:]
            if whole[3] == Kind.GOAWAY:
                # h2 would read nothing behind it.
                last, code = struct.unpack(">LL", whole[9:17])
                self.goaway = (code, last)
                continue
            for event in self.h2.receive_data(whole):
                self._note(event)
        self.flush()
        return True

    def _note(self, event: events.Event) -> None:
        match event:
            case events.ResponseReceived():
                self.headers[event.stream_id] = list(event.headers)
            case events.TrailersReceived():
                self.trailers[event.stream_id] = list(event.headers)
            case events.DataReceived():
                self.body[event.stream_id] = self.body.get(event.stream_id, b"") + (event.data or b"")
                if self.acknowledges:
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            case events.StreamEnded():
                self.ended[event.stream_id] = None
            case events.StreamReset():
                self.ended.setdefault(event.stream_id, int(event.error_code or 0))
            case events.PingAckReceived():
                self.pongs += 1
            case events.WindowUpdated():
                self.grants += 1

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():
            assert await self.hear(), "the connection ended"

    async def answer(self, stream: int) -> tuple[int, bytes, list[bytes]]:
        """The status of HTTP, that of gRPC, and the messages of one call."""
        await self.until(lambda: stream in self.ended)
        assert self.ended[stream] is None
        headers, trailers = dict(self.headers[stream]), dict(self.trailers.get(stream, []))
        status = (headers | trailers).get(b"grpc-status", b"")
        return int(headers[b":status"]), status, unframe(self.body.get(stream, b""))

    async def finished(self) -> None:
        """Wait for the end of the connection."""
        try:
            while await self.hear():
                pass
        except ConnectionError:
            pass

    def leave(self) -> None:
        # As `Client.leave`.
        with suppress(AttributeError):
            self.writer.transport.abort()
