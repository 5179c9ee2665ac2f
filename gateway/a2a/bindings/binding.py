"""The contract of the bindings: parameters, results, errors and events read from and written into their envelopes.

JSON-RPC has an envelope, HTTP+JSON has path, query and body, gRPC has protobuf messages. Translation works on trees and
calls only these functions. The module of a binding has those of `_Codec`; `_CODECS` is the table of all bindings.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

import msgspec

from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_method import GrpcMethod
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.json import BodyBounds, Tree
from gateway.a2a.operation import Operation


class _Codec(Protocol):
    """The functions of one binding; those of this module call them by the binding of the call."""

    def read_params(self, call: Call) -> Tree: ...

    def make_call(
        self,
        call: Call,
        asked: Operation,
        theirs: Dialect,
        params: Tree,
        *,
        tenant: str | None,
        id: str,  # noqa: A002 - JSON-RPC's word
        context_id: str | None,
    ) -> Call: ...

    def raw_result(self, call: Call, frame: bytes) -> msgspec.Raw | None: ...

    def read_result(self, call: Call, frame: bytes, *, event: bool) -> Any: ...  # noqa: ANN401 - any JSON

    def read_error(self, call: Call, status: int, frame: bytes) -> AgentError | None: ...

    def answer(self, call: Call, told: Any) -> bytes: ...  # noqa: ANN401 - as above

    def event(self, call: Call, told: Any) -> bytes: ...  # noqa: ANN401 - as above


@cache
def grpc_binding() -> Any:  # noqa: ANN401 - a module
    """Return the module of gRPC: it is imported when it is first used, as its classes cost a tenth of a second."""
    from gateway.a2a.bindings import grpc  # noqa: PLC0415 - as above

    return grpc


_CODECS: Mapping[Binding, Callable[[], _Codec]] = {
    Binding.JSONRPC: lambda: jsonrpc,
    Binding.REST: lambda: rest,
    Binding.GRPC: grpc_binding,
}
"""The implementation of each binding."""


def read_params(call: Call) -> Tree:
    """Return the parameters of a client's call, for its form, without any tenant.

    Raises:
        ParseFailed, BadParams: a value cannot be read.
    """
    return _CODECS[call.dialect.binding]().read_params(call)


def read_grpc(method: GrpcMethod, message: bytes, *, scope_field: int, bounds: BodyBounds) -> Call:
    """Return the call of a gRPC client; as `bindings.grpc.read_call`."""
    call: Call = grpc_binding().read_call(method, message, scope_field=scope_field, bounds=bounds)
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
        params: The parameters in the agent's form; they are consumed.
        tenant: The A2A tenant for the agent, or None.
        id: The JSON-RPC id for the agent, without characters that JSON escapes.
        context_id: The agent's context.

    Raises:
        BadParams: the agent's schema has no place for one of them.
    """
    return _CODECS[theirs.binding]().make_call(call, asked, theirs, params, tenant=tenant, id=id, context_id=context_id)


def raw_result(call: Call, frame: bytes) -> msgspec.Raw | None:
    """Return the JSON of the result in an agent's answer or event; None for none.

    Args:
        call: The call to the agent.

    Raises:
        UpstreamProtocol: it is no answer.
    """
    return _CODECS[call.dialect.binding]().raw_result(call, frame)


def error(call: Call, status: int, frame: bytes) -> AgentError | None:
    """Return the error in an agent's answer, or None where it is no error of A2A; not over gRPC.

    Args:
        call: The call to the agent.
        status: The HTTP status.
    """
    return _CODECS[call.dialect.binding]().read_error(call, status, frame)


def result(call: Call, frame: bytes, *, event: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Return the tree of the result in an agent's answer, for its form; None for none.

    Args:
        event: Whether the frame is an event of a stream.

    Raises:
        UpstreamProtocol: it is no answer.
        ParseFailed: it is no JSON.
    """
    return _CODECS[call.dialect.binding]().read_result(call, frame, event=event)


def answer(call: Call, told: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return a result in the envelope of the client's `call`.

    Args:
        told: A tree, or `msgspec.Raw`.

    Raises:
        UpstreamProtocol: the schema of gRPC has no place for it.
    """
    return _CODECS[call.dialect.binding]().answer(call, told)


def event(call: Call, told: Any) -> bytes:  # noqa: ANN401 - as above
    """Return one event of a stream as `answer`, in the client's framing; over SSE it is on one line."""
    return _CODECS[call.dialect.binding]().event(call, told)


def object_of(raw: msgspec.Raw | None) -> msgspec.Raw:
    """Return a result that must be an object, as all of 1.0 are.

    Raises:
        UpstreamProtocol: it is none.
    """
    if raw is None or bytes(raw).lstrip()[:1] != b"{":
        raise UpstreamProtocol("the agent's answer is not what its version of A2A says", detail="no object")
    return raw
