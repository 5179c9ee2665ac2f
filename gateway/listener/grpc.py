"""The listener for gRPC clients, on grpc.aio: the services of A2A go through the pipeline.

grpc-core implements HTTP/2: flow control, limits on frames, headers and pings, defence against rapid resets. It exposes
neither `:authority` nor the connections to Python. So no host picks an agent here, and there is no limit per address.

A certificate or a message limit cannot be changed in a running server, so a change starts another server. Both listen
on one port for a moment (SO_REUSEPORT). The first one sends GOAWAY to its clients and ends with its last call.

Two tasks serve a call. That of grpc.aio sends what was written (`GrpcResponder.send`), because grpc.aio can only write
by waiting. It is cancelled when the client cancels the call, leaves or runs out of time. The other one runs the
pipeline, and ends in its own way: it closes the call to the agent and writes the access log line.
"""

import asyncio
import logging
import re
import secrets
import socket
import ssl
from base64 import b64decode, b64encode
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
from gateway.a2a.bindings.grpc_status import CODES, Status
from gateway.a2a.bindings.grpc_status import trailers as status_trailers
from gateway.a2a.call import Head
from gateway.a2a.fault import BadRequest, BodyTooLarge, BodyTooSlow, ClientGone
from gateway.a2a.framing.grpc import unframe
from gateway.a2a.headers import Pairs
from gateway.identity.mtls import read_certificate
from gateway.listener.grpc_services import Answer, GrpcHealth, Reflection
from gateway.listener.http_limits import GrpcLimits, HttpLimits
from gateway.listener.server import ListenFailed, address_of
from gateway.listener.tls import PemTls
from gateway.principal import Certificate
from gateway.proxy.pipeline import Pipeline
from gateway.upstream.grpc_library import aio, cygrpc, grpc

_KEEPALIVE_TIMEOUT = 20.0
"""Seconds that a client has to answer a ping."""
_PING_INTERVAL = 10.0
"""Seconds between two pings of a client without calls; core's own 5 minutes cut clients that ping every minute."""
_FOR_EVER = 30 * 24 * 3600.0
_NO_COMPRESSION = 1
"""Compressed messages are refused, because their real length is not known before they are read."""
_CORE_LIMIT_FACTOR = 2
"""Core accepts messages up to this many times the limit, because its own refusals have no details and no log line."""
_MOST_CERTIFICATES = 4096
MOST_OTHER_CALLS = 1000
"""Concurrent calls to health and reflection, which need no credential and can stay open."""
_MOST_HEADS = 1024
_LONGEST_KEPT_HEAD = 4096
"""Bytes of the metadata of a call whose head is kept."""
_HEAD_KEPT_FOR = 1.0
_NO_METADATA = frozenset({"te", "content-type", "content-length", "host"})
"""Headers that describe the HTTP/2 message, not the request."""
_CONTROL = re.compile(r"[^\t\x20-\x7e\x80-\U0010ffff]")
"""Characters that would end a line where such a value becomes a header of HTTP/1.1; core lets them pass."""
FULL = 64 * 1024
"""Bytes that may wait for a client before writers wait, too."""

_STATUSES = {status.value[0]: status for status in grpc.StatusCode}
_SLOWEST_RATE = 16 * 1024
"""Lowest rate, in bytes per second, of a client that reads: grpc.aio reports only complete messages."""
_LEAVE_DELAY = 0.05
"""Seconds until grpc.aio reports that a client has left."""

Metadata = tuple[tuple[str, str | bytes], ...]

logger = logging.getLogger("gateway.listener")


def _is_without_metadata(record: logging.LogRecord) -> bool:
    """Drop log records about metadata that are not UTF-8: grpcio logs the value, which may be a credential."""
    return not record.getMessage().startswith("Invalid encoding")


logging.getLogger("grpc._cython.cygrpc").addFilter(_is_without_metadata)


_CALLED: ContextVar[str] = ContextVar("_CALLED", default="")
"""The path of the method that was called, in the task that grpcio starts for a call."""


class _NextCall(asyncio.Future[Any]):
    """The next call. grpcio asks for the result just before it starts a task for the call."""

    method = ""

    def result(self) -> Any:  # noqa: ANN401 - grpcio's own state of a call
        """Return the call, and set its method for the task of the call."""
        _CALLED.set(self.method)
        return super().result()


