"""Frames of agents on stdio: the base protocol of LSP, or one JSON text per line (A2A issue 1074; LSP 3.17).

A frame is HTTP-like header fields, an empty line, and `Content-Length` bytes of content: one JSON-RPC message in UTF-8.
Or, without a header, it is a line with such a message. The first byte, `{` or a letter, tells the two apart.

States: between frames (blank lines are skipped), inside a header, inside the content, inside a line of JSON. Refused:
another first byte; a header that is too long, has too many fields or a malformed one; a length that is missing, there
twice, or no plain number; endless blank lines; content or a line longer than the cap; a charset other than UTF-8.
Nothing is read after a refusal, because the start of the next frame is unknown. `Content-Type` may be missing, and LF
alone ends a line.

Time is in proportion to the bytes, and memory to the cap.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from gateway.a2a.headers import Pairs

LONGEST = 4 * 1024 * 1024
"""Bytes of the content of a frame, by default."""
HEADER_BYTES = 8 * 1024
"""Bytes of a header block."""
HEADER_FIELDS = 64
MOST_BLANK = 64 * 1024
"""Bytes of blank lines between two frames."""

_NAME = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e]*")
_LENGTH = re.compile(rb"[0-9]{1,10}")
_CHARSET = re.compile(rb';[ \t]*charset="?([^";\s]+)', re.IGNORECASE)
_UTF_8 = frozenset({b"utf-8", b"utf8"})
_OURS = frozenset({b"content-length", b"content-type"})
_BLANK = b" \t\r\n"
_SPACE = re.compile(rb"[ \t\r\n]+")
_BOM = b"\xef\xbb\xbf"
_FLATTEN = bytes.maketrans(b"\r\n", b"  ")


class Framing(StrEnum):
    """The format of written frames, named as in the configuration."""

    LSP = "lsp"
    NDJSON = "ndjson"


class BadFrame(ValueError):  # noqa: N818 - named after what is wrong, like the faults
    """The bytes are not a frame, so nothing after them can be read; the text says why, and quotes nothing."""


class Frame(msgspec.Struct, frozen=True):
    """One message, as it was framed.

    Attributes:
        headers: Names in lower case, in order; empty for a line.
    """

    content: bytes
    headers: Pairs
    framing: Framing

    def header(self, name: bytes) -> bytes | None:
        """Return the first header called `name` (in lower case), or None."""
        return next((value for known, value in self.headers if known == name), None)


def encode(content: bytes, framing: Framing, headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """Return one frame. A line has no header, so `headers` are lost there; its content is put on one line.

    Args:
        content: A JSON text.
        headers: Other headers than `Content-Length` and `Content-Type`.

    Raises:
        ValueError: a header is malformed, or one of these two; the text quotes no value.
    """
    return whole(content, framing, header_lines(headers))


def whole(content: bytes, framing: Framing, lines: bytes) -> bytes:
    """Return the frame of these parts.

    Args:
        lines: From `header_lines`.
    """
    if framing is Framing.NDJSON:
        # A JSON text has line ends between its tokens only.
        return content.translate(_FLATTEN) + b"\n"
    return b"Content-Length: %d\r\nContent-Type: application/json\r\n%b\r\n%b" % (len(content), lines, content)


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return header fields, a line for each.

    Raises:
        ValueError: as `encode`.
    """
    lines = []
    for name, value in headers:
        if not can_be_header(name, value):
            raise ValueError("a header cannot be in a frame")
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)


def can_be_header(name: bytes, value: bytes) -> bool:
    """Return whether a header can be one of a frame, which is plain ASCII."""
    return _NAME.fullmatch(name) is not None and name.lower() not in _OURS and _VALUE.fullmatch(value) is not None


