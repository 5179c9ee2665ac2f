"""One connection to an agent, with one exchange at a time.

A connection is in one of three states:

    IDLE     no response; the pool holds it. A byte, a close or the idle deadline closes it (`drop`).
    BUSY     a response: the request or the answer is on its way. It becomes IDLE after a complete answer, else CLOSED.
    CLOSED   the transport is closing. A connection that may be out of step is never used again (safety T14).

A connection closes on a byte while it is IDLE, because no request asked for it, and on any byte after an answer's end.
It is not reused after an answer that came before the request was sent whole, that was not an A2A answer (`distrust`),
or that filled the read buffer: over TLS there may be more bytes, which the loop reads later and `usable` cannot see.
"""

import asyncio
import contextlib
import math
import select
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from gateway.a2a.fault import Draining, Fault, UpstreamProtocol, UpstreamReset
from gateway.network.deadline import Deadline
from gateway.policy.concurrency import Flow
from gateway.upstream.outlier_detection import Unsent
from gateway.upstream.response import CUT, Response, late
from gateway.upstream.response_parser import PlainHeads, ResponseParser

READ_SIZE = 64 * 1024
"""Bytes of the buffer that all connections to agents read into; each read is copied out at once.

With `asyncio.Protocol` uvloop would read up to 250 KiB at a time, and a stream whose client does not read would hold
two such pieces.
"""


def read_buffer() -> memoryview:
    """Return a buffer for `Connection`."""
    return memoryview(bytearray(READ_SIZE))


_UNREAD_LIMIT = 32 * 1024
"""Bytes of an answer that wait for their reader before the connection stops reading."""
_SLICE = 256 * 1024

# Safety R22: keepalive notices a dead path while nothing is sent, the user timeout while something is.
_SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 15_000),
)


class Keeper(Protocol):
    """The pool of a connection."""

    def opened(self, connection: "Connection") -> None:
        """Note that the transport is up."""

    def settled(self, connection: "Connection", *, reusable: bool) -> None:
        """Note that the exchange is over; a connection that is not reusable is closed already."""

    def dropped(self, connection: "Connection") -> None:
        """Note that an idle connection was closed; may be called more than once."""

    def gone(self, connection: "Connection") -> None:
        """Note that the transport is down; nothing follows."""


