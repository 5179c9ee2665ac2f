"""The fields of gRPC messages that routing and ownership need: tenant and scope, tasks and contexts, states.

Requests are read with the official classes, as agents do. Those of 0.3 share their paths with the release candidates of
1.0 (protocol trap 24), whose agents read more fields: the references of a message, which are checked, and members of a
push configuration, which may have only fields of 0.3.

Requests of 1.0 have a `tenant`, whose number is not the same in all (protocol §2.1), and sends may bring a push
configuration with another. Requests of 0.3 have none; that of a call of the scoped service (protocol §3) is its scope,
a field that the official classes do not know.

0.3 names the task of a request by a resource name: `tasks/T`, as a path of HTTP+JSON has it. Writers do not escape ids
in it, and readers stop at the next `/`. So a resource name cannot have an id that holds a `/`: it would be the id of
another task.

An agent's message is read here first, so its number of fields is bounded here.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # protobuf has no types
    descriptor_pool,
    message_factory,
    struct_pb2,
)
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # as above
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]  # as above
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_message import (
    DELIMITED,
    event_class,
    refuse_crowd,
    refuse_twins,
    request_class,
    result_class,
    scope_class,
    values,
)
from gateway.a2a.bindings.grpc_method import BY_PATH, SCOPE_FIELD, GrpcMethod
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import NO_IDS, Call, ReferencedIds, Webhook, gather
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest, ParseFailed, UpstreamProtocol
from gateway.a2a.json import BOUNDS, Tree
from gateway.a2a.nested_ids import NestedIds, nested_in
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import agreed, is_resource_of
from gateway.a2a.paths import PathCall, path_id
from gateway.a2a.progress import NOTHING, Progress, task_of_resource
from gateway.a2a.task_state import SPOKEN

_DETAILS = (error_details_pb2, struct_pb2)
"""Schemas of the usual details of a status, imported so that their messages can be found by name."""
_REFERENCES = 8
"""The number of a message's references, in 1.0 and its candidates."""
_LATER = 16
"""Numbers from here on have no field in any generation that is known."""

# ---- Ids of requests -------------------------------------------------------------------------------------------------


def path_of(method: GrpcMethod, request: Message) -> PathCall:
    """Return the ids of a request as a path has them.

    Raises:
        BadParams: as `read_name`; or a push configuration has the name of another task's.
    """
    operation = method.operation
    if method.version is not Version.V1_0:
        path = read_name(operation, request)
        # Servers differ in which of the two they follow.
        if (
            operation is Operation.CREATE_PUSH_CONFIG
            and (name := request.config.name)
            and not is_resource_of(name, path.task_id)
        ):
            raise BadParams("config.name names another task than the parent", field="config.name")
        return path
    if operation.kind is Kind.PUSH:
        config = request.id if operation in _OF_CONFIG else ""
        return PathCall(operation, task_id=request.task_id or None, config_id=config or None)
    return PathCall(operation, task_id=(request.id or None) if operation in BY_NAME else None)


def referenced_ids(call: Call) -> ReferencedIds:
    """As `ids.referenced_ids`, of a call over gRPC."""
    operation = call.operation
    if operation.kind is Kind.CARD:
        return NO_IDS
    method = BY_PATH[call.method]
    newest = method.version is Version.V1_0
    request = request_class(method).FromString(call.body)
    if operation is Operation.LIST_TASKS:
        return ReferencedIds(context=request.context_id or None)
    if not operation.sends:
        path = path_of(method, request)
        push = None
        if operation is Operation.CREATE_PUSH_CONFIG:
            push = request if newest else request.config.push_notification_config
        return gather((path.task_id,), (), None, (_webhook(push),))
    sent = request.message if newest else request.request
    references = list(sent.reference_task_ids) if newest else _unknown_references(sent)
    push = None
    if request.HasField("configuration"):
        configuration = request.configuration
        if newest and configuration.HasField("task_push_notification_config"):
            push = configuration.task_push_notification_config
            references.append(push.task_id)
        elif not newest and configuration.HasField("push_notification"):
            push = configuration.push_notification
    return gather((sent.task_id,), references, sent.context_id, (_webhook(push),))


def refuse_unknown(method: GrpcMethod, request: Message, scope_field: int) -> None:
    """Refuse a push configuration of 0.3 with fields that an agent of a release candidate could take for a webhook.

    Args:
        scope_field: The number of `scope` in requests of the scoped service.

    Raises:
        BadParams: it does.
    """
    if method.version is Version.V1_0 or method.operation is not Operation.CREATE_PUSH_CONFIG:
        return
    push = request.config.push_notification_config
    for held in (request, request.config, push):
        for each in UnknownFieldSet(held):
            number: int = each.field_number
            if each.wire_type != DELIMITED or number >= _LATER or (held is request and number == scope_field):
                continue
            raise BadParams("the push configuration has a field that 0.3 does not know")


