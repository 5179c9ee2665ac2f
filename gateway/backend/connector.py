"""Connectors: the connections to the replicas of one backend, and the source of their card.

A connector makes connections, upstreams on them, and the reader of the card. Objects that survive a configuration
change are shared resources, acquired by their specification.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from gateway.a2a.dialect import Binding
from gateway.a2a.framing.lsp import LONGEST, Framing, can_be_header, header_lines
from gateway.a2a.json import Tree
from gateway.cards.fetch import CardAsker, CardSource
from gateway.cards.fetch_stdio import StdioCards
from gateway.cards.trust import Trust
from gateway.config.agent import Backend, Stdio, replica_name
from gateway.config.effective import AgentTrust, program
from gateway.config.model import Gateway
from gateway.network.address import is_grpc
from gateway.resources import Resources
from gateway.upstream.connection import read_buffer
from gateway.upstream.connection_pool import ConnectionPool, Origin, PoolLimits
from gateway.upstream.http import HttpUpstream
from gateway.upstream.stdio.agent import CardQuery, Spec, StdioAgent
from gateway.upstream.stdio.process import Command
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Treatment, Upstream, UpstreamTimeouts

if TYPE_CHECKING:
    # A configuration without such an agent never loads gRPC: it costs 20 MiB.
    from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel

BINDINGS = {binding.label: binding for binding in Binding}


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """The specification of HTTP connections; equal endpoints share them."""

    origin: Origin
    limits: PoolLimits
    tls: ssl.SSLContext
    server_name: str | None
    buffer: memoryview = field(compare=False, repr=False)

    def open(self, address: str | None = None) -> ConnectionPool:
        """Return a pool without connections.

        Args:
            address: The only address of the host that it connects to; None for any.
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
class GrpcEndpoint:
    """The specification of a gRPC connection; see `GrpcChannel`."""

    url: str
    bounds: "GrpcBounds"
    connect: float
    roots: bytes | None
    shown: tuple[bytes, bytes] | None
    server_name: str | None

    def open(self, address: str | None = None) -> "GrpcChannel":
        """Return a channel without a connection; `address` is as in `HttpEndpoint.open`."""
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


