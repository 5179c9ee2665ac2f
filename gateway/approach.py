"""How the replicas of one backend are reached: what each of them is asked through, and where their card comes from."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.a2a.dialect import Binding
from gateway.catalog.cards import CardSource
from gateway.catalog.trust import Trust, Trusting
from gateway.config.address import is_grpc
from gateway.config.agent import Backend
from gateway.config.model import Gateway
from gateway.upstream.connections import ConnectionPool, Origin, PoolLimits
from gateway.upstream.http import HttpUpstream
from gateway.upstream.upstream import Timeouts, Treatment, Upstream

if TYPE_CHECKING:
    from gateway.catalog.grpc_cards import GrpcCards
    from gateway.upstream.grpc_channel import GrpcChannel

BINDINGS = {binding.label: binding for binding in Binding}


class Approach:
    """How the replicas of one backend are reached.

    Args:
        key: The key of the backend.
        replicas: As the file writes them; all over HTTP, or all over gRPC.
        longest: Bytes of the longest answer of one message.
        public_url: The gateway's own.
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
        self._channels: dict[str, GrpcChannel] = {}

    def cards(self) -> "GrpcCards | None":
        """Who asks replicas behind gRPC for their card; None over HTTP."""
        if not is_grpc(self._replicas[0].url):
            return None
        from gateway.catalog.grpc_cards import GrpcCards  # noqa: PLC0415 - who has no such agent does not pay for gRPC

        credentials = {name.decode(): value.decode("latin-1") for name, value in self._treatment.credentials}
        told = self._treatment.tenant
        first, *others = ((self._channel(one), urlsplit(one.url).netloc) for one in self._replicas)
        return GrpcCards(
            *first,
            credentials,
            self._replicas[0].a2a_version,
            tenant=None if told in ("strip", "keep") else told,
            scope_field=self._gateway.grpc.scope_field,
            others=others,
        )

    def upstream(self, replica: Backend, source: CardSource, address: str | None = None) -> Upstream:
        """What a replica is asked through; nothing is dialled yet.

        Args:
            address: One of its host's, where only that is meant.
        """
        if is_grpc(replica.url):
            return self._over_grpc(replica, source, address)
        trusting = self._trusting
        return HttpUpstream(
            backend=self._key,
            url=replica.url,
            pool=ConnectionPool(
                _origin(replica.url),
                self._limits,
                tls=self._trust.of(trusting.authorities, trusting.shown).tls,
                address=address,
                server_name=trusting.server_name,
            ),
            cards=source,
            timeouts=self._timeouts,
            treatment=self._treatment,
            binding=None if replica.protocol is None else BINDINGS[replica.protocol],
            version=replica.a2a_version,
            public_url=self._public_url,
        )

    def _over_grpc(self, replica: Backend, source: CardSource, address: str | None) -> Upstream:
        from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - as above

        return GrpcUpstream(
            backend=self._key,
            url=replica.url,
            channel=self._channel(replica) if address is None else self._make(replica, address),
            cards=source,
            timeouts=self._timeouts,
            treatment=self._treatment,
            version=replica.a2a_version,
            scope_field=self._gateway.grpc.scope_field,
        )

    def _channel(self, replica: Backend) -> "GrpcChannel":
        """The one of the replica, by which it gives its card, too."""
        found = self._channels.get(replica.url)
        if found is None:
            found = self._channels[replica.url] = self._make(replica, None)
        return found

    def _make(self, replica: Backend, address: str | None) -> "GrpcChannel":
        from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel  # noqa: PLC0415 - as above

        secured, trusting = replica.url.lower().startswith("grpcs:"), self._trusting
        shown = None
        if secured and trusting.shown is not None:
            chain, key = trusting.shown
            shown = (key.read_bytes(), chain.read_bytes())
        return GrpcChannel(
            replica.url,
            GrpcBounds(request=self._gateway.body_limit, answer=self._longest, metadata=self._limits.header_bytes),
            connect=self._timeouts.connect,
            roots=self._trust.roots(trusting.authorities) if secured else None,
            shown=shown,
            address=address,
            server_name=trusting.server_name,
        )


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return Origin(parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
