"""The configuration format: one class per mapping of the file, the keys of earlier releases, and look-ups in it.

The docstring of a field is the manual of its key. Short forms are widened before validation (`Agent` takes a bare URL,
`tenants.X` a bare list, and so on), so that the rest of the program sees one form.
"""

import ast
import inspect
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from gateway.config.agent import Agent, Defaults
from gateway.config.limit import Body, Cors, Grpc, Http, Ledger, TenantLimits, Verification
from gateway.config.problem import KeyPath
from gateway.config.values import (
    A2aTenants,
    Count,
    Day,
    Duration,
    DurationBuckets,
    FileMode,
    Flag,
    Format,
    Memory,
    Name,
    OneOrMany,
    Part,
    PeerTls,
    Positive,
    Room,
    Sampled,
    Sha256s,
    SizeBuckets,
    Strings,
    TenantName,
    Wait,
    bounded,
    read_flag,
    short_for,
)
from gateway.identity import client_names, settings
from gateway.identity.client_names import KINDS, ClientPattern
from gateway.push.webhook_pattern import WebhookPattern, read_pattern
from gateway.tasks.state_url import StateUrl, read_state

# ---- gateway -------------------------------------------------------------------------------------------------------


class Tls(Part):
    """The listener's certificate."""

    cert: str
    """PEM file with the certificate chain, relative to this file."""
    key: str
    """PEM file with the private key, relative to this file."""


class AdminTls(Tls):
    """The certificate of the listener for operators, and the authorities of their client certificates."""

    client_ca: str | None = None
    """PEM file with the authorities that sign operators' certificates, relative to this file; every request except
    health must then come with a certificate. Without it no certificate is requested."""


class Admin(Part):
    """The listener for operators: metrics, health, routes."""

    listen: str = "127.0.0.1:9090"
    """Address and port; port 0 lets the system pick. `unix:/PATH` is a Unix socket."""
    token: SecretStr | None = None
    """Bearer token that every admin request except health must have; required if the address is not loopback and
    `tls.client_ca` is not set."""
    tls: AdminTls | None = None
    """The certificate, for https; plain http by default."""

    _short = short_for("listen", str)


class Drain(Part):
    """Graceful shutdown: readiness ends, `delay` passes, accepting stops, open calls get `timeout`."""

    delay: Duration | None = None
    """Time between the end of readiness and of accepting, for load balancers to notice; 5s, or 0s on a loopback
    listener."""
    timeout: Duration = 25.0
    """Time that open calls and streams get to finish."""

    _short = short_for("timeout", str)


class Reload(Part):
    """Detection of changed files, beside SIGHUP and `POST /-/reload`."""

    watch: Flag = True
    """Whether their folders are watched."""
    poll: Duration = 30.0
    """Interval at which file contents are compared, for file systems that report no changes; 0s is never."""


def _state(value: object) -> object:
    if isinstance(value, str):
        return read_state(value)
    if isinstance(value, StateUrl):
        return value
    raise ValueError("names no store", "write memory, sqlite:///PATH or redis://HOST:PORT/DB")


State = Annotated[
    StateUrl | None,
    BeforeValidator(_state),
    PlainSerializer(lambda state: None if state is None else state.label, return_type=str | None),
    WithJsonSchema({"type": "string"}),
]
"""The URL of the ledger; its credentials are never shown."""


Listens = Annotated[
    tuple[str, ...],
    OneOrMany(),
    PlainSerializer(lambda texts: texts[0] if len(texts) == 1 else list(texts), return_type=str | list[str]),
]
"""Addresses to listen at; a single one is written, and shown, without a list."""


