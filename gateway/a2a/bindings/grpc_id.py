"""The ids in messages of gRPC: those of tasks and contexts that a request names, and others in their place.

Requests are read with the official classes, as agents do. Those of 0.3 share their paths with the candidates of 1.0
(protocol trap 24), whose agents find more in them than 0.3 has: the references of a message, which are looked for, and
members of a push configuration, where nothing may be that 0.3 does not know.

0.3 says by a resource name which task a request is about: `tasks/T`, as a path of HTTP+JSON has it. Nobody escapes
anything in one, and its readers stop at the next `/`. So an id that holds a `/` cannot be in a name: it would be that
of another task.
"""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # protobuf has no types
    descriptor_pool,
    message_factory,
    struct_pb2,
)
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # as above
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]  # as above
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.field import path_id
from gateway.a2a.bindings.grpc_field import DELIMITED
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod
from gateway.a2a.bindings.grpc_schema import event_class, request_class, result_class
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import NO_IDS, Call, ReferencedIds, Webhook, gather
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import is_resource_of
from gateway.a2a.paths import PathCall

_DETAILS = (error_details_pb2, struct_pb2)
"""Schemas of the usual details of a status, imported so that their messages can be found by name."""
_REFERENCES = 8
"""The number of a message's references, in 1.0 and its candidates."""
_LATER = 16
"""Numbers from here on have no field in any generation that is known."""


def path_of(method: GrpcMethod, request: Message) -> PathCall:
    """The ids that a request has, as if they stood in a path.

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
    if operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG):
        return PathCall(operation, task_id=request.task_id or None, config_id=request.id or None)
    if operation.kind is Kind.PUSH:
        return PathCall(operation, task_id=request.task_id or None)
    if operation in BY_NAME:
        return PathCall(operation, task_id=request.id or None)
    return PathCall(operation)


def referenced_ids(call: Call) -> ReferencedIds:
    """As `ids.referenced_ids`, of a call over gRPC."""
    operation = call.operation
    if operation.kind is Kind.CARD:
        return NO_IDS
    if call.path.operation is not None and not operation.sends and operation is not Operation.CREATE_PUSH_CONFIG:
        # The call of a client: all its ids are known.
        return ReferencedIds((call.task_id,) if call.task_id else (), (), call.context_id)
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
    if newest and not sent.reference_task_ids and not request.HasField("configuration"):
        # As nearly all.
        return ReferencedIds((sent.task_id,) if sent.task_id else (), (), sent.context_id or None)
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
    """See that a push configuration of 0.3 holds nothing that a candidate's agent could take for another webhook.

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
    """The message of a call about another context; the same object where it names none."""
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


def without(data: bytes, prefix: str, *, version: Version, operation: Operation, event: bool) -> bytes:
    """As `ids.without`, of a message; what its class does not know stays as it is.

    Raises:
        UpstreamProtocol: it is no such message.
    """
    try:
        message = (event_class(version) if event else result_class(operation, version)).FromString(data)
    except DecodeError as error:
        raise UpstreamProtocol("the agent's answer is no message of its method") from error
    if not _cut(message, prefix):
        return data
    written: bytes = message.SerializeToString()
    return written


def status_without(status: Status, prefix: str) -> Status:
    """As `ids.status_without`."""
    message, details = status.message.replace(prefix, ""), status.details
    if prefix.encode("ascii") in details:
        try:
            told = status_pb2.Status.FromString(details)
        except DecodeError:
            return Status(status.code, message)
        _cut(told, prefix)
        kept = [detail for detail in told.details if _cut_packed(detail, prefix)]
        del told.details[:]
        told.details.extend(kept)
        details = told.SerializeToString()
    return Status(status.code, message, details)


def _cut_packed(packed: Message, prefix: str) -> bool:
    """Take a prefix out of a detail; False for one that has it where nobody here can take it out."""
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


def _webhook(push: Message | None) -> Webhook | None:
    if push is None or not (push.url or push.token or push.HasField("authentication")):
        return None
    return Webhook(push.url, bool(push.token or push.authentication.credentials))


def _unknown_references(sent: Message) -> list[str]:
    """The references that an agent of a candidate finds in a message of 0.3.

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


def _cut(message: Message, prefix: str) -> bool:
    """Take a prefix out of all texts of a message; whether there was one."""
    found = False
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found |= _cut_map(value, prefix)
        elif field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                found |= _cut(each, prefix)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            texts = [text.replace(prefix, "") for text in value]
            found |= texts != value
            value[:] = texts
        elif field.type == field.TYPE_STRING and prefix in value:
            setattr(message, field.name, value.replace(prefix, ""))
            found = True
    return found


def _cut_map(entries: MutableMapping[str, Any], prefix: str) -> bool:
    """As `_cut`, of a map whose names are texts and whose values are texts or messages."""
    found = False
    for name in list(entries):
        held, other = entries[name], name.replace(prefix, "")
        if not isinstance(held, str):
            found |= _cut(held, prefix)
            if other != name:
                entries[other].CopyFrom(held)
        elif prefix in name or prefix in held:
            entries[other] = held.replace(prefix, "")
            found = True
        if other != name:
            del entries[name]
            found = True
    return found


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
    """The ids that a request of 0.3 names, as if they stood in a path; one that is empty is none.

    Raises:
        BadParams: the name is none of a task, or of a push configuration.
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
    """Parameters of 0.3 with the name that its requests have, in place of the ids that a path would.

    Raises:
        BadParams: an id is missing, or none that a name can carry: the same that a path can.
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
