"""Task, context and state in a frame from an agent: read on its way to the client, never changed.

All generations and both JSON bindings are read: 1.0 wraps (`task`, `message`, `statusUpdate`, `artifactUpdate`), 0.3
and 0.1 send bare objects, JSON-RPC has either under `result`; a push configuration names its task. A frame of an
unknown form has no progress and is still relayed. A frame that is not JSON, or not a JSON-RPC answer over JSON-RPC, is
refused.

Names and states are read in every spelling of ProtoJSON. A member of a wrong type is ignored; if it is an id, the frame
is not *legible*, and is withheld if owners are recorded.
"""

import operator
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.json import UNREADABLE, Members, decode_members
from gateway.a2a.nested_ids import Ambiguous, NestedIds, has_duplicates, nested_ids, nested_in, nested_in_error
from gateway.a2a.task_state import SPOKEN

_ABSENT = msgspec.Raw()


class _Status(msgspec.Struct, gc=False):
    # ProtoJSON may write its number (1.0 §5.5).
    state: str | int | float | None = None
    message: msgspec.Raw = _ABSENT
    # The name of `message` in the schema of 0.3.
    update: msgspec.Raw = _ABSENT


class _Named(msgspec.Struct, rename="camel", gc=False):
    """The members of an object that name its task; ProtoJSON may also write a name as in the schema."""

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
    # A client that ignores case reads one of these as the id.
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


class _Part(msgspec.Struct, gc=False):
    text: msgspec.Raw = _ABSENT


class _Artifact(msgspec.Struct, gc=False):
    parts: list[_Part] = []


_bare = msgspec.json.Decoder(_Object)
_artifact = msgspec.json.Decoder(_Artifact)
_error = msgspec.json.Decoder(_Error)
_text = msgspec.json.Decoder(str | None)
_status = msgspec.json.Decoder(_Status | None)

