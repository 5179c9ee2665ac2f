"""The admin listener: health, metrics, the running configuration, explanations of routes, and the catalog page.

One table (`OPERATIONS`) has the routes and makes the OpenAPI document. `admin_access.py` decides who may use them.
"""

import asyncio
import gzip
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest, gzip_accepted
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway import __version__
from gateway.a2a.fault import BodyTooLarge, Fault
from gateway.backend.backend import Backend
from gateway.cards.fetch import CardReport, CardSource
from gateway.catalog.render import ASSETS
from gateway.listener.admin_access import HEALTH_PATHS, guarded, sign_out
from gateway.listener.catalog_page import FILES, CatalogPage, TryIt, TryItMessage
from gateway.listener.http_limits import HttpLimits
from gateway.policy.limits import QuotaEnforcer
from gateway.proxy.pipeline import Pipeline
from gateway.reload import Reloader, ReloadResult, Trigger
from gateway.routing.explain import Inquiry
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import RecentRequests
from gateway.telemetry.log import current_level
from gateway.telemetry.metrics import GatewayMetrics
from gateway.upstream.replica import Replica
from gateway.upstream.stdio.upstream import StdioUpstream, trouble_of

LONGEST_BODY = 64 * 1024
"""Bytes of the longest request body."""
MOST_CONNECTIONS = 256
"""Connections to the admin port; they must not take the open files that clients need."""
_NOT_AUDITED = HEALTH_PATHS | {"/metrics"} | FILES
_GZIP = 1
"""Level of compression: a third of the time of the default one, for a tenth more bytes."""


class ManagedGateway(Protocol):
    """The gateway, as the admin listener needs it.

    Attributes:
        metrics: The metrics of the process.
        started: Whether the gateway has begun to accept requests.
        draining: Whether it is shutting down.
        public_url: The URL for clients.
        reloader: None if the configuration comes from no file.
        limits: The limits and their use.
        recent: The last requests of this process.
        pipeline: Answers the requests of clients.
    """

    metrics: GatewayMetrics
    started: bool
    draining: bool
    public_url: str
    reloader: Reloader | None
    limits: QuotaEnforcer
    recent: RecentRequests
    pipeline: Pipeline

    @property
    def snapshot(self) -> Snapshot:
        """Return the active snapshot."""

    @property
    def state_trouble(self) -> str:
        """Return the reason why the ledger cannot be used; empty if it can."""

    async def reload_others(self) -> dict[str, Any]:
        """Reload the other workers; return the result of each, and the number without an answer in time."""

    async def set_log_level(self, level: str) -> int:
        """Change the level of the log in all workers; return the number that have not confirmed it in time."""

    async def drain(self) -> int:
        """Drain all workers; return the number that have not confirmed it in time."""


def admin_app(
    gateway: ManagedGateway,
    token: str | None,
    limits: HttpLimits,
    audit: Callable[[Mapping[str, object]], None] = lambda _fields: None,
    *,
    certified: bool = False,
) -> ASGIApp:
    """Return the admin application.

    Args:
        token: The bearer token that requests must have, except for health; None for a loopback listener, or with
            `certified`.
        limits: Bounds on its connections.
        audit: Called for every request except health and metrics, answered or not.
        certified: Whether a request, health aside, must come with a client certificate.
    """
    pages = _Pages(gateway)
    # Operators act as a tenant without its credential, so not on a port that any program of this machine can reach.
    may_act_as = token is not None or certified
    catalog = CatalogPage(
        lambda: gateway.snapshot,
        gateway.limits,
        gateway.recent,
        _agent,
        may_act_as=may_act_as,
        signs_out=token is not None,
    )
    try_it = TryIt(lambda: gateway.snapshot, gateway.pipeline, limits, may_act_as=may_act_as)
    handlers = {**pages.handlers(), **catalog.handlers(), "try_it": try_it, "sign_out": sign_out}
    routes = [Route(each.path, handlers[each.name], methods=[each.method]) for each in OPERATIONS]
    return _Audited(guarded(Starlette(routes=routes), token, certified=certified), audit)


