"""The head of a request, and the call that it decodes to.

Both are msgspec structs, as every value that is made per request: a frozen dataclass takes six times as long to make.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec
from msgspec.structs import force_setattr

from gateway.a2a.bindings.grpc_method import GrpcMethod
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import Operation
from gateway.a2a.params import NO_PARAMS, Parameters
from gateway.a2a.paths import PathCall
from gateway.principal import Certificate


class HeadCache(Protocol):
    """The cache that the pipeline keeps with a head."""

    def clear(self) -> None:
        """Drop all entries."""


class Head(msgspec.Struct, frozen=True):
    """A request before its body is read.

    Attributes:
        method: The HTTP method, upper case.
        path: The raw path.
        query: The raw query without the question mark.
        host: Lower case, without port.
        headers: Pairs as they came, names in lower case.
        peer: Address of the client, or of the proxy in front.
        values: The headers by name; made from `headers` where it is left out.
        cache: Results that the pipeline keeps for the next request with the same head, which has the same `Head`.
        grpc: The method that is called over gRPC, or None for any other binding.
        certificate: The client certificate of the connection, where one was requested.
        http_version: The version of HTTP that the client speaks; empty over stdio.
        timeout: The client's deadline in seconds when the call arrived, or None; gRPC only.
    """

    method: str
    path: bytes
    query: bytes = b""
    host: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    peer: str = ""
    scheme: str = "http"
    values: dict[bytes, bytes] = {}
    cache: HeadCache | None = None
    grpc: GrpcMethod | None = None
    certificate: Certificate | None = None
    timeout: float | None = None
    http_version: str = "1.1"

    def __post_init__(self) -> None:
        if not self.values:
            force_setattr(self, "values", dict(self.headers))

    def remember(self, cache: HeadCache) -> None:
        """Set the cache of the pipeline."""
        force_setattr(self, "cache", cache)

    def forget(self) -> None:
        """Drop the headers and the cache, which are not used again."""
        if self.cache is not None:
            self.cache.clear()
        force_setattr(self, "headers", ())
        force_setattr(self, "values", {})

    def all(self, name: bytes) -> tuple[bytes, ...]:
        """Return every value of a header, in order; the name in lower case."""
        value = self.values.get(name)
        if value is None:
            return ()
        if len(self.values) == len(self.headers):
            return (value,)
        return tuple(value for key, value in self.headers if key == name)

    def first(self, name: bytes) -> bytes | None:
        """Return the first value of a header, or None."""
        value = self.values.get(name)
        if value is None or len(self.values) == len(self.headers):
            return value
        return next(value for key, value in self.headers if key == name)


class Call(msgspec.Struct, frozen=True):
    """One A2A request.

    Attributes:
        id: The JSON-RPC id as its bytes came; `null` where the binding has none.
        method: The name that the client used, for the log: the JSON-RPC method, or the operation.
        tenant: The A2A `tenant` field, wherever the client put it; places that disagree were refused.
        body: The frame as received.
        query: The raw query that is forwarded, without the tenant.
        in_body: Whether the body has a place for the tenant; an empty one counts, but not over gRPC.
        tenant_written: Whether the frame as received has `tenant` in every place where a reader looks; without a
            tenant, whether none of them has one.
        params: The parameters that were read from the body; the tenant is replaced by them.
        verb: The HTTP method for the agent over HTTP+JSON; empty for the client's own.
        versioned: Whether the generation is certain: a header names it, or the binding has only one.
        addressed: Whether the tenant is only the agent's name, by which gRPC clients find it; it is not sent to agents.
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
    tenant_written: bool = True
    path: PathCall = msgspec.field(default_factory=PathCall)
    params: Parameters = NO_PARAMS
    verb: str = ""
    addressed: bool = False
    versioned: bool = True

    @property
    def is_mixed(self) -> bool:
        """Return whether it has objects of 1.0 under a method name of 0.3, unknown to agents of 1.0 (trap 14)."""
        return "/" in self.method and self.dialect.version is Version.V1_0 and self.dialect.binding is Binding.JSONRPC

    @property
    def is_open(self) -> bool:
        """Return whether only a method name of 0.3 shows the version; the client may then send objects of 1.0."""
        return not self.versioned and self.dialect.version is Version.V0_3

    def forget(self) -> None:
        """Release the body and its parameters; the agent has them."""
        force_setattr(self, "body", b"")
        force_setattr(self, "params", NO_PARAMS)


# ---- Referenced ids --------------------------------------------------------------------------------------------------

MOST_REFERENCED_TASKS = 1_000
"""The most tasks that one call may name."""


class Webhook(msgspec.Struct, frozen=True):
    """A push configuration that a call sets, or that is part of a send.

    Attributes:
        url: Empty if it has none; then it is not in `ReferencedIds.webhooks`.
        token: Whether it has a token or credentials.
    """

    url: str
    token: bool = False


class ReferencedIds(msgspec.Struct, frozen=True):
    """The ids that a call names.

    Attributes:
        tasks: Each task once; the one that the call is about first, if there is one.
        references: Those of `tasks` that are named only by the references of a message, or by the push configuration of
            a send.
        context: The one context, or None.
        webhooks: The push configurations that have a URL.
        tokens: Whether a push configuration has a token or an authentication, and no URL.
    """

    tasks: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    context: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    tokens: bool = False


NO_IDS = ReferencedIds()
"""The ids of a call that names nothing."""


def gather(
    tasks: Iterable[str | None], references: Iterable[str], context: str | None, webhooks: Iterable[Webhook | None]
) -> ReferencedIds:
    """Return the ids together; None and empty texts count as absent.

    Raises:
        BadParams: there are more than `MOST_REFERENCED_TASKS` tasks.
    """
    named = dict.fromkeys(task for task in tasks if task)
    referred = dict.fromkeys(task for task in references if task and task not in named)
    if len(named) + len(referred) > MOST_REFERENCED_TASKS:
        raise BadParams(f"the request names more than {MOST_REFERENCED_TASKS} tasks")
    hooks = [hook for hook in webhooks if hook is not None]
    called = tuple(hook for hook in hooks if hook.url)
    return ReferencedIds((*named, *referred), tuple(referred), context or None, called, len(called) < len(hooks))