def with_context(call: Call, context: str) -> bytes:
    """Return the message of a call with another context; the same object if it names none."""
    method = BY_PATH[call.method]
    request = request_class(method).FromString(call.body)
    held = request
    if call.operation.sends:
        held = request.message if method.version is Version.V1_0 else request.request
    elif call.operation is not Operation.LIST_TASKS:
        return call.body
    if not held.context_id:
        return call.body
    held.context_id = context
    written: bytes = request.SerializeToString()
    return written


def _webhook(push: Message | None) -> Webhook | None:
    if push is None or not (push.url or push.token or push.HasField("authentication")):
        return None
    return Webhook(push.url, bool(push.token or push.authentication.credentials))


def _unknown_references(sent: Message) -> list[str]:
    """Return the references that an agent of a release candidate finds in a message of 0.3.

    Raises:
        BadParams: one of them is no UTF-8.
    """
    try:
        return [
            each.data.decode()
            for each in UnknownFieldSet(sent)
            if each.field_number == _REFERENCES and each.wire_type == DELIMITED
        ]
    except UnicodeDecodeError as error:
        raise BadParams("a reference of the message is not UTF-8") from error


# ---- Tenants of requests ---------------------------------------------------------------------------------------------


def read_tenant(method: GrpcMethod, message: bytes, request: Message, scope_field: int) -> tuple[str | None, bool]:
    """Return the tenant of a request, for 0.3 its scope; and whether every place where a reader looks has it.

    Args:
        request: The message as it was parsed.
        scope_field: The number of `scope` in requests of the scoped service.

    Raises:
        DuplicateKey: it stands twice in one place.
        BadParams: two places name two tenants; or as `_read_scope`.
        BadRequest: its number has another type of field; or as `grpc_message.values`.
        ParseFailed: as `_read_scope`.
    """
    if method.version is not Version.V1_0:
        return _read_scope(method, message, scope_field), True
    outer, inner = _ways(method.path)
    if not _is_canonical(message, request):
        refuse_twins(message, "tenant", *outer)
        if inner:
            refuse_twins(message, "tenant", *inner)
    pushed = request.configuration.task_push_notification_config.tenant if inner else ""
    tenant = agreed("tenant", request.tenant or None, pushed or None)
    return tenant, tenant is None or request.tenant == tenant


def with_tenant(call: Call, tenant: str | None, *, scope_field: int = SCOPE_FIELD) -> bytes:
    """Return the message with another tenant, or none, in every place that has one; for 0.3 that is the scope.

    The outer place is made where there was none, but in a call of the plain service of 0.3, which can have none. Every
    other field stays as it is.
    """
    method = BY_PATH[call.method]
    if method.version is Version.V1_0:
        request = request_class(method).FromString(call.body)
        request.tenant = tenant or ""
        if method.operation.sends and request.configuration.task_push_notification_config.tenant:
            request.configuration.task_push_notification_config.tenant = tenant or ""
    elif method.scoped:
        request = scope_class(scope_field).FromString(call.body)
        request.scope = tenant or ""
    else:
        return call.body
    written: bytes = request.SerializeToString()
    return written


def _read_scope(method: GrpcMethod, message: bytes, number: int) -> str | None:
    """Return the scope of a request of 0.3, or None for one of the plain service.

    Raises:
        DuplicateKey: it is there twice.
        ParseFailed: it is not UTF-8.
        BadParams: it is missing or empty; or the plain service has one, or a tenant of another generation, which an
            agent might follow unchecked.
        BadRequest: as `grpc_message.values`.
    """
    other = _CANDIDATES[method.operation]
    if other != number and values(message, other):
        raise BadParams("A2A 0.3 has no tenant: this field is of a release candidate of 1.0", field="tenant")
    if not method.scoped:
        if values(message, number):
            raise BadParams("a scope is for the scoped service alone", field="scope")
        return None
    refuse_twins(message, "scope", number)
    try:
        scope: str = scope_class(number).FromString(message).scope
    except DecodeError as error:
        raise ParseFailed("the scope is not UTF-8") from error
    if not scope:
        raise BadParams("scope is missing or empty", field="scope")
    return scope


def _is_canonical(message: bytes, request: Message) -> bool:
    """Return whether serializing the message gives the same bytes: it then has no duplicate or unknown fields."""
    known = type(request)()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    written: bytes = known.SerializeToString()
    return written == message