_NAMELESS = frozenset({None, ""})
_UNSET = (_ABSENT, msgspec.Raw(b"null"))
_EMPTY = (*_UNSET, msgspec.Raw(b"[]"))
_SPACED = b'": '
_PART = re.compile(rb'\{"artifactUpdate": ?\{')
_OF_PART = frozenset({"taskId", "contextId", "artifact", "append", "lastChunk"})
_LEAST = len(',"append":0')
_MOST_TRIES = 8
"""Events of one stream whose bytes around the text are kept, each in place of the one before."""
_MOST_AROUND = 4096
"""Bytes around a text that are kept for a stream."""
PLAIN = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""ASCII characters that need no escape in a JSON string."""
_value = msgspec.json.Decoder(msgspec.Raw)
_wrapped_members = msgspec.json.Decoder(dict[str, Members])
_encode = msgspec.json.Encoder().encode
_SHORT = 64 * 1024
"""Bytes of a frame up to which the spaces between its tokens are removed first."""


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The task, context and state of one frame.

    Attributes:
        id: The raw JSON-RPC id; empty where there is none.
        state: The task's state, from `STATES`, or None.
        event: task, message, status, artifact or error: the closed set of the `event` label.
        error: The JSON-RPC error code, or None.
        legible: Whether all its ids were read; False if an id cannot be read, or it has several tasks.
        others: Further ids in its messages, or in the details of its error; None if there are no others.
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


def read_result(result: bytes, identity: bytes) -> Progress | None:
    """Read the result of a JSON-RPC answer; None if it has a duplicate member where ids are looked for.

    Args:
        identity: The raw id of the answer.
    """
    if _PART.match(result) and (progress := _read_part(result, identity)) is not None:
        return progress
    try:
        result = _compact(result) if _SPACED in result else result
        return None if has_duplicates(result) else _object_progress(_bare.decode(result), result, identity)
    except UNREADABLE:
        return _read_unusual(msgspec.Raw(result), identity)
    except Ambiguous:
        return None


def read_error(error: bytes, identity: bytes) -> Progress | None:
    """Read the error of a JSON-RPC answer; None if it has no code, or a duplicate member."""
    try:
        code = _error.decode(error).code
        named = nested_in_error(error)
    except (msgspec.DecodeError, Ambiguous):
        return None
    return Progress(id=identity, event="error", error=code, others=named)


def read_bare(frame: bytes) -> Progress | None:
    """Read a body or event of HTTP+JSON; None if it is not a JSON object in UTF-8, or has a duplicate id member."""
    if not (frame.isascii() or strict_json.is_utf8(frame)):
        return None
    if _PART.match(frame) and (progress := _read_part(frame, b"")) is not None:
        return progress
    try:
        frame = _compact(frame) if _SPACED in frame else frame
    except UNREADABLE:
        return None
    if has_duplicates(frame):
        return None
    try:
        return _object_progress(_bare.decode(frame), frame, b"")
    except msgspec.ValidationError:
        # The decoder stopped at a member of a wrong type; the members after it were not checked.
        try:
            return _read_piecemeal(decode_members(frame), frame, b"")
        except (*UNREADABLE, Ambiguous):
            return None
    except (*UNREADABLE, Ambiguous):
        return None


def _read_part(result: bytes, identity: bytes) -> Progress | None:
    """Return the progress of an artifact event of 1.0 in its usual form; None if the general reader has to read it.

    Most events of streams have this form. The object is encoded again, as in `has_duplicates`: if the result is shorter
    by less than the length of a member, only space was dropped.
    """
    try:
        outer = _wrapped_members.decode(result)
        members = outer["artifactUpdate"]
        if len(outer) > 1 or members.keys() - _OF_PART or len(result) - len(_encode(outer)) >= _LEAST:
            return None
        task, context = _text.decode(members["taskId"]), _text.decode(members["contextId"])
    except (*UNREADABLE, KeyError):
        return None
    return Progress(identity, task or None, context or None, None, "artifact")


class EventReader:
    """Reads the events of one stream; an event that differs from an earlier one only in its text is not decoded again.

    A model's text comes as events that are the same but for the text of the only part of their artifact. If an event
    begins and ends with the bytes around that text in an earlier event, and the bytes between are the content of one
    JSON string, then it has the same members, and names the same task.

    Args:
        read: Reads an event by itself; returns None if it is not an answer.
        result_of: Returns the object in the envelope of an event that is an answer.

    Attributes:
        before: The bytes in front of the text of the events that are known already; empty before there are any.
        after: The bytes behind it.
    """

    __slots__ = ("_progress", "_read", "_result_of", "_tries", "after", "before")

    def __init__(
        self, read: Callable[[bytes], Progress | None], result_of: Callable[[bytes], bytes] = lambda data: data
    ) -> None:
        self._read = read
        self._result_of = result_of
        self._progress: Progress | None = None
        self.before = self.after = b""
        self._tries = _MOST_TRIES

    def __call__(self, data: bytes) -> Progress | None:
        """Return the task progress in an event, or None if the data is not an answer."""
        if self._progress is not None and data.startswith(self.before) and data.endswith(self.after):
            text = data[len(self.before) : -len(self.after)]
            if text and is_content(text):
                return self._progress
        progress = self._read(data)
        if progress is not None and progress.event == "artifact" and self._tries:
            # An agent may write events that never repeat.
            self._tries -= 1
            self._learn(data, progress)
        return progress

    def _learn(self, data: bytes, progress: Progress) -> None:
        """Keep the bytes around the text of an event that `_read_part` reads."""
        result = self._result_of(data)
        if _PART.match(result) is None or _read_part(result, progress.id) != progress:
            return
        try:
            [part] = _artifact.decode(_wrapped_members.decode(result)["artifactUpdate"].get("artifact", _ABSENT)).parts
        except (*UNREADABLE, ValueError):
            return
        text = bytes(part.text)
        if text.startswith(b'"') and len(data) - len(text) <= _MOST_AROUND and data.count(text) == 1:
            before, _, after = data.partition(text)
            self.before, self.after = before + b'"', b'"' + after
            self._progress = progress


def is_content(text: bytes) -> bool:
    """Return whether bytes are the content of one JSON string in UTF-8, on one line."""
    if b"\n" in text or b"\r" in text or not strict_json.is_utf8(text):
        return False
    try:
        _value.decode(b'"%b"' % text)
    except UNREADABLE:
        return False
    return True


def read_list(body: bytes) -> Progress | None:
    """Read a list that is the body of HTTP+JSON, as 0.3 lists push configurations; None for no list."""
    if not (body.isascii() or strict_json.is_utf8(body)) or body.lstrip()[:1] != b"[" or has_duplicates(body):
        return None
    return _list_progress(body, b"")


def _compact(frame: bytes) -> bytes:
    """Return a short frame without spaces between its tokens, which the search for double members reads twice as fast.

    Raises:
        msgspec.DecodeError, RecursionError: it is no JSON.
    """
    return msgspec.json.format(frame, indent=-1) if len(frame) < _SHORT else frame


def _object_progress(found: _Object, data: bytes | msgspec.Raw, identity: bytes) -> Progress:  # noqa: C901 - see below
    """Return the progress of a decoded object; its bytes are read again if it has an unusual form."""
    # One function, not two: it runs for every event of every stream.
    named: _Named = found
    if _names_several(found):
        return _several_progress(found, identity)
    if found.task is not None:
        event, named = "task", found.task
    elif found.status_update is not None:
        event, named = "status", found.status_update
    elif found.artifact_update is not None:
        event, named = "artifact", found.artifact_update
    elif found.kind == "artifact-update" or found.artifact is not _ABSENT:
        event = "artifact"
    elif found.kind == "message" or (found.message is not None and found.status is None):
        return _message_progress(found.message or found, identity)
    elif found.status is not None:
        # As in 0.3: an object with a task id beside its own id is an update.
        news = found.kind or found.task_id or found.other_task_id
        event = "task" if found.id and (not news or found.kind == "task") else "status"
    elif found.other_status_update is not None:
        event, named = "status", found.other_status_update
    elif found.other_artifact_update is not None:
        event, named = "artifact", found.other_artifact_update
    elif found.kind == "task":
        event = "task"
    elif found.other_message is not None:
        return _message_progress(found.other_message, identity)
    else:
        return _other_progress(found, data, identity)
    status = named.status
    task = (named.id or named.task_id) if event == "task" else named.task_id or named.other_task_id or named.id
    context = named.context_id or named.other_context_id or named.session_id
    # Nearly all frames use one name.
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


def _message_progress(named: _Named, identity: bytes) -> Progress:
    task, context = named.task_id or named.other_task_id, named.context_id or named.other_context_id
    refers = [each for each in (named.reference_task_ids, named.other_references) if each not in _EMPTY]
    within = nested_ids((), refers, task, context) if refers else None
    return Progress(identity, task, context, None, "message", None, _agrees(named), within)


def _agrees(named: _Named) -> bool:
    """Return whether all spellings in an object name one task and one context: clients read different spellings."""
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


def _names_several(found: _Object) -> bool:
    """Return whether an answer has several wrappers, or is a list."""
    left_out = _wrapped(found).count(None)
    if left_out == len(_WRAPPERS):
        return found.tasks is not _ABSENT
    is_bare = found.kind or found.id or found.task_id or found.context_id or found.status
    is_bare = is_bare or found.other_task_id or found.other_context_id
    return bool(is_bare) or left_out < len(_WRAPPERS) - 1 or found.tasks is not _ABSENT


def _several_progress(found: _Object, identity: bytes) -> Progress:
    """Return the progress of an answer with several wrappers: clients read different ones."""
    if found.tasks not in _EMPTY:
        # Lists are read task by task elsewhere.
        return Progress(id=identity, legible=False)
    found.tasks = _ABSENT
    held = [
        _Object(**{name.removeprefix("capital_"): getattr(found, name)})
        for name in _WRAPPERS
        if getattr(found, name) is not None
    ]
    for name in _WRAPPERS:
        setattr(found, name, None)
    readings = [_object_progress(each, b"{}", identity) for each in (*held, found)]
    tasks = {each.task_id for each in readings if each.task_id is not None}
    contexts = {each.context_id for each in readings if each.context_id is not None}
    within = nested_in(
        [(each, None, ()) for one in readings if one.others for each in one.others.tasks]
        + [(None, each, ()) for one in readings if one.others for each in one.others.contexts],
        next(iter(tasks), None),
        next(iter(contexts), None),
    )
    is_one = len(tasks) <= 1 and len(contexts) <= 1 and _UNREAD not in tasks | contexts
    return msgspec.structs.replace(
        readings[0],
        task_id=next(iter(tasks), None),
        context_id=next(iter(contexts), None),
        legible=is_one and all(each.legible for each in readings),
        others=within,
    )


# ---- Push configurations ---------------------------------------------------------------------------------------------

_READ_AS = frozenset({
    "task", "tasks", "message", "statusUpdate", "status_update", "artifactUpdate", "artifact_update", "configs",
    "taskId", "task_id", "contextId", "context_id",
})  # fmt: skip
_READ = frozenset(name.replace("_", "").lower() for name in _READ_AS)


def _other_progress(found: _Object, data: bytes | msgspec.Raw, identity: bytes) -> Progress:
    """Return the progress of an object that is no task or update: a push configuration, a list of them, or a card."""
    members = decode_members(data)
    if any(name not in _READ_AS and name.replace("_", "").lower() in _READ for name in members):
        # Some clients ignore case.
        return Progress(id=identity, legible=False)
    configs = members.get("configs", _ABSENT)
    if bytes(configs)[:1] == b"[":
        return _list_progress(configs, identity)
    config = ListedIds(
        id=found.id,
        task_id=found.task_id,
        other_task_id=found.other_task_id,
        name=_read_text(members.get("name")),
        push_notification_config=members.get("pushNotificationConfig", _ABSENT),
        other_push_notification_config=members.get("push_notification_config", _ABSENT),
    )
    context = found.context_id or found.other_context_id or found.session_id
    # Only a task has both an id and a context.
    task = task_of(config) or (found.id if context is not None else None)
    within = nested_ids((found.history,), (found.reference_task_ids, found.other_references), task, context)
    if within is None and "error" in members:
        within = nested_in_error(members["error"])
    return Progress(id=identity, task_id=task, context_id=context, others=within)


def _list_progress(data: bytes | msgspec.Raw, identity: bytes) -> Progress:
    """Return the one task that all push configurations of a list are of."""
    tasks = tasks_of(data)
    if tasks is None or len(tasks) > 1:
        return Progress(id=identity, legible=False)
    return Progress(id=identity, task_id=next(iter(tasks), None))


# ---- What is of another type than it should be -----------------------------------------------------------------------

_UNREAD = "an id that cannot be read"
"""Marks an invalid id; compared by identity."""
_NOWHERE = _Named(_UNREAD, _UNREAD, _UNREAD)
_MESSAGES = frozenset({"message", "other_message", "capital_message"})
_WRITTEN_AS = {each.name: each.encode_name for each in msgspec.structs.fields(_Object)}


def _read_unusual(result: msgspec.Raw, identity: bytes) -> Progress | None:
    """Return the progress of a result that is no object, or has a member of a wrong type; None as `read_result`."""
    first = bytes(result)[:1]
    if first == b"[":
        return _list_progress(result, identity)
    if first != b"{":
        return Progress(id=identity)
    try:
        return _read_piecemeal(decode_members(result), result, identity)
    except Ambiguous:
        return None
    except UNREADABLE:
        return Progress(id=identity, legible=False)


def _read_piecemeal(members: Members, data: bytes | msgspec.Raw, identity: bytes) -> Progress:
    """Return the progress of an object whose members may have any type."""
    found = _read_named(members, _Object())
    for attribute in _WRAPPERS:
        held = _read_object(members.get(_WRITTEN_AS[attribute]))
        # A message that is no object names nothing: error pages have a text there.
        if held is not _NOWHERE or attribute not in _MESSAGES:
            setattr(found, attribute, held)
        elif attribute != "other_message":
            setattr(found, attribute, _Named())
    found.artifact = members.get("artifact", _ABSENT)
    found.tasks = members.get("tasks", _ABSENT)
    kind = _read_text(members.get("kind"))
    found.kind = None if kind is _UNREAD else kind
    progress = _object_progress(found, data, identity)
    if progress.task_id is not _UNREAD and progress.context_id is not _UNREAD:
        return progress
    task = None if progress.task_id is _UNREAD else progress.task_id
    context = None if progress.context_id is _UNREAD else progress.context_id
    return msgspec.structs.replace(progress, task_id=task, context_id=context, legible=False)


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
        except UNREADABLE:
            # An object with an id and any status is a task; its status may still have a message.
            named.status = _read_status(status) if named.id or named.task_id or named.other_task_id else None
    return named


def _read_status(raw: msgspec.Raw) -> _Status:
    try:
        members = decode_members(raw)
    except UNREADABLE:
        return _Status()
    return _Status(None, members.get("message", _ABSENT), members.get("update", _ABSENT))


def _read_object(raw: msgspec.Raw | None) -> _Named | None:
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return _read_named(decode_members(raw), _Named())
    except UNREADABLE:
        return _NOWHERE


def _read_text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    try:
        text: str | None = _text.decode(raw)
    except UNREADABLE:
        return _UNREAD
    return text


# ---- Tasks of push configurations ------------------------------------------------------------------------------------

_RESOURCE = re.compile(r"tasks/(.+)/pushNotificationConfigs/[^/]*", re.DOTALL)


class ListedIds(msgspec.Struct, rename="camel", gc=False):
    """The members that name the task of a push configuration of any version, or of a task.

    Attributes:
        task: With the next three: the wrappers of an answer, which no configuration has.
    """

    id: str | None = None
    task_id: str | None = None
    other_task_id: str | None = msgspec.field(default=None, name="task_id")
    name: str | None = None
    push_notification_config: msgspec.Raw = _ABSENT
    other_push_notification_config: msgspec.Raw = msgspec.field(default=_ABSENT, name="push_notification_config")
    status: msgspec.Raw = _ABSENT
    task: msgspec.Raw = _ABSENT
    message: msgspec.Raw = _ABSENT
    status_update: msgspec.Raw = _ABSENT
    artifact_update: msgspec.Raw = _ABSENT


_configs = msgspec.json.Decoder(list[ListedIds])


def task_of(config: ListedIds) -> str | None:
    """Return the task that a configuration, or another entry of a list, names, or None."""
    task = config.task_id or config.other_task_id
    if task:
        return task
    if config.name and (named := task_of_resource(config.name)) is not None:
        return named
    # In 0.1 a configuration has no id of its own.
    pushes = config.push_notification_config or config.other_push_notification_config
    return config.id if pushes or config.status else None


def task_of_resource(name: str) -> str | None:
    """Return the task in the resource name of a configuration, as 0.3 writes it over gRPC; None for another name."""
    resource = _RESOURCE.fullmatch(name)
    return None if resource is None else resource[1]


def tasks_of(data: bytes | msgspec.Raw) -> set[str] | None:
    """Return the tasks that the members of a JSON list name; None where it cannot be read."""
    try:
        configs = _configs.decode(data)
    except UNREADABLE:
        return None
    if any(each.task or each.message or each.status_update or each.artifact_update for each in configs):
        return None
    return {task for config in configs if (task := task_of(config))}
