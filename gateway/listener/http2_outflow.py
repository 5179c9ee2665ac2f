"""What goes out over one connection: each stream in its turn, as far as the client lets it (RFC 9113 §5.2).

    a stream      CLEAR     nothing waits: what is sent goes out at once
                  READY     bytes wait for their turn, or for the system to take more
                  SHUT      bytes wait for the client to let this stream send more
    all of them             as long as the client lets the connection send nothing, or reads nothing, nobody has a turn

A turn is a slice, so that a long message delays none of the others by more; headers and the end of a stream need no
leave and wait for no one, but for what stands in front of them. A client that takes nothing of a stream for a while is
told so by whoever looks; a slow one costs the others nothing.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from h2.connection import H2Connection

from gateway.a2a.headers import Pairs
from gateway.listener.http2_allowance import Allowance
from gateway.listener.http2_hpack import HeaderWriter

SLICE = 16 * 1024
"""Bytes of a frame, and of a turn."""

_LOW = 16 * 1024
_SHORT = 1024
_AT_ONCE = 16
"""Turns of one go."""
_PER_WRITE = 4
# What the library looks at in headers that were written before.
_HEADERS = ((b":status", b"200"),)


class Owner(Protocol):
    """Whose streams they are."""

    def flush(self) -> None:
        """Hand what was sent to the system."""

    def ended(self, stream: int) -> None:
        """The end of a stream was sent."""

    def watch(self) -> None:
        """Something waits for the client to take it."""


class Outflow:
    """The sending side of one connection.

    Args:
        h2: Its protocol; headers that it sends are from `writer`.
        allowance: Earned by what the client is sent.

    Attributes:
        paused: Whether the system takes nothing by now.
        resumed: When it began to take something again.
    """

    __slots__ = (
        "_allowance", "_h2", "_loop", "_moved", "_owner", "_pumping", "_ready", "_waiting", "_writer", "paused",
        "resumed",
    )  # fmt: skip

    def __init__(self, owner: Owner, h2: H2Connection, writer: HeaderWriter, allowance: Allowance) -> None:
        self._owner = owner
        self._h2 = h2
        self._writer = writer
        self._allowance = allowance
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, _Queue] = {}
        self._ready: deque[int] = deque()
        self._pumping = False
        self._moved = 0.0
        self.paused = False
        self.resumed = 0.0

    # ---- What is sent --------------------------------------------------------------------------------------------

    def head(self, stream: int, headers: Pairs, *, end: bool) -> None:
        """Send headers in front of everything else.

        Raises:
            ValueError: they are none that HTTP/2 can have; nothing was sent.
        """
        self._writer.write(headers)
        self._h2.send_headers(stream, _HEADERS, end_stream=end)
        if end:
            self._owner.ended(stream)

    def data(self, stream: int, data: bytes) -> None:
        """Send bytes, or keep what cannot go out by now."""
        queue = self._waiting.get(stream)
        if queue is not None:
            queue.add(data)
            return
        if not self.paused and not self._ready:
            h2 = self._h2
            if len(data) <= SLICE and len(data) <= h2.local_flow_control_window(stream):
                h2.send_data(stream, data)
                self._allowance.data()
                return
        self._waiting[stream] = _Queue(data, self._loop.time())
        self._ready.append(stream)
        self.pump()
        if stream in self._waiting:
            self._owner.watch()

    def trailers(self, stream: int, headers: Pairs | None) -> None:
        """Send the end of a stream behind what waits.

        Args:
            headers: What stands there, or None for nothing.

        Raises:
            ValueError: as `head`.
        """
        if headers is not None:
            self._writer.write(headers)
        queue = self._waiting.get(stream)
        if queue is None:
            self._end(stream, headers)
        else:
            queue.end = (headers,)

    def waiting(self, stream: int) -> int:
        """Bytes of a stream that wait."""
        queue = self._waiting.get(stream)
        return 0 if queue is None else queue.size

    async def drained(self, stream: int) -> None:
        """Wait until few bytes of a stream wait, or it is dropped."""
        queue = self._waiting.get(stream)
        if queue is None or queue.size <= _LOW:
            return
        waiter = self._loop.create_future()
        queue.waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in queue.waiters:
                queue.waiters.remove(waiter)

    def drop(self, stream: int) -> None:
        """Let go of what waits: nobody takes it."""
        queue = self._waiting.pop(stream, None)
        if queue is not None:
            queue.wake()

    # ---- What lets it go out -------------------------------------------------------------------------------------

    def granted(self, stream: int) -> None:
        """The client lets this stream send more."""
        queue = self._waiting.get(stream)
        if queue is not None and queue.shut:
            queue.shut = False
            self._ready.append(stream)

    def granted_all(self) -> None:
        """The client may let every stream send more."""
        for stream in self._waiting:
            self.granted(stream)

    def pump(self) -> None:
        """Send what may go out, in turns; the rest of much that may in later ones of the loop."""
        h2, turns = self._h2, _AT_ONCE
        while turns and self._ready and not self.paused and h2.outbound_flow_control_window > 0:
            stream = self._ready.popleft()
            queue = self._waiting.get(stream)
            if queue is None:
                continue
            turns -= 1
            self._turn(stream, queue)
            if not turns % _PER_WRITE:
                self._owner.flush()
        self._owner.flush()
        if not turns and not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump_on)

    def _pump_on(self) -> None:
        self._pumping = False
        self.pump()

    def _turn(self, stream: int, queue: "_Queue") -> None:
        room = min(SLICE, self._h2.local_flow_control_window(stream))
        if room <= 0:
            queue.shut = True
            return
        self._h2.send_data(stream, queue.take(room))
        self._allowance.data()
        queue.moved = self._moved = self._loop.time()
        if queue.size:
            self._ready.append(stream)
        else:
            del self._waiting[stream]
        if queue.size <= _LOW:
            queue.wake()
        if not queue.size and queue.end is not None:
            [headers] = queue.end
            if headers is not None:
                self._writer.write(headers)
            self._end(stream, headers)

    def _end(self, stream: int, headers: Pairs | None) -> None:
        if headers is None:
            self._h2.end_stream(stream)
        else:
            self._h2.send_headers(stream, _HEADERS, end_stream=True)
        self._owner.ended(stream)

    # ---- Whether the client takes it -----------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def stalled(self, now: float, longest: float) -> Iterator[int]:
        """The streams of which the client has taken nothing for so long, although it reads others."""
        if not self.paused:
            for stream, queue in self._waiting.items():
                # One that has no leave moves on its own; the others as long as one of them does.
                moved = queue.moved if queue.shut else max(queue.moved, self._moved)
                if now - max(moved, self.resumed) >= longest:
                    yield stream


class _Queue:
    """What waits of one stream.

    Attributes:
        size: In bytes.
        end: What comes behind it, once that is known.
        moved: When some of it went out.
        shut: Whether it waits for the client to let it go.
    """

    __slots__ = ("_at", "_parts", "end", "moved", "shut", "size", "waiters")

    def __init__(self, data: bytes, now: float) -> None:
        self._parts: deque[bytes | bytearray] = deque((data,))
        self._at = 0
        self.size = len(data)
        self.end: tuple[Pairs | None] | None = None
        self.moved = now
        self.shut = False
        self.waiters: list[asyncio.Future[None]] = []

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if len(data) >= _SHORT:
            self._parts.append(data)
            return
        # Pieces of a few bytes, kept as they come, would take twenty times their size.
        last = self._parts[-1]
        if isinstance(last, bytearray) and len(last) < SLICE:
            last += data
        else:
            self._parts.append(bytearray(data))

    def take(self, most: int) -> bytes:
        """So many bytes at most."""
        left = min(most, self.size)
        self.size -= left
        taken: list[bytes | bytearray] = []
        while left:
            part, at = self._parts[0], self._at
            end = at + left
            if end < len(part):
                taken.append(part[at:end])
                self._at = end
                break
            taken.append(part[at:] if at else part)
            left -= len(part) - at
            self._parts.popleft()
            self._at = 0
        return b"".join(taken)

    def wake(self) -> None:
        """Tell whoever waits."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
