"""The listener for gRPC clients, on grpc.aio: the pipeline for A2A's services, health and reflection beside them.

grpc-core keeps the rules of HTTP/2: flow control, limits on frames, headers and pings, rapid resets. It shows neither
`:authority` nor the connections to Python, so no host picks an agent here, and there is no limit for each address.

A certificate or a message limit belongs to a server for as long as that lives. So another one takes its place when they
change: both listen on one port for a moment (SO_REUSEPORT), and the first one sends its clients away (GOAWAY) and ends
with its last call.
"""

import asyncio
import logging
import os
import re
import secrets
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

# Core writes past the log, as often as strangers like; only what is set before it is loaded counts.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import grpc.aio  # type: ignore[import-untyped]  # as above
from grpc._cython import cygrpc  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import BY_PATH, SERVICES, GrpcMethod
from gateway.a2a.call import Head
from gateway.certificate import Certificate
from gateway.config.model import Gateway
from gateway.identity.mtls import read_certificate
from gateway.listener.grpc_health import Answer, Health
from gateway.listener.grpc_reflection import Reflection
from gateway.listener.grpc_wire import GrpcWire, Metadata, Pace
from gateway.listener.server import ListenFailed, PemTls, address_of, client_limits
from gateway.proxy.pipeline import Pipeline

_KEEPALIVE_TIMEOUT = 20.0
"""Seconds that a client has to answer a ping."""
_PING_INTERVAL = 10.0
"""Seconds between two pings of a client without calls; core's own 5 minutes cut clients that ping every minute."""
_FOR_EVER = 30 * 24 * 3600.0
_ONLY_IDENTITY = 1
"""Compressed messages are refused: what they grow to is not known before they are read."""
_OVER_LIMIT = 2
"""Times the limit on messages that core takes. What it refuses has no details and no reason in the access log."""
_MOST_CERTIFICATES = 4096
_MOST_ASIDE = 1000
"""Calls to health and reflection at a time: strangers may make them, and keep them open."""
_MOST_MILLISECONDS = 10**8
_NO_METADATA = frozenset({"te", "content-type", "content-length", "host"})
"""They say how a request is written."""
_CONTROL = re.compile(r"[^\t\x20-\x7e\x80-\U0010ffff]")
"""Characters that would end a line where such a value becomes a header of HTTP/1.1; core lets them pass."""


logger = logging.getLogger("gateway.listener")


def _tells_no_metadata(record: logging.LogRecord) -> bool:
    """Keep from the log metadata that are no UTF-8: grpcio logs their value, which may be a credential."""
    return not record.getMessage().startswith("Invalid encoding")


logging.getLogger("grpc._cython.cygrpc").addFilter(_tells_no_metadata)


class _CoreServer(cygrpc.AioServer):  # type: ignore[misc]  # grpcio has no types
    """grpc.aio's server, which lives on when a path is no UTF-8.

    grpcio decodes the path of every call that has no registered method in the loop that accepts calls: one such call
    of a stranger ends the server. So every method is registered, and that loop is shown no other call.

    Attributes:
        refuse: Ends a call of no registered method; None for a server of somebody else.
    """

    refuse: Callable[[grpc.aio.ServicerContext], Coroutine[Any, Any, None]] | None = None

    async def _request_call(self) -> object:
        while True:
            state = await super()._request_call()
            if self.refuse is None:
                return state
            loop = asyncio.get_running_loop()
            task = loop.create_task(self.refuse(cygrpc._ServicerContext(state, None, None, loop)))  # noqa: SLF001 - grpcio has no public way
            _REFUSALS.add(task)
            task.add_done_callback(_REFUSALS.discard)


_REFUSALS: set[asyncio.Task[None]] = set()
"""The loop itself keeps tasks by weak references."""

cygrpc.AioServer = _CoreServer


@dataclass(slots=True)
class _Server:
    """A server of grpc.aio, and what is known of its clients.

    Attributes:
        certificates: Those that clients have shown, by their PEM; each is verified by `tls`.
        void: Whether an authority of `tls` is not trusted any more.
    """

    server: Any
    tls: PemTls | None
    longest: int
    certificates: dict[bytes, Certificate] = field(default_factory=dict)
    void: bool = False

    def certificate(self, context: grpc.aio.ServicerContext) -> Certificate | None:
        """Return what the client of a call has shown, or None."""
        if self.tls is None or self.tls.authorities is None:
            return None
        shown = context.auth_context().get("x509_pem_cert")
        if not shown:
            return None
        known = self.certificates.get(shown[0])
        if known is None:
            if len(self.certificates) >= _MOST_CERTIFICATES:
                self.certificates.clear()
            known = read_certificate(ssl.PEM_cert_to_DER_cert(shown[0].decode("ascii")))
            known.void = self.void
            self.certificates[shown[0]] = known
        return known

    def distrust(self) -> None:
        """Void every certificate that was verified here."""
        self.void = True
        for certificate in self.certificates.values():
            certificate.void = True