@dataclass(frozen=True, slots=True)
class NetworkConnector:
    """Makes the connections to replicas over HTTP or gRPC.

    Attributes:
        key: The key of the backend.
        written: The replicas, as configured; all over HTTP, or all over gRPC.
        longest: Bytes of the longest answer of one message.
        public_url: The gateway's own.
    """

    key: str
    written: tuple[Backend, ...]
    timeouts: UpstreamTimeouts
    treatment: Treatment
    limits: PoolLimits
    longest: int
    gateway: Gateway
    trust: Trust
    trusting: AgentTrust
    public_url: str
    resources: Resources

    @property
    def is_grpc(self) -> bool:
        """Return whether the replicas are behind gRPC."""
        return is_grpc(self.written[0].url)

    def endpoint(self, one: Backend) -> HttpEndpoint | GrpcEndpoint:
        """Return the specification of connections to a replica."""
        trusting = self.trusting
        if not self.is_grpc:
            parts = urlsplit(one.url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            # One buffer for all agents: a thousand of them would hold 64 MiB.
            buffer = self.resources.acquire(("read buffer",), None, read_buffer)
            tls = self.trust.of(trusting.authorities, trusting.shown).tls
            origin = Origin(parts.scheme, parts.hostname or "", port)
            return HttpEndpoint(origin, self.limits, tls, trusting.server_name, buffer)
        from gateway.upstream.grpc_channel import GrpcBounds  # noqa: PLC0415 - see above

        secured = one.url.lower().startswith("grpcs:")
        shown = None
        if secured and trusting.shown is not None:
            chain, key = trusting.shown
            shown = (key.read_bytes(), chain.read_bytes())
        return GrpcEndpoint(
            one.url,
            GrpcBounds(request=self.gateway.body_limit, answer=self.longest, metadata=self.limits.header_bytes),
            self.timeouts.connect,
            self.trust.roots(trusting.authorities) if secured else None,
            shown,
            trusting.server_name,
        )

    def connections(self, one: Backend) -> "ConnectionPool | GrpcChannel":
        """Return the connections to a replica, at any address of its host."""
        endpoint = self.endpoint(one)
        kind = "pool" if isinstance(endpoint, HttpEndpoint) else "channel"
        make: Callable[[], ConnectionPool | GrpcChannel] = endpoint.open
        return self.resources.acquire(
            (kind, self.key, replica_name(one)), endpoint, make, close=lambda made: made.aclose
        )

    def card_asker(self) -> CardAsker | None:
        """Return the reader of a card over gRPC; None over HTTP, where it is fetched by URL."""
        if not self.is_grpc:
            return None
        from gateway.cards.fetch_grpc import GrpcCards  # noqa: PLC0415 - see above

        credentials = {name.decode(): value.decode("latin-1") for name, value in self.treatment.credentials}
        tenant = self.treatment.tenant
        first, *others = (
            (cast("GrpcChannel", self.connections(one)), urlsplit(one.url).netloc) for one in self.written
        )
        return GrpcCards(
            *first,
            credentials,
            self.written[0].a2a_version,
            tenant=None if tenant in ("strip", "keep") else tenant,
            scope_field=self.gateway.grpc.scope_field,
            others=tuple(others),
            tokens=self.treatment.own_tokens,
        )

    @property
    def card_key(self) -> object:
        """Return the specification of `card_asker`."""
        if not self.is_grpc:
            return None
        treatment = self.treatment
        scope_field = self.gateway.grpc.scope_field
        channels = tuple(self.connections(one) for one in self.written)
        shown = treatment.credentials, treatment.own_tokens
        return channels, self.written[0].a2a_version, shown, treatment.tenant, scope_field

    def upstream(self, one: Backend, cards: CardSource, connections: "ConnectionPool | GrpcChannel") -> Upstream:
        """Return the upstream of a replica."""
        if isinstance(connections, ConnectionPool):
            return HttpUpstream(
                backend=self.key,
                url=one.url,
                pool=connections,
                cards=cards,
                timeouts=self.timeouts,
                treatment=self.treatment,
                binding=None if one.protocol is None else BINDINGS[one.protocol],
                version=one.a2a_version,
                public_url=self.public_url,
            )
        from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - see above

        return GrpcUpstream(
            backend=self.key,
            url=one.url,
            channel=connections,
            cards=cards,
            timeouts=self.timeouts,
            treatment=self.treatment,
            version=one.a2a_version,
            scope_field=self.gateway.grpc.scope_field,
        )


@dataclass
class StdioConnector:
    """Makes the connection to an agent that is a command, through the pipes of its processes.

    Attributes:
        key: The key of the backend.
        folder: The folder of the configuration file with the command.
        stub: The card that the operator has written, or None.
    """

    key: str
    written: Backend
    folder: Path
    resources: Resources
    timeouts: UpstreamTimeouts
    treatment: Treatment
    stub: Tree | None

    def __post_init__(self) -> None:
        key, resources = self.key, self.resources
        run = program(self.written, self.folder, os.environ)
        spec = _spec(self.written.stdio or Stdio(), run.words, str(run.folder), run.environment)
        fields = header_lines(pair for pair in self.treatment.credentials if can_be_header(*pair))
        query = CardQuery(self.written.a2a_version, fields)
        self._was_here = resources.before(("stdio", key)) is not None
        agent = self._agent = resources.acquire(
            ("stdio", key),
            spec,
            lambda: StdioAgent(key, spec, query),
            close=lambda made: made.aclose,
            retire=lambda made: made.retire,
        )

        def enter() -> None:
            agent.query = query

        # A rejected configuration leaves the query unchanged.
        resources.on_entry(enter)
        self._cards = StdioCards(agent, run.card if self.stub is None else self.stub, query, start=spec.start)

    @property
    def card_key(self) -> object:
        """Return the specification of `card_asker`."""
        return self._agent, self._cards.stub, self.written.a2a_version

    def card_asker(self) -> StdioCards:
        """Return the reader of the card."""
        return self._cards

    def begin(self, source: CardSource, before: object) -> None:
        """Give a card source the card to use until the agent reports its own.

        Args:
            before: The card source of the last configuration, or None.
        """
        if self._was_here and isinstance(before, CardSource) and before.spoken:
            source.follow(before)
        elif self._cards.stub is not None:
            source.begin_with(self._cards.stub)

    def upstream(self, cards: CardSource) -> StdioUpstream:
        """Return the upstream."""
        return StdioUpstream(
            backend=self.key,
            url=self.written.url,
            agent=self._agent,
            cards=cards,
            timeouts=self.timeouts,
            treatment=self.treatment,
            version=self.written.a2a_version,
        )


def _spec(stdio: Stdio, words: tuple[str, ...], folder: str, environment: Mapping[str, str]) -> Spec:
    limits = stdio.limits
    return Spec(
        Command(
            words,
            folder,
            environment,
            uid=stdio.uid,
            memory=limits.memory or 0,
            cpu=0 if limits.cpu is None else max(int(limits.cpu), 1),
            files=limits.files or 0,
        ),
        stdio.card,
        framing=Framing(stdio.framing),
        processes=stdio.processes,
        start=stdio.start_timeout,
        stop=stdio.stop_timeout,
        restart=stdio.restart,
        ping=stdio.ping or 0.0,
        longest=stdio.frame,
        asked=stdio.frame if "frame" in stdio.model_fields_set else LONGEST,
        per_tenant=stdio.per_tenant,
        tenants=stdio.tenants,
    )
