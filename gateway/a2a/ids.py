"""The task and context ids that a call or an answer names, wherever they stand, and members that stand twice.

Three sections:

1. **Referenced ids**: what a call names. An agent gives any task to every caller that names it, and agents differ in
   where they look. So every place counts that any version has for an id, in both spellings of ProtoJSON, and every
   place where a hand-written agent may look: beside the message of a send, or in the query of a JSON-RPC request.
2. **Nested ids**: what the messages and details within an answer name beside the task that the answer is about.
3. **Duplicate members**: most parsers keep the last of two, some the first. One reader would see an id that the gateway
   has not checked.

Free content is never searched: parts, artifacts, `data` and `metadata`, but for the references that the gateway itself
keeps in the metadata of 0.1. Where ids stand in the parameters of a call, as JSON has them:

    taskId, task_id; id                     all operations, unless `id` is a push configuration's own
    contextId, context_id                   all operations
    sessionId, session_id                   likewise, of 0.1
    name, parent                            operations on a task: tasks/T, of 0.3
    message (request) .taskId, .contextId   sends, in both spellings
    message.referenceTaskIds                sends, in both spellings; in 0.1 its substitute in the metadata
    referenceTaskIds                        likewise, beside the message
    pushNotificationConfig.taskId           in both spellings, under every name and at every place of a configuration

Over HTTP+JSON path and query are more such places; a call whose body and path name two tasks was refused by
`bindings.rest`. Over gRPC the same fields count (`bindings.grpc_id`).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.bindings.binding import grpc_binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadParams
from gateway.a2a.json import Members
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import (
    NO_PARAMS,
    Parameters,
    Way,
    agreed,
    ids_of,
    named_in,
    query_value,
    reopen_params,
    way_to_message,
)
from gateway.a2a.versions.v0_1 import KEPT_OF_MESSAGES

MOST_REFERENCED_TASKS = 1_000
"""The most tasks that one call may name."""
MOST_NESTED_TASKS = 1_000
"""The most tasks that an answer may name beside its own."""
MOST_NESTED_CONTEXTS = 100
"""Likewise of contexts, which are looked up one by one."""
LONGEST_ERROR = 128 * 1024
"""The most bytes of an error that are searched for ids: an agent may fill all of it."""

# ---- Referenced ids: what a call names -------------------------------------------------------------------------------


class Webhook(msgspec.Struct, frozen=True):
    """A push configuration that a call sets, or that a send brings along.

    Attributes:
        url: Empty if it has none; `ReferencedIds.webhooks` has no such one.
        token: Whether it has a token or credentials.
    """

    url: str
    token: bool = False


class ReferencedIds(msgspec.Struct, frozen=True):
    """The ids that a call names.

    Attributes:
        tasks: Each task once; the one that the call is about first, if there is one.
        references: Those of `tasks` that stand only among the references of a message, or in a push configuration that
            a send brings along.
        context: The one context, or None.
        webhooks: The push configurations that have a URL.
        tokens: Whether a push configuration has a token or an authentication, and no URL.
    """

    tasks: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    context: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    tokens: bool = False


NO_IDS = ReferencedIds()
"""The ids of a call that names nothing."""


def referenced_ids(call: Call) -> ReferencedIds:
    """Return what a call names, be it a client's or one that the gateway has written for an agent.

    Raises:
        BadParams: an id or a URL is of a wrong type, two places name two contexts, one member has two spellings, or
            the call names more than `MOST_REFERENCED_TASKS` tasks.
        DuplicateKey: a member stands twice where an id is looked for.
    """
    binding, operation = call.dialect.binding, call.operation
    if binding is Binding.GRPC:
        found: ReferencedIds = grpc_binding().referenced_ids(call)
        return found
    params = parameters(call)
    members, message, is_read = params.members, params.message, call.params is not NO_PARAMS
    # Over HTTP+JSON the query says no more than the path, or holds the context of a list.
    is_plain = not call.query or binding is Binding.REST
    # Nearly all calls return here: they name nothing, or only the task that they are about.
    if operation.sends:
        if is_plain and not params.pushes and _IN_SEND.isdisjoint(members):
            if _IN_MESSAGE.isdisjoint(message):
                return NO_IDS
            if is_read and _REFERENCES.isdisjoint(message) and call.dialect.version is not Version.V0_1:
                return ReferencedIds((call.task_id,) if call.task_id else (), (), call.context_id)
    elif operation in _OF_TASK:
        if is_plain and is_read and _ELSEWHERE.isdisjoint(members):
            return ReferencedIds((call.task_id,)) if call.task_id else NO_IDS
    elif operation.kind is Kind.CARD:
        return NO_IDS
    return _search(call, params)


def parameters(call: Call) -> Parameters:
    """Return the parameters of a JSON body as they were read, or read them if the gateway has written the body."""
    if call.params is not NO_PARAMS or not call.body:
        return call.params
    return reopen_params(call.operation, call.body, envelope=call.dialect.binding is Binding.JSONRPC)


def gather(
    tasks: Iterable[str | None], references: Iterable[str], context: str | None, webhooks: Iterable[Webhook | None]
) -> ReferencedIds:
    """Return the ids together; None and empty texts count as absent.

    Raises:
        BadParams: there are more than `MOST_REFERENCED_TASKS` tasks.
    """
    named = dict.fromkeys(task for task in tasks if task)
    referred = dict.fromkeys(task for task in references if task and task not in named)
    if len(named) + len(referred) > MOST_REFERENCED_TASKS:
        raise BadParams(f"the request names more than {MOST_REFERENCED_TASKS} tasks")
    hooks = [hook for hook in webhooks if hook is not None]
    called = tuple(hook for hook in hooks if hook.url)
    return ReferencedIds((*named, *referred), tuple(referred), context or None, called, len(called) < len(hooks))


def context_places(params: Parameters) -> list[tuple[Way, str]]:
    """Return where parameters name their context, with empty members of another spelling; none if they name none."""
    places: list[tuple[Way, str]] = [((), name) for name in _CONTEXTS if name in params.members]
    if params.message:
        way = way_to_message(params)
        places += [(way, name) for name in _CONTEXT if name in params.message]
    is_named = any(strict_json.text(way[-1][1] if way else params.members, name) is not None for way, name in places)
    return places if is_named else []


def task_places(params: Parameters, task: str) -> list[tuple[Way, str]]:
    """Return where parameters name this task, but for references and resource names."""
    places: list[tuple[Way, str]] = [((), name) for name in ("id", *_TASK) if _says(params.members, name, task)]
    if params.message:
        way = way_to_message(params)
        places += [(way, name) for name in _TASK if _says(params.message, name, task)]
    return places


def _search(call: Call, params: Parameters) -> ReferencedIds:
    """Return what a call names in any place."""
    operation, members, message = call.operation, params.members, params.message
    rest = call.dialect.binding is Binding.REST
    about, context = (call.task_id, call.context_id) if call.params is not NO_PARAMS else _about(call, params)
    asked, queried = (None, None) if rest or not call.query else named_in(call.query)
    tasks = [about, *_texts_of(message, _TASK), *_texts_of(members, _TASK), asked]
    if call.query and not rest:
        tasks += _of_resources(query_value(call.query, name) for name in ("name", "parent"))
    if not _names_config(operation, call.dialect.version, params):
        tasks += _texts_of(members, ("id",))
    references: list[str] = []
    if operation.sends:
        references = [*_ids_of(message, *_LISTS), *_ids_of(members, *_LISTS)]
        if call.dialect.version is Version.V0_1 and "metadata" in message:
            references += _kept_references(message["metadata"])
    else:
        tasks += _of_resources(_texts_of(members, ("name", "parent")))
    hooks = [_webhook(members)] if operation is Operation.CREATE_PUSH_CONFIG else []
    for way in params.pushes:
        push = way[-1][1]
        hooks.append(_webhook(push))
        inside = [*_texts_of(push, _TASK), *_of_resources(_texts_of(push, ("name", "parent")))]
        if operation.sends:
            references += inside
        else:
            tasks += inside
    context = agreed("contextId", context, *_texts_of(message, _CONTEXT), *_texts_of(members, _CONTEXTS), queried)
    return gather(tasks, references, context, hooks)


def _about(call: Call, params: Parameters) -> tuple[str | None, str | None]:
    """Return the task and the context that a call of the gateway's own is about."""
    if call.dialect.binding is Binding.JSONRPC:
        return jsonrpc.ids(call.operation, call.dialect.version, params)
    if call.operation.sends:
        return ids_of(params.message)
    if call.operation is Operation.LIST_TASKS:
        return None, query_value(call.query, "contextId") or query_value(call.query, "context_id")
    return call.path.task_id, None


