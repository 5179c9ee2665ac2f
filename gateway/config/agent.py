"""An agent of the file: its matches, its backends, and the settings of its calls.

`Defaults` has the settings of all agents. Bounds of connections and answers are in `limit`.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.config.limit import Cards, Connections, Limits
from gateway.config.problem import KeyPath
from gateway.config.values import (
    A2aTenant,
    A2aVersion,
    Callable,
    ClaimValue,
    Count,
    Duration,
    Flag,
    Header,
    Latency,
    Memory,
    Name,
    OneA2aTenant,
    OneOrMany,
    Part,
    PeerTls,
    Percent,
    Positive,
    Room,
    Skill,
    Strings,
    TenantNames,
    Trust,
    Wait,
    bounded,
    short_for,
)
from gateway.network.address import is_grpc

# ---- commands --------------------------------------------------------------------------------------------------------


SCHEME = "stdio:"
"""The scheme in the URL of a backend that is a command."""


def is_stdio(url: str) -> bool:
    """Return whether a backend is a command that the gateway runs."""
    return url.startswith(SCHEME)


class StdioLimits(Part):
    """Limits of one process of an agent; without a key there is no limit."""

    memory: Memory | None = None
    """Its data: heap and stack, not mapped files."""
    cpu: Wait | None = None
    """Total CPU time, after which it is killed and restarted."""
    files: Positive | None = None
    """Open files."""


class Stdio(Part):
    """A command that the gateway runs, and talks to by standard input and output."""

    command: Annotated[tuple[str, ...], OneOrMany()] = ()
    """The program and its arguments, one word each, without a shell. Left out if `card` names the command."""
    cwd: str | None = None
    """Its working directory, relative to this file; by default the folder of this file."""
    env: dict[str, SecretStr] = {}
    """Its environment; of the gateway's own it gets only PATH, HOME, LANG, LC_ALL, TZ and TMPDIR."""
    env_from: Strings = ()
    """Names of variables that it gets from the gateway's environment."""
    processes: Annotated[Positive, bounded("is too many", "write at most 64: each one is a process", most=64)] = 1
    """Number of processes; tasks stay with the process that made them, so `ListTasks` is refused with several."""
    per_tenant: Flag = False
    """Whether each tenant that calls has its own processes, which find its name in A2A_TENANT."""
    tenants: Positive = 64
    """Maximum tenants with processes at a time. The longest idle processes are ended first, and their memory is
    lost."""
    framing: Literal["lsp", "ndjson"] = "lsp"
    """Framing of messages to it: with a header, as for language servers, or one line of JSON each. Its own messages are
    read in both forms."""
    frame: Room = 32 * 1024 * 1024
    """The longest message that it may write, and the bytes of a stream that are buffered for a slow client. Messages to
    it have the same limit if this is set, and 4MiB otherwise, because many agents exit on a longer message."""
    card: str = "extended"
    """Source of its card: `extended`, the method for the extended card; `printed`, its first message; `none`; or the
    name of another method."""
    start_timeout: Wait = 30.0
    """Time from its start to its card, or to any answer."""
    stop_timeout: Duration = 5.0
    """Time to exit once its input is closed, and as much after SIGTERM; then it is killed."""
    restart: Literal["always", "on-failure", "never"] = "always"
    """When it is restarted; `on-failure`: a process that has served and exits with 0 is started by the next call."""
    ping: Wait | None = None
    """Interval of health pings; a process that does not answer is restarted. Without it there are no pings."""
    uid: Count | None = None
    """The user that it runs as, by number; needs a gateway that runs as root."""
    limits: StdioLimits = StdioLimits()
    """Limits of one process."""

    _short = short_for("command", str | list)


# ---- replicas --------------------------------------------------------------------------------------------------------


Repeated = Literal["connect", "reset", "503"]


class Affinity(Part):
    """The replica that gets the follow-ups of a task; without effect if there is only one replica."""

    by: Literal["task", "context", "none"] | None = None
    """`task`: a call about a task goes to the replica that made it, and a call in a context goes to the replica that
    began it if possible; `context`: all calls in a context go to the replica that began it; `none`: any replica answers
    any call; `task`."""
    gone: Literal["refuse", "other"] | None = None
    """Action for a call whose replica is unavailable: `refuse` it, or ask any `other` one; `refuse`."""
    wait: Duration | None = None
    """Time for which such a call waits for its replica while no connection can be made; 0s."""

    _short = short_for("by", str)