class _Audited:
    """Writes each request and its status to the audit log, except for health, metrics and static files."""

    def __init__(self, app: ASGIApp, audit: Callable[[Mapping[str, object]], None]) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _NOT_AUDITED:
            await self._app(scope, receive, send)
            return
        status = 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
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


class _Pages:
    def __init__(self, gateway: ManagedGateway) -> None:
        self._gateway = gateway

    def handlers(self) -> dict[str, Any]:
        """Return the handlers of the operations by name."""
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
        """Report whether requests are accepted; agents and their cards do not count, as some always fail."""
        state = "draining" if self._gateway.draining else "serving" if self._gateway.started else "starting"
        trouble = self._gateway.state_trouble
        checks = {"state": trouble, "listener": state} if trouble else {"listener": state}
        if self._gateway.started:
            for name, keys in self._gateway.snapshot.key_sets.items():
                checks[f"keys of {name}"] = "read" if keys.ready else "not read yet"
        return _health(request, good=state == "serving" and not trouble, checks=checks)

    async def is_started(self, request: Request) -> Response:
        return _health(request, good=self._gateway.started, checks={"listener": str(self._gateway.started).lower()})

    async def show_metrics(self, request: Request) -> Response:
        # Exemplars are in OpenMetrics only.
        is_open = "application/openmetrics-text" in request.headers.get("accept", "")
        encode, content_type = (
            (openmetrics.generate_latest, openmetrics.CONTENT_TYPE_LATEST)
            if is_open
            else (generate_latest, CONTENT_TYPE_PLAIN_0_0_4)
        )
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        body = await asyncio.to_thread(self._gateway.metrics.render, encode)
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            body = await asyncio.to_thread(gzip.compress, body, _GZIP)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def config(self, _request: Request) -> Response:
        snapshot = self._gateway.snapshot
        examined = snapshot.examined
        reloader = self._gateway.reloader
        last = None if reloader is None else reloader.last
        refused = last is not None and last.result is ReloadResult.REFUSED
        page = {
            "hash": examined.text_hash,
            "files": [str(path) for path in examined.files],
            "last_error": last.as_json() if last is not None and refused else None,
            "last_reload": None if last is None else last.as_json(),
            "needs_restart": [] if reloader is None else [each.as_json() for each in reloader.waiting],
            "public_url": self._gateway.public_url,
            "warnings": [problem.as_json() for problem in examined.problems],
            # A thousand agents are 2 MB, and a tenth of a second of work.
            **await asyncio.to_thread(snapshot.shown_config),
        }
        return Response(await asyncio.to_thread(msgspec.json.encode, page), media_type="application/json")

    async def agents(self, _request: Request) -> Response:
        return JSONResponse({"agents": [_agent(key, each) for key, each in self._gateway.snapshot.backends.items()]})

    async def reload(self, _request: Request) -> Response:
        reloader = self._gateway.reloader
        if reloader is None:
            return JSONResponse({"error": "the configuration comes from no file"}, status_code=409)
        report = await reloader.reload(Trigger.ADMIN)
        others = await self._gateway.reload_others()
        results = [report.result, *(each["result"] for each in others.get("workers", ()))]
        status = 422 if ReloadResult.REFUSED in results else 202 if others.get("unheard") else 200
        return JSONResponse({**report.as_json(), **others}, status_code=status)

    async def openapi(self, _request: Request) -> Response:
        return Response(document(), media_type="application/json")

    async def drain(self, _request: Request) -> Response:
        unheard = await self._gateway.drain()
        return JSONResponse({"draining": True, "unheard": unheard}, status_code=202 if unheard else 200)

    async def log_level(self, _request: Request) -> Response:
        return JSONResponse({"level": current_level()})

    async def set_log_level(self, request: Request) -> Response:
        wanted = await _read(request, LogLevel, "no level")
        if isinstance(wanted, Response):
            return wanted
        unheard = await self._gateway.set_log_level(wanted.level)
        return JSONResponse({"level": wanted.level, "unheard": unheard}, status_code=202 if unheard else 200)

    async def route(self, request: Request) -> Response:
        inquiry = await _read(request, Inquiry, "not a routing request")
        if isinstance(inquiry, Response):
            return inquiry
        snapshot = self._gateway.snapshot
        try:
            return JSONResponse(snapshot.explain(inquiry))
        except LookupError as error:
            return JSONResponse({"error": str(error)}, status_code=400)


