"""An agent of the file: where clients find it, where it is, and how it is asked.

`Defaults` says the same of all of them. What bounds an agent's connections and answers stands in `limit`.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.config.address import is_grpc
from gateway.config.limit import Cards, Connections, Limits
from gateway.config.part import Part
from gateway.config.peer_tls import SYSTEM
from gateway.config.problem import KeyPath
from gateway.config.replica import Affinity, Health, Retry
from gateway.config.stdio import SCHEME, Stdio
from gateway.config.value import (
    A2aTenant,
    A2aVersion,
    Callable,
    ClaimValue,
    Count,
    Duration,
    Flag,
    Header,
    Name,
    OneA2aTenant,
    OneOrMany,
    Strings,
    TenantNames,
)


class Match(Part):
    """Where an agent is found; all keys that are written must hold."""

    host: str | None = None
    """Host of the request: exact, or `*.example.com`."""
    path: str | None = None
    """Path prefix in whole segments."""
    key: str | None = None
    """Name of the API key that the caller shows."""
    claim: dict[str, ClaimValue] = {}
    """Claims of the verified token by name or path (`realm_access.roles`): equal, a member of a list, the name of a
    member of an object, or one of the words of `scope` or `scp`."""
    tenant: A2aTenant | None = None
    """The A2A `tenant` field, compared exactly: any text of at most 256 bytes without control characters."""


class Require(Part):
    """What a caller's token must have for an agent that its tenant may call; all that is written must be there."""

    scope: Strings = ()
    """Scopes, in `scope` or `scp`."""
    role: Strings = ()
    """Roles, in `roles` or `realm_access.roles`; those that stand elsewhere are a `claim`."""
    claim: dict[str, ClaimValue] = {}
    """Claims, as those of a match."""


class UpstreamAuth(Part):
    """How the gateway shows itself to the agent."""

    bearer: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""
    header: dict[str, SecretStr] = {}
    """Headers by name, such as `{X-Api-Key: …}`."""

    @field_validator("header", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, dict) and set(value) == {"name", "value"}:
            return {value["name"]: value["value"]}
        return value


class Backend(Part):
    """An agent's address, and how it speaks where its card does not say or is not to be asked."""

    url: str
    """http or https URL; for an agent behind gRPC `grpc://host:port`, or `grpcs://host:port` over TLS."""
    protocol: Literal["jsonrpc", "rest", "grpc"] | None = None
    """The binding it speaks, whatever its card says; behind a `grpc` or `grpcs` URL always `grpc`."""
    a2a_version: A2aVersion | None = None
    """The version it speaks, whatever its card says; needs `protocol`, which for 0.1 is `jsonrpc`."""
    allow_insecure: Flag | None = None
    """Whether plain http or grpc to a host that is not loopback is accepted."""
    weight: Count = 100
    """Of several replicas, how much this one is asked beside the others; 0 for follow-ups of its tasks alone."""
    label: Name | None = None
    """What a replica is called in logs, metrics and the ledger of tasks; its host and port where it is left out."""
    dns: Literal["headless"] | None = None
    """`headless`: each address that the host has is a replica, also those that it gets and loses while this runs."""
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
    """What stands for the command where a URL is shown: its name, for arguments may hold what is secret."""
    stdio = written.get("stdio")
    command = stdio.get("command") if isinstance(stdio, dict) else stdio
    first = command[0] if isinstance(command, list) and command else command
    return str(written.get("card") or first or "")[:256]


class AgentTls(Part):
    """Who vouches for agents that are reached by https or grpcs, and for the gateway with them."""

    ca: str = SYSTEM
    """PEM file of the authorities that are trusted instead of the system's, relative to this file; or `system`."""
    cert: str | None = None
    """PEM file with the certificate chain that the gateway shows, relative to this file; needs `key`."""
    key: str | None = None
    """PEM file with its private key, relative to this file."""
    server_name: str | None = None
    """The name that is asked for and has to be on the certificate, instead of the URL's host."""


class Timeouts(Part):
    """How long an agent may take."""

    connect: Duration | None = None
    """Until the connection stands, TLS included; 3s."""
    first_byte: Duration | None = None
    """From the end of the request to the first byte of the answer; 30s."""
    send: Duration | None = None
    """The same for SendMessage and SendStreamingMessage: sends block until the task rests; 10m."""
    stream_idle: Duration | None = None
    """Silence on a stream, comments included; 10m."""
    total: Duration | None = None
    """A whole unary call; 15m."""


