"""gRPC (1.0 §10, 0.3 §3.2.2): the messages of its calls, answers and events, read and written.

Messages are parsed with the official classes, as the agent parses them. A message that needs no change keeps its bytes.
A message that other parsers could read differently is refused (`grpc_message`).

Trees are those of ProtoJSON, which HTTP+JSON of the same generation has as well, so that both have one form.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # protobuf has no types

from gateway.a2a import json as strict_json
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings.grpc_fields import (
    BY_NAME,
    BY_PARENT,
    path_of,
    read_progress,
    read_tenant,
    referenced_ids,
    refuse_unknown,
    status_without,
    with_context,
    with_tenant,
    without,
    write_name,
)
from gateway.a2a.bindings.grpc_message import (
    from_tree,
    refuse_crowd,
    request_class,
    result_class,
    to_tree,
)
from gateway.a2a.bindings.grpc_method import BY_PATH, SCOPE_FIELD, GrpcMethod, method_of
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, ParseFailed, UpstreamProtocol
from gateway.a2a.framing.grpc import frame as frame_of
from gateway.a2a.json import BOUNDS, BodyBounds, Tree
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.versions.version import Misfit

__all__ = ("read_progress", "referenced_ids", "status_without", "with_context", "with_tenant", "without")
"""Functions of other modules of this binding, for callers that get this one by `binding.grpc_binding`."""

# ---- Calls -----------------------------------------------------------------------------------------------------------


def read_call(
    method: GrpcMethod, message: bytes, *, scope_field: int = SCOPE_FIELD, bounds: BodyBounds = BOUNDS
) -> Call:
    """Return the call that a client makes with a message.

    Args:
        scope_field: The number of `scope` in requests of the scoped service.
        bounds: The most fields of the whole message: as many as members and elements of a document.

    Raises:
        ParseFailed: it is not a message of the method, or a text in it is not UTF-8.
        BadRequest: parsers could read it in two ways, or it is beyond the bounds.
        DuplicateKey: the tenant, or the scope, is there twice in one place.
        BadParams: two places name two tenants, or two tasks; a scope is missing or misplaced; a resource name is
            invalid; or a push configuration of 0.3 has fields that 0.3 does not know.
    """
    request = _parsed(method, message, bounds)
    operation, version = method.operation, method.version
    task_id = context_id = None
    tenant, tenant_written = read_tenant(method, message, request, scope_field)
    refuse_unknown(method, request, scope_field)
    path = path_of(method, request)
    if operation.sends:
        sent = request.message if version is Version.V1_0 else request.request
        task_id, context_id = sent.task_id or None, sent.context_id or None
    elif operation is Operation.LIST_TASKS:
        context_id = request.context_id or None
    else:
        task_id = path.task_id
    return Call(
        operation=operation,
        dialect=Dialect(Binding.GRPC, version),
        method=method.path,
        tenant=tenant,
        task_id=task_id,
        context_id=context_id,
        body=message,
        in_body=tenant is not None,
        tenant_written=tenant_written,
        path=path,
    )


def read_params(call: Call) -> Tree:
    """Return the parameters of a call, as `rest.read_params` returns those of the same call.

    Raises:
        BadParams: JSON has no form for a number in them.
    """
    request = request_class(BY_PATH[call.method]).FromString(call.body)
    try:
        params = to_tree(request)
    except Misfit as misfit:
        raise BadParams(str(misfit), field=misfit.field) from misfit
    if call.dialect.version is Version.V1_0:
        params.pop("tenant", None)
        if call.operation.sends:
            params.get("configuration", {}).get("taskPushNotificationConfig", {}).pop("tenant", None)
        return params
    if call.operation in BY_NAME or call.operation in BY_PARENT:
        # The ids already contain the resource name.
        params.pop("name", None)
        params.pop("parent", None)
        task, config = call.path.task_id, call.path.config_id
        push = call.operation.kind is Kind.PUSH
        if task is not None:
            params["taskId" if push else "id"] = task
        if config is not None:
            params["id"] = config
    return params


def write_call(operation: Operation, version: Version, params: Mapping[str, Any]) -> bytes:
    """Return the message that has these parameters.

    Args:
        params: As the agent's form lowered them; and the tenant that it is told, if any, for 1.0.

    Raises:
        BadParams: they do not fit the schema, or a resource name cannot carry an id.
        KeyError: the generation has no such operation.
    """
    method = method_of(operation, version)
    tree = dict(params) if version is Version.V1_0 else write_name(operation, params)
    try:
        return from_tree(tree, request_class(method))
    except Misfit as misfit:
        raise BadParams(str(misfit), field=misfit.field) from misfit


def make_call(
    call: Call,
    operation: Operation,
    theirs: Dialect,
    params: Tree,
    *,
    tenant: str | None,
    id: str,  # noqa: A002, ARG001 - as the contract
    context_id: str | None,
) -> Call:
    """As `Codec.make_call`; 0.3 has the tenant only as the scope, which is put in where the call is sent."""
    version = theirs.version
    if tenant is not None and version is Version.V1_0:
        params["tenant"] = tenant
    return Call(
        operation,
        theirs,
        method_of(operation, version).path,
        tenant=tenant,
        task_id=call.task_id,
        context_id=context_id,
        body=write_call(operation, version, params),
        in_body=tenant is not None,
        verb="POST",
    )


def _parsed(method: GrpcMethod, message: bytes, bounds: BodyBounds) -> Message:
    kind = request_class(method)
    refuse_crowd(message, kind.DESCRIPTOR, bounds.members + bounds.elements)
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise ParseFailed("the body is no message of this method") from error


# ---- Answers and events ----------------------------------------------------------------------------------------------

_WRONG = "the agent's answer is not what its version of A2A says"
_PAGE: Tree = {"nextPageToken": "", "pageSize": 0, "totalSize": 0}
"""Members of a page that 1.0 requires (§3.1.4), and that ProtoJSON leaves out where they are empty."""
_EVENTS = Operation.SEND_STREAMING_MESSAGE
"""The operation with the class of each event; that of `SubscribeToTask` is the same."""


def read_answer(operation: Operation, version: Version, message: bytes) -> Tree:
    """Return the result in an agent's answer; a card as `card.parse_card` returns it.

    Raises:
        UpstreamProtocol: it is no such message.
    """
    result = _read(result_class(operation, version), message)
    return {"tasks": [], **_PAGE, **result} if operation is Operation.LIST_TASKS else result


def write_answer(operation: Operation, version: Version, result: object) -> bytes:
    """Return the message with a lowered result, or a card, for a client.

    Members that the schema does not know are left out, and an unknown state becomes the unspecified one.

    Raises:
        UpstreamProtocol: it does not fit the schema.
    """
    if operation is Operation.DELETE_PUSH_CONFIG:
        return b""
    if operation is Operation.GET_EXTENDED_CARD and version is Version.V0_3:
        result = _card_0_3(result)
    return _write(result_class(operation, version), result)


def split_page(message: bytes) -> tuple[str, list[tuple[str, Callable[[], Tree]]]]:
    """Return the token of the next page of a list of tasks; and each task's id, with a function that reads the task.

    Raises:
        Misfit: it is no such message, or a task has no id.
    """
    try:
        page = result_class(Operation.LIST_TASKS, Version.V1_0).FromString(message)
    except DecodeError as error:
        raise Misfit("", "no message of its method") from error
    if not all(task.id for task in page.tasks):
        raise Misfit("tasks", "one of them has no id")
    return page.next_page_token, [(task.id, partial(to_tree, task)) for task in page.tasks]


def raw_result(call: Call, frame: bytes) -> msgspec.Raw:
    """As `Codec.raw_result`."""
    return msgspec.Raw(strict_json.write(read_answer(call.operation, call.dialect.version, frame)))


def read_result(call: Call, frame: bytes, *, event: bool = False) -> Tree:
    """As `Codec.read_result`."""
    return read_answer(_EVENTS if event else call.operation, call.dialect.version, frame)


def read_error(_call: Call, _status: int, _frame: bytes) -> AgentError | None:
    """Return None: over gRPC an error is a status, and no message."""
    return None


def answer(call: Call, result: object) -> bytes:
    """As `Codec.answer`."""
    tree = strict_json.read(result) if isinstance(result, msgspec.Raw) else result
    return frame_of(write_answer(call.operation, call.dialect.version, tree))


def event(call: Call, result: object) -> bytes:
    """As `Codec.event`."""
    return frame_of(write_answer(_EVENTS, call.dialect.version, result))


def restore_tenant(operation: Operation, version: Version, message: bytes, tenant: str | None) -> bytes:
    """Return an answer whose push configurations have the client's tenant, or none (protocol §2.1).

    One that came without a tenant stays without; all other answers stay as they are.

    Raises:
        UpstreamProtocol: it is no such message.
    """
    if version is not Version.V1_0 or operation.kind is not Kind.PUSH or operation is Operation.DELETE_PUSH_CONFIG:
        return message
    answer = _answer(result_class(operation, version), message)
    configs = answer.configs if operation is Operation.LIST_PUSH_CONFIGS else (answer,)
    for config in configs:
        if config.tenant:
            config.tenant = tenant or ""
    # Always serialized again: that removes duplicate fields, so all readers find the same value.
    written: bytes = answer.SerializeToString()
    return written


def _answer(kind: type[Message], message: bytes) -> Message:
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise UpstreamProtocol(_WRONG, detail=f"no {kind.DESCRIPTOR.full_name}") from error


def _read(kind: type[Message], message: bytes) -> Tree:
    try:
        return to_tree(_answer(kind, message))
    except Misfit as misfit:
        raise UpstreamProtocol(_WRONG, detail=str(misfit)[:200]) from misfit


def _write(kind: type[Message], tree: object) -> bytes:
    try:
        return from_tree(tree, kind)
    except Misfit as misfit:
        raise UpstreamProtocol(_WRONG, detail=str(misfit)[:200]) from misfit


def _card_0_3(card: object) -> object:
    """Return a card of 0.3 with its requirements as the message spells them, not as the JSON schema does.

    In that schema a requirement is `{"bearer": []}`, of which the message would keep nothing: a requirement of no
    credential.
    """
    if not isinstance(card, dict) or not isinstance(card.get("security"), list):
        return card
    security = [
        each if not isinstance(each, dict) or isinstance(each.get("schemes"), dict) else _schemes(each)
        for each in card["security"]
    ]
    return {**card, "security": security}


def _schemes(requirement: Tree) -> Tree:
    return {"schemes": {scheme: {"list": scopes} for scheme, scopes in requirement.items()}}
