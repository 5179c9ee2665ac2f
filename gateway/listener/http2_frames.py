"""Frames of HTTP/2 on their way in, one by one, before the library sees them (RFC 9113 §4).

    PREFACE   the first 24 bytes, the same from every client     → FIRST, or refused at the first byte that is another
    FIRST     whatever comes is SETTINGS (§3.4)                  → BETWEEN, or refused
    BETWEEN   any frame                                          → BLOCK, where it begins a header block without its end
    BLOCK     CONTINUATION of the same stream alone (§6.10)      → BETWEEN at its end, or refused

h2 keeps a frame of whatever length was announced before it refuses it, keeps 64 pieces of a header block, keeps every
setting that it does not know, and reads all that has come in one go. So what it gets is one frame at a time, whose
length is known to be right, of a header block that is not too long, and settings that mean something.
"""

import struct
from collections.abc import Callable
from enum import IntEnum

import msgspec
from h2.errors import ErrorCodes

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first."""
LONGEST_FRAME = 16 * 1024
"""Bytes of a frame behind its head: as many as every peer may send without asking (RFC 9113 §4.2)."""

ANY_STREAM = 2**31 - 1
"""One that no client reaches."""

_GOAWAY = struct.Struct(">HBBBLLL")
_HEAD = 9
_SCRAP = 16
_END_STREAM = 0x01
_END_HEADERS = 0x04
_ACK = 0x01
_SETTING = 6
_MOST_SETTINGS = 32
_SETTINGS = frozenset({1, 2, 3, 4, 5, 6, 8})
"""Those that h2 reads; all others are ignored (RFC 9113 §6.5.2)."""


class Kind(IntEnum):
    """The types of frames (RFC 9113 §6)."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


_HEADERS = (Kind.HEADERS, Kind.CONTINUATION)


class FrameRefused(Exception):  # noqa: N818 - the word for it; it carries its own answer
    """What came ends the connection.

    Attributes:
        code: For the client's GOAWAY.
        words: For the log.
    """

    def __init__(self, code: ErrorCodes, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


class OtherProtocol(FrameRefused):
    """It is no HTTP/2 at all."""


class Frame(msgspec.Struct, frozen=True):
    """One frame.

    Attributes:
        kind: One of `Kind`, or any other number.
        raw: All of it, as it came.
    """

    kind: int
    flags: int
    stream: int
    raw: bytes

    @property
    def size(self) -> int:
        """Bytes behind its head."""
        return len(self.raw) - _HEAD

    @property
    def is_scrap(self) -> bool:
        """Whether it is a few bytes of data, or none, without the end."""
        return self.kind == Kind.DATA and len(self.raw) < _HEAD + _SCRAP and not self.flags & _END_STREAM


class Frames:
    """Cuts what comes into frames; borders of packets do not matter.

    Args:
        longest_block: Most bytes of a header block, before it is decompressed.
        clock: Monotonic seconds.

    Attributes:
        block_since: When the header block began that has not ended, or None.
        begun: Whether the client has said all that it says first.
    """

    __slots__ = ("_at", "_block", "_block_size", "_buffer", "_clock", "_longest_block", "_preface", "begun",
        "block_since")  # fmt: skip

    def __init__(self, longest_block: int, clock: Callable[[], float]) -> None:
        self._longest_block = longest_block
        self._clock = clock
        self._buffer: bytes | bytearray = b""
        self._at = 0
        self._preface = True
        self._block = 0
        self._block_size = 0
        self.begun = False
        self.block_since: float | None = None

    def __len__(self) -> int:
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        if self._at == len(self._buffer):
            # Nearly always: frames come whole.
            self._buffer, self._at = data, 0
            return
        rest = bytearray(memoryview(self._buffer)[self._at :]) if self._at else self._buffer
        if isinstance(rest, bytes):
            rest = bytearray(rest)
        rest += data
        self._buffer, self._at = rest, 0

    def clear(self) -> None:
        """Let go of what is left: nobody reads it."""
        self._buffer, self._at = b"", 0
        self.block_since = None

    def next(self) -> Frame | None:
        """The next frame, or None where it has not come whole.

        Raises:
            FrameRefused: there can be none.
        """
        if self._preface and not self._read_preface():
            return None
        buffer, at = self._buffer, self._at
        if len(buffer) - at < _HEAD:
            return None
        size = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
        if size > LONGEST_FRAME:
            raise FrameRefused(ErrorCodes.FRAME_SIZE_ERROR, "a frame is too long")
        end = at + _HEAD + size
        kind, flags = buffer[at + 3], buffer[at + 4]
        # The first bit has no meaning (RFC 9113 §4.1).
        stream = int.from_bytes(buffer[at + 5 : at + 9], "big") & 0x7FFFFFFF
        if kind == Kind.CONTINUATION or self._block or not self.begun:
            self._see_order(kind, flags, stream)
        heads = kind in _HEADERS
        if heads and self._block_size + size > self._longest_block:
            raise FrameRefused(ErrorCodes.ENHANCE_YOUR_CALM, "a header block is too long")
        if len(buffer) < end:
            return None
        raw = bytes(buffer[at:end])
        self._at = end
        if heads:
            self._count(flags, stream, size)
        elif kind == Kind.SETTINGS:
            self.begun = True
            raw = _known_settings(raw)
        return Frame(kind, flags, stream, raw)

    def _count(self, flags: int, stream: int, size: int) -> None:
        """Know of a header block whether it is whole."""
        if flags & _END_HEADERS:
            self._block, self._block_size, self.block_since = 0, 0, None
            return
        if not self._block:
            self._block, self.block_since = stream, self._clock()
        self._block_size += size

    def _read_preface(self) -> bool:
        """Whether the preface has come whole."""
        start = bytes(self._buffer[: len(PREFACE)])
        if not PREFACE.startswith(start):
            raise OtherProtocol(ErrorCodes.PROTOCOL_ERROR, "this is no HTTP/2")
        if len(start) < len(PREFACE):
            return False
        self._preface = False
        self._at = len(PREFACE)
        return True

    def _see_order(self, kind: int, flags: int, stream: int) -> None:
        if not self.begun:
            if kind != Kind.SETTINGS or flags & _ACK:
                raise FrameRefused(ErrorCodes.PROTOCOL_ERROR, "the first frame is none of settings")
        elif kind != Kind.CONTINUATION or not self._block or stream != self._block:
            raise FrameRefused(ErrorCodes.PROTOCOL_ERROR, "a header block is broken off, or none was begun")


def _known_settings(raw: bytes) -> bytes:
    """A frame of settings, without those that nobody here knows."""
    body = raw[_HEAD:]
    if len(body) % _SETTING:
        raise FrameRefused(ErrorCodes.FRAME_SIZE_ERROR, "a frame of settings ends within one")
    if len(body) > _MOST_SETTINGS * _SETTING:
        raise FrameRefused(ErrorCodes.ENHANCE_YOUR_CALM, "there are too many settings")
    pairs = [body[at : at + _SETTING] for at in range(0, len(body), _SETTING)]
    known = b"".join(pair for pair in pairs if int.from_bytes(pair[:2], "big") in _SETTINGS)
    return raw if len(known) == len(body) else len(known).to_bytes(3, "big") + raw[3:_HEAD] + known


def goaway(last: int, code: ErrorCodes) -> bytes:
    """The frame that ends a connection, or says that it will end (RFC 9113 §6.8).

    Args:
        last: The last stream that is served.
    """
    return _GOAWAY.pack(0, 8, Kind.GOAWAY, 0, 0, last, code)
