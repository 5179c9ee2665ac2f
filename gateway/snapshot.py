"""One configuration, compiled: immutable, and replaced as a whole."""

import asyncio
import ipaddress
import math
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from gateway import __version__
from gateway.a2a.json import BodyBounds
from gateway.backend.backend import Backend, BackendFactory, card_changes
from gateway.background import Background
from gateway.cards.fetch import CardReport
from gateway.cards.serve import GrpcPlace, PublicUrl, SignedCards
from gateway.cards.sign import OwnKey, SigningKeys
from gateway.cards.trust import Trust
from gateway.catalog.directory import Directory
from gateway.config import effective
from gateway.config.agent import USUAL_HEADERS, Agent
from gateway.config.limit import Verification
from gateway.config.load import Examined
from gateway.config.model import Config, Issuer
from gateway.config.outside import sources
from gateway.config.routes import explain_request, routing_table
from gateway.config.yaml import Marks
from gateway.identity import settings
from gateway.identity.api_key import principal_of
from gateway.identity.authenticator import Authenticator
from gateway.identity.client_names import METHOD
from gateway.identity.clock import ClockWatch
from gateway.identity.jwks import KeySet, open_http
from gateway.identity.mtls import IdentityHeaderNames
from gateway.network.certificate import read_certificate, signing_key
from gateway.policy.cors import Policy
from gateway.push.webhooks import Webhooks
from gateway.resources import Resources
from gateway.routing.explain import Inquiry
from gateway.routing.route import read_backend_key
from gateway.routing.table import Table, path_segments
from gateway.tasks.affinity import SkillAffinity
from gateway.tasks.key_ring import CARDS, KeyRing
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner
from gateway.telemetry.metrics import NO_AGENT, NO_TENANT, AgentMeter, GatewayMetrics, Sample
from gateway.upstream.replica import Replica
from gateway.upstream.stdio.upstream import StdioUpstream, trouble_of
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    # It imports an optional library.
    from gateway.telemetry.tracing import GatewayTracer

