"""What a frame from an agent tells of a task: read along the way, never changed.

Any generation and both bindings: 1.0 wraps (`task`, `message`, `statusUpdate`, `artifactUpdate`), 0.3 and 0.1 send bare
objects, JSON-RPC puts either under `result`; and a push configuration tells whose it is. A frame of an unknown shape
tells nothing and is still relayed; one that is no JSON, or no JSON-RPC answer where it should be one, is none.

Names and states are read in every way in which ProtoJSON may write them. A member of another type than it should be is
passed over; where it would have been an id, the frame is not *legible*: who must know what it names cannot pass it.
"""

import codecs
import operator
from typing import TypeVar

import msgspec

from gateway.a2a import document
from gateway.a2a.bounds import SLICE
from gateway.a2a.document import Members
from gateway.a2a.ids import Ambiguous, NestedIds, has_duplicates, nested_ids, nested_in, nested_in_error
from gateway.a2a.push_task import PushConfig, task_of, tasks_of
from gateway.a2a.task_state import SPOKEN

_ABSENT = msgspec.Raw()


class _Status(msgspec.Struct, gc=False):
    # By its number as well, as ProtoJSON may write it (1.0 §5.5).
    state: str | int | float | None = None
    message: msgspec.Raw = _ABSENT
    # Its name in the schema of 0.3.
    update: msgspec.Raw = _ABSENT


class _Named(msgspec.Struct, rename="camel", gc=False):
    """What says in an object which task it is or is about; ProtoJSON may write a name as it was in the schema."""

    id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    session_id: str | None = None
    status: _Status | None = None
    history: msgspec.Raw = _ABSENT
    reference_task_ids: msgspec.Raw = _ABSENT
    other_references: msgspec.Raw = msgspec.field(default=_ABSENT, name="reference_task_ids")
    other_task_id: str | None = msgspec.field(default=None, name="task_id")
    other_context_id: str | None = msgspec.field(default=None, name="context_id")
    # A client that does not tell capitals from small letters takes one of these for the one that is spelled right.
    capital_id: str | None = msgspec.field(default=None, name="Id")
    capital_task_id: str | None = msgspec.field(default=None, name="TaskId")
    capital_context_id: str | None = msgspec.field(default=None, name="ContextId")


class _Object(_Named, gc=False):
    task: _Named | None = None
    message: _Named | None = None
    status_update: _Named | None = None
    artifact_update: _Named | None = None
    artifact: msgspec.Raw = _ABSENT
    tasks: msgspec.Raw = _ABSENT
    kind: str | None = None
    other_message: _Named | None = msgspec.field(default=None, name="msg")
    other_status_update: _Named | None = msgspec.field(default=None, name="status_update")
    other_artifact_update: _Named | None = msgspec.field(default=None, name="artifact_update")
    capital_task: _Named | None = msgspec.field(default=None, name="Task")
    capital_message: _Named | None = msgspec.field(default=None, name="Message")
    capital_status_update: _Named | None = msgspec.field(default=None, name="StatusUpdate")
    capital_artifact_update: _Named | None = msgspec.field(default=None, name="ArtifactUpdate")


class _Error(msgspec.Struct, gc=False):
    code: int


class _Envelope(msgspec.Struct, gc=False):
    jsonrpc: msgspec.Raw = _ABSENT
    id: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


_envelope = msgspec.json.Decoder(_Envelope)
_bare = msgspec.json.Decoder(_Object)
_error = msgspec.json.Decoder(_Error)
_members = msgspec.json.Decoder(Members)
_text = msgspec.json.Decoder(str | None)
_status = msgspec.json.Decoder(_Status | None)

_NAMELESS = frozenset({None, ""})
_UNSET = (_ABSENT, msgspec.Raw(b"null"))
_EMPTY = (*_UNSET, msgspec.Raw(b"[]"))
_VERSIONS = (msgspec.Raw(b'"2.0"'), _ABSENT)
# What an envelope takes beside the values of its members, and the least that a member which stands twice adds to it.
_COMPACT = len('{"jsonrpc":,"id":,"error":}')
_TWICE = len(',"id":0')


