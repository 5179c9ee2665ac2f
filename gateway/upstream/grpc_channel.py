"""The connection to one agent over gRPC: opened when it is first needed, shared by all calls.

gRPC connects for the first call and again for the next one after a connection was lost; a call that finds no
connection is never sent. A channel that could not connect is dropped, and the next call makes a new one. So neither
gRPC's backoff nor its cache of failed DNS look-ups delays calls to an agent that is back. Open calls on the dropped
channel go on.

Pings come less often than every five minutes, because servers close the connection of a client that pings more often
(decision 0011). Windows do not grow with the speed of the line: data for a client that does not read waits here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from gateway.a2a.fault import BodyTooLarge, Fault, UpstreamConnect
from gateway.upstream.connection import closed
from gateway.upstream.grpc_library import aio, grpc
from gateway.upstream.grpc_reply import GrpcReply
from gateway.upstream.reply_cache import ReplyCache
from gateway.upstream.response import late

Metadata = Sequence[tuple[str, str]]

_PING_EVERY = 330.0
_PING_TIMEOUT = 10.0
_LOOK_UP_EVERY = 1.0
_DEFAULT_PORT = {"grpc": 80, "grpcs": 443}

_READY = grpc.ChannelConnectivity.READY
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE


@dataclass(frozen=True, slots=True)
class GrpcBounds:
    """Limits of one call, in bytes.

    Attributes:
        request: The longest message to an agent.
        answer: The longest message from one.
        metadata: The headers, or the trailers, of an answer.
    """

    request: int = 4 * 1024 * 1024
    answer: int = 4 * 1024 * 1024
    metadata: int = 32 * 1024


DEFAULT_BOUNDS = GrpcBounds()


class GrpcChannel:
    """The connection to one backend.

    Args:
        url: `grpc://host:port`, or `grpcs://host:port` for TLS.
        connect: Seconds to connect in, name look-up and TLS included.
        roots: The certificates of the authorities that verify the agent, as `authorities` reads them; for TLS only.
        shown: The private key and the certificates of the gateway as a client, as PEM; or None.
        address: The only address of the URL's host to connect to; None for any.
        server_name: The name for SNI and certificate verification instead of the URL's host.
    """

    def __init__(
        self,
        url: str,
        bounds: GrpcBounds = DEFAULT_BOUNDS,
        *,
        connect: float,
        roots: bytes | None = None,
        shown: tuple[bytes, bytes] | None = None,
        address: str | None = None,
        server_name: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORT:
            raise ValueError("no address of gRPC")
        if parts.scheme == "grpcs" and not roots:
            # gRPC would read some by itself, from a variable of the environment.
            raise ValueError("no authority is named for the agent's certificate")
        host = address or parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        # Without a resolver's scheme in front, gRPC would read some hosts as a scheme.
        self._address = f"{host}:{parts.port or _DEFAULT_PORT[parts.scheme]}"
        self._target = f"dns:///{self._address}"
        self._named: tuple[tuple[str, str], ...] = ()
        if (server_name or address is not None) and parts.scheme == "grpcs":
            # gRPC names the agent so in each call, too, and calls no agent without this name on its certificate.
            self._named = (("grpc.ssl_target_name_override", server_name or parts.hostname or ""),)
        elif server_name or address is not None:
            self._named = (("grpc.default_authority", parts.netloc),)
        self._shown = shown
        self._bounds = bounds
        self._connect = connect
        self._roots = roots if parts.scheme == "grpcs" else None
        self._line: _Line | None = None
        self._closed = False
        self._calls: set[aio.Call] = set()

    @property
    def active(self) -> int:
        """1 while the connection serves calls or is made for one, else 0."""
        return int(bool(self._calls))

    @property
    def idle(self) -> int:
        """1 while the connection is established and idle, else 0."""
        return int(not self.active and self._line is not None and self._line.channel.get_state() is _READY)

    async def unary(
        self,
        path: str,
        message: bytes,
        metadata: Metadata,
        *,
        timeout: float,  # noqa: ASYNC109 - kept by gRPC, which tells the agent
        expired: Callable[[], Fault] = late,
    ) -> GrpcReply:
        """Send one message and return the whole answer, or the status instead.

        Args:
            timeout: Seconds for all of it, connecting included.
            expired: Makes the fault when they are over.

        Raises:
            BodyTooLarge: the message is longer than `GrpcBounds.request`.
            UpstreamConnect: no connection; nothing was sent.
            UpstreamTimeout: no answer in time.
            UpstreamReset: the connection, or the call, broke off.
            UpstreamProtocol: the answer is not gRPC or too long, or rejects the gateway's credential.
            Unsent: the channel is closed.
            Draining: it was closed meanwhile.
        """
        line = self._line_for(message)
        call = line.unary(path)(message, timeout=timeout, metadata=metadata)
        self._calls.add(call)
        try:
            return await GrpcReply(call, line.channel, self._address, line.bare).only(timeout, expired)
        except UpstreamConnect:
            self._let_go(line)
            raise
        finally:
            self._calls.discard(call)

    async def stream(
        self,
        path: str,
        message: bytes,
        metadata: Metadata,
        *,
        first: float,
        timeout: float | None,  # noqa: ASYNC109 - as above
    ) -> GrpcReply:
        """Send one message and return the stream from its first message or its end on; the caller closes it.

        Args:
            first: Seconds to the first message, connecting included.
            timeout: Seconds for all of it, or None for no limit.

        Raises:
            BodyTooLarge, UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Unsent, Draining: as
                `unary`.
        """
        line = self._line_for(message)
        call = line.stream(path)(message, timeout=timeout, metadata=metadata)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await GrpcReply(call, line.channel, self._address).begin(first)
        except UpstreamConnect:
            self._let_go(line)
            raise

    async def aclose(self) -> None:
        """Close the connection and cut open calls; return when it is gone."""
        self._closed = True
        for call in tuple(self._calls):
            call.cancel()
        line, self._line = self._line, None
        if line is not None:
            await line.channel.close()

    def _line_for(self, message: bytes) -> "_Line":
        if len(message) > self._bounds.request:
            raise BodyTooLarge(f"body exceeds {self._bounds.request} bytes")
        if self._closed:
            raise closed()
        line = self._line
        if line is None or line.channel.get_state() is _FAILED:
            line = self._line = _Line(self._make())
        return line

    def _let_go(self, line: "_Line") -> None:
        if self._line is line:
            self._line = None

    def _make(self) -> aio.Channel:
        if self._roots is None:
            return aio.insecure_channel(self._target, options=self._options())
        key, chain = (None, None) if self._shown is None else self._shown
        credentials = grpc.ssl_channel_credentials(self._roots, key, chain)
        return aio.secure_channel(self._target, credentials, options=self._options())

    def _options(self) -> tuple[tuple[str, int | str], ...]:
        return (
            ("grpc.primary_user_agent", "a2a-gateway"),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", self._bounds.answer),
            ("grpc.max_metadata_size", self._bounds.metadata),
            ("grpc.absolute_max_metadata_size", self._bounds.metadata),
            # Timeouts of one attempt to connect, of which the longer counts, and of a DNS query.
            ("grpc.min_reconnect_backoff_ms", int(self._connect * 1000)),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.dns_ares_query_timeout", int(self._connect * 1000)),
            ("grpc.dns_min_time_between_resolutions_ms", int(_LOOK_UP_EVERY * 1000)),
            ("grpc.keepalive_time_ms", int(_PING_EVERY * 1000)),
            ("grpc.keepalive_timeout_ms", int(_PING_TIMEOUT * 1000)),
            ("grpc.keepalive_permit_without_calls", 0),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.bdp_probe", 0),
            # Retries are decided in `retry.py`, not by gRPC and not by DNS records.
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            # The environment names no proxies (safety K9), and no two backends share a connection.
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
            *self._named,
        )


class _Line:
    """A gRPC channel with its callables, which are made once per method.

    Attributes:
        bare: As `GrpcReply`.
        unary: Returns the method at a path, one of `grpc_method`.
        stream: As `unary`, of a method whose answer is a stream.
    """

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.bare = ReplyCache()
        self.unary = cache(channel.unary_unary)
        self.stream = cache(channel.unary_stream)
