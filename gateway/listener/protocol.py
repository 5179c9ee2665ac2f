"""The HTTP/1.1 server side of a client's connection, as an asyncio protocol that uvicorn's server runs.

    RESTING     no byte of a request is there            → HEAD, or closed after `keep_alive`
    HEAD        a part of a head is there                → BODY or ANSWERING, or refused after `header_timeout`
    BODY        the head is read, its body is coming     → ANSWERING, or refused for being slow
    ANSWERING   the request is whole, or its answer      → RESTING, LINGERING or closed
                began before it was
    LINGERING   answered before the request was whole    → closed after 2 s, or when the client is done; of what it
                                                           sends 1 MiB is read
    CLOSING     the last bytes are on their way          → gone, at the latest when the client reads nothing any more

Whatever the state, a client that reads nothing of what waits for it is cut after `write_stall`, and one that ends its
side of the connection has left. While an answer waits for its client, nothing more is read from it but in ANSWERING,
where what comes is dropped.

One request at a time: what a client sends behind a request before that is answered (pipelining) is not served, for it
would hide that the client has left; the connection ends with the answer, and the client asks again (RFC 9112 §9.3.2).
Fields behind a chunked body (trailers) are dropped: a credential there would count (safety H4).

Decision, 2026-11-20: not uvicorn's own httptools protocol, nor a subclass of it. It has no limits and no deadlines, and
its cycle is hard-coded in the callback that one would override; what was left of it was the cost. Heads are read by
`request` (one strict reading of bytes that are at hand), chunked bodies by `chunks`.
"""

import asyncio
import enum
import logging
import math
import secrets
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import cast

from gateway.a2a.call import Head
from gateway.listener.chunks import Chunks
from gateway.listener.edge import Edge, ServerState
from gateway.listener.request import Again, RequestHead, Unreadable, check_start, read_head
from gateway.listener.wire import ClientWire

logger = logging.getLogger("gateway.listener")

_DRAINED = 1024 * 1024
_DRAIN_TIME = 2.0
_UNREAD = 64 * 1024
"""Bytes of a body that are kept before somebody reads it."""
_RATE_FROM = 10.0
"""Seconds of a body after which its rate counts."""
_KEPT_HEAD = 2048
"""Bytes of the longest head that is kept to know the next one by."""
_KEPT_HEADERS = 32
"""Headers of one that is kept at most."""
_KEPT_FOR = 1.0
"""Seconds for which a head, and the credential in it, is kept while nothing comes."""
# On close(2): nothing is kept for the client, it is told by a reset.
_AT_ONCE = struct.pack("ii", 1, 0)


class _State(enum.Enum):
    RESTING = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWERING = enum.auto()
    LINGERING = enum.auto()
    CLOSING = enum.auto()


_RESTING, _HEAD, _BODY, _ANSWERING, _LINGERING, _CLOSING = _State


