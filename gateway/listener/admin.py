"""The admin listener: health, metrics, what runs, where a request would go, and the catalog page."""

import asyncio
import gzip
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest, gzip_accepted
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge, Fault
from gateway.a2a.headers import Pairs
from gateway.backend.backend import Backend
from gateway.cards.fetch import CardReport, CardSource
from gateway.config.address import is_loopback
from gateway.config.effective import masked
from gateway.config.outside import sources
from gateway.config.routes import Inquiry, explain_request
from gateway.listener.admin_api import LogLevel, document, routes
from gateway.listener.admin_session import COOKIE, SameOrigin, Sessions, sign_out
from gateway.listener.catalog_page import FILES, PAGES, CatalogPage
from gateway.listener.request_parser import host_name
from gateway.listener.try_it import Serve, TryIt
from gateway.policy.limits import Limits
from gateway.principal import Certificate
from gateway.proxy.responder import Responder
from gateway.reload import Reloader, Result, Trigger
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import RecentRequests
from gateway.telemetry.log import current_level
from gateway.telemetry.metrics import Metrics
from gateway.upstream.replica import Replica
from gateway.upstream.stdio.upstream import StdioUpstream, trouble_of

_OPEN_PATHS = frozenset({"/-/live", "/-/ready", "/-/started"})
_UNTOLD = _OPEN_PATHS | {"/metrics"} | FILES
LONGEST_QUESTION = 64 * 1024
"""Bytes of the longest request body."""
_GZIP = 1
"""Level of compression: a third of the time of the default one, for a tenth more bytes."""
MOST_CONNECTIONS = 256
"""Connections to the admin port; those of clients must not want for open files because of them."""


class Watched(Protocol):
    """The gateway, as far as the admin listener shows it."""

    @property
    def snapshot(self) -> Snapshot:
        """The configuration that runs."""

    @property
    def metrics(self) -> Metrics:
        """The metrics of the process."""

    @property
    def started(self) -> bool:
        """Whether the gateway has begun to take requests."""

    @property
    def draining(self) -> bool:
        """Whether it is shutting down."""

    @property
    def state_trouble(self) -> str:
        """Return the reason why the ledger cannot be used; empty where none is known."""

    @property
    def public_url(self) -> str:
        """Where clients find it."""

    @property
    def reloader(self) -> Reloader | None:
        """Reads the configuration again; None where it comes from no file."""

    @property
    def limits(self) -> Limits:
        """The limits and their use."""

    @property
    def recent(self) -> RecentRequests:
        """The last requests of this process."""

    @property
    def serve(self) -> Serve:
        """Answers one request of a client."""

    async def reload_others(self) -> dict[str, Any]:
        """Have the other workers reload; return what each made of it, and how many did not answer in time."""

    async def set_log_level(self, level: str) -> int:
        """Change the level of the own log in all workers; return how many have not confirmed it in time."""

    async def drain(self) -> int:
        """Prepare all workers for the end; return how many have not confirmed it in time."""


def admin_app(
    watched: Watched,
    token: str | None,
    audit: Callable[[Mapping[str, object]], None] = lambda _fields: None,
    *,
    certified: bool = False,
) -> ASGIApp:
    """The admin application.

    Args:
        token: The bearer token that requests must have, except for health; None for a loopback listener, or with
            `certified`.
        audit: Called for every request except health and metrics, answered or not.
        certified: Whether a request, health aside, must come with a client certificate.
    """
    pages = _Pages(watched)
    # An operator acts as a tenant without its credential: not on a port that any program of this machine can reach.
    may_act_as = token is not None or certified
    catalog = CatalogPage(
        lambda: watched.snapshot,
        watched.limits,
        watched.recent,
        _agent,
        may_act_as=may_act_as,
        signs_out=token is not None,
    )
    trial = TryIt(lambda: watched.snapshot, watched.serve, may_act_as=may_act_as)
    handlers = {**pages.handlers(), **catalog.handlers(), "try_it": trial, "sign_out": sign_out}
    app = SameOrigin(Starlette(routes=routes(handlers)))
    guarded: ASGIApp = app
    if token is not None:
        guarded = _Guard(app, token)
    elif not certified:
        guarded = _Local(app)
    return _Audited(_Certified(guarded) if certified else guarded, audit)


