"""The bindings of the demo agents: JSON-RPC (1.0 and 0.3), HTTP+JSON (1.0), and the agent card."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gateway.a2a.framing.sse import encode
from gateway.demo import legacy
from gateway.demo.agent import ERRORS, Agent, Refused
from gateway.demo.task import Tree

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
STREAMING = frozenset({"SendStreamingMessage", "SubscribeToTask"})

_PUSH = r"/tasks/(?P<taskId>[^/]+)/pushNotificationConfigs"
# HTTP+JSON (1.0 §11.3), each also behind one segment that is the `tenant`.
_ROUTES = tuple(
    (methods, re.compile(r"(?:/(?P<tenant>[A-Za-z0-9._-]+))?" + path), operation)
    for methods, path, operation in (
        ("POST", r"/message:send", "SendMessage"),
        ("POST", r"/message:stream", "SendStreamingMessage"),
        ("GET", r"/tasks", "ListTasks"),
        ("POST", r"/tasks/(?P<id>[^/]+):cancel", "CancelTask"),
        ("GET POST", r"/tasks/(?P<id>[^/]+):subscribe", "SubscribeToTask"),
        ("GET", r"/tasks/(?P<id>[^/]+)", "GetTask"),
        ("POST", _PUSH, "CreateTaskPushNotificationConfig"),
        ("GET", _PUSH, "ListTaskPushNotificationConfigs"),
        ("GET", _PUSH + r"/(?P<id>[^/]+)", "GetTaskPushNotificationConfig"),
        ("DELETE", _PUSH + r"/(?P<id>[^/]+)", "DeleteTaskPushNotificationConfig"),
        ("GET", r"/extendedAgentCard", "GetExtendedAgentCard"),
    )
)
METHODS = frozenset(operation for _, _, operation in _ROUTES)
"""The JSON-RPC methods of 1.0: the operations by their own names."""


class Envelope(Protocol):
    """Wraps the results and errors of one call."""

    media: str

    def wrap(self, result: Tree) -> Tree:
        """A result or an event."""

    def fail(self, refusal: Refused) -> Tree:
        """An error."""


class RpcEnvelope:
    """JSON-RPC: the call's id around everything; the results of a 0.3 method in the spelling of 0.3."""

    media = "application/json"

    def __init__(self) -> None:
        # Null until it is known (JSON-RPC 2.0 §5).
        self.id: str | int | None = None
        self.legacy = False

    def wrap(self, result: Tree) -> Tree:
        """A response."""
        return {"jsonrpc": "2.0", "id": self.id, "result": legacy.lower(result) if self.legacy else result}

    def fail(self, refusal: Refused) -> Tree:
        """An error response."""
        error = {"code": ERRORS[refusal.reason][0], "message": refusal.message, "data": _details(refusal)}
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


class RestEnvelope:
    """HTTP+JSON: results as they are, errors as google.rpc.Status (1.0 §11.6)."""

    media = "application/a2a+json"

    def wrap(self, result: Tree) -> Tree:
        """The result itself."""
        return result

    def fail(self, refusal: Refused) -> Tree:
        """An error, by AIP-193."""
        _, code, status = ERRORS[refusal.reason]
        return {"error": {"code": code, "status": status, "message": refusal.message, "details": _details(refusal)}}


async def answer(agent: Agent, request: Request, url: str, path: str) -> Response:
    """Answer one HTTP request; `path` is what follows `url`, the agent's own, and empty for the URL itself."""
    if path in WELL_KNOWN and request.method in ("GET", "HEAD"):
        return JSONResponse(agent.card(url), headers={"Cache-Control": "max-age=60"})
    if path in ("", "/") and request.method == "POST":
        envelope = RpcEnvelope()
        try:
            return await _json_rpc(agent, request, envelope)
        except Refused as refusal:
            # A JSON-RPC error comes with HTTP 200: clients read the envelope then.
            return JSONResponse(envelope.fail(refusal))
    try:
        return await _rest(agent, request, path)
    except Refused as refusal:
        return JSONResponse(RestEnvelope().fail(refusal), ERRORS[refusal.reason][1])


async def _json_rpc(agent: Agent, request: Request, envelope: RpcEnvelope) -> Response:
    frame = _decode(await request.body())
    call_id, method, params = frame.get("id"), frame.get("method"), frame.get("params", {})
    if frame.get("jsonrpc") != "2.0" or not isinstance(call_id, str | int) or isinstance(call_id, bool):
        raise Refused("INVALID_REQUEST", "a JSON-RPC 2.0 request with an id is needed")
    envelope.id = call_id
    if not isinstance(params, dict):
        raise Refused("INVALID_PARAMS", "params is an object")
    if method in legacy.METHODS:
        envelope.legacy = True
        return await _reply(agent, legacy.METHODS[method], legacy.lift(params), envelope)
    if method not in METHODS:
        raise Refused("METHOD_NOT_FOUND", "no such method")
    _check_version(request)
    return await _reply(agent, method, params, envelope)


async def _rest(agent: Agent, request: Request, path: str) -> Response:
    for methods, pattern, operation in _ROUTES:
        found = pattern.fullmatch(path)
        if found is None or request.method not in methods.split():
            continue
        _check_version(request)
        body = await request.body()
        params = _decode(body) if body else {name: _typed(value) for name, value in request.query_params.items()}
        named = {name: value for name, value in found.groupdict().items() if value is not None}
        return await _reply(agent, operation, {**params, **named}, RestEnvelope())
    raise Refused("METHOD_NOT_FOUND", "no such resource")


async def _reply(agent: Agent, operation: str, params: Tree, envelope: Envelope) -> Response:
    if operation not in STREAMING:
        return JSONResponse(envelope.wrap(await agent.call(operation, params)), media_type=envelope.media)
    events = agent.stream(operation, params)
    # An error before the first event is an ordinary answer, so the stream starts only when there is one.
    first = await anext(events)
    return StreamingResponse(
        _server_sent(first, events, envelope),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _server_sent(
    first: Tree, events: AsyncGenerator[Tree, None], envelope: Envelope
) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        yield _event(envelope.wrap(first))
        try:
            async for event in events:
                yield _event(envelope.wrap(event))
        except Refused as refusal:
            yield b"event: error\n" + _event(envelope.fail(refusal))


def _event(tree: Tree) -> bytes:
    return encode(msgspec.json.encode(tree))


def _details(refusal: Refused) -> list[Tree]:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return [{"@type": kind, "reason": refusal.reason, "domain": "a2a-protocol.org", "metadata": {}}]


def _decode(body: bytes) -> Tree:
    try:
        tree = msgspec.json.decode(body)
    except ValueError as error:
        raise Refused("PARSE_ERROR", "the body is no JSON") from error
    if not isinstance(tree, dict):
        raise Refused("INVALID_REQUEST", "the body is one JSON object")
    return tree


def _check_version(request: Request) -> None:
    """Refuse another version than 1.x (1.0 §3.6); where none is named, the spelling of the call has told it."""
    version = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or "1.0"
    if version.split(".")[0] != "1":
        raise Refused("VERSION_NOT_SUPPORTED", "this agent speaks 1.0 here")


def _typed(value: str) -> object:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdecimal() else value
