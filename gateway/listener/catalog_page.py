"""The catalog page of the admin listener: handlers that render what `view` reads.

Lists, search, explanations and filters work
without a script; trying an agent, copying and following live need it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from gateway.backend.backend import Backend
from gateway.catalog.render import ASSETS, HEADERS, HTML, page
from gateway.config.routes import Inquiry, explain_request
from gateway.policy.limits import Limits
from gateway.proxy import catalog_view as view
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import RecentRequests

PAGES = frozenset({"/", "/agent", "/routes", "/live"})
"""Paths that a person opens in a browser."""
MOST_FOLLOWERS = 32
"""Browsers that follow the requests at a time; each one is written to with every request."""
_HEARTBEAT = 15.0
"""Seconds of silence after which a follower gets a comment, so that no proxy closes the connection."""
FILES = frozenset(f"/{name}" for name in ASSETS)
"""Paths of the static files."""


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
        limits: Limits,
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
        """Return what serves the operations of the page, by their names in `admin_api`."""
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
        signs_in = snapshot.config.auth is not None
        # The directory is read on the loop, which changes it.
        values: dict[str, Any] = {
            "entry": entry,
            "addresses": addresses,
            "card": view.served_card(first, addresses[0], rule, tenant=rule.tenant),
            "sanitized": first.source.sanitized,
            "backends": [self._describe(key, each) for key, each in backends.items()],
            "usage": view.usage_of(self._limits, list(backends), entry.tenants, time.monotonic()),
            "routes": view.routes_to(snapshot, name, entry.tenants, addresses[0]),
            "ranks": view.ranks_of(snapshot, name, entry.skills),
            "calls": view.snippets(addresses[0], signs_in=signs_in),
            "with_message": view.with_message,
            "example": next((text for skill in entry.skills for text in skill.examples), "Hello"),
            "tenants": [tenant for tenant in snapshot.table.reach if tenant not in ("*", "anonymous")],
            "may_act_as": self._may_act_as,
            "signs_in": signs_in,
            "requests": [view.row(each) for each in self._filtered({"agent": name})][:10],
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
                answer = explain_request(snapshot.config, snapshot.table, _inquiry(written), ranking=snapshot.directory)
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
        rows = [view.row(each) for each in self._filtered(query)]
        snapshot = self._current()
        tenants = [tenant for tenant in snapshot.table.reach if tenant != "*"]
        return self._render(
            "live.html", here="live", rows=rows, query=query, agents=sorted(snapshot.table.agents), tenants=tenants
        )

    async def requests(self, request: Request) -> Response:
        """Return the last requests, the newest first, as JSON."""
        rows = [view.row(each) for each in self._filtered(request.query_params)]
        return JSONResponse({"requests": rows}, headers={"Cache-Control": "no-store"})

    def _filtered(self, query: Mapping[str, str]) -> list[Any]:
        return [each for each in reversed(self._recent.since()) if view.matches(each, query)]

    async def tail(self, request: Request) -> Response:
        """Follow the requests as server-sent events, from now on, or behind the `since` of the query."""
        if self._recent.followers >= MOST_FOLLOWERS:
            return PlainTextResponse("too many browsers follow already\n", status_code=503)
        query = dict(request.query_params)
        # A browser that reconnects says which event was its last.
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


_EVENTS = "text/event-stream"


def _inquiry(written: Mapping[str, str]) -> Inquiry:
    """Return the question of the form.

    Raises:
        msgspec.DecodeError: the claims are no JSON object.
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
