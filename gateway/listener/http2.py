"""The HTTP/2 side of a client's connection, as an asyncio protocol round h2; what it carries is calls of gRPC.

    GREETING    the client has not said what it says first      → OPEN, or closed after `deadline`
    OPEN        calls come and go                               → LEAVING or LINGERING
    LEAVING     no call is begun any more, and the client was   → LINGERING after the last call
                told (GOAWAY); those that come are refused, so
                that it makes them elsewhere
    LINGERING   the last word was said; what comes is dropped   → closed after 2 s, or when the client is done; of what
                                                                  it sends 1 MiB is read
    CLOSING     the last bytes are on their way                 → gone, at the latest when the client reads nothing more

A client that is to go elsewhere of its own accord is told so while it may still begin calls (RFC 9113 §6.8: the last
stream is one that no client has reached); those that it makes meanwhile are served.

Whatever breaks the rules of the connection ends it by a GOAWAY that says which; what breaks those of one call ends that
call. h2 knows the rules. What it does not bound is in `http2_frames` and `http2_allowance`; what it knows no way to do
is here: to go on with open calls after a GOAWAY, the gateway's or the client's.
"""

import asyncio
import enum
import logging
import math
import secrets
from typing import cast

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from gateway.a2a.call import Head
from gateway.listener.backlog import Backlog, drop, end_writing
from gateway.listener.deadline import Deadline
from gateway.listener.edge import Edge, ServerState
from gateway.listener.grpc_request import GrpcBounds
from gateway.listener.grpc_wire import GrpcWire
from gateway.listener.http2_frames import ANY_STREAM, Frame, FrameRefused, Frames, Kind, OtherProtocol, goaway
from gateway.listener.http2_session import Session
from gateway.listener.http2_turns import FrameTurns
from gateway.listener.introduction import introduced
from gateway.listener.request import refusal as plain_refusal

logger = logging.getLogger("gateway.listener")

PATIENCE = 20.0
"""Seconds that a client has to say that it is there."""

_DRAINED = 1024 * 1024
_DRAIN_TIME = 2.0
_UNREAD = 64 * 1024
_KEPT_FOR = 1.0
"""Seconds for which a head, and the credential in it, is kept while nothing comes."""
_TICK = 1.0


_State = enum.Enum("_State", "GREETING OPEN LEAVING LINGERING CLOSING")
_GREETING, _OPEN, _LEAVING, _LINGERING, _CLOSING = _State


