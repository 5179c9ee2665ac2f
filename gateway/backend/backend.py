"""The backends of an agent, built from the configuration."""

import ipaddress
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from gateway.a2a.card import parse_card
from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Kind, Operation
from gateway.a2a.sanitized_card import Discretion
from gateway.backend.connector import BINDINGS, NetworkConnector, StdioConnector
from gateway.cards.fetch import CardPlace, CardReport, CardSource, CardWatch
from gateway.cards.serve import GrpcPlace, PublicUrl, ServedCards, SignedCards, upstream_hosts
from gateway.cards.sign import SigningKeys
from gateway.cards.trust import Trust
from gateway.cards.verify import ALGORITHMS, CardKeys, CardVerifier, FileKeys
from gateway.catalog.directory import AgentListing
from gateway.catalog.ranking import Changes, FirstByte
from gateway.config import effective
from gateway.config.agent import (
    USUAL_HEADERS,
    Agent,
    ByTenant,
    Card,
    Eject,
    Health,
    Retry,
    TokenEndpoint,
    UpstreamAuth,
    agent_entries,
    is_several,
    is_stdio,
    place_name,
    replica_name,
)
from gateway.config.agent import Backend as WrittenBackend
from gateway.config.effective import AgentTrust
from gateway.config.limit import Verification
from gateway.config.load import Examined
from gateway.config.problem import KeyPath
from gateway.config.routes import shared
from gateway.identity.authenticator import Authenticator
from gateway.identity.jwks import KeySet
from gateway.resources import Resources
from gateway.routing.route import backend_key
from gateway.tasks.affinity import TaskAffinity
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.ownership import Isolation
from gateway.telemetry.metrics import AgentMeter, GatewayMetrics
from gateway.upstream import retry
from gateway.upstream.balancer import AffinityPolicy, Balancer
from gateway.upstream.circuit_breaker import CircuitBreaker
from gateway.upstream.connection_pool import PoolLimits
from gateway.upstream.dns import Discovery, port_of
from gateway.upstream.health_check import HealthCheck, HealthChecker
from gateway.upstream.oauth2 import NoToken, TokenSource, TokenSpec
from gateway.upstream.replica import Condition, Replica, Target
from gateway.upstream.retry import RetryBudget, RetryOn, RetryPolicy
from gateway.upstream.stdio.upstream import trouble_of
from gateway.upstream.upstream import IdentityNames, Treatment, Upstream, UpstreamTimeouts

OWN_IDS = retry.OWN_IDS
_CARD_RESULTS = {
    CardReport.READ: "ok",
    CardReport.UNCHANGED: "not_modified",
    CardReport.UNTRUSTED: "untrusted",
}


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """The bounds of an answer on its way to the client; see `config.limit.Connections`.

    Attributes:
        event: Bytes of the longest event of a stream.
        kept: Bytes of the longest answer of one frame.
        heartbeat: Seconds of silence after which a client gets a heartbeat.
    """

    event: int
    kept: int
    heartbeat: float


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend of one agent, with everything that belongs to it.

    Attributes:
        upstream: The upstream of the first replica, for properties that all replicas share.
        product: Whether the configuration has a card for the agent, so that none is read from this backend.
        listing: Its place in the catalog.
        isolation: Keeps its tasks apart; None if they are not.
        warned: Peculiarities of the agent that were logged: `OWN_IDS`.
    """

    agent: str
    url: str
    upstream: Upstream
    source: CardSource
    cards: ServedCards
    methods: frozenset[Operation] | None
    meter: AgentMeter
    bounds: AnswerBounds
    balancer: Balancer
    retry: RetryPolicy
    budget: RetryBudget
    listing: AgentListing
    product: bool = False
    isolation: Isolation | None = None
    warned: set[str] = field(default_factory=set)

    @property
    def replicas(self) -> list[Replica]:
        """Return the current replicas."""
        return list(self.balancer.replicas.values())


def card_changes(resources: Resources) -> Changes:
    """Return the counter of card changes, which all snapshots of a gateway share."""
    return resources.acquire(("card changes",), None, Changes)


def why_down(balancer: Balancer) -> str:
    """Return why a backend cannot take calls now, for operators; empty if it can."""
    now = balancer.clock()
    if not balancer.breaker.admits(now):
        return f"its circuit is open, the last failure: {balancer.breaker.why}"
    replicas = list(balancer.replicas.values())
    if any(one.weight and one.condition.is_available(now) and not trouble_of(one.upstream) for one in replicas):
        return ""
    if not replicas:
        return "its name has no address"
    states = (trouble_of(one.upstream) or one.condition.state(now) for one in replicas)
    return "; ".join(dict.fromkeys(states))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One backend, as configured.

    Attributes:
        name: The name of the agent.
        key: The key of the backend.
        written: Its replicas.
        at: Its path in the configuration, that of the agent or of one tenant's entry.
    """

    name: str
    key: str
    agent: Agent
    written: tuple[WrittenBackend, ...]
    treatment: Treatment
    meter: AgentMeter
    at: KeyPath


