"""Access to the admin listener: the token, sessions, client certificates, and requests that other sites cause.

A browser cannot send a bearer token when it opens a page. The sign-in form takes the admin token and answers with a
cookie: the end of the session and its MAC under the token. No state is kept, so any worker can verify it, and another
token ends all sessions.
"""

import hashlib
import hmac
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.listener.catalog_page import FILES, PAGES, render
from gateway.listener.request_parser import host_name
from gateway.network.address import is_loopback
from gateway.principal import Certificate

HEALTH_PATHS = frozenset({"/-/live", "/-/ready", "/-/started"})
"""Paths that need no credential, because probes have none."""
COOKIE = "a2a_gateway_admin"
LASTS = 12 * 3600
"""Seconds of a session."""
_FORM = "application/x-www-form-urlencoded"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def guarded(app: ASGIApp, token: str | None, *, certified: bool) -> ASGIApp:
    """Return an application that serves only requests which may use the admin listener.

    Args:
        token: The bearer token that requests must have; None for a loopback listener, or with `certified`.
        certified: Whether a request must come with a client certificate.
    """
    app = SameOrigin(app)
    if token is not None:
        app = _Guard(app, token)
    elif not certified:
        app = _Local(app)
    return _Certified(app) if certified else app


class Sessions:
    """Issues and verifies the cookies of sessions.

    Args:
        token: The admin token.
        clock: Unix seconds.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:  # noqa: TID251 - sessions have an end
        self._token = token.encode()
        self._clock = clock

    def is_token(self, token: bytes) -> bool:
        """Return whether this is the admin token."""
        return hmac.compare_digest(token, self._token)

    def issue(self) -> str:
        """Return the value of a new cookie."""
        end = str(int(self._clock()) + LASTS)
        return f"{end}.{self._mac(end)}"

    def is_valid(self, cookie: str) -> bool:
        """Return whether a cookie was issued here and has not ended."""
        end, _, mac = cookie.partition(".")
        if not (end.isascii() and end.isdigit() and len(end) < 12):
            return False
        return hmac.compare_digest(mac.encode(), self._mac(end).encode()) and int(end) > self._clock()

    def _mac(self, end: str) -> str:
        return hmac.new(self._token, b"session of the admin page until " + end.encode(), hashlib.sha256).hexdigest()

    # ---- The form --------------------------------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        """Answer the form with a cookie and the wanted page, or with the form again."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        wanted = form.get("next", ["./"])[0]
        if not self.is_token(form.get("token", [""])[0].encode()):
            return render("login.html", status=401, wanted=_page(wanted), wrong=True)
        answer = RedirectResponse(_page(wanted), 303)
        # Without a path the cookie is for the folder of the page, also where a proxy adds a prefix.
        answer.set_cookie(
            COOKIE, self.issue(), LASTS, path=None, httponly=True, samesite="strict", secure=_is_secure(request)
        )
        return answer

    def ask(self, request: Request) -> Response:
        """Return the form."""
        query = request.url.query
        wanted = "." + request.scope["path"] + (f"?{query}" if query else "")
        return render("login.html", status=401, wanted=_page(wanted), wrong=False)


async def sign_out(request: Request) -> Response:
    """End the session of this browser."""
    answer = RedirectResponse("./", 303)
    answer.set_cookie(COOKIE, "", 0, path=None, httponly=True, samesite="strict", secure=_is_secure(request))
    return answer


def _page(wanted: str) -> str:
    """Return the relative URL of a page of the gateway; that of the list for anything else."""
    path, mark, query = wanted.partition("?")
    return f"{path}{mark}{query}" if path in {f".{page}" for page in PAGES} and wanted.isprintable() else "./"


def _is_secure(request: Request) -> bool:
    # A proxy in front may terminate TLS; browsers send the origin with every POST.
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")


class SameOrigin:
    """Refuses requests with an effect that another site makes a browser send.

    Browsers name the source of a request in `Sec-Fetch-Site`, older ones in `Origin`. Programs send neither.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and scope["method"] not in _SAFE and is_foreign(Headers(scope=scope)):
            refusal = PlainTextResponse("another site may not do this\n", status_code=403)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_foreign(headers: Headers) -> bool:
    """Return whether the headers name a page of another origin as the source of the request."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


class _Guard:
    """Requires the admin token for every path except health and the files of the page.

    Programs send it as bearer token, browsers send the cookie of their session.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._sessions = Sessions(token)
        self._sign_in = SameOrigin(request_response(self._sessions.sign_in))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path, method = scope["path"], scope["method"]
        is_open = path in HEALTH_PATHS or (path in FILES and method == "GET")
        if is_open or self._has_token(request):
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

    def _has_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._sessions.is_token(token.encode("latin-1"))
        return self._sessions.is_valid(request.cookies.get(COOKIE, ""))


class _Local:
    """Serves requests for a loopback name alone, if nothing else protects the port.

    A page in an operator's browser can let its own name resolve to 127.0.0.1; its requests still have that name.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Request(scope).headers.get("host", "")
        name = host_name(host.encode("latin-1")) or ""
        if scope["path"] in HEALTH_PATHS or is_loopback(name.strip("[]")):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse("ask by a loopback address, or set gateway.admin.token\n", status_code=421)
        await refusal(scope, receive, send)


class _Certified:
    """Serves requests with a valid client certificate, and those for health."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        certificate: Certificate | None = scope["state"]["certificate"]
        # Connections outlast certificates and authorities.
        now = time.time()  # noqa: TID251 - certificates end at a date
        is_valid = certificate is not None and not certificate.void and now < certificate.expires
        if is_valid or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        await PlainTextResponse("connect with a client certificate\n", status_code=401)(scope, receive, send)