class Eject(Part):
    """Outlier detection: a replica that fails calls is ejected for a while; a single call then tries it again."""

    after: Count | None = None
    """Failed calls in a row before an ejection: no connection, an end or the gateway's own timeout before the answer,
    invalid HTTP, 502, 503 or 504, or gRPC's UNAVAILABLE (the table in docs/replicas.md); 0 is never; 5."""
    time: Wait | None = None
    """Time of the first ejection; it doubles each time that the replica fails again at once; 10s."""
    longest: Wait | None = None
    """Longest ejection; 5m."""
    most: Percent | None = None
    """Maximum replicas that are ejected at a time, in percent, and at least one; 50."""


class Breaker(Part):
    """Circuit breaker: a backend whose calls fail gets no calls for a while, so that callers fail fast."""

    after: Count | None = None
    """Failed calls in a row that open the circuit, over all replicas together, as `eject` counts them; 0 is never;
    0."""
    time: Wait | None = None
    """Time for which the circuit stays open; then a single call tries the backend; 5s."""


class Health(Part):
    """The health check of a backend."""

    path: str | None = None
    """Path of the GET request, such as `/.well-known/agent-card.json`; without it there are no health checks.
    Behind gRPC any path stands for grpc.health.v1."""
    every: Wait | None = None
    """Time between two health checks; 10s."""
    timeout: Wait | None = None
    """Timeout of the answer; 3s."""
    fail_after: Positive | None = None
    """Failures in a row after which a replica is down; 3."""
    pass_after: Positive | None = None
    """Good answers in a row after which it is up again; 1."""
    eject: Eject = Eject()
    """Outlier detection by the results of calls, among several replicas."""
    breaker: Breaker = Breaker()
    """Circuit breaker of the backend as a whole."""


class Retry(Part):
    """Retries of calls; a call that the agent may have executed is retried only if it is idempotent."""

    max: Count | None = None
    """Maximum retries of one call; 0 turns retries off; 2."""
    when: Annotated[tuple[Repeated, ...], OneOrMany()] | None = None
    """`connect`: no connection, nothing was sent; `reset`: the answer broke off before the client got any of
    it, one retry of idempotent calls;
    `503`: the agent answers 503 with a `Retry-After` of at most 2s, one retry of calls that only read; all three."""
    budget: Percent | None = None
    """Maximum retries in percent of the calls of the last 10s, and 20 in any case; 20."""


DEFAULT_AFFINITY = Affinity.model_validate({"by": "task", "gone": "refuse", "wait": "0s"})
DEFAULT_EJECT = Eject.model_validate({"after": 5, "time": "10s", "longest": "5m", "most": 50})
DEFAULT_BREAKER = Breaker.model_validate({"after": 0, "time": "5s"})
DEFAULT_HEALTH = Health.model_validate({"every": "10s", "timeout": "3s", "fail_after": 3, "pass_after": 1})
DEFAULT_RETRY = Retry.model_validate({"max": 2, "when": ["connect", "reset", "503"], "budget": 20})


# ---- agents ----------------------------------------------------------------------------------------------------------


class Match(Part):
    """The condition under which an agent is selected; all keys that are written must hold."""

    host: str | None = None
    """Host of the request: exact, or `*.example.com`."""
    path: str | None = None
    """Path prefix in whole segments. A prefix that ends in `/skills/{skill}` is for every skill of the agent's card: of
    the agents that a caller may reach there, the best one for the skill answers."""
    key: str | None = None
    """Name of the API key that the caller shows."""
    claim: dict[str, ClaimValue] = {}
    """Claims of the verified token by name or path (`realm_access.roles`): equal, a member of a list, the name of a
    member of an object, or one of the words of `scope` or `scp`."""
    tenant: A2aTenant | None = None
    """The A2A `tenant` field, compared exactly: any text of at most 256 bytes without control characters."""
    skill: Skill | None = None
    """A skill id or tag of the agent's card: of the agents that a caller may reach here, the best one for the skill
    answers."""

    @property
    def by_skill(self) -> bool:
        """Whether the agent has to be the best for a skill."""
        return self.skill is not None or (self.path is not None and self.path.endswith("/{skill}"))


