"""One backend of one agent, with all that belongs to it, and how it is made of what the file says."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.a2a.card import parse_card
from gateway.a2a.dialect import Binding
from gateway.a2a.operation import CALLABLE, Kind, Operation
from gateway.a2a.portrait import Discretion
from gateway.a2a.tree import Tree
from gateway.catalog.asking import CardAsker
from gateway.catalog.cards import CardPlace, CardReport, CardSource, CardWatch
from gateway.catalog.served import GrpcPlace, PublicUrl, ServedCards, upstream_hosts
from gateway.catalog.trust import Trust, Trusted
from gateway.claims import Tenure
from gateway.config import effective
from gateway.config.address import is_grpc
from gateway.config.agent import Agent, Backend, Card, IdentityHeaders, UpstreamAuth
from gateway.config.agent import Timeouts as WrittenTimeouts
from gateway.config.check import Examined
from gateway.config.limit import Connections
from gateway.config.model import Gateway
from gateway.config.sharing import shared
from gateway.config.stdio import is_stdio
from gateway.holdings import Holdings
from gateway.stdio_backing import OnStdio
from gateway.tasks.ledger import Ledger
from gateway.tasks.memory import MemoryStore
from gateway.telemetry.metrics import AgentMeter, Metrics
from gateway.upstream.connections import ConnectionPool, Origin, PoolLimits
from gateway.upstream.http import HttpUpstream
from gateway.upstream.upstream import IdentityNames, Timeouts, Treatment, Upstream

if TYPE_CHECKING:
    from gateway.catalog.grpc_cards import GrpcCards

_IDENTITY = ("tenant", "subject", "session")
_BINDINGS = {binding.label: binding for binding in Binding}
_CARD_RESULTS = {CardReport.READ: "ok", CardReport.UNCHANGED: "not_modified"}


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
        tenure: How its tasks are kept apart; None where they are not.
    """

    agent: str
    url: str
    upstream: Upstream
    source: CardSource
    cards: ServedCards
    methods: frozenset[Operation] | None
    meter: AgentMeter
    bounds: AnswerBounds
    product: bool = False
    tenure: Tenure | None = None


