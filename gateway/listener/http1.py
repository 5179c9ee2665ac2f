"""The HTTP/1.1 server side of a client's connection, as an asyncio protocol.

    RESTING     no byte of a request is there            → QUEUED, HEAD, or closed after `keep_alive`
    QUEUED      bytes are there, and others come first   → HEAD (`turn`)
    HEAD        a part of a head is there                → BODY or ANSWERING, or refused after `header_timeout`
    BODY        the head is read, its body is coming     → ANSWERING, or refused for being slow
    ANSWERING   the request is whole, or its answer      → RESTING, LINGERING or closed
                began before it was
    LINGERING   answered before the request was whole    → closed after 2 s, or when the client is done; of what it
                                                           sends 16 MiB is read
    CLOSING     the last bytes are on their way          → gone, at the latest when the client reads nothing any more

In every state, a client that does not read pending output is disconnected after `write_stall`, and a client that ends
its side of the connection has left. While an answer waits for its client, the connection is read in ANSWERING only, and
the bytes are dropped.

Requests are not pipelined: bytes behind an unanswered request are not served, because they would hide that the client
has left. The connection closes after the answer, and the client repeats the request (RFC 9112 §9.3.2). Trailers behind
a chunked body are dropped: a credential there would count (safety H4).

uvicorn's httptools protocol is not used: it has no limits and no deadlines (decision 0001). Heads, and bodies that come
later, are read by `request_parser`.
"""

import asyncio
import enum
import logging
import math
import secrets
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooSlow, ClientGone
from gateway.a2a.headers import Pairs
from gateway.identity.verification import network_of
from gateway.listener.body_rules import BODILESS, MOMENT, SHORT, check_length
from gateway.listener.http_limits import HttpLimits
from gateway.listener.request_parser import IncomingBody, IncomingHeads, RequestHead, Unreadable, error_response
from gateway.listener.tls import NO_TLS, read_tls_session
from gateway.listener.write_batch import WriteBatch
from gateway.network.certificate import ServerTls
from gateway.network.chunk import chunk
from gateway.network.deadline import Deadline

logger = logging.getLogger("gateway.listener")

# On close(2): unsent bytes are dropped, and the client gets a reset.
_AT_ONCE = struct.pack("ii", 1, 0)


