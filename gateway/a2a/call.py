"""A request once it has been decoded, and what its head told before."""

from dataclasses import dataclass, field

from gateway.a2a.dialect import Dialect
from gateway.a2a.operation import Operation
from gateway.a2a.path import PathCall


@dataclass(frozen=True, slots=True)
class Head:
    """All that is known of a request before its body is read.

    Attributes:
        method: The HTTP method, upper case.
        path: Raw path, as it came.
        query: Raw query without the question mark.
        host: Lower case, without port.
        headers: Pairs as they came, names in lower case.
        peer: Address of the client, or of the proxy in front.
    """

    method: str
    path: bytes
    query: bytes = b""
    host: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    peer: str = ""
    scheme: str = "http"

    def all(self, name: bytes) -> tuple[bytes, ...]:
        """Every value of a header, in order; the name in lower case."""
        return tuple(value for key, value in self.headers if key == name)

    def first(self, name: bytes) -> bytes | None:
        """The first value of a header, or None."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Call:
    """One A2A request.

    Attributes:
        id: The JSON-RPC id as its bytes came; `null` where the binding has none.
        method: The name the client used, for the log; the JSON-RPC method or the HTTP method and path shape.
        tenant: The A2A `tenant` field, wherever the client put it; places that disagree were refused.
        body: The frame as it came.
        query: Raw query that goes on to the agent, without the tenant.
        in_body: Whether the body has a place for the tenant, an empty one included.
        told: Whether the frame as it came tells its reader `tenant`, in every place where the reader looks.
    """

    operation: Operation
    dialect: Dialect
    method: str
    id: bytes = b"null"
    tenant: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    body: bytes = b""
    query: bytes = b""
    in_body: bool = False
    told: bool = True
    path: PathCall = field(default_factory=PathCall)
