"""Server-sent events, bytes in and events out (WHATWG HTML §9.2).

States: between events, inside an event. A line ends with LF, CRLF or CR; an empty line ends an event. An event longer
than the cap is refused, never shortened. The bytes of an event are kept, so that a relay forwards the agent's own;
`data` is parsed from them only on demand.

Time is in proportion to the bytes and memory to the cap: a flood of empty lines and comments is one piece, and an event
of a million lines is never a million objects.
"""

import re

import msgspec

from gateway.a2a.fault import UpstreamProtocol

# The end of an event, with the empty lines and short comments right behind it.
_END = re.compile(
    rb"((?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n)))(?:(?::[^\r\n]{0,64}+)?(?:\r\n|\n|\r(?!\n)))*+",
)
_LINE_END = re.compile(rb"\r\n|\n|\r")
_FLATTEN = bytes.maketrans(b"\r\n", b"  ")
_BOM = b"\xef\xbb\xbf"
_MOST_LINES = 10_000
_SHORT_START = 256
_DATA = b"data: "
_NEXT_DATA = b"\ndata: "

HEARTBEAT = b": keep-alive\n\n"
"""A comment that keeps the stream alive; clients ignore it."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event: its bytes as they came, with the empty line that ends it.

    Attributes:
        silent: Whether it is known to be made of empty lines and comments only.
        first: Whether the stream begins with it; only there can it be a byte-order mark.
        line: Its data, where it is known to be one line of data and nothing else.
    """

    raw: bytes
    silent: bool = False
    first: bool = False
    line: bytes | None = None

    def read(self) -> tuple[str, bytes] | None:
        """Return the event's name and its data, lines joined by LF; None for comments and events without data.

        Raises:
            UpstreamProtocol: it has too many lines that are not all of one kind.
        """
        if self.line is not None:
            return "message", self.line
        raw = self.raw
        if raw.startswith(_DATA) and raw.endswith(b"\n\n") and raw.count(b"\n") == 2 and b"\r" not in raw:
            # As most servers write it: one line of data.
            return "message", raw[len(_DATA) : -2]
        if self.silent or b"data" not in raw:
            return None
        text = (self.raw.removeprefix(_BOM) if self.first else self.raw).strip(b"\r\n")
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        # Often its name or number comes first, followed by data only.
        start = 0 if text.startswith(_DATA) else text.find(_NEXT_DATA) + 1
        if start > _SHORT_START or not text.startswith(_DATA, start):
            return self._read_lines(text)
        if text.count(b"\n", start) != text.count(_NEXT_DATA, start):
            return self._read_lines(text)
        before = dict(map(_field, text[:start].splitlines()))
        if b"data" in before:
            return self._read_lines(text)
        return _name(before.get(b"event", b"")), text[start + len(_DATA) :].replace(_NEXT_DATA, b"\n")

    def with_data(self, data: bytes) -> bytes:
        """Return the event's bytes with other JSON as its data, on one line; its name and number stay."""
        others: list[bytes] = []
        if self.line is None:
            raw = self.raw.removeprefix(_BOM) if self.first else self.raw
            others = [line for line in _LINE_END.split(raw) if line and _field(line)[0] != b"data"]
        # JSON has line ends between its tokens only.
        return b"".join(line + b"\n" for line in others) + encode(data.translate(_FLATTEN))

    @staticmethod
    def _read_lines(text: bytes) -> tuple[str, bytes] | None:
        if text.count(b"\n") > _MOST_LINES:
            raise UpstreamProtocol("the agent sent an event of too many lines", detail=f"over {_MOST_LINES} lines")
        name = "message"
        lines: list[bytes] = []
        for line in text.split(b"\n"):
            field, value = _field(line)
            if field == b"data":
                lines.append(value)
            elif field == b"event":
                name = _name(value)
        return (name, b"\n".join(lines)) if lines else None