class Gateway(Part):
    """The gateway itself."""

    public_url: str | None = None
    """The URL that cards advertise, with an optional path; never guessed from Host. Optional on a loopback listener."""
    prefix_stripped: Flag = False
    """Whether a proxy in front already removed the path of `public_url` from incoming requests."""
    listen: Listens = ("127.0.0.1:8080",)
    """Address and port for clients, or a list; port 0 lets the system pick. `unix:/PATH` is a Unix socket."""
    socket_mode: FileMode = 0o660
    """Permissions of Unix sockets, in octal."""
    listen_grpc: str | None = None
    """Address and port for gRPC clients of all agents; port 0 lets the system pick."""
    public_grpc: str | None = None
    """The gRPC address that cards advertise, `host:port`; that of `listen_grpc` if it is loopback."""
    admin: Admin = Admin()
    """The listener for operators; never on the clients' port."""
    anonymous: Flag = False
    """Whether callers without a credential are served, as the tenant `anonymous`."""
    trusted_proxies: Strings = ()
    """Networks from which X-Forwarded-For is trusted."""
    request_id: Literal["new", "keep"] = "new"
    """Whether each request gets a new id, or keeps the X-Request-Id that one of `trusted_proxies` gave it."""
    proxy_protocol: Strings = ()
    """Networks from which each connection to `listen` has to begin with a PROXY header of version 2."""
    body_limit: Room = 10 * 1024 * 1024
    """Longest request body."""
    memory_limit: Memory | None = None
    """Memory that the gateway may use, if less than its container has; near it new streams are refused."""
    answers_limit: Memory = 512 * 1024 * 1024
    """Bytes of long answers and events that one process holds at a time, at most half of its memory; beyond it calls
    are refused as overloaded."""
    http: Http = Http()
    """Bounds on the connections of clients."""
    grpc: Grpc = Grpc()
    """Bounds on the connections of clients of gRPC."""
    body: Body = Body()
    """Bounds on the bodies of requests."""
    heartbeat: Wait = 15.0
    """Silence on a stream after which its client gets a heartbeat."""
    cors: Cors | None = None
    """Browsers that may call agents directly; by default none."""
    state: State = None
    """The store for the owners of tasks: `memory`, `sqlite:///PATH`, or `redis://HOST:PORT/DB` for several
    gateways. Left out: the file a2a-gateway.db in $STATE_DIRECTORY, or else in state/ in the working directory."""
    replicas: Positive = 1
    """Number of gateways that serve this file; more than one need `redis`."""
    ledger: Ledger = Ledger()
    """Retention and size of the ledger."""
    drain: Drain = Drain()
    """Graceful shutdown."""
    reload: Reload = Reload()
    """Detection of changed files."""
    tls: Tls | None = None
    """The certificate of both listeners for clients, if the gateway terminates TLS itself."""

    @field_validator("public_url", mode="after")
    @classmethod
    def _without_slash(cls, value: str | None) -> str | None:
        return None if value is None else value.rstrip("/")


# ---- auth ----------------------------------------------------------------------------------------------------------

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_REFUSED = (
    (r"HS[0-9]*", "it signs with a shared secret, so that everyone who can verify a token can make one"),
    (r"none", "such tokens are not signed, so that anyone can make one"),
    (r"RS1|SHA-?1|MD5", "its hash is broken, so that signatures can be forged"),
    (r"ES256K|ESP.*|ESB.*|Ed448|ML-DSA-.*", "it is not supported"),
    (r"Ed25519", "it is called EdDSA here"),
    (r"RSA-OAEP.*|RSA1_5|ECDH-ES.*|PBES2.*|dir|A[0-9]+(GCM|KW|GCMKW|CBC-HS[0-9]+)", "it encrypts and does not sign"),
)
"""Algorithms that exist and are refused, with the reason: none of them is a misspelling of another."""


def _algorithm(value: object) -> object:
    if value in ALGORITHMS:
        return value
    fact = f"is none of: {', '.join(ALGORITHMS)}"
    for pattern, reason in _REFUSED:
        if isinstance(value, str) and re.fullmatch(pattern, value, re.IGNORECASE) is not None:
            raise ValueError(fact, f"{reason}; have the issuer sign with one of these")
    raise ValueError(fact, f"write one of: {', '.join(ALGORITHMS)}", *ALGORITHMS)


Algorithm = Annotated[str, BeforeValidator(_algorithm), WithJsonSchema({"enum": list(ALGORITHMS), "type": "string"})]
"""A signature algorithm, by its JOSE name."""