class FrameDecoder:
    """Cuts a byte stream into frames; chunk borders do not matter.

    Args:
        longest: Bytes of the longest content or line, its end not counted.

    Attributes:
        refused: The error that ended reading; set when frames came before it, and raised by the next `feed`.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.refused: BadFrame | None = None
        self._longest = longest
        self._buffer = bytearray()
        # Where the search for the end of a line goes on.
        self._searched = 0
        # The header fields so far of the frame that is read; None between frames.
        self._headers: Pairs | None = None
        self._header_bytes = 0
        # Bytes of content that are to come, once its header is read.
        self._length: int | None = None
        self._begun = False
        # Bytes of blank lines since the last frame.
        self._blank = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that `chunk` completes.

        Raises:
            BadFrame: the bytes are no frame, and no frame came before them in this chunk.
        """
        if self.refused is not None:
            raise self.refused
        self._buffer += chunk
        frames: list[Frame] = []
        try:
            while (frame := self._next()) is not None:
                frames.append(frame)
                self._blank = 0
        except BadFrame as error:
            self.refused = error
            self._buffer.clear()
            if not frames:
                raise
        return frames

    @property
    def midway(self) -> bool:
        """Return whether a frame has begun and has not ended."""
        return bool(self._buffer) or self._headers is not None

    @property
    def last(self) -> Frame | None:
        """Return the unterminated last line, or None if nothing follows the last frame.

        Raises:
            BadFrame: the stream ended within a frame.
        """
        if self.refused is not None:
            raise self.refused
        rest = bytes(self._buffer).strip(_BLANK)
        if self._headers is not None or (rest and not rest.startswith((b"{", b"["))):
            raise BadFrame("the stream ended within a frame")
        return Frame(rest, [], Framing.NDJSON) if rest else None

    def _next(self) -> Frame | None:
        """Return the next whole frame, or None where more is needed."""
        while self._length is None:
            if self._headers is None:
                if not self._skip_blank():
                    return None
                if self._buffer.startswith((b"{", b"[")):
                    return self._line_of_json()
                if _NAME.match(self._buffer) is None:
                    raise BadFrame("a frame begins with neither a header nor a JSON object")
                self._headers, self._header_bytes = [], 0
            line = self._line(HEADER_BYTES - self._header_bytes, "its header is too long")
            if line is None:
                return None
            if line:
                self._field(line)
            else:
                self._length = self._content_length()
        if len(self._buffer) < self._length:
            return None
        content = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        headers, self._headers, self._length = self._headers or [], None, None
        return Frame(content, headers, Framing.LSP)

    def _skip_blank(self) -> bool:
        """Skip blank lines and a byte-order mark; return whether a frame follows."""
        if not self._begun:
            if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
                # Some runtimes write it first; its other bytes may come later.
                return False
            self._begun = True
            if self._buffer.startswith(_BOM):
                del self._buffer[: len(_BOM)]
        blank = _SPACE.match(self._buffer)
        end = 0 if blank is None else blank.end()
        # The match holds the buffer.
        del blank
        if end:
            del self._buffer[:end]
            self._blank += end
            if self._blank > MOST_BLANK:
                raise BadFrame("nothing but blank lines came")
        return bool(self._buffer)

    def _line_of_json(self) -> Frame | None:
        line = self._line(self._longest + 2, f"a line is longer than {self._longest} bytes")
        if line is None:
            return None
        if len(line) > self._longest:
            raise BadFrame(f"a line is longer than {self._longest} bytes")
        return Frame(line.rstrip(_BLANK), [], Framing.NDJSON)

    def _line(self, longest: int, too_long: str) -> bytes | None:
        """Return the next line without its end, or None while that has not come.

        Args:
            longest: Bytes, with its end.
        """
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            if self._searched >= longest:
                raise BadFrame(too_long)
            return None
        if end >= longest:
            raise BadFrame(too_long)
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        self._searched = 0
        self._header_bytes += end + 1
        return line

    def _field(self, line: bytes) -> None:
        assert self._headers is not None
        name, colon, value = line.partition(b":")
        value = value.strip(b" \t")
        if not colon or _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise BadFrame("a line of its header is no field")
        if len(self._headers) >= HEADER_FIELDS:
            raise BadFrame("its header has too many fields")
        self._headers.append((name.lower(), value))

    def _content_length(self) -> int:
        headers = self._headers or []
        found = [value for name, value in headers if name == b"content-length"]
        types = [value for name, value in headers if name == b"content-type"]
        if not found:
            raise BadFrame("its header has no Content-Length")
        if len(found) > 1 or len(types) > 1:
            raise BadFrame("its header has Content-Length or Content-Type twice")
        if _LENGTH.fullmatch(found[0]) is None:
            raise BadFrame("its Content-Length is no plain number")
        if int(found[0]) > self._longest:
            raise BadFrame(f"its content is longer than {self._longest} bytes")
        charset = _CHARSET.search(types[0]) if types else None
        if charset is not None and charset[1].lower() not in _UTF_8:
            raise BadFrame("its content is not in UTF-8")
        return int(found[0])
