"""A server of HTTP/2 that does as it is told, frame by frame: what a server of gRPC cannot be made to do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded, StreamReset
from h2.exceptions import ProtocolError

Headers = list[tuple[bytes, bytes]]
OK = (b"grpc-status", b"0")


class Turn:
    """One stream of one connection, whose request is complete.

    Attributes:
        on_event: Told what else arrives on the connection.
    """

    on_event: Callable[[object], None] | None = None

    def __init__(self, connection: "_Connection", stream: int) -> None:
        self._connection = connection
        self.stream = stream

    @property
    def h2(self) -> H2Connection:
        return self._connection.h2

    def head(self, *headers: tuple[bytes, bytes], status: bytes = b"200", end: bool = False) -> "Turn":
        given = dict(headers)
        first: Headers = [(b":status", status)]
        if b"content-type" not in given:
            first.append((b"content-type", b"application/grpc"))
        self.h2.send_headers(self.stream, [*first, *headers], end_stream=end)
        return self

    def data(self, data: bytes, *, end: bool = False) -> "Turn":
        self.h2.send_data(self.stream, data, end_stream=end)
        return self

    def trailers(self, *trailers: tuple[bytes, bytes]) -> "Turn":
        self.h2.send_headers(self.stream, list(trailers), end_stream=True)
        return self

    def reset(self, code: int) -> "Turn":
        self.h2.reset_stream(self.stream, code)
        return self

    def goaway(self, words: bytes = b"", *, last: int | None = None) -> "Turn":
        self._connection.gone = True
        self.h2.close_connection(additional_data=words, last_stream_id=last)
        return self

    def raw(self, data: bytes) -> "Turn":
        self._connection.flush()
        self._connection.transport.write(data)
        return self

    def ping(self) -> "Turn":
        self.h2.ping(b"12345678")
        self._connection.flush()
        return self

    def hang_up(self) -> "Turn":
        self._connection.flush()
        self._connection.transport.close()
        return self

    def abort(self) -> "Turn":
        self._connection.transport.abort()
        return self


Script = Callable[[Turn], object]


class _Connection(asyncio.Protocol):
    def __init__(self, server: "Http2Server") -> None:
        self.server = server
        # Whether it has said goodbye: whom it was said to waits for this side to hang up.
        self.gone = False
        self.turn: Turn | None = None
        careless = H2Configuration(
            client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.h2 = H2Connection(careless)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's inherits from nothing
        self.server.connections += 1
        self.server.open.add(self)
        self.server.emptied.clear()
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.open.discard(self)
        if not self.server.open:
            self.server.emptied.set()

    def data_received(self, data: bytes) -> None:
        try:
            events = self.h2.receive_data(data)
        except ProtocolError:
            # Errors of the client are expected after a GOAWAY or malformed frames of ours.
            return
        if any(isinstance(event, StreamReset) for event in events):
            # Nothing more can be sent after it.
            self.server.reset.set()
            self.turn = None
        for event in events:
            if isinstance(event, StreamEnded):
                assert event.stream_id is not None
                self.turn = Turn(self, event.stream_id)
                self.server.script(self.turn)
            elif self.turn is not None and self.turn.on_event is not None:
                self.turn.on_event(event)
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())


class Http2Server:
    """An HTTP/2 server that a test controls.

    Attributes:
        connections: The number of connections so far.
        reset: Set when the other side has cancelled a stream.
        open: Connections that there are.
        emptied: Set while there is none.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = 0
        self.reset = asyncio.Event()
        self.open: set[_Connection] = set()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"


@asynccontextmanager
async def http2_server(script: Script) -> AsyncIterator[Http2Server]:
    """A server on loopback, each of whose requests gets what `script` says."""
    double = Http2Server(script)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(double), "127.0.0.1", 0)
    double.port = server.sockets[0].getsockname()[1]
    try:
        yield double
    finally:
        server.close()
        # The client has left: gRPC would report the end of the connection to the loop of the next test.
        for connection in double.open:
            if connection.gone:
                connection.transport.abort()
        await double.emptied.wait()
