"""A client of HTTP/2 that sends frames as they are, for what grpcio's own client never does."""

import asyncio
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection

from gateway.a2a.framing.grpc import unframe
from tests.support.scripted import WAIT

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

_GOAWAY = 7

Pairs = list[tuple[bytes, bytes]]


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
            if whole[3] == _GOAWAY:
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
