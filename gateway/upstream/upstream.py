"""The contract of an upstream and its replies: one replica of an agent, over any transport."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import Call, Head
from gateway.a2a.fault import Fault, UpstreamProtocol
from gateway.a2a.headers import Pairs
from gateway.principal import Principal
from gateway.upstream.dialects import Dialects, Interface
from gateway.upstream.oauth2 import NoToken, TokenSource
from gateway.upstream.reply_cache import ReplyCache


@dataclass(frozen=True, slots=True)
class UpstreamTimeouts:
    """The timeouts of an agent in seconds; see `config.agent.Timeouts`."""

    connect: float
    first_byte: float
    send: float
    stream_idle: float
    total: float


@dataclass(frozen=True, slots=True)
class IdentityNames:
    """The headers that tell an agent who calls, in lower case; an empty one is not sent.

    Attributes:
        session: The header of the session.
        tenant_claim, subject_claim, session_claim: Claims whose values are sent instead; empty for none.
    """

    tenant: bytes = b"x-a2a-tenant"
    subject: bytes = b"x-a2a-subject"
    session: bytes = b""
    tenant_claim: str = ""
    subject_claim: str = ""
    session_claim: str = ""


@dataclass(frozen=True, slots=True)
class Treatment:
    """The settings of requests to an agent.

    Attributes:
        tenant: `strip`, `keep` or a value for the `tenant` field; None for the tenant of the agent's card.
        credentials: The gateway's own headers.
        forwarded: Client headers that are forwarded beside `TO_AGENT`.
        forward_caller: Whether the caller's own credential is forwarded.
        identity: The headers of the caller.
        own_tokens: The gateway's tokens for the agent, or None.
        caller_tokens: Tokens for the agent by exchange of the caller's, or None; calls have them before `own_tokens`,
            which are then for the gateway's own requests.
    """

    tenant: str | None = None
    credentials: tuple[tuple[bytes, bytes], ...] = ()
    forwarded: frozenset[bytes] = frozenset()
    forward_caller: bool = False
    identity: IdentityNames = IdentityNames()
    own_tokens: TokenSource | NoToken | None = None
    caller_tokens: TokenSource | NoToken | None = None


_MOST_PREPARED = 16
"""Entries that are kept for one head: a client may call many agents with it."""
_T = TypeVar("_T")


class Prepared(Generic[_T]):
    """Headers that upstreams have derived from a client's head, for the next request with the same head."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], tuple[object, Principal, str, _T]] = {}

    def find(self, key: tuple[object, ...], head: Head, caller: "Caller") -> _T | None:
        """Return the cached headers of a key, for the same head, caller and client; or None."""
        made = self._made.get(key)
        if made is None or made[0] is not head.headers or made[1] is not caller.principal:
            return None
        return made[3] if made[2] == caller.forwarded_for else None

    def keep(self, key: tuple[object, ...], head: Head, caller: "Caller", made: _T) -> None:
        """Keep headers for the next request.

        Args:
            key: The upstream, and the parts of the call on which the headers depend.
        """
        if len(self._made) >= _MOST_PREPARED:
            self._made.clear()
        self._made[key] = (head.headers, caller.principal, caller.forwarded_for, made)

    def clear(self) -> None:
        """Drop everything."""
        self._made.clear()

    def __len__(self) -> int:
        return len(self._made)


@dataclass(slots=True, eq=False)
class PreparedHeaders:
    """The headers that were derived from one head: lines of HTTP and of stdio, metadata of gRPC."""

    lines: Prepared[bytes] = field(default_factory=Prepared)
    metadata: Prepared[Sequence[tuple[str, str]]] = field(default_factory=Prepared)


class Caller(msgspec.Struct, frozen=True):
    """The caller of one request.

    Attributes:
        since: When it began to wait, in monotonic seconds; None if each try has its own time.
        weight: Its tenant's weight in the share of connections.
        prepared: Headers that were made of the same head before.
        token: The header with the token for the agent, or None; another one at each try.
        traceparent: The trace context of the try, or None where the client's own is forwarded.
    """

    principal: Principal
    forwarded_for: str
    request_id: str
    since: float | None = None
    weight: float = 1.0
    prepared: PreparedHeaders = msgspec.field(default_factory=PreparedHeaders)
    token: tuple[bytes, bytes] | None = None
    traceparent: bytes | None = None


