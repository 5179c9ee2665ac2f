"""Everything a request needs, compiled from one configuration; never changed, only replaced."""

import ipaddress
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway.a2a.card import parse_card
from gateway.a2a.dialect import Binding
from gateway.a2a.operation import Operation
from gateway.a2a.tree import Tree
from gateway.background import Background
from gateway.catalog.cards import CardPlace, CardReport, CardSource, CardWatch, open_client
from gateway.catalog.served import PublicUrl, ServedCards, upstream_hosts
from gateway.config.check import Examined
from gateway.config.model import DEFAULT_TIMEOUTS, Agent, Backend, Card, Config, UpstreamAuth
from gateway.config.model import Timeouts as WrittenTimeouts
from gateway.config.routes import table
from gateway.identity.authenticator import Identity
from gateway.identity.jwks import KeySet, open_http
from gateway.routing.table import Table, path_segments
from gateway.telemetry.metrics import NO_AGENT, AgentMeter, Metrics, Sample
from gateway.upstream.connections import ConnectionPool, Origin, client_tls
from gateway.upstream.http import HttpUpstream, Timeouts, Treatment

_BINDINGS = {"jsonrpc": Binding.JSONRPC, "rest": Binding.REST}
_CARD_RESULTS = {CardReport.READ: "ok", CardReport.UNCHANGED: "not_modified"}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


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
    product: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One configuration, ready to serve.

    Attributes:
        backings: By the key of the backend.
        strangers: The meter of requests that find no agent.
        prefix: Segments of the public path that incoming requests carry.
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
    _clients: tuple[httpx.AsyncClient, ...]

    @classmethod
    def build(cls, examined: Examined, metrics: Metrics, public_url: str) -> "Snapshot":
        """Compile a configuration that was checked; nothing is started or dialled yet.

        Args:
            public_url: What cards advertise: the file's, or the address of a loopback listener.
        """
        config = examined.config
        if config is None:
            raise ValueError("the configuration has problems")
        card_client, key_client = open_client(), open_http()
        key_sets = {
            name: KeySet(
                name,
                issuer_url=issuer.issuer,
                jwks_url=issuer.jwks,
                algorithms=issuer.algorithms,
                http=key_client,
            )
            for name, issuer in ({} if config.auth is None else config.auth.issuers).items()
        }
        identity = Identity(config.auth, anonymous=config.gateway.anonymous or config.auth is None, key_sets=key_sets)
        public = PublicUrl.parse(public_url)
        tenants = _labelled(config)
        builder = _Builder(examined, metrics, identity.schemes, public, client=card_client)
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
            _clients=(card_client, key_client),
        )

    def open(self, background: Background) -> None:
        """Start what runs beside requests: reading cards and keys."""
        for backing in self.backings.values():
            background.start(f"card of {backing.upstream.backend}", backing.source.run)
        for name, keys in self.key_sets.items():
            background.start(f"keys of {name}", keys.run)

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
            "Connections to backends. state: active, idle.",
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
            "Since the agent last confirmed its card; absent while none was read.",
            ("agent", "backend"),
            tuple(
                ((backing.agent, key), backing.source.age)
                for key, backing in backings
                if backing.source.card is not None
            ),
        )
        yield Sample(
            "jwks_last_success_timestamp_seconds",
            "When the issuer's keys were last read, in Unix seconds; 0 for never.",
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
        client: httpx.AsyncClient,
    ) -> None:
        assert examined.config is not None
        self._examined = examined
        self._config = examined.config
        self._metrics = metrics
        self._schemes = schemes
        self._public = public
        self._client = client
        self._context: ssl.SSLContext | None = None

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
        static = None if card.file is None else self._static(name, card.file)
        source = CardSource(
            CardPlace(
                url,
                card_url=card.url,
                static=static,
                credentials={key.decode(): value.decode("latin-1") for key, value in treatment.credentials},
            ),
            self._client,
            CardWatch(on_report=self._count_card(name)),
        )
        upstream = HttpUpstream(
            backend=key,
            url=url,
            pool=ConnectionPool(_origin(url), tls=self._tls(url)),
            cards=source,
            timeouts=_timeouts(agent.timeouts, self._config.defaults.timeouts),
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
            overrides=card.set,
            schemes=self._schemes,
            secrets=self._secrets(url, card.url),
            methods=methods,
        )
        product = card.file is not None or card.url is not None
        return Backing(name, url, upstream, source, cards, methods, meter, product)

    def _tls(self, url: str) -> ssl.SSLContext | None:
        """The one context that every https backend shares; making one costs 20 ms."""
        if not url.startswith("https:"):
            return None
        if self._context is None:
            self._context = client_tls()
        return self._context

    def _secrets(self, *urls: str | None) -> tuple[str, ...]:
        # The gateway's own host is on every card; an agent on the same machine is told apart by its port.
        own = urlsplit(self._public.origin)
        return tuple(host for host in upstream_hosts(*urls) if host not in (own.netloc, own.hostname))

    def _static(self, name: str, file: str) -> Tree:
        written = self._examined.marks.place(("agents", name, "card")).file
        return parse_card((Path(written).parent / file).read_bytes())

    def _count_card(self, agent: str) -> "_CardCounter":
        return _CardCounter(self._metrics, agent)


@dataclass(frozen=True, slots=True)
class _CardCounter:
    metrics: Metrics
    agent: str

    def __call__(self, report: CardReport) -> None:
        self.metrics.card_fetches.labels(self.agent, _CARD_RESULTS.get(report, "error")).inc()


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


def _timeouts(agent: WrittenTimeouts, defaults: WrittenTimeouts) -> Timeouts:
    def first(name: str) -> float:
        for written in (agent, defaults, DEFAULT_TIMEOUTS):
            value = getattr(written, name)
            if isinstance(value, float):
                return value
        raise ValueError(f"no default for {name}")

    return Timeouts(**{name: first(name) for name in ("connect", "first_byte", "send", "stream_idle", "total")})


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
