"""Agents over HTTP with a mind, or the official SDK, and what they heard."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from tests.e2e.agents.server import Server
from tests.isolation import old_words
from tests.isolation.heard import Heard, over_http
from tests.isolation.mind import Complaint, Mind
from tests.support.ancient_agent import ancient_agent

Tree = dict[str, Any]
_MARK = re.compile(b"gw-[a-z0-9]{20}")
_TURNS = 8
"""Of the loop, on which the gateway is as well: until it has read what was sent."""
_TO_CAMEL = re.compile("_([a-z])")
_STREAMED = ("SendStreamingMessage", "SubscribeToTask")


class Agent(Protocol):
    """An agent that clients call.

    Attributes:
        url: Where the gateway finds it.
        settings: Further settings of its backend.
        makers: In which call each of its ids was made, as far as that is known; None where it was in none.
    """

    url: str
    settings: Tree
    makers: dict[str, Heard | None]

    def take(self) -> list[Heard]:
        """Return the calls heard since the last time."""

    def forget(self) -> None:
        """Begin anew."""

    def mix_up(self, task: str, kind: str) -> bool:
        """Make it speak of another's task in its next answer (`Mind.mixed_up`); whether it can."""


class Minded:
    """Common part of agents with a mind, in every dialect."""

    def __init__(self, mind: Mind, url: str, **settings: Any) -> None:
        self.makers = mind.makers
        self.url = url
        self.settings: Tree = settings
        self._mind = mind
        self._heard: list[Heard] = []

    def take(self) -> list[Heard]:
        heard, self._heard = self._heard, []
        return heard

    def forget(self) -> None:
        self._mind.forget()
        self._heard.clear()

    def mix_up(self, task: str, kind: str) -> bool:
        self._mind.mixed_up = (task, kind) if task else None
        return True