class Upstream(Protocol):
    """One replica of an agent.

    Attributes:
        backend: The key of the backend in metrics and logs.
        url: The URL in the configuration.
        dialects: The dialects that the agent supports.
    """

    backend: str
    url: str
    dialects: Dialects
    timeouts: UpstreamTimeouts
    treatment: Treatment

    @property
    def active(self) -> int:
        """Return the number of connections that serve a call, or are being made for one."""

    @property
    def idle(self) -> int:
        """Return the number of idle connections."""

    async def send(
        self, call: Call, interface: Interface, head: Head, caller: Caller, *, fresh: bool = False
    ) -> "Reply":
        """Send the call once, and return the reply when it begins; the caller closes it.

        Args:
            fresh: Whether to use a new connection, where a connection carries one call at a time.

        Raises:
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded, Unsent, Draining: there is
                no answer.
        """

    async def aclose(self) -> None:
        """Close every connection and cut open calls."""


class AnswerTooLong(UpstreamProtocol):
    """The agent's answer is longer than the configuration allows; a smaller page of a list may fit."""

    def __init__(self, limit: int) -> None:
        super().__init__("the agent's answer is too long", detail=f"over {limit} bytes")


def ignore_size(_size: int) -> None:
    """Ignore how many bytes are held."""


class Reply(Protocol):
    """A reply, from its head on, or from its first message over gRPC.

    The caller reads it to the end or calls `close`. Cancelling a read closes it.

    Attributes:
        headers: Names in lower case; metadata over gRPC.
        metadata: Headers behind the body; only gRPC has any.
        alone: Whether its connection has carried no other call; True where calls cannot be confused.
        received: Time of the loop at which `flow` last pushed something.
    """

    headers: Pairs
    metadata: Pairs
    alone: bool
    received: float

    @property
    def address(self) -> str:
        """The address of the agent that answered: IP address and port, the target over gRPC; empty for a process."""

    @property
    def http_status(self) -> int:
        """The status in HTTP's numbers."""

    @property
    def failure(self) -> Status | None:
        """The status with which the agent refused the call or ended the stream; only gRPC has one."""

    @property
    def fault(self) -> Fault | None:
        """Why the reply broke off; None over gRPC, where a read raises it."""

    @property
    def is_failing(self) -> bool:
        """Whether its status says that the replica is down: 502 to 504 over HTTP, UNAVAILABLE over gRPC."""

    @property
    def has_begun(self) -> bool:
        """Whether more than its head has arrived: over gRPC the first message, or the end."""

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""

    @property
    def known(self) -> ReplyCache | None:
        """A cache of values that are derived from the headers, or None."""

    async def read(self, limit: int, timeout: float, hold: Callable[[int], None] = ignore_size) -> bytes:  # noqa: ASYNC109
        """Return the whole body.

        Args:
            limit: Most bytes that are accepted.
            timeout: Seconds for all of it.
            hold: Called with the number of held bytes; an exception of it ends the read.

        Raises:
            AnswerTooLong: the body is longer than `limit`.
            UpstreamTimeout: it is not complete in time.
            UpstreamReset, UpstreamProtocol: it broke off, or is malformed.
        """

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - of silence
        lag: Callable[[int], None],
    ) -> None:
        """Push the body to `take` as it arrives, to its end. The headers are released.

        After `take` returns False nothing more is pushed until `settle` has been awaited.

        Args:
            timeout: Seconds of silence that are accepted.
            lag: Called with the bytes that wait on a connection that cannot be paused; an exception ends the reply.

        Raises:
            UpstreamIdle: nothing arrived for `timeout`.
            UpstreamReset, UpstreamProtocol: it broke off or is malformed; or any fault that `take` raises.
        """

    def close(self) -> None:
        """Release the reply. If it is incomplete, the agent sees the call cancelled at once."""

    def disown(self) -> None:
        """Close, and do not reuse the connection: the reply may belong to another call (safety T14)."""

    def distrust(self) -> None:
        """Do not reuse the connection after this reply."""
