"""The sign-in of people at the admin listener, and the refusal of what other sites have their browsers send.

A browser cannot show a bearer token when it opens a page. The sign-in form takes the admin token and answers with a
cookie, which holds the end of the session and its MAC under the token: no state is kept, any worker can verify it, and
another token ends all sessions.
"""

import hashlib
import hmac
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.catalog.page import PAGES, render

COOKIE = "a2a_gateway_admin"
LASTS = 12 * 3600
"""Seconds of a session."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Sessions:
    """Issues and verifies the cookies of sessions.

    Args:
        token: The admin token.
        clock: Unix seconds.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:  # noqa: TID251 - sessions have an end
        self._token = token.encode()
        self._clock = clock

    def is_token(self, shown: bytes) -> bool:
        """Return whether this is the admin token."""
        return hmac.compare_digest(shown, self._token)

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
        """Answer the form: a cookie and the page that was asked for, or the form again."""
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
    """Return a relative URL of a page of ours; the list for anything else."""
    path, mark, query = wanted.partition("?")
    return f"{path}{mark}{query}" if path in {f".{page}" for page in PAGES} and wanted.isprintable() else "./"


def _is_secure(request: Request) -> bool:
    # A proxy in front may speak TLS; the browser tells in every post.
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")


class SameOrigin:
    """Refuses requests with an effect that another site has a browser send.

    Browsers say where a request comes from: by `Sec-Fetch-Site`, and where that is not sent by `Origin`. Programs say
    neither.
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
    """Return whether a browser says that a page of another origin made a request."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
