"""Requests on their way in: a head that comes in pieces, and a body that does, by its length or in chunks."""

from gateway.config.limit import Http
from gateway.listener.chunks import Chunks, Sink
from gateway.listener.introduction import Introduction
from gateway.listener.request import Again, RequestHead, check_start, read_head

_KEPT_HEAD = 2048
"""Bytes of the longest head that is kept to know the next one by."""
_KEPT_HEADERS = 32
"""Headers of one that is kept at most."""
_RATE_FROM = 10.0
"""Seconds of a body after which its rate counts."""


class IncomingHeads:
    """The heads that come over one connection, one after the other.

    Attributes:
        received: What has come of one that is not whole.
    """

    __slots__ = ("_again", "_bounds", "_checked", "received")

    def __init__(self, bounds: Http) -> None:
        self._bounds = bounds
        self._again: Again | None = None
        self._checked = 0
        self.received = bytearray()

    @property
    def knows(self) -> bool:
        """Whether a head, and the credential in it, is kept to know the next one by."""
        return self._again is not None

    def forget(self) -> None:
        """Let go of that one."""
        self._again = None

    def drop(self) -> None:
        """Let go of everything: no other will come."""
        self._again = None
        self.received.clear()

    def feed(self, data: bytes, peer: str, met: Introduction) -> tuple[RequestHead, bytes] | None:
        """Read on; the head and what came behind it, or None where it is not whole.

        Raises:
            Unreadable: it is none, or can come to no good end.
        """
        received = self.received
        if received:
            received += data
            end = received.find(b"\r\n\r\n", max(self._checked - 3, 0))
        else:
            end = data.find(b"\r\n\r\n")
        if end < 0:
            if not received:
                received += data
            check_start(received, self._bounds, self._checked)
            self._checked = len(received)
            return None
        if received:
            data = bytes(received)
            received.clear()
            self._checked = 0
        raw = data[: end + 4]
        again = self._again
        head = None if again is None else again.read(raw)
        if head is None:
            head = read_head(raw, peer, met.scheme, self._bounds, certificate=met.certificate)
            keeps = end < _KEPT_HEAD and len(head.head.headers) <= _KEPT_HEADERS
            self._again = Again(raw, head) if keeps else None
        return head, data[end + 4 :]


class IncomingBody:
    """A body that has not come whole with its head.

    Args:
        sink: Where its bytes go.
        trailers: Most bytes behind its last chunk.
        now: Seconds of the loop's clock.

    Attributes:
        excess: Whether something else came behind it.
    """

    __slots__ = ("_began", "_chunks", "_left", "_sink", "_size", "excess")

    def __init__(self, sink: Sink, head: RequestHead, trailers: int, now: float) -> None:
        self._sink = sink
        self._left = head.length
        self._chunks = Chunks(sink, trailers) if head.chunked else None
        self._size = 0
        self._began = now
        self.excess = False

    def feed(self, data: bytes) -> bool:
        """Read on; whether it is whole.

        Raises:
            Unreadable: these are no chunks.
        """
        chunks = self._chunks
        if chunks is not None:
            self._size += chunks.feed(data)
            self.excess = chunks.excess
            return chunks.done
        if len(data) > self._left:
            data, self.excess = data[: self._left], True
        self._left -= len(data)
        self._size += len(data)
        self._sink.feed(data)
        return self._left == 0

    def count_from(self, now: float) -> None:
        """Somebody reads it from now on: what came before says nothing of how fast its sender is."""
        self._began = now
        self._size = 0

    def is_slow(self, now: float, rate: int) -> bool:
        """Whether it has come for a while with fewer than `rate` bytes a second."""
        taken = now - self._began
        return taken > _RATE_FROM and self._size < rate * taken