class ClientConnection(asyncio.Protocol):
    """One connection of a client.

    Args:
        edge: What it shares with others.
        peer: The client's address where the connection has been counted already.
    """

    __slots__ = (
        "_again", "_alarm", "_alarm_at", "_began", "_body_size", "_chunks", "_due", "_early", "_edge", "_entered",
        "_keeps", "_left", "_loop", "_paused", "_peer", "_received", "_scheme", "_state", "_unsent", "_waiters",
        "_wire", "server_state", "transport",
    )  # fmt: skip

    def __init__(
        self,
        edge: Edge,
        *,
        server_state: ServerState,
        peer: str | None = None,
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._edge = edge
        self._loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)  # until the connection is made
        self._peer = peer or ""
        self._entered = peer is not None
        self._scheme = "http"
        self._state = _RESTING
        self._received = bytearray()
        self._again: Again | None = None
        self._wire: ClientWire | None = None
        self._keeps = True
        # The body: bytes that its length still promises, or the reader of its chunks; whether it was never whole.
        self._left = 0
        self._chunks: Chunks | None = None
        self._early = False
        self._body_size = 0
        self._began = 0.0
        # One timer, seldom set: it looks at `_due` when it rings.
        self._due = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._paused = False
        self._unsent = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def made(self) -> bool:
        """Whether there is a connection; it will be told when that is lost."""
        return self.transport is not None

    # ---- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it where there are too many."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from asyncio's
        if transport.get_extra_info("sslcontext") is not None:
            self._scheme = "https"
        edge, limits = self._edge, self._edge.limits
        self.server_state.connections.add(self)
        self.transport.set_write_buffer_limits(high=limits.write_buffer)
        if not self._entered:
            peer = transport.get_extra_info("peername")
            self._peer = peer[0] if isinstance(peer, tuple) else ""
            self._entered = True
            if not edge.crowd.enter(self._peer):
                self._refuse(503, "there are too many connections", linger=False)
                return
        self._expect(limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell whoever is serving a request here."""
        self.server_state.connections.discard(self)
        self._edge.crowd.leave(self._peer)
        self._state = _CLOSING
        self._due = math.inf
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._again = None
        self._left_by_client()

    def eof_received(self) -> bool:
        """Whoever ends its side of the connection has left; what was written still goes out."""
        self._close()
        self._left_by_client()
        return False

    def _left_by_client(self) -> None:
        wire, self._wire = self._wire, None
        self._chunks = None
        self._wake()
        if wire is not None:
            wire.lost()

    def pause_writing(self) -> None:
        """The client reads slowly: whoever writes waits."""
        self._paused = True
        self._unsent = self.transport.get_write_buffer_size()
        if self._state is not _CLOSING:
            self._expect(self._edge.limits.write_stall)

    def resume_writing(self) -> None:
        """The client has read."""
        self._paused = False
        state = self._state
        if state is _ANSWERING:
            self._due = math.inf
        elif state is _RESTING:
            self.transport.resume_reading()
            self._rest()
        elif state is _LINGERING:
            self._expect(_DRAIN_TIME)
        self._wake()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; those behind one that is being answered are dropped."""
        state = self._state
        if state is _RESTING:
            # RFC 9112 §2.2: an empty line in front of a request is none of it.
            data = data.lstrip(b"\r\n") if data[:1] in b"\r\n" else data
            if data:
                self._read_head(data)
        elif state is _HEAD:
            self._read_head(data)
        elif state is _BODY:
            self._read_body(data)
        elif state is _LINGERING:
            self._body_size += len(data)
            if self._body_size > _DRAINED:
                # Not closed yet: that would be a reset, and could cost the client the answer.
                self.transport.pause_reading()
        elif state is _ANSWERING:
            self._keeps = False

    # ---- The request ---------------------------------------------------------------------------------------------

    def _read_head(self, data: bytes) -> None:
        bounds = self._edge.limits.bounds
        try:
            received = self._received
            checked = len(received)
            if checked:
                received += data
                end = received.find(b"\r\n\r\n", max(checked - 3, 0))
            else:
                end = data.find(b"\r\n\r\n")
            if end < 0:
                if not checked:
                    received += data
                    self._state = _HEAD
                    self._expect(self._edge.limits.header_timeout)
                check_start(received, bounds, checked)
                return
            if checked:
                data = bytes(received)
                received.clear()
            raw = data[: end + 4]
            again = self._again
            head = None if again is None else again.read(raw)
            if head is None:
                head = read_head(raw, self._peer, self._scheme, bounds)
                self._again = Again(raw, head) if end < _KEPT_HEAD and len(head.head.headers) <= _KEPT_HEADERS else None
        except Unreadable as error:
            self._refuse(error.status, error.words)
            return
        self._begin(head, data[end + 4 :])

    def _begin(self, read: RequestHead, rest: bytes) -> None:
        whole = read.length == 0 and not read.chunked
        edge = self._edge
        self._keeps = read.keeps and not edge.closing
        self._due = math.inf
        length = None if read.chunked else read.length
        self._wire = wire = ClientWire(self, read, length, whole=whole)
        if whole:
            self._state = _ANSWERING
            if rest:
                self._keeps = False
        else:
            self._state = _BODY
            self._left = read.length
            self._body_size = 0
            self._chunks = Chunks(wire, edge.limits.bounds.headers) if read.chunked else None
            self._began = self._loop.time()
            if rest:
                self._read_body(rest)
                if self._wire is None:
                    return
            else:
                self._expect(edge.limits.body_idle)
        task = self._loop.create_task(self._serve(read.head, wire))
        tasks = self.server_state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _serve(self, head: Head, wire: ClientWire) -> None:
        try:
            await self._edge.serve(head, wire)
        except Exception:
            logger.exception("a request could not be served")
            if not wire.opened:
                await wire.answer(500, [(b"content-type", b"text/plain; charset=utf-8")], b"internal error\n")
        finally:
            wire.abandoned()

    def _read_body(self, data: bytes) -> None:
        wire, chunks = self._wire, self._chunks
        if wire is None:
            return
        if chunks is None:
            if len(data) > self._left:
                data, self._keeps = data[: self._left], False
            self._left -= len(data)
            self._body_size += len(data)
            wire.feed(data)
            done = self._left == 0
        else:
            try:
                self._body_size += chunks.feed(data)
            except Unreadable as error:
                # A body that is no body: nothing was answered yet, and nothing will be but this.
                self._wire = None
                self._refuse(error.status, error.words)
                wire.lost()
                return
            done = chunks.done
            if chunks.excess:
                self._keeps = False
        if done:
            self._state = _ANSWERING
            self._chunks = None
            self._expect_nothing()
            wire.fed()
        elif wire.unread > _UNREAD and not wire.awaited:
            self.transport.pause_reading()
            # What nobody wants to read yet cannot come.
            self._due = math.inf
        else:
            self._body_went_on(wire)

    def _body_went_on(self, wire: ClientWire) -> None:
        limits = self._edge.limits
        taken = self._loop.time() - self._began
        if taken > _RATE_FROM and self._body_size < limits.body_rate * taken:
            wire.too_slow()
            return
        self._expect(limits.body_idle)

    def reads(self) -> None:
        """Somebody reads the body from now on."""
        if self._state is _BODY:
            self.transport.resume_reading()
            self._began = self._loop.time()
            self._body_size = 0
            self._expect(self._edge.limits.body_idle)

    def wants_body(self) -> None:
        """Have a client send the body that it holds back (RFC 9110 §10.1.1)."""
        if self._state is _BODY:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def forget(self) -> None:
        """Let go of the head that is kept to know the next one by."""
        self._again = None

    # ---- The answer ----------------------------------------------------------------------------------------------

    def answers_early(self) -> None:
        """An answer begins although the body is not whole; what still comes of that is dropped."""
        if self._state is _BODY:
            self._state = _ANSWERING
            self._early = True
            self._keeps = False
            self._chunks = None
            self._expect_nothing()
            self.transport.resume_reading()

    @property
    def keeps(self) -> bool:
        """Whether the connection may last beyond this answer."""
        return self._keeps

    @property
    def standing(self) -> bytes:
        """Header lines that every answer has."""
        known, lines = self._edge.date
        headers = self.server_state.default_headers
        if known is not headers:
            lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
            self._edge.date = (headers, lines)
        return lines

    @property
    def paused(self) -> bool:
        """Whether what was written waits for the client to read."""
        return self._paused

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes of an answer."""
        if self._state is _ANSWERING:
            self.transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has read, or is gone."""
        while self._paused and self._state is _ANSWERING:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def answered(self, *, keep: bool) -> None:
        """The answer is complete.

        Args:
            keep: Whether the client was told that the connection lasts.
        """
        self._wire = None
        self.server_state.total_requests += 1
        if self._state is not _ANSWERING:
            return
        if self._early:
            self._linger()
        elif not keep or not self._keeps:
            self._close()
        else:
            self._state = _RESTING
            if self._paused:
                # Its next request is read when it has read this answer, or answers would pile up.
                self.transport.pause_reading()
            else:
                self._rest()

    def cut(self, *, hard: bool = False) -> None:
        """Close without completing the answer: its end is missing, so the client cannot take it for whole.

        Args:
            hard: Whether only a reset can tell, because the end of the connection is the end of the answer.
        """
        self._wire = None
        if hard:
            self._abort()
        else:
            self._close()

    def shutdown(self) -> None:
        """End with the request that is on its way, or now; called when the server stops."""
        self._keeps = False
        if self._state is _RESTING:
            self._close()

    def end(self) -> None:
        """End now, with what was written."""
        self._close()
        self._left_by_client()

    def abort(self) -> None:
        """End now, and drop what was written."""
        self._abort()

    def _refuse(self, status: int, words: str, *, linger: bool = True) -> None:
        """Refuse what is no request, in plain HTTP."""
        request_id = secrets.token_hex(8)
        body = f"{words} (request {request_id})\n".encode()
        retry = b"retry-after: 1\r\n" if status == 503 else b""
        self.transport.write(
            b"HTTP/1.1 %d %b\r\n%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"x-request-id: %b\r\n%bconnection: close\r\n\r\n%b"
            % (
                status,
                HTTPStatus(status).phrase.encode("ascii"),
                self.standing,
                len(body),
                request_id.encode("ascii"),
                retry,
                body,
            )
        )
        self._edge.refused(self._peer, request_id, status, words)
        if linger:
            self._linger()
        else:
            self._close()

    def _linger(self) -> None:
        """Read a little of what the client is still sending, or closing would cost it the answer it has not read."""
        self._state = _LINGERING
        self._received.clear()
        self._chunks = None
        self._body_size = 0
        transport = self.transport
        transport.resume_reading()
        self._expect(self._edge.limits.write_stall if self._paused else _DRAIN_TIME)
        if transport.can_write_eof() and not transport.is_closing():
            try:
                transport.write_eof()
            except OSError:
                # It has reset the connection, and what it sent before is still unread.
                self._close()

    def _close(self) -> None:
        if self._state is _CLOSING:
            return
        self._state = _CLOSING
        self._received.clear()
        self._unsent = self.transport.get_write_buffer_size()
        # Over TLS the client has to say goodbye, too.
        self._expect(self._edge.limits.write_stall)
        self.transport.close()

    def _abort(self) -> None:
        self._state = _CLOSING
        self._due = math.inf
        at_hand = self.transport.get_extra_info("socket")
        if at_hand is not None and at_hand.fileno() >= 0:
            with suppress(OSError):
                at_hand.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        # CPython 3.11.2 cannot abort a TLS transport whose connection is gone.
        with suppress(AttributeError):
            self.transport.abort()

    # ---- Time ----------------------------------------------------------------------------------------------------

    def _expect(self, seconds: float) -> None:
        """Have `_late` called unless something is expected anew, or nothing any more, before that."""
        due = self._due = self._loop.time() + seconds
        if due < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = due
            self._alarm = self._loop.call_at(due, self._ring)

    def _expect_nothing(self) -> None:
        """Expect nothing of the client but that it reads what waits for it."""
        if self._paused:
            self._expect(self._edge.limits.write_stall)
        else:
            self._due = math.inf

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_at = math.inf
        if self._due is math.inf:
            return
        if self._loop.time() + 0.001 < self._due:
            self._alarm_at = self._due
            self._alarm = self._loop.call_at(self._due, self._ring)
            return
        self._due = math.inf
        self._late()

    def _rest(self) -> None:
        """Wait for the next request."""
        patience = self._edge.limits.keep_alive
        self._expect(patience if self._again is None else min(_KEPT_FOR, patience))

    def _late(self) -> None:
        state = self._state
        if self._paused or state is _CLOSING:
            unsent = self.transport.get_write_buffer_size()
            if 0 < unsent < self._unsent:
                # It reads, slowly.
                self._unsent = unsent
                self._expect(self._edge.limits.write_stall)
            else:
                self._abort()
        elif state is _HEAD:
            self._refuse(408, "the headers took too long")
        elif state is _BODY and self._wire is not None:
            self._wire.too_slow()
        elif state is _RESTING and self._again is not None and self._edge.limits.keep_alive > _KEPT_FOR:
            self._again = None
            self._expect(self._edge.limits.keep_alive - _KEPT_FOR)
        elif state is not _ANSWERING:
            self._close()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
