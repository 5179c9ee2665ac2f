"""An ASGI application behind a connection of ours: how the operators' pages, which are Starlette's, are served."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from gateway.a2a.call import Head
from gateway.a2a.headers import Pairs
from gateway.proxy.responder import Responder

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Any]


class PagesListener:
    """Serves an application whose requests and answers are short.

    The body is read when the application asks for it; where that goes wrong, asking raises the fault (`BodyTooLarge`,
    `BodyTooSlow`, `ClientGone`).

    Args:
        longest: Bytes of the longest request body.
    """

    def __init__(self, app: Application, longest: int) -> None:
        self._app = app
        self._longest = longest

    async def __call__(self, head: Head, wire: Responder) -> None:
        """Serve one request."""
        exchange = _Exchange(wire, self._longest)
        try:
            await self._app(_scope(head), exchange.receive, exchange.send)
        finally:
            # Starlette has said 500 before it raises.
            if exchange.complete:
                await wire.answer(exchange.status, exchange.headers, b"".join(exchange.parts))


class _Exchange:
    """The application's side of a request, and of an answer that goes out when it is whole."""

    def __init__(self, wire: Responder, longest: int) -> None:
        self._wire = wire
        self._longest = longest
        self._was_read = False
        self._gone = asyncio.Event()
        wire.when_gone(self._gone.set)
        self.status = 500
        self.headers: Pairs = []
        self.parts: list[bytes] = []
        self.complete = False

    async def receive(self) -> Message:
        if self._was_read:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._was_read = True
        return {"type": "http.request", "body": await self._wire.read(self._longest), "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            # The length is ours to say: that of the body as it is, also where it is not sent.
            self.headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"content-length"]
            return
        self.parts.append(message.get("body", b""))
        self.complete = not message.get("more_body", False)


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
        "state": {},
    }