_FETCH_GRACE = 10.0
"""Seconds for which a replaced snapshot still fetches cards and keys, because its open calls may wait for them."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class OpenCalls:
    """Counts the calls that are served by one snapshot."""

    def __init__(self) -> None:
        self._count = 0
        self._ended = asyncio.Event()

    def begin(self) -> None:
        """Count a call."""
        self._count += 1

    def end(self) -> None:
        """Uncount a call."""
        self._count -= 1
        if not self._count:
            self._ended.set()

    async def ended(self) -> None:
        """Wait until no call is open."""
        while self._count:
            self._ended.clear()
            await self._ended.wait()


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One configuration, ready to serve.

    Attributes:
        backends: Backends by key.
        strangers: The meter of requests that match no agent.
        prefix: Segments of the public path that incoming requests carry.
        directory: The agents by skill, and as callers may see them.
        body: Bounds on the structure of request bodies.
        cors: The CORS policy.
        webhooks: The treatment of webhooks.
        webhook_tls: The TLS settings for calls of webhooks.
        resources: Its connections, tasks and other resources.
        skill_affinity: The agents of tasks that callers reached by a skill.
        sign_in_cards: Signs the cards that only describe how to sign in.
        card_keys: The keys that sign cards, each once, for the gateway's key set.
        identity_headers: The headers in which trusted clients name their callers.
        keeps_ids: Whether requests keep the request id of a trusted proxy.
        calls: Its open calls.
        labelled: Tenants with a metric label of their own.
        expiries: Ends of API keys and certificates in Unix seconds, by kind and name.
        tracing: Makes the spans of its requests; None for no tracing.
    """

    config: Config
    examined: Examined
    table: Table
    authenticator: Authenticator
    key_sets: Mapping[str, KeySet]
    backends: Mapping[str, Backend]
    directory: Directory
    strangers: AgentMeter
    public: PublicUrl
    prefix: tuple[str, ...]
    keeps_ids: bool
    trusted: tuple[Network, ...]
    body: BodyBounds
    cors: Policy
    webhooks: Webhooks
    webhook_tls: ssl.SSLContext
    resources: Resources
    skill_affinity: SkillAffinity
    sign_in_cards: SignedCards
    card_keys: tuple[SigningKeys, ...]
    identity_headers: IdentityHeaderNames = field(default_factory=IdentityHeaderNames)
    calls: OpenCalls = field(default_factory=OpenCalls)
    labelled: frozenset[str] = frozenset()
    expiries: Mapping[tuple[str, str], float] = field(default_factory=dict)
    tracing: "GatewayTracer | None" = None

    @classmethod
    def build(
        cls,
        examined: Examined,
        metrics: GatewayMetrics,
        public_url: str,
        public_grpc: str = "",
        *,
        ledger: TaskLedger | None = None,
        webhooks: Webhooks | None = None,
        before: "Snapshot | None" = None,
    ) -> "Snapshot":
        """Compile a checked configuration; nothing is started or connected yet.

        Args:
            public_url: The URL that cards advertise: the file's, or the address of a loopback listener.
            public_grpc: The gRPC address that cards advertise, `host:port`; empty for none.
            ledger: The ledger of tasks; by default a new one in memory.
            webhooks: The treatment of webhooks; by default none are allowed.
            before: The active snapshot; unchanged connections, cards and keys are taken over from it.

        Raises:
            OSError, CardInvalid: A file that the configuration names has changed since the check.
        """
        config = examined.config
        if config is None:
            raise ValueError("the configuration has problems")
        resources = Resources(None if before is None else before.resources)
        # Servers with the same authorities share a context, which takes 20 ms to make.
        trust = Trust(resources)
        bounds = (Verification() if config.auth is None else config.auth.verification).as_settings()
        issuers = {} if config.auth is None else config.auth.issuers
        vouching = {
            name: effective.authorities(issuer.tls, ("auth", "issuers", name, "tls"), examined.marks)
            for name, issuer in issuers.items()
        }
        key_clients = {file: _key_client(file, trust, resources) for file in (None, *vouching.values())}
        key_sets = {
            name: _key_set(name, issuer, key_clients[vouching[name]], bounds, resources)
            for name, issuer in issuers.items()
        }
        anonymous = config.gateway.anonymous or config.auth is None
        named = _named_tenants(config)
        # A change of agents keeps the authenticator with its cache of verified credentials.
        authenticator = resources.acquire(
            ("authenticator",),
            (config.auth, anonymous, tuple(key_sets.values()), named),
            lambda: Authenticator(
                None if config.auth is None else config.auth.as_settings(),
                anonymous=anonymous,
                bounds=bounds,
                key_sets=key_sets,
                tenants=named,
            ),
        )
        ledger = TaskLedger(SqliteStore(None)) if ledger is None else ledger
        cors = config.gateway.cors
        public = PublicUrl.parse(public_url)
        tenants = _labelled(config)
        routes = routing_table(config, examined.marks)
        grpc = GrpcPlace(public_grpc, routes.grpc_address, routes.written) if public_grpc else None
        card_keys: dict[str | None, SigningKeys] = {}
        keys_of = partial(_keys_of, card_keys, config, ledger, resources)
        builder = BackendFactory(
            examined,
            metrics,
            authenticator,
            public,
            grpc,
            trust=trust,
            ledger=ledger,
            resources=resources,
            card_keys=keys_of,
        )
        backends: dict[str, Backend] = {}
        for name, agent in config.agents.items():
            meter = AgentMeter(metrics, name, tenants)
            for backend in builder.of(name, agent, meter):
                backends[backend.upstream.backend] = backend
        return cls(
            config=config,
            examined=examined,
            table=routes,
            authenticator=authenticator,
            key_sets=key_sets,
            backends=backends,
            directory=Directory(routes, [backend.listing for backend in backends.values()], card_changes(resources)),
            strangers=AgentMeter(metrics, NO_AGENT, tenants),
            public=public,
            prefix=() if config.gateway.prefix_stripped else path_segments(public.prefix),
            keeps_ids=config.gateway.request_id == "keep",
            trusted=tuple(ipaddress.ip_network(network) for network in config.gateway.trusted_proxies),
            body=BodyBounds(config.gateway.body.depth, config.gateway.body.members, config.gateway.body.elements),
            cors=Policy()
            if cors is None
            else Policy.compile(cors.origins, cors.headers, cors.max_age, credentials=cors.credentials),
            webhooks=Webhooks(None) if webhooks is None else webhooks,
            webhook_tls=trust.of(effective.authorities(config.push.tls, ("push", "tls"), examined.marks)).tls,
            resources=resources,
            skill_affinity=resources.acquire(("skill affinity",), ledger, lambda: SkillAffinity(ledger)),
            sign_in_cards=SignedCards(keys_of(None), public.key_set),
            card_keys=tuple(card_keys.values()),
            identity_headers=_identity_headers(config),
            labelled=tenants,
            expiries=_expiries(config, examined.marks),
            # Last, because its thread runs from here on.
            tracing=_tracing(config, resources),
        )

    def open(self, background: Background) -> None:
        """Start the background tasks: fetching cards and keys, watching the clock."""
        self.resources.acquire(("clock",), None, ClockWatch, run=lambda watch: ("wall clock", watch.run))
        self.resources.open(background)

    def entitles(self, owner: Owner, scope: str, now: float) -> bool:
        """Return whether an owner may still call a backend, for notifications that are sent on its behalf.

        Args:
            now: Unix seconds.
        """
        principal = self.authenticator.entitlement.of_owner(owner.tenant, owner.principal, now)
        agent, tenant = read_backend_key(scope)
        if principal is None:
            return False
        # Tokens and certificates are not stored: their claims were checked when the owner called.
        claims_known = principal.method not in ("jwt", METHOD)
        return self.table.may_reach(principal, agent, tenant, claims_known=claims_known)

    def explain(self, inquiry: Inquiry) -> dict[str, Any]:
        """Return the agent and the backend that answer a request, as `config.routes.explain_request`.

        Raises:
            LookupError: there can be no such caller or no such request; the text is for the operator.
        """
        return explain_request(self.config, self.table, inquiry, ranking=self.directory)

    def shown_config(self) -> dict[str, Any]:
        """Return the configuration for `/-/config`, secrets masked, and the source of each setting."""
        running = effective.masked(self.config)
        return {"settings": sources(self.config, self.examined.marks, running), "running": running}

    async def settled(self) -> None:
        """Wait until each card and key set was fetched and each name resolved, or that failed."""
        for backend in self.backends.values():
            if not backend.source.settled.is_set():
                await backend.source.settled.wait()
            if not backend.balancer.is_settled:
                await backend.balancer.settled()
        for keys in self.key_sets.values():
            await keys.settled()

    async def aclose(self) -> None:
        """Close the resources that no other snapshot holds; its requests have ended."""
        for meter in (self.strangers, *(backend.meter for backend in self.backends.values())):
            meter.close()
        await self.resources.aclose()

    def credential_ends(self) -> dict[tuple[str, str], float]:
        """Return when credentials end, in Unix seconds, by kind and name."""
        ends = dict(self.expiries)
        signing = [keys.expires for keys in self.card_keys if keys.expires is not None]
        if signing:
            ends["signing_key", "cards"] = min(signing)
        return ends

    def samples(self) -> Iterable[Sample]:
        """Yield the metrics that are read when they are scraped."""
        backends = list(self.backends.items())
        replicas: dict[tuple[str, str], list[Replica]] = {}
        for _, backend in backends:
            for replica in backend.replicas:
                replicas.setdefault((backend.agent, replica.key), []).append(replica)
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
            "1 if a backend is healthy, as far as is known, else 0; with `dns: headless` the number of healthy "
            "addresses. Series: backends.",
            ("agent", "backend"),
            tuple(
                (names, float(sum(one.condition.is_up and not trouble_of(one.upstream) for one in several)))
                for names, several in replicas.items()
            ),
        )
        yield Sample(
            "card_age_seconds",
            "Since the agent last confirmed its card; absent while none was read. Series: backends.",
            ("agent", "backend"),
            tuple(
                ((backend.agent, key), backend.source.age)
                for key, backend in backends
                if backend.source.card is not None
            ),
        )
        yield Sample(
            "config_info",
            "Hash of the running configuration; the value is always 1. Series: 1.",
            ("hash",),
            (((self.examined.text_hash,), 1.0),),
        )
        yield from _untrusted(backends)
        yield from _processes([(backend.agent, backend.upstream) for _, backend in backends])
        yield Sample(
            "jwks_last_success_timestamp_seconds",
            "When the issuer's keys were last read, in Unix seconds; 0 for never. Series: issuers of the file.",
            ("issuer",),
            tuple(((name,), keys.last_success) for name, keys in self.key_sets.items()),
        )