class Progress(msgspec.Struct, frozen=True, gc=False):
    """What one frame tells.

    Attributes:
        id: The raw JSON-RPC id; empty where there is none.
        state: The task's state, from `STATES`, or None.
        event: task, message, status, artifact or error: the closed set of the `event` label.
        error: The JSON-RPC error code, or None.
        legible: Whether it names no task and no context but these; not where an id cannot be read, or several tasks are
            named.
        others: What messages within it name beside these, or the details of an error; None for nothing.
    """

    id: bytes = b""
    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    event: str = "other"
    error: int | None = None
    legible: bool = True
    others: NestedIds | None = None


NOTHING = Progress()


def read_jsonrpc(frame: bytes, *, void: bool = False) -> Progress | None:
    """What a JSON-RPC answer or event tells, or None for what is no such answer (JSON-RPC 2.0 §5).

    It is a JSON object in UTF-8 with a result or an error and not both, and no member twice in it or where ids are
    looked for, as clients would differ on which one counts. An error has a code, and the version beside it:
    `{"error": ...}` alone may come from any server on the way. A result may come without the version, and a null error
    beside a result is none.

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
            named = nested_in_error(envelope.error)
        except (msgspec.DecodeError, Ambiguous):
            return None
        return Progress(id=identity, event="error", error=error.code, others=named) if envelope.jsonrpc else None
    if not envelope.result:
        return Progress(id=identity) if void and envelope.jsonrpc else None
    if has_duplicates(envelope.result):
        return None
    try:
        return _tell(_bare.decode(envelope.result), envelope.result, identity)
    except (msgspec.DecodeError, RecursionError):
        return _read_odd(envelope.result, identity)


def read_bare(frame: bytes) -> Progress | None:
    """Read a body or an event of HTTP+JSON.

    None for what is no JSON object in UTF-8, or has a member twice where ids are looked for.
    """
    if not (frame.isascii() or _is_text(frame)) or has_duplicates(frame):
        return None
    try:
        return _tell(_bare.decode(frame), frame, b"")
    except msgspec.ValidationError:
        # The decoder stopped at a member of another type, and what follows may be anything.
        try:
            return _read_piecemeal(_members.decode(frame), frame, b"")
        except (msgspec.DecodeError, RecursionError, Ambiguous):
            return None
    except (msgspec.DecodeError, RecursionError, Ambiguous):
        return None


def read_list(body: bytes) -> Progress | None:
    """What a list tells that is the body of HTTP+JSON, as 0.3 lists push configurations; None for what is no list."""
    if not (body.isascii() or _is_text(body)) or body.lstrip()[:1] != b"[" or has_duplicates(body):
        return None
    return _tell_list(body, b"")


def _is_text(frame: bytes) -> bool:
    """Whether it is UTF-8; the parser does not look into strings that nobody asked for."""
    # In slices, for as text it takes up to four times its length.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(frame), SLICE):
            decoder.decode(frame[start : start + SLICE], final=start + SLICE >= len(frame))
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


def _tell(found: _Object, data: bytes | msgspec.Raw, identity: bytes) -> Progress:  # noqa: C901 - see below
    """What an object tells that has been read; its bytes are read once more where it is none of the usual ones."""
    # In one go and not in two functions: this is done for every event of every stream.
    named: _Named = found
    if _is_crowd(found):
        return _tell_crowd(found, identity)
    if found.task is not None:
        event, named = "task", found.task
    elif found.status_update is not None:
        event, named = "status", found.status_update
    elif found.artifact_update is not None:
        event, named = "artifact", found.artifact_update
    elif found.kind == "artifact-update" or found.artifact is not _ABSENT:
        event = "artifact"
    elif found.kind == "message" or (found.message is not None and found.status is None):
        return _tell_message(found.message or found, identity)
    elif found.status is not None:
        # As in 0.3: what has a task beside its id is news of it.
        news = found.kind or found.task_id or found.other_task_id
        event = "task" if found.id and (not news or found.kind == "task") else "status"
    elif found.other_status_update is not None:
        event, named = "status", found.other_status_update
    elif found.other_artifact_update is not None:
        event, named = "artifact", found.other_artifact_update
    elif found.kind == "task":
        event = "task"
    elif found.other_message is not None:
        return _tell_message(found.other_message, identity)
    else:
        return _tell_other(found, data, identity)
    status = named.status
    task = (named.id or named.task_id) if event == "task" else named.task_id or named.other_task_id or named.id
    context = named.context_id or named.other_context_id or named.session_id
    # Nobody needs more than one name.
    alone = named.other_task_id is named.other_context_id is named.session_id is named.capital_id is None
    alone = alone and named.capital_task_id is named.capital_context_id is None
    return Progress(
        identity,
        task,
        context,
        None if status is None or status.state is None else SPOKEN.get(status.state, "unknown"),
        event,
        None,
        alone or _agrees(named),
        None
        if named.history is _ABSENT and (status is None or status.message is status.update is _ABSENT)
        else nested_ids(
            (named.history, *(() if status is None else (status.message, status.update))), (), task, context
        ),
    )


def _tell_message(named: _Named, identity: bytes) -> Progress:
    task, context = named.task_id or named.other_task_id, named.context_id or named.other_context_id
    refers = [each for each in (named.reference_task_ids, named.other_references) if each not in _EMPTY]
    within = nested_ids((), refers, task, context) if refers else None
    return Progress(identity, task, context, None, "message", None, _agrees(named), within)


def _agrees(named: _Named) -> bool:
    """Whether an object names one task and one context by whatever names it has for them: clients differ on which."""
    tasks = {named.task_id, named.other_task_id} - _NAMELESS
    session = named.session_id
    contexts = {named.context_id, named.other_context_id, None if session is _UNREAD else session} - _NAMELESS
    capitals = ((named.capital_id, {named.id}), (named.capital_task_id, tasks), (named.capital_context_id, contexts))
    alike = all(not capital or capital is _UNREAD or capital in plain for capital, plain in capitals)
    return alike and len(tasks) <= 1 and len(contexts) <= 1


# ---- Several at once -------------------------------------------------------------------------------------------------

_WRAPPERS = (
    "task", "status_update", "artifact_update", "message", "other_status_update", "other_artifact_update",
    "other_message", "capital_task", "capital_message", "capital_status_update", "capital_artifact_update",
)  # fmt: skip
_wrapped = operator.attrgetter(*_WRAPPERS)


def _is_crowd(found: _Object) -> bool:
    """Whether an answer is several things at once, or a list."""
    left_out = _wrapped(found).count(None)
    if left_out == len(_WRAPPERS):
        return found.tasks is not _ABSENT
    is_bare = found.kind or found.id or found.task_id or found.context_id or found.status
    is_bare = is_bare or found.other_task_id or found.other_context_id
    return bool(is_bare) or left_out < len(_WRAPPERS) - 1 or found.tasks is not _ABSENT


def _tell_crowd(found: _Object, identity: bytes) -> Progress:
    """What an answer tells that is several things at once: each client reads another one of them, or all."""
    if found.tasks not in _EMPTY:
        # A list that nobody has gone through.
        return Progress(id=identity, legible=False)
    found.tasks = _ABSENT
    held = [
        _Object(**{name.removeprefix("capital_"): getattr(found, name)})
        for name in _WRAPPERS
        if getattr(found, name) is not None
    ]
    for name in _WRAPPERS:
        setattr(found, name, None)
    told = [_tell(each, b"{}", identity) for each in (*held, found)]
    tasks = {each.task_id for each in told if each.task_id is not None}
    contexts = {each.context_id for each in told if each.context_id is not None}
    within = nested_in(
        [(each, None, ()) for one in told if one.others for each in one.others.tasks]
        + [(None, each, ()) for one in told if one.others for each in one.others.contexts],
        next(iter(tasks), None),
        next(iter(contexts), None),
    )
    agree = len(tasks) <= 1 and len(contexts) <= 1 and _UNREAD not in tasks | contexts and all(t.legible for t in told)
    return msgspec.structs.replace(
        told[0], task_id=next(iter(tasks), None), context_id=next(iter(contexts), None), legible=agree, others=within
    )


# ---- Push configurations ---------------------------------------------------------------------------------------------

_READ_AS = frozenset({
    "task", "tasks", "message", "statusUpdate", "status_update", "artifactUpdate", "artifact_update", "configs",
    "taskId", "task_id", "contextId", "context_id",
})  # fmt: skip
_READ = frozenset(name.replace("_", "").lower() for name in _READ_AS)


def _tell_other(found: _Object, data: bytes | msgspec.Raw, identity: bytes) -> Progress:
    """What an object tells that is neither a task nor news of one: a push configuration, a list of them, or a card."""
    members = _members.decode(data)
    if any(name not in _READ_AS and name.replace("_", "").lower() in _READ for name in members):
        # Some clients do not tell capitals from small letters.
        return Progress(id=identity, legible=False)
    configs = members.get("configs", _ABSENT)
    if bytes(configs)[:1] == b"[":
        return _tell_list(configs, identity)
    config = PushConfig(
        id=found.id,
        task_id=found.task_id,
        other_task_id=found.other_task_id,
        name=_read_text(members.get("name")),
        push_notification_config=members.get("pushNotificationConfig", _ABSENT),
        other_push_notification_config=members.get("push_notification_config", _ABSENT),
    )
    context = found.context_id or found.other_context_id or found.session_id
    # Nothing else that has an id is in a context.
    task = task_of(config) or (found.id if context is not None else None)
    within = nested_ids((found.history,), (found.reference_task_ids, found.other_references), task, context)
    if within is None and "error" in members:
        within = nested_in_error(members["error"])
    return Progress(id=identity, task_id=task, context_id=context, others=within)


def _tell_list(data: bytes | msgspec.Raw, identity: bytes) -> Progress:
    """What a list tells: the one task that all of it is of."""
    tasks = tasks_of(data)
    if tasks is None or len(tasks) > 1:
        return Progress(id=identity, legible=False)
    return Progress(id=identity, task_id=next(iter(tasks), None))


# ---- What is of another type than it should be -----------------------------------------------------------------------

_UNREAD = "an id that cannot be read"
"""Stands for what should be an id, by being this very object."""
_NOWHERE = _Named(_UNREAD, _UNREAD, _UNREAD)
_MESSAGES = frozenset({"message", "other_message", "capital_message"})
_WRITTEN_AS = {each.name: each.encode_name for each in msgspec.structs.fields(_Object)}


def _read_odd(result: msgspec.Raw, identity: bytes) -> Progress:
    """What a result tells that is no object, or in which a member is of another type than it should be."""
    first = bytes(result)[:1]
    if first == b"[":
        return _tell_list(result, identity)
    if first != b"{":
        return Progress(id=identity)
    try:
        return _read_piecemeal(_members.decode(result), result, identity)
    except (msgspec.DecodeError, RecursionError):
        return Progress(id=identity, legible=False)


def _read_piecemeal(members: Members, data: bytes | msgspec.Raw, identity: bytes) -> Progress:
    """What an object tells of which each member may be of any type."""
    found = _read_named(members, _Object())
    for attribute in _WRAPPERS:
        held = _read_object(members.get(_WRITTEN_AS[attribute]))
        # What is no object names nothing: a text, as pages of errors have one.
        if held is not _NOWHERE or attribute not in _MESSAGES:
            setattr(found, attribute, held)
        elif attribute != "other_message":
            setattr(found, attribute, _Named())
    found.artifact = members.get("artifact", _ABSENT)
    found.tasks = members.get("tasks", _ABSENT)
    kind = _read_text(members.get("kind"))
    found.kind = None if kind is _UNREAD else kind
    told = _tell(found, data, identity)
    if told.task_id is not _UNREAD and told.context_id is not _UNREAD:
        return told
    task = None if told.task_id is _UNREAD else told.task_id
    context = None if told.context_id is _UNREAD else told.context_id
    return msgspec.structs.replace(told, task_id=task, context_id=context, legible=False)


_N = TypeVar("_N", bound=_Named)


def _read_named(members: Members, named: _N) -> _N:
    for attribute, name in _WRITTEN_AS.items():
        if name.lower().endswith("id"):
            setattr(named, attribute, _read_text(members.get(name)))
    named.history = members.get("history", _ABSENT)
    named.reference_task_ids = members.get("referenceTaskIds", _ABSENT)
    named.other_references = members.get("reference_task_ids", _ABSENT)
    status = members.get("status")
    if status is not None:
        try:
            named.status = _status.decode(status)
        except (msgspec.DecodeError, RecursionError):
            # It makes a task of what has an id, and has a message all the same.
            named.status = _read_status(status) if named.id or named.task_id or named.other_task_id else None
    return named


def _read_status(raw: msgspec.Raw) -> _Status:
    try:
        members = _members.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _Status()
    return _Status(None, members.get("message", _ABSENT), members.get("update", _ABSENT))


def _read_object(raw: msgspec.Raw | None) -> _Named | None:
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return _read_named(_members.decode(raw), _Named())
    except (msgspec.DecodeError, RecursionError):
        return _NOWHERE


def _read_text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    try:
        text: str | None = _text.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _UNREAD
    return text