class Require(Part):
    """Requirements on a caller's token, beside the access of its tenant; all of them must be met."""

    scope: Strings = ()
    """Scopes, in `scope` or `scp`."""
    role: Strings = ()
    """Roles, in `roles` or `realm_access.roles`; for roles elsewhere use `claim`."""
    claim: dict[str, ClaimValue] = {}
    """Claims, as those of a match."""


class TokenEndpoint(Part):
    """A token endpoint (OAuth 2.0), and the parameters of token requests."""

    token_url: str
    """Its URL; https, or http on loopback and where `allow_insecure` is true."""
    client_id: str
    """The gateway's name at the authorization server."""
    client_secret: SecretStr
    """The secret of that client."""
    client_auth: Literal["basic", "post"] = "basic"
    """Place of id and secret in the request: an `Authorization: Basic` header, or the form."""
    scopes: Strings = ()
    """Requested scopes."""
    audience: Strings = ()
    """Values of `audience`: the recipients of the tokens, by name."""
    resource: Strings = ()
    """Values of `resource` (RFC 8707): the recipients of the tokens, by URL."""
    tls: PeerTls | None = None
    """Authorities for the server of the endpoint; those of the system by default."""


class UpstreamAuth(Part):
    """The gateway's credential for the agent: `bearer`, `header`, `oauth2` or `exchange`; the last two may be both."""

    bearer: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""
    header: dict[str, SecretStr] = {}
    """Headers by name, such as `{X-Api-Key: …}`."""
    oauth2: TokenEndpoint | None = None
    """Tokens for the gateway itself, by client credentials (RFC 6749 §4.4)."""
    exchange: TokenEndpoint | None = None
    """Tokens for each caller, by exchange of the caller's own (RFC 8693). Health checks and the card have no caller:
    they use `oauth2` if it is also set, and no token otherwise."""

    @field_validator("header", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, dict) and set(value) == {"name", "value"}:
            return {value["name"]: value["value"]}
        return value


class Backend(Part):
    """An agent's address, and its protocol if the card does not have it or is to be overridden."""

    url: str
    """http or https URL; for an agent behind gRPC `grpc://host:port`, or `grpcs://host:port` over TLS."""
    protocol: Literal["jsonrpc", "rest", "grpc"] | None = None
    """The agent's binding, instead of its card's; behind a `grpc` or `grpcs` URL always `grpc`."""
    a2a_version: A2aVersion | None = None
    """The agent's version of A2A, instead of its card's; needs `protocol`, which for 0.1 is `jsonrpc`."""
    allow_insecure: Flag | None = None
    """Whether plain http or grpc to a host that is not loopback is accepted."""
    weight: Count = 100
    """Weight of this replica in load balancing; 0 for follow-ups of its tasks only."""
    label: Name | None = None
    """Name of a replica in logs, metrics and the ledger; its host and port by default."""
    dns: Literal["headless"] | None = None
    """`headless`: each address of the host is a replica; added and removed addresses are followed while the gateway
    runs."""
    stdio: Stdio | None = None
    """Instead of a URL: a command that the gateway runs."""
    card: str | None = None
    """Instead of a URL: a card, a file relative to this one, whose `stdio` interface is the command line to run."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        whole = {"url": value} if isinstance(value, str) else value
        if isinstance(whole, dict) and "url" not in whole and (whole.get("stdio") or whole.get("card")):
            return {"url": SCHEME + _program(whole), **whole}
        if isinstance(whole, dict) and isinstance(whole.get("url"), str) and is_grpc(whole["url"]):
            return {"protocol": "grpc", **whole}
        return whole


def _program(written: dict[str, Any]) -> str:
    """Return the text that is shown instead of the command: its name, because arguments may be secret."""
    stdio = written.get("stdio")
    command = stdio.get("command") if isinstance(stdio, dict) else stdio
    first = command[0] if isinstance(command, list) and command else command
    return str(written.get("card") or first or "")[:256]


class AgentTls(PeerTls):
    """TLS with agents that are reached by https or grpcs."""

    cert: str | None = None
    """PEM file with the gateway's certificate chain as a client, relative to this file; needs `key`."""
    key: str | None = None
    """PEM file with its private key, relative to this file."""
    server_name: str | None = None
    """The name that is sent as SNI and has to be on the certificate, instead of the URL's host."""