class Backlog:
    """The bytes that one client has not read yet; compared from time to time, to tell a slow reader from a dead one."""

    __slots__ = ("_left", "_waiters")

    def __init__(self) -> None:
        self._left = 0
        self._waiters: list[asyncio.Future[None]] = []

    def has_moved(self, transport: asyncio.Transport) -> bool:
        """Return whether the client has read some of them since the last check, but not all."""
        left, before = transport.get_write_buffer_size(), self._left
        self._left = left
        return 0 < left < before

    async def moved(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until `wake`."""
        waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Wake all waiters: the client has read, or is gone."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def end_writing(transport: asyncio.Transport) -> bool:
    """Close the sending side, and go on reading; return False if the client has reset the connection before."""
    if transport.can_write_eof() and not transport.is_closing():
        try:
            transport.write_eof()
        except OSError:
            # Bytes that it sent before the reset are still unread.
            return False
    return True


def drop(transport: asyncio.Transport) -> None:
    """Close a connection by a reset, and drop unsent bytes."""
    at_hand = transport.get_extra_info("socket")
    if at_hand is not None and at_hand.fileno() >= 0:
        with suppress(OSError):
            at_hand.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    # CPython 3.11.2 cannot abort a TLS transport whose connection is gone.
    with suppress(AttributeError):
        transport.abort()


AT_A_TURN: Final = 16
"""Requests that one turn begins: 3 ms, or twice that where each needs a new connection to its agent."""


class RequestQueue:
    """Admits heads to the current turn of the event loop; the others wait in a queue, at most one per connection.

    Args:
        at_a_turn: Most requests of one turn; at least half as many begin.
    """

    def __init__(self, at_a_turn: int = AT_A_TURN) -> None:
        self._at_a_turn = self._left = at_a_turn
        self._low = at_a_turn // 2
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether the request may begin now; if not, the caller has to `wait`."""
        if not self._left or self._waiting:
            return False
        self._left -= 1
        # Not for each of them, which would add a callback to every request under low load.
        if self._left == self._low:
            loop.call_soon(self._renew, loop)
        return True

    def wait(self, callback: Callable[[], None]) -> None:
        """Have `callback` called in its turn, even if it is no longer needed by then."""
        self._waiting.append(callback)

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._at_a_turn
        try:
            while self._waiting and self._left:
                self._left -= 1
                self._waiting.popleft()()
        finally:
            if self._waiting or self._left <= self._low:
                loop.call_soon(self._renew, loop)


_MOST_STARTS = 64
_LONGEST_START = 1024


class ConnectionLimit:
    """Counts connections by client address; in IPv6 by /64 network.

    Args:
        most: Most connections of all addresses together.
        most_of_one: Most connections of one address.
        shares: Whether many clients share an address, which then has no bound of its own.

    Attributes:
        networks: Open connections by network.
        size: Open connections.
    """

    def __init__(self, most: int, most_of_one: int, shares: Callable[[str], bool]) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._shares = shares
        self.networks: dict[str, int] = {}
        self.size = 0

    def enter(self, peer: str) -> bool:
        """Count a connection; return False if it exceeds a bound. A refused one has to leave, too."""
        network = network_of(peer)
        of_one = self.networks.get(network, 0)
        self.networks[network] = of_one + 1
        self.size += 1
        return self.size <= self._most and (of_one < self._most_of_one or self._shares(peer))

    def leave(self, peer: str) -> None:
        """Count one less."""
        network = network_of(peer)
        left = self.networks[network] - 1
        self.size -= 1
        if left:
            self.networks[network] = left
        else:
            del self.networks[network]


@dataclass(slots=True)
class ListenerState:
    """The connections and requests of one listener, and the state and settings that they share.

    Attributes:
        serve: Answers one request; each protocol gives it a responder of its own kind.
        limits: The limits of their connections.
        refused: Called for each unreadable request with peer, request id, status and text.
        shares: As `ConnectionLimit`.
        distrusted: Called for each handshake that failed for the client's certificate with peer, id and reason.
        tls: The TLS context for new handshakes; None without TLS.
        closing: Whether connections end with the answer that they are waiting for.
        connection_limit: The open connections.
        request_queue: The order in which requests begin.
        writes: Sends answers at the end of the turn.
        tasks: Of the requests that are served.
        common_lines: The header lines of every answer.
    """

    serve: Callable[[Head, Any], Coroutine[Any, Any, None]]
    limits: HttpLimits
    refused: Callable[[str, str, int, str], None] = lambda *_: None
    shares: Callable[[str], bool] = lambda _: False
    distrusted: Callable[[str, str, str], None] = lambda *_: None
    tls: ServerTls | None = None
    closing: bool = False
    connection_limit: ConnectionLimit = field(init=False)
    request_queue: RequestQueue = field(default_factory=RequestQueue)
    writes: WriteBatch = field(default_factory=WriteBatch)
    connections: set["ClientConnection"] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    common_lines: bytes = b""
    _starts: dict[tuple[int, tuple[tuple[bytes, bytes], ...]], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection_limit = ConnectionLimit(self.limits.connections, self.limits.connections_per_peer, self.shares)

    def set_date(self, date: str) -> None:
        """Use this date in the answers from now on."""
        self.common_lines = b"date: %b\r\n" % date.encode("ascii")
        self._starts.clear()

    def answer_start(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        """Return the beginning of an answer: status line, the headers of all answers, and its own.

        Raises:
            ValueError: as `header_lines`.
        """
        known = self._starts.get((status, headers))
        if known is not None:
            return known
        start = b"".join((_STATUS[status], self.common_lines, header_lines(headers)))
        if len(self._starts) < _MOST_STARTS and len(start) <= _LONGEST_START:
            self._starts[status, headers] = start
        return start


_SLICE = 64 * 1024
"""Bytes that are written at once."""
_PHRASES = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}
# An agent may answer with any status; one without a name has an empty reason here (RFC 9112 §4).
_STATUS = {status: b"HTTP/1.1 %d %b\r\n" % (status, _PHRASES.get(status, b"")) for status in range(100, 600)}


def header_lines(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the lines of headers, the gateway's own or passed on.

    Raises:
        ValueError: one holds a line end; only a defect of the gateway can cause that.
    """
    head = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if head.count(b"\n") != len(headers) or head.count(b"\r") != len(headers) or b"\0" in head:
        raise ValueError("a header of the answer holds a line end")
    return head


class ClientResponder(msgspec.Struct, eq=False):
    """One exchange with a client; a struct, since one is made for each.

    Attributes:
        opened: Whether the head of an answer has gone out.
        extra: Headers that the answer has beside its own.
        whole: Whether the body of the request has come.
    """

    _connection: "ClientConnection"
    _read: RequestHead
    _length: int | None
    whole: bool
    _body: bytes | bytearray = b""
    _bodiless: bool = False
    _expects: bool = False
    _limit: float = math.inf
    _waiter: "asyncio.Future[None] | None" = None
    _gone: Callable[[], None] | None = None
    # Over: the answer is complete, or the connection no longer serves it; later bytes are dropped.
    _over: bool = False
    _lost: bool = False
    _slow: bool = False
    _chunked: bool = False
    _torn: bool = False
    _keep: bool = False
    opened: bool = False
    extra: Pairs = []

    def __post_init__(self) -> None:
        self._bodiless = self._read.head.method == "HEAD"
        self._expects = self._read.expects

    @property
    def unread(self) -> int:
        """Return the number of received bytes of the body that were not read."""
        return len(self._body)

    # ---- Methods of `Responder` ----------------------------------------------------------------------------------

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete, or has left."""
        if self._lost:
            callback()
        else:
            self._gone = callback

    async def read(self, limit: int) -> bytes:
        """Return the whole request body.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes; not much more than that was read.
            BodyTooSlow: the client stopped sending, or sends too slowly.
            ClientGone: the client left before its end.
        """
        if not self.whole:
            check_length(self._length or 0, limit)
            await self._wait_for_body(limit)
        check_length(self.unread, limit)
        body, self._body = self._body, b""
        return bytes(body)

    async def _wait_for_body(self, limit: int) -> None:
        self._limit = limit
        self._connection.reads()
        if self._expects:
            self._expects = False
            self._connection.send_continue()
        while not self.whole and self.unread <= limit:
            if self._lost:
                raise ClientGone("the client left")
            if self._slow:
                raise BodyTooSlow("the body came too slowly")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer; it ends the connection if the request did not arrive whole."""
        if self._over:
            return
        if not self.whole and not self._expects and self._length is not None and self._length <= SHORT:
            await self._wait_for_short_body()
            if self._over:
                return
        connection = self._connection
        head = self._head(status, headers, None if status in BODILESS else len(body))
        if self._bodiless or status in BODILESS:
            body = b""
        if len(body) <= _SLICE:
            connection.write(head + body)
        else:
            connection.write(head)
            await self._send(body)
        self._end()

    async def _wait_for_short_body(self) -> None:
        """Wait a moment for a short body that is on its way."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(MOMENT, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def open(self, status: int, headers: Pairs) -> None:
        """Send the head of an answer whose body follows in pieces."""
        if self._over:
            return
        # HTTP/1.0 has no chunks: the end of the connection is the end of the answer (RFC 9112 §6.3).
        self._chunked = not self._read.dated and not self._bodiless
        head = self._head(status, headers, -1)
        self._connection.write(head)
        self._connection.forget()

    async def write(self, data: bytes) -> None:
        """Send one piece; waits while the client's side of the connection is full."""
        if self._bodiless or self._over or not data:
            return
        if self._torn:
            self.cut()
            return
        connection = self._connection
        if connection.paused:
            await connection.drained()
        if len(data) <= _SLICE:
            connection.write(chunk(data) if self._chunked else data)
            return
        if self._chunked:
            connection.write(b"%x\r\n" % len(data))
        await self._send(data)
        if self._chunked:
            connection.write(b"\r\n")

    def write_nowait(self, data: bytes) -> bool:
        """Send one piece without waiting; return False if no more should be written until `drained`."""
        if self._over:
            return True
        connection = self._connection
        if self._torn:
            self.cut()
        elif not self._bodiless and data:
            connection.write(chunk(data) if self._chunked else data)
        return not connection.paused

    async def drained(self) -> None:
        """Wait until the client has read most of what was written."""
        if self._connection.paused and not self._over:
            await self._connection.drained()

    async def close(self, trailers: Pairs | None = None) -> None:  # noqa: ARG002 - this binding has none
        """End the answer cleanly."""
        if self._over:
            return
        if self._torn:
            self.cut()
            return
        if self._chunked:
            self._connection.write(b"0\r\n\r\n")
        self._end()

    def cut(self) -> None:
        """End the connection without ending the answer cleanly."""
        if not self._over:
            self._over = self._lost = True
            self._connection.cut(hard=self.opened and not self._chunked)

    # ---- What the connection tells -------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Store bytes of the body."""
        # A list of pieces of a few bytes would take twenty times their size.
        if not self._body:
            self._body = data
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        if self.unread > self._limit:
            self._wake()

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits for more of the body."""
        return self.unread <= self._limit < math.inf

    def body_complete(self) -> None:
        """Note that the body is whole."""
        self.whole = True
        self._wake()

    def give_up_body(self) -> None:
        """Fail the body: it does not come in time."""
        self._slow = True
        self._wake()

    def lost(self) -> None:
        """Note that the connection is gone."""
        if self._lost:
            return
        self._over = self._lost = True
        self._wake()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    # ---- The bytes of an answer ----------------------------------------------------------------------------------

    def _head(self, status: int, headers: Pairs, length: int | None) -> bytes:
        connection = self._connection
        if not self.whole:
            connection.begin_early_answer()
        self._keep = keep = connection.keeps
        if length is not None and length >= 0:
            framing = b"content-length: %d\r\n" % length
        else:
            framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        end = b"\r\n" if keep else b"connection: close\r\n\r\n"
        pairs = [*headers, *self.extra] if self.extra else headers
        if pairs and pairs[-1][0] == b"x-request-id" and pairs[-1][1].isalnum():
            # Many answers share all headers before it.
            start = connection.listener_state.answer_start(status, tuple(pairs[:-1]))
            head = b"%bx-request-id: %b\r\n%b%b" % (start, pairs[-1][1], framing, end)
        else:
            start = connection.listener_state.answer_start(status, ())
            head = b"".join((start, header_lines(pairs), framing, end))
        self.opened = True
        return head

    async def _send(self, data: bytes) -> None:
        connection = self._connection
        view = memoryview(data)
        # A cancellation in the middle leaves an incomplete piece: no byte may follow it, not even the final event.
        self._torn = True
        for start in range(0, len(data), _SLICE):
            if connection.paused:
                await connection.drained()
            connection.write(view[start : start + _SLICE])
        self._torn = False

    def _end(self) -> None:
        self._gone = None
        if not self._over:
            self._over = True
            self._connection.answered(keep=self._keep)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


MOST_DRAINED = 16 * 1024 * 1024
"""Bytes after a refusal that are read and dropped: a client that sends everything before it reads would lose the
answer otherwise."""
DRAIN_TIME = 2.0
_UNREAD = 64 * 1024
"""Bytes of a body that are kept before a reader asks for it."""
_PIECE = 16 * 1024  # of a stream, written in one call (`stream.py`): it fills the buffer
_KEPT_FOR = 1.0
"""Seconds for which an idle connection keeps its last head, and the credential in it."""


THIS_MACHINE: Final = "127.0.0.1"
"""The address of clients of a Unix socket, which have none."""

_State = enum.Enum("_State", "RESTING QUEUED HEAD BODY ANSWERING LINGERING CLOSING")
_RESTING, _QUEUED, _HEAD, _BODY, _ANSWERING, _LINGERING, _CLOSING = _State


class ClientConnection(asyncio.Protocol):
    """One connection of a client.

    Args:
        peer: The client's address, if the connection was counted before.

    Attributes:
        listener_state: State that it shares with the other connections of its listener.
        tls_session: Its TLS handshake.
        keeps: Whether the connection may last beyond this answer.
        paused: Whether written bytes wait for the client to read.
        dropped: Bytes that were read and dropped after a refusal.
    """

    __slots__ = (
        "_backlog", "_client", "_deadline", "_early", "_entered", "_heads", "_incoming", "_loop", "_peer", "_state",
        "_writes", "dropped", "keeps", "listener_state", "paused", "tls_session", "transport",
    )  # fmt: skip

    def __init__(self, listener_state: ListenerState, peer: str | None = None) -> None:
        self.listener_state = listener_state
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)  # until the connection is made
        self._peer = peer or ""
        self._entered = peer is not None
        self.tls_session = NO_TLS
        self._state = _RESTING
        self._heads = IncomingHeads(listener_state.limits)
        self._client: ClientResponder | None = None
        self.keeps = True
        # The body while it comes, and whether it was answered before it was whole.
        self._incoming: IncomingBody | None = None
        self._early = False
        self.dropped = 0
        self._deadline = Deadline(self._loop, self._late)
        self.paused = False
        self._backlog = Backlog()
        self._writes = listener_state.writes

    @property
    def state(self) -> str:
        """Return its state: `resting`, `queued`, `head`, `body`, `answering`, `lingering` or `closing`."""
        return self._state.name.lower()

    @property
    def unread(self) -> int:
        """Return the number of received bytes that are not parsed yet."""
        return len(self._heads.received)

    @property
    def made(self) -> bool:
        """Whether there is a connection; its loss is reported."""
        return self.transport is not None

    # ---- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it if there are too many."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from asyncio's
        listener_state, limits = self.listener_state, self.listener_state.limits
        self.tls_session = read_tls_session(transport, listener_state.tls)
        listener_state.connections.add(self)
        self.transport.set_write_buffer_limits(high=max(limits.write_buffer - _PIECE, limits.write_buffer // 2))
        if not self._entered:
            peer = transport.get_extra_info("peername")
            self._peer = peer[0] if isinstance(peer, tuple) else "" if peer is None else THIS_MACHINE
            self._entered = True
            if not listener_state.connection_limit.enter(self._peer):
                self._refuse(503, "there are too many connections", linger=False)
                return
        self._deadline.within(limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Notify the task of the request that is being served."""
        self.listener_state.connections.discard(self)
        self.listener_state.connection_limit.leave(self._peer)
        self._state = _CLOSING
        self._deadline.close()
        self._heads.drop()
        self._on_client_gone()

    def eof_received(self) -> bool:
        """Treat the end of the client's side as its leaving; written bytes still go out."""
        self._close()
        self._on_client_gone()
        return False

    def _on_client_gone(self) -> None:
        client, self._client = self._client, None
        self._incoming = None
        self._backlog.wake()
        if client is not None:
            client.lost()

    def pause_writing(self) -> None:
        """Make writers wait: the client reads slowly."""
        self.paused = True
        if self._state is _RESTING:
            # The answer waited for the end of the turn; as in `answered`.
            self.transport.pause_reading()
        self._backlog.has_moved(self.transport)
        if self._state is not _CLOSING:
            self._deadline.within(self.listener_state.limits.write_stall)

    def resume_writing(self) -> None:
        """Let writers continue: the client has read."""
        self.paused = False
        state = self._state
        if state is _ANSWERING:
            self._deadline.lift()
        elif state is _RESTING:
            self.transport.resume_reading()
            self._rest()
        elif state is _LINGERING:
            self._deadline.within(DRAIN_TIME)
        self._backlog.wake()

    def data_received(self, data: bytes) -> None:
        """Read bytes of a request; bytes behind a request that is being answered are dropped."""
        state = self._state
        if state is _RESTING:
            # RFC 9112 §2.2: an empty line before a request is ignored.
            data = data.lstrip(b"\r\n") if data[:1] in b"\r\n" else data
            if data:
                self._read_or_queue(data)
        elif state is _HEAD:
            self._read_or_queue(data)
        elif state is _BODY:
            self._read_body(data)
        elif state is _LINGERING:
            self.dropped += len(data)
            if self.dropped > MOST_DRAINED:
                # Not closed yet: that would be a reset, and could cost the client the answer.
                self.transport.pause_reading()
        elif state is _ANSWERING:
            self.keeps = False
        elif state is _QUEUED:
            self._heads.received += data
            if len(self._heads.received) > _UNREAD:
                self.transport.pause_reading()

    # ---- The request ---------------------------------------------------------------------------------------------

    def _read_or_queue(self, data: bytes) -> None:
        """Continue reading a head now, or after the requests that came before."""
        request_queue = self.listener_state.request_queue
        if request_queue.take(self._loop):
            self._read_head(data)
            return
        if self._state is _RESTING:
            self._deadline.within(self.listener_state.limits.header_timeout)
        self._heads.received += data
        self._state = _QUEUED
        request_queue.wait(self._on_turn)

    def _on_turn(self) -> None:
        if self._state is _QUEUED:
            if len(self._heads.received) > _UNREAD:
                self.transport.resume_reading()
            self._state = _HEAD
            self._read_head(b"")

    def _read_head(self, data: bytes) -> None:
        try:
            session = self.tls_session
            found = self._heads.feed(data, self._peer, session.scheme, session.certificate)
        except Unreadable as error:
            self._refuse(error.status, error.words)
            return
        if found is not None:
            self._begin(*found)
        elif self._state is _RESTING:
            self._state = _HEAD
            self._deadline.within(self.listener_state.limits.header_timeout)

    def _begin(self, read: RequestHead, rest: bytes) -> None:
        listener_state = self.listener_state
        self.keeps = self.keeps and read.keeps and not listener_state.closing
        self._set_write_deadline()
        length = None if read.chunked else read.length
        whole = length is not None and len(rest) >= length
        if whole:
            if len(rest) > read.length:
                rest, self.keeps = rest[: read.length], False
            self._client = client = ClientResponder(self, read, length, whole=True, _body=rest)
            self._state = _ANSWERING
        else:
            self._client = client = ClientResponder(self, read, length, whole=False)
            self._state = _BODY
            self._incoming = IncomingBody(client, read, listener_state.limits.headers, self._loop.time())
            if rest:
                self._read_body(rest)
                if self._client is None:
                    return
            else:
                self._deadline.within(listener_state.limits.body_idle)
        task = self._loop.create_task(self._serve(read.head, client))
        listener_state.tasks.add(task)
        task.add_done_callback(listener_state.tasks.discard)

    async def _serve(self, head: Head, client: ClientResponder) -> None:
        try:
            await self.listener_state.serve(head, client)
        except Exception:
            logger.exception("a request could not be served")
            if not client.opened:
                await client.answer(500, [(b"content-type", b"text/plain; charset=utf-8")], b"internal error\n")
        finally:
            client.cut()

    def _read_body(self, data: bytes) -> None:
        client, incoming = self._client, self._incoming
        if client is None or incoming is None:
            return
        try:
            done = incoming.feed(data)
        except Unreadable as error:
            # The body is malformed: nothing was answered yet, and this is the only answer.
            self._client = None
            self._refuse(error.status, error.words)
            client.lost()
            return
        if incoming.excess:
            self.keeps = False
        if done:
            self._state = _ANSWERING
            self._incoming = None
            self._set_write_deadline()
            client.body_complete()
        elif client.unread > _UNREAD and not client.is_awaited:
            self.transport.pause_reading()
            # A body without a reader is not waited for.
            self._deadline.lift()
        elif incoming.is_slow(self._loop.time(), self.listener_state.limits.body_rate):
            client.give_up_body()
        else:
            self._deadline.within(self.listener_state.limits.body_idle)

    def reads(self) -> None:
        """Start measuring the body: a reader waits for it from now on."""
        if self._incoming is not None:
            self.transport.resume_reading()
            self._incoming.count_from(self._loop.time())
            self._deadline.within(self.listener_state.limits.body_idle)

    def send_continue(self) -> None:
        """Tell the client to send the body that it holds back (RFC 9110 §10.1.1)."""
        if self._state is _BODY:
            self._writes.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")

    def forget(self) -> None:
        """Drop the head that the next one is compared with, and other state for the next request."""
        self._heads.forget()
        if self._deadline.at == math.inf:
            self._deadline.stop()

    # ---- The answer ----------------------------------------------------------------------------------------------

    def begin_early_answer(self) -> None:
        """Begin an answer although the body is not whole; the rest of the body is dropped."""
        if self._state is _BODY:
            self._state = _ANSWERING
            self._early = True
            self.keeps = False
            self._incoming = None
            self._set_write_deadline()
            self.transport.resume_reading()

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes of an answer."""
        if self._state is _ANSWERING:
            self._writes.write(self.transport, data)

    async def drained(self) -> None:
        """Wait until the client has read, or is gone."""
        while self.paused and self._state is _ANSWERING:
            await self._backlog.moved(self._loop)

    def answered(self, *, keep: bool) -> None:
        """Note that the answer is complete.

        Args:
            keep: Whether the client was told that the connection lasts.
        """
        self._client = None
        if self._state is not _ANSWERING:
            return
        if self._early:
            self._linger()
        elif not keep or not self.keeps:
            self._close()
        else:
            self._state = _RESTING
            if self.paused:
                # Its next request is read only after it has read this answer, so that answers do not pile up.
                self.transport.pause_reading()
            else:
                self._rest()

    def cut(self, *, hard: bool = False) -> None:
        """Close without completing the answer: its end is missing, so the client sees that it is incomplete.

        Args:
            hard: Whether only a reset can tell, because the end of the connection is the end of the answer.
        """
        self._client = None
        if hard:
            self.abort()
        else:
            self._close()

    def shutdown(self) -> None:
        """Close after the current request, or now; called when the server stops."""
        self.keeps = False
        if self._state is _RESTING:
            self._close()

    def end(self) -> None:
        """Close now, after the written bytes."""
        self._close()
        self._on_client_gone()

    def abort(self) -> None:
        """Close now, and drop the written bytes."""
        self._state = _CLOSING
        self._deadline.lift()
        drop(self.transport)

    def _refuse(self, status: int, words: str, *, linger: bool = True) -> None:
        """Refuse an invalid request, in plain HTTP."""
        request_id = secrets.token_hex(8)
        self._writes.flush(self.transport)
        self.transport.write(error_response(status, words, request_id, self.listener_state.common_lines))
        self.listener_state.refused(self._peer, request_id, status, words)
        if linger:
            self._linger()
        else:
            self._close()

    def _linger(self) -> None:
        """Read some of the bytes that the client still sends: closing at once would cost it the unread answer."""
        self._state = _LINGERING
        self._heads.drop()
        self._incoming = None
        self.dropped = 0
        transport = self.transport
        self._writes.flush(transport)
        transport.resume_reading()
        self._deadline.within(self.listener_state.limits.write_stall if self.paused else DRAIN_TIME)
        if not end_writing(transport):
            self._close()

    def _close(self) -> None:
        if self._state is _CLOSING:
            return
        self._state = _CLOSING
        self._heads.drop()
        self._writes.flush(self.transport)
        self._backlog.has_moved(self.transport)
        # Over TLS the client has to send close_notify, too.
        self._deadline.within(self.listener_state.limits.write_stall)
        self.transport.close()

    # ---- Time ----------------------------------------------------------------------------------------------------

    def _set_write_deadline(self) -> None:
        """Wait only for the client to read the written bytes."""
        if self.paused:
            self._deadline.within(self.listener_state.limits.write_stall)
        else:
            self._deadline.lift()

    def _rest(self) -> None:
        """Wait for the next request."""
        patience = self.listener_state.limits.keep_alive
        self._deadline.within(min(_KEPT_FOR, patience) if self._heads.has_known_head else patience)

    def _late(self) -> None:
        state = self._state
        if self.paused or state is _CLOSING:
            # It may read, slowly.
            if self._backlog.has_moved(self.transport):
                self._deadline.within(self.listener_state.limits.write_stall)
            else:
                self.abort()
        elif state in (_HEAD, _QUEUED):
            self._refuse(408, "the headers took too long")
        elif state is _BODY and self._client is not None:
            self._client.give_up_body()
        elif state is _RESTING and self._heads.has_known_head and self.listener_state.limits.keep_alive > _KEPT_FOR:
            self._heads.forget()
            self._deadline.within(self.listener_state.limits.keep_alive - _KEPT_FOR)
        elif state is not _ANSWERING:
            self._close()
