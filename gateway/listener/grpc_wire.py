"""A client's side of one call over gRPC: its message on the way in, its answer on the way out.

    WAITING     nothing was answered                          → OPENED or OVER
    OPENED      the headers went out                          → OVER
    OVER        the status went out, or waits behind the      nothing that is written any more goes anywhere
                messages, or there is nobody to tell

A client that takes the call back (RST_STREAM), leaves, reads nothing, or has run out of its own time
(`grpc-timeout`) has left: the call is told at once. Only in the last case is the client told something, too.

An answer that broke off ends with a status of its own. No client takes it for whole: messages tell their length, and
the status says that there is more to ask for (gRPC over HTTP/2, Responses).
"""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from h2.errors import ErrorCodes

from gateway.a2a.bindings.grpc_status import CODES, Status
from gateway.a2a.bindings.grpc_status import trailers as status_trailers
from gateway.a2a.fault import BadRequest, BodyTooSlow, ClientGone
from gateway.a2a.headers import Pairs
from gateway.config.limit import Http
from gateway.listener.grpc_messages import Messages
from gateway.listener.grpc_request import CONTENT_TYPE

FULL = 64 * 1024
"""Bytes that may wait for one client before whoever writes more waits, too."""
WINDOW = 65_535
"""Bytes that a client may send of a call before somebody reads them (RFC 9113 §6.9.2)."""

_RATE_FROM = 10.0
"""Seconds of a message after which its rate counts."""
_OPENING = [(b":status", b"200"), CONTENT_TYPE]
_OK = (b"grpc-status", b"0")


class Connection(Protocol):
    """What a call asks of the connection that it came over; `stream` is the call's number there."""

    def head(self, stream: int, headers: Pairs, *, end: bool = False) -> None:
        """Send headers, in front of everything else.

        Args:
            end: Whether nothing follows them.

        Raises:
            ValueError: they are none that HTTP/2 can have; nothing was sent.
        """

    def data(self, stream: int, data: bytes) -> None:
        """Send bytes, or keep them until the client takes them."""

    def trailers(self, stream: int, headers: Pairs | None) -> None:
        """Send what stands behind everything else, or nothing but the end of the stream.

        Raises:
            ValueError: as `head`.
        """

    def flush(self) -> None:
        """Hand what was sent to the system."""

    def waiting(self, stream: int) -> int:
        """Bytes that wait for the client to take them."""

    async def drained(self, stream: int) -> None:
        """Wait until few of them are left, or nobody waits for them any more."""

    def reset(self, stream: int, code: ErrorCodes) -> None:
        """Break off."""

    def reads(self, wire: "GrpcWire") -> None:
        """Somebody waits for more of the request."""

    def rests(self, wire: "GrpcWire") -> None:
        """Nobody does any more."""

    def grant(self, stream: int, size: int) -> None:
        """Let the client send more of the request."""

    def expired(self, wire: "GrpcWire") -> None:
        """The client has given up waiting."""