class Timeouts(Part):
    """Timeouts of an agent."""

    connect: Wait | None = None
    """Time to establish the connection, TLS included; 3s."""
    first_byte: Wait | None = None
    """From the end of the request to the first byte of the answer; 30s."""
    send: Wait | None = None
    """`first_byte` for SendMessage and SendStreamingMessage, which block until the task ends or waits; 10m."""
    stream_idle: Wait | None = None
    """Silence on a stream, comments included; 10m."""
    total: Wait | None = None
    """A whole unary call; 15m."""


DEFAULT_TIMEOUTS = Timeouts.model_validate(
    {"connect": "3s", "first_byte": "30s", "send": "10m", "stream_idle": "10m", "total": "15m"}
)


class CardSign(Part):
    """Signing of served cards; `true` and `false` are short for `enabled`."""

    enabled: Flag = True
    """Whether cards are signed."""
    key: SecretStr | None = None
    """The private key of P-256 in PEM, by a reference; without it gateways make keys and keep them in their state."""
    kid: str | None = None
    """The name of the key in the gateway's key set."""

    _short = short_for("enabled", bool | str)

    @property
    def is_made(self) -> bool:
        """Return whether the gateway makes the keys."""
        return self.enabled and self.key is None


class CardVerify(Part):
    """Verification of the signatures of the agent's own card."""

    keys: str
    """The key set (JWKS) that verifies them: a URL, or a file relative to this one; never a URL that the card names."""
    require: Flag = True
    """Whether a card without signatures is refused; one with bad signatures always is."""

    @property
    def is_fetched(self) -> bool:
        """Return whether the keys are at a URL."""
        return self.keys.lower().startswith(("http://", "https://"))


class Card(Part):
    """The source of an agent's card, the fields that the operator sets in it, and its signatures."""

    url: str | None = None
    """Fetched from here instead of the backend's well-known path."""
    file: str | None = None
    """Read from this JSON file, relative to this one, instead of being fetched."""
    set: dict[str, Any] = {}
    """Fields that override the card's own."""
    sign: CardSign | None = None
    """Signing of the served card, if it differs from `defaults`."""
    verify: CardVerify | None = None
    """Verification of the agent's own card; by default its signatures are ignored."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if isinstance(value, str):
            return {"url": value} if value.startswith(("http://", "https://")) else {"file": value}
        return value


CLAIM = "claim:"
"""The prefix of an identity header's value that names a claim."""


class IdentityHeaders(Part):
    """Headers that tell an agent its caller: a name, null for no header, or `claim:NAME` for that claim's value.

    Only clients with `trust_identity_headers` can set them.
    """

    tenant: Header = None
    """The caller's tenant; X-A2A-Tenant."""
    subject: Header = None
    """The principal within the tenant: the token's `principal_claim` or the API key's name; X-A2A-Subject."""
    session: Header = None
    """The context of the call, which groups a caller's tasks; off, and with a claim X-A2A-Session."""
    claims: dict[Literal["tenant", "subject", "session"], str] = Field({}, exclude=True)
    """Claims of the verified token that are sent in these headers instead, by name or path."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        short = {key: text for key, text in value.items() if isinstance(text, str) and text.startswith(CLAIM)}
        if not short or not isinstance(value.get("claims", {}), dict):
            return value
        claims = {key: text.removeprefix(CLAIM) for key, text in short.items()}
        rest = {key: text for key, text in value.items() if key not in short}
        return {**rest, "claims": {**claims, **value.get("claims", {})}}


_NO_IDENTITY_HEADERS = IdentityHeaders()


def _no_identity_headers() -> IdentityHeaders:
    # One object for all agents: pydantic copies a default that cannot be hashed, which holds a dict.
    return _NO_IDENTITY_HEADERS


USUAL_HEADERS: dict[str, str] = {
    "tenant": "X-A2A-Tenant",
    "subject": "X-A2A-Subject",
    "session": "X-A2A-Session",
}
DEFAULT_IDENTITY_HEADERS = IdentityHeaders(tenant="X-A2A-Tenant", subject="X-A2A-Subject", session="")

Isolation = Literal["tenant", "principal", "none"]
UnknownTasks = Literal["deny", "adopt"]
Visibility = Literal["listed", "unlisted", "private"]
Exposed = Literal["jsonrpc", "rest", "grpc"]


class ByTenant(Part):
    """One tenant's own backend of an agent."""

    backend: Annotated[tuple[Backend, ...], OneOrMany()]
    """Its address, or a list of replicas."""
    upstream_auth: UpstreamAuth | None = None
    """The credential that this backend gets, instead of the agent's."""
    upstream_tenant: str | None = None
    """The `tenant` field that this backend gets, instead of the agent's."""
    limits: Limits = Limits()
    """Limits of this backend, where they differ from the agent's."""

    _short = short_for("backend", str | list)