DEFAULT_TIMEOUTS = Timeouts.model_validate(
    {"connect": "3s", "first_byte": "30s", "send": "10m", "stream_idle": "10m", "total": "15m"}
)


class Card(Part):
    """Where an agent's card comes from, and what the operator sets in it."""

    url: str | None = None
    """Fetched from here instead of the backend's well-known path."""
    file: str | None = None
    """Read from this JSON file, relative to this one, instead of being fetched."""
    set: dict[str, Any] = {}
    """Fields that win over the card's own."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if isinstance(value, str):
            return {"url": value} if value.startswith(("http://", "https://")) else {"file": value}
        return value


CLAIM = "claim:"
"""What the value of an identity header begins with that is taken from a claim."""


class IdentityHeaders(Part):
    """Headers by which an agent is told who calls: a name, null for none, or `claim:NAME` for that claim's value.

    Clients cannot set them, but those with `trust_identity_headers`.
    """

    tenant: Header = None
    """The caller's tenant; X-A2A-Tenant."""
    subject: Header = None
    """Who within the tenant: the token's `principal_claim` or the API key's name; X-A2A-Subject."""
    session: Header = None
    """The context of the call, in which a caller's tasks belong together; off, and with a claim X-A2A-Session."""
    claims: dict[Literal["tenant", "subject", "session"], str] = Field({}, exclude=True)
    """Claims of the verified token that are told in these headers instead, by name or path."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        short = {key: said for key, said in value.items() if isinstance(said, str) and said.startswith(CLAIM)}
        if not short or not isinstance(value.get("claims", {}), dict):
            return value
        claims = {key: said.removeprefix(CLAIM) for key, said in short.items()}
        rest = {key: said for key, said in value.items() if key not in short}
        return {**rest, "claims": {**claims, **value.get("claims", {})}}


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
    """How much may be asked of this backend, where that differs from the agent's."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"backend": value} if isinstance(value, str | list) else value