class GrpcWire:
    """One call of a client.

    Args:
        stream: Its number on the connection.
        whole: Whether nothing comes behind its headers.
        now: Monotonic seconds.

    Attributes:
        opened: Whether headers have gone out.
        extra: Headers that the answer has beside its own.
        since: When it was made.
        whole: Whether the request has come whole.
    """

    __slots__ = (
        "_alarm", "_began", "_connection", "_gone", "_heard", "_limit", "_lost", "_messages", "_needed", "_over",
        "_received", "_room", "_slow", "_waiter", "extra", "opened", "since", "stream", "whole",
    )  # fmt: skip

    def __init__(self, connection: Connection, stream: int, *, whole: bool, now: float) -> None:
        self._connection = connection
        self.stream = stream
        self.since = now
        self.whole = whole
        self._messages = Messages()
        self._waiter: asyncio.Future[None] | None = None
        self._needed: float = math.inf
        self._limit = 0
        # What the client may still send, and how fast what it sends has come since somebody reads it.
        self._room = WINDOW
        self._began = self._heard = now
        self._received = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._gone: Callable[[], None] | None = None
        self._lost = self._slow = self._over = False
        self.opened = False
        self.extra: Pairs = []

    # ---- What the line asks for (`gateway.wire.Wire`) ------------------------------------------------------------

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete, or has left."""
        if self._lost:
            callback()
        else:
            self._gone = callback

    async def read(self, limit: int) -> bytes:
        """The only message of the request.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes; none of these was read.
            EncodedBody: it is compressed.
            BadRequest: there is none, or another one behind it.
            BodyTooSlow: the client stopped sending, or sends a drip.
            ClientGone: the client left before its end.
        """
        message = await self.next(limit)
        if message is None:
            raise BadRequest("the call has no message")
        if not self.whole or self._messages:
            await self._arrived(1)
        if self._messages:
            raise BadRequest("the call has more than one message")
        return message

    async def next(self, limit: int) -> bytes | None:
        """The next of several messages, or None behind the last.

        Raises:
            BadRequest: the request ended within one.
            BodyTooLarge, EncodedBody, BodyTooSlow, ClientGone: as `read`.
        """
        self._limit = limit
        messages = self._messages
        needed = 0
        while len(messages) < (needed := messages.needed(limit)):
            if not await self._arrived(needed):
                if messages:
                    raise BadRequest("the request ends within a message")
                return None
        return messages.take(needed)

    async def _arrived(self, needed: int) -> bool:
        """Wait for so many bytes; False where the request ends before."""
        if len(self._messages) >= needed:
            return True
        if not self.whole:
            await self._come(needed)
        if self._lost:
            raise ClientGone("the client left")
        if self._slow:
            raise BodyTooSlow("the message came too slowly")
        return len(self._messages) >= needed

    async def _come(self, needed: int) -> None:
        if self._lost or self._slow:
            return
        loop = asyncio.get_running_loop()
        self._needed = needed
        self._began = self._heard = loop.time()
        self._received = 0
        self._grant()
        self._waiter = loop.create_future()
        self._connection.reads(self)
        try:
            await self._waiter
        finally:
            self._connection.rests(self)
            self._waiter = None
            self._needed = math.inf

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """A whole answer: framed messages and the status that all is well, or a status alone where `headers` has one.

        Args:
            status: 200, or any other for a client that speaks no gRPC.
        """
        if self._over:
            return
        connection, stream = self._connection, self.stream
        if status != 200:
            pairs = [(b":status", b"%d" % status), *headers, *self.extra]
            connection.head(stream, pairs, end=not body)
            trailers = None
        else:
            front, behind = self._parted(headers)
            alone = not body and bool(behind)
            connection.head(stream, [*front, *behind] if alone else front, end=alone)
            trailers = _ended(behind)
            if alone:
                body, trailers = b"", None
        self.opened = True
        self._end()
        if body:
            connection.data(stream, body)
        if body or trailers is not None:
            connection.trailers(stream, trailers)
        connection.flush()
        await self._sent()

    async def _sent(self) -> None:
        """Wait until the client has taken most of the answer, or left."""
        try:
            if self._connection.waiting(self.stream) > FULL:
                await self._connection.drained(self.stream)
        finally:
            self._gone = None

    def open(self, status: int, headers: Pairs) -> None:
        """The headers of an answer whose messages follow by `write`."""
        if self._over:
            return
        if status == 200:
            front, _ = self._parted(headers)
        else:
            front = [(b":status", b"%d" % status), *headers, *self.extra]
        self._connection.head(self.stream, front)
        self.opened = True
        self._connection.flush()

    async def write(self, data: bytes) -> None:
        """Framed messages; waits while the client takes nothing."""
        if self._connection.waiting(self.stream) > FULL:
            await self._connection.drained(self.stream)
        self.write_nowait(data)

    def write_nowait(self, data: bytes) -> bool:
        """Framed messages, whether the client takes them or not; False where no more should be written by now."""
        connection = self._connection
        if not self._over and data:
            connection.data(self.stream, data)
            connection.flush()
        return connection.waiting(self.stream) <= FULL

    async def drained(self) -> None:
        """Wait until the client has taken most of what was written."""
        if self._connection.waiting(self.stream) > FULL:
            await self._connection.drained(self.stream)

    async def close(self, trailers: Pairs | None = None) -> None:
        """The end: with the status that stands in `trailers`, or well where there is none."""
        if self._over:
            return
        self._finish(_ended(trailers or []))
        await self._sent()

    def fail(self, code: str, words: str) -> None:
        """The end, with a status of gRPC by its name, whatever went before."""
        if self._over:
            return
        pairs = status_trailers(Status(CODES[code], words))
        if self.opened:
            self._finish(pairs)
            return
        self._connection.head(self.stream, [*_OPENING, *self.extra, *pairs], end=True)
        self.opened = True
        self._end()
        self._connection.flush()

    def cut(self) -> None:
        """The end of what broke off."""
        self.fail("UNAVAILABLE", "the answer broke off")
        self._gone = None

    # ---- What the connection tells -------------------------------------------------------------------------------

    def feed(self, data: bytes, size: int, now: float) -> None:
        """Bytes of messages.

        Args:
            size: With their padding.
        """
        self._room -= size
        if self._over:
            return
        self._messages.feed(data)
        self._heard = now
        self._received += len(data)
        if self._waiter is None:
            return
        if len(self._messages) >= self._needed:
            self._wake()
        else:
            self._grant()

    def _grant(self) -> None:
        """See that the client may send what is waited for, and some more."""
        missing = int(self._needed) - len(self._messages)
        if missing > self._room and not self.whole:
            size = max(missing - self._room, WINDOW // 2)
            self._room += size
            self._connection.grant(self.stream, size)

    def fed(self) -> None:
        """The request is whole."""
        self.whole = True
        self._wake()

    def look(self, now: float, limits: Http) -> None:
        """See whether the client sends as fast as it should, while somebody waits for it."""
        taken = now - self._began
        drips = taken > _RATE_FROM and self._received < limits.body_rate * taken
        if now - self._heard >= limits.body_idle or drips:
            self._slow = True
            self._wake()

    def ends_after(self, seconds: float) -> None:
        """The client waits for so long, and no longer."""
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._late)

    def _late(self) -> None:
        self._alarm = None
        if not self._over:
            if self._connection.waiting(self.stream):
                # The status would stand behind what the client does not take.
                self._connection.reset(self.stream, ErrorCodes.CANCEL)
            else:
                self.fail("DEADLINE_EXCEEDED", "the deadline of the call has passed")
            self.lost()
            self._connection.expired(self)

    def lost(self) -> None:
        """The client takes no answer any more."""
        if self._lost:
            return
        self._lost = True
        self._end()
        self._wake()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def abandoned(self) -> None:
        """Nobody serves the call any more; an answer that is not complete never will be."""
        self.cut()

    # ---- The answer ----------------------------------------------------------------------------------------------

    def _parted(self, headers: Pairs) -> tuple[Pairs, Pairs]:
        """What stands in front of the messages, and what behind them."""
        front, behind = _OPENING.copy(), []
        for pair in headers:
            name = pair[0]
            if name[:5] == b"grpc-":
                behind.append(pair)
            elif name != b"content-type":
                front.append(pair)
        front += self.extra
        return front, behind

    def _finish(self, trailers: Pairs) -> None:
        self._end()
        self._connection.trailers(self.stream, trailers)
        self._connection.flush()

    def _end(self) -> None:
        """Nothing more is written, nor read."""
        self._over = True
        self._messages.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _ended(trailers: Pairs) -> Pairs:
    """Trailers with a status."""
    return trailers if any(name == b"grpc-status" for name, _ in trailers) else [*trailers, _OK]
