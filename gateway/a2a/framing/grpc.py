"""Length-prefixed messages, as gRPC has them in the body of HTTP/2 (gRPC over HTTP/2, Length-Prefixed-Message).

A prefix is one byte that says whether the message is compressed, which none is here, and four of its length, most
significant first. grpc.aio reads and writes the frames of the wire. The frames here are internal: they carry messages
from an upstream to a listener, like the events of other bindings.
"""

import struct

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.sse import Event

_PREFIX = struct.Struct(">BI")


def frame(message: bytes) -> bytes:
    """Return a message behind its prefix."""
    return _PREFIX.pack(0, len(message)) + message


def unframe(data: bytes) -> list[bytes]:
    """Return the messages of whole frames."""
    messages: list[bytes] = []
    start = 0
    while start < len(data):
        end = start + _PREFIX.size + _PREFIX.unpack_from(data, start)[1]
        messages.append(data[start + _PREFIX.size : end])
        start = end
    return messages


class FrameDecoder:
    """Reads the frames of an agent's stream, which come one in a chunk, or a long one in several.

    Each is an event whose `raw` is the message behind its prefix, and whose `line` is the message alone.

    Args:
        longest: Longest message in bytes, its prefix not counted.

    Attributes:
        refused: The error that ended reading.
        last: Always None: the end of a stream leaves no message.
    """

    last: Event | None = None

    def __init__(self, longest: int) -> None:
        self.refused: UpstreamProtocol | None = None
        self._longest = longest
        self._buffer = bytearray()

    def only(self, chunk: bytes) -> Event | None:
        """Return the event of a chunk that is a whole frame; otherwise None, and the chunk is for `feed`."""
        if self._buffer or len(chunk) > self._longest + _PREFIX.size:
            return None
        if len(chunk) < _PREFIX.size or _PREFIX.unpack_from(chunk)[1] != len(chunk) - _PREFIX.size:
            return None
        return Event(chunk, line=chunk[_PREFIX.size :])

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the event that `chunk` completes, if it does.

        Raises:
            UpstreamProtocol: the message is longer than the cap.
        """
        self._buffer += chunk
        if len(self._buffer) < _PREFIX.size:
            return []
        length = _PREFIX.unpack_from(self._buffer)[1]
        if length > self._longest:
            self.refused = UpstreamProtocol("the agent sent a message that is too long", detail=f"{length} bytes")
            raise self.refused
        if len(self._buffer) < length + _PREFIX.size:
            return []
        raw = bytes(self._buffer)
        self._buffer.clear()
        return [Event(raw, line=raw[_PREFIX.size :])]

    @property
    def held(self) -> int:
        """Return the number of bytes of a message that has not come whole."""
        return len(self._buffer)
