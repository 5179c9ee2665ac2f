"""The contract of the bindings: parameters, results, errors and events read from and written into their envelopes.

JSON-RPC has an envelope, HTTP+JSON has path, query and body, gRPC has protobuf messages. Translation works on trees and
calls only these functions. The module of a binding has those of `Codec`, and `of` returns it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import msgspec

from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation


class Codec(Protocol):
    """The functions of one binding."""

    def read_params(self, call: Call) -> Tree:
        """Return the parameters of a client's call, for its form, without any tenant.

        Raises:
            ParseFailed, BadParams: a value cannot be read.
        """

    def make_call(
        self,
        call: Call,
        operation: Operation,
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

    def raw_result(self, call: Call, frame: bytes) -> msgspec.Raw | None:
        """Return the JSON of the result in an agent's answer or event to a call; None for none.

        Raises:
            UpstreamProtocol: it is no answer.
        """

    def read_result(self, call: Call, frame: bytes, *, event: bool = False) -> Any:  # noqa: ANN401 - any JSON
        """Return the tree of the result in an agent's answer, for its form; None for none.

        Args:
            event: Whether the frame is an event of a stream.

        Raises:
            UpstreamProtocol: it is no answer.
            ParseFailed: it is no JSON.
        """

    def read_error(self, call: Call, status: int, frame: bytes) -> AgentError | None:
        """Return the error in an agent's answer with an HTTP status; None where it is no error of A2A, or over gRPC."""

    def answer(self, call: Call, result: Any) -> bytes:  # noqa: ANN401 - as above
        """Return a result, a tree or `msgspec.Raw`, in the envelope of a client's call.

        Raises:
            UpstreamProtocol: the schema of gRPC has no place for it.
        """

    def event(self, call: Call, result: Any) -> bytes:  # noqa: ANN401 - as above
        """Return one event of a stream as `answer`, in the client's framing; over SSE it is on one line."""


def of(dialect: Dialect) -> Codec:
    """Return the functions of a dialect's binding."""
    codec: Codec = grpc_binding() if dialect.binding is Binding.GRPC else _CODECS[dialect.binding]
    return codec


@cache
def grpc_binding() -> Any:  # noqa: ANN401 - a module
    """Return the module of gRPC: it is imported when it is first used, as its classes cost a tenth of a second."""
    from gateway.a2a.bindings import grpc  # noqa: PLC0415 - as above

    return grpc


_CODECS: Mapping[Binding, Codec] = {Binding.JSONRPC: jsonrpc, Binding.REST: rest}


def object_of(raw: msgspec.Raw | None) -> msgspec.Raw:
    """Return a result that must be an object, as all of 1.0 are.

    Raises:
        UpstreamProtocol: it is not an object.
    """
    if raw is None or bytes(raw).lstrip()[:1] != b"{":
        raise UpstreamProtocol("the agent's answer is not what its version of A2A says", detail="no object")
    return raw
