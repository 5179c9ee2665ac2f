"""HTTP+JSON (1.0 §11, 0.3 §3.2.3): reading calls from path, query and body, and writing faults."""

from http import HTTPStatus
from typing import Any

import msgspec

from gateway.a2a import document, parameter
from gateway.a2a.bounds import BOUNDS, BodyBounds
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.document import Members
from gateway.a2a.fault import BadRequest, Fault
from gateway.a2a.operation import Operation
from gateway.a2a.path import PathCall
from gateway.a2a.query import query_value, refuse_other_ids, split_query

_WITH_BODY = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
_MAY_HAVE_BODY = _WITH_BODY | {Operation.CANCEL_TASK}


def read_call(path: PathCall, body: bytes, query: bytes, version: Version, *, bounds: BodyBounds = BOUNDS) -> Call:
    """The call that path, query and body make together.

    Raises:
        ParseFailed, BadRequest, DuplicateKey: the body, as `document.open_body`.
        BadParams: wrong shapes, or two places that name different tenants or tasks.
    """
    operation = path.operation
    if operation is None:
        raise BadRequest("the path names no operation")
    members: Members = {}
    if body and operation in _MAY_HAVE_BODY:
        members = document.open_body(body, bounds)
    elif operation in _WITH_BODY:
        raise BadRequest("the request has no body")
    params = parameter.read(operation, members)
    queried, passed = split_query(query)
    if passed:
        refuse_other_ids(passed, path, listing=operation is Operation.LIST_TASKS)
    tenant = parameter.agreed("tenant", path.tenant, params.tenant, queried)
    task_id, context_id = path.task_id, None
    if operation.sends:
        task_id, context_id = parameter.ids(params.message)
    elif operation is Operation.LIST_TASKS:
        context_id = query_value(passed, "contextId") or query_value(passed, "context_id") or None
    elif operation is Operation.CANCEL_TASK and version is Version.V1_0:
        parameter.agreed("id", path.task_id, parameter.text(members, "id"))
    elif operation is Operation.CREATE_PUSH_CONFIG and version is Version.V1_0:
        parameter.agreed("taskId", path.task_id, parameter.text(members, "taskId", "task_id"))
    return Call(
        operation=operation,
        dialect=Dialect(Binding.REST, version),
        method=operation.value,
        tenant=tenant,
        task_id=task_id,
        context_id=context_id,
        # What may not have a body goes on without one.
        body=body if operation in _MAY_HAVE_BODY else b"",
        query=passed,
        in_body=bool(params.tenants),
        told=params.says(tenant) if params.tenants else True,
        params=params,
        path=path,
    )


def render(fault: Fault, *, version: Version, details: list[dict[str, Any]]) -> bytes:
    """The error body of a fault: google.rpc.Status (AIP-193); for 0.3 also the members that its SDKs look for."""
    status = fault.http_status
    error = {
        "code": status,
        "status": fault.grpc_status,
        "message": fault.message,
        "details": details,
    }
    if version is Version.V1_0:
        return msgspec.json.encode({"error": error})
    word = fault.a2a_reason or HTTPStatus(status).name
    name = "".join(part.capitalize() for part in word.split("_")) + "Error"
    return msgspec.json.encode({"code": fault.rpc_code, "type": name, "message": fault.message, "error": error})