def _names_config(operation: Operation, version: Version, params: Parameters) -> bool:
    """Return whether `id` is a push configuration's: it is if that is flat, as in 1.0, or named beside its task."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        return version is not Version.V0_1 and not params.pushes
    is_flat = operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG) and version is Version.V1_0
    return is_flat and "pushNotificationConfigId" not in params.members


def _texts_of(members: Members, names: tuple[str, ...]) -> list[str]:
    return [said for name in names if name in members and (said := strict_json.text(members, name)) is not None]


def _ids_of(members: Members, *names: str) -> list[str]:
    """Return a list of ids that may stand under one of several names."""
    there = [name for name in names if name in members]
    if not there:
        return []
    if len(there) > 1:
        raise BadParams(f"{there[0]} and {there[1]} are two names of one thing", field=there[1])
    try:
        return _ids.decode(members[there[0]]) or []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadParams(f"{there[0]} must be a list of strings", field=there[0]) from error


def _kept_references(metadata: msgspec.Raw) -> list[str]:
    """Return the references that 0.1 keeps in the metadata; anything else under their name is no reference."""
    try:
        return _ids.decode(_members.decode(metadata)[_KEPT_REFERENCES]) or []
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return []


def _of_resources(names: Iterable[str | None]) -> list[str]:
    """Return the tasks in resource names of 0.3."""
    found = [_RESOURCE.match(name) for name in names if name]
    return [each[1] for each in found if each is not None]


def _webhook(push: Members) -> Webhook | None:
    if _IN_WEBHOOK.isdisjoint(push):
        return None
    url, token, shown = strict_json.text(push, "url"), strict_json.text(push, "token"), {}
    if push.get("authentication", _NULL) != _NULL:
        shown = strict_json.open_object(push["authentication"], "authentication")
    if token is None:
        token = strict_json.text(shown, "credentials")
    return Webhook(url or "", token is not None) if url or token or shown else None


def _says(members: Members, name: str, text: str) -> bool:
    return name in members and strict_json.text(members, name) == text


_TASK = ("taskId", "task_id")
_CONTEXT = ("contextId", "context_id")
_CONTEXTS = ("contextId", "context_id", "sessionId", "session_id")
_LISTS = ("referenceTaskIds", "reference_task_ids")
_REFERENCES = frozenset(_LISTS)
_IN_MESSAGE = _REFERENCES.union(_TASK, _CONTEXT)
_IN_SEND = frozenset({"id", *_TASK, *_CONTEXTS, *_LISTS})
_ELSEWHERE = frozenset({*_TASK, *_CONTEXTS, "name", "parent"})
_OF_TASK = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK})
_RESOURCE = re.compile("tasks/([^/]+)")
_NULL = msgspec.Raw(b"null")
_IN_WEBHOOK = frozenset({"url", "token", "authentication"})
_KEPT_REFERENCES = next(kept for kept, name in KEPT_OF_MESSAGES if name == "referenceTaskIds")
_ids = msgspec.json.Decoder(list[str] | None)
_members = msgspec.json.Decoder(Members)

# ---- Nested ids: what the messages within an answer name -------------------------------------------------------------

Said: TypeAlias = tuple[str | None, str | None, Iterable[str]]
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
        """Return whether the message names nothing else than these two, in the usual spelling."""
        return (
            self.task_id in (task, None)
            and self.context_id in (context, None)
            and not self.reference_task_ids
            and self.other_task_id is self.other_context_id is self.capital_task_id is self.capital_context_id is None
            and self.other_references is self.capital_references is None
        )

    def said(self) -> Iterator[Said]:
        yield self.task_id, self.context_id, self.reference_task_ids or ()
        yield self.other_task_id, self.other_context_id, self.other_references or ()
        yield self.capital_task_id, self.capital_context_id, self.capital_references or ()


def nested_ids(
    messages: Iterable[msgspec.Raw], references: Iterable[msgspec.Raw], task: str | None, context: str | None
) -> NestedIds | None:
    """Return what messages name beside a task and a context; None if they name nothing else.

    Args:
        messages: Each one message or a list of them, such as a history; or empty.
        references: The references of a message that is itself the answer; or empty.
        task: The task that the frame is about, as far as it says so.
    """
    said: list[Said] = []
    for raw in messages:
        if raw:
            said += _in_messages(raw, task, context)
    said += [(None, None, _texts(_value(raw))) for raw in references if raw]
    return nested_in(said, task, context) if said else None


def nested_in(said: Iterable[Said], task: str | None, context: str | None) -> NestedIds | None:
    """Return the same of messages that have been read."""
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
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def nested_in_error(error: bytes | msgspec.Raw) -> NestedIds | None:
    """Return the ids anywhere in an error: its details are an agent's own, and in 0.3 its data may be anything.

    An error that is longer than `LONGEST_ERROR` is not read, and counts as one that names too much.

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


