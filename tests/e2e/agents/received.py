"""The requests that an agent received, as they came, for tests to inspect."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

Scope: TypeAlias = Any
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Received:
    """One request at an agent.

    Attributes:
        path: As it came, percent escapes and all.
        headers: Names in lower case; of a repeated one the last value, see `names` for all.
        names: Names of all headers, in order.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    names: tuple[str, ...]
    body: bytes

    @property
    def tree(self) -> Any:
        """The body as JSON, or None where there is none."""
        return msgspec.json.decode(self.body) if self.body else None

    @property
    def tenant(self) -> str | None:
        """The A2A `tenant` in the body: of a JSON-RPC call's params, or of an HTTP+JSON body."""
        tree = self.tree or {}
        found = tree["params"] if "jsonrpc" in tree else tree
        value = found.get("tenant")
        return None if value is None else str(value)


class Recorder:
    """An ASGI application that remembers every request and hands it on to another."""

    def __init__(self, app: App, remembered: list[Received]) -> None:
        self._app = app
        self._remembered = remembered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        self._remembered.append(
            Received(
                method=scope["method"],
                path=scope["raw_path"].decode("ascii"),
                query=scope["query_string"].decode("ascii"),
                headers=dict(pairs),
                names=tuple(name for name, _ in pairs),
                body=body,
            )
        )
        given = False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)
