"""The HTTP/1.1 server side of a client's connection, as an asyncio protocol that uvicorn's server runs.

    RESTING     no byte of a request is there            → QUEUED, HEAD, or closed after `keep_alive`
    QUEUED      bytes are there, and others come first   → HEAD (`turn`)
    HEAD        a part of a head is there                → BODY or ANSWERING, or refused after `header_timeout`
    BODY        the head is read, its body is coming     → ANSWERING, or refused for being slow
    ANSWERING   the request is whole, or its answer      → RESTING, LINGERING or closed
                began before it was
    LINGERING   answered before the request was whole    → closed after 2 s, or when the client is done; of what it
                                                           sends 16 MiB is read
    CLOSING     the last bytes are on their way          → gone, at the latest when the client reads nothing any more

Whatever the state, a client that reads nothing of what waits for it is cut after `write_stall`, and one that ends its
side of the connection has left. While an answer waits for its client, nothing more is read from it but in ANSWERING,
where what comes is dropped.

One request at a time: what a client sends behind a request before that is answered (pipelining) is not served, for it
would hide that the client has left; the connection ends with the answer, and the client asks again (RFC 9112 §9.3.2).
Fields behind a chunked body (trailers) are dropped: a credential there would count (safety H4).

Decision, 2026-11-20: not uvicorn's own httptools protocol, nor a subclass of it. It has no limits and no deadlines, and
its cycle is hard-coded in the callback that one would override; what was left of it was the cost. Heads are read by
`request` (one strict reading of bytes that are at hand), bodies that come later by `incoming`.
"""

import asyncio
import enum
import logging
import secrets
from typing import cast

from gateway.a2a.call import Head
from gateway.listener.backlog import Backlog, drop, end_writing
from gateway.listener.deadline import Deadline
from gateway.listener.edge import Edge, ServerState
from gateway.listener.incoming import IncomingBody, IncomingHeads
from gateway.listener.introduction import UNMET, introduced
from gateway.listener.request import RequestHead, Unreadable, refusal
from gateway.listener.wire import ClientWire

logger = logging.getLogger("gateway.listener")

_DRAINED = 16 * 1024 * 1024
"""Bytes behind a refusal that are read and dropped: who sends all before it reads loses the answer otherwise."""
_DRAIN_TIME = 2.0
_UNREAD = 64 * 1024
"""Bytes of a body that are kept before somebody reads it."""
_PIECE = 16 * 1024  # of a stream, written at once (`stream.py`): the buffer is full with it, not behind it
_KEPT_FOR = 1.0
"""Seconds for which a head, and the credential in it, is kept while nothing comes."""


_State = enum.Enum("_State", "RESTING QUEUED HEAD BODY ANSWERING LINGERING CLOSING")
_RESTING, _QUEUED, _HEAD, _BODY, _ANSWERING, _LINGERING, _CLOSING = _State


