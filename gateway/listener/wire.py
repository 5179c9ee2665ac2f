"""A client's side of one exchange: the body of its request, and its answer on the way out."""

import asyncio
import math
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

from gateway.a2a.fault import BodyTooLarge, BodyTooSlow, ClientGone
from gateway.a2a.headers import Pairs
from gateway.listener.request import RequestHead

_SLICE = 64 * 1024
"""Bytes that are written at once."""
_SHORT = 64 * 1024
"""Bytes of a body that an answer waits for; as many are kept unread."""
_MOMENT = 0.25
"""Seconds for which it does."""
_PHRASES = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}
# An agent may answer with any of them; one that has no name has none here either (RFC 9112 §4).
_STATUS = {status: b"HTTP/1.1 %d %b\r\n" % (status, _PHRASES.get(status, b"")) for status in range(100, 600)}
_BODILESS = (204, 304)


def status_line(status: int) -> bytes:
    """The first line of an answer."""
    return _STATUS[status]


def header_lines(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The lines of headers that were decided on here, or passed on.

    Raises:
        ValueError: one holds what would end a line, or the head, in its middle; only a fault of the gateway's own can
            bring that about.
    """
    head = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if head.count(b"\n") != len(headers) or head.count(b"\r") != len(headers) or b"\0" in head:
        raise ValueError("a header of the answer holds a line end")
    return head


class Connection(Protocol):
    """What an exchange asks of the connection that it came over."""

    @property
    def keeps(self) -> bool:
        """Whether the connection may last beyond this answer; free, as is the next."""

    def opening(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        """How an answer begins: the status line, the header lines that every answer has, and these.

        Raises:
            ValueError: as `header_lines`.
        """

    @property
    def paused(self) -> bool:
        """Whether what was written waits for the client to read."""

    def reads(self) -> None:
        """Somebody reads the body from now on."""

    def wants_body(self) -> None:
        """Have the client send the body that it holds back."""

    def forget(self) -> None:
        """Let go of what is kept for the next request: this one lasts."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""

    async def drained(self) -> None:
        """Wait until the client has read."""

    def answers_early(self) -> None:
        """An answer begins although the body is not whole."""

    def answered(self, *, keep: bool) -> None:
        """The answer is complete."""

    def cut(self, *, hard: bool = False) -> None:
        """Close without completing the answer."""


class ClientWire:
    """One exchange with a client.

    Attributes:
        opened: Whether the head of an answer has gone out.
        extra: Headers that the answer has beside its own.
        unread: Bytes of the body that have come and were not read.
    """

    __slots__ = (
        "_bodiless", "_body", "_chunked", "_connection", "_dated", "_expects", "_gone", "_keep", "_length", "_limit",
        "_lost", "_slow", "_torn", "_waiter", "_whole", "extra", "opened", "unread",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, read: RequestHead, length: int | None, *, whole: bool, body: bytes = b""
    ) -> None:
        self._connection = connection
        self._dated = read.dated
        self._bodiless = read.head.method == "HEAD"
        self._expects = read.expects
        self._length = length
        self._whole = whole
        self._body: bytes | bytearray = body
        self._limit: float = math.inf
        self._waiter: asyncio.Future[None] | None = None
        self._gone: Callable[[], None] | None = None
        self._lost = self._slow = False
        self._chunked = self._torn = False
        self._keep = False
        self.unread = len(body)
        self.opened = False
        self.extra: Pairs = []

    # ---- What the line asks for (`relay.Wire`) -------------------------------------------------------------------

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete, or has left."""
        if self._lost:
            callback()
        else:
            self._gone = callback

    async def read(self, limit: int) -> bytes:
        """The whole request body.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes; not much more than that was read.
            BodyTooSlow: the client stopped sending, or sends a drip.
            ClientGone: the client left before its end.
        """
        if not self._whole:
            if self._length is not None and self._length > limit:
                raise BodyTooLarge(f"the body exceeds {limit} bytes")
            await self._arrived(limit)
        if self.unread > limit:
            raise BodyTooLarge(f"the body exceeds {limit} bytes")
        body, self._body = self._body, b""
        self.unread = 0
        return bytes(body)

    async def _arrived(self, limit: int) -> None:
        self._limit = limit
        self._connection.reads()
        if self._expects:
            self._expects = False
            self._connection.wants_body()
        while not self._whole and self.unread <= limit:
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
        """A whole answer; the connection ends with it if the request has not come whole."""
        if not self._whole and not self._expects and self._length is not None and self._length <= _SHORT:
            await self._come()
        connection = self._connection
        head = self._head(status, headers, None if status in _BODILESS else len(body))
        if self._bodiless or status in _BODILESS:
            body = b""
        if len(body) <= _SLICE:
            connection.write(head + body)
        else:
            connection.write(head)
            await self._send(body)
        self._end()

    async def _come(self) -> None:
        """Give a short body that is on its way a moment to arrive.

        Many clients send it right behind the head, in a packet of its own. A refusal in between would cost them the
        connection, and its headers would tell how fast the packets came.
        """
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(_MOMENT, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def open(self, status: int, headers: Pairs) -> None:
        """The head of an answer that follows piece by piece."""
        # HTTP/1.0 knows no chunks: the end of the connection is the end of the answer (RFC 9112 §6.3).
        self._chunked = not self._dated and not self._bodiless
        head = self._head(status, headers, -1)
        self._connection.write(head)
        self._connection.forget()

    async def write(self, data: bytes) -> None:
        """One piece; waits while the client's side of the connection is full."""
        if self._bodiless or not data:
            return
        if self._torn:
            self.cut()
            return
        connection = self._connection
        if connection.paused:
            await connection.drained()
        if len(data) <= _SLICE:
            connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
            return
        if self._chunked:
            connection.write(b"%x\r\n" % len(data))
        await self._send(data)
        if self._chunked:
            connection.write(b"\r\n")

    def write_nowait(self, data: bytes) -> bool:
        """One piece, whether the client reads or not; False where no more should be written until `drained`."""
        connection = self._connection
        if self._torn:
            self.cut()
        elif not self._bodiless and data:
            connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        return not connection.paused

    async def drained(self) -> None:
        """Wait until the client has read most of what was written."""
        if self._connection.paused:
            await self._connection.drained()

    async def close(self, trailers: Pairs | None = None) -> None:  # noqa: ARG002 - this binding has none
        """The clean end."""
        if self._torn:
            self.cut()
            return
        if self._chunked:
            self._connection.write(b"0\r\n\r\n")
        self._end()

    def cut(self) -> None:
        """The end of the connection, without the clean end of the answer."""
        if not self._lost:
            self._lost = True
            self._connection.cut(hard=self.opened and not self._chunked)

    # ---- What the connection tells -------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Bytes of the body."""
        # Pieces of a few bytes, kept as they come, would take twenty times their size.
        if not self._body:
            self._body = data
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        self.unread += len(data)
        if self.unread > self._limit:
            self._wake()

    @property
    def awaited(self) -> bool:
        """Whether somebody reads the body, and wants more of it."""
        return self.unread <= self._limit < math.inf

    def fed(self) -> None:
        """The body is whole."""
        self._whole = True
        self._wake()

    def too_slow(self) -> None:
        """The body stays out."""
        self._slow = True
        self._wake()

    def lost(self) -> None:
        """The connection is gone."""
        if self._lost:
            return
        self._lost = True
        self._connection = _NOBODY
        self._wake()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def abandoned(self) -> None:
        """Nobody serves the request any more; an answer that is not complete never will be."""
        if self._connection is not _NOBODY:
            self.cut()

    # ---- The bytes of an answer ----------------------------------------------------------------------------------

    def _head(self, status: int, headers: Pairs, length: int | None) -> bytes:
        connection = self._connection
        if not self._whole:
            connection.answers_early()
        self._keep = keep = connection.keeps
        if length is not None and length >= 0:
            framing = b"content-length: %d\r\n" % length
        else:
            framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        end = b"\r\n" if keep else b"connection: close\r\n\r\n"
        pairs = [*headers, *self.extra] if self.extra else headers
        if pairs and pairs[-1][0] == b"x-request-id" and pairs[-1][1].isalnum():
            # What stands in front of it many answers have.
            opening = connection.opening(status, tuple(pairs[:-1]))
            head = b"%bx-request-id: %b\r\n%b%b" % (opening, pairs[-1][1], framing, end)
        else:
            head = b"".join((connection.opening(status, ()), header_lines(pairs), framing, end))
        self.opened = True
        return head

    async def _send(self, data: bytes) -> None:
        connection = self._connection
        view = memoryview(data)
        # Whoever is cancelled in the middle has torn this piece: nothing may follow it, not even the last word.
        self._torn = True
        for start in range(0, len(data), _SLICE):
            if connection.paused:
                await connection.drained()
            connection.write(view[start : start + _SLICE])
        self._torn = False

    def _end(self) -> None:
        connection, self._connection = self._connection, _NOBODY
        self._gone = None
        connection.answered(keep=self._keep)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Nobody:
    """The connection of an exchange that is over: what comes too late goes nowhere."""

    keeps = False
    paused = False

    def opening(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        return status_line(status) + header_lines(headers)

    def reads(self) -> None:
        pass

    def wants_body(self) -> None:
        pass

    def forget(self) -> None:
        pass

    def write(self, data: bytes | memoryview) -> None:
        pass

    async def drained(self) -> None:
        pass

    def answers_early(self) -> None:
        pass

    def answered(self, *, keep: bool) -> None:
        pass

    def cut(self, *, hard: bool = False) -> None:
        pass


_NOBODY = _Nobody()
