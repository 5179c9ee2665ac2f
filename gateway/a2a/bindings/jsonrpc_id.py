"""JSON-RPC ids of answers, compared with those of calls: not all servers keep them byte for byte."""

import math

import msgspec

from gateway.a2a.json import put

# Six characters for each of the 512 that an id may have (`bindings.jsonrpc`), were all of them escaped.
_LONGEST_ID = 6 * 512
_UNSAID = frozenset({b"", b"null"})


def answers(frame_id: bytes, call_id: bytes) -> bool:
    """Return whether an answer's raw id may be that of a call.

    Some servers leave the id out of errors or write null; some read numbers as doubles and change large ones; a string
    may come back with other escapes.
    """
    return frame_id in _UNSAID or _is_same(frame_id, call_id, as_doubles=True)


def is_same(frame_id: bytes, call_id: bytes) -> bool:
    """Return whether two raw ids have the same value, so that clients take the one for the other."""
    return frame_id == call_id or (frame_id not in _UNSAID and _is_same(frame_id, call_id, as_doubles=False))


def _is_same(frame_id: bytes, call_id: bytes, *, as_doubles: bool) -> bool:
    if frame_id == call_id:
        return True
    if len(frame_id) > _LONGEST_ID:
        return False
    try:
        answered, called = msgspec.json.decode(frame_id), msgspec.json.decode(call_id)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    if isinstance(answered, bool):
        return False
    if as_doubles and isinstance(answered, int | float) and isinstance(called, int):
        return _double(answered) == _double(called)
    return bool(answered == called)


def with_id(frame: bytes, identity: bytes) -> bytes:
    """Return a JSON-RPC answer under another raw id; all other values keep their bytes."""
    return put(frame, ("id",), identity)


def _double(number: float) -> float:
    """Return the number as most parsers read it; an integer beyond all doubles is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
