"""What a frame from an agent tells of a task: read along the way, never changed.

Any generation and both bindings: 1.0 wraps (`task`, `message`, `statusUpdate`, `artifactUpdate`), 0.3 and 0.1 send bare
objects, JSON-RPC puts either under `result`. A frame that cannot be read tells nothing; it is still relayed.
"""

import math
from dataclasses import dataclass
from typing import Optional

import msgspec


class _Status(msgspec.Struct):
    state: str | None = None


class _Object(msgspec.Struct, rename="camel"):
    id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    session_id: str | None = None
    status: _Status | None = None
    task: Optional["_Object"] = None
    message: msgspec.Raw = msgspec.Raw()
    status_update: Optional["_Object"] = None
    artifact_update: Optional["_Object"] = None
    artifact: msgspec.Raw = msgspec.Raw()
    kind: str | None = None


class _Error(msgspec.Struct):
    code: int | None = None


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_envelope = msgspec.json.Decoder(_Envelope)
_bare = msgspec.json.Decoder(_Object)
_error = msgspec.json.Decoder(_Error | None)

STATES = (
    "submitted", "working", "input-required", "auth-required", "completed", "canceled", "failed", "rejected", "unknown",
)  # fmt: skip
"""The closed set of task states, as metrics and logs spell them."""

_STATES = {f"TASK_STATE_{state.upper().replace('-', '_')}": state for state in STATES} | {
    state: state for state in STATES
}
_STATES["TASK_STATE_CANCELLED"] = "canceled"
_STATES["TASK_STATE_UNSPECIFIED"] = "unknown"


@dataclass(frozen=True, slots=True)
class Progress:
    """What one frame tells.

    Attributes:
        id: The raw JSON-RPC id; empty where there is none.
        state: The task's state, from `STATES`, or None.
        event: task, message, status, artifact or error: the closed set of the `event` label.
        error: The JSON-RPC error code, or None.
    """

    id: bytes = b""
    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    event: str = "other"
    error: int | None = None


NOTHING = Progress()


def read_jsonrpc(frame: bytes) -> Progress | None:
    """What a JSON-RPC answer or event tells, or None for what is no JSON object at all."""
    try:
        envelope = _envelope.decode(frame)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    identity = bytes(envelope.id)
    try:
        error = _error.decode(envelope.error) if bytes(envelope.error) else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        error = _Error()
    if error is not None:
        return Progress(id=identity, event="error", error=error.code or 0)
    try:
        return _read(_bare.decode(envelope.result), identity)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        # A list, a null, a member of another type: an answer all the same.
        return Progress(id=identity)


def read_bare(frame: bytes) -> Progress:
    """What the body or an event of HTTP+JSON tells."""
    try:
        return _read(_bare.decode(frame), b"")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return NOTHING


def answers(frame_id: bytes, call_id: bytes) -> bool:
    """Whether an answer's raw id may be that of a call.

    Some servers leave the id out of errors or write null; some read numbers as doubles and change large ones; a string
    may come back with other escapes.
    """
    if frame_id in (b"", b"null", call_id):
        return True
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


def _read(found: _Object, identity: bytes) -> Progress:
    if found.task is not None:
        return _of(found.task, "task", identity)
    if found.status_update is not None:
        return _of(found.status_update, "status", identity)
    if found.artifact_update is not None:
        return _of(found.artifact_update, "artifact", identity)
    if found.kind == "artifact-update" or bytes(found.artifact):
        return _of(found, "artifact", identity)
    if found.kind == "message" or bytes(found.message):
        return Progress(id=identity, context_id=found.context_id, event="message")
    if found.status is not None:
        return _of(found, "task" if found.kind in (None, "task") and found.id else "status", identity)
    return Progress(id=identity, task_id=found.task_id, context_id=found.context_id)


def _of(found: _Object, event: str, identity: bytes) -> Progress:
    state = None if found.status is None or found.status.state is None else _STATES.get(found.status.state, "unknown")
    task = found.task_id if found.task_id is not None else found.id
    context = found.context_id if found.context_id is not None else found.session_id
    return Progress(id=identity, task_id=task, context_id=context, state=state, event=event)
