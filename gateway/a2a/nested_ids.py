"""The ids that an answer names in addition to its own task, and its duplicate members.

Two sections:

1. **Nested ids**: what the messages and the details within an answer name.
2. **Duplicate members**: most parsers keep the last of two, some the first. A client could read an id that the gateway
   has not checked.

Free content is never searched: parts, artifacts, `data` and `metadata`. Errors are, since their details are free.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.json import UNREADABLE, Members, decode_elements, decode_members

MOST_NESTED_TASKS = 1_000
"""The most other tasks that an answer may name."""
MOST_NESTED_CONTEXTS = 100
"""Likewise of contexts, which are looked up one by one."""
LONGEST_ERROR = 128 * 1024
"""The most bytes of an error that are searched for ids: an agent may fill all of it."""

MessageIds: TypeAlias = tuple[str | None, str | None, Iterable[str]]
"""The ids of one message: its task, its context, and the tasks that it refers to."""

_BRACKET = ord("[")


class NestedIds(msgspec.Struct, frozen=True, gc=False):
    """Ids that an answer names beside its own task and context, each once.

    Attributes:
        crowded: Whether some are left out, since there are more than `MOST_NESTED_TASKS` or `MOST_NESTED_CONTEXTS`.
    """

    tasks: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    crowded: bool = False


class Ambiguous(ValueError):  # noqa: N818 - named after what is wrong, as every refusal here
    """An error has a member twice, so that another reader may find another id in it."""


class _Message(msgspec.Struct, rename="camel", gc=False):
    """The ids in one message: ProtoJSON may write schema names, and some clients ignore the case of letters."""

    task_id: str | None = None
    context_id: str | None = None
    reference_task_ids: list[str] | None = None
    other_task_id: str | None = msgspec.field(default=None, name="task_id")
    other_context_id: str | None = msgspec.field(default=None, name="context_id")
    other_references: list[str] | None = msgspec.field(default=None, name="reference_task_ids")
    capital_task_id: str | None = msgspec.field(default=None, name="TaskId")
    capital_context_id: str | None = msgspec.field(default=None, name="ContextId")
    capital_references: list[str] | None = msgspec.field(default=None, name="ReferenceTaskIds")

    def names_only(self, task: str | None, context: str | None) -> bool:
        """Return whether the message names only these two, in the usual spelling."""
        return (
            self.task_id in (task, None)
            and self.context_id in (context, None)
            and not self.reference_task_ids
            and self.other_task_id is self.other_context_id is self.capital_task_id is self.capital_context_id is None
            and self.other_references is self.capital_references is None
        )

    def ids(self) -> Iterator[MessageIds]:
        yield self.task_id, self.context_id, self.reference_task_ids or ()
        yield self.other_task_id, self.other_context_id, self.other_references or ()
        yield self.capital_task_id, self.capital_context_id, self.capital_references or ()


def nested_ids(
    messages: Iterable[msgspec.Raw], references: Iterable[msgspec.Raw], task: str | None, context: str | None
) -> NestedIds | None:
    """Return the ids that messages name beside a task and a context; None if they name no others.

    Args:
        messages: Each one message or a list of them, such as a history; or empty.
        references: The references of a message that is itself the answer; or empty.
        task: The task that the frame is about, if it names one.
    """
    ids: list[MessageIds] = []
    for raw in messages:
        if raw:
            ids += _in_messages(raw, task, context)
    ids += [(None, None, _texts(_value(raw))) for raw in references if raw]
    return nested_in(ids, task, context) if ids else None


def nested_in(messages: Iterable[MessageIds], task: str | None, context: str | None) -> NestedIds | None:
    """Return the same, from the ids of each message."""
    tasks: dict[str, None] = {}
    contexts: dict[str, None] = {}
    for task_id, context_id, references in messages:
        if task_id and task_id != task:
            tasks[task_id] = None
        if context_id and context_id != context:
            contexts[context_id] = None
        for each in references:
            if each and each != task:
                tasks[each] = None
    if not tasks and not contexts:
        return None
    crowded = len(tasks) > MOST_NESTED_TASKS or len(contexts) > MOST_NESTED_CONTEXTS
    return NestedIds(tuple(tasks)[:MOST_NESTED_TASKS], tuple(contexts)[:MOST_NESTED_CONTEXTS], crowded)


def nested_in_tree(task: dict[str, Any]) -> NestedIds | None:
    """Return the same of a task that was translated."""
    history, status = task.get("history"), task.get("status")
    message = status.get("message") if isinstance(status, dict) else None
    if not history and message is None:
        return None
    held = [*(history if isinstance(history, list) else ()), message]
    return nested_in(_in_objects(held), _text(task.get("id")), _text(task.get("contextId")))


def nested_in_body(body: bytes) -> NestedIds | None:
    """Return the same of the `error` in the body of an error over HTTP+JSON.

    Raises:
        Ambiguous: as `nested_in_error`.
    """
    try:
        return nested_in_error(_body.decode(body).error)
    except UNREADABLE:
        return None


def nested_in_error(error: bytes | msgspec.Raw) -> NestedIds | None:
    """Return the ids anywhere in an error: its details are an agent's own, and in 0.3 its data may be anything.

    An error longer than `LONGEST_ERROR` is not read, and counts as one that names too many ids.

    Raises:
        Ambiguous: an object in it has a member twice.
    """
    if len(error) > LONGEST_ERROR:
        return NestedIds(crowded=True)
    try:
        found = _free.decode(str(error, "utf-8"))
    except Ambiguous:
        raise
    except RecursionError:
        return NestedIds(crowded=True)
    except ValueError:
        return None
    return nested_in_details([found])


def nested_in_details(details: Iterable[object]) -> NestedIds | None:
    """Return the same of details that have been read."""
    return nested_in(_in_free_form(list(details)), None, None)


def _in_messages(raw: msgspec.Raw, task: str | None, context: str | None) -> Iterable[MessageIds]:
    """Return the ids of a message, or of each in a list; none of one that names only the task and the context."""
    is_list = memoryview(raw)[0] == _BRACKET
    try:
        messages = _list.decode(raw) if is_list else (_one.decode(raw),)
    except UNREADABLE:
        return _in_odd(raw)
    return [ids for one in messages if not one.names_only(task, context) for ids in one.ids()]


def _in_odd(raw: msgspec.Raw) -> Iterator[MessageIds]:
    """Return the same for a message with a member of a wrong type: only the other members count."""
    found = _value(raw, decode_elements)
    for one in found if isinstance(found, list) else [raw]:
        members = _value(one, decode_members)
        if isinstance(members, dict):
            yield from _in_objects([{name: _value(members[name]) for name in _IN_MESSAGES & members.keys()}])


def _in_objects(messages: Iterable[object]) -> Iterator[MessageIds]:
    for one in messages:
        if isinstance(one, dict):
            for task, context, references in _SPELLINGS:
                yield _text(one.get(task)), _text(one.get(context)), _texts(one.get(references))


def _in_free_form(pending: list[object]) -> Iterator[MessageIds]:
    """Return the ids in free-form values, however deep, under the names that ids have in any version."""
    while pending:
        found = pending.pop()
        if isinstance(found, list):
            pending += found
        elif isinstance(found, dict):
            pending += found.values()
            for name, value in found.items():
                match name.replace("_", "").lower():
                    case "taskid":
                        yield _id(value), None, ()
                    case "contextid" | "sessionid":
                        yield None, _id(value), ()
                    case "referencetaskids":
                        yield None, None, _texts(value)
                    case "id" if not _OF_TASKS.isdisjoint(found):
                        # Many objects have an id. One that also has a status or a context is a task.
                        yield _id(value), None, ()


def _value(raw: msgspec.Raw, decode: Callable[[msgspec.Raw], object] = msgspec.json.decode) -> object:
    """Return a decoded value; None if it cannot be decoded."""
    try:
        return decode(raw)
    except UNREADABLE:
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Ambiguous
    return members


def _id(value: object) -> str | None:
    """Return a string that can be an id: stores cannot hold lone surrogates."""
    return value if isinstance(value, str) and _HALF.search(value) is None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if _id(each) is not None) if isinstance(value, list) else ()


class _Body(msgspec.Struct, gc=False):
    error: msgspec.Raw


_SPELLINGS = (
    ("taskId", "contextId", "referenceTaskIds"),
    ("task_id", "context_id", "reference_task_ids"),
    ("TaskId", "ContextId", "ReferenceTaskIds"),
)
_IN_MESSAGES = frozenset(name for names in _SPELLINGS for name in names)
_body = msgspec.json.Decoder(_Body)
_free = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)
_HALF = re.compile("[\ud800-\udfff]")
_OF_TASKS = frozenset({"status", "contextId", "context_id", "sessionId", "session_id"})
_one = msgspec.json.Decoder(_Message)
_list = msgspec.json.Decoder(list[_Message])

# ---- Duplicate members -----------------------------------------------------------------------------------------------

_DEPTH = 4
"""Nested objects: an answer, its task, the task's status, and the status message."""
_OPENED = frozenset({
    "task", "message", "msg", "statusUpdate", "artifactUpdate", "status_update", "artifact_update",
    "Task", "Message", "StatusUpdate", "ArtifactUpdate",
    "status", "update", "history", "configs", "pushNotificationConfig", "push_notification_config",
})  # fmt: skip
"""Members that are read for ids, here or in `progress`."""
_BRACE = ord("{")
_SMALL = 1024
"""Bytes of an object up to which its strings are compared before it is decoded and encoded."""
_WRAPPED = re.compile(rb'\{"[A-Za-z_]+":\{')
_wrapped = msgspec.json.Decoder(dict[str, Members]).decode
_rows = msgspec.json.Decoder(list[Members]).decode
_encode = msgspec.json.Encoder().encode