class DrainingSnapshots:
    """Closes each replaced snapshot after its last call.

    Args:
        closed: Called after one was closed.
    """

    def __init__(self, background: Background, closed: Callable[[], None] = lambda: None) -> None:
        self._background = background
        self._closed = closed
        self._draining: set[Snapshot] = set()

    def __len__(self) -> int:
        return len(self._draining)

    def drain(self, snapshot: Snapshot) -> None:
        """Close the resources of `snapshot` that no newer one uses, once its last call has ended."""
        self._draining.add(snapshot)
        self._background.start("draining a configuration", partial(self._drain, snapshot))

    async def aclose(self) -> None:
        """Close all of them now."""
        await asyncio.gather(*(snapshot.aclose() for snapshot in tuple(self._draining)))

    async def _drain(self, snapshot: Snapshot) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FETCH_GRACE):
                await snapshot.calls.ended()
        snapshot.resources.stop()
        await snapshot.calls.ended()
        self._draining.discard(snapshot)
        await snapshot.aclose()
        # Requests are served between these two steps, which take some milliseconds each with many agents.
        await asyncio.sleep(0)
        self._closed()


def _keys_of(
    used: dict[str | None, SigningKeys], config: Config, ledger: TaskLedger, resources: Resources, agent: Agent | None
) -> SigningKeys | None:
    """Return the keys that sign an agent's cards, or those of `defaults`; None if they are not signed.

    Args:
        used: Each key, or ring of keys, once: by its `kid`, or None for those that the gateway makes.
    """
    written = effective.card_sign(config, agent)
    if written is None:
        return None
    if written.kid not in used:
        if written.key is None or written.kid is None:
            wall = time.time  # noqa: TID251 - keys begin to sign at a date
            # Shared, because the store may not answer when the next snapshot needs them.
            used[written.kid] = resources.acquire(
                ("card keys",), ledger.store, lambda: KeyRing(ledger.store, CARDS, wall=wall)
            )
        else:
            used[written.kid] = OwnKey(signing_key(written.key.get_secret_value()), written.kid)
    return used[written.kid]