class _Audited:
    """Writes the audit log: every request but those for health and metrics, with its status."""

    def __init__(self, app: ASGIApp, audit: Callable[[Mapping[str, object]], None]) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNTOLD:
            await self._app(scope, receive, send)
            return
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            client = scope.get("client")
            self._audit(
                {
                    "client_ip": client[0] if client else None,
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                }
            )


class _Local:
    """Serves requests for a loopback name alone, where nothing else guards the port.

    A page in an operator's browser can have its own name resolve to 127.0.0.1; its requests still say that name.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Request(scope).headers.get("host", "")
        name = host_name(host.encode("latin-1")) or ""
        if scope["path"] in _OPEN_PATHS or is_loopback(name.strip("[]")):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse("ask by a loopback address, or set gateway.admin.token\n", status_code=421)
        await refusal(scope, receive, send)


class _Certified:
    """Serves requests with a client certificate that is still good, and those for health."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown: Certificate | None = scope["state"]["certificate"]
        # Connections outlast certificates and authorities.
        is_good = shown is not None and not shown.void and time.time() < shown.expires  # noqa: TID251 - as it says
        if is_good or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        await PlainTextResponse("connect with a client certificate\n", status_code=401)(scope, receive, send)


class _Guard:
    """Asks for the admin token, for every path but those of health and the files of the page.

    Programs show it as bearer token, browsers the cookie that the form gives for it.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._sessions = Sessions(token)
        self._sign_in = SameOrigin(request_response(self._sessions.sign_in))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path, method = scope["path"], scope["method"]
        is_open = path in _OPEN_PATHS or (path in FILES and method == "GET")
        if is_open or self._is_shown(request):
            await self._app(scope, receive, send)
            return
        refusal: ASGIApp = PlainTextResponse(
            "show the admin token\n", status_code=401, headers={"WWW-Authenticate": 'Bearer realm="admin"'}
        )
        if path in PAGES and method == "GET" and "text/html" in request.headers.get("accept", ""):
            refusal = self._sessions.ask(request)
        elif path == "/" and method == "POST" and request.headers.get("content-type") == _FORM:
            refusal = self._sign_in
        await refusal(scope, receive, send)

    def _is_shown(self, request: Request) -> bool:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._sessions.is_token(shown.encode("latin-1"))
        return self._sessions.is_valid(request.cookies.get(COOKIE, ""))


_FORM = "application/x-www-form-urlencoded"


class _Pages:
    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def handlers(self) -> dict[str, Any]:
        """Return what serves the operations, by their names in `admin_api`."""
        return {
            "live": self.live,
            "ready": self.ready,
            "is_started": self.is_started,
            "show_metrics": self.show_metrics,
            "config": self.config,
            "agents": self.agents,
            "route": self.route,
            "reload": self.reload,
            "drain": self.drain,
            "log_level": self.log_level,
            "set_log_level": self.set_log_level,
            "openapi": self.openapi,
        }

    async def live(self, request: Request) -> Response:
        return _health(request, good=True, checks={"process": "runs"})

    async def ready(self, request: Request) -> Response:
        """Ready to take requests; agents and their cards do not count, a fleet is never wholly well."""
        watched = self._watched
        state = "draining" if watched.draining else "serving" if watched.started else "starting"
        trouble = watched.state_trouble
        checks = {"state": trouble, "listener": state} if trouble else {"listener": state}
        if watched.started:
            for name, keys in watched.snapshot.key_sets.items():
                checks[f"keys of {name}"] = "read" if keys.ready else "not read yet"
        return _health(request, good=state == "serving" and not trouble, checks=checks)

    async def is_started(self, request: Request) -> Response:
        return _health(request, good=self._watched.started, checks={"listener": str(self._watched.started).lower()})

    async def show_metrics(self, request: Request) -> Response:
        # Exemplars are in OpenMetrics only.
        is_open = "application/openmetrics-text" in request.headers.get("accept", "")
        encode, content_type = (
            (openmetrics.generate_latest, openmetrics.CONTENT_TYPE_LATEST)
            if is_open
            else (generate_latest, CONTENT_TYPE_PLAIN_0_0_4)
        )
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        body = await asyncio.to_thread(self._watched.metrics.render, encode)
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            body = await asyncio.to_thread(gzip.compress, body, _GZIP)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def config(self, _request: Request) -> Response:
        snapshot = self._watched.snapshot
        examined = snapshot.examined
        reloader = self._watched.reloader
        last = None if reloader is None else reloader.last
        refused = last is not None and last.result is Result.REFUSED
        # A thousand agents are 2 MB, and a tenth of a second of work.
        running = await asyncio.to_thread(masked, snapshot.config)
        page = {
            "hash": examined.text_hash,
            "files": [str(path) for path in examined.files],
            "last_error": last.as_json() if last is not None and refused else None,
            "last_reload": None if last is None else last.as_json(),
            "needs_restart": [] if reloader is None else [each.as_json() for each in reloader.waiting],
            "public_url": self._watched.public_url,
            "warnings": [problem.as_json() for problem in examined.problems],
            "settings": sources(snapshot.config, examined.marks, running),
            "running": running,
        }
        return Response(await asyncio.to_thread(msgspec.json.encode, page), media_type="application/json")

    async def agents(self, _request: Request) -> Response:
        return JSONResponse({"agents": [_agent(key, each) for key, each in self._watched.snapshot.backends.items()]})

    async def reload(self, _request: Request) -> Response:
        reloader = self._watched.reloader
        if reloader is None:
            return JSONResponse({"error": "the configuration comes from no file"}, status_code=409)
        report = await reloader.reload(Trigger.ADMIN)
        others = await self._watched.reload_others()
        results = [report.result, *(each["result"] for each in others.get("workers", ()))]
        status = 422 if Result.REFUSED in results else 202 if others.get("unheard") else 200
        return JSONResponse({**report.as_json(), **others}, status_code=status)

    async def openapi(self, _request: Request) -> Response:
        return Response(document(), media_type="application/json")

    async def drain(self, _request: Request) -> Response:
        unheard = await self._watched.drain()
        return JSONResponse({"draining": True, "unheard": unheard}, status_code=202 if unheard else 200)

    async def log_level(self, _request: Request) -> Response:
        return JSONResponse({"level": current_level()})

    async def set_log_level(self, request: Request) -> Response:
        asked = await _read(request, LogLevel, "no level")
        if isinstance(asked, Response):
            return asked
        unheard = await self._watched.set_log_level(asked.level)
        return JSONResponse({"level": asked.level, "unheard": unheard}, status_code=202 if unheard else 200)

    async def route(self, request: Request) -> Response:
        question = await _read(request, Inquiry, "not a routing request")
        if isinstance(question, Response):
            return question
        snapshot = self._watched.snapshot
        try:
            return JSONResponse(explain_request(snapshot.config, snapshot.table, question, ranking=snapshot.directory))
        except LookupError as error:
            return JSONResponse({"error": str(error)}, status_code=400)


_T = TypeVar("_T", bound=msgspec.Struct)


async def _read(request: Request, kind: type[_T], is_none: str) -> _T | Response:
    """Return the body, or the answer that refuses it."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except BodyTooLarge:
        return JSONResponse({"error": "the request is too long"}, status_code=413)
    except Fault as fault:
        return JSONResponse({"error": fault.message}, status_code=fault.http_status)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return JSONResponse({"error": f"{is_none}: {error}"}, status_code=400)


