"""`POST /-/try/{agent}`: a message to an agent, written by an operator, on the way that a client's takes.

The pipeline serves it in this process: limits, ownership, translation, metrics and access log are those of any call.
The credential identifies the caller. An operator with the admin token may act as a tenant (`as`) instead.

A task of an operator who acts as a tenant belongs to the tenant; where tasks are a principal's own, it belongs to
`operator` of the issuer `admin listener`. No issuer of a file can have this name, because it has a space.
"""

import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge, Fault
from gateway.a2a.paths import is_tenant
from gateway.catalog.render import HEADERS
from gateway.config.limit import Http
from gateway.listener.asgi import AsgiResponder
from gateway.principal import Principal
from gateway.proxy.catalog_view import Address, addresses
from gateway.proxy.responder import Responder
from gateway.snapshot import Snapshot

ISSUER = "admin listener"
SUBJECT = "operator"
METHOD = "admin"
_HEADER = "x-a2a-gateway-page"
"""Only a script of the page sends it: a form cannot, and another site's script would have to ask first (CORS)."""
_LIMITS = Http()
_KINDS = (b"text/event-stream", b"application/json")
_PASSED = frozenset({b"content-type", b"x-request-id", b"retry-after", b"cache-control"})


class Serve(Protocol):
    """`Pipeline.serve`."""

    def __call__(self, head: Head, client: Responder, *, caller: Principal | None = None) -> Coroutine[Any, Any, None]:
        """Answer one request."""


class TryItMessage(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A message to be sent.

    Attributes:
        address: Which of the agent's addresses is called.
        as_: The tenant to act as.
        credential: A token or an API key, which proves the caller.
        stream: Whether the answer is asked for as a stream.
    """

    text: str
    address: int = 0
    as_: str | None = msgspec.field(default=None, name="as")
    credential: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    stream: bool = True


class TryIt:
    """Serves the messages.

    Args:
        current: Returns the active snapshot.
        serve: Answers one request.
        may_act_as: Whether an operator may act as a tenant.
    """

    def __init__(self, current: Callable[[], Snapshot], serve: Serve, *, may_act_as: bool) -> None:
        self._current = current
        self._serve = serve
        self._may_act_as = may_act_as

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one message."""
        request = Request(scope, receive)
        try:
            message, address = await self._read(request)
            caller = self._caller(message)
        except _Refused as refused:
            await JSONResponse({"error": str(refused)}, refused.status, HEADERS)(scope, receive, send)
            return
        body = _call(message, address)
        headers: list[tuple[bytes, bytes]] = [
            (b"host", address.host.encode()),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"a2a-version", b"1.0"),
        ]
        if message.credential:
            headers.append((b"authorization", b"Bearer " + message.credential.strip().encode("utf-8", "replace")))
        peer = "" if request.client is None else request.client.host
        head = Head("POST", quote(address.path).encode(), host=address.host, headers=tuple(headers), peer=peer)
        responder = AsgiResponder(_replayed(body, receive), _shown(send), head, len(body), _LIMITS)
        try:
            await self._serve(head, responder, caller=caller)
        finally:
            await responder.finish()

    async def _read(self, request: Request) -> tuple[TryItMessage, Address]:
        if _HEADER not in request.headers or request.headers.get("content-type") != "application/json":
            raise _Refused(403, f"send JSON, with the header {_HEADER}")
        try:
            message = msgspec.json.decode(await request.body(), type=TryItMessage)
        except BodyTooLarge as fault:
            raise _Refused(413, "the message is too long") from fault
        except Fault as fault:
            raise _Refused(fault.http_status, fault.message) from fault
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _Refused(400, f"no message: {error}") from error
        snapshot, name = self._current(), request.path_params["agent"]
        if name not in snapshot.table.agents:
            raise _Refused(404, "there is no such agent")
        found = addresses(snapshot, name)
        if not 0 <= message.address < len(found):
            raise _Refused(400, "the agent has no such address")
        return message, found[message.address]

    def _caller(self, message: TryItMessage) -> Principal | None:
        """Return the principal that the operator acts as; None where a credential identifies the caller."""
        if not message.as_:
            return None
        if message.credential:
            raise _Refused(400, "act as a tenant, or show a credential, not both")
        if not self._may_act_as:
            raise _Refused(403, "set gateway.admin.token to act as a tenant, or show a credential of it")
        if not is_tenant(message.as_):
            raise _Refused(400, "this is no name of a tenant")
        return Principal(message.as_, SUBJECT, METHOD, ISSUER)


class _Refused(Exception):  # noqa: N818 - the words are the answer
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def _call(wanted: TryItMessage, address: Address) -> bytes:
    """Return the call in JSON-RPC of 1.0."""
    message: dict[str, Any] = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": wanted.text}]}
    if wanted.task_id:
        message["taskId"] = wanted.task_id
    if wanted.context_id:
        message["contextId"] = wanted.context_id
    params = {"message": message} if address.tenant is None else {"tenant": address.tenant, "message": message}
    method = "SendStreamingMessage" if wanted.stream else "SendMessage"
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what receives this body, and then what the browser does."""
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay


def _shown(send: Send) -> Send:
    """Return a `send` that passes an answer on as text, JSON or events, and with the page's headers."""

    async def show(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [pair for pair in message["headers"] if pair[0] in _PASSED]
            kind = dict(headers).get(b"content-type", b"")
            if not kind.startswith(_KINDS):
                headers = [(name, b"text/plain" if name == b"content-type" else value) for name, value in headers]
            headers += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": headers}
        await send(message)

    return show
