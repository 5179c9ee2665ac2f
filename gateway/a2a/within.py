"""What the messages within a frame name beside the task and the context that the frame is of.

A message says of which task and context it is, and which tasks it refers to. Within a frame there are those of a task's
history, the one of its status, and a message that is the answer. Each mostly names what the frame is of, and then there
is nothing to tell. What is of another type than it should be names nothing: nobody can take it for an id. Free text,
parts and `metadata` are not looked into.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from gateway.a2a.json import Members

MOST_TASKS = 1_000
"""Most tasks that are told of; whose more are nobody finds out."""
MOST_CONTEXTS = 100
"""Likewise of contexts, each of which is asked for by itself."""
LONGEST_ERROR = 128 * 1024
"""Bytes of an error that is read for ids; all of it is free for its agent to fill."""

_ABSENT = msgspec.Raw()
_BRACKET = ord("[")


class Others(msgspec.Struct, frozen=True, gc=False):
    """Ids that are none of the frame's own, each once.

    Attributes:
        crowded: Whether there were more than `MOST_TASKS` or `MOST_CONTEXTS`, and some are left out.
    """

    tasks: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    crowded: bool = False


class Said(msgspec.Struct, rename="camel", gc=False):
    """What one message names.

    ProtoJSON may write a name as it was in the schema, and some clients do not tell capitals from small letters.
    """

    task_id: str | None = None
    context_id: str | None = None
    reference_task_ids: list[str] | None = None
    other_task_id: str | None = msgspec.field(default=None, name="task_id")
    other_context_id: str | None = msgspec.field(default=None, name="context_id")
    other_references: list[str] | None = msgspec.field(default=None, name="reference_task_ids")
    capital_task_id: str | None = msgspec.field(default=None, name="TaskId")
    capital_context_id: str | None = msgspec.field(default=None, name="ContextId")
    capital_references: list[str] | None = msgspec.field(default=None, name="ReferenceTaskIds")


def others(
    messages: Iterable[msgspec.Raw], references: Iterable[msgspec.Raw], task: str | None, context: str | None
) -> Others | None:
    """What they name that is neither of the two; None for nothing.

    Args:
        messages: One, or a list of them, each: a task's history, and the message of its status. Or empty.
        references: Of a message that is the answer itself, or empty.
        task: What the frame is of, as far as it says so.
    """
    said = [
        one
        for raw in messages
        for one in (_messages(raw) if raw else ())
        # Nearly all of them; the rest is looked at more closely.
        if one.task_id not in (task, None)
        or one.context_id not in (context, None)
        or one.reference_task_ids
        or _has_twins(one)
    ]
    said += [Said(reference_task_ids=_strings(raw)) for raw in references if raw]
    if not said:
        return None
    named = ((one.task_id, one.context_id, one.reference_task_ids or ()) for one in _twins(said))
    return of_messages(named, task, context)


def of_messages(
    said: Iterable[tuple[str | None, str | None, Iterable[str]]], task: str | None, context: str | None
) -> Others | None:
    """The same of messages that were read: the task, the context and the references of each."""
    tasks: dict[str, None] = {}
    contexts: dict[str, None] = {}
    for task_id, context_id, references in said:
        if task_id and task_id != task:
            tasks[task_id] = None
        if context_id and context_id != context:
            contexts[context_id] = None
        for each in references:
            if each and each != task:
                tasks[each] = None
    if not tasks and not contexts:
        return None
    crowded = len(tasks) > MOST_TASKS or len(contexts) > MOST_CONTEXTS
    return Others(tuple(tasks)[:MOST_TASKS], tuple(contexts)[:MOST_CONTEXTS], crowded)


def of_tree(task: dict[str, Any]) -> Others | None:
    """The same of a task of the hub's, which has each name in one spelling."""
    history, status = task.get("history"), task.get("status")
    message = status.get("message") if isinstance(status, dict) else None
    if not history and message is None:
        return None
    held = [*(history if isinstance(history, list) else ()), message]
    said = (
        (_text(one.get("taskId")), _text(one.get("contextId")), _texts(one.get("referenceTaskIds")))
        for one in held
        if isinstance(one, dict)
    )
    return of_messages(said, _text(task.get("id")), _text(task.get("contextId")))


