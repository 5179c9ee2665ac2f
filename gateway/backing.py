"""One backend of one agent, with all that belongs to it, and how it is made of what the file says."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.a2a.card import parse_card
from gateway.a2a.operation import CALLABLE, Kind, Operation
from gateway.a2a.portrait import Discretion
from gateway.a2a.tree import Tree
from gateway.approach import BINDINGS, Approach
from gateway.catalog.cards import CardPlace, CardReport, CardSource, CardWatch
from gateway.catalog.served import GrpcPlace, PublicUrl, ServedCards, upstream_hosts
from gateway.catalog.trust import Trust, Trusting
from gateway.config import effective
from gateway.config.agent import (
    USUAL_HEADERS,
    Agent,
    Backend,
    Card,
    IdentityHeaders,
    Retry,
    UpstreamAuth,
    is_several,
    is_stdio,
)
from gateway.config.agent import Timeouts as WrittenTimeouts
from gateway.config.check import Examined
from gateway.config.limit import Connections
from gateway.config.routes import shared
from gateway.group import Group
from gateway.holdings import Holdings
from gateway.roster import Roster
from gateway.routing.route import backend_key, read_backend_key
from gateway.stdio_backing import OnStdio
from gateway.tasks.affinity import TaskAffinity
from gateway.tasks.ledger import Ledger
from gateway.tasks.ownership import Isolation
from gateway.tasks.sqlite import SqliteStore
from gateway.telemetry.metrics import AgentMeter, Metrics
from gateway.upstream.connections import PoolLimits
from gateway.upstream.repeating import NEVER, Budget, Missed, Repeats
from gateway.upstream.replica import Replica
from gateway.upstream.upstream import IdentityNames, Timeouts, Treatment, Upstream

OWN_IDS = "ids"
"""The agent answers under ids of its own."""
_CARD_RESULTS = {CardReport.READ: "ok", CardReport.UNCHANGED: "not_modified"}


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """What an answer may hold on its way to the client; see `config.limit.Connections`.

    Attributes:
        event: Longest event of a stream, in bytes.
        kept: Longest answer of one frame, in bytes.
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
        isolation: How its tasks are kept apart; None where they are not.
        replica: Which of its replicas this is, with how it is.
        group: All of them, where there may be several, or the backend may be left alone; else None.
        repeats: What is sent again.
        budget: How often.
        warned: Names of the oddities of the agent that the log has been told of: `OWN_IDS`.
    """

    agent: str
    url: str
    upstream: Upstream
    source: CardSource
    cards: ServedCards
    methods: frozenset[Operation] | None
    meter: AgentMeter
    bounds: AnswerBounds
    replica: Replica
    product: bool = False
    isolation: Isolation | None = None
    group: Group | None = None
    repeats: Repeats = field(default_factory=Repeats)
    budget: Budget = field(default_factory=lambda: Budget(0.2))
    warned: set[str] = field(default_factory=set)

    @property
    def replicas(self) -> list[Replica]:
        """Those that there are now."""
        return [self.replica] if self.group is None else list(self.group.replicas())


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
        self._ledger = Ledger(SqliteStore(None)) if ledger is None else ledger
        self._shared = shared(examined.config)
        self._retry = effective.retry(examined.config)
        self._health = effective.health(examined.config)
        self._affinity = effective.affinity(examined.config)
        tenants = {name: entry.limits.open_tasks for name, entry in examined.config.tenants.items()}
        self._most_open = tenants if any(tenants.values()) else {}

    def of(self, name: str, agent: Agent, meter: AgentMeter) -> Iterable[Backing]:
        """Those of one agent."""
        names = effective.identity_headers(self._config, agent)
        if agent.backend:
            treatment = _treatment(agent, agent.upstream_auth, agent.upstream_tenant, names)
            yield self._backing(name, agent, meter, key=name, written=agent.backend, treatment=treatment)
        for tenant, own in agent.by_tenant.items():
            treatment = _treatment(
                agent,
                agent.upstream_auth if own.upstream_auth is None else own.upstream_auth,
                agent.upstream_tenant if own.upstream_tenant is None else own.upstream_tenant,
                names,
            )
            yield self._backing(
                name, agent, meter, key=backend_key(name, tenant), written=own.backend, treatment=treatment
            )

    def _backing(
        self,
        name: str,
        agent: Agent,
        meter: AgentMeter,
        *,
        key: str,
        written: tuple[Backend, ...],
        treatment: Treatment,
    ) -> Backing:
        url, *others = (one.url for one in written)
        card = Card() if agent.card is None else agent.card
        limits = effective.cards(self._config, agent)
        pool_limits, bounds = _connections(effective.connections(self._config, agent), self._config.gateway.heartbeat)
        marks = self._examined.marks
        trusting = Trusting(
            effective.authorities(self._config, name, marks),
            effective.shown_certificate(self._config, name, marks),
            effective.server_name(self._config, name),
        )
        trusted = self._trust.of(trusting.authorities, trusting.shown)
        wrong: list[str] = []
        static = None if card.file is None else self._static(name, card.file, limits.size, wrong)
        timeouts = _timeouts(effective.timeouts(self._config, agent))
        way: Approach | OnStdio
        if is_stdio(url):
            tenant = read_backend_key(key)[1]
            at = ("agents", name, "backend") if tenant is None else ("agents", name, "by_tenant", tenant)
            way = OnStdio(
                key,
                written[0],
                marks.place(at).file,
                self._holdings,
                timeouts=timeouts,
                treatment=treatment,
                stub=static,
            )
            static = None
        else:
            way = Approach(
                key,
                written,
                timeouts=timeouts,
                treatment=treatment,
                limits=pool_limits,
                longest=max(bounds.event, bounds.kept),
                gateway=self._config.gateway,
                trust=self._trust,
                trusting=trusting,
                public_url=self._public.origin + self._public.prefix,
                holdings=self._holdings,
            )
        place = CardPlace(
            url,
            card_url=card.url,
            static=static,
            wrong=tuple(wrong),
            declared=written[0].a2a_version is not None,
            credentials={key.decode(): value.decode("latin-1") for key, value in treatment.credentials},
            ttl=limits.refresh,
            keep=limits.keep,
            longest=limits.size,
            others=tuple(others),
            server_name=trusting.server_name,
        )
        discretion = Discretion(
            overrides=card.set, secrets=self._secrets(url, *others, card.url), own=self._own(_hosts(agent)), name=name
        )
        before = self._holdings.before(("card", key))
        source = self._holdings.hold(
            ("card", key),
            (name, place, trusted.client, discretion, way.asks),
            lambda: _begun(
                CardSource(
                    place,
                    trusted.client,
                    CardWatch(on_report=self._count_card(name)),
                    discretion=discretion,
                    asker=way.asker(),
                    turns=trusted.turns,
                ),
                way,
                before,
            ),
            run=lambda made: (f"card of {key}", made.run),
        )
        config = self._config
        # Hardly any agent says something of its own, and a thousand of them are made one after the other.
        retry = effective.retry(config, agent) if agent.retry.model_fields_set else self._retry
        health = effective.health(config, agent) if agent.health.model_fields_set else self._health
        affinity = effective.affinity(config, agent) if agent.affinity.model_fields_set else self._affinity
        roster = Roster(key, written, health, self._holdings)
        if isinstance(way, OnStdio):
            replicas = [roster.alone(way.upstream(source))]
            repeats = replace(NEVER, idempotent=agent.message_id_idempotent)
        else:
            replicas = roster.replicas(way, source, treatment.credentials)
            repeats = _repeats(retry, idempotent=agent.message_id_idempotent)
        meter.backends |= {each.key for each in replicas}
        upstream = replicas[0].upstream
        methods = None if agent.methods is None else frozenset(agent.methods)
        cards = ServedCards(
            source,
            upstream,
            self._public,
            schemes=self._schemes,
            exposed=tuple(BINDINGS[binding] for binding in agent.expose),
            methods=methods if self._config.push.mode != "none" else _without_push(methods),
            grpc=self._grpc,
            require_tenant=agent.require_tenant,
        )
        ejections = self._metrics.backend_ejections
        group = roster.group(affinity, lambda replica: ejections.add((name, replica.key)))
        share = (retry.budget or 0) / 100
        backing = Backing(
            name,
            url,
            upstream,
            source,
            cards,
            methods,
            meter,
            bounds,
            replicas[0],
            product=card.file is not None or card.url is not None,
            isolation=self._isolation(key, agent, follows=is_several(written) and affinity.by != "none"),
            group=group,
            repeats=repeats,
            budget=self._holdings.hold(("budget", key), share, lambda: Budget(share)),
            warned=self._holdings.hold(("warned", name), name, set[str]),
        )
        if group is not None:
            roster.fill(group, backing, replicas, None if isinstance(way, OnStdio) else way)
        return backing

    def _isolation(self, key: str, agent: Agent, *, follows: bool) -> Isolation | None:
        """How the tasks of a backend are kept apart.

        Args:
            follows: Whether it matters which of its replicas made a task.
        """
        keeps = effective.tenure(self._config, agent)
        if not keeps and not follows and self._config.push.mode != "relay":
            return None
        affinity = None
        if follows:
            ledger = self._ledger
            # Where no ledger is kept it is not asked, and may be another each time.
            made_of = (ledger if keeps else None, keeps)
            affinity = self._holdings.hold(("affinity", key), made_of, lambda: TaskAffinity(ledger, key, keeps=keeps))
        return Isolation(
            self._ledger,
            key,
            by_principal=effective.isolation(self._config, agent) == "principal",
            adopts=effective.unknown_tasks(self._config, agent) == "adopt",
            shared=key in self._shared,
            keeps=keeps,
            most_open=self._most_open,
            affinity=affinity,
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
        return self._public.places(hosts) + (() if self._grpc is None else (self._grpc.public.lower(),))

    def _static(self, name: str, file: str, longest: int, wrong: list[str]) -> Tree:
        written = self._examined.marks.place(("agents", name, "card")).file
        raw = (Path(written).parent / file).read_bytes()
        return parse_card(raw, longest=longest, wrong=wrong)

    def _count_card(self, agent: str) -> "_CardCounter":
        return _CardCounter(self._metrics, agent)


def _begun(source: CardSource, way: Approach | OnStdio, before: object) -> CardSource:
    if isinstance(way, OnStdio):
        way.begin(source, before)
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
        identity=_identity_names(names),
    )


def _identity_names(written: IdentityHeaders) -> IdentityNames:
    names: dict[str, Any] = {}
    claims: dict[str, str] = dict(written.claims.items())
    for key in USUAL_HEADERS:
        names |= {key: (getattr(written, key) or "").lower().encode(), f"{key}_claim": claims.get(key, "")}
    return IdentityNames(**names)


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


def _repeats(written: Retry, *, idempotent: bool) -> Repeats:
    return Repeats(written.max or 0, frozenset(Missed(one) for one in written.when or ()), idempotent)
