"""What the messages within a frame name beside the task and the context that the frame is of.

A message says of which task and context it is, and which tasks it refers to. Within a frame there are those of a task's
history, the one of its status, and a message that is the answer. Each mostly names what the frame is of, and then there
is nothing to tell. What is of another type than it should be names nothing: nobody can take it for an id. Free text,
parts and `metadata` are not looked into.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from gateway.a2a.document import Members

MOST_TASKS = 1_000
"""Most tasks that are told of; whose more are nobody finds out."""
MOST_CONTEXTS = 100
"""Likewise of contexts, each of which is asked for by itself."""

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


def of_body(body: bytes) -> Others | None:
    """The same of the body of an error over HTTP+JSON, whatever stands beside its `error`."""
    try:
        return of_failure(_body.decode(body).error)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def of_failure(error: msgspec.Raw) -> Others | None:
    """The same of an error over HTTP+JSON, the member `error` of a body or an event, which has its details there."""
    try:
        return of_error(_failure.decode(error).details)
    except (msgspec.DecodeError, RecursionError):
        return None


def of_error(data: msgspec.Raw) -> Others | None:
    """What the details of an error name, where these have a place for it: `taskId` and `contextId` in their `metadata`.

    Those of A2A 1.0 are a list of details, each with its own; 0.3 has whatever there is, and these two names there.
    """
    try:
        details = _any.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return of_details(details if isinstance(details, list) else [details])


def of_details(details: Iterable[object]) -> Others | None:
    """The same of details that were read."""
    found = []
    for detail in details:
        if isinstance(detail, dict):
            metadata = detail.get("metadata")
            found += [detail, *([metadata] if isinstance(metadata, dict) else ())]
    names = (
        (_text(one.get(f"task{end}")), _text(one.get(f"context{end}")), ()) for one in found for end in ("Id", "_id")
    )
    return of_messages(names, None, None)


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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


class _Error(msgspec.Struct, gc=False):
    details: msgspec.Raw = _ABSENT


class _Body(msgspec.Struct, gc=False):
    error: msgspec.Raw


_body = msgspec.json.Decoder(_Body)
_failure = msgspec.json.Decoder(_Error)
_one = msgspec.json.Decoder(Said)
_list = msgspec.json.Decoder(list[Said])
_members = msgspec.json.Decoder(Members)
_many = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder()
