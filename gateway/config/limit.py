"""Bounds on the gateway's work for clients, agents and issuers: every buffer, queue, map and timer that they fill.

The defaults fit most sites. The keys exist so that an operator can see and change a bound; none of them has to be set.
"""

from typing import ClassVar

from pydantic import Field, model_validator

from gateway.a2a.bindings.grpc_method import SCOPE_FIELD
from gateway.config.values import (
    Bandwidth,
    Count,
    Duration,
    FieldNumber,
    Flag,
    Part,
    PerTime,
    Positive,
    Room,
    Seconds,
    Size,
    Strings,
    Wait,
)
from gateway.identity import settings


class Http(Part):
    """Connections of clients."""

    target: Size = 8 * 1024
    """Longest request target, path and query together."""
    headers: Size = 32 * 1024
    """Most bytes of a request's head, and of its trailers."""
    header_count: Positive = 100
    """Most headers of a request."""
    header_timeout: Wait = 10.0
    """From the first byte of a request to the end of its headers; the same for a connection that never sends one."""
    body_idle: Wait = 30.0
    """Silence within a body."""
    body_rate: Size = 1024
    """Lowest average rate of a body in bytes a second, once it has taken 10s; 0 turns this bound off."""
    keep_alive: Wait = 30.0
    """Idle time of a connection between two requests."""
    connections: Positive = 20_000
    """Most connections of clients; fewer if the system grants fewer open files."""
    connections_per_peer: Positive = 10_000
    """Most connections of one address, in IPv6 of one /64; trusted proxies have no such bound."""
    write_buffer: Size = 64 * 1024
    """Bytes that wait for one slow reader before its agent is no longer read."""
    write_stall: Wait = 30.0
    """Time without progress after which a client that does not read is disconnected."""
    tls_handshake: Wait = 10.0
    """Timeout of a TLS handshake."""


class Grpc(Part):
    """Connections of clients of gRPC, and the messages of the scoped service."""

    connections: Positive = 10_000
    """Most connections of clients."""
    streams: Positive = 4096
    """Most calls that are open on one connection."""
    metadata: Size = 32 * 1024
    """Most bytes of a call's metadata."""
    keepalive: Wait = 60.0
    """Silence after which a client gets a keepalive ping."""
    idle: Wait = 900.0
    """Idle time of a connection without a call."""
    deadline: Wait = 10.0
    """Time from the connection to the preface of HTTP/2, TLS included."""
    scope_field: FieldNumber = SCOPE_FIELD
    """The number of `scope` in requests of ScopedA2AService, which the proposal leaves open."""


class Body(Part):
    """Bodies of requests, checked before they are parsed."""

    depth: Positive = 64
    """Deepest nesting of a body."""
    members: Positive = 10_000
    """Most members of all objects of a body together."""
    elements: Positive = 100_000
    """Most elements of all arrays of a body together."""
    aside: ClassVar[int] = 256 * 1024
    # Parsing this many bytes holds the loop for about 1 ms; longer bodies are read in a thread.


class Cors(Part):
    """Browsers that call agents directly."""

    origins: Strings
    """Origins that may call, such as https://console.example.com; `*` is any, and then without credentials."""
    headers: Strings = ()
    """Request headers that they may send in addition to those of A2A, credentials and content."""
    credentials: Flag = False
    """Whether browsers may send cookies and client certificates; tokens in headers do not need this."""
    max_age: Duration = 600.0
    """Time for which a browser may cache the answer."""


class Verification(Part):
    """Bounds on the cost of verifying tokens."""

    remember: Duration = 60.0
    """Time for which a valid token is cached; never past its expiry."""
    remember_bad: Duration = 5.0
    """Time for which an invalid token is cached."""
    entries: Positive = 10_000
    """Most cached tokens of each kind, unknown keys and failing addresses."""
    failures: PerTime = (600.0, 60.0)
    """Failed credentials of one address that are checked; beyond them only credentials that are known to be valid."""
    keys_every: Wait = 300.0
    """Interval at which an issuer's keys are fetched."""
    keys_on_demand: Wait = 10.0
    """The least time between two fetches that unknown keys cause."""
    keys_kept: Duration = 86_400.0
    """Time for which keys stay valid while their issuer does not answer."""
    keys_size: Size = 1024 * 1024
    """Longest key set."""
    keys_count: Positive = 100
    """Most keys of a set."""

    def as_settings(self) -> settings.VerificationSettings:
        """Return them as `identity` takes them."""
        return settings.VerificationSettings(**dict(self))


