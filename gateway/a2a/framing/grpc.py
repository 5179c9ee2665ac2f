"""Length-prefixed messages, as gRPC has them in the body of HTTP/2 (gRPC over HTTP/2, Length-Prefixed-Message).

States: between messages, inside a prefix, inside a message. A prefix is one byte that says whether the message is
compressed, and four of its length, most significant first. Refused: a message that is compressed (nothing here offers
to read one), a flag that is none, and a message longer than the cap, which is known from its prefix.

Time is in proportion to the bytes, and memory to the cap.
"""

import struct

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.sse import Event

LONGEST = 2**32 - 1
"""Bytes of a message, as many as a prefix can tell."""

_PREFIX = struct.Struct(">BI")


def frame(message: bytes) -> bytes:
    """Return a message behind its prefix.

    Raises:
        ValueError: it is longer than a prefix can tell.
    """
    if len(message) > LONGEST:
        raise ValueError("a message of gRPC has at most four gibibytes")
    return _PREFIX.pack(0, len(message)) + message


def unframe(data: bytes) -> list[bytes]:
    """Return the messages of a whole body, without their prefixes.

    Raises:
        ValueError: one is compressed or has another flag, or the body ends within one.
    """
    messages: list[bytes] = []
    start = 0
    while start < len(data):
        if len(data) - start < _PREFIX.size:
            raise ValueError("the body ends within a prefix")
        flag, length = _PREFIX.unpack_from(data, start)
        if flag:
            raise ValueError("a message is compressed, or its flag is none")
        start += _PREFIX.size
        if length > len(data) - start:
            raise ValueError("the body ends within a message")
        messages.append(data[start : start + length])
        start += length
    return messages


class FrameDecoder:
    """Cuts a byte stream into messages; chunk borders do not matter.

    Each is an event whose `raw` is the message behind its prefix, and whose `line` is the message alone.

    Args:
        longest: Longest message in bytes, its prefix not counted.

    Attributes:
        refused: The error that ended reading; set when events came before it, and raised by the next `feed`.
    """

    def __init__(self, longest: int) -> None:
        self.refused: UpstreamProtocol | None = None
        self._longest = longest
        self._buffer = bytearray()
        # Bytes from which on the buffer holds the next message, or tells how long it is.
        self._needed = _PREFIX.size

    def only(self, chunk: bytes) -> Event | None:
        """Return the event of a chunk that is one whole message behind its prefix; otherwise None.

        None means that nothing was read: the chunk is for `feed`.
        """
        if self._buffer or self.refused is not None or len(chunk) < _PREFIX.size:
            return None
        flag, length = _PREFIX.unpack_from(chunk)
        if flag or length > self._longest or length != len(chunk) - _PREFIX.size:
            return None
        return Event(chunk, line=chunk[_PREFIX.size :])

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes.

        Raises:
            UpstreamProtocol: a message is compressed or longer than the cap, and none came before it in this chunk.
        """
        if self.refused is not None:
            raise self.refused
        buffer = self._buffer
        buffer += chunk
        if len(buffer) < self._needed:
            return []
        events: list[Event] = []
        start = 0
        self._needed = _PREFIX.size
        while len(buffer) - start >= _PREFIX.size:
            flag, length = _PREFIX.unpack_from(buffer, start)
            if flag:
                return self._refuse(events, "the agent sent a compressed message", f"flag {flag}")
            if length > self._longest:
                return self._refuse(events, "the agent sent a message that is too long", f"{length} bytes")
            end = start + _PREFIX.size + length
            if end > len(buffer):
                self._needed = end - start
                break
            raw = bytes(buffer[start:end])
            events.append(Event(raw, line=raw[_PREFIX.size :]))
            start = end
        del buffer[:start]
        return events

    def _refuse(self, events: list[Event], message: str, detail: str) -> list[Event]:
        self.refused = UpstreamProtocol(message, detail=detail)
        self._buffer.clear()
        if not events:
            raise self.refused
        return events

    @property
    def held(self) -> int:
        """Return the number of bytes behind the last whole message."""
        return len(self._buffer)

    @property
    def last(self) -> Event | None:
        """Return None: a message has its length in front.

        Raises:
            UpstreamProtocol: the stream ended within one.
        """
        if self._buffer:
            raise UpstreamProtocol("the agent's stream ended within a message", detail=f"{len(self._buffer)} bytes")
        return None