_T = TypeVar("_T", bound=msgspec.Struct)


async def _read(request: Request, kind: type[_T], is_none: str) -> _T | Response:
    """Return the decoded body, or the answer that refuses it."""
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
        "speaks": [str(dialect) for dialect in upstream.dialects.interfaces()],
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
    """Return the health of a backend and of each replica."""
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


# ---- The operations ------------------------------------------------------------------------------------------------

Media = Literal["application/json", "text/plain", "text/html", "text/event-stream"]
_SCHEMA = "#/components/schemas/{name}"


class LogLevel(msgspec.Struct, forbid_unknown_fields=True):
    """The least severe level that the log of the gateway has."""

    level: Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class AdminOperation:
    """One method of one path.

    Attributes:
        answers: The meaning of each status; the first is that of success.
        media: The media type of a good answer.
        body: The type of the request body, which is JSON; None for no body.
        answer: The type of a good answer in JSON; None where it is not fixed.
        query: The query parameters, each with its meaning.
        is_open: Whether no admin token is needed.
    """

    method: Literal["GET", "POST", "PUT"]
    path: str
    name: str
    summary: str
    answers: dict[int, str]
    media: Media = "application/json"
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    query: dict[str, str] | None = None
    is_open: bool = False


_VERBOSE = {"verbose": "Answer in JSON, with each check."}
_NOT_READY = "Draining, starting, or the state cannot be used."
_SPREAD = {
    200: "Done, in all workers.",
    202: "Done here; as many workers as `unheard` says have not confirmed it in time.",
}

