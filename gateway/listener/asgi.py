"""The adapters between ASGI and the listeners.

`AsgiListener` feeds the pipeline from an ASGI server: a scope becomes a `Head`, `send` becomes a responder. The strict
server of `serve` (`http1.py`) reads HTTP/1.1 itself, with its own limits and deadlines. Behind an ASGI server, framing,
pipelining, slow headers and the number of connections are for that server to limit. From the head on, the code is the
same.

`HostedApplication` is the other direction: it serves an ASGI application, the admin pages, behind the strict server.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooSlow, ClientGone, Fault
from gateway.a2a.headers import Pairs
from gateway.listener.body_rules import BODILESS, MOMENT, SHORT, check_length
from gateway.listener.http_limits import HttpLimits
from gateway.listener.request_parser import Unreadable, host_name
from gateway.proxy.responder import Responder

Serve: TypeAlias = Callable[[Head, Responder], Coroutine[Any, Any, None]]

_HEALTH = b"/-/"
_EVENTS = b"text/event-stream"
_SLICE = 64 * 1024
"""Bytes of an answer that are sent at once: a server waits for a slow client between two messages, not within one."""


class AsgiListener:
    """Serves requests that an ASGI server has read.

    Args:
        serve: Answers one request.
        limits: Bounds of a head, and deadlines of a body and of an answer; those of connections are the server's.
        refused: Called for each unreadable request with peer, request id, status and text.
        prefix: Path of the public URL, without a slash at its end; empty for none.
    """

    def __init__(
        self,
        serve: Serve,
        limits: HttpLimits,
        *,
        refused: Callable[[str, str, int, str], None] = lambda *_: None,
        prefix: str = "",
    ) -> None:
        self._serve = serve
        self._limits = limits
        self._refused = refused
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; `scope` is of the type `http` (ASGI, HTTP & WebSocket specification 2.3 or newer)."""
        try:
            head, length = read_head(scope, self._limits, self._prefix)
        except Unreadable as unreadable:
            await self._refuse(scope, send, unreadable)
            return
        responder = AsgiResponder(receive, send, head, length, self._limits)
        try:
            await self._serve(head, responder)
        finally:
            await responder.finish()

    async def _refuse(self, scope: Scope, send: Send, why: Unreadable) -> None:
        request_id = secrets.token_hex(8)
        self._refused(_peer(scope), request_id, why.status, why.words)
        body = f"{why.words} (request {request_id})\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode("ascii")),
        ]
        await send({"type": "http.response.start", "status": why.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def read_head(scope: Scope, limits: HttpLimits, prefix: str = "") -> tuple[Head, int | None]:
    """Return the head of a request, and the length of its body as the client states it, or None.

    A mount (`root_path`) is removed from the path, unless the public URL contains it.

    Args:
        prefix: The path of the public URL.

    Raises:
        Unreadable: it is too long, or names no host.
    """
    path: bytes = (scope.get("raw_path") or quote(scope["path"]).encode("ascii")).partition(b"?")[0]
    query: bytes = scope.get("query_string", b"")
    if len(path) + len(query) + 1 > limits.target:
        raise Unreadable(414, f"the request target exceeds {limits.target} bytes")
    given = [(name.lower(), value) for name, value in scope["headers"]]
    if len(given) > limits.header_count:
        raise Unreadable(431, f"there are more than {limits.header_count} headers")
    if sum(len(name) + len(value) + 4 for name, value in given) > limits.headers:
        raise Unreadable(431, f"the headers exceed {limits.headers} bytes")
    hosts = [value for name, value in given if name == b"host"]
    if len(hosts) > 1:
        raise Unreadable(400, "the Host header stands twice")
    http_version = scope.get("http_version", "1.1")
    # HTTP/1.0 knew no such header.
    host = host_name(hosts[0]) if hosts else "" if http_version == "1.0" else None
    if host is None:
        raise Unreadable(400, "the Host header is no host" if hosts else "the Host header is missing")
    lengths = [value for name, value in given if name == b"content-length" and value.isdigit()]
    # No later step needs the length of the body.
    headers = tuple([pair for pair in given if pair[0] != b"content-length"])
    head = Head(
        scope["method"], _below(path, scope.get("root_path", ""), prefix), query, host, headers, _peer(scope),
        scope.get("scheme", "http"), http_version=http_version,
    )  # fmt: skip
    return head, int(lengths[0]) if lengths and len(lengths[0]) <= 15 else None


def _below(path: bytes, root: str, prefix: str) -> bytes:
    mount = quote(root).encode("ascii")
    if not mount or not (path + b"/").startswith(mount + b"/"):
        return path
    below = path[len(mount) :] or b"/"
    # With the strict server, health has no prefix either.
    is_named = prefix == root or prefix.startswith(root + "/")
    return path if is_named and not below.startswith(_HEALTH) else below


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


class AsgiResponder:
    """The client's side of one request, over `receive` and `send` (`gateway.proxy.responder.Responder`).

    Its two tasks end with the request (`finish`): one waits for the client to leave, one sends what was written.

    Attributes:
        opened: Whether the head of an answer has gone out.
        extra: Headers that the answer has beside its own.
    """

    def __init__(self, receive: Receive, send: Send, head: Head, length: int | None, limits: HttpLimits) -> None:
        self._receive = receive
        self._send = send
        self._bodiless = head.method == "HEAD"
        self._length = length
        self._is_http1 = head.http_version.startswith("1")
        self._is_empty = head.method in ("GET", "HEAD") and not length and b"transfer-encoding" not in head.values
        # Whether the client holds the body back until it is asked for, which `receive` does (RFC 9110 §10.1.1).
        self._expects = b"expect" in head.values and not self._is_empty
        self._limits = limits
        self._gone: Callable[[], None] | None = None
        self._lost = False
        self._complete = False
        self._watcher: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._start: Message | None = None
        self._drained: asyncio.Future[None] | None = None
        self.opened = False
        self.extra: Pairs = []

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete, or has left.

        A client that sends a body is watched once that was read: there is one queue for both.
        """
        if self._lost:
            callback()
            return
        self._gone = callback
        if self._is_empty and self._watcher is None:
            self._watch()

    async def read(self, limit: int) -> bytes:
        """Return the whole request body; from then on, a client that leaves is noticed.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes.
            BodyTooSlow: no byte of it came for `body_idle`.
            ClientGone: the client left before its end.
        """
        if self._watcher is not None:
            return b""
        check_length(self._length or 0, limit)
        self._expects = False
        body: bytes | bytearray = b""
        more = True
        while more:
            try:
                async with asyncio.timeout(self._limits.body_idle):
                    message = await self._receive()
            except TimeoutError:
                raise BodyTooSlow("the body came too slowly") from None
            if message["type"] == "http.disconnect":
                self._lost = True
                raise ClientGone("the client left")
            more = message.get("more_body", False)
            part = message.get("body", b"")
            check_length(len(body) + len(part), limit)
            if not body:
                body = part
                continue
            # Adding to `bytes` copies all of them for each part, and a client may send many small ones.
            if isinstance(body, bytes):
                body = bytearray(body)
            body += part
        self._watch()
        return bytes(body)

    def _watch(self) -> None:
        self._watcher = asyncio.create_task(self._wait_for_end())  # noqa: TID251 - ends with the request

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        if self._lost or self._complete:
            return
        self._lost = True
        self._wake()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer."""
        if self._expects:
            if self._is_http1:
                # Its next bytes may be the body or another request.
                headers = [*headers, (b"connection", b"close")]
        elif self._watcher is None and self._length is not None and 0 < self._length <= SHORT:
            # Some servers cut the answer to a request that was not read. A short body is read, as it is on its way.
            with suppress(Fault, TimeoutError):
                async with asyncio.timeout(MOMENT):
                    await self.read(SHORT)
        length = None if status in BODILESS else len(body)
        self.opened = True
        await self._send_message(_start(status, [*headers, *self.extra], length))
        if self._bodiless or status in BODILESS:
            body = b""
        if len(body) > _SLICE:
            await self._send_slices(body)
            body = b""
        await self._send_message({"type": "http.response.body", "body": body})
        self._complete = True

    def open(self, status: int, headers: Pairs) -> None:
        """Begin an answer that follows piece by piece."""
        self.opened = True
        self._start = _start(status, [*headers, *self.extra], None)
        self._begin()

    async def write(self, data: bytes) -> None:
        """Send one piece; waits while more than `write_buffer` waits for the client."""
        if not self.write_nowait(data):
            await self.drained()

    def write_nowait(self, data: bytes) -> bool:
        """Send one piece, whether the client reads or not; False where no more should be written until `drained`."""
        if data and not self._bodiless and not self._lost:
            self._parts.append(data)
            self._size += len(data)
            self._begin()
        return self._size < self._limits.write_buffer

    async def drained(self) -> None:
        """Wait until the client has read what was written."""
        while self._size >= self._limits.write_buffer and not self._lost:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    async def close(self, trailers: Pairs | None = None) -> None:  # noqa: ARG002 - only gRPC has any
        """End the answer."""
        if self._sender is not None:
            await self._sender
        if not self._lost:
            await self._send_message({"type": "http.response.body", "body": b""})
            self._complete = True

    def cut(self) -> None:
        """End the answer after the written bytes, without a clean end: servers close an incomplete answer."""
        self._complete = True

    async def finish(self) -> None:
        """Release all resources, once the request is no longer served."""
        self._gone = None
        if self._sender is not None and not self._lost:
            await self._sender
        for task in (self._watcher, self._sender):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _begin(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_parts())  # noqa: TID251 - ends with the request

    async def _send_parts(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send_message(start)
        while self._parts and not self._lost:
            data, self._parts = b"".join(self._parts), []
            await self._send_slices(data)
            self._size -= len(data)
            self._wake()

    async def _send_slices(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE):
            if self._lost:
                return
            part = data[start : start + _SLICE]
            await self._send_message({"type": "http.response.body", "body": part, "more_body": True})

    async def _send_message(self, message: Message) -> None:
        """Send a message to the server; a client that reads nothing for `write_stall` counts as gone."""
        try:
            async with asyncio.timeout(self._limits.write_stall):
                await self._send(message)
        except (OSError, TimeoutError):
            self._leave()

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


def _start(status: int, headers: Sequence[tuple[bytes, bytes]], length: int | None) -> Message:
    """Return the message that begins an answer.

    Raises:
        ValueError: a header holds a line end.
    """
    if any(byte in value for _, value in headers for byte in (b"\r", b"\n", b"\0")):
        raise ValueError("a header of the answer holds a line end")
    framing = [] if length is None else [(b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": status, "headers": [*headers, *framing]}


# ---- An application behind our own server --------------------------------------------------------------------------


class HostedApplication:
    """Serves an ASGI application with short requests and answers; server-sent events may be long.

    The body is read when the application asks for it. `receive` raises the fault of a body that cannot be read
    (`BodyTooLarge`, `BodyTooSlow`, `ClientGone`).

    Args:
        longest: Bytes of the longest request body.
    """

    def __init__(self, app: ASGIApp, longest: int) -> None:
        self._app = app
        self._longest = longest

    async def __call__(self, head: Head, client: Responder) -> None:
        """Serve one request."""
        call = _HostedCall(client, self._longest)
        try:
            await self._app(_scope(head), call.receive, call.send)
        finally:
            # Starlette has sent status 500 before it raises.
            await call.finish()


class _HostedCall:
    """One request of a hosted application; its answer goes out when it is complete, or event by event."""

    def __init__(self, client: Responder, longest: int) -> None:
        self._client = client
        self._longest = longest
        self._was_read = False
        self._gone = asyncio.Event()
        client.when_gone(self._gone.set)
        self._status = 500
        self._headers: Pairs = []
        self._parts: list[bytes] = []
        self._is_complete = False
        self._streams = False

    async def receive(self) -> Message:
        if self._was_read:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._was_read = True
        return {"type": "http.request", "body": await self._client.read(self._longest), "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            # The responder writes the length of the body, also for HEAD.
            self._headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"content-length"]
            self._streams = any(name == b"content-type" and value.startswith(_EVENTS) for name, value in self._headers)
            if self._streams:
                self._client.open(self._status, self._headers)
            return
        if self._streams:
            await self._client.write(message.get("body", b""))
        else:
            self._parts.append(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)

    async def finish(self) -> None:
        """Send the answer, or end the stream: cleanly only if the application has ended it."""
        if self._is_complete and self._streams:
            await self._client.close()
        elif self._is_complete:
            await self._client.answer(self._status, self._headers, b"".join(self._parts))
        elif self._streams:
            self._client.cut()


def _scope(head: Head) -> Message:
    path = head.path.decode("ascii")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": head.method,
        "scheme": head.scheme,
        "path": unquote(path) if "%" in path else path,
        "raw_path": head.path,
        "root_path": "",
        "query_string": head.query,
        "headers": list(head.headers),
        "client": (head.peer, 0),
        "server": None,
        "state": {"certificate": head.certificate},
    }