def _in_messages(raw: msgspec.Raw, task: str | None, context: str | None) -> Iterable[Said]:
    """Return what a message, or each of a list, names, unless that is only the task and the context."""
    is_list = memoryview(raw)[0] == _BRACKET
    try:
        messages = _list.decode(raw) if is_list else (_one.decode(raw),)
    except (msgspec.DecodeError, RecursionError):
        return _in_odd(raw)
    return [said for one in messages if not one.names_only(task, context) for said in one.said()]


def _in_odd(raw: msgspec.Raw) -> Iterator[Said]:
    """Return the same where a member is of another type than it should be: that names nothing, and all others do."""
    found = _value(raw, _elements)
    for one in found if isinstance(found, list) else [raw]:
        members = _value(one, _members.decode)
        if isinstance(members, dict):
            yield from _in_objects([{name: _value(members[name]) for name in _IN_MESSAGES & members.keys()}])


def _in_objects(messages: Iterable[object]) -> Iterator[Said]:
    for one in messages:
        if isinstance(one, dict):
            for task, context, references in _SPELLINGS:
                yield _text(one.get(task)), _text(one.get(context)), _texts(one.get(references))


def _in_free_form(pending: list[object]) -> Iterator[Said]:
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
                        # Many things have an id. One with a status or a context beside it is a task.
                        yield _id(value), None, ()


