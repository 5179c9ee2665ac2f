"""One agent as the line sees it, over whichever binding it is asked."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Dialect
from gateway.principal import Principal
from gateway.upstream.repertoire import Interface
from gateway.upstream.response import Response

if TYPE_CHECKING:
    # Who has no such agent does not pay for gRPC.
    from gateway.upstream.grpc_answer import GrpcAnswer


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the agent may take, in seconds; see `config.agent.Timeouts`."""

    connect: float
    first_byte: float
    send: float
    stream_idle: float
    total: float


@dataclass(frozen=True, slots=True)
class IdentityNames:
    """Headers by which an agent is told who calls, in lower case; an empty one is not sent.

    Attributes:
        session: That of the call's context.
        tenant_claim, subject_claim, session_claim: The claims whose values they have instead; empty for none.
    """

    tenant: bytes = b"x-a2a-tenant"
    subject: bytes = b"x-a2a-subject"
    session: bytes = b""
    tenant_claim: str = ""
    subject_claim: str = ""
    session_claim: str = ""


@dataclass(frozen=True, slots=True)
class Treatment:
    """What the configuration says of the requests that an agent gets.

    Attributes:
        tenant: `strip`, `keep` or a value for the `tenant` field; None for what the agent's card asks for.
        credentials: Headers by which the gateway shows itself to the agent.
        forwarded: Names of client headers beside those of `TO_AGENT`.
        forward_caller: Whether the caller's own credential goes along.
        identity: How the agent is told who calls.
    """

    tenant: str | None = None
    credentials: tuple[tuple[bytes, bytes], ...] = ()
    forwarded: frozenset[bytes] = frozenset()
    forward_caller: bool = False
    identity: IdentityNames = IdentityNames()


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

    def clear(self) -> None:
        """Let go of everything."""
        self._made.clear()

    def __len__(self) -> int:
        return len(self._made)


@dataclass(slots=True, eq=False)
class PreparedHeaders:
    """The headers that were made of one head: lines of HTTP and of stdio, metadata of gRPC."""

    lines: Prepared[bytes] = field(default_factory=Prepared)
    metadata: Prepared[Sequence[tuple[str, str]]] = field(default_factory=Prepared)


class Caller(msgspec.Struct, frozen=True):
    """What the agent is told of the caller: who it is, from where, under which request id, and how long it waits.

    Attributes:
        since: When it began to wait, in monotonic seconds; None for whoever waits from each try on.
        weight: Its tenant's share where several want what the agent has.
        prepared: What was made of the same head before.
    """

    principal: Principal
    forwarded_for: str
    request_id: str
    since: float | None = None
    weight: float = 1.0
    prepared: PreparedHeaders = msgspec.field(default_factory=PreparedHeaders)


class Upstream(Protocol):
    """One backend of one agent.

    Attributes:
        backend: The key of the backend in metrics and logs.
        url: Where it is, as the file writes it.
    """

    backend: str
    url: str
    timeouts: Timeouts
    treatment: Treatment

    @property
    def active(self) -> int:
        """Connections that serve a call, or are being made for one."""

    @property
    def idle(self) -> int:
        """Connections that rest."""

    def interfaces(self) -> dict[Dialect, Interface]:
        """As `Repertoire.interfaces`."""

    def interface(self, call: Call, meant: tuple[Dialect, ...], /) -> Interface:
        """As `Repertoire.interface`."""

    def tenant(self, call: Call, interface: Interface, /) -> str | None:
        """As `Repertoire.tenant`."""

    def restores_tenant(self, call: Call, interface: Interface, /) -> bool:
        """As `Repertoire.restores_tenant`."""

    def send(
        self, call: Call, interface: Interface, head: Head, caller: Caller
    ) -> "Coroutine[Any, Any, Response | GrpcAnswer]":
        """Send the call; the answer has begun when this was awaited, and whoever gets it closes it.

        Raises:
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded, Unsent, Draining: there is
                none.
        """

    async def aclose(self) -> None:
        """Close every connection, cutting what is on its way."""