class Issuer(Part):
    """An issuer of tokens, and the claims that its tokens must have."""

    issuer: str
    """The exact `iss` of its tokens."""
    audience: Strings
    """One of these must be in `aud`."""
    jwks: str | None = None
    """URL of its key set; by default found by OIDC discovery."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256")
    """Signature algorithms that are accepted; asymmetric ones only."""
    tenant_claim: str | None = None
    """The claim that names the tenant, or the path to it; its value must be one string. `organization` may also be a
    list of one, or an object with one member."""
    tenant_map: dict[str, Name] = {}
    """Tenants by the value of that claim, such as the directory's GUID; `*` is any other value. A value that is not
    here is never a tenant that the file names: it has the access of `tenants."*"`, or is refused."""
    tenant: Name | None = None
    """The tenant of every token of this issuer, instead of a claim."""
    principal_claim: str = "sub"
    """The claim with the principal within the tenant, or the path to it."""
    leeway: Duration = 30.0
    """Clock difference that `exp` and `nbf` forgive, at most 30s."""
    tls: PeerTls | None = None
    """Authorities for the servers of its keys and of its discovery document; those of the system by default."""

    def as_settings(self) -> settings.IssuerSettings:
        """Return it as `identity` takes it."""
        return settings.IssuerSettings(
            **{name: getattr(self, name) for name in settings.IssuerSettings.__dataclass_fields__}
        )


class ApiKey(Part):
    """A key, stored as its SHA-256 only."""

    sha256: Sha256s
    """One hash, or two while a key is being replaced; 64 hex digits each, an empty one is left out."""
    tenant: Name
    """The tenant that calls with this key."""
    agents: Strings | None = None
    """Upper bound of the agents that this key reaches; the tenant's own list applies as well."""
    expires: Day | None = None
    """Last day on which the key is good (UTC)."""

    def as_settings(self) -> settings.ApiKeySettings:
        """Return it as `identity` takes it."""
        return settings.ApiKeySettings(**dict(self))


class Client(Part):
    """The certificates of a client, by a name on them.

    In a name, `*` stands for one segment of a URI's path or one label of a DNS name; `{tenant}` does as well, and
    names the tenant.
    """

    uri: Strings = ()
    """URIs of the subject alternative name, such as spiffe://mesh.example/ns/{tenant}/sa/*."""
    dns: Strings = ()
    """DNS names of the subject alternative name, such as batch.acme.example."""
    common_name: Strings = ()
    """Common names of the subject; of certificates without URI and DNS name only."""
    tenant: Name | None = None
    """The tenant of all these certificates, if no name has {tenant}."""
    agents: Strings | None = None
    """Upper bound of the agents that they reach; the tenant's own list applies as well."""
    trust_identity_headers: Flag = False
    """Whether their identity headers are trusted, which name the principal within their tenant and the session."""

    def as_settings(self) -> client_names.CertificateClient:
        """Return it as `identity` takes it.

        Raises:
            ValueError: as `ClientPattern.parse`.
        """
        patterns = tuple(ClientPattern.parse(kind, text) for kind in KINDS for text in getattr(self, kind))
        agents = None if self.agents is None else frozenset(self.agents)
        return client_names.CertificateClient(patterns, self.tenant, agents, self.trust_identity_headers)


class Mtls(Part):
    """Callers that show a certificate in their TLS handshake; needs `gateway.tls`."""

    ca: str
    """PEM file with the authorities that sign clients' certificates, relative to this file. Each of them can make a
    certificate with any name, so with any tenant."""
    clients: dict[Name, Client] = {}
    """Clients by name; the narrowest pattern that fits a certificate counts."""
    require: Flag = False
    """Whether every client must show a certificate, also for public cards and `/-/ready`."""
    with_token: Flag = False
    """Whether a request may have a token or an API key beside the certificate. That credential alone then identifies
    the caller. If false, such a request is refused."""

    def as_settings(self) -> settings.MtlsSettings:
        """Return it as `identity` takes it.

        Raises:
            ValueError: as `ClientPattern.parse`.
        """
        clients = {name: client.as_settings() for name, client in self.clients.items()}
        return settings.MtlsSettings(clients, require=self.require, with_token=self.with_token)


class Auth(Part):
    """Authentication. Without it the gateway serves anonymous callers, on loopback only."""

    issuers: dict[Name, Issuer] = {}
    """Issuers of tokens, by a name for logs and metrics."""
    api_keys: dict[Name, ApiKey] = {}
    """Keys by name; `a2a-gateway key new NAME` makes one."""
    mtls: Mtls | None = None
    """Certificates of clients; by default none is requested."""
    verification: Verification = Verification()
    """Bounds on the cost of verifying tokens."""

    def as_settings(self) -> settings.AuthSettings:
        """Return it as `identity` takes it.

        Raises:
            ValueError: as `ClientPattern.parse`.
        """
        return settings.AuthSettings(
            {name: issuer.as_settings() for name, issuer in self.issuers.items()},
            {name: key.as_settings() for name, key in self.api_keys.items()},
            None if self.mtls is None else self.mtls.as_settings(),
        )