@dataclass
class BackendFactory:
    """Builds the backends of agents.

    Attributes:
        card_keys: Returns the keys that sign an agent's cards; None for none.
    """

    examined: Examined
    metrics: GatewayMetrics
    authenticator: Authenticator
    public: PublicUrl
    grpc: GrpcPlace | None
    trust: Trust
    ledger: TaskLedger
    resources: Resources
    card_keys: Callable[[Agent], SigningKeys | None]

    def __post_init__(self) -> None:
        assert self.examined.config is not None
        config = self._config = self.examined.config
        self._shared = shared(config)
        self._changes = card_changes(self.resources)
        # Few of a thousand agents have settings of their own.
        self._defaults = effective.retry(config), effective.health(config), effective.affinity(config)
        tenants = {name: entry.limits.open_tasks for name, entry in config.tenants.items()}
        self._most_open = tenants if any(tenants.values()) else {}

    def of(self, name: str, agent: Agent, meter: AgentMeter) -> Iterable[Backend]:
        """Yield the backends of one agent."""
        at: KeyPath = ("agents", name)
        headers = effective.identity_headers(self._config, agent)
        named: dict[str, Any] = {key: (getattr(headers, key) or "").lower().encode() for key in USUAL_HEADERS}
        named |= {f"{key}_claim": claim for key, claim in headers.claims.items()}
        for own, here in agent_entries(agent, at):
            if not own.backend:
                continue
            treatment = self._treatment(agent, own, at if own.upstream_auth is None else here, IdentityNames(**named))
            why = self.examined.unavailable.get(here)
            if why is not None:
                treatment = replace(treatment, credentials=(), own_tokens=NoToken(why), caller_tokens=None)
            key = backend_key(name, None if own is agent else str(here[-1]))
            yield self._backend(_Entry(name, key, agent, own.backend, treatment, meter, here))

    def _backend(self, entry: _Entry) -> Backend:
        config, resources, marks = self._config, self.resources, self.examined.marks
        name, key, agent, written, treatment = entry.name, entry.key, entry.agent, entry.written, entry.treatment
        # Every key of these two is set.
        bounded: Any = effective.connections(config, agent)
        limits = PoolLimits(
            bounded.max, bounded.queue, bounded.queue_timeout, bounded.idle, bounded.headers, bounded.header_count
        )
        bounds = AnswerBounds(bounded.event, bounded.kept, config.gateway.heartbeat)
        timeouts = UpstreamTimeouts(**dict(effective.timeouts(config, agent)))
        trusting = effective.agent_trust(config, name, marks)
        card = Card() if agent.card is None else agent.card
        wrong: list[str] = []
        static: Tree | None = None
        if card.file is not None:
            file = marks.folder(("agents", name, "card")) / card.file
            static = parse_card(file.read_bytes(), longest=effective.cards(config, agent).size, wrong=wrong)
        policy, share = self._retry(agent)
        connector: NetworkConnector | StdioConnector
        if is_stdio(written[0].url):
            folder = marks.folder((*entry.at, "backend"))
            connector = StdioConnector(
                key, written[0], folder, resources, timeouts=timeouts, treatment=treatment, stub=static
            )
            static = None
            policy = RetryPolicy(0, frozenset(), policy.idempotent)
        else:
            connector = NetworkConnector(
                key,
                written,
                timeouts,
                treatment,
                limits,
                max(bounds.event, bounds.kept),
                config.gateway,
                self.trust,
                trusting,
                self.public.origin + self.public.prefix,
                resources,
            )
        source = self._card_source(entry, trusting, connector, static, tuple(wrong))
        balancer, upstream = self._balancer(entry, connector, source)
        methods = None if agent.methods is None else frozenset(agent.methods)
        offered = frozenset(CALLABLE) if methods is None else methods
        if config.push.mode == "none":
            offered = frozenset(operation for operation in offered if operation.kind is not Kind.PUSH)
        authenticator = self.authenticator
        cards = ServedCards(
            source,
            upstream.dialects,
            self.public,
            schemes=authenticator.schemes,
            issuers=lambda: authenticator.issuers,
            scopes=() if agent.require is None else agent.require.scope,
            exposed=tuple(BINDINGS[binding] for binding in agent.expose),
            methods=offered,
            grpc=self.grpc,
            require_tenant=agent.require_tenant,
            signs=SignedCards(self.card_keys(agent), self.public.key_set),
        )
        return Backend(
            name,
            written[0].url,
            upstream,
            source,
            cards,
            methods,
            entry.meter,
            bounds,
            balancer,
            policy,
            resources.acquire(("budget", key), share, lambda: RetryBudget(share)),
            self._listing(entry, source, balancer),
            product=card.file is not None or card.url is not None,
            isolation=self._isolation(key, agent, follows=is_several(written) and balancer.affinity.by != "none"),
            warned=resources.acquire(("warned", name), name, set[str]),
        )

    def _listing(self, entry: _Entry, source: CardSource, balancer: Balancer) -> AgentListing:
        agent, key, card = entry.agent, entry.key, entry.agent.card
        return AgentListing(
            entry.name,
            key,
            source,
            self.resources.acquire(("first byte", key), entry.written, lambda: FirstByte(self._changes)),
            agent.trust,
            agent.latency,
            why_down=lambda: why_down(balancer),
            is_product=not agent.by_tenant or (card is not None and bool(card.file or card.url)),
        )

    def _treatment(self, agent: Agent, own: Agent | ByTenant, at: KeyPath, identity: IdentityNames) -> Treatment:
        """Return the treatment of a backend.

        Args:
            own: The agent, or its entry for a tenant, whose credential and tenant go before the agent's.
            at: The path of the one that has the credential.
        """
        auth = agent.upstream_auth if own.upstream_auth is None else own.upstream_auth
        auth, at = UpstreamAuth() if auth is None else auth, (*at, "upstream_auth")
        credentials = [(name.lower().encode("ascii"), _latin(value)) for name, value in auth.header.items()]
        if auth.bearer is not None:
            credentials.append((b"authorization", b"Bearer " + _latin(auth.bearer)))
        return Treatment(
            tenant=agent.upstream_tenant if own.upstream_tenant is None else own.upstream_tenant,
            credentials=tuple(credentials),
            forwarded=frozenset(name.lower().encode("ascii") for name in agent.forward_headers),
            forward_caller=agent.forward_caller,
            identity=identity,
            own_tokens=None if auth.oauth2 is None else self._tokens(auth.oauth2, (*at, "oauth2")),
            caller_tokens=None if auth.exchange is None else self._tokens(auth.exchange, (*at, "exchange")),
        )

    def _tokens(self, endpoint: TokenEndpoint, at: KeyPath) -> TokenSource:
        """Return the token source of an endpoint; agents with the same settings share it."""
        spec = TokenSpec(
            endpoint.token_url,
            endpoint.client_id,
            endpoint.client_secret.get_secret_value(),
            endpoint.client_auth,
            endpoint.scopes,
            endpoint.audience,
            endpoint.resource,
            exchanges=at[-1] == "exchange",
        )
        file = effective.authorities(endpoint.tls, (*at, "tls"), self.examined.marks)
        tls = self.trust.of(file).tls
        return self.resources.acquire(
            ("tokens", spec.digest, str(file or "")),
            (spec, tls),
            lambda: TokenSource(spec, tls),
            close=lambda made: made.aclose,
        )

    def _retry(self, agent: Agent) -> tuple[RetryPolicy, float]:
        """Return the retry policy and the share of its budget."""
        own = agent.retry.model_fields_set
        written: Retry = effective.retry(self._config, agent) if own else self._defaults[0]
        when = frozenset(RetryOn(one) for one in written.when or ())
        return RetryPolicy(written.max or 0, when, agent.message_id_idempotent), (written.budget or 0) / 100

    # ---- The card ------------------------------------------------------------------------------------------------

    def _card_source(
        self,
        entry: _Entry,
        trusting: AgentTrust,
        connector: NetworkConnector | StdioConnector,
        static: Tree | None,
        wrong: tuple[str, ...],
    ) -> CardSource:
        name, key, agent, written = entry.name, entry.key, entry.agent, entry.written
        limits = effective.cards(self._config, agent)
        place = CardPlace(
            written[0].url,
            card_url=None if agent.card is None else agent.card.url,
            static=static,
            wrong=wrong,
            declared=written[0].a2a_version is not None,
            credentials={key.decode(): value.decode("latin-1") for key, value in entry.treatment.credentials},
            tokens=entry.treatment.own_tokens,
            ttl=limits.refresh,
            keep=limits.keep,
            longest=limits.size,
            others=tuple(one.url for one in written[1:]),
            server_name=trusting.server_name,
        )
        hosts = tuple(match.host for match in agent.match if match.host is not None)
        discretion = Discretion(
            overrides={} if agent.card is None else agent.card.set,
            secrets=self._secrets(place.backend_url, *place.others, place.card_url),
            # The addresses of the gateway may be on every card.
            own=self.public.places(hosts) + (() if self.grpc is None else (self.grpc.public.lower(),)),
            name=name,
        )
        trusted = self.trust.of(trusting.authorities, trusting.shown)
        before, fetches, changes = self.resources.before(("card", key)), self.metrics.card_fetches, self._changes
        verifier = self._card_verifier(entry, trusting)

        def make() -> CardSource:
            watch = CardWatch(
                on_report=lambda report: fetches.add((name, _CARD_RESULTS.get(report, "error"))),
                on_change=changes.card,
            )
            asker = connector.card_asker()
            source = CardSource(
                place,
                trusted.client,
                watch,
                discretion=discretion,
                asker=asker,
                verifier=verifier,
                turns=trusted.turns,
            )
            if isinstance(connector, StdioConnector):
                connector.begin(source, before)
            return source

        return self.resources.acquire(
            ("card", key),
            (name, place, trusted.client, discretion, connector.card_key, verifier),
            make,
            run=lambda made: (f"card of {key}", made.run),
        )

    def _card_verifier(self, entry: _Entry, trusting: AgentTrust) -> CardVerifier | None:
        """Return the verifier of an agent's card; all agents with the same URL of keys share one key set."""
        verify = None if entry.agent.card is None else entry.agent.card.verify
        if verify is None:
            return None
        resources, keys = self.resources, verify.keys
        key_set: CardKeys
        if verify.is_fetched:
            http = self.trust.of(trusting.authorities).client
            key_set = resources.acquire(
                ("card key set", keys, str(trusting.authorities or "")),
                http,
                lambda: KeySet(
                    keys,
                    issuer_url="",
                    jwks_url=keys,
                    algorithms=ALGORITHMS,
                    http=http,
                    bounds=Verification().as_settings(),
                    label=f"keys of cards at {keys.partition('?')[0]}",
                ),
                run=lambda made: (f"keys of cards at {keys}", made.run),
            )
        else:
            at = ("agents", entry.name, "card", "verify", "keys")
            document = (self.examined.marks.folder(at) / keys).read_bytes()
            key_set = resources.acquire(("card key file", entry.name), document, lambda: FileKeys(document))
        return resources.acquire(
            ("card verifier", entry.key),
            (key_set, verify.require),
            lambda: CardVerifier(key_set, require=verify.require),
        )

    def _secrets(self, *urls: str | None) -> tuple[str, ...]:
        """Return the hosts that no card may name: those of the agent, without those of the gateway."""
        own = upstream_hosts(self.public.origin, None if self.grpc is None else "//" + self.grpc.public)
        return tuple(host for host in upstream_hosts(*urls) if host not in own)

    # ---- The replicas --------------------------------------------------------------------------------------------

    def _balancer(
        self, entry: _Entry, connector: NetworkConnector | StdioConnector, cards: CardSource
    ) -> tuple[Balancer, Upstream]:
        """Return the balancer, and the upstream of the first replica, or of its DNS name."""
        name, key, agent, written = entry.name, entry.key, entry.agent, entry.written
        _, health, affinity = self._defaults
        if agent.health.model_fields_set:
            health = effective.health(self._config, agent)
        if agent.affinity.model_fields_set:
            affinity = effective.affinity(self._config, agent)
        opened = health.breaker.after or 0, health.breaker.time or 5.0
        ejections = self.metrics.backend_ejections
        balancer = Balancer(
            AffinityPolicy(affinity.by or "task", affinity.gone != "other", affinity.wait or 0.0),
            self.resources.acquire(("breaker", key), opened, lambda: CircuitBreaker(*opened)),
            max_ejected=health.eject.most or 0,
            on_ejection=lambda replica: ejections.add((name, replica.key)),
        )
        upstreams = []
        for one in written:
            site = _Site(key, one, health, self.resources, is_several=is_several(written))
            entry.meter.backends |= {site.metric}
            if isinstance(connector, StdioConnector):
                upstream: Upstream = connector.upstream(cards)
                replica = site.replica(upstream, site.condition())
                balancer.fixed[replica.name] = replica
            else:
                target = Target(connector.connections(one), site.condition())
                upstream = connector.upstream(one, cards, target.connections)
                if one.dns is None:
                    replica = site.replica(upstream, target.condition)
                    balancer.fixed[replica.name] = replica
                    balancer.own_addresses |= _address(one.url)
                    balancer.former_names[place_name(one)] = replica.name
                    site.check_health(target, None, connector.treatment)
                else:
                    discovery = site.discovery(connector)
                    make = partial(_resolved, site, connector, cards)
                    balancer.names.append((discovery, make))
                    balancer.former_names[place_name(one)] = ""
                    site.check_health(target, discovery, connector.treatment)
            upstreams.append(upstream)
        if not is_several(written) and not balancer.breaker.can_open:
            [balancer.only] = balancer.fixed.values()
        return balancer, upstreams[0]

    def _isolation(self, key: str, agent: Agent, *, follows: bool) -> Isolation | None:
        """Return the isolation of the tasks of a backend; None if it needs none.

        Args:
            follows: Whether calls about a task go to the replica that made it.
        """
        keeps = effective.keeps_owners(self._config, agent)
        by_skill = any(match.by_skill for match in agent.match)
        if not keeps and not follows and not by_skill and self._config.push.mode != "relay":
            return None
        affinity = None
        if follows:
            ledger = self.ledger
            # An unused ledger may be a new one in each snapshot.
            made_of = (ledger if keeps else None, keeps)
            affinity = self.resources.acquire(
                ("affinity", key), made_of, lambda: TaskAffinity(ledger, key, keeps=keeps)
            )
        return Isolation(
            self.ledger,
            key,
            by_principal=effective.isolation(self._config, agent) == "principal",
            claims_unowned=effective.unknown_tasks(self._config, agent) == "adopt",
            shared=key in self._shared,
            keeps=keeps,
            most_open=self._most_open,
            affinity=affinity,
        )