class HttpAgent(Minded):
    """An agent with a mind, as an ASGI application.

    Args:
        dialects: Such as `JSONRPC 1.0`; several of one generation.
    """

    def __init__(self, mind: Mind, url: str, *dialects: str) -> None:
        super().__init__(mind, url)
        self._dialects = dialects
        self._is_old = dialects[0].endswith("0.3")

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        path = scope["raw_path"].decode("ascii")
        if "/.well-known/" in path:
            await _whole(send, 200, self._card())
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if "x-request-id" not in headers:
            # No gateway asks so: somebody on this machine who knew another server at this port.
            await _whole(send, 404, {})
            return
        query = scope["query_string"].decode()
        target = f"{path}?{query}" if query else path
        heard = over_http(self._mind.name, scope["method"], target, headers, body)
        self._heard.append(heard)
        if path == "/":
            await self._called(send, json.loads(body), heard)
        else:
            await self._visited(send, scope["method"], path, dict(parse_qsl(query)), body)

    # ---- JSON-RPC --------------------------------------------------------------------------------------------------

    async def _called(self, send: Any, call: Tree, heard: Heard) -> None:
        outer = {"jsonrpc": "2.0", "id": call["id"]}
        operation = old_words.METHODS.get(call["method"], "") if self._is_old else call["method"]
        try:
            params = camel(call["params"])
            params = old_words.newer(operation, params) if self._is_old else params
            if operation in _STREAMED:
                told = self._mind.events(operation, params, heard)
                await _stream(send, [{**outer, **self._event(each)} for each in told])
                return
            result = self._mind.answer(operation, params, heard)
            answer = {"result": old_words.older(operation, result) if self._is_old else result}
        except Complaint as complaint:
            answer = {"error": {"code": complaint.code, "message": str(complaint)}}
        await _whole(send, 200, {**outer, **answer})

    def _event(self, told: Tree | Complaint) -> Tree:
        if isinstance(told, Complaint):
            return {"error": {"code": told.code, "message": str(told)}}
        return {"result": old_words.event(told) if self._is_old else told}

    # ---- HTTP+JSON, of 1.0 -----------------------------------------------------------------------------------------

    async def _visited(self, send: Any, method: str, path: str, query: Tree, body: bytes) -> None:
        heard, given = self._heard[-1], camel(json.loads(body)) if body else {}
        operation, params = _operation(method, unquote(path).strip("/"), query, given)
        try:
            if operation in _STREAMED:
                told = self._mind.events(operation, params, heard)
                await _stream(send, [_problem(each)[1] if isinstance(each, Complaint) else each for each in told])
                return
            status, answer = 200, self._mind.answer(operation, params, heard)
        except Complaint as complaint:
            status, answer = _problem(complaint)
        await _whole(send, status, answer)

    def _card(self) -> Tree:
        card: Tree = {
            "name": self._mind.name,
            "description": "Hands every task to whoever names it.",
            "version": "1.0.0",
            "capabilities": {"streaming": True, "pushNotifications": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
        }
        if self._is_old:
            return {**card, "protocolVersion": "0.3.0", "url": self.url, "preferredTransport": "JSONRPC"}
        spoken = [dialect.split(" ") for dialect in self._dialects]
        interfaces = [
            {"url": self.url, "protocolBinding": binding, "protocolVersion": version} for binding, version in spoken
        ]
        return {**card, "supportedInterfaces": interfaces}


def camel(value: Any) -> Any:
    """A tree of ProtoJSON in its one spelling: whoever reads it takes either."""
    if isinstance(value, dict):
        return {_TO_CAMEL.sub(lambda found: found[1].upper(), name): camel(inside) for name, inside in value.items()}
    return list(map(camel, value)) if isinstance(value, list) else value


def _operation(method: str, path: str, query: Tree, given: Tree) -> tuple[str, Tree]:
    """Return the operation of an HTTP+JSON request, by its 1.0 name, and its parameters."""
    if path in ("message:send", "message:stream"):
        return "SendMessage" if path == "message:send" else "SendStreamingMessage", given
    if path == "tasks":
        return "ListTasks", query
    _, task, *below = path.split("/")
    if below:
        named = {"taskId": task, **({"id": below[1]} if below[1:] else {})}
        if method == "POST":
            return "CreateTaskPushNotificationConfig", {**given, **named}
        listed = "Get" if method == "GET" else "Delete"
        return f"{listed}TaskPushNotificationConfig" if below[1:] else "ListTaskPushNotificationConfigs", named
    for verb, operation in ((":cancel", "CancelTask"), (":subscribe", "SubscribeToTask")):
        if task.endswith(verb):
            return operation, {"id": task.removesuffix(verb)}
    return "GetTask", {"id": task}


def _problem(complaint: Complaint) -> tuple[int, Tree]:
    status, words = {-32001: (404, "NOT_FOUND"), -32602: (400, "INVALID_ARGUMENT")}.get(
        complaint.code, (400, "FAILED_PRECONDITION")
    )
    return status, {"error": {"code": status, "status": words, "message": str(complaint), "details": []}}


async def _whole(send: Any, status: int, answer: Tree) -> None:
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    # Text that the gateway has to remove is cut in two, at the border of pieces.
    cuts = [found.start() + 7 for found in _MARK.finditer(body)]
    for start, end in pairwise((0, *cuts, len(body))):
        await send({"type": "http.response.body", "body": body[start:end], "more_body": end < len(body)})
        for _ in range(_TURNS if cuts else 0):
            await asyncio.sleep(0)


async def _stream(send: Any, events: list[Tree]) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in events:
        body = b"data: " + json.dumps(event).encode() + b"\n\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def http_agent(name: str, *dialects: str, seeded: int = 0) -> AsyncIterator[Agent]:
    """An agent with a mind, on a port of its own."""
    server = Server()
    agent = HttpAgent(Mind(name, seeded), f"http://127.0.0.1:{server.port}/", *dialects)
    async with server.serving(agent):
        yield agent


# ---- 0.1 -------------------------------------------------------------------------------------------------------------


class Ancient:
    """An agent of 0.1, which takes nothing that is not 0.1 by the letter."""

    def __init__(self, name: str, double: Any) -> None:
        self.makers: dict[str, Heard | None] = {}
        self.url: str = double.url
        self.settings: Tree = {"protocol": "jsonrpc", "a2a_version": "0.1"}
        self._name = name
        self._double = double

    def take(self) -> list[Heard]:
        heard = [
            over_http(self._name, "POST", "/", headers, json.dumps(frame).encode(), kept=True)
            for frame, headers in zip(self._double.received, self._double.headers, strict=True)
        ]
        self._double.received.clear()
        self._double.headers.clear()
        return heard

    def forget(self) -> None:
        for kept in (self._double.received, self._double.headers, self._double.tasks, self._double.push):
            kept.clear()

    def mix_up(self, task: str, kind: str) -> bool:
        return False


@asynccontextmanager
async def ancient(name: str) -> AsyncIterator[Agent]:
    """An agent of 0.1, on a port of its own."""
    async with ancient_agent() as double:
        yield Ancient(name, double)