# ---- tenants -------------------------------------------------------------------------------------------------------


class Tenant(Part):
    """One of the operator's customers or teams; `*` is any that is not named."""

    agents: Strings | None = None
    """Agents it may call; `["*"]` is all of them. Left out: only those whose `allow` names it."""
    act_for: A2aTenants = ()
    """Tenants that it may name in `by_tenant` agents, beside itself: of `tenants`, or of `by_tenant` alone."""
    limits: TenantLimits = TenantLimits()
    """Its limits; at `*`, those of each tenant that is not named."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if value is None:
            return {}
        return {"agents": value} if isinstance(value, str | list) else value


# ---- push ------------------------------------------------------------------------------------------------------------


def _pattern(value: object) -> object:
    if isinstance(value, str):
        return read_pattern(value)
    if isinstance(value, WebhookPattern):
        return value
    raise ValueError(
        "is no pattern of webhooks", "write https://HOST, https://*.SUFFIX, https://HOST:* or https://HOST/PATH/*"
    )


Pattern = Annotated[WebhookPattern, BeforeValidator(_pattern), PlainSerializer(str), WithJsonSchema({"type": "string"})]
"""A pattern of webhooks, such as `https://*.example.com` or `https://hooks.example.com/a2a/*`."""


_MANY = bounded("is too many", "write at most 100: all of a task's are gone through when one is set", most=100)


class Deliver(Part):
    """Delivery to webhooks, with `mode: relay`."""

    attempts: Positive = 1000
    """Maximum attempts for one notification within `keep`; by default `keep` decides."""
    timeout: Wait = 10.0
    """Timeout of one attempt."""
    keep: Wait = 86_400.0
    """Time after which a notification is given up."""
    first_pause: Wait = 1.0
    """The pause after the first attempt that failed; each further one is about twice as long."""
    longest_pause: Wait = 300.0
    """The longest pause between two attempts."""
    concurrency: Positive = 16
    """Maximum concurrent deliveries."""
    max_waiting: Positive = 10_000
    """Maximum queued notifications of one tenant; beyond it agents get 503 and should retry."""
    max_waiting_bytes: ClassVar[int] = 256 * 1024 * 1024
    # Notifications are mostly a few KiB, so `max_waiting` is reached first; this bounds the store against long ones.


class Push(Part):
    """Webhooks of clients. By default https to public addresses only."""

    mode: Literal["relay", "passthrough", "none"] = "passthrough"
    """`relay`: the gateway calls them, signed and with retries; `passthrough`: the agent calls them; `none`:
    refused."""
    allow: Annotated[tuple[Pattern, ...], OneOrMany()] = ()
    """Webhooks that may be named, such as `https://*.example.com`; by default any public one."""
    block_private_networks: Flag = True
    """If `false`, webhooks in `allow` may have a private address, and plain http if `allow` says http."""
    max_per_task: Annotated[Positive, _MANY] = 3
    """Maximum webhooks of one task, where `mode` is `relay`; 100 at most."""
    max_per_tenant: Positive = 20_000
    """Maximum webhooks of one tenant, where `mode` is `relay`: of its open tasks, and of tasks that ended recently."""
    sign: Flag = True
    """Whether deliveries of `relay` are signed; clients verify them by the gateway's key set."""
    deliver: Deliver = Deliver()
    """Delivery with `relay`."""
    tls: PeerTls | None = None
    """Authorities for the webhooks that `relay` calls; those of the system by default."""


# ---- catalog -------------------------------------------------------------------------------------------------------


class Catalog(Part):
    """The directory of agents, each caller's own view of it."""

    feeds: Flag = True
    """Whether clients may read it at `/.well-known/ai-catalog.json` and `/.well-known/api-catalog`: callers the agents
    that they may call, anyone else those that are `listed`."""

    page: Literal["admin", "public"] = "admin"
    """Listener of the catalog page: `admin`, or `public` as well, where each caller sees the agents that it may
    reach."""


# ---- observe and tests ---------------------------------------------------------------------------------------------


LogLevel = Literal["debug", "info", "warning", "error"]