class SseDecoder:
    """Cuts a byte stream into events; chunk borders do not matter.

    Args:
        cap: Longest event in bytes.

    Attributes:
        refused: The error that ended reading; set when events came before it, and raised by the next `feed`.
    """

    def __init__(self, cap: int) -> None:
        self.refused: UpstreamProtocol | None = None
        self._cap = cap
        self._buffer = bytearray()
        self._searched = 0
        self._after_cr = False
        self._first = True

    def only(self, chunk: bytes) -> Event | None:
        """Return the event of a chunk that is one whole line of data, as most servers write it; otherwise None.

        None means that nothing was read: the chunk is for `feed`.
        """
        if (
            chunk.startswith(_DATA)
            and chunk.endswith(b"\n\n")
            and chunk.count(b"\n") == 2
            and b"\r" not in chunk
            and not self._buffer
            and not self._after_cr
            and len(chunk) <= self._cap
            and self.refused is None
        ):
            self._first = False
            return Event(chunk, line=chunk[len(_DATA) : -2])
        return None

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes.

        Raises:
            UpstreamProtocol: an event is longer than the cap, and none came before it in this chunk.
        """
        if self.refused is not None:
            raise self.refused
        if not self._buffer and not self._after_cr and len(chunk) <= self._cap and _is_plain(chunk):
            return self._cut_plain(chunk)
        events: list[Event] = []
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                # The CR that ended the last event was the first half of a CRLF. The LF is passed on by itself, because
                # a client that does not know bare CRs would see no end of the event.
                events.append(Event(b"\n", silent=True))
                chunk = chunk[1:]
        self._buffer += chunk
        start = 0
        while (found := _END.search(self._buffer, max(start, self._searched))) is not None:
            end = found.end(1)
            if end - start > self._cap:
                return self._refuse(events)
            events.append(Event(bytes(self._buffer[start:end]), first=self._first))
            self._first = False
            if end < found.end():
                events.append(Event(bytes(self._buffer[end : found.end()]), silent=True))
            start = self._searched = found.end()
        if start and start == len(self._buffer):
            self._after_cr = self._buffer.endswith(b"\r")
        del self._buffer[:start]
        if len(self._buffer) > self._cap:
            return self._refuse(events)
        # An end is at most four bytes long, so what was searched need not be searched again.
        self._searched = max(0, len(self._buffer) - 3)
        return events

    def _cut_plain(self, chunk: bytes) -> list[Event]:
        first, self._first = self._first, False
        ends = chunk.count(b"\n\n")
        if ends == 1:
            return [Event(chunk, first=first)]
        *raws, last = chunk.split(b"\n\n", ends - 1)
        return [*(Event(raw + b"\n\n", first=first and not at) for at, raw in enumerate(raws)), Event(last)]

    def _refuse(self, events: list[Event]) -> list[Event]:
        self.refused = UpstreamProtocol(
            "the agent sent an event that is too long", detail=f"event over {self._cap} bytes"
        )
        self._buffer.clear()
        if not events:
            raise self.refused
        return events

    @property
    def held(self) -> int:
        """Return the number of bytes behind the last whole event."""
        return len(self._buffer)

    @property
    def rest(self) -> bytes:
        """Return the bytes behind the last whole event."""
        return bytes(self._buffer)

    @property
    def last(self) -> Event | None:
        """Return the event without an end behind the last whole one, or None."""
        return Event(self.rest, first=self._first) if self._buffer else None


def _is_plain(chunk: bytes) -> bool:
    """Return whether a chunk is whole events, each ended by two line feeds alone, as most servers write them."""
    return (
        chunk.endswith(b"\n\n")
        and not chunk.startswith(b"\n")
        and b"\r" not in chunk
        and b"\n\n\n" not in chunk
        and b"\n\n:" not in chunk
    )


def encode(data: bytes, name: str | None = None) -> bytes:
    """Return one event of JSON on one line, without line ends as compact JSON has none.

    The line readers of Python (httpx, and so a2a-sdk) also treat these three as line ends. They occur in strings only,
    where an escape means the same.
    """
    # Quotation marks and dashes begin with the same two bytes.
    if b"\xe2\x80" in data:
        data = data.replace("\u2028".encode(), rb"\u2028").replace("\u2029".encode(), rb"\u2029")
    if b"\xc2\x85" in data:
        data = data.replace("\x85".encode(), rb"\u0085")
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Return the name and the value of a line; a comment has no name."""
    field, _, value = line.partition(b":")
    return field, value[1:] if value[:1] == b" " else value


def _name(value: bytes) -> str:
    return value.decode("utf-8", "replace") or "message"