class Backings:
    """Makes the backings of agents."""

    def __init__(
        self,
        examined: Examined,
        metrics: Metrics,
        schemes: tuple[str, ...],
        public: PublicUrl,
        grpc: GrpcPlace | None,
        *,
        trust: Trust,
        ledger: Ledger | None = None,
        holdings: Holdings | None = None,
    ) -> None:
        assert examined.config is not None
        self._examined = examined
        self._config = examined.config
        self._metrics = metrics
        self._schemes = schemes
        self._public = public
        self._grpc = grpc
        self._trust = trust
        self._holdings = Holdings() if holdings is None else holdings
        self._ledger = Ledger(MemoryStore()) if ledger is None else ledger
        self._shared = shared(examined.config)
        tenants = {name: entry.limits.open_tasks for name, entry in examined.config.tenants.items()}
        self._most_open = tenants if any(tenants.values()) else {}

    def of(self, name: str, agent: Agent, meter: AgentMeter) -> Iterable[Backing]:
        """Those of one agent."""
        names = effective.identity_headers(self._config, agent)
        if agent.backend is not None:
            treatment = _treatment(agent, agent.upstream_auth, agent.upstream_tenant, names)
            yield self._backing(name, agent, meter, key=name, backend=agent.backend, treatment=treatment)
        for tenant, own in agent.by_tenant.items():
            treatment = _treatment(
                agent,
                agent.upstream_auth if own.upstream_auth is None else own.upstream_auth,
                agent.upstream_tenant if own.upstream_tenant is None else own.upstream_tenant,
                names,
            )
            yield self._backing(name, agent, meter, key=f"{name}/{tenant}", backend=own.backend, treatment=treatment)

    def _backing(
        self, name: str, agent: Agent, meter: AgentMeter, *, key: str, backend: Backend, treatment: Treatment
    ) -> Backing:
        url = backend.url
        card = Card() if agent.card is None else agent.card
        limits = self._config.defaults.cards
        pool_limits, bounds = _connections(effective.connections(self._config, agent), self._config.gateway.heartbeat)
        trusting = effective.authorities(self._config, name, self._examined.marks)
        trusted = self._trust.of(trusting)
        static = None if card.file is None else self._static(name, card.file)
        timeouts = _timeouts(effective.timeouts(self._config, agent))
        over_grpc = None
        if is_grpc(url):
            over_grpc = _OverGrpc(
                backend,
                timeouts,
                treatment,
                gateway=self._config.gateway,
                bounds=bounds,
                metadata=pool_limits.header_bytes,
                trust=self._trust,
                file=trusting,
                holdings=self._holdings,
                key=key,
            )
        on_stdio = None
        if is_stdio(url):
            at = ("agents", name, "by_tenant", key.partition("/")[2]) if "/" in key else ("agents", name, "backend")
            written = self._examined.marks.place(at).file
            on_stdio = OnStdio(
                key, backend, written, self._holdings, timeouts=timeouts, treatment=treatment, stub=static
            )
            static = None
        place = CardPlace(
            url,
            card_url=card.url,
            static=static,
            credentials={key.decode(): value.decode("latin-1") for key, value in treatment.credentials},
            ttl=limits.refresh,
            keep=limits.keep,
            longest=limits.size,
        )
        discretion = Discretion(overrides=card.set, secrets=self._secrets(url, card.url), own=self._own(_hosts(agent)))
        before = self._holdings.before(("card", key))
        source = self._holdings.hold(
            ("card", key),
            (name, place, trusted.client, discretion, _asked(over_grpc, on_stdio)),
            lambda: _begun(
                CardSource(
                    place,
                    trusted.client,
                    CardWatch(on_report=self._count_card(name)),
                    discretion=discretion,
                    asker=_asker(over_grpc, on_stdio),
                    turns=trusted.turns,
                ),
                on_stdio,
                before,
            ),
            run=lambda made: (f"card of {key}", made.run),
        )
        upstream: Upstream
        if over_grpc is not None:
            upstream = over_grpc.upstream(key, source)
        elif on_stdio is not None:
            upstream = on_stdio.upstream(source)
        else:
            upstream = HttpUpstream(
                backend=key,
                url=url,
                pool=self._pool(key, _origin(url), pool_limits, trusted),
                cards=source,
                timeouts=timeouts,
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
            methods=methods if self._config.push.mode != "none" else _without_push(methods),
            grpc=self._grpc,
            require_tenant=agent.require_tenant,
        )
        product = card.file is not None or card.url is not None
        return Backing(name, url, upstream, source, cards, methods, meter, bounds, product, self._tenure(key, agent))

    def _pool(self, key: str, origin: Origin, limits: PoolLimits, trusted: Trusted) -> ConnectionPool:
        return self._holdings.hold(
            ("pool", key),
            (origin, limits, trusted.tls),
            lambda: ConnectionPool(origin, limits, tls=trusted.tls),
            close=lambda pool: pool.aclose,
        )

    def _tenure(self, key: str, agent: Agent) -> Tenure | None:
        keeps = effective.tenure(self._config, agent)
        if not keeps and self._config.push.mode != "relay":
            return None
        return Tenure(
            self._ledger,
            key,
            by_principal=effective.isolation(self._config, agent) == "principal",
            adopts=effective.unknown_tasks(self._config, agent) == "adopt",
            shared=key in self._shared,
            keeps=keeps,
            most_open=self._most_open,
        )

    def _secrets(self, *urls: str | None) -> tuple[str, ...]:
        # The gateway's own host is on every card; an agent on the same machine is told apart by its port.
        places = [urlsplit(self._public.origin)]
        if self._grpc is not None:
            places.append(urlsplit("//" + self._grpc.public))
        own = {name for place in places for name in (place.netloc, place.hostname)}
        return tuple(host for host in upstream_hosts(*urls) if host not in own)

    def _own(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """The gateway's own authorities, for all that it serves."""
        return self._public.places(hosts) + (() if self._grpc is None else self._grpc.places(hosts))

    def _static(self, name: str, file: str) -> Tree:
        written = self._examined.marks.place(("agents", name, "card")).file
        return parse_card((Path(written).parent / file).read_bytes(), longest=self._config.defaults.cards.size)

    def _count_card(self, agent: str) -> "_CardCounter":
        return _CardCounter(self._metrics, agent)


class _OverGrpc:
    """How an agent behind gRPC is asked: one channel, for its calls and for its card."""

    def __init__(
        self,
        backend: Backend,
        timeouts: Timeouts,
        treatment: Treatment,
        *,
        gateway: Gateway,
        bounds: AnswerBounds,
        metadata: int,
        trust: Trust,
        file: Path | None,
        holdings: Holdings,
        key: str,
    ) -> None:
        # gRPC costs 20 MiB, which nobody pays who does without.
        from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel  # noqa: PLC0415 - see above

        self._backend = backend
        self._timeouts = timeouts
        self._treatment = treatment
        self._scope_field = gateway.grpc.scope_field
        allowed = GrpcBounds(request=gateway.body_limit, answer=max(bounds.event, bounds.kept), metadata=metadata)
        roots = trust.roots(file) if backend.url.lower().startswith("grpcs:") else None
        self._channel = holdings.hold(
            ("channel", key),
            (backend.url, allowed, timeouts.connect, roots),
            lambda: GrpcChannel(backend.url, allowed, connect=timeouts.connect, roots=roots),
            close=lambda channel: channel.aclose,
        )

    @property
    def asks(self) -> object:
        """What the way to ask for the card would be another by."""
        treatment = self._treatment
        return self._channel, self._backend.a2a_version, treatment.credentials, treatment.tenant, self._scope_field

    def cards(self) -> "GrpcCards":
        from gateway.catalog.grpc_cards import GrpcCards  # noqa: PLC0415 - see above

        credentials = {name.decode(): value.decode("latin-1") for name, value in self._treatment.credentials}
        told = self._treatment.tenant
        return GrpcCards(
            self._channel,
            urlsplit(self._backend.url).netloc,
            credentials,
            self._backend.a2a_version,
            tenant=None if told in ("strip", "keep") else told,
            scope_field=self._scope_field,
        )

    def upstream(self, key: str, source: CardSource) -> Upstream:
        from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - see above

        return GrpcUpstream(
            backend=key,
            url=self._backend.url,
            channel=self._channel,
            cards=source,
            timeouts=self._timeouts,
            treatment=self._treatment,
            version=self._backend.a2a_version,
            scope_field=self._scope_field,
        )


def _asker(over_grpc: _OverGrpc | None, on_stdio: OnStdio | None) -> CardAsker | None:
    if over_grpc is not None:
        return over_grpc.cards()
    return None if on_stdio is None else on_stdio.cards


def _asked(over_grpc: _OverGrpc | None, on_stdio: OnStdio | None) -> object:
    """By what else than the URL a card is another one."""
    if over_grpc is not None:
        return over_grpc.asks
    return None if on_stdio is None else on_stdio.asks


def _begun(source: CardSource, on_stdio: OnStdio | None, before: object) -> CardSource:
    if on_stdio is not None:
        on_stdio.begin(source, before)
    return source


@dataclass(frozen=True, slots=True)
class _CardCounter:
    metrics: Metrics
    agent: str

    def __call__(self, report: CardReport) -> None:
        self.metrics.card_fetches.add((self.agent, _CARD_RESULTS.get(report, "error")))


def _without_push(methods: frozenset[Operation] | None) -> frozenset[Operation]:
    """What a card may promise where no webhook is called."""
    offered = CALLABLE if methods is None else methods
    return frozenset(operation for operation in offered if operation.kind is not Kind.PUSH)


def _hosts(agent: Agent) -> tuple[str, ...]:
    """Hosts, or patterns of them, at which the agent is found."""
    return tuple(match.host for match in agent.match if match.host is not None)


def _treatment(agent: Agent, auth: UpstreamAuth | None, tenant: str | None, names: IdentityHeaders) -> Treatment:
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
        identity=IdentityNames(**{name: (getattr(names, name) or "").lower().encode() for name in _IDENTITY}),
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
