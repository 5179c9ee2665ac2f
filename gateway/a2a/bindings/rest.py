"""HTTP+JSON (1.0 §11, 0.3 §3.2.3): calls read and written as path, query and body; answers and faults written.

Parameters are texts in path and query (1.0 §11.3, §11.5), and typed everywhere else. Their names are camelCase;
snake_case is read too, since ProtoJSON has both. Servers differ in what they do with a value of a query that they
cannot read (protocol §8.3: some drop the filter and return everything), so it is refused here. Unknown names are left
out, and no known parameter is a list.
"""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote_plus

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.agent_error import AgentError, read_rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BY_REASON, BadParams, BadRequest, Fault
from gateway.a2a.framing import sse
from gateway.a2a.json import BOUNDS, BodyBounds, Members, Tree
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import (
    Parameters,
    agreed,
    ids_of,
    is_resource_of,
    open_params,
    params_without_tenant,
    query_value,
    refuse_other_ids,
    refuse_strays,
    split_query,
    text_of,
)
from gateway.a2a.paths import HTTP_0_3, HTTP_1_0, PathCall, path_id
from gateway.a2a.task_state import HUB_STATES
from gateway.a2a.versions.schema import snake

_WITH_BODY = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
_OF_TASK = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK})
_MAY_HAVE_BODY = _WITH_BODY | {Operation.CANCEL_TASK}


def read_call(path: PathCall, body: bytes, query: bytes, version: Version, *, bounds: BodyBounds = BOUNDS) -> Call:
    """Return the call in path, query and body.

    Raises:
        ParseFailed, BadRequest, DuplicateKey: the body, as `strict_json.open_body`.
        BadParams: wrong shapes, two places with different tenants or tasks, or a push configuration in a wrong place.
    """
    operation = path.operation
    if operation is None:
        raise BadRequest("the path names no operation")
    members: Members = {}
    if body and operation in _MAY_HAVE_BODY:
        members = strict_json.open_body(body, bounds)
    elif operation in _WITH_BODY:
        raise BadRequest("the request has no body")
    params = open_params(operation, members)
    refuse_strays(operation, params)
    queried, passed = split_query(query)
    if passed:
        refuse_other_ids(passed, path, listing=operation is Operation.LIST_TASKS)
    tenant = agreed("tenant", path.tenant, params.tenant, queried)
    if version is Version.V0_3:
        _refuse_scope(members, passed, tenant)
    task_id, context_id = path.task_id, None
    if operation.sends:
        task_id, context_id = ids_of(params.message)
    elif operation is Operation.LIST_TASKS:
        context_id = query_value(passed, "contextId", "context_id")
    elif members:
        _refuse_other_tasks(operation, params, path.task_id)
    return Call(
        operation=operation,
        dialect=Dialect(Binding.REST, version),
        method=operation.value,
        tenant=tenant,
        task_id=task_id,
        context_id=context_id,
        # Other operations are forwarded without a body.
        body=body if operation in _MAY_HAVE_BODY else b"",
        query=passed,
        in_body=bool(params.tenants),
        tenant_written=params.says(tenant) if params.tenants else True,
        params=params,
        path=path,
    )


def read_params(call: Call) -> Tree:
    """Return the parameters of a call, for a form, under the names of 1.0, without any tenant.

    The path's ids replace those in the body, which agree or were refused.

    Raises:
        ParseFailed: a value of the body cannot be read.
        BadParams: one of the query cannot.
    """
    operation, path = call.operation, call.path
    in_body = operation in _MAY_HAVE_BODY
    params = params_without_tenant(call.params) if in_body else read_query(operation, call.query)
    if operation is Operation.CREATE_PUSH_CONFIG and call.dialect.version is Version.V0_3:
        _add_config_id(params, call.query)
    if operation.kind is Kind.PUSH:
        params.pop("task_id", None)
        params["taskId"] = path.task_id
        if path.config_id is not None:
            params["id"] = path.config_id
    elif path.task_id is not None:
        params["id"] = path.task_id
    return params


def _add_config_id(params: dict[str, Any], query: bytes) -> None:
    """Add the id of a configuration that is created from the query: in `a2a.v1` the body is `config` alone.

    Raises:
        BadParams: the body says another.
    """
    queried = query_value(query, "configId", "config_id")
    if not queried:
        return
    for name in ("configId", "config_id"):
        if params.get(name) not in (None, "", queried):
            raise BadParams("the query cannot name another configId than the body", field=name)
    params.pop("config_id", None)
    params["configId"] = queried


