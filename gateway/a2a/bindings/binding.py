"""The contract of the bindings: parameters, results, errors and events read from and written into their envelopes.

JSON-RPC has an envelope, HTTP+JSON has path, query and body, gRPC has protobuf messages. Translation works on trees and
calls only these functions. The schema classes of gRPC (`bindings/grpc.py`) are imported when they are first used.
"""

from typing import Any

import msgspec

from gateway.a2a import agent_error
from gateway.a2a import json as strict_json
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_method import GrpcMethod, method_of
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing import grpc as framing
from gateway.a2a.framing import sse
from gateway.a2a.json import BodyBounds, Tree
from gateway.a2a.operation import Operation


def read_params(call: Call, *, typed: bool) -> Tree:
    """Return the parameters of a client's call, for its form, without any tenant.

    Args:
        typed: As `params.given_params`.

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
    """Return the call of a gRPC client; as `bindings.grpc.read_call`."""
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
    """Return the call to an agent, for the client's `call`.

    Args:
        params: The parameters in the agent's form.
        tenant: The A2A tenant for the agent, or None.
        id: The JSON-RPC id for the agent, without characters that JSON escapes.
        context_id: The agent's context.

    Raises:
        BadParams: the agent's schema has no place for one of them.
    """
    version = theirs.version
    # 0.3 has no such field, and its strict parsers refuse it over HTTP+JSON, where the path has the tenant.
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
    """Return the JSON of the result in an agent's answer or event; None for none.

    Args:
        call: The call to the agent.

    Raises:
        UpstreamProtocol: it is no answer.
    """
    match call.dialect.binding:
        case Binding.REST:
            return msgspec.Raw(frame) if frame.strip() else None
        case Binding.GRPC:
            return msgspec.Raw(strict_json.write(_grpc().read_answer(call.operation, call.dialect.version, frame)))
    answer = jsonrpc.open_answer(frame)
    if answer is None:
        raise UpstreamProtocol("the agent's answer is no JSON-RPC answer")
    return None if answer.failed or not answer.result else answer.result


def error(call: Call, status: int, frame: bytes) -> AgentError | None:
    """Return the error in an agent's answer, or None where it is no error of A2A; not over gRPC.

    Args:
        call: The call to the agent.
        status: The HTTP status.
    """
    version = call.dialect.version
    if call.dialect.binding is Binding.JSONRPC:
        answer = jsonrpc.open_answer(frame)
        return agent_error.read_jsonrpc(answer.error, version) if answer is not None and answer.failed else None
    return agent_error.read_rest(status, frame, version) if status >= 400 else None


def result(call: Call, frame: bytes, *, event: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Return the tree of the result in an agent's answer, for its form; None for none.

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
    return None if raw is None else strict_json.read(raw)


def answer(call: Call, told: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return a result in the envelope of the client's `call`.

    Args:
        told: A tree, or `msgspec.Raw`.

    Raises:
        UpstreamProtocol: the schema of gRPC has no place for it.
    """
    match call.dialect.binding:
        case Binding.JSONRPC:
            return jsonrpc.write_answer(call.id, told)
        case Binding.REST:
            return rest.write_answer(call.operation, told)
        case Binding.GRPC:
            tree = strict_json.read(told) if isinstance(told, msgspec.Raw) else told
            return framing.frame(_grpc().write_answer(call.operation, call.dialect.version, tree))


def event(call: Call, told: Any) -> bytes:  # noqa: ANN401 - as above
    """Return one event of a stream as `answer`, in the client's framing; over SSE it is on one line."""
    if call.dialect.binding is Binding.GRPC:
        return framing.frame(_grpc().write_event(call.dialect.version, told))
    return sse.encode(answer(call, _on_one_line(told) if isinstance(told, msgspec.Raw) else told))


def object_of(raw: msgspec.Raw | None) -> msgspec.Raw:
    """Return a result that must be an object, as all of 1.0 are.

    Raises:
        UpstreamProtocol: it is none.
    """
    if raw is None or bytes(raw).lstrip()[:1] != b"{":
        raise UpstreamProtocol("the agent's answer is not what its version of A2A says", detail="no object")
    return raw


def _on_one_line(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a result on one line, as an event needs it.

    Raises:
        UpstreamProtocol: it is nested too deeply.
    """
    written = bytes(raw)
    if b"\n" in written or b"\r" in written:
        try:
            return msgspec.Raw(msgspec.json.format(written, indent=-1))
        except RecursionError as error:
            raise UpstreamProtocol("the agent's event is nested too deeply") from error
    return raw


_TENANT_IN_BODY = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
"""The operations where SDKs of 1.0 repeat the tenant of the path in the body, over HTTP+JSON (protocol §2.4)."""


def _grpc() -> Any:  # noqa: ANN401 - a module
    from gateway.a2a.bindings import grpc  # noqa: PLC0415 - its schema classes cost a tenth of a second

    return grpc