class GrpcListener:
    """The listener for gRPC clients.

    Args:
        reserved: A socket that holds the port (`server.reserve`); it is closed with the listener.
        gateway: Limits, as the configuration has them when the gateway starts.
        ready: Whether the gateway takes new calls.
    """

    def __init__(
        self,
        reserved: socket.socket,
        gateway: Gateway,
        pipeline: Pipeline,
        ready: Callable[[], bool],
        tls: PemTls | None,
    ) -> None:
        self._reserved = reserved
        self._written = gateway
        self._pipeline = pipeline
        self._health = Health(ready, SERVICES)
        self._reflection = Reflection(gateway.grpc.scope_field)
        http = gateway.http
        self._pace = Pace(stall=http.write_stall, idle=http.body_idle, rate=http.body_rate)
        self._aside = 0
        self._aside_handlers: dict[str, Any] = {
            path: grpc.stream_stream_rpc_method_handler(partial(self._answer_aside, answer))
            for path, answer in {**self._health.methods, **self._reflection.methods}.items()
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: dict[asyncio.Task[None], _Server] = {}
        self._closing = False
        self.address = address_of(reserved)
        self._current = self._bind(tls, gateway.body_limit)

    # ---- Servers ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Accept connections from now on."""
        await self._current.server.start()

    async def renew(self, tls: PemTls | None, longest: int) -> None:
        """Show another certificate, verify clients' by other authorities, and take messages of another length.

        Calls that are open go on. Certificates that were verified by an authority that is gone are void.

        Args:
            longest: Bytes of a message.
        """
        before = self._current
        if (tls, longest) == (before.tls, before.longest) or self._closing:
            return
        if before.tls is not None and tls is not None and not before.tls.trusted <= tls.trusted:
            before.distrust()
        try:
            self._current = self._bind(tls, longest)
        except ListenFailed as error:
            logger.error("gRPC clients are served as before: %s", error)  # noqa: TRY400 - the text says it all
            return
        await self._current.server.start()
        self._stop(before, _FOR_EVER)
        # It stops accepting with the first step of that.
        await asyncio.sleep(0)

    def tell_health(self) -> None:
        """Tell those that watch the health that it may have changed."""
        self._health.changed()

    def stop_accepting(self) -> None:
        """Accept no more connections and calls, and tell clients so; calls that are open go on."""
        self._closing = True
        self._stop(self._current, _FOR_EVER)
        self._reserved.close()

    async def aclose(self, timeout: float = 1.0) -> None:  # noqa: ASYNC109 - the last step before the process ends
        """Close what is left, after `timeout` seconds also what is still in use."""
        if not self._closing:
            self.stop_accepting()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        await self._cancel_calls(timeout)
        stopping = dict(self._stopping)
        await asyncio.gather(*(server.server.stop(timeout) for server in stopping.values()), *stopping)
        # Core may have handed out calls until here.
        await self._cancel_calls(timeout)

    async def _cancel_calls(self, timeout: float) -> None:  # noqa: ASYNC109 - as above
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def _bind(self, tls: PemTls | None, longest: int) -> _Server:
        server = grpc.aio.server(options=self._options(longest))
        bound = _Server(server, tls, longest)
        for path, handler in {**self._aside_handlers, **self._call_handlers(bound)}.items():
            service, _, name = path[1:].partition("/")
            server.add_registered_method_handlers(service, {name: handler})
        server._server.refuse = self._refuse_path  # noqa: SLF001 - as above
        try:
            if tls is None:
                server.add_insecure_port(self.address)
            else:
                server.add_secure_port(self.address, _credentials(tls))
        except RuntimeError as error:
            raise ListenFailed(f"cannot listen on {self.address}: {error}") from error
        return bound

    def _stop(self, server: _Server, grace: float) -> None:
        task = asyncio.get_running_loop().create_task(server.server.stop(grace))
        self._stopping[task] = server
        task.add_done_callback(self._stopping.pop)

    def _options(self, longest: int) -> list[tuple[str, int]]:
        written = self._written.grpc
        asked = self._written.http.model_copy(update={"connections": written.connections})
        connections = client_limits(asked, beside=self._written.http.connections).connections
        return [
            ("grpc.so_reuseport", 1),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.server_handshake_timeout_ms", _milliseconds(written.deadline)),
            ("grpc.max_connection_idle_ms", _milliseconds(written.idle)),
            ("grpc.keepalive_time_ms", _milliseconds(written.keepalive)),
            ("grpc.keepalive_timeout_ms", _milliseconds(_KEEPALIVE_TIMEOUT)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _milliseconds(_PING_INTERVAL)),
            ("grpc.max_concurrent_streams", written.streams),
            ("grpc.max_metadata_size", written.metadata),
            ("grpc.absolute_max_metadata_size", written.metadata),
            ("grpc.max_receive_message_length", min(_OVER_LIMIT * longest, 2**31 - 1)),
            ("grpc.max_send_message_length", -1),
            ("grpc.compression_enabled_algorithms_bitset", _ONLY_IDENTITY),
        ]

    # ---- Calls -----------------------------------------------------------------------------------------------------

    def _call_handlers(self, server: _Server) -> dict[str, grpc.RpcMethodHandler]:
        found = {}
        for path, method in BY_PATH.items():
            call = partial(self._call, server, method)
            if method.operation.streams:
                found[path] = grpc.stream_stream_rpc_method_handler(call)
            else:
                # One batch sends the message and the status.
                found[path] = grpc.stream_unary_rpc_method_handler(call)
        return found

    async def _call(
        self, server: _Server, method: GrpcMethod, _messages: object, context: grpc.aio.ServicerContext
    ) -> bytes:
        metadata: Metadata = context.invocation_metadata()
        most = self._written.http.header_count
        if len(metadata) > most:
            words = f"there are more than {most} headers"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words, self._refused(context, 431, words))
        if any(isinstance(value, str) and _CONTROL.search(value) for _, value in metadata):
            words = "a header is malformed"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, words, self._refused(context, 400, words))
        head = Head(
            "POST",
            method.path.encode("ascii"),
            headers=_headers(metadata, context.time_remaining()),
            peer=_address(context.peer()),
            scheme="http" if server.tls is None else "https",
            grpc=method,
            certificate=server.certificate(context),
        )
        wire = GrpcWire(context, self._pace, streams=method.operation.streams)
        context.add_done_callback(lambda _: wire.finished())
        task = asyncio.get_running_loop().create_task(self._serve(head, wire))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await wire.send()

    async def _serve(self, head: Head, wire: GrpcWire) -> None:
        try:
            await self._pipeline.serve(head, wire)
        finally:
            wire.cut()

    async def _refuse_path(self, context: grpc.aio.ServicerContext) -> None:
        # The words of grpc's own servers, which some clients look for.
        told = "Method not found!"
        with suppress(grpc.aio.BaseError):
            refused = self._refused(context, 404, "there is no such method")
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, told, refused)

    def _refused(self, context: grpc.aio.ServicerContext, status: int, words: str) -> Metadata:
        """Log what is no call of A2A; return the metadata of its refusal."""
        request_id = secrets.token_hex(8)
        self._pipeline.unreadable(_address(context.peer()), request_id, status, words)
        return (("x-request-id", request_id),)

    async def _answer_aside(self, answer: Answer, _messages: object, context: grpc.aio.ServicerContext) -> None:
        # A check is short, and a stranger could have the gateway taken for dead.
        counts = answer != self._health.check
        if counts and self._aside >= _MOST_ASIDE:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there are too many calls of this kind")
        self._aside += counts
        try:
            await answer(context)
        finally:
            self._aside -= counts


def _credentials(tls: PemTls) -> grpc.ServerCredentials:
    """Return how handshakes are made; grpcio can ask every client for a certificate, or none."""
    asks = tls.authorities is not None
    return grpc.ssl_server_credentials([(tls.key, tls.chain)], tls.authorities, require_client_auth=asks)


def _headers(metadata: Metadata, remaining: float | None) -> tuple[tuple[bytes, bytes], ...]:
    """Return metadata as HTTP/2 has them, with what is left of the client's deadline."""
    pairs = [
        (name.encode("ascii"), b64encode(value) if isinstance(value, bytes) else value.encode())
        for name, value in metadata
        if name not in _NO_METADATA
    ]
    if remaining is not None:
        milliseconds = max(int(remaining * 1000), 1)
        if milliseconds < _MOST_MILLISECONDS:
            pairs.append((b"grpc-timeout", b"%dm" % milliseconds))
    return tuple(pairs)


def _address(peer: str) -> str:
    """Return the address of a client, of `ipv4:127.0.0.1:4000` or `ipv6:%5B::1%5D:4000`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


def _milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)
