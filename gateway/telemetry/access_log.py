"""The access log: one line of fields per exchange, written off the event loop; the last lines stay in memory."""

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import BinaryIO, NamedTuple, cast

import msgspec

from gateway.telemetry.log_output import CAPACITY, GREEN, GREY, RED, YELLOW, Form, RotatedFile, Sink, coloured

LONGEST = 256
"""Longest value in characters, because clients choose the values."""

DIGITS = 6
"""Decimal places of numbers."""
_OTHER_FIELDS = ("reason", "detail", "rpc_code", "task_state", "a2a_tenant", "events", "closed_by", "request_id")


class AccessLog:
    """Writes one line per exchange: JSON with all fields, or text for people with the most important ones.

    Args:
        streams: Whether the pipeline also writes a line when a stream opens.

    A value is a string, a number or a bool; others are written as text. Values are cut at `LONGEST` characters. Absent
    values are null in JSON and left out of text. Lines are pure ASCII, so that client data can neither start a new
    line nor control a terminal.

    Attributes:
        recent: The last lines, without those of streams that opened.
    """

    def __init__(
        self, stream: BinaryIO, *, form: Form = "json", capacity: int = CAPACITY, streams: bool = False
    ) -> None:
        self.recent = RecentRequests()
        self.streams = streams
        self._form = form
        self._stream = stream
        self._sink = Sink(stream, capacity=capacity)

    @property
    def dropped(self) -> int:
        """Return the number of lost lines, because of a full queue, a full disk or a closed pipe."""
        return self._sink.dropped

    def write(self, line: Mapping[str, object], *, flat: bool = False, recent: bool = True) -> None:
        """Queue one line with the current time as `time`; never blocks.

        Args:
            flat: Whether all values were already returned by `flat`.
            recent: Whether it is one of the last lines.
        """
        # Rendered here, and only written in the sink's thread: that takes a few microseconds, less than two threads
        # that compete for the GIL.
        try:
            seconds = time.time()  # noqa: TID251 - a log line tells the time of day
            now = _clock_time(seconds)
            if not flat:
                line = _flat(line)
            if recent:
                self.recent.add(seconds, line)
            text = _json(now, line) if self._form == "json" else _text(now, line, in_colour=self._form == "colour")
        except Exception:  # noqa: BLE001 - one line that cannot be rendered must not end a request
            self._sink.miss()
            return
        self._sink.write(text)

    def close(self, timeout: float = 2.0) -> None:
        """Write queued lines, for at most `timeout` seconds; a file is closed, standard output is not."""
        self._sink.close(timeout)
        if isinstance(self._stream, RotatedFile):
            self._stream.close()


def short(text: str | None) -> str | None:
    """Return the text, cut to the longest value."""
    return text if text is None or len(text) <= LONGEST else text[:LONGEST] + "…"


def flat(value: object) -> object:
    """Return the value in the form of a line."""
    kind = type(value)
    # In the order of frequency: most values are absent, or short texts.
    if value is None or kind is int or kind is bool:
        return value
    if kind is float:
        number = cast("float", value)  # by its type
        # JSON has no NaN and no infinity.
        return round(number, DIGITS) if math.isfinite(number) else str(number)
    return short(str(value))


def _flat(line: Mapping[str, object]) -> dict[str, object]:
    return {name: flat(value) for name, value in line.items()}


def _clock_time(now: float) -> str:
    whole = int(now)
    return f"{_to_the_second(whole)}{int((now - whole) * 1000):03d}Z"


@lru_cache(maxsize=4)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.")


def _json(now: str, fields: Mapping[str, object]) -> bytes:
    try:
        line = _encoder.encode(fields)
    except UnicodeEncodeError:
        # Half a surrogate pair.
        line = b""
    # Text beyond plain ASCII is escaped by the slower library: terminals interpret characters that JSON allows.
    if not line or not line.isascii() or b"\x7f" in line:
        line = json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b'{"time":"%b"%b%b\n' % (now.encode("ascii"), b"," if len(line) > _EMPTY else b"", line[1:])


_EMPTY = len(b"{}")
_encoder = msgspec.json.Encoder()


_COLOURS = {"ok": GREEN, "open": GREEN, "upstream_error": RED, "gateway_error": RED, "task_failed": RED}
"""By outcome; the fault of a client is yellow."""


def _text(now: str, fields: Mapping[str, object], *, in_colour: bool) -> bytes:
    """Return a line for people: time, caller, agent, operation, result; the rest as `name=value`."""
    duration = fields.get("duration_s")
    result = f"{_value_of(fields, 'status')} {_value_of(fields, 'outcome')}"
    if in_colour:
        now, result = coloured(now, GREY), coloured(result, _COLOURS.get(str(fields.get("outcome")), YELLOW))
    words = [
        now,
        result,
        _value_of(fields, "tenant"),
        "->",
        *(_value_of(fields, name) for name in ("agent", "operation", "method", "path")),
        f"{duration * 1000:.1f}ms" if isinstance(duration, float) else "-",
        *(f"{name}={_quoted(fields[name])}" for name in _OTHER_FIELDS if fields.get(name)),
    ]
    return (" ".join(words) + "\n").encode("ascii")


def _value_of(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return "-" if value is None else _quoted(value)


def _quoted(value: object) -> str:
    """Return the value, quoted as in JSON unless it is one plain word."""
    if isinstance(value, str) and value and value.isascii() and value.isprintable() and not set(value) & set(' "='):
        return value
    return json.dumps(value, ensure_ascii=True)


# ---- the last requests, for the page of the admin listener -----------------------------------------------------------


RECENT = 200
"""Lines that are kept in memory."""


class Recent(NamedTuple):
    """One line of the access log.

    Attributes:
        number: Its place in the order of all lines, from 1.
        time: Unix seconds at which it was written.
        fields: The fields of the access log, cut as there; no payload and no credential.
    """

    number: int
    time: float
    fields: Mapping[str, object]


class RecentRequests:
    """Keeps the last lines of the access log, and notifies followers of new ones.

    A follower that reads slowly misses lines that were replaced; nothing is queued for it.
    """

    def __init__(self, capacity: int = RECENT) -> None:
        self._lines: deque[tuple[float, Mapping[str, object]]] = deque(maxlen=capacity)
        self._count = 0
        self._followers: set[asyncio.Event] = set()
        self.closed = False

    @property
    def followers(self) -> int:
        """Return the number of followers."""
        return len(self._followers)

    def add(self, time: float, fields: Mapping[str, object]) -> None:
        """Add a line, which replaces the oldest; its fields must not change any more."""
        self._count += 1
        self._lines.append((time, fields))
        for follower in self._followers:
            follower.set()

    def since(self, number: int = 0) -> list[Recent]:
        """Return the kept lines behind a number, the oldest first."""
        lines = list(self._lines)
        first = self._count - len(lines) + 1
        found = [Recent(first + place, *line) for place, line in enumerate(lines)]
        return found[max(0, number + 1 - first) :]

    def follow(self) -> asyncio.Event:
        """Return an event that is set whenever there is a new line, until it is given to `leave`."""
        event = asyncio.Event()
        self._followers.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Remove a follower's event."""
        self._followers.discard(event)

    def close(self) -> None:
        """Wake all followers at the end."""
        self.closed = True
        for follower in self._followers:
            follower.set()