class _CoreServer(cygrpc.AioServer):  # type: ignore[misc]  # grpcio has no types
    """A grpc.aio server that survives a path that is not UTF-8, and accepts calls at a cost that methods do not raise.

    A private class of grpcio 1.85 is subclassed, because with its public API one call to a path that is not UTF-8 stops
    the listener (decision 0011). Every method is registered, so the accept loop never sees such a call. The loop would
    wait for one future per method; it gets one future for all. A grpcio that asks for none still works, at its own
    speed.

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
    """Finds the handler of a call by the method that `_NextCall` has set."""

    def __init__(self, handlers: Mapping[str, grpc.RpcMethodHandler]) -> None:
        self._handlers = handlers

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call."""
        return self._handlers.get(_CALLED.get())


_HeadKey = tuple[str, str, Metadata, Certificate | None]
"""The address of the client, the path of the method, the metadata and the client certificate."""


class _Heads:
    """A cache of the heads of recent calls: the next call with the same head reuses what was derived from it.

    A head holds a credential, so it is dropped one to two seconds after its last call.
    """

    def __init__(self) -> None:
        self._recent: dict[_HeadKey, Head] = {}
        self._older: dict[_HeadKey, Head] = {}
        self._timer: asyncio.TimerHandle | None = None

    def find(self, key: _HeadKey) -> Head | None:
        """Return the head of a key, or None."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.pop(key, None)
            if found is not None:
                self._recent[key] = found
        return found

    def keep(self, key: _HeadKey, head: Head) -> None:
        """Store a head, unless it is long."""
        if sum(len(value) for _, value in head.headers) > _LONGEST_KEPT_HEAD:
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
    """A server of grpc.aio with its clients' certificates and heads.

    Attributes:
        certificates: Client certificates by their PEM; each was verified by `tls`.
        void: Whether an authority of `tls` is no longer trusted.
    """

    server: Any
    tls: PemTls | None
    longest: int
    certificates: dict[bytes, Certificate] = field(default_factory=dict)
    void: bool = False
    heads: _Heads = field(default_factory=_Heads)

    def certificate(self, context: aio.ServicerContext) -> Certificate | None:
        """Return the certificate of the client of a call, or None."""
        if self.tls is None or self.tls.authorities is None:
            return None
        pem = context.auth_context().get("x509_pem_cert")
        if not pem:
            return None
        certificate = self.certificates.get(pem[0])
        if certificate is None:
            if len(self.certificates) >= _MOST_CERTIFICATES:
                self.certificates.clear()
            certificate = read_certificate(ssl.PEM_cert_to_DER_cert(pem[0].decode("ascii")))
            certificate.void = self.void
            self.certificates[pem[0]] = certificate
        return certificate

    def distrust(self) -> None:
        """Void every certificate that was verified here."""
        self.void = True
        for certificate in self.certificates.values():
            certificate.void = True


class GrpcListener:
    """The listener for gRPC clients.

    Args:
        reserved: A socket that holds the port (`server.reserve`); it is closed with the listener.
        limits: Limits as they are when the gateway starts.
        ready: Returns whether new calls are accepted.
    """

    def __init__(
        self,
        reserved: socket.socket,
        limits: GrpcLimits,
        pipeline: Pipeline,
        ready: Callable[[], bool],
        tls: PemTls | None,
    ) -> None:
        self._reserved = reserved
        self._limits = limits
        self._pipeline = pipeline
        self._health = GrpcHealth(ready, SERVICES)
        self._reflection = Reflection(limits.scope_field)
        self._other_calls = 0
        self._other_handlers: dict[str, Any] = {
            path: grpc.stream_stream_rpc_method_handler(partial(self._answer_other, answer))
            for path, answer in {**self._health.methods, **self._reflection.methods}.items()
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: dict[asyncio.Task[None], _Server] = {}
        self._closing = False
        self.address = address_of(reserved)
        self._current = self._bind(tls, limits.body)

    # ---- Servers ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Accept connections from now on."""
        await self._current.server.start()

    async def renew(self, tls: PemTls | None, longest: int) -> None:
        """Use another certificate, other authorities for clients, and another message limit.

        Open calls go on. Client certificates that were verified by a removed authority become void.

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
            logger.error("gRPC clients are served as before: %s", error)  # noqa: TRY400 - the text has the reason
            return
        await self._current.server.start()
        self._stop(before, _FOR_EVER)
        # It stops accepting with the first step of that.
        await asyncio.sleep(0)

    def update_health(self) -> None:
        """Send the health to its watchers, if it has changed."""
        self._health.changed()

    def stop_accepting(self) -> None:
        """Accept no more connections and calls, and send GOAWAY; open calls go on."""
        self._closing = True
        self._stop(self._current, _FOR_EVER)
        self._reserved.close()

    async def aclose(self, timeout: float = 1.0) -> None:  # noqa: ASYNC109 - the last step before the process ends
        """Close idle connections, and after `timeout` seconds all connections."""
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
        calls = {path: self._call_handler(bound, method) for path, method in BY_PATH.items()}
        handlers = {**self._other_handlers, **calls}
        for path, handler in handlers.items():
            service, _, name = path[1:].partition("/")
            server.add_registered_method_handlers(service, {name: handler})
        server.add_generic_rpc_handlers((_Handlers(handlers),))
        server._server.refuse = self._refuse_path  # noqa: SLF001 - as above
        try:
            if tls is None:
                server.add_insecure_port(self.address)
            else:
                # grpcio requires a certificate of every client, or of none.
                requires = tls.authorities is not None
                keys = [(tls.key, tls.chain)]
                credentials = grpc.ssl_server_credentials(keys, tls.authorities, require_client_auth=requires)
                server.add_secure_port(self.address, credentials)
        except RuntimeError as error:
            raise ListenFailed(f"cannot listen on {self.address}: {error}") from error
        return bound

    def _stop(self, server: _Server, grace: float) -> None:
        task = asyncio.get_running_loop().create_task(server.server.stop(grace))
        self._stopping[task] = server
        task.add_done_callback(self._stopping.pop)

    def _options(self, longest: int) -> list[tuple[str, int]]:
        limits = self._limits
        return [
            ("grpc.so_reuseport", 1),
            ("grpc.max_allowed_incoming_connections", limits.connections),
            ("grpc.server_handshake_timeout_ms", _milliseconds(limits.deadline)),
            ("grpc.max_connection_idle_ms", _milliseconds(limits.idle)),
            ("grpc.keepalive_time_ms", _milliseconds(limits.keepalive)),
            ("grpc.keepalive_timeout_ms", _milliseconds(_KEEPALIVE_TIMEOUT)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _milliseconds(_PING_INTERVAL)),
            ("grpc.max_concurrent_streams", limits.streams),
            ("grpc.max_metadata_size", limits.metadata),
            ("grpc.absolute_max_metadata_size", limits.metadata),
            ("grpc.max_receive_message_length", min(_CORE_LIMIT_FACTOR * longest, 2**31 - 1)),
            ("grpc.max_send_message_length", -1),
            ("grpc.compression_enabled_algorithms_bitset", _NO_COMPRESSION),
        ]

    # ---- Calls -----------------------------------------------------------------------------------------------------

    def _call_handler(self, server: _Server, method: GrpcMethod) -> grpc.RpcMethodHandler:
        # A plain function: grpcio inspects it twice in each call, which takes four times as long for a partial.
        async def call(_messages: object, context: aio.ServicerContext) -> bytes:
            return await self._call(server, method, context)

        if method.operation.streams:
            return grpc.stream_stream_rpc_method_handler(call)
        # One batch sends the message and the status.
        return grpc.stream_unary_rpc_method_handler(call)

    async def _call(self, server: _Server, method: GrpcMethod, context: aio.ServicerContext) -> bytes:
        kept = await self._head(server, method, context)
        remaining = context.time_remaining()
        # Always a new head, because a stream drops its content.
        head = replace(kept, timeout=None if remaining is None or remaining > _FOR_EVER else remaining)
        responder = GrpcResponder(context, self._limits.http, streams=method.operation.streams)
        task = asyncio.get_running_loop().create_task(self._serve(head, responder, kept))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await responder.send()

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
        most = self._limits.http.header_count
        if len(metadata) > most:
            words = f"there are more than {most} headers"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words, self._refused(context, 431, words))
        if any(isinstance(value, str) and _CONTROL.search(value) for _, value in metadata):
            words = "a header is malformed"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, words, self._refused(context, 400, words))

    async def _serve(self, head: Head, responder: "GrpcResponder", kept: Head) -> None:
        try:
            await self._pipeline.serve(head, responder)
        finally:
            if head.cache is not None:
                kept.remember(head.cache)
            responder.cut()

    async def _refuse_path(self, context: aio.ServicerContext) -> None:
        # The text of grpc's own servers, which some clients look for.
        with suppress(aio.BaseError):
            refused = self._refused(context, 404, "there is no such method")
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", refused)

    def _refused(self, context: aio.ServicerContext, status: int, words: str) -> Metadata:
        """Log a call that is refused before the pipeline; return the metadata of the refusal."""
        request_id = secrets.token_hex(8)
        self._pipeline.unreadable(_address(context.peer()), request_id, status, words)
        return (("x-request-id", request_id),)

    async def _answer_other(self, answer: Answer, _messages: object, context: aio.ServicerContext) -> None:
        # A check is short, and other clients must not be able to make health probes fail.
        counts = answer != self._health.check
        if counts and self._other_calls >= MOST_OTHER_CALLS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there are too many calls of this kind")
        self._other_calls += counts
        try:
            await answer(context)
        finally:
            self._other_calls -= counts


def _headers(metadata: Metadata) -> tuple[tuple[bytes, bytes], ...]:
    """Return metadata as HTTP/2 headers."""
    return tuple(
        (name.encode("ascii"), b64encode(value) if isinstance(value, bytes) else value.encode())
        for name, value in metadata
        if name not in _NO_METADATA
    )


def _address(peer: str) -> str:
    """Return the address in a peer such as `ipv4:127.0.0.1:4000` or `ipv6:%5B::1%5D:4000`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


