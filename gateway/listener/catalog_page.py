"""The catalog page of the admin listener, and the messages that its script sends to agents.

The handlers render the data of `proxy/catalog_view.py`. Lists, search, explanations and filters work without a script;
trying an agent, copying and following live need it.

`POST /-/try/{agent}` sends a message of an operator to an agent, in the same way as a client's. The pipeline serves it
in this process: limits, ownership, translation, metrics and access log are those of any call. The credential identifies
the caller. An operator with the admin token may act as a tenant (`as`) instead.

A task of an operator who acts as a tenant belongs to the tenant. Where tasks are a principal's own, it belongs to
`operator` of the issuer `admin listener`. No issuer of a file can have this name, because it has a space.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge, Fault
from gateway.a2a.operation import Operation
from gateway.a2a.paths import is_tenant
from gateway.backend.backend import Backend
from gateway.catalog.render import ASSETS, HEADERS, HTML, page
from gateway.listener.asgi import AsgiResponder
from gateway.listener.http_limits import HttpLimits
from gateway.policy.limits import QuotaEnforcer
from gateway.principal import Principal
from gateway.proxy import catalog_view as view
from gateway.proxy.pipeline import Pipeline
from gateway.routing.explain import Inquiry
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import RecentRequests

PAGES = frozenset({"/", "/agent", "/routes", "/live"})
"""Paths that a person opens in a browser."""
MOST_FOLLOWERS = 32
"""Most browsers that follow the requests at a time; each request is written to all of them."""
_HEARTBEAT = 15.0
"""Seconds of silence after which a follower gets a comment, so that no proxy closes the connection."""
FILES = frozenset(f"/{name}" for name in ASSETS)
"""Paths of the static files."""
_EVENTS = "text/event-stream"

ISSUER = "admin listener"
SUBJECT = "operator"
METHOD = "admin"
_PAGE_HEADER = "x-a2a-gateway-page"
"""Only a script of the page sends it: a form cannot, and another site's script would have to ask first (CORS)."""
_MEDIA_TYPES = (b"text/event-stream", b"application/json")
_ANSWER_HEADERS = frozenset({b"content-type", b"x-request-id", b"retry-after", b"cache-control"})


def render(template: str, *, status: int = 200, **values: object) -> Response:
    """Return a page; every value is escaped."""
    headers = {**HEADERS, "Cache-Control": "no-store", "Vary": "Cookie, Authorization"}
    return Response(page(template, values), status, headers, HTML)


async def _asset(request: Request) -> Response:
    """Return a static file."""
    asset = ASSETS[request.scope["path"][1:]]
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers, media_type=asset.media_type)


class CatalogPage:
    """The page of the admin listener.

    Args:
        current: Returns the active snapshot.
        describe: Returns the state of a backend as `/-/agents` has it.
        may_act_as: Whether an operator may call as a tenant without its credential.
        signs_out: Whether there is a session that can be ended.
    """

    def __init__(
        self,
        current: Callable[[], Snapshot],
        limits: QuotaEnforcer,
        recent: RecentRequests,
        describe: Callable[[str, Backend], dict[str, Any]],
        *,
        may_act_as: bool,
        signs_out: bool,
    ) -> None:
        self._current = current
        self._limits = limits
        self._recent = recent
        self._describe = describe
        self._may_act_as = may_act_as
        self._signs_out = signs_out

    def handlers(self) -> dict[str, Any]:
        """Return the handlers of the operations of the page by name."""
        return {
            "index": self.index,
            "agent": self.agent,
            "explorer": self.explorer,
            "live_page": self.live,
            "requests": self.requests,
            "tail": self.tail,
            "asset": _asset,
        }

    def _render(self, template: str, *, status: int = 200, **values: object) -> Response:
        return render(template, status=status, admin=True, signs_out=self._signs_out, **values)

    async def index(self, request: Request) -> Response:
        """List the agents, or those that a search finds."""
        snapshot = self._current()
        search = view.Search.read(request.query_params)

        def work() -> Response:
            found = view.find(view.entries_of(snapshot), search)
            return self._render("list.html", here="agents", found=found, facets=view.FACETS)

        # A thousand agents with twenty skills each are some tens of milliseconds.
        return await asyncio.to_thread(work)

    async def agent(self, request: Request) -> Response:
        """Show one agent."""
        snapshot, name = self._current(), request.query_params.get("name", "")
        backends = {key: each for key, each in snapshot.backends.items() if each.agent == name}
        if not backends:
            return self._render("message.html", status=404, here="agents", title="No such agent", text=name)
        entry = view.entry_of(snapshot, name)
        addresses = view.addresses(snapshot, name)
        rule, first = view.rules_of(snapshot, name)[0], next(iter(backends.values()))
        card = view.served_card(first, addresses[0], rule, tenant=rule.tenant)
        # The directory is read on the loop, which changes it.
        values = view.agent_values(snapshot, entry, first.source.sanitized, addresses, card)
        values |= {
            "backends": [self._describe(key, each) for key, each in backends.items()],
            "usage": view.usage_of(self._limits, list(backends), entry.tenants, time.monotonic()),
            "routes": view.routes_to(snapshot, name, entry.tenants, addresses[0]),
            "ranks": view.ranks_of(snapshot, name, entry.text.skills),
            "tenants": [tenant for tenant in snapshot.table.reach if tenant not in ("*", "anonymous")],
            "may_act_as": self._may_act_as,
            "requests": self._rows({"agent": name})[:10],
        }
        return await asyncio.to_thread(partial(self._render, "agent.html", here="agents", **values))

    async def explorer(self, request: Request) -> Response:
        """Explain the route of a request: the form of `POST /-/route`."""
        query = request.query_params
        known = ("method", "path", "tenant", "as", "key", "certificate", "host", "claim")
        written = {name: query.get(name, "") for name in known}
        answer: dict[str, Any] | None = None
        error = ""
        if written["path"]:
            snapshot = self._current()
            try:
                answer = snapshot.explain(_inquiry(written))
            except (msgspec.DecodeError, msgspec.ValidationError) as wrong:
                error = f"claims are a JSON object: {wrong}"
            except LookupError as wrong:
                error = str(wrong)
        status = 400 if error else 200
        tenants = [tenant for tenant in self._current().table.reach if tenant not in ("*", "anonymous")]
        return self._render(
            "routes.html", status=status, here="routes", written=written, answer=answer, error=error, tenants=tenants
        )

    async def live(self, request: Request) -> Response:
        """Show the last requests."""
        query = {name: request.query_params.get(name, "") for name in ("agent", "tenant", "status")}
        snapshot = self._current()
        tenants = [tenant for tenant in snapshot.table.reach if tenant != "*"]
        return self._render(
            "live.html",
            here="live",
            rows=self._rows(query),
            query=query,
            agents=sorted(snapshot.table.agents),
            tenants=tenants,
        )

    async def requests(self, request: Request) -> Response:
        """Return the last requests, the newest first, as JSON."""
        return JSONResponse({"requests": self._rows(request.query_params)}, headers={"Cache-Control": "no-store"})

    def _rows(self, query: Mapping[str, str]) -> list[dict[str, object]]:
        """Return the last requests that match the filter, the newest first."""
        return [view.row(each) for each in reversed(self._recent.since()) if view.matches(each, query)]

    async def tail(self, request: Request) -> Response:
        """Follow the requests as server-sent events, from now on, or behind the `since` of the query."""
        if self._recent.followers >= MOST_FOLLOWERS:
            return PlainTextResponse("too many browsers follow already\n", status_code=503)
        query = dict(request.query_params)
        # A browser that reconnects names its last event.
        since = request.headers.get("last-event-id") or query.get("since", "")
        number = int(since) if since.isascii() and since.isdigit() and len(since) < 18 else None
        return StreamingResponse(self._follow(query, number), 200, {**HEADERS, "Cache-Control": "no-store"}, _EVENTS)

    async def _follow(self, query: Mapping[str, str], number: int | None) -> AsyncIterator[bytes]:
        recent = self._recent
        event = recent.follow()
        try:
            lines = recent.since()
            seen = (lines[-1].number if lines else 0) if number is None else number
            yield b": follows\n\n"
            while not recent.closed:
                event.clear()
                lines = recent.since(seen)
                for line in lines:
                    seen = line.number
                    if view.matches(line, query):
                        yield b"id: %d\ndata: %b\n\n" % (seen, msgspec.json.encode(view.row(line)))
                if not lines:
                    try:
                        async with asyncio.timeout(_HEARTBEAT):
                            await event.wait()
                    except TimeoutError:
                        yield b": nothing new\n\n"
        finally:
            recent.leave(event)