class Ambiguous(ValueError):  # noqa: N818 - named after what is wrong, as every refusal here
    """An error has a member twice, and whoever reads it may find another id in it than the gateway does."""


def of_body(body: bytes) -> Others | None:
    """As `of_error`, of the body of an error over HTTP+JSON, whatever stands beside its `error`.

    Raises:
        Ambiguous: as `of_error`.
    """
    try:
        return of_error(_body.decode(body).error)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def of_error(error: bytes | msgspec.Raw) -> Others | None:
    """Return the ids anywhere in an error: its details are an agent's own, and 0.3 has anything as its data.

    An error that is longer than `LONGEST_ERROR` is not read, and counts as one that names too much.

    Args:
        error: The member `error` of an answer or an event, or a part of it.

    Raises:
        Ambiguous: an object in it has a member twice.
    """
    if len(error) > LONGEST_ERROR:
        return Others(crowded=True)
    try:
        found = _free.decode(str(error, "utf-8"))
    except UnicodeDecodeError:
        return None
    except RecursionError:
        return Others(crowded=True)
    except ValueError as reason:
        if isinstance(reason, Ambiguous):
            raise
        return None
    return of_details([found])


def of_details(details: Iterable[object]) -> Others | None:
    """The same of details that were read."""
    return of_messages(_named_in(list(details)), None, None)


def _named_in(pending: list[object]) -> Iterator[tuple[str | None, str | None, Iterable[str]]]:
    """Return the ids in free-form values, however deep, under the names that ids have in any generation."""
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
                        # Anything may have an id; what has a status or a context beside it is a task.
                        yield _id(value), None, ()


def _messages(raw: msgspec.Raw) -> Sequence[Said]:
    """A message, or a list of them, of which each is read that is one."""
    is_list = memoryview(raw)[0] == _BRACKET
    try:
        return _list.decode(raw) if is_list else (_one.decode(raw),)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        each = _many.decode(raw) if is_list else [raw]
    except (msgspec.DecodeError, RecursionError):
        return []
    return [said for one in each if (said := _odd(one)) is not None]


def _odd(raw: msgspec.Raw) -> Said | None:
    """A message in which a member is of another type than it should be; None for what is none at all."""
    try:
        members = _members.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Said(
        _read(members.get("taskId")),
        _read(members.get("contextId")),
        _strings(members.get("referenceTaskIds", _ABSENT)),
        _read(members.get("task_id")),
        _read(members.get("context_id")),
        _strings(members.get("reference_task_ids", _ABSENT)),
        _read(members.get("TaskId")),
        _read(members.get("ContextId")),
        _strings(members.get("ReferenceTaskIds", _ABSENT)),
    )


def _read(raw: msgspec.Raw | None) -> str | None:
    try:
        return None if raw is None else _text(_any.decode(raw))
    except (msgspec.DecodeError, RecursionError):
        return None


def _strings(raw: msgspec.Raw) -> list[str]:
    try:
        return list(_texts(_any.decode(raw))) if raw else []
    except (msgspec.DecodeError, RecursionError):
        return []


def _twins(said: list[Said]) -> Iterator[Said]:
    for one in said:
        yield one
        if _has_twins(one):
            yield Said(one.other_task_id, one.other_context_id, one.other_references)
            yield Said(one.capital_task_id, one.capital_context_id, one.capital_references)


def _has_twins(one: Said) -> bool:
    """Whether a message has a name in another spelling than the usual one."""
    names_none = one.other_task_id is one.other_context_id is one.capital_task_id is one.capital_context_id is None
    return not (names_none and one.other_references is one.capital_references is None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Ambiguous
    return found


def _id(value: object) -> str | None:
    """A string that can be an id: no store has one with half a surrogate pair."""
    return value if isinstance(value, str) and _HALF.search(value) is None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


class _Body(msgspec.Struct, gc=False):
    error: msgspec.Raw


_body = msgspec.json.Decoder(_Body)
_free = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)
_HALF = re.compile("[\ud800-\udfff]")
_OF_TASKS = frozenset({"status", "contextId", "context_id", "sessionId", "session_id"})
_one = msgspec.json.Decoder(Said)
_list = msgspec.json.Decoder(list[Said])
_members = msgspec.json.Decoder(Members)
_many = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder()
