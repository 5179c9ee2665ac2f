"""Everything a request needs, compiled from one configuration; never changed, only replaced."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import httpx

from gateway.a2a.bounds import BodyBounds
from gateway.background import Background
from gateway.backing import Backing, Backings
from gateway.catalog.served import GrpcPlace, PublicUrl
from gateway.catalog.trust import Trust
from gateway.config.check import Examined
from gateway.config.limit import Verification
from gateway.config.model import Config
from gateway.config.routes import table
from gateway.cors import Policy
from gateway.entry import Place
from gateway.identity.authenticator import Identity
from gateway.identity.clock import ClockWatch
from gateway.identity.jwks import KeySet, open_http
from gateway.routing.table import Table, path_segments
from gateway.tasks.ledger import Ledger
from gateway.telemetry.metrics import NO_AGENT, AgentMeter, Metrics, Sample
from gateway.upstream.replica import Replica
from gateway.webhooks import Webhooks

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One configuration, ready to serve.

    Attributes:
        backings: By the key of the backend.
        strangers: The meter of requests that find no agent.
        prefix: Segments of the public path that incoming requests carry.
        body: How much structure a request body may have.
        cors: What browsers' pages may do.
        webhooks: How webhooks are treated.
        places: What is known already of a method, path and host; bounded by whoever fills it (`intake`).
    """

    config: Config
    examined: Examined
    table: Table
    identity: Identity
    key_sets: Mapping[str, KeySet]
    backings: Mapping[str, Backing]
    strangers: AgentMeter
    public: PublicUrl
    prefix: tuple[str, ...]
    trusted: tuple[Network, ...]
    body: BodyBounds
    cors: Policy
    webhooks: Webhooks
    _clients: tuple[httpx.AsyncClient, ...]
    places: dict[tuple[str, bytes, str], Place] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        examined: Examined,
        metrics: Metrics,
        public_url: str,
        public_grpc: str = "",
        *,
        ledger: Ledger | None = None,
        webhooks: Webhooks | None = None,
    ) -> "Snapshot":
        """Compile a configuration that was checked; nothing is started or dialled yet.

        Args:
            public_url: What cards advertise: the file's, or the address of a loopback listener.
            public_grpc: Likewise for gRPC, `host:port`; empty for none.
            ledger: Who owns which task; one of its own in memory where it is left out.
            webhooks: How they are treated; none are allowed where it is left out.
        """
        config = examined.config
        if config is None:
            raise ValueError("the configuration has problems")
        # One context for whatever is verified: making one costs 20 ms, and httpx's own reads SSLKEYLOGFILE (safety K9).
        trust = Trust()
        key_client = open_http(trust.of().tls)
        verification = Verification() if config.auth is None else config.auth.verification
        key_sets = {
            name: KeySet(
                name,
                issuer_url=issuer.issuer,
                jwks_url=issuer.jwks,
                algorithms=issuer.algorithms,
                http=key_client,
                bounds=verification,
            )
            for name, issuer in ({} if config.auth is None else config.auth.issuers).items()
        }
        identity = Identity(config.auth, anonymous=config.gateway.anonymous or config.auth is None, key_sets=key_sets)
        public = PublicUrl.parse(public_url)
        tenants = _labelled(config)
        routes = table(config, examined.marks)
        grpc = GrpcPlace(public_grpc, routes.grpc_address, routes.written) if public_grpc else None
        builder = Backings(examined, metrics, identity.schemes, public, grpc, trust=trust, ledger=ledger)
        backings: dict[str, Backing] = {}
        for name, agent in config.agents.items():
            meter = AgentMeter(metrics, name, tenants)
            for backing in builder.of(name, agent, meter):
                backings[backing.upstream.backend] = backing
        return cls(
            config=config,
            examined=examined,
            table=routes,
            identity=identity,
            key_sets=key_sets,
            backings=backings,
            strangers=AgentMeter(metrics, NO_AGENT, tenants),
            public=public,
            prefix=() if config.gateway.prefix_stripped else path_segments(public.prefix),
            trusted=tuple(ipaddress.ip_network(network) for network in config.gateway.trusted_proxies),
            body=BodyBounds(config.gateway.body.depth, config.gateway.body.members, config.gateway.body.elements),
            cors=Policy.compile(config.gateway.cors),
            webhooks=Webhooks(None) if webhooks is None else webhooks,
            _clients=(*trust.clients, key_client),
        )

    def open(self, background: Background) -> None:
        """Start what runs beside requests: reading cards and keys, watching the clock."""
        for backing in self.backings.values():
            background.start(f"card of {backing.upstream.backend}", backing.source.run)
            for name, job in backing.jobs.items():
                background.start(name, job)
        for name, keys in self.key_sets.items():
            background.start(f"keys of {name}", keys.run)
        background.start("wall clock", ClockWatch().run)

    async def aclose(self) -> None:
        """Close every connection; requests have ended before."""
        for backing in self.backings.values():
            await backing.aclose()
        for client in self._clients:
            await client.aclose()

    def samples(self) -> Iterable[Sample]:
        """Figures that are read when the metrics are."""
        backings = list(self.backings.items())
        replicas: dict[tuple[str, str], list[Replica]] = {}
        for _, backing in backings:
            for replica in backing.replicas:
                replicas.setdefault((backing.agent, replica.key), []).append(replica)
        yield Sample(
            "backend_connections",
            "Connections to backends. Series: backends x 2 states (active, idle).",
            ("agent", "backend", "state"),
            tuple(
                ((*names, state), float(sum(getattr(one.upstream, state) for one in several)))
                for names, several in replicas.items()
                for state in ("active", "idle")
            ),
        )
        yield Sample(
            "backend_up",
            "1 where a backend can be asked, as far as is known, else 0; of a name with `dns: headless` how many of "
            "its addresses. Series: backends.",
            ("agent", "backend"),
            tuple((names, float(sum(each.is_up for each in several))) for names, several in replicas.items()),
        )
        yield Sample(
            "card_age_seconds",
            "Since the agent last confirmed its card; absent while none was read. Series: backends.",
            ("agent", "backend"),
            tuple(
                ((backing.agent, key), backing.source.age)
                for key, backing in backings
                if backing.source.card is not None
            ),
        )
        yield Sample(
            "jwks_last_success_timestamp_seconds",
            "When the issuer's keys were last read, in Unix seconds; 0 for never. Series: issuers of the file.",
            ("issuer",),
            tuple(((name,), keys.last_success) for name, keys in self.key_sets.items()),
        )


def _labelled(config: Config) -> frozenset[str]:
    """Tenants that metrics name: those of the file, up to the bound."""
    metrics = config.observe.metrics
    if not metrics.tenant_label:
        return frozenset()
    names = [name for name in config.tenants if name != "*"]
    if "anonymous" not in names:
        names.append("anonymous")
    return frozenset(names[: metrics.max_tenants])
