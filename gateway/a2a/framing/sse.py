"""Server-sent events, bytes in and events out (WHATWG HTML §9.2).

States: between events, inside an event. A line ends with LF, CRLF or CR; an empty line ends an event. Refused: an
event longer than the cap, which is never shortened. The bytes of an event are kept as they came, so that a relay
passes on what the agent wrote; `data` is read from them only by those who look inside.
"""

import re
from dataclasses import dataclass

from gateway.a2a.fault import UpstreamProtocol

_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_BOM = b"\xef\xbb\xbf"

HEARTBEAT = b": keep-alive\n\n"
"""A comment that says the stream is alive; clients ignore it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its bytes as they came, with the empty line that ends it."""

    raw: bytes

    def read(self) -> tuple[str, bytes] | None:
        """The event's name and its data, lines joined by LF; None for comments and events without data."""
        name = "message"
        lines: list[bytes] = []
        for line in self.raw.removeprefix(_BOM).splitlines():
            field, colon, value = line.partition(b":")
            if not field:
                continue
            if colon and value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                lines.append(value)
            elif field == b"event":
                name = value.decode("utf-8", "replace") or "message"
        return (name, b"\n".join(lines)) if lines else None


class SseDecoder:
    """Cuts a byte stream into events; chunk borders do not matter.

    Args:
        cap: Longest event in bytes.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._buffer = bytearray()
        self._searched = 0
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes.

        Raises:
            UpstreamProtocol: an event is longer than the cap.
        """
        events: list[Event] = []
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                # The CR that ended the last event was the first half of a CRLF. The other half is passed on by itself,
                # for a client that does not know bare CRs would see no end of the event.
                events.append(Event(b"\n"))
                chunk = chunk[1:]
        self._buffer += chunk
        start = 0
        while (found := _END.search(self._buffer, max(start, self._searched))) is not None:
            raw = bytes(self._buffer[start : found.end()])
            if len(raw) > self._cap:
                raise UpstreamProtocol("the agent sent an event that is too long", detail=f"event over {self._cap}")
            events.append(Event(raw))
            start = self._searched = found.end()
        if start and start == len(self._buffer):
            self._after_cr = self._buffer.endswith(b"\r")
        del self._buffer[:start]
        if len(self._buffer) > self._cap:
            raise UpstreamProtocol("the agent sent an event that is too long", detail=f"event over {self._cap}")
        # An end is at most four bytes long, so what was searched need not be searched again.
        self._searched = max(0, len(self._buffer) - 3)
        return events

    @property
    def rest(self) -> bytes:
        """What stands behind the last whole event: an event that nobody ended."""
        return bytes(self._buffer)


def encode(data: bytes, name: str | None = None) -> bytes:
    """One event; `data` has no line ends, as compact JSON has none."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"
