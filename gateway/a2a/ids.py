"""The task and context ids that a call names, in whichever binding: found, and replaced by others.

An agent gives any task to every caller that names it, and agents differ in the places that they read. So ids are read
from every place that any version defines, in both spellings of ProtoJSON, and from every place that a hand-written
agent may read: beside the message of a send, or in the query of a JSON-RPC request.

Free content is never searched: parts, `data` and `metadata`, except for the references that the gateway itself keeps in
the metadata of 0.1. The places of ids in the parameters of a call, as JSON has them:

    taskId, task_id; id                     all operations, unless `id` is a push configuration's own
    contextId, context_id                   all operations
    sessionId, session_id                   likewise, of 0.1
    name, parent                            operations on a task: tasks/T, of 0.3
    message (request) .taskId, .contextId   sends, in both spellings
    message.referenceTaskIds                sends, in both spellings; in 0.1 its substitute in the metadata
    referenceTaskIds                        likewise, beside the message
    pushNotificationConfig.taskId           in both spellings, under every name and at every place of a configuration

Over HTTP+JSON path and query are more such places; a call whose body and path name two tasks was refused by
`bindings.rest`. Over gRPC the same fields count (`bindings.grpc_fields`).

Where several callers of an agent may choose the same context id, each has a prefix put before its ids on the way to the
agent, which is removed on the way back. All other values of a call and of a frame keep their bytes.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from gateway.a2a import json as strict_json
from gateway.a2a.bindings.binding import grpc_binding
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import NO_IDS, Call, ReferencedIds, Webhook, gather
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadParams
from gateway.a2a.json import Members, decode_members
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import (
    NO_PARAMS,
    Parameters,
    Way,
    agreed,
    ids_of,
    query_value,
    query_with_context,
    reopen_params,
    task_and_context,
    way_to_message,
    with_texts,
)
from gateway.a2a.versions.v0_1 import KEPT_OF_MESSAGES

# ---- Ids that a call names -------------------------------------------------------------------------------------------


def referenced_ids(call: Call) -> ReferencedIds:
    """Return the ids that a call names, whether a client or the gateway wrote it.

    Raises:
        BadParams: an id or a URL is of a wrong type, two places name two contexts, one member has two spellings, or
            the call names more than `MOST_REFERENCED_TASKS` tasks.
        DuplicateKey: a duplicate member where ids are looked for.
    """
    binding, operation = call.dialect.binding, call.operation
    if binding is Binding.GRPC:
        found: ReferencedIds = grpc_binding().referenced_ids(call)
        return found
    params = _parameters(call)
    members, message, is_read = params.members, params.message, call.params is not NO_PARAMS
    # Over HTTP+JSON the query repeats the path, or holds the context of a list.
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


def _parameters(call: Call) -> Parameters:
    """Return the parameters of a JSON body as they were read, or read them if the gateway has written the body."""
    if call.params is not NO_PARAMS or not call.body:
        return call.params
    return reopen_params(call.operation, call.body, envelope=call.dialect.binding is Binding.JSONRPC)


def _context_places(params: Parameters) -> list[tuple[Way, str]]:
    """Return the places that name the context, with empty members of another spelling; empty if there is no context."""
    places: list[tuple[Way, str]] = [((), name) for name in _CONTEXTS if name in params.members]
    if params.message:
        way = way_to_message(params)
        places += [(way, name) for name in _CONTEXT if name in params.message]
    is_named = any(strict_json.text(way[-1][1] if way else params.members, name) is not None for way, name in places)
    return places if is_named else []


def _task_places(params: Parameters, task: str) -> list[tuple[Way, str]]:
    """Return the places that name this task, except references and resource names."""
    places: list[tuple[Way, str]] = [((), name) for name in ("id", *_TASK) if _says(params.members, name, task)]
    if params.message:
        way = way_to_message(params)
        places += [(way, name) for name in _TASK if _says(params.message, name, task)]
    return places


def _search(call: Call, params: Parameters) -> ReferencedIds:
    """Return the ids that a call names in any place."""
    operation, members, message = call.operation, params.members, params.message
    rest = call.dialect.binding is Binding.REST
    about, context = (call.task_id, call.context_id) if call.params is not NO_PARAMS else _about(call, params)
    tasks, queried = [about, *_texts_of(message, _TASK), *_texts_of(members, _TASK)], None
    if call.query and not rest:
        # Places that no agent should read.
        queried = query_value(call.query, *_CONTEXT)
        tasks.append(query_value(call.query, *_TASK))
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
        return task_and_context(call.operation, call.dialect.version, params)
    if call.operation.sends:
        return ids_of(params.message)
    if call.operation is Operation.LIST_TASKS:
        return None, query_value(call.query, *_CONTEXT)
    return call.path.task_id, None


def _names_config(operation: Operation, version: Version, params: Parameters) -> bool:
    """Return whether `id` is a push configuration's: it is if that is flat, as in 1.0, or named beside its task."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        return version is not Version.V0_1 and not params.pushes
    is_flat = operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG) and version is Version.V1_0
    return is_flat and "pushNotificationConfigId" not in params.members