class Agent(Part):
    """One agent: where clients find it, and where it is."""

    backend: Annotated[tuple[Backend, ...], OneOrMany()] = ()
    """Its address, or a list of replicas; left out where `by_tenant` has one per tenant."""
    match: Annotated[tuple[Match, ...], OneOrMany()] = ()
    """Where clients find it, one mapping or a list of alternatives; `/<name>` where it is left out."""
    by_tenant: dict[OneA2aTenant, ByTenant] = {}
    """Backends by the A2A `tenant` field."""
    allow_insecure: Flag | None = None
    """Whether plain http or grpc to backends that are not on loopback is accepted."""
    allow: TenantNames | None = None
    """Tenants that may call it; the other way round of `tenants.X.agents`."""
    require: Require | None = None
    """Scopes, roles and claims that a caller's token must have beside; others are refused (`insufficient_scope`)."""
    methods: tuple[Callable, ...] | None = None
    """Operations it answers, by their 1.0 names; all of them where it is left out."""
    upstream_auth: UpstreamAuth | None = None
    """The credential that the agent gets."""
    upstream_tenant: str | None = None
    """`strip`, `keep` or a value: the `tenant` field that the agent receives."""
    require_tenant: Flag = False
    """Whether calls without a `tenant` field are refused."""
    card: Card | None = None
    """Where its card comes from, a URL or a file; its own well-known path where it is left out."""
    visibility: Visibility = "listed"
    """`private`: only callers that may use it see its card; `unlisted`: it is left out of the catalog."""
    expose: Annotated[tuple[Exposed, ...], OneOrMany()] = ("jsonrpc", "rest")
    """Bindings that its cards list, `jsonrpc` and `rest` where it is left out; calls over another are answered all the
    same. `grpc` needs `gateway.listen_grpc`, and google-adk refuses a card that lists it."""
    forward_caller: Flag = False
    """Whether the caller's own credential goes to the agent."""
    forward_headers: Strings = ()
    """Names of client headers that go to the agent beside those of A2A, tracing and content."""
    timeouts: Timeouts = Timeouts()
    """How long it may take, where that differs from `defaults`."""
    connections: Connections = Connections()
    """Bounds on its connections and answers, where they differ from `defaults`."""
    cards: Cards = Cards()
    """How its card is read, where that differs from `defaults`."""
    tls: AgentTls | None = None
    """Who vouches for it, where that differs from `defaults`."""
    limits: Limits = Limits()
    """How much may be asked of each of its backends by all callers together, where that differs from `defaults`."""
    identity_headers: IdentityHeaders = IdentityHeaders()
    """Headers by which it is told who calls, where they differ from `defaults`."""
    isolation: Isolation | None = None
    """Whose tasks a caller may touch: its tenant's; with `principal` its own, with `none` any whose id it knows."""
    unknown_tasks: UnknownTasks | None = None
    """`deny`: a task that the gateway never saw is no task; `adopt`: it belongs to who is first answered about it."""
    affinity: Affinity = Affinity()
    """Which of its replicas follow-ups go to, where that differs from `defaults`."""
    health: Health = Health()
    """How it is found out whether it can be asked, where that differs from `defaults`."""
    retry: Retry = Retry()
    """Which calls are sent again, where that differs from `defaults`."""
    message_id_idempotent: Flag = False
    """Whether the agent takes two messages with one `messageId` for one: then a send is repeated like other calls, and
    the second of two equal ones that come to one process of the gateway gets the answer of the first."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"backend": value} if isinstance(value, str | list) else value


class Defaults(Part):
    """What holds for every agent that does not say otherwise."""

    allow_insecure: Flag = False
    """Plain http or grpc to backends that are not on loopback."""
    timeouts: Timeouts = Timeouts()
    """How long an agent may take."""
    connections: Connections = Connections()
    """Bounds on the connections to one backend and on its answers."""
    cards: Cards = Cards()
    """How agents' cards are read."""
    tls: AgentTls | None = None
    """Who vouches for agents; the authorities of the system where it is left out."""
    limits: Limits = Limits()
    """How much may be asked of each agent, and of each backend where it has several."""
    identity_headers: IdentityHeaders = IdentityHeaders()
    """Headers by which agents are told who calls."""
    isolation: Isolation = "tenant"
    """Whose tasks a caller may touch: its tenant's; with `principal` its own, with `none` any whose id it knows."""
    unknown_tasks: UnknownTasks = "deny"
    """What of tasks that the gateway never saw: `deny` them, or `adopt` them for who is first answered about them."""
    affinity: Affinity = Affinity()
    """Which replica the follow-ups of a task go to."""
    health: Health = Health()
    """How it is found out whether a backend can be asked."""
    retry: Retry = Retry()
    """Which calls are sent again."""


# ---- backends --------------------------------------------------------------------------------------------------------


def backends(agent: Agent, at: KeyPath) -> Iterator[tuple[Backend, KeyPath]]:
    """Yield the backends of an agent, each with its path in the file."""
    yield from _numbered(agent.backend, (*at, "backend"))
    for tenant, entry in agent.by_tenant.items():
        yield from _numbered(entry.backend, (*at, "by_tenant", tenant, "backend"))


def _numbered(replicas: tuple[Backend, ...], at: KeyPath) -> Iterator[tuple[Backend, KeyPath]]:
    # One is mostly written without a list.
    several = len(replicas) > 1
    for number, backend in enumerate(replicas):
        yield backend, (*at, number) if several else at


def groups(agent: Agent, at: KeyPath) -> Iterator[tuple[tuple[Backend, ...], KeyPath]]:
    """Yield the groups of replicas of an agent, each with its path in the file."""
    if agent.backend:
        yield agent.backend, (*at, "backend")
    for tenant, entry in agent.by_tenant.items():
        yield entry.backend, (*at, "by_tenant", tenant, "backend")


def is_several(replicas: tuple[Backend, ...]) -> bool:
    """Return whether there may be more than one replica."""
    return len(replicas) > 1 or any(one.dns is not None for one in replicas)


def replica_name(backend: Backend) -> str:
    """Return the name of a replica in logs, metrics and the ledger."""
    return backend.label or place_name(backend)


def place_name(backend: Backend) -> str:
    """Return the name of a replica without a label."""
    return urlsplit(backend.url).netloc.lower()
