"""What a frame from an agent tells of a task: read along the way, never changed.

Any generation and both bindings: 1.0 wraps (`task`, `message`, `statusUpdate`, `artifactUpdate`), 0.3 and 0.1 send bare
objects, JSON-RPC puts either under `result`. A frame of an unknown shape tells nothing and is still relayed; one that
is no JSON, or no JSON-RPC answer where it should be one, is none.
"""

import math
from typing import Optional

import msgspec

from gateway.a2a import document


class _Status(msgspec.Struct, gc=False):
    state: str | None = None


class _Object(msgspec.Struct, rename="camel", gc=False):
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


class _Error(msgspec.Struct, gc=False):
    code: int


class _Envelope(msgspec.Struct, gc=False):
    jsonrpc: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_envelope = msgspec.json.Decoder(_Envelope)
_bare = msgspec.json.Decoder(_Object)
_error = msgspec.json.Decoder(_Error)
_members = msgspec.json.Decoder(document.Members)

_ABSENT = msgspec.Raw()
_UNSET = (_ABSENT, msgspec.Raw(b"null"))
_VERSIONS = (msgspec.Raw(b'"2.0"'), _ABSENT)
# Six characters for each of the 512 that an id may have (`bindings.jsonrpc`), were all of them escaped.
_LONGEST_ID = 6 * 512
# What an envelope takes beside the values of its members, and the least that a member which stands twice adds to it.
_COMPACT = len('{"jsonrpc":,"id":,"error":}')
_TWICE = len(',"id":0')

STATES = (
    "submitted", "working", "input-required", "auth-required", "completed", "canceled", "failed", "rejected", "unknown",
)  # fmt: skip
"""The closed set of task states, as metrics and logs spell them."""

_STATES = {f"TASK_STATE_{state.upper().replace('-', '_')}": state for state in STATES} | {
    state: state for state in STATES
}
_STATES["TASK_STATE_CANCELLED"] = "canceled"
_STATES["TASK_STATE_UNSPECIFIED"] = "unknown"


def state_of(word: str) -> str:
    """The state of `STATES` that a word of any generation means."""
    return _STATES.get(word, "unknown")


class Progress(msgspec.Struct, frozen=True, gc=False):
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


def read_jsonrpc(frame: bytes, *, void: bool = False) -> Progress | None:
    """What a JSON-RPC answer or event tells, or None for what is no such answer (JSON-RPC 2.0 §5).

    It is a JSON object in UTF-8 with a result or an error and not both, and nothing of that twice, for clients would
    differ on which one counts. An error has a code, and the version beside it: `{"error": ...}` alone may come from any
    server on the way. A result may come without the version, and a null error beside a result is none.

    Args:
        void: Whether the answer may have neither: a2a-go leaves a null result out (protocol §4.3).
    """
    if not (frame.isascii() or _is_text(frame)):
        return None
    try:
        envelope = _envelope.decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return None
    failed = envelope.error not in _UNSET
    if (failed and envelope.result not in _UNSET) or envelope.jsonrpc not in _VERSIONS:
        return None
    # Written as most write it, with a space here and there, it has no place for a member that stands twice.
    values = len(envelope.jsonrpc) + len(envelope.id) + len(envelope.result) + len(envelope.error)
    spare = len(frame) - values - _COMPACT
    if (spare >= _TWICE or not envelope.jsonrpc or not envelope.id) and _has_twins(frame):
        return None
    identity = bytes(envelope.id)
    if failed:
        try:
            error = _error.decode(envelope.error)
        except msgspec.DecodeError:
            return None
        return Progress(id=identity, event="error", error=error.code) if envelope.jsonrpc else None
    if not envelope.result:
        return Progress(id=identity) if void and envelope.jsonrpc else None
    try:
        return _read(_bare.decode(envelope.result), identity)
    except (msgspec.DecodeError, RecursionError):
        # A list, a null, a member of another type: an answer all the same.
        return Progress(id=identity)


def read_bare(frame: bytes) -> Progress | None:
    """What the body or an event of HTTP+JSON tells, or None for what is no JSON object in UTF-8."""
    if not (frame.isascii() or _is_text(frame)):
        return None
    try:
        return _read(_bare.decode(frame), b"")
    except msgspec.ValidationError:
        # A member of another type; the decoder stopped there, and what follows may be anything.
        try:
            _members.decode(frame)
        except (msgspec.DecodeError, RecursionError):
            return None
        return NOTHING
    except (msgspec.DecodeError, RecursionError):
        return None


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


def _is_text(frame: bytes) -> bool:
    """Whether it is UTF-8; the parser does not look into strings that nobody asked for."""
    try:
        str(frame, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_twins(frame: bytes) -> bool:
    """Whether an envelope has a member twice."""
    try:
        return document.has_twins(frame, _members.decode(frame))
    except (msgspec.DecodeError, RecursionError):
        # Its own members were read, but one that is none of them has a name that is no text.
        return True


def _double(number: float) -> float:
    """The number as most parsers read it; an integer beyond all doubles is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _context(message: msgspec.Raw) -> str | None:
    """That of a message, where it is wrapped."""
    if message == _ABSENT:
        return None
    try:
        return _bare.decode(message).context_id
    except (msgspec.DecodeError, RecursionError):
        return None


def _read(found: _Object, identity: bytes) -> Progress:
    # In one go and not in two functions: this is done for every event of every stream.
    if found.task is not None:
        event, found = "task", found.task
    elif found.status_update is not None:
        event, found = "status", found.status_update
    elif found.artifact_update is not None:
        event, found = "artifact", found.artifact_update
    elif found.kind == "artifact-update" or found.artifact != _ABSENT:
        event = "artifact"
    elif found.kind == "message" or found.message != _ABSENT:
        return Progress(id=identity, context_id=found.context_id or _context(found.message), event="message")
    elif found.status is not None:
        event = "task" if found.kind in (None, "task") and found.id else "status"
    else:
        return Progress(id=identity, task_id=found.task_id, context_id=found.context_id)
    status = found.status
    return Progress(
        id=identity,
        task_id=found.id if found.task_id is None else found.task_id,
        context_id=found.session_id if found.context_id is None else found.context_id,
        state=None if status is None or status.state is None else _STATES.get(status.state, "unknown"),
        event=event,
    )
