"""The listener for clients: a raw ASGI application that turns a request into a `Head` and a `Wire`."""

import asyncio
import re
import secrets
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeAlias

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge, ClientGone
from gateway.a2a.headers import Pairs
from gateway.listener.protocol import CONNECTION, GONE
from gateway.proxy import Line

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Any]
Send: TypeAlias = Callable[[dict[str, Any]], Any]

_DRAINED = 1024 * 1024
_DRAIN_TIME = 2.0


class AsgiWire:
    """A client's side of an exchange, on ASGI."""

    __slots__ = ("_headers", "_method", "_read", "_receive", "_scope", "_send", "opened")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._method: str = scope["method"]
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._read = not self._has_body()
        self.opened = False

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete."""
        self._scope["state"][GONE] = callback

    async def read(self, limit: int) -> bytes:
        """The whole request body.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes; no more than that was read.
            ClientGone: the client left before its end.
        """
        if self._read:
            return b""
        length = self._headers.get(b"content-length")
        if length is not None and int(length) > limit:
            raise BodyTooLarge(f"the body exceeds {limit} bytes")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client left")
            part = message["body"]
            # Before the limit: nothing more will come to be drained.
            self._read = not message["more_body"]
            size += len(part)
            if size > limit:
                raise BodyTooLarge(f"the body exceeds {limit} bytes")
            parts.append(part)
            if self._read:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """A whole answer; the connection ends with it if the request was not read."""
        if not self._read:
            headers.append((b"connection", b"close"))
        if status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body)))
        await self.open(status, headers)
        await self.write(b"" if self._method == "HEAD" else body)
        if not self._read:
            await self._drain()
        await self.close()

    async def open(self, status: int, headers: Pairs) -> None:
        """The head of an answer that follows piece by piece."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        # Only now: who is cancelled while an earlier answer is still on its way has not begun this one.
        self.opened = True

    async def write(self, data: bytes) -> None:
        """One piece; waits while the client's side of the connection is full."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def close(self) -> None:
        """The clean end."""
        await self._send({"type": "http.response.body", "body": b""})

    def cut(self) -> None:
        """The end of the connection, without the clean end of the answer."""
        self._scope["state"][CONNECTION].cut()

    def _has_body(self) -> bool:
        return b"transfer-encoding" in self._headers or self._headers.get(b"content-length", b"0") != b"0"

    async def _drain(self) -> None:
        """Read a little of what the client is still sending, or closing would cost it the answer it has not read."""
        if b"expect" in self._headers:
            return
        size = 0
        try:
            async with asyncio.timeout(_DRAIN_TIME):
                while size <= _DRAINED:
                    message = await self._receive()
                    if message["type"] == "http.disconnect" or not message["more_body"]:
                        return
                    size += len(message["body"])
        except TimeoutError:
            return


class PublicListener:
    """What clients talk to.

    Args:
        ready: Whether the gateway takes new requests; `/-/ready` says so.
    """

    def __init__(self, line: Line, ready: Callable[[], bool]) -> None:
        self._line = line
        self._ready = ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        wire = AsgiWire(scope, receive, send)
        path: bytes = scope["raw_path"]
        if path in (b"/-/live", b"/-/ready"):
            good = path == b"/-/live" or self._ready()
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
            body = b"ok\n" if good else b"draining\n"
            request_id = secrets.token_hex(8).encode("ascii")
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-request-id", request_id)]
            await wire.answer(status, headers, body)
            return
        await self._line.serve(head_of(scope), wire)


def head_of(scope: Scope) -> Head:
    """The head of an ASGI request."""
    headers = tuple(scope["headers"])
    hosts = [value for name, value in headers if name == b"host"]
    client = scope.get("client")
    return Head(
        method=scope["method"],
        path=scope["raw_path"],
        query=scope["query_string"],
        # Two Hosts are none: two servers would believe one each (safety H5).
        host=host_name(b", ".join(hosts)),
        headers=headers,
        peer="" if client is None else client[0],
        scheme=scope["scheme"],
    )


def host_name(value: bytes) -> str:
    """The name in a Host header: lower case, without port and without the dot of the root at the end.

    What is no name with or without a port is given back as it is, and is no host to anybody.
    """
    host = value.decode("latin-1").lower()
    found = _AUTHORITY.fullmatch(host)
    return host if found is None else found[1].removesuffix(".")


# RFC 9112 §3.2: a name or an address, and a port of digits or none.
_AUTHORITY = re.compile(r"([a-z0-9._-]*|\[[0-9a-f:.]+\])(?::[0-9]{0,5})?")