class Connections(Part):
    """Connections to an agent, and the size of one answer."""

    max: Positive | None = None
    """Most connections to one replica of a backend; 1024."""
    queue: Count | None = None
    """Most calls that wait for a connection; 100."""
    queue_timeout: Wait | None = None
    """Time that a call waits for a connection; 1s."""
    idle: Wait | None = None
    """Idle time of a connection; 4s, below the 5s after which uvicorn and Node.js close theirs."""
    headers: Size | None = None
    """Most bytes of an answer before its body; 32KiB."""
    header_count: Positive | None = None
    """Most headers of an answer; 100."""
    event: Size | None = None
    """Longest event of a stream; 16MiB."""
    kept: Size | None = None
    """Longest answer, of one call that does not stream; 32MiB."""


DEFAULT_CONNECTIONS = Connections.model_validate(
    {
        "max": 1024,
        "queue": 100,
        "queue_timeout": "1s",
        "idle": "4s",
        "headers": "32KiB",
        "header_count": 100,
        "event": "16MiB",
        "kept": "32MiB",
    }
)


class Cards(Part):
    """Fetching of agents' cards."""

    refresh: Wait = Field(600.0, alias="ttl")
    """Interval at which a card is fetched; may also be written `refresh`."""
    keep: Duration = 3600.0
    """Time for which the last good card is served while the agent returns none."""
    size: Size = 256 * 1024
    """Longest card."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if isinstance(value, dict) and "refresh" in value and "ttl" not in value:
            return {"ttl" if key == "refresh" else key: each for key, each in value.items()}
        return {"ttl": value} if isinstance(value, str) else value


class Ledger(Part):
    """Retention of tasks and their contexts."""

    ended: Seconds = 30 * 86_400.0
    """Retention of an ended task after it was last seen."""
    open: Seconds = 90 * 86_400.0
    """Retention of an open task, and of a context."""
    tasks: Positive = 100_000
    """Most tasks of one tenant; ended ones are deleted first, then those not seen for longest."""
    contexts: Positive = 100_000
    """Most contexts of one tenant; those not seen for longest are deleted first."""


class Limits(Part):
    """Limits of calls; without a key there is no limit."""

    requests: PerTime | None = None
    """Calls in a time, such as 600/min."""
    burst: Positive | None = None
    """Burst of requests; as many as `requests` has in its period."""
    concurrency: Positive | None = None
    """Most concurrent calls."""
    queue: Count | None = None
    """Most calls that wait for a slot; 100."""
    queue_timeout: Wait | None = None
    """Longest wait of such a call; 1s."""
    streams: Positive | None = None
    """Most concurrent streams."""
    body: Room | None = None
    """Longest request body, if less than `gateway.body_limit`."""
    bandwidth: Bandwidth | None = None
    """Bytes a second of requests and answers, such as 10MiB/s; beyond it calls are refused until the debt is paid."""


class TenantLimits(Limits):
    """Limits of one tenant, of all agents together; a missing one is no limit."""

    open_tasks: Positive | None = None
    """Most tasks that are not over, of agents whose tasks have owners."""
    weight: Positive | None = None
    """Its share where tenants wait for the same agent, beside those of others; 1."""


DEFAULT_LIMITS = Limits.model_validate({"queue": 100, "queue_timeout": "1s"})
"""The queue of calls if concurrency is limited."""
DEFAULT_TENANT_LIMITS = TenantLimits.model_validate({"queue": 100, "queue_timeout": "1s", "weight": 1})