def _refuse_scope(members: Members, query: bytes, tenant: str | None) -> None:
    """Refuse a `scope` that differs from the tenant: ScopedA2AService of 0.3 has that name for it.

    Raises:
        BadParams: it differs, or there is no tenant.
    """
    for scope in (text_of(members, "scope"), query_value(query, "scope")):
        if scope and scope != tenant:
            raise BadParams("scope names another tenant than the path", field="scope")


def _refuse_other_tasks(operation: Operation, params: Parameters, task_id: str | None) -> None:
    """Refuse a body that names another task than the path, in any spelling: servers differ in which one counts.

    Raises:
        BadParams: it does.
    """
    for members in (params.members, *(way[-1][1] for way in params.pushes)):
        agreed("taskId", task_id, text_of(members, "taskId", "task_id"))
        for name in ("name", "parent"):
            resource = strict_json.text(members, name) if name in members else None
            if resource is not None and not is_resource_of(resource, task_id):
                raise BadParams(f"{name} names another task than the path", field=name)
    if operation is Operation.CANCEL_TASK or params.pushes:
        # Without a wrapper, `id` is the configuration's own.
        agreed("id", task_id, text_of(params.members, "id"))


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
    """As `Codec.make_call`; in a call without a body, parameters that fit neither path nor query are lost."""
    newest = theirs.version is Version.V1_0
    # 0.3 has no such field, and its strict parsers refuse it.
    if tenant is not None and operation in _WITH_BODY and newest:
        # SDKs of 1.0 repeat the tenant of the path in the body (protocol §2.4).
        params["tenant"] = tenant
    task_id = config_id = None
    if operation.kind is Kind.PUSH:
        task_id = path_id(params, "taskId", verb=True)
        if operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG):
            config_id = path_id(params, "id")
    elif operation in _OF_TASK:
        task_id = path_id(params, "id", verb=True)
    body = b""
    if operation in _WITH_BODY or (operation is Operation.CANCEL_TASK and newest):
        # In 0.3 only the path names the task of a new configuration: its parsers refuse members that they do not know.
        unknown = {"taskId"} if operation is Operation.CREATE_PUSH_CONFIG and not newest else ()
        body = strict_json.write({name: value for name, value in params.items() if name not in unknown})
    verb, _ = HTTP_1_0[operation] if newest else HTTP_0_3[operation]
    return Call(
        operation,
        theirs,
        operation.value,
        tenant=tenant,
        task_id=call.task_id,
        context_id=context_id,
        body=body,
        query=write_query(operation, params),
        path=PathCall(operation, prefixed=not newest, task_id=task_id, config_id=config_id),
        verb=verb,
    )


def raw_result(_call: Call, frame: bytes) -> msgspec.Raw | None:
    """As `Codec.raw_result`."""
    return msgspec.Raw(frame) if frame.strip() else None


def read_result(call: Call, frame: bytes, *, event: bool = False) -> Any:  # noqa: ANN401, ARG001 - any JSON; as the contract
    """As `Codec.read_result`."""
    raw = raw_result(call, frame)
    return None if raw is None else strict_json.read(raw)


def read_error(call: Call, status: int, frame: bytes) -> AgentError | None:
    """As `Codec.read_error`."""
    return read_rest(status, frame, call.dialect.version) if status >= 400 else None


def answer(call: Call, result: Any) -> bytes:  # noqa: ANN401 - any JSON
    """As `Codec.answer`."""
    return write_answer(call.operation, result)


def event(call: Call, result: Any) -> bytes:  # noqa: ANN401 - any JSON
    """As `Codec.event`."""
    return sse.encode(write_answer(call.operation, strict_json.on_one_line(result)))


