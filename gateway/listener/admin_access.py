"""Access to the admin listener: the token, sessions, client certificates, and requests that other sites cause.

A browser cannot send a bearer token when it opens a page. The sign-in form takes the admin token and answers with a
cookie: the end of the session and its MAC under the token. No state is kept, so any worker can verify it, and another
token ends all sessions.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

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

Check = Callable[[Request], ASGIApp | None]
"""Returns the answer that refuses a request, or None if it may pass."""


def guarded(app: ASGIApp, token: str | None, *, certified: bool) -> ASGIApp:
    """Return an application that serves only requests which may use the admin listener.

    Args:
        token: The bearer token that requests must have; None for a loopback listener, or with `certified`.
        certified: Whether a request must come with a client certificate.
    """
    checks: list[Check] = [_check_certificate] if certified else []
    if token is not None:
        checks.append(TokenCheck(token))
    elif not certified:
        checks.append(_check_host)
    return _Guarded(app, [*checks, _check_origin])


class _Guarded:
    """Serves the requests that pass all checks."""

    def __init__(self, app: ASGIApp, checks: Sequence[Check]) -> None:
        self._app = app
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refusals = (check(request) for check in self._checks)
        await next((each for each in refusals if each is not None), self._app)(scope, receive, send)


def _check_certificate(request: Request) -> ASGIApp | None:
    """Let requests with a valid client certificate pass, and those for health."""
    certificate: Certificate | None = request.scope["state"]["certificate"]
    # Connections outlast certificates and authorities.
    is_valid = certificate is not None and not certificate.void and _now() < certificate.expires
    if is_valid or request.scope["path"] in HEALTH_PATHS:
        return None
    return PlainTextResponse("connect with a client certificate\n", status_code=401)


def _check_host(request: Request) -> ASGIApp | None:
    """Let only requests for a loopback name pass, if there is no other protection of the port.

    A page in an operator's browser can let its own name resolve to 127.0.0.1; its requests still have that name.
    """
    name = host_name(request.headers.get("host", "").encode("latin-1")) or ""
    if request.scope["path"] in HEALTH_PATHS or is_loopback(name.strip("[]")):
        return None
    return PlainTextResponse("ask by a loopback address, or set gateway.admin.token\n", status_code=421)


def _check_origin(request: Request) -> ASGIApp | None:
    """Refuse requests with an effect that another site makes a browser send.

    Browsers name the source of a request in `Sec-Fetch-Site`, older ones in `Origin`. Programs send neither.
    """
    headers = request.headers
    if request.method in _SAFE:
        return None
    if (site := headers.get("sec-fetch-site")) is not None:
        is_own = site in ("same-origin", "none")
    else:
        origin = headers.get("origin")
        is_own = origin is None or urlsplit(origin).netloc == headers.get("host")
    return None if is_own else PlainTextResponse("another site may not do this\n", status_code=403)


class TokenCheck:
    """Requires the admin token for every path except health and the files of the page.

    Programs send it as bearer token, browsers send the cookie of their session.

    Args:
        token: The admin token.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __call__(self, request: Request) -> ASGIApp | None:
        """Return the answer that refuses a request, or None if it may pass."""
        path, method = request.scope["path"], request.method
        if path in HEALTH_PATHS or (path in FILES and method == "GET") or self._has_token(request):
            return None
        if path in PAGES and method == "GET" and "text/html" in request.headers.get("accept", ""):
            query = request.url.query
            wanted = f".{path}?{query}" if query else f".{path}"
            return render("login.html", status=401, wanted=_page(wanted), wrong=False)
        if path == "/" and method == "POST" and request.headers.get("content-type") == _FORM:
            return _check_origin(request) or request_response(self._sign_in)
        return PlainTextResponse(
            "show the admin token\n", status_code=401, headers={"WWW-Authenticate": 'Bearer realm="admin"'}
        )

    def _has_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._is_token(token.encode("latin-1"))
        return self._is_session(request.cookies.get(COOKIE, ""))

    async def _sign_in(self, request: Request) -> Response:
        """Answer the form with a cookie and the wanted page, or with the form again."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        wanted = _page(form.get("next", ["./"])[0])
        if not self._is_token(form.get("token", [""])[0].encode()):
            return render("login.html", status=401, wanted=wanted, wrong=True)
        end = str(int(_now()) + LASTS)
        answer = RedirectResponse(wanted, 303)
        _set_cookie(answer, request, f"{end}.{self._mac(end)}", LASTS)
        return answer

    def _is_token(self, token: bytes) -> bool:
        return hmac.compare_digest(token, self._token)

    def _is_session(self, cookie: str) -> bool:
        """Return whether a cookie was issued here and has not ended."""
        end, _, mac = cookie.partition(".")
        if not (end.isascii() and end.isdigit() and len(end) < 12):
            return False
        return hmac.compare_digest(mac.encode(), self._mac(end).encode()) and int(end) > _now()

    def _mac(self, end: str) -> str:
        return hmac.new(self._token, b"session of the admin page until " + end.encode(), hashlib.sha256).hexdigest()


async def sign_out(request: Request) -> Response:
    """End the session of this browser."""
    answer = RedirectResponse("./", 303)
    _set_cookie(answer, request, "", 0)
    return answer


def _set_cookie(answer: Response, request: Request, value: str, seconds: int) -> None:
    # Without a path the cookie is for the folder of the page, also where a proxy adds a prefix. A proxy in front may
    # terminate TLS; browsers send the origin with every POST.
    secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    answer.set_cookie(COOKIE, value, seconds, path=None, httponly=True, samesite="strict", secure=secure)


def _page(wanted: str) -> str:
    """Return the relative URL of a page of the gateway; that of the list for anything else."""
    path, mark, query = wanted.partition("?")
    return f"{path}{mark}{query}" if path in {f".{page}" for page in PAGES} and wanted.isprintable() else "./"


def _now() -> float:
    return time.time()  # noqa: TID251 - sessions and certificates have an end