class ClientConnection(asyncio.Protocol):
    """One connection of a client.

    Args:
        edge: What it shares with others.
        peer: The client's address where the connection has been counted already.

    Attributes:
        introduction: How it began.
        keeps: Whether the connection may last beyond this answer.
        paused: Whether what was written waits for the client to read.
    """

    __slots__ = (
        "_backlog", "_deadline", "_drained", "_early", "_edge", "_entered", "_heads", "_incoming", "_loop", "_peer",
        "_state", "_wire", "introduction", "keeps", "paused", "server_state", "transport",
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
        self.introduction = UNMET
        self._state = _RESTING
        self._heads = IncomingHeads(edge.limits)
        self._wire: ClientWire | None = None
        self.keeps = True
        # The body while it comes, and whether it was answered before it was whole.
        self._incoming: IncomingBody | None = None
        self._early = False
        self._drained = 0
        self._deadline = Deadline(self._loop, self._late)
        self.paused = False
        self._backlog = Backlog()

    @property
    def made(self) -> bool:
        """Whether there is a connection; it will be told when that is lost."""
        return self.transport is not None

    # ---- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it where there are too many."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from asyncio's
        edge, limits = self._edge, self._edge.limits
        self.introduction = introduced(transport, edge.tls)
        self.server_state.connections.add(self)
        self.transport.set_write_buffer_limits(high=max(limits.write_buffer - _PIECE, limits.write_buffer // 2))
        if not self._entered:
            peer = transport.get_extra_info("peername")
            self._peer = peer[0] if isinstance(peer, tuple) else ""
            self._entered = True
            if not edge.crowd.enter(self._peer):
                self._refuse(503, "there are too many connections", linger=False)
                return
        self._deadline.within(limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell whoever is serving a request here."""
        self.server_state.connections.discard(self)
        self._edge.crowd.leave(self._peer)
        self._state = _CLOSING
        self._deadline.close()
        self._heads.drop()
        self._left_by_client()

    def eof_received(self) -> bool:
        """Whoever ends its side of the connection has left; what was written still goes out."""
        self._close()
        self._left_by_client()
        return False

    def _left_by_client(self) -> None:
        wire, self._wire = self._wire, None
        self._incoming = None
        self._backlog.wake()
        if wire is not None:
            wire.lost()

    def pause_writing(self) -> None:
        """The client reads slowly: whoever writes waits."""
        self.paused = True
        self._backlog.look(self.transport)
        if self._state is not _CLOSING:
            self._deadline.within(self._edge.limits.write_stall)

    def resume_writing(self) -> None:
        """The client has read."""
        self.paused = False
        state = self._state
        if state is _ANSWERING:
            self._deadline.lift()
        elif state is _RESTING:
            self.transport.resume_reading()
            self._rest()
        elif state is _LINGERING:
            self._deadline.within(_DRAIN_TIME)
        self._backlog.wake()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; those behind one that is being answered are dropped."""
        state = self._state
        if state is _RESTING:
            # RFC 9112 §2.2: an empty line in front of a request is none of it.
            data = data.lstrip(b"\r\n") if data[:1] in b"\r\n" else data
            if data:
                self._hear(data)
        elif state is _HEAD:
            self._hear(data)
        elif state is _BODY:
            self._read_body(data)
        elif state is _LINGERING:
            self._drained += len(data)
            if self._drained > _DRAINED:
                # Not closed yet: that would be a reset, and could cost the client the answer.
                self.transport.pause_reading()
        elif state is _ANSWERING:
            self.keeps = False
        elif state is _QUEUED:
            self._heads.received += data
            if len(self._heads.received) > _UNREAD:
                self.transport.pause_reading()

    # ---- The request ---------------------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        """Read on in a head now, or when those that came before have been heard."""
        turns = self._edge.turns
        if turns.take(self._loop):
            self._read_head(data)
            return
        if self._state is _RESTING:
            self._deadline.within(self._edge.limits.header_timeout)
        self._heads.received += data
        self._state = _QUEUED
        turns.wait(self._heard)

    def _heard(self) -> None:
        if self._state is _QUEUED:
            if len(self._heads.received) > _UNREAD:
                self.transport.resume_reading()
            self._state = _HEAD
            self._read_head(b"")

    def _read_head(self, data: bytes) -> None:
        try:
            found = self._heads.feed(data, self._peer, self.introduction)
        except Unreadable as error:
            self._refuse(error.status, error.words)
            return
        if found is not None:
            self._begin(*found)
        elif self._state is _RESTING:
            self._state = _HEAD
            self._deadline.within(self._edge.limits.header_timeout)

    def _begin(self, read: RequestHead, rest: bytes) -> None:
        edge = self._edge
        self.keeps = self.keeps and read.keeps and not edge.closing
        self._deadline.lift()
        length = None if read.chunked else read.length
        whole = length is not None and len(rest) >= length
        if whole:
            if len(rest) > read.length:
                rest, self.keeps = rest[: read.length], False
            self._wire = wire = ClientWire(self, read, length, whole=True, body=rest)
            self._state = _ANSWERING
        else:
            self._wire = wire = ClientWire(self, read, length, whole=False)
            self._state = _BODY
            self._incoming = IncomingBody(wire, read, edge.limits.headers, self._loop.time())
            if rest:
                self._read_body(rest)
                if self._wire is None:
                    return
            else:
                self._deadline.within(edge.limits.body_idle)
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
        wire, incoming = self._wire, self._incoming
        if wire is None or incoming is None:
            return
        try:
            done = incoming.feed(data)
        except Unreadable as error:
            # A body that is no body: nothing was answered yet, and nothing will be but this.
            self._wire = None
            self._refuse(error.status, error.words)
            wire.lost()
            return
        if incoming.excess:
            self.keeps = False
        if done:
            self._state = _ANSWERING
            self._incoming = None
            self._expect_nothing()
            wire.fed()
        elif wire.unread > _UNREAD and not wire.awaited:
            self.transport.pause_reading()
            # What nobody wants to read yet cannot come.
            self._deadline.lift()
        elif incoming.is_slow(self._loop.time(), self._edge.limits.body_rate):
            wire.too_slow()
        else:
            self._deadline.within(self._edge.limits.body_idle)

    def reads(self) -> None:
        """Somebody reads the body from now on."""
        if self._incoming is not None:
            self.transport.resume_reading()
            self._incoming.count_from(self._loop.time())
            self._deadline.within(self._edge.limits.body_idle)

    def wants_body(self) -> None:
        """Have a client send the body that it holds back (RFC 9110 §10.1.1)."""
        if self._state is _BODY:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def forget(self) -> None:
        """Let go of the head that is kept to know the next one by, and of what else waits for the next request."""
        self._heads.forget()
        self._deadline.rest()

    # ---- The answer ----------------------------------------------------------------------------------------------

    def answers_early(self) -> None:
        """An answer begins although the body is not whole; what still comes of that is dropped."""
        if self._state is _BODY:
            self._state = _ANSWERING
            self._early = True
            self.keeps = False
            self._incoming = None
            self._expect_nothing()
            self.transport.resume_reading()

    def opening(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        """How an answer begins: the status line, the headers that every answer has, and these."""
        return self._edge.opening(self.server_state.default_headers, status, headers)

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes of an answer."""
        if self._state is _ANSWERING:
            self.transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has read, or is gone."""
        while self.paused and self._state is _ANSWERING:
            await self._backlog.moved(self._loop)

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
        elif not keep or not self.keeps:
            self._close()
        else:
            self._state = _RESTING
            if self.paused:
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
            self.abort()
        else:
            self._close()

    def shutdown(self) -> None:
        """End with the request that is on its way, or now; called when the server stops."""
        self.keeps = False
        if self._state is _RESTING:
            self._close()

    def end(self) -> None:
        """End now, with what was written."""
        self._close()
        self._left_by_client()

    def abort(self) -> None:
        """End now, and drop what was written."""
        self._state = _CLOSING
        self._deadline.lift()
        drop(self.transport)

    def _refuse(self, status: int, words: str, *, linger: bool = True) -> None:
        """Refuse what is no request, in plain HTTP."""
        request_id = secrets.token_hex(8)
        standing = self._edge.standing(self.server_state.default_headers)
        self.transport.write(refusal(status, words, request_id, standing))
        self._edge.refused(self._peer, request_id, status, words)
        if linger:
            self._linger()
        else:
            self._close()

    def _linger(self) -> None:
        """Read a little of what the client is still sending, or closing would cost it the answer it has not read."""
        self._state = _LINGERING
        self._heads.drop()
        self._incoming = None
        self._drained = 0
        transport = self.transport
        transport.resume_reading()
        self._deadline.within(self._edge.limits.write_stall if self.paused else _DRAIN_TIME)
        if not end_writing(transport):
            self._close()

    def _close(self) -> None:
        if self._state is _CLOSING:
            return
        self._state = _CLOSING
        self._heads.drop()
        self._backlog.look(self.transport)
        # Over TLS the client has to say goodbye, too.
        self._deadline.within(self._edge.limits.write_stall)
        self.transport.close()

    # ---- Time ----------------------------------------------------------------------------------------------------

    def _expect_nothing(self) -> None:
        """Expect nothing of the client but that it reads what waits for it."""
        if self.paused:
            self._deadline.within(self._edge.limits.write_stall)
        else:
            self._deadline.lift()

    def _rest(self) -> None:
        """Wait for the next request."""
        patience = self._edge.limits.keep_alive
        self._deadline.within(min(_KEPT_FOR, patience) if self._heads.knows else patience)

    def _late(self) -> None:
        state = self._state
        if self.paused or state is _CLOSING:
            # It may read, slowly.
            if self._backlog.look(self.transport):
                self._deadline.within(self._edge.limits.write_stall)
            else:
                self.abort()
        elif state in (_HEAD, _QUEUED):
            self._refuse(408, "the headers took too long")
        elif state is _BODY and self._wire is not None:
            self._wire.too_slow()
        elif state is _RESTING and self._heads.knows and self._edge.limits.keep_alive > _KEPT_FOR:
            self._heads.forget()
            self._deadline.within(self._edge.limits.keep_alive - _KEPT_FOR)
        elif state is not _ANSWERING:
            self._close()