class Log(Part):
    """The access log on standard output and the gateway's own log on standard error."""

    format: Literal["json", "text"] | None = None
    """One JSON object a line, or text for people; by default text on a terminal and JSON elsewhere."""
    level: LogLevel = "info"
    """The least severe level of the gateway's own log; `PUT /-/log-level` changes it until the next start."""
    payloads: Annotated[Literal[False], BeforeValidator(read_flag)] = False
    """Message contents are never logged; only `false` is accepted."""
    file: str | None = None
    """The file of the access log, instead of standard output, relative to this one. It may be rotated at any time."""
    streams: Flag = False
    """Whether the access log also has a line when a stream opens, with the outcome `open`."""


class Buckets(Part):
    """Upper bounds of the buckets of histograms, by the name of the metric without its prefix."""

    request_duration_seconds: DurationBuckets | None = None
    """Time to the last byte of the response."""
    first_byte_seconds: DurationBuckets | None = None
    """Time to the first byte of the response."""
    overhead_seconds: DurationBuckets | None = None
    """Latency that the gateway adds."""
    stream_duration_seconds: DurationBuckets | None = None
    """Lifetime of streams."""
    task_duration_seconds: DurationBuckets | None = None
    """Time from the creation of a task to its final state."""
    state_operation_seconds: DurationBuckets | None = None
    """Latency of the task store."""
    event_loop_lag_seconds: DurationBuckets | None = None
    """Delay of timers in the event loop."""
    request_body_bytes: SizeBuckets | None = None
    """Size of request bodies."""
    response_body_bytes: SizeBuckets | None = None
    """Size of response bodies."""


class Metrics(Part):
    """Labels and buckets of the metrics."""

    tenant_label: Flag = True
    """Whether `tenant_requests_total` carries the tenant's name."""
    max_tenants: Count = 200
    """Maximum tenants with a label of their own; the others are `other`."""
    buckets: Buckets = Buckets()
    """Buckets of histograms, instead of the default ones."""


class Audit(Part):
    """The log of refusals and of operators' actions: one JSON object a line."""

    file: str
    """The file that lines are appended to, relative to this one; `-` is standard output."""

    _short = short_for("file", str)


class Tracing(Part):
    """Traces by OTLP: a span for each exchange and each attempt to call an agent. Needs the extra `otel`."""

    otlp: str
    """URL of the collector, such as http://localhost:4317; an empty URL turns traces off."""
    sample: Sampled = 1.0
    """Share of traces that are exported, 0 to 1; if a caller sends a `traceparent`, its sampling flag decides."""
    protocol: Literal["grpc", "http/protobuf"] = "grpc"
    """The protocol that the collector speaks there: usually `grpc` at port 4317, `http/protobuf` at 4318."""
    headers: dict[str, SecretStr] = {}
    """Headers of each export, such as a credential for the collector."""


class Observe(Part):
    """Logs, metrics and traces."""

    log: Log = Log()
    """The access log and the gateway's own."""
    metrics: Metrics = Metrics()
    """Labels and buckets of the Prometheus metrics on the admin listener."""
    audit: Audit | None = None
    """The audit log; without it, audit events are in the gateway's own log."""
    tracing: Tracing | None = None
    """Traces; none where it is left out."""


class TestRequest(Part):
    """The parts of a request that routing uses."""

    __test__ = False

    method: str = "POST"
    """The HTTP method."""
    path: str
    """The path, with that of `public_url` in front; or the path of a gRPC method: /lf.a2a.v1.A2AService/SendMessage."""
    tenant: str | None = None
    """The A2A `tenant` field; the `scope` of a method of ScopedA2AService."""
    host: str | None = None
    """The host that the client names."""

    _short = short_for("path", str)


class Expect(Part):
    """The expected result: the agent, its backend, or the reason of a refusal."""

    agent: str | None = None
    """The agent that answers."""
    backend: str | None = None
    """The URL of the backend that answers."""
    reason: str | None = None
    """The reason of the refusal: one word of the closed list, such as no_route."""

    _short = short_for("agent", str)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.agent is None and self.backend is None and self.reason is None:
            raise ValueError("expects nothing", "expect an agent, a backend or a reason")
        return self


class RouteTest(Part):
    """A routing test that travels with the configuration; `check` runs it."""

    name: str
    """The name of the test."""
    tenant: str | None = None
    """The caller's tenant; without this, `key` and `certificate` the caller has no credential."""
    key: str | None = None
    """The API key that the caller shows."""
    certificate: str | None = None
    """The name on the certificate that the caller shows: a URI, a DNS name, or CN=… for a common name."""
    claim: dict[str, Any] = {}
    """Claims of the caller's token."""
    request: TestRequest
    """The request."""
    expect: Expect
    """The expected result."""