@cache
def _ways(path: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the fields that lead to the tenant of a request, and to that of its push configuration."""
    method = BY_PATH[path]
    message = request_class(method).DESCRIPTOR
    outer = (message.fields_by_name["tenant"].number,)
    inner: list[int] = []
    for name in ("configuration", "task_push_notification_config", "tenant") if method.operation.sends else ():
        field = message.fields_by_name[name]
        inner.append(field.number)
        message = field.message_type
    return outer, tuple(inner)


_CANDIDATES: Mapping[Operation, int] = {
    Operation.SEND_MESSAGE: 4,
    Operation.SEND_STREAMING_MESSAGE: 4,
    Operation.GET_TASK: 3,
    Operation.CANCEL_TASK: 2,
    Operation.SUBSCRIBE_TO_TASK: 2,
    Operation.CREATE_PUSH_CONFIG: 4,
    Operation.GET_PUSH_CONFIG: 2,
    Operation.LIST_PUSH_CONFIGS: 4,
    Operation.DELETE_PUSH_CONFIG: 2,
    Operation.GET_EXTENDED_CARD: 1,
}
"""The number of the tenant in requests of the candidates of 1.0, which have the paths of 0.3 (protocol §2.1, trap 24).

Their agents would follow it, although the gateway has not routed by it.
"""


# ---- Resource names --------------------------------------------------------------------------------------------------

BY_NAME = frozenset({
    Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK, Operation.GET_PUSH_CONFIG,
    Operation.DELETE_PUSH_CONFIG,
})  # fmt: skip
"""Operations whose requests have a `name`."""
BY_PARENT = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS})
"""Operations whose requests have a `parent`: the task of what is created or listed."""

# Clients of the candidates of 1.0 have the bare id (protocol trap 24).
_TASK = re.compile(r"(?:tasks/)?(?P<task>[^/]+)")
_CONFIG = re.compile(r"tasks/(?P<task>[^/]+)/pushNotificationConfigs/(?P<config>[^/]*)")
_OF_CONFIG = frozenset({Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG})


def read_name(operation: Operation, request: Message) -> PathCall:
    """Return the ids that a request of 0.3 names, as a path has them; an empty one is None.

    Raises:
        BadParams: it is not the name of a task, or of a push configuration.
    """
    if operation in BY_NAME:
        field, name = "name", request.name
    elif operation in BY_PARENT:
        # The proto's own path for creations has the collection behind the task (protocol §3).
        field, name = "parent", request.parent.removesuffix("/pushNotificationConfigs")
    else:
        return PathCall(operation)
    if not name:
        return PathCall(operation)
    config = operation in _OF_CONFIG
    found = (_CONFIG if config else _TASK).fullmatch(name)
    if found is None:
        form = "tasks/{task}/pushNotificationConfigs/{id}" if config else "tasks/{task}"
        raise BadParams(f"{field} must be {form}", field=field)
    return PathCall(operation, task_id=found["task"], config_id=(found["config"] or None) if config else None)


def write_name(operation: Operation, params: Mapping[str, Any]) -> Tree:
    """Parameters of 0.3 with a resource name, as its requests have, instead of the ids of a path.

    Raises:
        BadParams: an id is missing, or a resource name cannot carry it, as a path could not.
    """
    if operation in BY_PARENT:
        # The form says the parent of a creation itself.
        return {"parent": f"tasks/{path_id(params, 'taskId')}", **params}
    if operation not in BY_NAME:
        return dict(params)
    if operation not in _OF_CONFIG:
        return {"name": f"tasks/{path_id(params, 'id')}", **params}
    task, config = path_id(params, "taskId"), path_id(params, "id")
    return {"name": f"tasks/{task}/pushNotificationConfigs/{config}"}


# ---- Progress in answers and events ----------------------------------------------------------------------------------

# As many as a request may have by default.
_MOST_FIELDS = BOUNDS.members + BOUNDS.elements
_EVENTS = {
    "status_update": "status",
    "artifact_update": "artifact",
    "task": "task",
    "message": "message",
    "msg": "message",
}
_TASKS = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK})
_CONFIGS = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG})


def read_progress(operation: Operation, version: Version, message: bytes) -> Progress | None:
    """Return the progress that an answer or an event reports; None for no such message, or one of too many fields.

    Args:
        operation: The operation of the call; if it streams, this is an event.
    """
    kind = result_class(operation, version)
    try:
        refuse_crowd(message, kind.DESCRIPTOR, _MOST_FIELDS)
        found = kind.FromString(message)
    except (BadRequest, DecodeError):
        return None
    # In one go and not in several functions: this is done for every event of every stream.
    if operation in _TASKS:
        return _of_task(found)
    if operation.kind is not Kind.SEND and operation.kind is not Kind.STREAM:
        return _of_configs(operation, version, found)
    name = found.WhichOneof("payload")
    if name is None:
        return NOTHING
    event, held = _EVENTS[name], getattr(found, name)
    if event == "task":
        return _of_task(held)
    task_id, context_id = held.task_id or None, held.context_id or None
    if event == "message":
        named = nested_in((_ids_of(held),), task_id, context_id)
        return Progress(task_id=task_id, context_id=context_id, event=event, others=named)
    if event == "artifact":
        return Progress(task_id=task_id, context_id=context_id, event=event)
    named = _named(held, (), task_id, context_id)
    return Progress(task_id=task_id, context_id=context_id, state=_state(held), event=event, others=named)


def _of_task(task: Message) -> Progress:
    task_id, context_id = task.id or None, task.context_id or None
    named = _named(task, task.history, task_id, context_id)
    return Progress(task_id=task_id, context_id=context_id, state=_state(task), event="task", others=named)


def _named(held: Message, history: Sequence[Message], task_id: str | None, context_id: str | None) -> NestedIds | None:
    """Return the other ids that the messages of a task, and of its status, name."""
    ids = [_ids_of(each) for each in history]
    if held.HasField("status"):
        status = held.status
        # Its name in 0.3.
        name = "message" if hasattr(status, "message") else "update"
        if status.HasField(name):
            ids.append(_ids_of(getattr(status, name)))
    return nested_in(ids, task_id, context_id) if ids else None


def _ids_of(message: Message) -> tuple[str, str, Sequence[str]]:
    return message.task_id, message.context_id, getattr(message, "reference_task_ids", ())


def _of_configs(operation: Operation, version: Version, message: Message) -> Progress:
    """Return the one task of a push configuration, or of a list of them."""
    if operation is Operation.LIST_PUSH_CONFIGS:
        configs = message.configs
    elif operation in _CONFIGS:
        configs = (message,)
    else:
        return NOTHING
    tasks = {
        task
        for config in configs
        if (task := task_of_resource(config.name) if version is Version.V0_3 else config.task_id)
    }
    if len(tasks) > 1:
        return Progress(legible=False)
    return Progress(task_id=next(iter(tasks), None))


def _state(held: Message) -> str | None:
    if not held.HasField("status"):
        return None
    number = held.status.state
    return SPOKEN.get(number, "unknown")


# ---- Prefixes in answers ---------------------------------------------------------------------------------------------


def without(data: bytes, prefix: str, *, version: Version, operation: Operation, event: bool) -> bytes:
    """As `ids.without`, of a message; unknown fields stay unchanged.

    Raises:
        UpstreamProtocol: it is no such message.
    """
    try:
        message = (event_class(version) if event else result_class(operation, version)).FromString(data)
    except DecodeError as error:
        raise UpstreamProtocol("the agent's answer is no message of its method") from error
    _cut(message, prefix)
    written: bytes = message.SerializeToString()
    return written


def status_without(status: Status, prefix: str) -> Status:
    """As `ids.status_without`."""
    message, details = status.message.replace(prefix, ""), status.details
    if prefix.encode("ascii") in details:
        try:
            rpc_status = status_pb2.Status.FromString(details)
        except DecodeError:
            return Status(status.code, message)
        _cut(rpc_status, prefix)
        kept = [detail for detail in rpc_status.details if _cut_packed(detail, prefix)]
        del rpc_status.details[:]
        rpc_status.details.extend(kept)
        details = rpc_status.SerializeToString()
    return Status(status.code, message, details)


def _cut_packed(packed: Message, prefix: str) -> bool:
    """Remove a prefix from a detail; return False if it is in a detail of an unknown type."""
    raw = prefix.encode("ascii")
    if raw not in packed.value:
        return True
    try:
        known = descriptor_pool.Default().FindMessageTypeByName(packed.TypeName())
        message = message_factory.GetMessageClass(known).FromString(packed.value)
    except (KeyError, DecodeError):
        return False
    _cut(message, prefix)
    packed.value = message.SerializeToString()
    return raw not in packed.value


def _cut(message: Message, prefix: str) -> None:
    """Remove a prefix from all texts of a message."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _cut_map(value, prefix)
        elif field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                _cut(each, prefix)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [text.replace(prefix, "") for text in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, value.replace(prefix, ""))


def _cut_map(entries: MutableMapping[str, Any], prefix: str) -> None:
    """As `_cut`, of a map whose names are texts and whose values are texts or messages."""
    for name in list(entries):
        held, other = entries[name], name.replace(prefix, "")
        if isinstance(held, str):
            entries[other] = held.replace(prefix, "")
        else:
            _cut(held, prefix)
            if other != name:
                entries[other].CopyFrom(held)
        if other != name:
            del entries[name]
