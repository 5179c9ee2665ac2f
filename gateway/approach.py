"""How the replicas of one backend are reached: what each of them is asked through, and where their card comes from."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from gateway.a2a.dialect import Binding
from gateway.cards.fetch import CardAsker, CardSource
from gateway.cards.trust import Trust, Trusting
from gateway.config.address import is_grpc
from gateway.config.agent import Backend, replica_name
from gateway.config.model import Gateway
from gateway.holdings import Holdings
from gateway.upstream.connection import ReadBuffer
from gateway.upstream.connections import ConnectionPool, Origin, PoolLimits
from gateway.upstream.http import HttpUpstream
from gateway.upstream.upstream import Timeouts, Treatment, Upstream

if TYPE_CHECKING:
    # Who has no such agent does not pay for gRPC: it costs 20 MiB.
    from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel

BINDINGS = {binding.label: binding for binding in Binding}


@dataclass(frozen=True, slots=True)
class OverHttp:
    """What connections over HTTP are made of, and what they read into."""

    origin: Origin
    limits: PoolLimits
    tls: ssl.SSLContext
    server_name: str | None
    buffer: ReadBuffer = field(compare=False, repr=False)

    def open(self, address: str | None = None) -> ConnectionPool:
        """Some; nothing is dialled yet.

        Args:
            address: One of the host's, where only that is meant.
        """
        return ConnectionPool(
            self.origin,
            self.limits,
            tls=self.tls,
            address=address,
            server_name=self.server_name,
            buffer=self.buffer,
        )


@dataclass(frozen=True, slots=True)
class OverGrpc:
    """What a connection over gRPC is made of; see `GrpcChannel`."""

    url: str
    bounds: "GrpcBounds"
    connect: float
    roots: bytes | None
    shown: tuple[bytes, bytes] | None
    server_name: str | None

    def open(self, address: str | None = None) -> "GrpcChannel":
        """As `OverHttp.open`."""
        from gateway.upstream.grpc_channel import GrpcChannel  # noqa: PLC0415 - see above

        return GrpcChannel(
            self.url,
            self.bounds,
            connect=self.connect,
            roots=self.roots,
            shown=self.shown,
            address=address,
            server_name=self.server_name,
        )


class Approach:
    """How the replicas of one backend are reached.

    Args:
        key: The key of the backend.
        replicas: As the file writes them; all over HTTP, or all over gRPC.
        longest: Bytes of the longest answer of one message.
        public_url: The gateway's own.
        holdings: Keep the connections through changes of the file that are not about them.
    """

    def __init__(
        self,
        key: str,
        replicas: tuple[Backend, ...],
        *,
        timeouts: Timeouts,
        treatment: Treatment,
        limits: PoolLimits,
        longest: int,
        gateway: Gateway,
        trust: Trust,
        trusting: Trusting,
        public_url: str,
        holdings: Holdings,
    ) -> None:
        self._key = key
        self._replicas = replicas
        self._timeouts = timeouts
        self._treatment = treatment
        self._limits = limits
        self._longest = longest
        self._gateway = gateway
        self._trust = trust
        self._trusting = trusting
        self._public_url = public_url
        self._holdings = holdings
        self._is_grpc = is_grpc(replicas[0].url)

    def way(self, replica: Backend) -> OverHttp | OverGrpc:
        """What connections to a replica are made of."""
        trusting = self._trusting
        if not self._is_grpc:
            tls = self._trust.of(trusting.authorities, trusting.shown).tls
            # One for all agents: with a buffer each, a thousand of them would hold 64 MiB.
            buffer = self._holdings.hold(("read buffer",), None, ReadBuffer)
            return OverHttp(_origin(replica.url), self._limits, tls, trusting.server_name, buffer)
        from gateway.upstream.grpc_channel import GrpcBounds  # noqa: PLC0415 - see above

        secured = replica.url.lower().startswith("grpcs:")
        shown = None
        if secured and trusting.shown is not None:
            chain, key = trusting.shown
            shown = (key.read_bytes(), chain.read_bytes())
        return OverGrpc(
            replica.url,
            GrpcBounds(request=self._gateway.body_limit, answer=self._longest, metadata=self._limits.header_bytes),
            self._timeouts.connect,
            self._trust.roots(trusting.authorities) if secured else None,
            shown,
            trusting.server_name,
        )

    def connections(self, replica: Backend) -> "ConnectionPool | GrpcChannel":
        """Those to a replica, at whichever address its host has; it gives its card by that of gRPC, too."""
        way = self.way(replica)
        kind = "pool" if isinstance(way, OverHttp) else "channel"
        make: Callable[[], ConnectionPool | GrpcChannel] = way.open
        return self._holdings.hold((kind, self._key, replica_name(replica)), way, make, close=lambda made: made.aclose)

    def asker(self) -> CardAsker | None:
        """Who asks replicas behind gRPC for their card; None over HTTP."""
        if not self._is_grpc:
            return None
        from gateway.cards.fetch_grpc import GrpcCards  # noqa: PLC0415 - see above

        credentials = {name.decode(): value.decode("latin-1") for name, value in self._treatment.credentials}
        told = self._treatment.tenant
        first, *others = (
            (cast("GrpcChannel", self.connections(one)), urlsplit(one.url).netloc) for one in self._replicas
        )
        return GrpcCards(
            *first,
            credentials,
            self._replicas[0].a2a_version,
            tenant=None if told in ("strip", "keep") else told,
            scope_field=self._gateway.grpc.scope_field,
            others=others,
        )

    @property
    def asks(self) -> object:
        """What the way to ask for the card would be another by."""
        if not self._is_grpc:
            return None
        treatment = self._treatment
        channels = tuple(self.connections(one) for one in self._replicas)
        scope_field = self._gateway.grpc.scope_field
        return channels, self._replicas[0].a2a_version, treatment.credentials, treatment.tenant, scope_field

    def upstream(self, replica: Backend, source: CardSource, connections: "ConnectionPool | GrpcChannel") -> Upstream:
        """What a replica is asked through."""
        if isinstance(connections, ConnectionPool):
            return HttpUpstream(
                backend=self._key,
                url=replica.url,
                pool=connections,
                cards=source,
                timeouts=self._timeouts,
                treatment=self._treatment,
                binding=None if replica.protocol is None else BINDINGS[replica.protocol],
                version=replica.a2a_version,
                public_url=self._public_url,
            )
        from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - see above

        return GrpcUpstream(
            backend=self._key,
            url=replica.url,
            channel=connections,
            cards=source,
            timeouts=self._timeouts,
            treatment=self._treatment,
            version=replica.a2a_version,
            scope_field=self._gateway.grpc.scope_field,
        )


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return Origin(parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