class Http2Connection(asyncio.Protocol):
    """One connection of a client.

    Args:
        edge: What it shares with others.
        peer: The client's address where the connection has been counted already.
    """

    __slots__ = (
        "_backlog", "_bounds", "_deadline", "_drained", "_due", "_edge", "_entered", "_frames", "_heard", "_leaves",
        "_loop", "_moved", "_peer", "_pinged", "_rested", "_session", "_since", "_state", "_told", "_turns",
        "introduction", "server_state", "transport",
    )  # fmt: skip

    def __init__(
        self, edge: Edge, *, server_state: ServerState, bounds: GrpcBounds | None = None, peer: str | None = None
    ) -> None:
        self._edge = edge
        self._bounds = bounds or GrpcBounds()
        self._loop = asyncio.get_running_loop()
        self.server_state = server_state
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)  # until the connection is made
        self._peer = peer or ""
        self._entered = peer is not None
        self._state = _GREETING
        # A block twice as long as it may be is read, to refuse its call alone.
        self._frames = Frames(2 * self._bounds.metadata, self._loop.time)
        self._session = cast("Session", None)  # until the connection is made
        self._turns = FrameTurns(self._frames, edge.turns, self._loop, self._receive, self._go_on)
        self._drained = 0
        # Whether the client was told to go, and whether it has said that it goes.
        self._told = self._leaves = False
        self._since = self._heard = self._rested = self._moved = self._loop.time()
        self._pinged: float | None = None
        self._deadline = Deadline(self._loop, self._late)
        self._due = math.inf
        self._backlog = Backlog()

    @property
    def made(self) -> bool:
        """Whether there is a connection; it will be told when that is lost."""
        return self.transport is not None

    @property
    def _over(self) -> bool:
        """Whether nothing more is said."""
        return self._state is _LINGERING or self._state is _CLOSING

    # ---- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it where there are too many."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from asyncio's
        edge = self._edge
        self.server_state.connections.add(self)
        edge.farewells.add(self.wind_down)
        self.transport.set_write_buffer_limits(high=edge.limits.write_buffer)
        welcome = True
        if not self._entered:
            peer = transport.get_extra_info("peername")
            self._peer = peer[0] if isinstance(peer, tuple) else ""
            self._entered = True
            welcome = edge.crowd.enter(self._peer)
        met = self.introduction = introduced(transport, edge.tls)
        self._session = Session(self, self._bounds, self._peer, met, most_headers=edge.limits.header_count)
        self._expect(self._bounds.deadline)
        if not welcome:
            self.refused(503, "there are too many connections")
            self._say_goodbye(ErrorCodes.ENHANCE_YOUR_CALM)
        elif met.tls is not None and met.protocol != "h2":
            # RFC 9113 §3.2: over TLS it has to be agreed upon.
            self.refused(400, "no HTTP/2 was agreed upon")
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell whoever serves a call here."""
        self.server_state.connections.discard(self)
        self._edge.farewells.discard(self.wind_down)
        self._edge.crowd.leave(self._peer)
        self._state = _CLOSING
        self._deadline.close()
        self._turns.clear()
        self._session.close()

    def eof_received(self) -> bool:
        """Whoever ends its side of the connection has left; what was written still goes out."""
        self._close()
        self._session.close()
        return False

    def pause_writing(self) -> None:
        """The client reads slowly: whatever can wait does."""
        self._session.outflow.paused = True
        self._backlog.look(self.transport)
        self._moved = self._loop.time()
        self._expect(self._edge.limits.write_stall)

    def resume_writing(self) -> None:
        """The client has read."""
        outflow = self._session.outflow
        outflow.paused = False
        outflow.resumed = self._loop.time()
        if self._state is _LINGERING:
            self._since = outflow.resumed
            self._expect(_DRAIN_TIME)
        elif self._state is not _CLOSING:
            outflow.pump()
            self.watch()
        if not self._turns.waits:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Frames, or parts of some."""
        if self._state is _LINGERING:
            self._drained += len(data)
            if self._drained > _DRAINED:
                # Not closed yet: that would be a reset, and could cost the client the last word.
                self.transport.pause_reading()
        elif self._state is not _CLOSING:
            self._heard = self._loop.time()
            self._pinged = None
            self._frames.feed(data)
            if not self._turns.waits:
                self._advance()
            elif len(self._frames) > _UNREAD:
                self.transport.pause_reading()

    # ---- What comes ----------------------------------------------------------------------------------------------

    def _advance(self, *, granted: bool = False) -> None:
        """Read on, as far as there are turns.

        Args:
            granted: Whether the next frame has its turn.
        """
        try:
            self._turns.read(granted=granted)
        except OtherProtocol as error:
            self._answer_plainly(error.words)
        except FrameRefused as error:
            self.violated(error)
        except ProtocolError as error:
            logger.debug("a client broke the rules of HTTP/2: %s", error)
            self.refused(400, "the frames break the rules of HTTP/2")
            # The word for it has been written by h2, which says no more after it.
            self._linger()
            self._session.close()
        else:
            self._session.flush()
            if self._frames.block_since is not None:
                self._expect(self._bounds.deadline)

    def _go_on(self) -> None:
        """It is this connection's turn."""
        if not self._over:
            if not self._overfull:
                self.transport.resume_reading()
            self._advance(granted=True)

    def _receive(self, frame: Frame) -> bool:
        """Act on a frame; whether another may follow."""
        if self._state is _GREETING:
            self._state = _OPEN
            self._session.greet()
            self._expect(min(self._bounds.keepalive, self._bounds.idle))
        if frame.kind == Kind.GOAWAY and not frame.stream:
            # The client begins no more calls; h2 would give up those that are open.
            self._session.allowance.idle(self._heard)
            self._leaves = True
            if not self._session.open:
                self._linger()
        else:
            self._session.receive(frame, self._heard)
        return not self._over

    def serve(self, head: Head, wire: GrpcWire) -> None:
        """Begin to answer a call."""
        if self._edge.closing and not self._told:
            self.wind_down()
        self._expect(_KEPT_FOR)
        task = self._loop.create_task(self._answer(head, wire))
        tasks = self.server_state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _answer(self, head: Head, wire: GrpcWire) -> None:
        try:
            await self._edge.serve(head, wire)
        except Exception:
            logger.exception("a call could not be served")
            wire.fail("INTERNAL", "internal error")
        finally:
            wire.abandoned()

    def refused(self, status: int, words: str) -> str:
        """Have it logged that something came that is no call; gives the id by which it was."""
        request_id = secrets.token_hex(8)
        self._edge.refused(self._peer, request_id, status, words)
        return request_id

    def violated(self, error: FrameRefused) -> None:
        """End the connection of a client that breaks its rules, or does too much of something."""
        if not self._over:
            self.refused(429 if error.code is ErrorCodes.ENHANCE_YOUR_CALM else 400, error.words)
            self._say_goodbye(error.code)
            self._session.close()

    def _answer_plainly(self, words: str) -> None:
        """Answer what is no HTTP/2, for there is HTTP/1.1 on another port, and people mix them up."""
        request_id = secrets.token_hex(8)
        self._edge.refused(self._peer, request_id, 400, words)
        self.transport.write(plain_refusal(400, f"{words}, which gRPC needs", request_id, b""))
        self._linger()

    # ---- What goes -----------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Hand bytes to the system."""
        if self._over or self.transport.is_closing():
            return
        self.transport.write(data)
        if self._overfull:
            # It reads nothing, and each of its frames costs another answer.
            self.transport.pause_reading()

    @property
    def _overfull(self) -> bool:
        """Whether more waits for a client that reads nothing than may."""
        most = 4 * self._edge.limits.write_buffer
        return self._session.outflow.paused and self.transport.get_write_buffer_size() > most

    # ---- The end -------------------------------------------------------------------------------------------------

    def wind_down(self) -> None:
        """Have the client go elsewhere of its own accord; what it asks meanwhile is answered."""
        if self._state is _OPEN and not self._told and self._session.highest:
            self._told = True
            self._go_away(ErrorCodes.NO_ERROR, ANY_STREAM)

    def shutdown(self) -> None:
        """End with the last call that is open, or now; called when the server stops."""
        if self._state is _GREETING:
            self._close()
        elif self._state is _OPEN:
            self._leave()

    def end(self) -> None:
        """End now, with what was written."""
        self._session.cut_all()
        if self._state is _OPEN:
            self._go_away(ErrorCodes.NO_ERROR, self._session.highest)
        self._close()
        self._session.close()

    def abort(self) -> None:
        """End now, and drop what was written."""
        self._state = _CLOSING
        self._deadline.lift()
        drop(self.transport)

    def _leave(self) -> None:
        """Begin no more calls."""
        self._state = _LEAVING
        self._session.leaving = True
        self._go_away(ErrorCodes.NO_ERROR, self._session.highest)
        if not self._session.open:
            self._linger()

    def rest(self) -> None:
        """No call is left."""
        self._rested = self._loop.time()
        if self._state is _LEAVING or (self._leaves and self._state is _OPEN):
            self._linger()
        elif self._state is _OPEN:
            self._expect(self._bounds.idle)

    def _go_away(self, code: ErrorCodes, last: int) -> None:
        self._session.flush()
        self.send(goaway(last, code))

    def _say_goodbye(self, code: ErrorCodes) -> None:
        if self._state is _GREETING:
            # A server says that first, whatever it has to say.
            self._session.greet()
        self._go_away(code, self._session.highest)
        self._linger()

    def _linger(self) -> None:
        """Read a little of what the client is still sending, or closing would cost it what it has not read."""
        if self._over:
            return
        self._session.flush()
        self._state = _LINGERING
        self._turns.clear()
        self._since = self._loop.time()
        transport = self.transport
        transport.resume_reading()
        self._expect(_DRAIN_TIME)
        if not end_writing(transport):
            self._close()

    def _close(self) -> None:
        if self._state is _CLOSING:
            return
        self._session.flush()
        self._state = _CLOSING
        self._turns.clear()
        self._backlog.look(self.transport)
        # Over TLS the client has to say goodbye, too.
        self._moved = self._loop.time()
        self._expect(self._edge.limits.write_stall)
        self.transport.close()

    # ---- Time ----------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Look now and then, for the client owes something."""
        limits = self._edge.limits
        self._expect(min(_TICK, limits.write_stall / 2, limits.body_idle / 2))

    def _expect(self, seconds: float) -> None:
        """Look what the client owes after so long at the latest."""
        due = self._loop.time() + seconds
        if due < self._due:
            self._due = due
            self._deadline.within(seconds)

    def _late(self) -> None:
        self._due = math.inf
        now, state = self._loop.time(), self._state
        if state is _CLOSING or self._session.outflow.paused:
            self._look_at_reader(now)
        if self._state is not state:
            return
        if state is _GREETING:
            if self._passed(self._since + self._bounds.deadline, now):
                self._close()
        elif state is _LINGERING:
            if not self._session.outflow.paused and self._passed(self._since + _DRAIN_TIME, now):
                self._close()
        elif state is not _CLOSING:
            self._look(now)

    def _look_at_reader(self, now: float) -> None:
        """See whether a client that reads slowly reads at all."""
        stall = self._edge.limits.write_stall
        if self._passed(self._moved + stall, now):
            self._moved = now
            if self._backlog.look(self.transport):
                self._expect(stall)
            else:
                self.abort()

    def _look(self, now: float) -> None:
        """See what is owed on a connection that is open."""
        session, bounds = self._session, self._bounds
        since = self._frames.block_since
        if since is not None and self._passed(since + bounds.deadline, now):
            self.refused(408, "the headers took too long")
            self._say_goodbye(ErrorCodes.ENHANCE_YOUR_CALM)
            session.close()
            return
        if self._pinged is not None:
            if self._passed(self._pinged + PATIENCE, now):
                self.abort()
                return
        elif not session.outflow.paused and self._passed(self._heard + bounds.keepalive, now):
            self._pinged = now
            session.ping()
            self._expect(min(PATIENCE, bounds.keepalive))
        if not session.open and self._passed(self._rested + bounds.idle, now):
            self._leave()
            return
        if session.knows and self._passed(self._heard + _KEPT_FOR, now):
            session.forget()
        for wire in tuple(session.reading):
            wire.look(now, self._edge.limits)
        for stream in tuple(session.outflow.stalled(now, self._edge.limits.write_stall)):
            session.cut(stream)
        if session.reading or session.outflow.waits:
            self.watch()

    def _passed(self, due: float, now: float) -> bool:
        """Whether it is so late; if not, it is looked at again by then."""
        if now + 0.001 >= due:
            return True
        self._expect(due - now)
        return False