OPERATIONS: tuple[AdminOperation, ...] = (
    AdminOperation(
        "GET", "/-/live", "live", "Whether the process runs.", {200: "It does."}, "text/plain",
        query=_VERBOSE, is_open=True,
    ),
    AdminOperation(
        "GET", "/-/ready", "ready", "Whether requests are to be sent here.", {200: "Ready.", 503: _NOT_READY},
        "text/plain", query=_VERBOSE, is_open=True,
    ),
    AdminOperation(
        "GET", "/-/started", "is_started", "Whether the gateway has begun to take requests.",
        {200: "It has.", 503: "It has not."}, "text/plain", query=_VERBOSE, is_open=True,
    ),
    AdminOperation(
        "GET", "/metrics", "show_metrics", "The metrics, for Prometheus.", {200: "The metrics."}, "text/plain"
    ),
    AdminOperation(
        "GET", "/-/config", "config", "The configuration that runs, without secrets.",
        {200: "It, its hash, the last error, and what needs a restart."},
    ),
    AdminOperation("GET", "/-/agents", "agents", "The agents: cards, health, replicas.", {200: "The agents."}),
    AdminOperation(
        "POST", "/-/route", "route", "Where a request would go, and why.",
        {200: "The agent or the reason of the refusal.", 400: "This is no question.", 413: "It is too long."},
        body=Inquiry,
    ),
    AdminOperation(
        "POST", "/-/reload", "reload", "Read the configuration again, in all workers.",
        {
            200: "Applied or unchanged.",
            202: "Some workers have not answered in time.",
            409: "The configuration comes from no file.",
            422: "Refused: the problems.",
        },
    ),
    AdminOperation(
        "POST", "/-/drain", "drain",
        "Prepare for the end: `/-/ready` is 503 and connections end with their next answer, until SIGTERM.", _SPREAD,
    ),
    AdminOperation("GET", "/-/log-level", "log_level", "The level of the own log.", {200: "It."}, answer=LogLevel),
    AdminOperation(
        "PUT", "/-/log-level", "set_log_level", "Change the level of the own log until the next start.",
        {**_SPREAD, 400: "This is no level.", 413: "It is too long."}, body=LogLevel,
    ),
    AdminOperation("GET", "/-/openapi.json", "openapi", "This document.", {200: "It."}),
    AdminOperation(
        "GET", "/-/requests", "requests", "The last requests of this process.", {200: "Their log lines."},
        query={"agent": "Of this agent only.", "tenant": "Of this tenant only.", "status": "With this status only."},
    ),
    AdminOperation(
        "GET", "/-/requests/tail", "tail", "The requests of this process as they end.",
        {200: "An event for each.", 503: "Too many follow."}, "text/event-stream",
        query={"agent": "Of this agent only.", "tenant": "Of this tenant only.", "status": "With this status only."},
    ),
    AdminOperation(
        "POST", "/-/try/{agent}", "try_it", "Send a message to an agent, as the page does.",
        {
            200: "The agent's answer.",
            400: "This is no message.",
            403: "Not from the page, or the tenant may not be acted for.",
            404: "There is no such agent.",
            413: "It is too long.",
        },
        body=TryItMessage,
    ),
    AdminOperation("GET", "/", "index", "The catalog page.", {200: "The page."}, "text/html"),
    AdminOperation(
        "GET", "/agent", "agent", "The page of one agent.", {200: "The page.", 404: "There is no such agent."},
        "text/html", query={"name": "Its name."},
    ),
    AdminOperation("GET", "/routes", "explorer", "The page that explains routes.", {200: "The page."}, "text/html"),
    AdminOperation("GET", "/live", "live_page", "The page of the last requests.", {200: "The page."}, "text/html"),
    AdminOperation(
        "POST", "/logout", "sign_out", "End the session of this browser.", {303: "To the catalog page."}, "text/html"
    ),
    *(
        AdminOperation(
            "GET", f"/{name}", "asset", "A file of the page.", {200: "The file."}, "text/plain", is_open=True
        )
        for name in ASSETS
    ),
)  # fmt: skip


@cache
def document() -> bytes:
    """Return the OpenAPI 3.1 document."""
    types = {LogLevel, *(each.body for each in OPERATIONS if each.body is not None)}
    _, schemas = msgspec.json.schema_components(types, ref_template=_SCHEMA)
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "A2A gateway, admin listener", "version": __version__},
            "security": [{"token": []}, {"session": []}, {}],
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "description": "`gateway.admin.token`, if set."},
                    "session": {"type": "apiKey", "in": "cookie", "name": "a2a_gateway_admin"},
                },
            },
        }
    )


def _operation(each: AdminOperation) -> dict[str, Any]:
    answers: dict[str, dict[str, Any]] = {str(status): {"description": words} for status, words in each.answers.items()}
    schema = {"$ref": _SCHEMA.format(name=each.answer.__name__)} if each.answer is not None else {}
    answers[str(next(iter(each.answers)))]["content"] = {each.media: {"schema": schema}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": words, "schema": {"type": "string"}}
        for name, words in (each.query or {}).items()
    ]
    if "{agent}" in each.path:
        parameters.append({"name": "agent", "in": "path", "required": True, "schema": {"type": "string"}})
    found: dict[str, Any] = {
        "operationId": each.name if each.name != "asset" else f"asset_{each.path[1:]}",
        "summary": each.summary,
        "responses": answers,
    }
    if each.is_open:
        found["security"] = []
    else:
        answers["401"] = {"description": "Show the admin token, or a certificate where one is required."}
    if parameters:
        found["parameters"] = parameters
    if each.body is not None:
        body = {"$ref": _SCHEMA.format(name=each.body.__name__)}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found
