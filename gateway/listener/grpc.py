"""The listener for gRPC clients, on grpc.aio: the pipeline for A2A's services, health and reflection beside them.

grpc-core keeps the rules of HTTP/2: flow control, limits on frames, headers and pings, rapid resets. It shows neither
`:authority` nor the connections to Python, so no host picks an agent here, and there is no limit for each address.

A certificate or a message limit belongs to a server for as long as that lives. So another one takes its place when they
change: both listen on one port for a moment (SO_REUSEPORT), and the first one sends its clients away (GOAWAY) and ends
with its last call.
"""

import asyncio
import logging
import re
import secrets
import socket
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from gateway.a2a.bindings.grpc_method import BY_PATH, SERVICES, GrpcMethod
from gateway.a2a.call import Head
from gateway.config.model import Gateway
from gateway.identity.mtls import read_certificate
from gateway.listener.grpc_health import Answer, Health
from gateway.listener.grpc_reflection import Reflection
from gateway.listener.grpc_responder import GrpcResponder, Metadata
from gateway.listener.server import ListenFailed, address_of, client_limits
from gateway.listener.tls import PemTls
from gateway.principal import Certificate
from gateway.proxy.pipeline import Pipeline
from gateway.upstream.grpc_library import aio, cygrpc, grpc

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
_MOST_HEADS = 1024
_LONGEST_KEPT = 4096
"""Bytes of the metadata of a call whose head is kept."""
_HEAD_KEPT_FOR = 1.0
_NO_METADATA = frozenset({"te", "content-type", "content-length", "host"})
"""They say how a request is written."""
_CONTROL = re.compile(r"[^\t\x20-\x7e\x80-\U0010ffff]")
"""Characters that would end a line where such a value becomes a header of HTTP/1.1; core lets them pass."""


logger = logging.getLogger("gateway.listener")


def _tells_no_metadata(record: logging.LogRecord) -> bool:
    """Keep from the log metadata that are no UTF-8: grpcio logs their value, which may be a credential."""
    return not record.getMessage().startswith("Invalid encoding")


logging.getLogger("grpc._cython.cygrpc").addFilter(_tells_no_metadata)


_CALLED: ContextVar[str] = ContextVar("_CALLED", default="")
"""The path of the method that was called, in the task that grpcio starts for a call."""


class _NextCall(asyncio.Future[Any]):
    """The next call, as grpcio takes it: it asks for the result just before it starts a task for the call."""

    method = ""

    def result(self) -> Any:  # noqa: ANN401 - grpcio's own state of a call
        """Return the call, and leave its method where its task finds it."""
        _CALLED.set(self.method)
        return super().result()


class _CoreServer(cygrpc.AioServer):  # type: ignore[misc]  # grpcio has no types
    """A grpc.aio server that survives a path that is not UTF-8, and accepts calls at a cost that methods do not raise.

    Decision: this subclasses a private class of grpcio (1.85; later minor versions are refused in `pyproject.toml`),
    because the public API cannot keep what users notice:

    - The accept loop of grpcio decodes the path of every call of an unregistered method, and ends with a
      UnicodeDecodeError where it cannot. With the public `add_generic_rpc_handlers` and
      `add_registered_method_handlers` alone, one call of a stranger to a path that is not UTF-8 stops the listener: all
      later calls get UNAVAILABLE until the gateway is restarted. So every method is registered, and the loop never sees
      any other call.
    - For registered methods the loop waits for one future each: a call would cost a sixth more with the methods of A2A.
      It gets one future for all of them. A grpcio that asks for no future here still works, as fast as it does by
      itself.

    Attributes:
        refuse: Ends a call of an unregistered method; None for a server that is not the gateway's.
    """

    refuse: Callable[[aio.ServicerContext], Coroutine[Any, Any, None]] | None = None

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 - as grpcio
        super().__init__(*args)
        self._next: _NextCall | None = None
        self._arrived: deque[tuple[str, Any]] = deque()
        self._stopped: list[bytes | None] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def _request_call(self) -> object:
        while True:
            state = await super()._request_call()
            if self.refuse is None:
                return state
            context = cygrpc._ServicerContext(state, None, None, asyncio.get_running_loop())  # noqa: SLF001 - grpcio has no public way
            self._start(self.refuse(context))

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Future[Any]:
        """Return a future of the next call, whichever method it calls.

        Args:
            method: Asked for once per registered method, then None.
        """
        if self.refuse is None:
            found: asyncio.Future[Any] = super()._make_request_call_future(method)
            return found
        if self._next is None or not self._next.done():
            self._stopped.append(method)
        while self._stopped:
            self._start(self._accept(self._stopped.pop()))
        if self._next is None or self._next.done():
            self._next = _NextCall()
            self._hand_over()
        return self._next

    async def _accept(self, method: bytes | None) -> None:
        """Accept the calls of one method, or those of unregistered methods."""
        try:
            while True:
                state = await (self._request_call() if method is None else self._request_registered_call(method))
                self._arrived.append(((method or b"").decode(), state))
                self._hand_over()
        except Exception as error:  # noqa: BLE001 - grpcio's loop decides: it ends, or asks again
            self._stopped.append(method)
            self._arrived.append(("", error))
            self._hand_over()

    def _hand_over(self) -> None:
        if self._next is None or self._next.done() or not self._arrived:
            return
        self._next.method, state = self._arrived.popleft()
        if isinstance(state, Exception):
            self._next.set_exception(state)
        else:
            self._next.set_result(state)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


