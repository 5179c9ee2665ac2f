"""One agent as the line sees it, over whichever binding it is asked."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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


class Caller(msgspec.Struct, frozen=True):
    """What the agent is told of the caller: who it is, from where, under which request id, and how long it waits.

    Attributes:
        since: When it began to wait, in monotonic seconds; None for whoever waits from each try on.
        weight: Its tenant's share where several want what the agent has.
    """

    principal: Principal
    forwarded_for: str
    request_id: str
    since: float | None = None
    weight: float = 1.0


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