class Connection(asyncio.BufferedProtocol):
    """One connection to an agent.

    Attributes:
        address: The agent's IP address and port; empty before the connection is made.
        retires: Time of the loop from which on no exchange starts.
        place: The slot of its exchange; only the pool uses it, and the next two.
        streams: Whether the answer may be a stream.
        begun: The number of its exchange in the pool.
        response: The answer that is being read; None between exchanges.
        transport: None before the connection is made and after its end.
    """

    __slots__ = (
        "_buffer", "_deadline", "_distrusted", "_expired", "_header_bytes", "_header_count", "_is_used", "_keeper",
        "_plain", "_poll", "_reading_paused", "_unsent", "_writing_paused", "address", "begun", "loop", "place",
        "response", "retires", "streams", "transport",
    )  # fmt: skip

    def __init__(
        self,
        keeper: Keeper,
        buffer: memoryview,
        header_bytes: int,
        header_count: int,
        *,
        plain: PlainHeads | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.retires = math.inf
        self.address = ""
        self.place: Flow | None = None
        self.streams = False
        self.begun = 0
        self._keeper = keeper
        self._buffer = buffer
        self._plain = plain
        self._header_bytes = header_bytes
        self._header_count = header_count
        self.transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self.response: Response | None = None
        self._is_used = False
        self._distrusted = False  # an earlier answer belonged to another request
        self._unsent: memoryview | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._expired: Callable[[], Fault] = late
        self._deadline = Deadline(self.loop, self._on_deadline)

    def usable(self) -> bool:
        """Return whether an exchange may start: it is open, not too old, and nothing waits in the kernel.

        The kernel may hold a close, or unsolicited bytes, that the loop has not read yet. A request would meet a closed
        connection, or read a foreign answer.
        """
        transport = self.transport
        if transport is None or transport.is_closing() or self.loop.time() >= self.retires:
            return False
        if self._poll is None:
            # Not before the second exchange: the connection of a stream has none.
            if not hasattr(select, "poll"):
                return True
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not self._poll.poll(0)

    def exchange(self, head: bytes, body: bytes, deadline: float) -> Coroutine[Any, Any, Response]:
        """Send a request, and return an awaitable for the head of the answer.

        An answer that comes before the request is sent whole is taken, and the connection is not reused. Cancellation
        closes the connection.

        Args:
            deadline: Time of the loop until which the head must be there.

        Raises:
            UpstreamTimeout: it is not.
            UpstreamReset: the agent closed first.
            UpstreamProtocol: the answer is not HTTP.
        """
        transport = self.transport
        reader = ResponseParser(self._header_bytes, self._header_count, self._plain)
        response = self.response = Response(self, reader, alone=not self._is_used)
        self._is_used = True
        if transport is None or transport.is_closing():
            self.fail(UpstreamReset(CUT, detail="closed before the request was sent"))
        elif len(body) <= _SLICE:
            transport.write(head + body)
        else:
            transport.write(head)
            self._unsent = memoryview(body)
            self._send()
        # Not awaited here: each awaiting frame costs time when the answer resumes it.
        return response.head(deadline)

    def rest(self, seconds: float) -> None:
        """Stay idle for at most so many seconds."""
        self._deadline.within(seconds)

    def drop(self) -> None:
        """Close at once, while idle."""
        self._deadline.stop()
        if self.transport is not None:
            # Never `close`: over TLS it would wait for the agent's close_notify.
            self.transport.abort()
        self._keeper.dropped(self)

    def fail(self, fault: Fault) -> None:
        """Close at once, and fail the exchange if there is one."""
        response = self.response
        if response is None:
            self.drop()
            return
        self.response = None
        self._unsent = None
        if self.transport is not None:
            self.transport.abort()
        response.detach(fault)
        self._keeper.settled(self, reusable=False)

    def distrust(self) -> None:
        """Refuse further exchanges; an open one goes on."""
        self._distrusted = True
        if self.response is None:
            self.drop()

    # ---- Deadlines ---------------------------------------------------------------------------------------------

    def expect(self, deadline: float, expired: Callable[[], Fault]) -> "asyncio.Future[None]":
        """Return a future to wait for; at `deadline` the exchange fails with `expired()`."""
        self._expired = expired
        self._deadline.set(deadline)
        return self.loop.create_future()

    def expect_by(self, deadline: float) -> None:
        """Move the deadline to a later time."""
        self._deadline.at = deadline

    def expect_nothing(self, response: Response) -> None:
        """Remove the deadline of `response`: its reader may take any time between two reads."""
        if self.response is response:
            self._deadline.lift()

    def _on_deadline(self) -> None:
        if self.response is None:
            self.drop()
        else:
            self.fail(self._expired())

    # ---- Called by the loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the socket options."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from asyncio's
        self.address = host_and_port(transport.get_extra_info("peername"))
        sock = transport.get_extra_info("socket")
        for level, name, value in _SOCKET_OPTIONS:
            if hasattr(socket, name):
                # Not every kernel of the same name takes every option; the connection works without.
                with contextlib.suppress(OSError):
                    sock.setsockopt(level, getattr(socket, name), value)
        self._keeper.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer for the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Read bytes of the answer, or drop the connection if no request asked for them."""
        response = self.response
        if response is None:
            self.drop()
            return
        data = self._buffer[:nbytes].tobytes()
        reader = response.reader
        if (sink := response.sink) is not None and (piece := reader.chunk(data)) is not None:
            # As in `Response.arrived`, with fewer calls: nearly every event of a stream comes this way.
            response.received = self.loop.time()
            self._deadline.at = response.received + response.patience
            try:
                if not sink(piece):
                    response.pause()
            except Exception as error:  # noqa: BLE001 - raised in the task that waits
                response.refuse(error)
            return
        try:
            reader.feed(data)
        except UpstreamProtocol as fault:
            self.fail(fault)
            return
        if reader.ended:
            if nbytes == READ_SIZE:
                # There may be more bytes, which belong to no answer.
                reader.reusable = False
            self._finish(response, reader)
            return
        if reader.held > _UNREAD_LIMIT:
            self.pause_reading()
        if reader.status:
            response.arrived()

    def eof_received(self) -> None:
        """End the answer: the agent has closed its side. The transport closes when this returns."""
        response = self.response
        if response is None:
            self.drop()
            return
        reader = response.reader
        try:
            reader.close()
        except UpstreamReset as fault:
            self.fail(fault)
            return
        if self._farewell():
            self._finish(response, reader)
        else:
            self.fail(UpstreamReset(CUT, detail="closed below TLS"))

    def _farewell(self) -> bool:
        """Return whether the agent itself closed; below TLS any host on the path can close (RFC 9112 §9.8).

        uvloop reports a close below TLS as an error, asyncio as if the agent had closed.
        """
        secured = None if self.transport is None else self.transport.get_extra_info("ssl_object")
        if secured is None:
            return True
        try:
            return not secured.read(1)  # no data and no error: close_notify was read
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLError:
            return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the exchange; `exc` tells a reset."""
        self._deadline.stop()
        self.fail(UpstreamReset(CUT, detail=str(exc) if exc is not None else "closed"))
        self.transport = None
        self._poll = None
        self._keeper.gone(self)

    def pause_writing(self) -> None:
        """Stop sending: the agent reads slowly."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self._writing_paused = False
        self._send()

    def pause_reading(self) -> None:
        """Stop reading until the answer was consumed."""
        if not self._reading_paused and self.transport is not None and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if self._reading_paused:
            self._reading_paused = False
            if self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()

    def _send(self) -> None:
        """Send the rest of the request, as fast as the agent reads."""
        transport = self.transport
        while self._unsent is not None and not self._writing_paused:
            if transport is None or transport.is_closing():
                return
            piece = self._unsent[:_SLICE]
            self._unsent = self._unsent[_SLICE:] if len(self._unsent) > _SLICE else None
            transport.write(piece)

    def _finish(self, response: Response, reader: ResponseParser) -> None:
        """End the exchange with a complete answer."""
        transport = self.transport
        self.response = None
        self._deadline.lift()
        reusable = (
            reader.reusable
            and not self._distrusted
            and self._unsent is None
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )
        self._unsent = None
        if reusable:
            if self._reading_paused:
                self.resume_reading()
        elif transport is not None:
            transport.abort()
        response.detach()
        self._keeper.settled(self, reusable=reusable)


def closing() -> Fault:
    """Return the fault of a call that is cut because the pool closes."""
    return Draining(_CLOSING, retry_after=1.0)


def closed() -> Fault:
    """Return the fault of a call that was not sent because the pool is closed."""
    return Unsent(_CLOSING, retry_after=1.0)


_CLOSING = "the gateway is closing its connections to this agent"


def host_and_port(peer: object) -> str:
    """Return the address of a socket's peer as URLs have it; empty for a Unix socket."""
    if not isinstance(peer, tuple):
        return ""
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
