"""Everything a request needs, compiled from one configuration; never changed, only replaced."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway.a2a.bounds import BodyBounds
from gateway.a2a.card import parse_card
from gateway.a2a.dialect import Binding
from gateway.a2a.operation import Operation
from gateway.a2a.portrait import Discretion
from gateway.a2a.tree import Tree
from gateway.background import Background
from gateway.catalog.cards import CardPlace, CardReport, CardSource, CardWatch
from gateway.catalog.served import PublicUrl, ServedCards, upstream_hosts
from gateway.catalog.trust import Trust
from gateway.config import effective
from gateway.config.agent import Agent, Backend, Card, UpstreamAuth
from gateway.config.agent import Timeouts as WrittenTimeouts
from gateway.config.check import Examined
from gateway.config.limit import Connections, Verification
from gateway.config.model import Config
from gateway.config.routes import table
from gateway.cors import Policy
from gateway.entry import Place
from gateway.identity.authenticator import Identity
from gateway.identity.clock import ClockWatch
from gateway.identity.jwks import KeySet, open_http
from gateway.routing.table import Table, path_segments
from gateway.telemetry.metrics import NO_AGENT, AgentMeter, Metrics, Sample
from gateway.upstream.connections import ConnectionPool, Origin, PoolLimits
from gateway.upstream.http import HttpUpstream, Timeouts, Treatment

_BINDINGS = {"jsonrpc": Binding.JSONRPC, "rest": Binding.REST}
_CARD_RESULTS = {CardReport.READ: "ok", CardReport.UNCHANGED: "not_modified"}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """What an answer may hold on its way to the client; see `config.limit.Connections`.

    Attributes:
        event: Longest event of a stream, in bytes.
        kept: Bytes of an answer of one frame that are read before it goes out.
        heartbeat: Seconds of silence after which a client is told that its stream is alive.
    """

    event: int
    kept: int
    heartbeat: float


@dataclass(frozen=True, slots=True)
class Backing:
    """One backend of one agent, with all that belongs to it.

    Attributes:
        product: Whether its card is the agent's own, written in the file, and not that of this one backend.
    """

    agent: str
    url: str
    upstream: HttpUpstream
    source: CardSource
    cards: ServedCards
    methods: frozenset[Operation] | None
    meter: AgentMeter
    bounds: AnswerBounds
    product: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One configuration, ready to serve.

    Attributes:
        backings: By the key of the backend.
        strangers: The meter of requests that find no agent.
        prefix: Segments of the public path that incoming requests carry.
        body: How much structure a request body may have.
        cors: What browsers' pages may do.
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
    _clients: tuple[httpx.AsyncClient, ...]
    places: dict[tuple[str, bytes, str], Place] = field(default_factory=dict)

    @classmethod
    def build(cls, examined: Examined, metrics: Metrics, public_url: str) -> "Snapshot":
        """Compile a configuration that was checked; nothing is started or dialled yet.

        Args:
            public_url: What cards advertise: the file's, or the address of a loopback listener.
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
        builder = _Builder(examined, metrics, identity.schemes, public, trust=trust)
        backings: dict[str, Backing] = {}
        for name, agent in config.agents.items():
            meter = AgentMeter(metrics, name, tenants)
            for backing in builder.backings(name, agent, meter):
                backings[backing.upstream.backend] = backing
        return cls(
            config=config,
            examined=examined,
            table=table(config, examined.marks),
            identity=identity,
            key_sets=key_sets,
            backings=backings,
            strangers=AgentMeter(metrics, NO_AGENT, tenants),
            public=public,
            prefix=() if config.gateway.prefix_stripped else path_segments(public.prefix),
            trusted=tuple(ipaddress.ip_network(network) for network in config.gateway.trusted_proxies),
            body=BodyBounds(config.gateway.body.depth, config.gateway.body.members, config.gateway.body.elements),
            cors=Policy.compile(config.gateway.cors),
            _clients=(*trust.clients, key_client),
        )

    def open(self, background: Background) -> None:
        """Start what runs beside requests: reading cards and keys, watching the clock."""
        for backing in self.backings.values():
            background.start(f"card of {backing.upstream.backend}", backing.source.run)
        for name, keys in self.key_sets.items():
            background.start(f"keys of {name}", keys.run)
        background.start("wall clock", ClockWatch().run)

    async def aclose(self) -> None:
        """Close every connection; requests have ended before."""
        for backing in self.backings.values():
            await backing.upstream.pool.aclose()
        for client in self._clients:
            await client.aclose()

    def samples(self) -> Iterable[Sample]:
        """Figures that are read when the metrics are."""
        backings = list(self.backings.items())
        yield Sample(
            "backend_connections",
            "Connections to backends. Series: backends x 2 states (active, idle).",
            ("agent", "backend", "state"),
            tuple(
                ((backing.agent, key, state), float(count))
                for key, backing in backings
                for state, count in (
                    ("active", backing.upstream.pool.active),
                    ("idle", backing.upstream.pool.idle),
                )
            ),
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


class _Builder:
    """Makes the backings of agents."""

    def __init__(
        self,
        examined: Examined,
        metrics: Metrics,
        schemes: tuple[str, ...],
        public: PublicUrl,
        *,
        trust: Trust,
    ) -> None:
        assert examined.config is not None
        self._examined = examined
        self._config = examined.config
        self._metrics = metrics
        self._schemes = schemes
        self._public = public
        self._trust = trust

    def backings(self, name: str, agent: Agent, meter: AgentMeter) -> Iterable[Backing]:
        if agent.backend is not None:
            treatment = _treatment(agent, agent.upstream_auth, agent.upstream_tenant)
            yield self._backing(name, agent, meter, key=name, backend=agent.backend, treatment=treatment)
        for tenant, own in agent.by_tenant.items():
            treatment = _treatment(
                agent,
                agent.upstream_auth if own.upstream_auth is None else own.upstream_auth,
                agent.upstream_tenant if own.upstream_tenant is None else own.upstream_tenant,
            )
            yield self._backing(name, agent, meter, key=f"{name}/{tenant}", backend=own.backend, treatment=treatment)

    def _backing(
        self, name: str, agent: Agent, meter: AgentMeter, *, key: str, backend: Backend, treatment: Treatment
    ) -> Backing:
        url = backend.url
        card = Card() if agent.card is None else agent.card
        limits = self._config.defaults.cards
        pool_limits, bounds = _connections(effective.connections(self._config, agent), self._config.gateway.heartbeat)
        trusted = self._trust.of(effective.authorities(self._config, name, self._examined.marks))
        static = None if card.file is None else self._static(name, card.file)
        source = CardSource(
            CardPlace(
                url,
                card_url=card.url,
                static=static,
                credentials={key.decode(): value.decode("latin-1") for key, value in treatment.credentials},
                ttl=limits.refresh,
                keep=limits.keep,
                longest=limits.size,
            ),
            trusted.client,
            CardWatch(on_report=self._count_card(name)),
            discretion=Discretion(
                overrides=card.set, secrets=self._secrets(url, card.url), own=self._public.places(_hosts(agent))
            ),
        )
        upstream = HttpUpstream(
            backend=key,
            url=url,
            pool=ConnectionPool(_origin(url), pool_limits, tls=trusted.tls),
            cards=source,
            timeouts=_timeouts(effective.timeouts(self._config, agent)),
            treatment=treatment,
            binding=None if backend.protocol is None else _BINDINGS[backend.protocol],
            version=backend.a2a_version,
            public_url=self._public.origin + self._public.prefix,
        )
        methods = None if agent.methods is None else frozenset(agent.methods)
        cards = ServedCards(
            source,
            upstream,
            self._public,
            schemes=self._schemes,
            exposed=tuple(_BINDINGS[binding] for binding in agent.expose),
            methods=methods,
        )
        product = card.file is not None or card.url is not None
        return Backing(name, url, upstream, source, cards, methods, meter, bounds, product)

    def _secrets(self, *urls: str | None) -> tuple[str, ...]:
        # The gateway's own host is on every card; an agent on the same machine is told apart by its port.
        own = urlsplit(self._public.origin)
        return tuple(host for host in upstream_hosts(*urls) if host not in (own.netloc, own.hostname))

    def _static(self, name: str, file: str) -> Tree:
        written = self._examined.marks.place(("agents", name, "card")).file
        return parse_card((Path(written).parent / file).read_bytes(), longest=self._config.defaults.cards.size)

    def _count_card(self, agent: str) -> "_CardCounter":
        return _CardCounter(self._metrics, agent)


@dataclass(frozen=True, slots=True)
class _CardCounter:
    metrics: Metrics
    agent: str

    def __call__(self, report: CardReport) -> None:
        self.metrics.card_fetches.add((self.agent, _CARD_RESULTS.get(report, "error")))


def _hosts(agent: Agent) -> tuple[str, ...]:
    """Hosts, or patterns of them, at which the agent is found."""
    return tuple(match.host for match in agent.match if match.host is not None)


def _treatment(agent: Agent, auth: UpstreamAuth | None, tenant: str | None) -> Treatment:
    credentials: list[tuple[bytes, bytes]] = []
    if auth is not None and auth.bearer is not None:
        credentials.append((b"authorization", b"Bearer " + auth.bearer.get_secret_value().encode("latin-1")))
    if auth is not None:
        credentials += [
            (name.lower().encode("ascii"), value.get_secret_value().encode("latin-1"))
            for name, value in auth.header.items()
        ]
    return Treatment(
        tenant=tenant,
        credentials=tuple(credentials),
        forwarded=frozenset(name.lower().encode("ascii") for name in agent.forward_headers),
        forward_caller=agent.forward_caller,
    )


def _timeouts(written: WrittenTimeouts) -> Timeouts:
    return Timeouts(**{name: getattr(written, name) for name in type(written).model_fields})


def _connections(written: Connections, heartbeat: float) -> tuple[PoolLimits, AnswerBounds]:
    def number(name: str) -> float:
        return float(getattr(written, name))

    limits = PoolLimits(
        connections=int(number("max")),
        queue=int(number("queue")),
        queue_timeout=number("queue_timeout"),
        idle=number("idle"),
        header_bytes=int(number("headers")),
        header_count=int(number("header_count")),
    )
    return limits, AnswerBounds(int(number("event")), int(number("kept")), heartbeat)


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return Origin(parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


def _labelled(config: Config) -> frozenset[str]:
    """Tenants that metrics name: those of the file, up to the bound."""
    metrics = config.observe.metrics
    if not metrics.tenant_label:
        return frozenset()
    names = [name for name in config.tenants if name != "*"]
    if "anonymous" not in names:
        names.append("anonymous")
    return frozenset(names[: metrics.max_tenants])