cygrpc.AioServer = _CoreServer


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Handlers by the method that `_CoreServer` tells."""

    def __init__(self, handlers: Mapping[str, grpc.RpcMethodHandler]) -> None:
        self._handlers = handlers

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call."""
        return self._handlers.get(_CALLED.get())


class _Heads:
    """The heads of recent calls, so that what one call worked out from its head serves the next with the same head.

    A head holds a credential, so one that no call has had for a second or two is dropped.
    """

    def __init__(self) -> None:
        self._recent: dict[object, Head] = {}
        self._older: dict[object, Head] = {}
        self._timer: asyncio.TimerHandle | None = None

    def find(self, key: object) -> Head | None:
        """Return the head that was kept under a key."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.pop(key, None)
            if found is not None:
                self._recent[key] = found
        return found

    def keep(self, key: object, head: Head) -> None:
        """Keep a head, unless it is long."""
        if sum(len(value) for _, value in head.headers) > _LONGEST_KEPT:
            return
        if len(self._recent) >= _MOST_HEADS:
            self._recent.clear()
        self._recent[key] = head
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HEAD_KEPT_FOR, self._age)

    def _age(self) -> None:
        self._older, self._recent = self._recent, {}
        more = bool(self._older)
        self._timer = asyncio.get_running_loop().call_later(_HEAD_KEPT_FOR, self._age) if more else None


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
    heads: _Heads = field(default_factory=_Heads)

    def certificate(self, context: aio.ServicerContext) -> Certificate | None:
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
        server = aio.server(options=self._options(longest))
        bound = _Server(server, tls, longest)
        handlers = {**self._aside_handlers, **self._call_handlers(bound)}
        for path, handler in handlers.items():
            service, _, name = path[1:].partition("/")
            server.add_registered_method_handlers(service, {name: handler})
        server.add_generic_rpc_handlers((_Handlers(handlers),))
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
        return {path: self._call_handler(server, method) for path, method in BY_PATH.items()}

    def _call_handler(self, server: _Server, method: GrpcMethod) -> grpc.RpcMethodHandler:
        # A plain function: grpcio looks at it twice in each call, and a partial takes it four times as long.
        async def call(_messages: object, context: aio.ServicerContext) -> bytes:
            return await self._call(server, method, context)

        if method.operation.streams:
            return grpc.stream_stream_rpc_method_handler(call)
        # One batch sends the message and the status.
        return grpc.stream_unary_rpc_method_handler(call)

    async def _call(self, server: _Server, method: GrpcMethod, context: aio.ServicerContext) -> bytes:
        kept = await self._head(server, method, context)
        remaining = context.time_remaining()
        # Always a head of its own, as a stream drops its content.
        head = replace(kept, timeout=None if remaining is None or remaining > _FOR_EVER else remaining)
        wire = GrpcResponder(context, self._written.http, streams=method.operation.streams)
        task = asyncio.get_running_loop().create_task(self._serve(head, wire, kept))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await wire.send()

    async def _head(self, server: _Server, method: GrpcMethod, context: aio.ServicerContext) -> Head:
        """Return the head that a call shares with others; a call whose metadata are refused ends here."""
        metadata: Metadata = context.invocation_metadata()
        certificate = server.certificate(context)
        key = (context.peer(), method.path, metadata, certificate)
        head = server.heads.find(key)
        if head is None:
            await self._refuse_metadata(metadata, context)
            head = Head(
                "POST",
                method.path.encode("ascii"),
                headers=_headers(metadata),
                peer=_address(context.peer()),
                scheme="http" if server.tls is None else "https",
                grpc=method,
                certificate=certificate,
                http_version="2",
            )
            server.heads.keep(key, head)
        return head

    async def _refuse_metadata(self, metadata: Metadata, context: aio.ServicerContext) -> None:
        most = self._written.http.header_count
        if len(metadata) > most:
            words = f"there are more than {most} headers"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words, self._refused(context, 431, words))
        if any(isinstance(value, str) and _CONTROL.search(value) for _, value in metadata):
            words = "a header is malformed"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, words, self._refused(context, 400, words))

    async def _serve(self, head: Head, wire: GrpcResponder, kept: Head) -> None:
        try:
            await self._pipeline.serve(head, wire)
        finally:
            if head.cache is not None:
                kept.remember(head.cache)
            wire.cut()

    async def _refuse_path(self, context: aio.ServicerContext) -> None:
        # The words of grpc's own servers, which some clients look for.
        told = "Method not found!"
        with suppress(aio.BaseError):
            refused = self._refused(context, 404, "there is no such method")
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, told, refused)

    def _refused(self, context: aio.ServicerContext, status: int, words: str) -> Metadata:
        """Log what is no call of A2A; return the metadata of its refusal."""
        request_id = secrets.token_hex(8)
        self._pipeline.unreadable(_address(context.peer()), request_id, status, words)
        return (("x-request-id", request_id),)

    async def _answer_aside(self, answer: Answer, _messages: object, context: aio.ServicerContext) -> None:
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


def _headers(metadata: Metadata) -> tuple[tuple[bytes, bytes], ...]:
    """Return metadata as HTTP/2 has them."""
    return tuple(
        (name.encode("ascii"), b64encode(value) if isinstance(value, bytes) else value.encode())
        for name, value in metadata
        if name not in _NO_METADATA
    )


def _address(peer: str) -> str:
    """Return the address of a client, of `ipv4:127.0.0.1:4000` or `ipv6:%5B::1%5D:4000`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


def _milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)