def has_duplicates(data: bytes | msgspec.Raw) -> bool:
    """Return whether an object, or one of a list, has a member twice where ids are looked for.

    An object is decoded and encoded again: if that gives as many bytes, no member was dropped. Spaces are removed
    first, and only names with escapes need a closer look. A name that is not valid text counts as a duplicate.
    """
    try:
        if _WRAPPED.match(data):
            # Nearly all answers and events: one wrapped object, without spaces.
            outer = _wrapped(data)
            if len(_encode(outer)) == len(data):
                for name, members in outer.items():
                    if name in _OPENED and not _OPENED.isdisjoint(members) and _inside(members, _DEPTH - 2):
                        return True
                return False
    except msgspec.ValidationError:
        pass
    except UNREADABLE:
        return True
    try:
        return _has_duplicates(data, _DEPTH, spaced=True)
    except UNREADABLE:
        return True


def _inside(members: Members, depth: int, *, spaced: bool = False) -> bool:
    for name in _OPENED.intersection(members):
        inner = members[name]
        if len(inner) < _SMALL and _all_differ(bytes(inner)):
            continue
        if _has_duplicates(inner, depth, spaced=spaced):
            return True
    return False


def _all_differ(data: bytes) -> bool:
    """Return whether no two strings of a JSON value, names and texts alike, are the same: no member is a duplicate.

    False also where a string has an escape that hides a quote, or that may spell one character in two ways.
    """
    if b"\\" in data and (b'\\"' in data or b"\\u" in data or b"\\/" in data):
        return False
    strings = data.split(b'"')[1::2]
    return len(set(strings)) == len(strings)


def _has_duplicates(data: bytes | msgspec.Raw, depth: int, *, spaced: bool) -> bool:
    """Check an object of which `depth` levels are looked at; `spaced` if there may be spaces between members."""
    try:
        members = decode_members(data)
    except msgspec.ValidationError:
        return _any_has_duplicates(data, depth)
    if len(_encode(members)) != len(data):
        if spaced:
            return _has_duplicates(msgspec.json.format(bytes(data), indent=-1), depth, spaced=False)
        if strict_json.has_twins(bytes(data), members):
            return True
    return depth > 1 and not _OPENED.isdisjoint(members) and _inside(members, depth - 1, spaced=spaced)


def _any_has_duplicates(data: bytes | msgspec.Raw, depth: int) -> bool:
    """Check the objects in a list; any other value has no members."""
    try:
        rows = _rows(data)
        if len(_encode(rows)) == len(data) and all(map(_OPENED.isdisjoint, rows)):
            return False
    except msgspec.ValidationError:
        pass
    try:
        elements = decode_elements(data)
    except msgspec.ValidationError:
        return False
    return any(memoryview(each)[0] == _BRACE and _has_duplicates(each, depth, spaced=True) for each in elements)
