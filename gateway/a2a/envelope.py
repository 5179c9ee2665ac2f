"""What is put round the objects of a dialect, and taken off: one place that knows which binding does it how.

JSON-RPC has an envelope, HTTP+JSON has path, query and body, gRPC has protobuf messages. Whoever translates deals in
trees. The schema classes of gRPC are imported by those who use them (`bindings/grpc.py`), so nobody else pays for them.
"""

from typing import Any

import msgspec

from gateway.a2a import agent_error
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings import body, jsonrpc, rest
from gateway.a2a.bindings.grpc_method import GrpcMethod, method_of
from gateway.a2a.bounds import BodyBounds
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadRequest, UpstreamProtocol
from gateway.a2a.framing import grpc as framing
from gateway.a2a.framing import sse
from gateway.a2a.operation import Operation
from gateway.a2a.tree import Tree


def read_params(call: Call, *, typed: bool) -> Tree:
    """The parameters of a client's call, as its form gets them; no tenant is among them.

    Args:
        typed: As `bindings.body.given`.

    Raises:
        ParseFailed, BadParams: a value cannot be read.
    """
    match call.dialect.binding:
        case Binding.JSONRPC:
            return jsonrpc.read_params(call, typed=typed)
        case Binding.REST:
            return rest.read_params(call, typed=typed)
        case Binding.GRPC:
            params: Tree = _grpc().read_params(call)
            return params


def read_grpc(method: GrpcMethod, message: bytes, *, scope_field: int, bounds: BodyBounds) -> Call:
    """The call that a client of gRPC makes; as `bindings.grpc.read_call`."""
    call: Call = _grpc().read_call(method, message, scope_field=scope_field, bounds=bounds)
    return call


def write_call(
    call: Call,
    asked: Operation,
    theirs: Dialect,
    params: Tree,
    *,
    tenant: str | None,
    id: str,  # noqa: A002 - JSON-RPC's word
    context_id: str | None,
) -> Call:
    """What an agent is asked, where a client made `call`.

    Args:
        params: As the agent's form gives them.
        tenant: What the agent is told as the A2A tenant, or None.
        id: As `translation.Translation`.
        context_id: The context that they name, as the agent knows it.

    Raises:
        BadParams: they hold what the agent's schema has no place for.
    """
    version = theirs.version
    # 0.3 has no such field, and its strict parsers refuse it over HTTP+JSON; there the path says it.
    repeats = theirs.binding is Binding.GRPC or asked in _TENANT_IN_BODY
    if tenant is not None and (theirs.binding is Binding.JSONRPC or (repeats and version is Version.V1_0)):
        params["tenant"] = tenant
    if theirs.binding is Binding.REST:
        written = rest.write_call(asked, version, params)
        return Call(
            operation=asked,
            dialect=theirs,
            method=asked.value,
            tenant=tenant,
            task_id=call.task_id,
            context_id=context_id,
            body=written.body,
            query=written.query,
            path=written.path,
            verb=written.method,
        )
    identity = b"null"
    if theirs.binding is Binding.JSONRPC:
        identity = b'"%b"' % id.encode("ascii")
        method, frame = jsonrpc.write_call(asked, version, params, identity)
    else:
        method, frame = method_of(asked, version).path, _grpc().write_call(asked, version, params)
    return Call(
        operation=asked,
        dialect=theirs,
        method=method,
        id=identity,
        tenant=tenant,
        task_id=call.task_id,
        context_id=context_id,
        body=frame,
        in_body=tenant is not None,
        verb="POST",
    )


def raw_result(call: Call, frame: bytes) -> msgspec.Raw | None:
    """The JSON of the result in an agent's answer or event; None for nothing.

    Args:
        call: What the agent was asked.

    Raises:
        UpstreamProtocol: it is no answer.
    """
    match call.dialect.binding:
        case Binding.REST:
            return msgspec.Raw(frame) if frame.strip() else None
        case Binding.GRPC:
            return msgspec.Raw(body.write(_grpc().read_answer(call.operation, call.dialect.version, frame)))
    try:
        return jsonrpc.open_answer(frame).result
    except BadRequest as error:
        raise UpstreamProtocol("the agent's answer is no JSON-RPC answer", detail=error.message) from error


def error(call: Call, status: int, frame: bytes) -> AgentError | None:
    """What an agent's answer complains of, or None where it is no error that A2A knows; not over gRPC.

    Args:
        call: What the agent was asked.
        status: Of HTTP.
    """
    version = call.dialect.version
    if call.dialect.binding is Binding.JSONRPC:
        try:
            told = jsonrpc.open_answer(frame).error
        except BadRequest:
            return None
        return None if told is None else agent_error.read_jsonrpc(told, version)
    return agent_error.read_rest(status, frame, version) if status >= 400 else None


def result(call: Call, frame: bytes, *, event: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """The tree of the result in an agent's answer, as its form reads it; None for nothing.

    Args:
        event: Whether the frame is an event of a stream.

    Raises:
        UpstreamProtocol: it is no answer.
        ParseFailed: it is no JSON.
    """
    if call.dialect.binding is Binding.GRPC:
        if event:
            return _grpc().read_event(call.dialect.version, frame)
        return _grpc().read_answer(call.operation, call.dialect.version, frame)
    raw = raw_result(call, frame)
    return None if raw is None else body.read(raw)


def answer(call: Call, told: Any) -> bytes:  # noqa: ANN401 - any JSON
    """A result in the envelope of the client who made `call`.

    Args:
        told: A tree, or `msgspec.Raw`.

    Raises:
        UpstreamProtocol: gRPC has no place for what it holds.
    """
    match call.dialect.binding:
        case Binding.JSONRPC:
            return jsonrpc.write_answer(call.id, told)
        case Binding.REST:
            return rest.write_answer(call.operation, told)
        case Binding.GRPC:
            tree = body.read(told) if isinstance(told, msgspec.Raw) else told
            return framing.frame(_grpc().write_answer(call.operation, call.dialect.version, tree))


def event(call: Call, told: Any) -> bytes:  # noqa: ANN401 - as above
    """As `answer`, for one event of a stream, in the client's framing; over SSE it is on one line."""
    if call.dialect.binding is Binding.GRPC:
        return framing.frame(_grpc().write_event(call.dialect.version, told))
    return sse.encode(answer(call, body.on_one_line(told) if isinstance(told, msgspec.Raw) else told))


_TENANT_IN_BODY = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
"""Where the SDKs of 1.0 repeat the tenant of the path over HTTP+JSON (protocol §2.4)."""


def _grpc() -> Any:  # noqa: ANN401 - a module
    from gateway.a2a.bindings import grpc  # noqa: PLC0415 - its schema classes cost a tenth of a second

    return grpc