def _milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)


# ---- The responder -------------------------------------------------------------------------------------------------


class GrpcResponder:
    """The client's side of one call (`gateway.proxy.responder.Responder`).

        WAITING   nothing was answered                          → OPENED or OVER
        OPENED    the initial metadata are written              → OVER
        OVER      the status is written, or the client is gone  later writes are dropped

    Args:
        context: The call, as grpc.aio has it.
        limits: Deadlines of a message and of an answer.
        streams: Whether the method answers with a stream.

    Attributes:
        opened: Whether the initial metadata, or the status alone, were written.
        extra: Headers that the answer has beside its own.
    """

    __slots__ = (
        "_context", "_drained", "_ended", "_gone", "_limits", "_lost", "_opening", "_out", "_size", "_status",
        "_streams", "_trailing", "_written", "extra", "opened",
    )  # fmt: skip

    def __init__(self, context: aio.ServicerContext, limits: HttpLimits, *, streams: bool) -> None:
        self._context = context
        self._limits = limits
        self._streams = streams
        self._opening: Metadata | None = None
        self._trailing: Metadata = ()
        self._out: deque[bytes] = deque()
        self._size = 0
        self._status: Pairs | None = None
        self._written: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._gone: Callable[[], None] | None = None
        self._lost = False
        self.opened = False
        self.extra: Pairs = []

    # ---- Called by the pipeline ------------------------------------------------------------------------------------

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete, or has left."""
        if self._lost:
            callback()
        else:
            self._gone = callback

    async def read(self, limit: int) -> bytes:
        """Return the message of the request.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes.
            BadRequest: there is no message.
            BodyTooSlow: it did not come in time.
            ClientGone: the client left before its end.
        """
        limits = self._limits
        patience = limits.body_idle + limit / limits.body_rate if limits.body_rate else None
        try:
            async with asyncio.timeout(patience):
                message = await self._context.read()
        except TimeoutError:
            raise BodyTooSlow("the message came too slowly") from None
        except aio.BaseError:
            raise ClientGone("the connection is closed") from None
        if message is aio.EOF:
            # A cancelled call reads like the end of the request; this task is cancelled soon after.
            await asyncio.sleep(_LEAVE_DELAY)
            if self._lost:
                raise ClientGone("the client left")
            raise BadRequest("the call has no message")
        if len(message) > limit:
            raise BodyTooLarge(f"the message exceeds {limit} bytes")
        return bytes(message)

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:  # noqa: ARG002 - gRPC has its own status
        """Write a whole answer: framed messages with status OK, or the status in `headers` alone."""
        if self._over:
            return
        front, ending = _split_status([*headers, *self.extra])
        if body or not ending:
            self._opening = front
            self._put(body)
        else:
            self._trailing = front
        await self._end(ending)

    def open(self, status: int, headers: Pairs) -> None:  # noqa: ARG002 - as `answer`
        """Write the initial metadata of an answer whose messages follow by `write`."""
        if not self._over:
            self._opening = _split_status([*headers, *self.extra])[0]
            self.opened = True
            self._wake()

    async def write(self, data: bytes) -> None:
        """Write framed messages once most of the waiting bytes were sent."""
        await self.drained()
        self.write_nowait(data)

    def write_nowait(self, data: bytes) -> bool:
        """Write framed messages; return False if the next ones should wait for `drained`."""
        if not self._over and data:
            self._put(data)
            self._wake()
        return self._size <= FULL

    async def drained(self) -> None:
        """Wait until most of the written bytes were sent, or the client has left."""
        while self._size > FULL and not self._lost:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            # Several tasks may wait, and one of them may be cancelled.
            await asyncio.shield(self._drained)

    async def close(self, trailers: Pairs | None = None) -> None:
        """End the answer with the status in `trailers`; without one, with OK."""
        if not self._over:
            await self._end(trailers or [])

    def cut(self) -> None:
        """End an answer that is incomplete, after the written messages."""
        self._gone = None
        if self._over:
            return
        self._status = _unavailable("the answer broke off")
        if not self.opened:
            self._trailing = _split_status(self.extra)[0]
        self.opened = True
        self._wake()

    @property
    def _over(self) -> bool:
        return self._status is not None or self._lost

    def _put(self, data: bytes) -> None:
        for message in unframe(data):
            self._out.append(message)
            self._size += len(message)

    async def _end(self, status: Pairs) -> None:
        self._status = status
        self.opened = True
        self._wake()
        try:
            if self._size > FULL:
                # Bytes that the client does not read count for the caller's limits as long as they are held.
                self._ended = asyncio.get_running_loop().create_future()
                self._context.add_done_callback(lambda _: self._release())
                await self._ended
        finally:
            self._gone = None

    # ---- Called by the task of grpc.aio ----------------------------------------------------------------------------

    async def send(self) -> bytes:
        """Send written messages until the end; return the last message of a unary answer."""
        try:
            while self._status is None:
                await self._send_written()
                if self._status is None:
                    self._written = asyncio.get_running_loop().create_future()
                    await self._written
            await self._send_written()
            return await self._send_status(self._status)
        except aio.AbortError:
            # The status was sent.
            raise
        except aio.BaseError:
            # The client left during a write, or the server was stopped; grpc.aio would log it.
            self.lost()
            raise asyncio.CancelledError from None
        except BaseException:
            self.lost()
            raise

    def lost(self) -> None:
        """Drop the answer, and tell the pipeline that the client is gone."""
        self._lost = True
        self._out.clear()
        self._size = 0
        self._release()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def _release(self) -> None:
        """Wake the tasks that wait for the client."""
        for waiter in (self._drained, self._ended):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        self._drained = None

    async def _send_written(self) -> None:
        if not self._streams:
            return
        if self._opening is not None:
            opening, self._opening = self._opening, None
            if opening:
                await self._context.send_initial_metadata(opening)
        while self._out:
            message = self._out.popleft()
            try:
                async with asyncio.timeout(self._limits.write_stall + len(message) / _SLOWEST_RATE):
                    await self._context.write(message)
            except TimeoutError:
                # grpc.aio cannot reset a call: the client finds this status behind the unread messages.
                self.lost()
                await self._send_status(_unavailable("the client reads too slowly"))
            self._size -= len(message)
            if self._drained is not None and self._size <= FULL:
                self._drained.set_result(None)
                self._drained = None

    async def _send_status(self, status: Pairs) -> bytes:
        """Send a status other than OK; OK and the last message are sent by grpc.aio when this returns."""
        # A unary answer has its metadata behind the message: in front they would be a write of their own.
        trailing = (*(self._opening or ()), *self._trailing)
        if status:
            found = dict(status)
            code = int(found.pop(b"grpc-status", b"0"))
            words = unquote(found.pop(b"grpc-message", b"").decode("ascii"))
            trailing += tuple([_metadatum(name, value.decode("ascii")) for name, value in found.items()])
            if code:
                await self._context.abort(_STATUSES[code], words, trailing)
        if trailing:
            self._context.set_trailing_metadata(trailing)
        return self._out.popleft() if self._out else b""

    def _wake(self) -> None:
        if self._written is not None and not self._written.done():
            self._written.set_result(None)


def _unavailable(words: str) -> Pairs:
    return status_trailers(Status(CODES["UNAVAILABLE"], words))


def _split_status(headers: Pairs) -> tuple[Metadata, Pairs]:
    """Return headers as metadata, without those of the status, and the headers of the status.

    Raises:
        ValueError: A header cannot be metadata of gRPC; nothing was written.
    """
    front: list[tuple[str, str | bytes]] = []
    status: Pairs = []
    for name, value in headers:
        text = value.decode("latin-1")
        if not text.isascii() or not text.isprintable():
            raise ValueError(f"{name.decode('latin-1')} cannot be metadata of gRPC")
        if name.startswith(b"grpc-"):
            status.append((name, value))
        elif name != b"content-type":
            front.append(_metadatum(name, text))
    return tuple(front), status


def _metadatum(name: bytes, value: str) -> tuple[str, str | bytes]:
    if name.endswith(b"-bin"):
        return name.decode("ascii"), b64decode(value + "=" * (-len(value) % 4))
    return name.decode("ascii"), value