class Agent(Part):
    """One agent: its matches for clients, and its backend."""

    backend: Annotated[tuple[Backend, ...], OneOrMany()] = ()
    """Its address, or a list of replicas; left out where `by_tenant` has one per tenant."""
    match: Annotated[tuple[Match, ...], OneOrMany()] = ()
    """The conditions that select it, one mapping or a list of alternatives; the path `/<name>` by default."""
    by_tenant: dict[OneA2aTenant, ByTenant] = {}
    """Backends by the A2A `tenant` field; `"*"` is a template for the other tenants of the file, with `{tenant}` in the
    host."""
    allow_insecure: Flag | None = None
    """Whether plain http or grpc to backends that are not on loopback is accepted."""
    allow: TenantNames | None = None
    """Tenants that may call it; the counterpart of `tenants.X.agents`."""
    require: Require | None = None
    """Scopes, roles and claims that a caller's token must also have; other callers are refused
    (`insufficient_scope`)."""
    methods: tuple[Callable, ...] | None = None
    """Operations that it answers, by their 1.0 names; all of them by default."""
    upstream_auth: UpstreamAuth | None = None
    """The credential that the agent gets."""
    upstream_tenant: str | None = None
    """`strip`, `keep` or a value: the `tenant` field that the agent receives."""
    require_tenant: Flag = False
    """Whether calls without a `tenant` field are refused."""
    card: Card | None = None
    """The source of its card, a URL or a file; by default its own well-known path."""
    visibility: Visibility = "listed"
    """`private`: only callers that may use it see its card; `unlisted`: it is left out of the catalog."""
    expose: Annotated[tuple[Exposed, ...], OneOrMany()] = ("jsonrpc", "rest")
    """Bindings that its cards list, by default `jsonrpc` and `rest`; calls over other bindings are answered, too.
    `grpc` needs `gateway.listen_grpc`, and google-adk refuses a card that lists it."""
    trust: Trust = 3
    """From 1 to 5: of agents with the same skill, those with more trust come first."""
    latency: Latency = None
    """Expected time to the first byte, such as `50ms`: of agents with the same skill and trust, faster ones come first.
    `measured` (default) uses the times of calls instead."""
    forward_caller: Flag = False
    """Whether the caller's own credential goes to the agent."""
    forward_headers: Strings = ()
    """Names of client headers that are forwarded to the agent, in addition to those of A2A, tracing and content."""
    timeouts: Timeouts = Timeouts()
    """Its timeouts, where they differ from `defaults`."""
    connections: Connections = Connections()
    """Bounds on its connections and answers, where they differ from `defaults`."""
    cards: Cards = Cards()
    """Fetching of its card, where that differs from `defaults`."""
    tls: AgentTls | None = None
    """TLS with it, where that differs from `defaults`."""
    limits: Limits = Limits()
    """Limits of each of its backends for all callers together, where they differ from `defaults`."""
    identity_headers: IdentityHeaders = Field(default_factory=_no_identity_headers)
    """Headers that tell it the caller, where they differ from `defaults`."""
    isolation: Isolation | None = None
    """Tasks that a caller may access: its tenant's; with `principal` its own, with `none` any whose id it knows."""
    unknown_tasks: UnknownTasks | None = None
    """Tasks that the gateway never saw: `deny` refuses them, `adopt` gives them to the first caller."""
    affinity: Affinity = Affinity()
    """The replica that gets follow-ups, if it differs from `defaults`."""
    health: Health = Health()
    """Its health checks, where they differ from `defaults`."""
    retry: Retry = Retry()
    """Retries of calls, if they differ from `defaults`."""
    message_id_idempotent: Flag = False
    """Whether the agent treats two messages with one `messageId` as one: then a send is retried like other calls, and
    the second of two equal sends that reach one process of the gateway gets the answer of the first."""

    _short = short_for("backend", str | list)