def _untrusted(backends: Iterable[tuple[str, Backend]]) -> Iterator[Sample]:
    """Yield the metric of agents whose cards are verified."""
    verified = [(key, backend) for key, backend in backends if backend.source.verifier is not None]
    if verified:
        yield Sample(
            "card_untrusted",
            "1 if the last card of the agent had a bad signature, or none where one is required, else 0. "
            "Series: backends with `card.verify`.",
            ("agent", "backend"),
            tuple(
                ((backend.agent, key), float(backend.source.report is CardReport.UNTRUSTED))
                for key, backend in verified
            ),
        )


def _processes(upstreams: Iterable[tuple[str, Upstream]]) -> Iterator[Sample]:
    """Yield the metrics of agents on stdio."""
    agents = [(name, upstream.agent) for name, upstream in upstreams if isinstance(upstream, StdioUpstream)]
    if not agents:
        return
    running: Counter[str] = Counter()
    restarts: Counter[str] = Counter()
    dropped: Counter[tuple[str, str]] = Counter()
    for name, agent in agents:
        running[name] += sum(runner.rpc is not None for _, runner in agent.runners())
        restarts[name] += agent.figures.restarts
        for reason in ("late", "stray", "notification"):
            dropped[name, reason] += agent.figures.dropped[reason]
    yield Sample(
        "stdio_processes",
        "Processes of agents on stdio that calls go to. Series: agents.",
        ("agent",),
        tuple(((name,), float(count)) for name, count in running.items()),
    )
    yield Sample(
        "stdio_restarts_total",
        "Starts of processes of agents on stdio after the first. Series: agents.",
        ("agent",),
        tuple(((name,), float(count)) for name, count in restarts.items()),
    )
    yield Sample(
        "stdio_frames_dropped_total",
        "Frames from agents on stdio that went to no call. Series: agents x 3 reasons (late, stray, notification).",
        ("agent", "reason"),
        tuple((labels, float(count)) for labels, count in dropped.items()),
    )


