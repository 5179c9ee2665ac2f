"""Ids in place of others: in a call on its way to an agent, and in what comes back.

Where several callers may hit on the same word for a context, each gets a mark before its words on the way to the agent,
which is cut out again on the way back. Everything else in a call and in a frame stays as it came.
"""

from typing import Any

from msgspec.structs import replace

from gateway.a2a import parameter, query
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.ids import context_places, parameters, referenced_ids, task_places
from gateway.a2a.operation import Operation
from gateway.a2a.parameter import NOTHING, Parameters, Way


def with_context(call: Call, context: str) -> Call:
    """The same call about another context, in every place where it names one; one that names none stays as it is.

    Raises:
        BadParams, DuplicateKey: as `mention.mentions`, of a body that nobody has read yet.
    """
    if call.dialect.binding is Binding.GRPC:
        body = _grpc().with_context(call, context)
        return call if body is call.body else replace(call, body=body, context_id=context)
    params = parameters(call)
    places = context_places(params)
    queried = query.with_context(call.query, context) if call.query else b""
    if not places and queried == call.query:
        return call
    body, params = _edited(call, params, places, context)
    return replace(call, body=body, params=params, query=queried, context_id=context)


def with_task(call: Call, task: str) -> Call:
    """The same call about another task, where its client has made the id: over JSON-RPC, as 0.1 has it.

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
    data: bytes, mark: bytes, binding: Binding, *, version: Version, operation: Operation, event: bool
) -> bytes:
    """A frame of an agent's without a mark, wherever that stands in its strings; the same object where it has none.

    Args:
        data: JSON, or a message of gRPC without what frames it.
        mark: Of `a-z`, `0-9` and `-`, which JSON writes as they are.
        operation: What the agent was asked.
        event: Whether the frame is one event of a stream.

    Raises:
        UpstreamProtocol: it is no message of gRPC that answers this.
    """
    if mark not in data:
        return data
    if binding is not Binding.GRPC:
        return data.replace(mark, b"")
    found: bytes = _grpc().without(data, mark.decode("ascii"), version=version, operation=operation, event=event)
    return found


def status_without(status: Status, mark: str) -> Status:
    """How a call over gRPC ended, without a mark; the same object where it has none.

    A detail that has it and is of a type that nobody here knows is left out.

    Args:
        mark: As of `without`.
    """
    if mark not in status.message and mark.encode("ascii") not in status.details:
        return status
    found: Status = _grpc().status_without(status, mark)
    return found


def _edited(call: Call, params: Parameters, places: list[tuple[Way, str]], text: str) -> tuple[bytes, Parameters]:
    """The body with another text in some places, and what is read of it."""
    if not places:
        return call.body, call.params
    body = parameter.with_texts(params, call.body, places, text)
    if call.params is NOTHING:
        # A body of the gateway's own has not been read, and nobody looks at what was read of it.
        return body, NOTHING
    return body, parameter.reread(call.operation, body, envelope=call.dialect.binding is Binding.JSONRPC)


def _grpc() -> Any:  # noqa: ANN401 - a module
    from gateway.a2a.bindings import grpc_id  # noqa: PLC0415 - its schema classes cost a tenth of a second

    return grpc_id