def _value(raw: msgspec.Raw, decode: Callable[[msgspec.Raw], object] = msgspec.json.decode) -> object:
    """Return a decoded value; None if it cannot be decoded."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Ambiguous
    return found


def _id(value: object) -> str | None:
    """Return a string that can be an id: no store has one with half a surrogate pair."""
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
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode

# ---- Duplicate members -----------------------------------------------------------------------------------------------

_DEPTH = 4
"""Objects within each other: an answer, its task, the status of that, and its message."""
_OPENED = frozenset({
    "task", "message", "msg", "statusUpdate", "artifactUpdate", "status_update", "artifact_update",
    "Task", "Message", "StatusUpdate", "ArtifactUpdate",
    "status", "update", "history", "configs", "pushNotificationConfig", "push_notification_config",
})  # fmt: skip
"""Members that are read for ids, here or in `progress`."""
_BRACE = ord("{")
_SMALL = 1024
"""Bytes of an object up to which its strings are compared before it is decoded and encoded."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_WRAPPED = re.compile(rb'\{"[A-Za-z_]+":\{')
_wrapped = msgspec.json.Decoder(dict[str, Members]).decode
_rows = msgspec.json.Decoder(list[Members]).decode
_encode = msgspec.json.Encoder().encode


def has_duplicates(data: bytes | msgspec.Raw) -> bool:
    """Return whether an object, or one of a list, has a member twice where ids are looked for.

    An object is decoded and encoded again: if that gives as many bytes, no member was dropped. Spaces are removed
    first, and only names with escapes need a closer look. A name that is no text counts as a duplicate.
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
    except _UNREADABLE:
        return True
    try:
        return _has_duplicates(data, _DEPTH, spaced=True)
    except _UNREADABLE:
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
    """Return whether no two strings of a JSON value, names and texts alike, are the same: no member stands twice.

    False also where a string has an escape that hides a quote, or that may spell one character in two ways.
    """
    if b"\\" in data and (b'\\"' in data or b"\\u" in data or b"\\/" in data):
        return False
    strings = data.split(b'"')[1::2]
    return len(set(strings)) == len(strings)


def _has_duplicates(data: bytes | msgspec.Raw, depth: int, *, spaced: bool) -> bool:
    """Check an object of which `depth` levels are looked at; `spaced` if there may be spaces between members."""
    try:
        members = _members.decode(data)
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
        elements = _elements(data)
    except msgspec.ValidationError:
        return False
    return any(memoryview(each)[0] == _BRACE and _has_duplicates(each, depth, spaced=True) for each in elements)