def _expiries(config: Config, marks: Marks) -> Mapping[tuple[str, str], float]:
    keys = {} if config.auth is None else config.auth.api_keys
    ends = {("api_key", name): principal_of(name, key.as_settings()).expires for name, key in keys.items()}
    files = {at: marks.folder(at) / file for at, file in effective.certificates(config).items()}
    # A thousand agents may share one certificate.
    read = {file: read_certificate(file) for file in set(files.values())}
    for at, file in files.items():
        certificate = read[file]
        if certificate is not None:
            kind = "tls" if at[0] == "gateway" else "agent_tls"
            ends[kind, str(at[-2])] = certificate.not_valid_after_utc.timestamp()
    return {of: end for of, end in ends.items() if end < math.inf}


def _key_client(file: Path | None, trust: Trust, resources: Resources) -> httpx.AsyncClient:
    """Return the client for the key sets of all issuers with the same authorities.

    Args:
        file: PEM file of the authorities; None for those of the system.
    """
    # httpx's own context would read SSLKEYLOGFILE (safety K9).
    tls = trust.of(file).tls
    return resources.acquire(
        ("key client", str(file or "")), tls, lambda: open_http(tls), close=lambda made: made.aclose
    )


def _key_set(
    name: str, issuer: Issuer, client: httpx.AsyncClient, bounds: settings.VerificationSettings, resources: Resources
) -> KeySet:
    return resources.acquire(
        ("keys", name),
        (issuer.issuer, issuer.jwks, issuer.algorithms, client, bounds),
        lambda: KeySet(
            name,
            issuer_url=issuer.issuer,
            jwks_url=issuer.jwks,
            algorithms=issuer.algorithms,
            http=client,
            bounds=bounds,
        ),
        run=lambda keys: (f"keys of {name}", keys.run),
    )


def _identity_headers(config: Config) -> IdentityHeaderNames:
    """Return the identity headers of trusted clients: those that agents get, and the default one for a session."""
    written = effective.identity_headers(config)
    return IdentityHeaderNames(
        **{key: (getattr(written, key) or usual).lower().encode() for key, usual in USUAL_HEADERS.items()}
    )


def _tracing(config: Config, resources: Resources) -> "GatewayTracer | None":
    written = effective.tracing(config)
    if written is None:
        return None
    from gateway.telemetry.tracing import GatewayTracer  # noqa: PLC0415 - an optional library

    def make() -> GatewayTracer:
        headers = {name: value.get_secret_value() for name, value in written.headers.items()}
        return GatewayTracer(
            written.otlp, sample=written.sample, protocol=written.protocol, headers=headers, version=__version__
        )

    return resources.acquire(("tracing",), written, make, close=lambda made: made.aclose)


def _named_tenants(config: Config) -> frozenset[str]:
    """Return the tenants of the file if an issuer has a `tenant_map`; else none, because they are not needed."""
    issuers = {} if config.auth is None else config.auth.issuers
    mapped = any(issuer.tenant_map for issuer in issuers.values())
    return frozenset(config.tenants) if mapped else frozenset()


def _labelled(config: Config) -> frozenset[str]:
    """Return the tenants with a metric label of their own."""
    metrics = config.observe.metrics
    if not metrics.tenant_label:
        return frozenset({NO_TENANT})
    names = [name for name in config.tenants if name != "*"]
    if "anonymous" not in names:
        names.append("anonymous")
    return frozenset({NO_TENANT, *names[: metrics.max_tenants]})
