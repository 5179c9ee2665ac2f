"""The id of a JSON-RPC answer, as it comes back from servers that do not keep it byte for byte."""

import math

import msgspec

# Six characters for each of the 512 that an id may have (`bindings.jsonrpc`), were all of them escaped.
_LONGEST_ID = 6 * 512


def answers(frame_id: bytes, call_id: bytes) -> bool:
    """Whether an answer's raw id may be that of a call.

    Some servers leave the id out of errors or write null; some read numbers as doubles and change large ones; a string
    may come back with other escapes.
    """
    if frame_id in (b"", b"null", call_id):
        return True
    if len(frame_id) > _LONGEST_ID:
        return False
    try:
        answered, called = msgspec.json.decode(frame_id), msgspec.json.decode(call_id)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    if isinstance(answered, bool):
        return False
    if isinstance(answered, int | float) and isinstance(called, int):
        return _double(answered) == _double(called)
    return bool(answered == called)


def _double(number: float) -> float:
    """The number as most parsers read it; an integer beyond all doubles is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
