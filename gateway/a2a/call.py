"""A request once it has been decoded, and what its head told before.

Structs of msgspec, as every value that is made for each request: a frozen dataclass takes six times as long to make.
"""

from typing import Protocol

import msgspec
from msgspec.structs import force_setattr

from gateway.a2a.bindings.grpc_method import GrpcMethod
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.parameter import NOTHING, Parameters
from gateway.a2a.path import PathCall
from gateway.certificate import Certificate


class HeadCache(Protocol):
    """What the pipeline remembers with a head."""

    def clear(self) -> None:
        """Let go of everything."""


class Head(msgspec.Struct, frozen=True):
    """All that is known of a request before its body is read.

    Attributes:
        method: The HTTP method, upper case.
        path: Raw path, as it came.
        query: Raw query without the question mark.
        host: Lower case, without port.
        headers: Pairs as they came, names in lower case.
        peer: Address of the client, or of the proxy in front.
        values: The headers by name; made from `headers` where it is left out.
        cache: What the pipeline remembers for the next request with the same head, which has the same `Head`.
        grpc: The method that is called over gRPC, or None for any other binding.
        certificate: What the client has shown on the connection, where it was asked for one.
    """

    method: str
    path: bytes
    query: bytes = b""
    host: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    peer: str = ""
    scheme: str = "http"
    # By name, the last of several: a header is looked for a dozen times in each request, and few requests have one
    # twice. Whoever has made it already gives it.
    values: dict[bytes, bytes] = {}
    cache: HeadCache | None = None
    grpc: GrpcMethod | None = None
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        if not self.values:
            force_setattr(self, "values", dict(self.headers))

    def remember(self, cache: HeadCache) -> None:
        """Keep what the pipeline remembers."""
        force_setattr(self, "cache", cache)

    def forget(self) -> None:
        """Let go of the headers and of the cache: nobody looks at them again."""
        if self.cache is not None:
            self.cache.clear()
        force_setattr(self, "headers", ())
        force_setattr(self, "values", {})

    def all(self, name: bytes) -> tuple[bytes, ...]:
        """Every value of a header, in order; the name in lower case."""
        value = self.values.get(name)
        if value is None:
            return ()
        if len(self.values) == len(self.headers):
            return (value,)
        return tuple(value for key, value in self.headers if key == name)

    def first(self, name: bytes) -> bytes | None:
        """The first value of a header, or None."""
        value = self.values.get(name)
        if value is None or len(self.values) == len(self.headers):
            return value
        return next(value for key, value in self.headers if key == name)


class Call(msgspec.Struct, frozen=True):
    """One A2A request.

    Attributes:
        id: The JSON-RPC id as its bytes came; `null` where the binding has none.
        method: The name the client used, for the log; the JSON-RPC method or the HTTP method and path shape.
        tenant: The A2A `tenant` field, wherever the client put it; places that disagree were refused.
        body: The frame as it came.
        query: Raw query that goes on to the agent, without the tenant.
        in_body: Whether the body has a place for the tenant, an empty one included but over gRPC, where that is none.
        told: Whether the frame as it came tells its reader `tenant`, in every place where the reader looks.
        params: What was read of the body, by which the tenant is changed where it stands.
        verb: The HTTP method that the agent gets over HTTP+JSON; empty for the client's own.
        versioned: Whether the generation is certain: the client names it beside the call, or its grammar has but one.
        addressed: Whether the tenant is only the agent's name, by which clients of gRPC find it; no agent is told.
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
    path: PathCall = msgspec.field(default_factory=PathCall)
    params: Parameters = NOTHING
    verb: str = ""
    addressed: bool = False
    versioned: bool = True

    @property
    def is_mixed(self) -> bool:
        """Whether objects of 1.0 come under a method name of 0.3 (protocol trap 14), unknown to agents of 1.0."""
        return self.dialect.version is Version.V1_0 and self.dialect.binding is Binding.JSONRPC and "/" in self.method

    @property
    def is_open(self) -> bool:
        """Whether a method name of 0.3 alone tells the generation, so that the client may mean objects of 1.0."""
        return not self.versioned and self.dialect.version is Version.V0_3

    def forget(self) -> None:
        """Let go of the body and of what was read of it: the agent has it."""
        force_setattr(self, "body", b"")
        force_setattr(self, "params", NOTHING)