class Config(Part):
    """The whole file."""

    version: Format
    """Version of this format."""
    include: Strings = ()
    """Glob patterns of files with more `agents:`, relative to this one."""
    gateway: Gateway = Gateway()
    """The gateway itself: its addresses, and the URL that clients see."""
    auth: Auth | None = None
    """Authentication; without it callers are anonymous, which is allowed on loopback only."""
    tenants: dict[TenantName, Tenant] = {}
    """Customers or teams and the agents that they may call; `*` is any tenant that is not named."""
    defaults: Defaults = Defaults()
    """Settings of all agents that do not have their own."""
    agents: dict[Name, Agent] = {}
    """The agents by name; two lines are a complete agent: https://…/<name>."""
    push: Push = Push()
    """Push notifications: the webhooks that clients name."""
    catalog: Catalog = Catalog()
    """The directory of agents."""
    observe: Observe = Observe()
    """Logs, metrics and traces."""
    tests: tuple[RouteTest, ...] = ()
    """Routing tests: `a2a-gateway check` runs them."""


# ---- removed keys ----------------------------------------------------------------------------------------------------


class Removed(NamedTuple):
    """The fact and the remedy for a key that is refused."""

    fact: str
    remedy: str


REMOVED: Mapping[str, Removed] = {
    "gateway.body.aside": Removed("`aside` is no setting any more: it is always 256KiB", "remove it"),
    "push.deliver.max_waiting_bytes": Removed(
        "`max_waiting_bytes` is no setting any more: it is always 256MiB", "remove it"
    ),
    "gateway.grpc.resets": Removed("grpc-core bounds calls that clients take back by itself", "remove it"),
    "agents.*.upstream_auth.token_exchange": Removed("the key is called `exchange`", "write `exchange` instead"),
    "agents.*.upstream_auth.mtls": Removed(
        "an agent is shown a certificate by its `tls`",
        "write `tls: { cert: …, key: … }` at the agent, or in `defaults`",
    ),
}
"""By pattern of the path without indexes; `*` stands for any names."""

REMOVED_KEYS = frozenset(pattern.rpartition(".")[2] for pattern in REMOVED)
"""The last keys of the patterns."""


def removed(path: KeyPath) -> Removed | None:
    """Return why the key at a path is refused, or None if it never was a key."""
    if not path or path[-1] not in REMOVED_KEYS:
        return None
    spelled = ".".join(step for step in path if isinstance(step, str))
    return next((found for pattern, found in REMOVED.items() if fnmatchcase(spelled, pattern)), None)


# ---- look-ups --------------------------------------------------------------------------------------------------------


def model_at(path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the mapping at a path, or None if there is none."""
    annotation: Any = Config
    for step in path:
        annotation = annotation_below(annotation, step)
    annotation = bare(annotation)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def annotation_below(annotation: Any, step: str | int) -> Any:  # noqa: ANN401 - type annotations have no type of their own
    """Return the type of the value at a key or an index, or None if the format has no such key."""
    kind = bare(annotation)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        known = kind.model_fields.get(str(step))
        return None if known is None else known.annotation
    origin, below = get_origin(kind), get_args(kind)
    if origin is dict:
        return below[1]
    if origin is tuple:
        # A single item of a list may be written without the list.
        return below[0] if isinstance(step, int) else annotation_below(below[0], step)
    return None


def bare(annotation: Any) -> Any:  # noqa: ANN401 - as above
    """Return the type without Annotated and None."""
    while True:
        origin = get_origin(annotation)
        if origin is not None and hasattr(annotation, "__metadata__"):
            annotation = get_args(annotation)[0]
        elif origin in (Union, UnionType):
            annotation = next((one for one in get_args(annotation) if one is not type(None)), None)
        else:
            return annotation


def description(model: type[BaseModel], key: str) -> str:
    """Return the docstring of a key, of the model or of one that it extends; empty where there is none.

    It is read from the source. Pydantic can do that when it makes a class, which costs every start 0.2 s of CPU.
    """
    models = model.__mro__[: model.__mro__.index(BaseModel)]
    return next((texts[key] for one in models if key in (texts := _docstrings(one))), "")


@cache
def _docstrings(model: type) -> dict[str, str]:
    """Return the docstrings of the fields that a class itself declares."""
    (declaration,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(declaration, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(declaration.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