def _health(request: Request, *, good: bool, checks: dict[str, str]) -> Response:
    status = 200 if good else 503
    if "verbose" in request.query_params:
        return JSONResponse({"ok": good, "checks": checks}, status_code=status)
    return PlainTextResponse("ok\n" if good else f"{next(iter(checks.values()))}\n", status_code=status)


def _agent(key: str, backend: Backend) -> dict[str, Any]:
    source, upstream = backend.source, backend.upstream
    card = source.card
    return {
        "agent": backend.agent,
        "backend": key,
        "url": backend.url,
        "card": {
            "read": card is not None,
            "name": None if card is None else card.get("name"),
            "age_s": source.age if math.isfinite(source.age) else None,
            "stale": source.stale,
            "error": source.error,
            **({} if source.verifier is None else {"signature": _signature(source)}),
            **({"warnings": list(source.wrong)} if source.wrong else {}),
        },
        "speaks": [str(dialect) for dialect in upstream.interfaces()],
        **({"processes": upstream.report()} if isinstance(upstream, StdioUpstream) else {}),
        "connections": {
            "active": sum(each.upstream.active for each in backend.replicas),
            "idle": sum(each.upstream.idle for each in backend.replicas),
        },
        **_health_of(backend),
    }


def _signature(source: CardSource) -> dict[str, Any]:
    """Return the state of the last fetch, and the key that has signed the card in use."""
    if source.report is CardReport.UNTRUSTED:
        state = "card_untrusted"
    elif source.card is None:
        state = "unknown"
    else:
        state = "unsigned" if source.signed_by is None else "verified"
    return {"state": state, "kid": source.signed_by}


