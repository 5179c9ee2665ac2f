"""The access log: one line per exchange, fields and not sentences, written off the event loop."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import BinaryIO, Literal

from gateway.telemetry.sink import CAPACITY, Sink

LONGEST = 256
"""Characters of a value that are kept; what a client sends must not decide how long a line is."""

_ROUND = 6
_ALSO = ("reason", "detail", "rpc_code", "task_state", "a2a_tenant", "events", "closed_by", "request_id")


class AccessLog:
    """Writes one line per exchange: JSON with every field, or text for people with those that matter most.

    A value is a string, a number or a bool; anything else is written as its text. Values longer than `LONGEST`
    characters are cut. What is absent is null in JSON, so that every line has the same fields, and left out of text.
    Lines are pure ASCII: what a client put into a path or an id can neither start a new line nor reach a terminal as a
    command.
    """

    def __init__(self, stream: BinaryIO, *, form: Literal["json", "text"] = "json", capacity: int = CAPACITY) -> None:
        render = _json if form == "json" else _text
        self._sink: Sink[tuple[datetime, Mapping[str, object]]] = Sink(
            stream, lambda item: render(_flat(*item)), capacity=capacity
        )

    @property
    def dropped(self) -> int:
        """How many lines were never written: the queue was full, or the disk, or the pipe was closed."""
        return self._sink.dropped

    def write(self, line: Mapping[str, object]) -> None:
        """Queue one line, with the time of now as `time`; never blocks. The mapping must not change afterwards."""
        self._sink.write((datetime.now(tz=UTC), line))

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, for at most `timeout` seconds."""
        self._sink.close(timeout)


def _flat(now: datetime, line: Mapping[str, object]) -> dict[str, object]:
    fields: dict[str, object] = {"time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    for name, value in line.items():
        fields[name] = None if value is None else _value(value)
    return fields


def _value(value: object) -> object:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        # JSON has no NaN and no infinity.
        return round(value, _ROUND) if math.isfinite(value) else str(value)
    text = str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def _text(fields: Mapping[str, object]) -> bytes:
    """A line for people: when, who, to which agent, what, and how it went; what else matters as `name=value`."""
    duration = fields.get("duration_s")
    words = [
        str(fields["time"]),
        *(_known(fields, name) for name in ("status", "outcome", "tenant")),
        "->",
        *(_known(fields, name) for name in ("agent", "operation", "method", "path")),
        f"{duration * 1000:.1f}ms" if isinstance(duration, float) else "-",
        *(f"{name}={_word(fields[name])}" for name in _ALSO if fields.get(name)),
    ]
    return (" ".join(words) + "\n").encode("ascii")


def _known(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return "-" if value is None else _word(value)


def _word(value: object) -> str:
    """The value, quoted as in JSON if it is not one plain word."""
    if isinstance(value, str) and value and value.isascii() and value.isprintable() and not set(value) & set(' "='):
        return value
    return json.dumps(value, ensure_ascii=True)