def write_answer(operation: Operation, result: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return the body of a successful answer; the result is a tree or `msgspec.Raw`, and ignored for a deletion."""
    # Some clients treat an empty body as a failure (protocol trap 30).
    return b"{}" if operation is Operation.DELETE_PUSH_CONFIG else strict_json.write(result)


def render(fault: Fault, *, version: Version, details: list[dict[str, Any]]) -> bytes:
    """Return the error body of a fault: google.rpc.Status (AIP-193); for 0.3 also the members that its SDKs read."""
    status = fault.http_status
    error = {
        "code": status,
        "status": fault.grpc_status,
        "message": fault.message,
        "details": details,
    }
    if version is Version.V1_0:
        return msgspec.json.encode({"error": error})
    return msgspec.json.encode({"code": fault.rpc_code, "type": _type(fault), "message": fault.message, "error": error})


def _type(fault: Fault) -> str:
    """Return the class name of an error, by which SDKs of 0.3 tell errors apart."""
    kind = BY_REASON.get(fault.a2a_reason or "")
    if kind is not None:
        return kind.name
    return "".join(part.capitalize() for part in HTTPStatus(fault.http_status).name.split("_")) + "Error"


# ---- The query -------------------------------------------------------------------------------------------------------


def read_query(operation: Operation, query: bytes) -> dict[str, Any]:
    """Return the parameters in a query, under their names of 1.0; one without a value is unset.

    Args:
        query: The query that `params.split_query` returned.

    Raises:
        BadParams: a value is not of its parameter's type, or differs under two names of one parameter.
    """
    known = _IN_QUERY.get(operation, ())
    params: dict[str, Any] = {}
    for pair in query.split(b"&") if query and known else ():
        key, _, raw = pair.decode("ascii").partition("=")
        name = _NAMES.get(key)
        if name not in known or not raw:
            continue
        read, words = _PARAMETERS[name]
        value = read(unquote_plus(raw))
        if value is None:
            raise BadParams(f"{key} {words}", field=key)
        if value != "" and params.setdefault(name, value) != value:
            raise BadParams(f"{key} is another name of {name}, which says something else", field=key)
    return params


def write_query(operation: Operation, params: Mapping[str, Any]) -> bytes:
    """Return the query with those of the parameters that the operation has in its query.

    Args:
        params: In the agent's form, which has checked their types.

    Raises:
        BadParams: a value is too long for a query, or has control characters.
    """
    pairs: list[str] = []
    for name in _IN_QUERY.get(operation, ()):
        value = params.get(name)
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        # The length comes first, since escapes are made character by character.
        if len(text) > _LONGEST or _CONTROL.search(text) is not None or len(escaped := quote(text, safe="")) > _LONGEST:
            raise BadParams(f"{name} is too long for a query, or has control characters", field=name)
        if text:
            pairs.append(f"{name}={escaped}")
    return "&".join(pairs).encode("ascii")


# Readers of single parameters: None for an invalid text, empty for an unset one.


def _moment(text: str) -> str:
    """Return a timestamp; many clients do not escape its plus, which then arrives as a space."""
    return _LOST_PLUS.sub(r"\1+\2", text)


def _number(text: str) -> int | None:
    """Return an integer of 32 bits; a2a-java pads a single digit with a space."""
    text = text.strip(" ")
    return number if _NUMERAL.fullmatch(text) is not None and (number := int(text)) in _INT32 else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip(" ").lower())


def _state(text: str) -> str | None:
    """Return a task state by its name or number; the unspecified state means no filter."""
    name = _STATE_NAMES.get(text.strip(" "))
    return "" if name == HUB_STATES[0] else name


_NUMERAL = re.compile("[+-]?[0-9]{1,10}")
_INT32 = range(-(2**31), 2**31)
_LOST_PLUS = re.compile(r"(:[0-9]{2}(?:\.[0-9]+)?) ([0-9]{2}:?[0-9]{2})\Z")
_STATE_NAMES = {
    **{name: name for name in HUB_STATES},
    **{str(number): name for number, name in enumerate(HUB_STATES)},
    "TASK_STATE_CANCELLED": "TASK_STATE_CANCELED",
}

_COUNT = (_number, "must be an integer of 32 bits")
_PARAMETERS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "contextId": (str, ""),
    "status": (_state, "must be the name of a task state, as TASK_STATE_WORKING"),
    "pageSize": _COUNT,
    "pageToken": (str, ""),
    "historyLength": _COUNT,
    "statusTimestampAfter": (_moment, ""),
    "includeArtifacts": (_truth, "must be true or false"),
}
_IN_QUERY: Mapping[Operation, tuple[str, ...]] = {
    Operation.GET_TASK: ("historyLength",),
    Operation.LIST_TASKS: tuple(_PARAMETERS),
    Operation.LIST_PUSH_CONFIGS: ("pageSize", "pageToken"),
}
_NAMES = {
    **{name: name for name in _PARAMETERS},
    **{snake(name): name for name in _PARAMETERS},
    # a2a-go's client has another name for it than its server.
    "lastUpdatedAfter": "statusTimestampAfter",
    "last_updated_after": "statusTimestampAfter",
}

# Half of the longest head that Node accepts.
_LONGEST = 8 * 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