def _health_of(backend: Backend) -> dict[str, Any]:
    """Return the health of a backend and of each replica, in words."""
    now = time.monotonic()
    balancer = backend.balancer
    replicas = [_replica(each, now) for each in backend.replicas]
    found: dict[str, Any] = {"up": any(each["up"] for each in replicas), "replicas": replicas}
    if balancer.trouble:
        found["trouble"] = balancer.trouble
    if balancer.breaker.is_open:
        left = balancer.breaker.left(now)
        when = f"for {left:.0f} s more" if left else "until a call succeeds"
        found["breaker"] = f"open {when}: the last failure: {balancer.breaker.why}"
    return found


def _replica(replica: Replica, now: float) -> dict[str, Any]:
    condition, trouble = replica.condition, trouble_of(replica.upstream)
    return {
        "name": replica.name or replica.key,
        "url": replica.url,
        "label": replica.label,
        "weight": replica.weight,
        "up": condition.is_up and not trouble,
        "state": f"down: {trouble}" if trouble else condition.state(now),
        "ejections": condition.ejections,
        "connections": {"active": replica.upstream.active, "idle": replica.upstream.idle},
    }


class PagesListener:
    """Serves an application whose requests and answers are short, but for answers that are server-sent events.

    The body is read when the application asks for it; where that goes wrong, asking raises the fault (`BodyTooLarge`,
    `BodyTooSlow`, `ClientGone`).

    Args:
        longest: Bytes of the longest request body.
    """

    def __init__(self, app: ASGIApp, longest: int) -> None:
        self._app = app
        self._longest = longest

    async def __call__(self, head: Head, client: Responder) -> None:
        """Serve one request."""
        call = _PageCall(client, self._longest)
        try:
            await self._app(_scope(head), call.receive, call.send)
        finally:
            # Starlette has said 500 before it raises.
            if call.streams:
                await call.end()
            elif call.complete:
                await client.answer(call.status, call.headers, b"".join(call.parts))


_EVENTS = b"text/event-stream"


class _PageCall:
    """The application's side of a request, and of an answer that goes out when it is whole, or event by event."""

    def __init__(self, client: Responder, longest: int) -> None:
        self._client = client
        self._longest = longest
        self._was_read = False
        self._gone = asyncio.Event()
        client.when_gone(self._gone.set)
        self.status = 500
        self.headers: Pairs = []
        self.parts: list[bytes] = []
        self.complete = False
        self.streams = False

    async def receive(self) -> Message:
        if self._was_read:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._was_read = True
        return {"type": "http.request", "body": await self._client.read(self._longest), "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            # The length is ours to say: that of the body as it is, also where it is not sent.
            self.headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"content-length"]
            self.streams = any(name == b"content-type" and value.startswith(_EVENTS) for name, value in self.headers)
            if self.streams:
                self._client.open(self.status, self.headers)
            return
        if self.streams:
            await self._client.write(message.get("body", b""))
            self.complete = not message.get("more_body", False)
            return
        self.parts.append(message.get("body", b""))
        self.complete = not message.get("more_body", False)

    async def end(self) -> None:
        """End a stream; without its clean end where the application did not end it."""
        if self.complete:
            await self._client.close()
        else:
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