def _texts_of(members: Members, names: tuple[str, ...]) -> list[str]:
    return [text for name in names if name in members and (text := strict_json.text(members, name)) is not None]


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
    """Return the references that 0.1 keeps in the metadata; values of another type are ignored."""
    try:
        return _ids.decode(decode_members(metadata)[_KEPT_REFERENCES]) or []
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return []


def _of_resources(names: Iterable[str | None]) -> list[str]:
    """Return the tasks in resource names of 0.3."""
    matches = [_RESOURCE.match(name) for name in names if name]
    return [each[1] for each in matches if each is not None]


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

# ---- Ids in the place of others --------------------------------------------------------------------------------------


def with_context(call: Call, context: str) -> Call:
    """Return the call with another context in every place that names one; a call that names none is unchanged.

    Raises:
        BadParams, DuplicateKey: as `ids.referenced_ids`, of a body that was not read yet.
    """
    if call.dialect.binding is Binding.GRPC:
        body = grpc_binding().with_context(call, context)
        return call if body is call.body else replace(call, body=body, context_id=context)
    params = _parameters(call)
    places = _context_places(params)
    queried = query_with_context(call.query, context) if call.query else b""
    if not places and queried == call.query:
        return call
    body, params = _edited(call, params, places, context)
    return replace(call, body=body, params=params, query=queried, context_id=context)


def with_task(call: Call, task: str) -> Call:
    """Return the call with another task, where the client has made its id: over JSON-RPC, as 0.1 has it.

    Raises:
        ValueError: it names no task, or is of another binding.
        BadParams, DuplicateKey: as `with_context`.
    """
    named = referenced_ids(call)
    if call.dialect.binding is not Binding.JSONRPC or named.tasks == named.references:
        raise ValueError("the call is about no task that its client names")
    params = _parameters(call)
    body, params = _edited(call, params, _task_places(params, named.tasks[0]), task)
    return replace(call, body=body, params=params, task_id=task)


def without(
    data: bytes, prefix: bytes, binding: Binding, *, version: Version, operation: Operation, event: bool
) -> bytes:
    """Return an agent's frame with a prefix removed from all its strings; the same object if it has no prefix.

    Args:
        data: JSON, or a message of gRPC without what frames it.
        prefix: The prefix, of `a-z`, `0-9` and `-`, which JSON never escapes.
        operation: The operation that the agent was asked for.
        event: Whether the frame is one event of a stream.

    Raises:
        UpstreamProtocol: it is not a gRPC message of this operation.
    """
    if prefix not in data:
        return data
    if binding is not Binding.GRPC:
        return data.replace(prefix, b"")
    found: bytes = grpc_binding().without(
        data, prefix.decode("ascii"), version=version, operation=operation, event=event
    )
    return found


def status_without(status: Status, prefix: str) -> Status:
    """Return a gRPC status with a prefix removed, as `without`; a detail of an unknown type that has it is left out."""
    if prefix not in status.message and prefix.encode("ascii") not in status.details:
        return status
    found: Status = grpc_binding().status_without(status, prefix)
    return found


def _edited(call: Call, params: Parameters, places: list[tuple[Way, str]], text: str) -> tuple[bytes, Parameters]:
    """Return the body with another text in some places, and its parameters."""
    if not places:
        return call.body, call.params
    body = with_texts(params, call.body, places, text)
    if call.params is NO_PARAMS:
        # A body of the gateway's own has not been read, and its parameters are not needed.
        return body, NO_PARAMS
    return body, reopen_params(call.operation, body, envelope=call.dialect.binding is Binding.JSONRPC)
