"""Ids rewritten in a call on its way to an agent, and in the answers.

Where several callers of an agent may choose the same context id, each has a prefix put before its ids on the way to the
agent, which is removed on the way back. All other values of a call and of a frame keep their bytes.
"""

from msgspec.structs import replace

from gateway.a2a.bindings.binding import grpc_binding
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.ids import context_places, parameters, referenced_ids, task_places
from gateway.a2a.operation import Operation
from gateway.a2a.params import NO_PARAMS, Parameters, Way, query_with_context, reopen_params, with_texts


def with_context(call: Call, context: str) -> Call:
    """Return the call with another context in every place that names one; a call that names none is unchanged.

    Raises:
        BadParams, DuplicateKey: as `ids.referenced_ids`, of a body that nobody has read yet.
    """
    if call.dialect.binding is Binding.GRPC:
        body = grpc_binding().with_context(call, context)
        return call if body is call.body else replace(call, body=body, context_id=context)
    params = parameters(call)
    places = context_places(params)
    queried = query_with_context(call.query, context) if call.query else b""
    if not places and queried == call.query:
        return call
    body, params = _edited(call, params, places, context)
    return replace(call, body=body, params=params, query=queried, context_id=context)


def with_task(call: Call, task: str) -> Call:
    """Return the call with another task, where the client has made its id: over JSON-RPC, as 0.1 has it.

    Raises:
        ValueError: it is about none, or of another binding.
        BadParams, DuplicateKey: as `with_context`.
    """
    named = referenced_ids(call)
    if call.dialect.binding is not Binding.JSONRPC or named.tasks == named.references:
        raise ValueError("the call is about no task that its client names")
    params = parameters(call)
    body, params = _edited(call, params, task_places(params, named.tasks[0]), task)
    return replace(call, body=body, params=params, task_id=task)


def without(
    data: bytes, prefix: bytes, binding: Binding, *, version: Version, operation: Operation, event: bool
) -> bytes:
    """Return a frame of an agent's with a prefix removed from all its strings; the same object where it has none.

    Args:
        data: JSON, or a message of gRPC without what frames it.
        prefix: The prefix, of `a-z`, `0-9` and `-`, which JSON never escapes.
        operation: The operation that the agent was asked for.
        event: Whether the frame is one event of a stream.

    Raises:
        UpstreamProtocol: it is no message of gRPC that answers this.
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