@dataclass(frozen=True, slots=True)
class _Site:
    """One replica, or DNS name, as configured.

    Attributes:
        key: The key of the backend.
    """

    key: str
    written: WrittenBackend
    health: Health
    resources: Resources
    is_several: bool

    @property
    def name(self) -> str:
        return replica_name(self.written)

    @property
    def metric(self) -> str:
        return f"{self.key}@{self.name}" if self.is_several else self.key

    def replica(self, upstream: Upstream, condition: Condition, address: str | None = None) -> Replica:
        """Return the replica, or the one at a resolved address."""
        one, own = self.written, self.name
        if address is not None:
            port = urlsplit(one.url).netloc.rpartition(":")[2]
            own = f"{address}:{port}" if port.isdigit() else address
        return Replica(
            own if self.is_several else "",
            self.metric,
            upstream,
            one.url if address is None else f"{one.url} at {address}",
            weight=one.weight,
            label=one.label,
            condition=condition,
            place="" if is_stdio(one.url) else own,
        )

    def condition(self) -> Condition:
        """Return the condition of the replica, from the earlier configuration if its settings are the same."""
        name, before = ("condition", self.key, self.name), self.resources.before
        # A replica that is added to a backend starts slowly; those of a new backend do not.
        is_new = before(name) is None and before(("card", self.key)) is not None
        since = time.monotonic() if is_new else None
        return self.resources.acquire(name, self._watched, lambda: _condition(self.health.eject, since))

    def discovery(self, connector: NetworkConnector) -> Discovery:
        """Return the DNS discovery of its name."""
        endpoint, eject = connector.endpoint(self.written), self.health.eject

        # It outlives this configuration, so it must not refer to other parts of it.
        def make(address: str, since: float | None) -> Target:
            return Target(endpoint.open(address), _condition(eject, since), address)

        return self.resources.acquire(
            ("addresses", self.key, self.name),
            (endpoint, self._watched),
            lambda: Discovery(self.written.url, make),
            run=lambda made: (f"addresses of {self.key}@{self.name}", made.run),
            close=lambda made: made.aclose,
        )

    def check_health(self, target: Target, discovery: Discovery | None, treatment: Treatment) -> None:
        """Run health checks, if they are configured."""
        if self.health.path is None:
            return
        check = HealthCheck(**{name: getattr(self.health, name) for name in HealthCheck.__dataclass_fields__})
        url, key, credentials, tokens = self.written.url, self.metric, treatment.credentials, treatment.own_tokens
        targets: Callable[[], Iterable[Target]] = lambda: (target,) if discovery is None else discovery.targets.values()  # noqa: E731
        self.resources.acquire(
            ("health", self.key, self.name),
            (url, check, credentials, tokens, target.connections, target.condition, discovery),
            lambda: HealthChecker(key, url, targets, check, credentials, tokens=tokens),
            run=lambda made: (f"health of {key}", made.run),
            lingers=False,
        )

    @property
    def _watched(self) -> tuple[object, ...]:
        """Return the settings of failure detection; if they change, the condition is a new one."""
        eject = self.health.eject
        return self.written.url, eject.after, eject.time, eject.longest, self.health.path


def _condition(eject: Eject, since: float | None) -> Condition:
    return Condition(CircuitBreaker(eject.after or 0, eject.time or 10.0, eject.longest or 300.0), since)


def _resolved(site: _Site, connector: NetworkConnector, cards: CardSource, target: Target) -> Replica:
    """Return the replica at an address that DNS has found."""
    upstream = connector.upstream(site.written, cards, target.connections)
    return site.replica(upstream, target.condition, target.address)


def _address(url: str) -> set[tuple[str, int]]:
    """Return the address and port of a URL; nothing if its host is a name."""
    try:
        return {(str(ipaddress.ip_address(urlsplit(url).hostname or "")), port_of(url))}
    except ValueError:
        return set()


def _latin(secret: SecretStr) -> bytes:
    return secret.get_secret_value().encode("latin-1")