class DefaultCard(Part):
    """Settings of the cards of all agents that do not have their own."""

    sign: CardSign | None = None
    """Signing of served cards; by default they are not signed."""


class Defaults(Part):
    """Settings of all agents that do not have their own."""

    allow_insecure: Flag = False
    """Plain http or grpc to backends that are not on loopback."""
    timeouts: Timeouts = Timeouts()
    """Timeouts of an agent."""
    connections: Connections = Connections()
    """Bounds on the connections to one backend and on its answers."""
    card: DefaultCard = DefaultCard()
    """Signatures of served cards."""
    cards: Cards = Cards()
    """Fetching of agents' cards."""
    tls: AgentTls | None = None
    """TLS with agents; by default with the authorities of the system."""
    limits: Limits = Limits()
    """Limits of each agent, and of each backend where it has several."""
    identity_headers: IdentityHeaders = Field(default_factory=_no_identity_headers)
    """Headers that tell agents the caller."""
    isolation: Isolation = "tenant"
    """Tasks that a caller may access: its tenant's; with `principal` its own, with `none` any whose id it knows."""
    unknown_tasks: UnknownTasks = "deny"
    """Tasks that the gateway never saw: `deny` refuses them, `adopt` gives them to the first caller."""
    affinity: Affinity = Affinity()
    """The replica that gets the follow-ups of a task."""
    health: Health = Health()
    """The health check of a backend."""
    retry: Retry = Retry()
    """Retries of calls."""


# ---- backends --------------------------------------------------------------------------------------------------------


def backends(agent: Agent, at: KeyPath) -> Iterator[tuple[Backend, KeyPath]]:
    """Yield the backends of an agent, each with its path in the file."""
    for replicas, here in groups(agent, at):
        for number, backend in enumerate(replicas):
            # One is mostly written without a list.
            yield backend, (*here, number) if len(replicas) > 1 else here


def agent_entries(agent: Agent, at: KeyPath) -> Iterator[tuple[Agent | ByTenant, KeyPath]]:
    """Yield an agent and its entries of `by_tenant`, each with its path in the file."""
    yield agent, at
    for tenant, entry in agent.by_tenant.items():
        yield entry, (*at, "by_tenant", tenant)


def upstream_auths(agent: Agent, at: KeyPath) -> Iterator[tuple[UpstreamAuth, KeyPath]]:
    """Yield the credentials for the backends of an agent, each with its path in the file."""
    for entry, here in agent_entries(agent, at):
        if entry.upstream_auth is not None:
            yield entry.upstream_auth, (*here, "upstream_auth")


def token_endpoints(agent: Agent, at: KeyPath) -> Iterator[tuple[TokenEndpoint, KeyPath]]:
    """Yield the token endpoints of an agent, each with its path in the file."""
    for auth, here in upstream_auths(agent, at):
        if auth.oauth2 is not None:
            yield auth.oauth2, (*here, "oauth2")
        if auth.exchange is not None:
            yield auth.exchange, (*here, "exchange")


def groups(agent: Agent, at: KeyPath) -> Iterator[tuple[tuple[Backend, ...], KeyPath]]:
    """Yield the groups of replicas of an agent, each with its path in the file."""
    for entry, here in agent_entries(agent, at):
        if entry.backend or entry is not agent:
            yield entry.backend, (*here, "backend")


def is_several(replicas: tuple[Backend, ...]) -> bool:
    """Return whether there may be more than one replica."""
    return len(replicas) > 1 or any(one.dns is not None for one in replicas)


def replica_name(backend: Backend) -> str:
    """Return the name of a replica in logs, metrics and the ledger."""
    return backend.label or place_name(backend)


def place_name(backend: Backend) -> str:
    """Return the name of a replica without a label."""
    return urlsplit(backend.url).netloc.lower()
