"""The contract of an upstream: one replica of an agent, over any transport."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Dialect
from gateway.principal import Principal
from gateway.upstream.dialects import Interface
from gateway.upstream.oauth2 import NoToken, TokenSource
from gateway.upstream.reply import Reply


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of an agent in seconds; see `config.agent.Timeouts`."""

    connect: float
    first_byte: float
    send: float
    stream_idle: float
    total: float


@dataclass(frozen=True, slots=True)
class IdentityNames:
    """The headers that tell an agent who calls, in lower case; an empty one is not sent.

    Attributes:
        session: The header of the session.
        tenant_claim, subject_claim, session_claim: Claims whose values are sent instead; empty for none.
    """

    tenant: bytes = b"x-a2a-tenant"
    subject: bytes = b"x-a2a-subject"
    session: bytes = b""
    tenant_claim: str = ""
    subject_claim: str = ""
    session_claim: str = ""


@dataclass(frozen=True, slots=True)
class Treatment:
    """The settings of requests to an agent.

    Attributes:
        tenant: `strip`, `keep` or a value for the `tenant` field; None for the tenant of the agent's card.
        credentials: The gateway's own headers.
        forwarded: Client headers that are forwarded beside `TO_AGENT`.
        forward_caller: Whether the caller's own credential is forwarded.
        identity: The headers of the caller.
        own_tokens: The gateway's tokens for the agent, or None.
        caller_tokens: Tokens for the agent by exchange of the caller's, or None; calls have them before `own_tokens`,
            which are then for the gateway's own requests.
    """

    tenant: str | None = None
    credentials: tuple[tuple[bytes, bytes], ...] = ()
    forwarded: frozenset[bytes] = frozenset()
    forward_caller: bool = False
    identity: IdentityNames = IdentityNames()
    own_tokens: TokenSource | NoToken | None = None
    caller_tokens: TokenSource | NoToken | None = None


_MOST_PREPARED = 16
"""Entries that are kept for one head: a client may call many agents with it."""
_T = TypeVar("_T")


class Prepared(Generic[_T]):
    """Headers that upstreams have made of a client's head, ready for the next request with the same head."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], tuple[object, Principal, str, _T]] = {}

    def find(self, key: tuple[object, ...], head: Head, caller: "Caller") -> _T | None:
        """Return what was made under a key, of the same head for the same caller behind the same client, or None."""
        made = self._made.get(key)
        if made is None or made[0] is not head.headers or made[1] is not caller.principal:
            return None
        return made[3] if made[2] == caller.forwarded_for else None

    def keep(self, key: tuple[object, ...], head: Head, caller: "Caller", made: _T) -> None:
        """Keep headers for the next request.

        Args:
            key: The upstream, and what of the call the headers depend on.
        """
        if len(self._made) >= _MOST_PREPARED:
            self._made.clear()
        self._made[key] = (head.headers, caller.principal, caller.forwarded_for, made)

    def get(self, key: tuple[object, ...], head: Head, caller: "Caller", make: Callable[[], _T]) -> _T:
        """Return what was made before, or make and keep it."""
        made = self.find(key, head, caller)
        if made is None:
            made = make()
            self.keep(key, head, caller, made)
        return made

    def clear(self) -> None:
        """Drop everything."""
        self._made.clear()

    def __len__(self) -> int:
        return len(self._made)


@dataclass(slots=True, eq=False)
class PreparedHeaders:
    """The headers that were made of one head: lines of HTTP and of stdio, metadata of gRPC."""

    lines: Prepared[bytes] = field(default_factory=Prepared)
    metadata: Prepared[Sequence[tuple[str, str]]] = field(default_factory=Prepared)


class Caller(msgspec.Struct, frozen=True):
    """The caller of one request.

    Attributes:
        since: When it began to wait, in monotonic seconds; None if each try has its own time.
        weight: Its tenant's weight in the share of connections.
        prepared: Headers that were made of the same head before.
        token: The header with the token for the agent, or None; another one at each try.
        traceparent: The trace context of the try, or None where the client's own is forwarded.
    """

    principal: Principal
    forwarded_for: str
    request_id: str
    since: float | None = None
    weight: float = 1.0
    prepared: PreparedHeaders = msgspec.field(default_factory=PreparedHeaders)
    token: tuple[bytes, bytes] | None = None
    traceparent: bytes | None = None


class Upstream(Protocol):
    """One replica of an agent.

    Attributes:
        backend: The key of the backend in metrics and logs.
        url: The URL in the configuration.
    """

    backend: str
    url: str
    timeouts: Timeouts
    treatment: Treatment

    @property
    def active(self) -> int:
        """Return the number of connections that serve a call, or are being made for one."""

    @property
    def idle(self) -> int:
        """Return the number of idle connections."""

    def interfaces(self) -> dict[Dialect, Interface]:
        """As `Dialects.interfaces`."""

    def interface(self, call: Call, meant: tuple[Dialect, ...], /) -> Interface:
        """As `Dialects.interface`."""

    def tenant(self, call: Call, interface: Interface, /) -> str | None:
        """As `Dialects.tenant`."""

    def restores_tenant(self, call: Call, interface: Interface, /) -> bool:
        """As `Dialects.restores_tenant`."""

    def send(
        self, call: Call, interface: Interface, head: Head, caller: Caller, *, fresh: bool = False
    ) -> Coroutine[Any, Any, Reply]:
        """Send the call once, and return the reply when it begins; the caller closes it.

        Args:
            fresh: Whether to use a new connection, where a connection carries one call at a time.

        Raises:
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded, Unsent, Draining: there is
                no answer.
        """

    async def aclose(self) -> None:
        """Close every connection and cut open calls."""
