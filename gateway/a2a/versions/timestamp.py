"""Moments as the hub writes them: ISO 8601 in UTC with a `Z` (1.0 §5.6.1, RFC 3339).

Older generations have a free string, so their peers write offsets or no zone at all, and a parser of
`google.protobuf.Timestamp` refuses both. A moment without a zone is taken for UTC. Digits of a second are kept as they
are, up to the nine that a timestamp holds.
"""

import re
from datetime import datetime, timedelta

_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:[.,]([0-9]{1,64}))?"
    r"(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2}))?"
)
_WRITTEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z")
_DIGITS = 9


def to_utc(text: str) -> str | None:
    """The moment that a text names, as the hub writes it; None where it names none, or one outside years 1 to 9999."""
    try:
        if _WRITTEN.fullmatch(text) is not None:
            datetime.fromisoformat(text[:19])
            return text
        found = _MOMENT.fullmatch(text)
        return None if found is None else _written(found)
    except (ValueError, OverflowError):
        return None


def _written(found: re.Match[str]) -> str:
    day, minutes, seconds, digits, _, sign, hours, rest = found.groups()
    moment = datetime.fromisoformat(f"{day}T{minutes}{seconds or ':00'}")
    if sign is not None:
        # Seconds and their digits are the same in every zone.
        moment -= _offset(sign, hours, rest)
    return f"{moment.isoformat()}.{digits[:_DIGITS]}Z" if digits else f"{moment.isoformat()}Z"


def _offset(sign: str, hours: str, minutes: str) -> timedelta:
    if hours > "23" or minutes > "59":
        raise ValueError("an offset is shorter than a day")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return offset if sign == "+" else -offset