def _inquiry(written: Mapping[str, str]) -> Inquiry:
    """Return the inquiry of the form.

    Raises:
        msgspec.DecodeError: the claims are not a JSON object.
    """
    claims = msgspec.json.decode(written["claim"], type=dict[str, Any]) if written["claim"].strip() else {}
    return Inquiry(
        written["path"].strip(),
        written["method"] or "POST",
        tenant=written["tenant"] or None,
        as_=written["as"] or None,
        key=written["key"] or None,
        certificate=written["certificate"] or None,
        host=written["host"] or None,
        claim=claims,
    )


# ---- Trying an agent -----------------------------------------------------------------------------------------------


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
    """Serves the messages to agents.

    Args:
        current: Returns the active snapshot.
        limits: Deadlines of an answer.
        may_act_as: Whether an operator may act as a tenant.
    """

    def __init__(
        self, current: Callable[[], Snapshot], pipeline: Pipeline, limits: HttpLimits, *, may_act_as: bool
    ) -> None:
        self._current = current
        self._pipeline = pipeline
        self._limits = limits
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
        responder = AsgiResponder(_replay(body, receive), _filter(send), head, len(body), self._limits)
        try:
            await self._pipeline.serve(head, responder, caller=caller)
        finally:
            await responder.finish()

    async def _read(self, request: Request) -> tuple[TryItMessage, view.Address]:
        if _PAGE_HEADER not in request.headers or request.headers.get("content-type") != "application/json":
            raise _Refused(403, f"send JSON, with the header {_PAGE_HEADER}")
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
        found = view.addresses(snapshot, name)
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


class _Refused(Exception):  # noqa: N818 - the text is the answer
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _call(written: TryItMessage, address: view.Address) -> bytes:
    """Return the call in JSON-RPC of 1.0."""
    message: dict[str, Any] = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": written.text}]}
    if written.task_id:
        message["taskId"] = written.task_id
    if written.context_id:
        message["contextId"] = written.context_id
    params = {"message": message} if address.tenant is None else {"tenant": address.tenant, "message": message}
    method = Operation.SEND_STREAMING_MESSAGE if written.stream else Operation.SEND_MESSAGE
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields this body first."""
    unread = [body]

    async def receive_again() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return receive_again


def _filter(send: Send) -> Send:
    """Return a `send` that passes on answers as text, JSON or events, with the headers of the page."""

    async def send_filtered(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [pair for pair in message["headers"] if pair[0] in _ANSWER_HEADERS]
            kind = dict(headers).get(b"content-type", b"")
            if not kind.startswith(_MEDIA_TYPES):
                headers = [(name, b"text/plain" if name == b"content-type" else value) for name, value in headers]
            headers += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": headers}
        await send(message)

    return send_filtered
