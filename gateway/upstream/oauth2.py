"""Access tokens for agents, from the token endpoint of an authorization server.

| grant | source | tokens |
|---|---|---|
| client credentials | RFC 6749 §4.4 | one, the gateway's own |
| token exchange | RFC 8693 §2 | one per token of a caller, filed under its SHA-256 |

A token is kept until shortly before it expires, and in its last fifth a new one is fetched while it still serves. Calls
that need the same token at the same time wait for one request. An exchanged token never outlives the caller's token.

After a failure the next request waits 1 s, then twice as long each time, up to 30 s; calls in between fail at once. The
pause is for one caller's token if the endpoint answered, and for all of them if it did not answer or is busy: a caller
cannot stop the exchange for others.

The endpoint is trusted with secrets, but not with memory and time: the size of an answer and the time for it are
bounded, no redirect is followed, no cookie is kept, and only known error codes of its answers are logged.
"""

import asyncio
import base64
import hashlib
import json
import logging
import random
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import astuple, dataclass, field
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ssl import SSLContext
from typing import Final, Literal, cast
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec

from gateway.a2a.fault import UpstreamAuthFailed
from gateway.background import Background
from gateway.telemetry.tls_failure import kind

DEADLINE: Final = 10.0
"""Seconds for one token request, with its wait for a turn."""
CONNECT: Final = 3.0
"""Seconds for connecting, and for the TLS handshake: much less than the deadline, which cancels. httpcore 1.0.9 closes
the socket of a handshake that takes longer than httpx allows, and leaves that of a cancelled one open."""
LARGEST: Final = 64 * 1024
"""Bytes of the longest answer of a token endpoint."""
MOST_KEPT: Final = 4096
"""Most exchanged tokens that are kept; the one that was used last is dropped last."""
LONGEST_TOKEN: Final = 16 * 1024

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_CONCURRENT: Final = 32
"""Token requests at the same time; only exchanges can be several."""
_UNSAID: Final = 300.0
"""Seconds for which a token is kept where the answer does not say (RFC 6749 §5.1 only recommends it)."""
_LONGEST_LIFE: Final = 86_400.0
_SPARE: Final = 60.0
_LAST: Final = 5.0
"""Most seconds before its end at which a token is replaced, and at which it is not sent any more."""
_ONCE: Final = 30.0
"""Seconds after a refusal by the agent in which another one drops no token: an agent that refuses all of them must not
turn each call into a token request."""

# RFC 6750 §2.1 allows fewer characters; none of these ends a header.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name of RFC 8693 §3
_CODES: Final = frozenset(
    {
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope", "invalid_target", "access_denied", "temporarily_unavailable", "server_error",
    }
)  # fmt: skip
"""Error codes of RFC 6749 §5.2 and RFC 8693 §2.2.2 that may be logged; any other text could hold a secret."""

logger = logging.getLogger("gateway.upstream.oauth2")


@dataclass(frozen=True, slots=True)
class TokenSpec:
    """The configuration of one source of tokens; see `config.agent.TokenEndpoint`.

    Attributes:
        exchanges: Whether callers' tokens are exchanged, instead of getting one for the gateway.
    """

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    client_auth: Literal["basic", "post"] = "basic"
    scopes: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()
    resource: tuple[str, ...] = ()
    exchanges: bool = False

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the whole specification, for a name without secrets."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Subject:
    """The token of a caller, which the gateway has verified.

    Attributes:
        expires: Its `exp`, in Unix seconds.
    """

    token: str = field(repr=False)
    expires: float


@dataclass(slots=True)
class _Pause:
    """A back-off that doubles with each failure.

    Attributes:
        until: Monotonic seconds at which it is over.
    """

    failures: int = 0
    until: float = 0.0
    why: str = ""

    def begin(self, now: float, why: str, at_least: float) -> None:
        # Up to a quarter shorter at random, so that a fleet of gateways does not ask in step.
        backoff = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures, 10))
        backoff *= 1 - random.random() / 4  # noqa: S311 - no secret
        self.failures += 1
        self.until = now + max(backoff, min(at_least, _LONGEST_PAUSE))
        self.why = why


@dataclass(slots=True, eq=False)
class _Entry:
    """One token, and how it is replaced; times are monotonic seconds.

    Attributes:
        renew_at: When the next one is fetched in the background.
        ends_at: When it is not sent any more.
        refused_at: When the agent refused one last.
        flight: The open token request; its result is the token, or the failure with the time of the next request.
    """

    token: str = field(default="", repr=False)
    renew_at: float = 0.0
    ends_at: float = 0.0
    refused_at: float = -_ONCE
    pause: _Pause = field(default_factory=_Pause)
    flight: "asyncio.Future[_Granted | _NoToken] | None" = None


class _NoToken(Exception):  # noqa: N818 - it ends a request, it is no programming error
    """There is no token; the message is for the log.

    Attributes:
        shared: Whether it concerns every request to the endpoint.
        retry_after: Seconds that the endpoint asks to wait.
    """

    def __init__(self, why: str, *, shared: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(why)
        self.shared = shared
        self.retry_after = retry_after


@dataclass(slots=True)
class _Granted:
    """A successful answer (RFC 6749 §5.1, RFC 8693 §2.2.1)."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int | float | str | None = None


class _Refused(msgspec.Struct):
    """An error answer (RFC 6749 §5.2)."""

    error: str = ""


def _client(tls: SSLContext) -> httpx.AsyncClient:
    """Return a client that ignores proxies and certificates of the environment, and follows no redirect.

    It keeps no cookie, which could belong to the session of one caller.
    """
    return httpx.AsyncClient(
        verify=tls,
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(DEADLINE, connect=CONNECT),
        limits=httpx.Limits(max_connections=_CONCURRENT, max_keepalive_connections=4),
        headers={"User-Agent": "a2a-gateway", "Accept": "application/json", "Accept-Encoding": "identity"},
    )


_UNREADABLE = 60.0
"""Seconds after which a client may try again whose agent's credential cannot be read."""


class NoToken:
    """A credential that cannot be read: each call that needs it fails.

    Args:
        why: For operators.
    """

    spec = TokenSpec("", "", "")

    def __init__(self, why: str) -> None:
        self._why = why

    async def pair(self, subject: Subject | None = None) -> tuple[bytes, bytes]:  # noqa: ARG002 - as TokenSource
        """Raise UpstreamAuthFailed."""
        raise _failed(self._why, _UNREADABLE)

    def refused(self, shown: tuple[bytes, bytes], subject: Subject | None = None) -> bool:  # noqa: ARG002 - as above
        """Return that there is no other one."""
        return False


class TokenSource:
    """Tokens of one specification, shared by all agents that have it.

    Args:
        tls: The TLS context that verifies the endpoint.
        clock: Monotonic seconds.
        wall: Unix seconds, by which callers' tokens expire.
    """

    def __init__(
        self,
        spec: TokenSpec,
        tls: SSLContext,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - `exp` is a wall-clock time
    ) -> None:
        self.spec = spec
        self._http = _client(tls)
        self._clock = clock
        self._wall = wall
        self._own = _Entry()
        self._exchanged: OrderedDict[bytes, _Entry] = OrderedDict()
        self._pause = _Pause()
        self._turns = asyncio.Semaphore(_CONCURRENT)
        self._requests = Background()

    @property
    def kept(self) -> int:
        """Return the number of exchanged tokens that are kept."""
        return len(self._exchanged)

    async def token(self, subject: Subject | None = None) -> str:
        """Return a token for the agent, from the cache or from the endpoint.

        Args:
            subject: The caller's token where it is exchanged; else None.

        Raises:
            UpstreamAuthFailed: There is none.
        """
        entry = self._entry(subject)
        now = self._clock()
        if now < entry.ends_at:
            if now >= entry.renew_at and entry.flight is None and now >= self._blocked(entry).until:
                self._begin(entry, subject)
            return entry.token
        flight = entry.flight
        if flight is None:
            blocked = self._blocked(entry)
            if now < blocked.until:
                raise _failed(blocked.why, blocked.until - now)
            flight = self._begin(entry, subject)
        # A caller that leaves must not cancel the request of the others.
        await asyncio.wait((flight,))
        # Not the entry's token: another caller may have had it refused by now.
        found = flight.result()
        if isinstance(found, _NoToken):
            raise _failed(str(found), found.retry_after)
        return found.access_token

    async def pair(self, subject: Subject | None = None) -> tuple[bytes, bytes]:
        """Return the header that shows a token; raises as `token`."""
        return b"authorization", b"Bearer " + (await self.token(subject)).encode("ascii")

    def refused(self, shown: tuple[bytes, bytes], subject: Subject | None = None) -> bool:
        """Drop the token that an agent has refused; return whether another one may be had for a second try.

        Args:
            shown: As `pair` returned it; a newer token stays.
        """
        entry = self._own if subject is None else self._exchanged.get(_key(subject))
        if entry is None or shown[1] != b"Bearer " + entry.token.encode("ascii"):
            return True
        now = self._clock()
        if now - entry.refused_at < _ONCE:
            return False
        entry.refused_at = now
        entry.token, entry.renew_at, entry.ends_at = "", 0.0, 0.0
        return True

    async def aclose(self) -> None:
        """End the open requests, and close the connections."""
        await self._requests.aclose()
        await self._http.aclose()

    def _entry(self, subject: Subject | None) -> _Entry:
        if subject is None:
            assert not self.spec.exchanges
            return self._own
        key = _key(subject)
        entry = self._exchanged.setdefault(key, _Entry())
        self._exchanged.move_to_end(key)
        if len(self._exchanged) > MOST_KEPT:
            self._exchanged.popitem(last=False)
        return entry

    def _blocked(self, entry: _Entry) -> _Pause:
        """Return the pause that ends last: the entry's own, or the one of the endpoint."""
        return max(entry.pause, self._pause, key=lambda pause: pause.until)

    # ---- One request ---------------------------------------------------------------------------------------------

    def _begin(self, entry: _Entry, subject: Subject | None) -> "asyncio.Future[_Granted | _NoToken]":
        # A task of its own: the call that came first may be cancelled, and others wait for the same token.
        flight = entry.flight = asyncio.get_running_loop().create_future()
        self._requests.start("token request", partial(self._request, entry, flight, subject))
        return flight

    async def _request(
        self, entry: _Entry, flight: "asyncio.Future[_Granted | _NoToken]", subject: Subject | None
    ) -> None:
        found: _Granted | _NoToken = _NoToken("the gateway stops", retry_after=_FIRST_PAUSE)
        try:
            granted = found = await self._ask(subject)
        except _NoToken as error:
            found = self._missed(entry, error)
        except Exception:
            # Raised again, it would repeat the request without end.
            logger.exception("a token request failed")
            found = self._missed(entry, _NoToken("internal error", shared=True))
        else:
            self._keep(entry, granted, subject)
        finally:
            entry.flight = None
            flight.set_result(found)

    def _missed(self, entry: _Entry, failure: _NoToken) -> _NoToken:
        """Begin a pause; return the failure with the seconds until the next request may be made."""
        pause, why, now = self._pause if failure.shared else entry.pause, str(failure), self._clock()
        # A failure of one caller's token is in the access line of its own call.
        if pause.why != why and (failure.shared or entry is self._own):
            logger.warning("no token from %s: %s", _place(self.spec.token_url), why)
        pause.begin(now, why, failure.retry_after)
        return _NoToken(why, retry_after=pause.until - now)

    def _keep(self, entry: _Entry, granted: _Granted, subject: Subject | None) -> None:
        if self._pause.failures or (entry is self._own and entry.pause.failures):
            logger.info("%s gives tokens again", _place(self.spec.token_url))
        self._pause, entry.pause = _Pause(), _Pause()
        life = _life(granted.expires_in)
        if subject is not None:
            life = min(life, subject.expires - self._wall())
        now = self._clock()
        entry.token = granted.access_token
        entry.renew_at = now + life - min(_SPARE, life / 5)
        entry.ends_at = now + life - min(_LAST, life / 10)

    async def _ask(self, subject: Subject | None) -> _Granted:
        """Return the answer of the token endpoint.

        Raises:
            _NoToken: It gives none.
        """
        has_turn = False
        try:
            async with asyncio.timeout(DEADLINE), self._turns:
                has_turn = True
                status, retry_after, body = await self._post(subject)
        except TimeoutError:
            raise _NoToken(f"no answer within {DEADLINE:g} s", shared=has_turn) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            # The kind only: the text can hold text of the peer.
            why = kind(error, connecting=isinstance(error, httpx.ConnectError))
            raise _NoToken(f"not reached: {why}", shared=True) from None
        if status != 200:
            code = _code(body)
            answered = f"status {status} ({code})" if code else f"status {status}"
            raise _NoToken(answered, shared=status in (429, 503), retry_after=retry_after)
        return _granted(body)

    async def _post(self, subject: Subject | None) -> tuple[int, float, bytes]:
        """Return the status, the seconds of `Retry-After`, and the body."""
        spec = self.spec
        url = spec.token_url
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        form = _form(spec, subject)
        if spec.client_auth == "basic":
            # RFC 6749 §2.3.1: both are encoded as in a form first.
            pair = f"{quote_plus(spec.client_id)}:{quote_plus(spec.client_secret)}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form += [("client_id", spec.client_id), ("client_secret", spec.client_secret)]
        async with self._http.stream("POST", url, content=urlencode(form).encode(), headers=headers) as answer:
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise _NoToken("the answer is compressed")
            body = bytearray()
            # httpx declares less than it returns: closing needs the generator.
            async with aclosing(cast("AsyncGenerator[bytes, None]", answer.aiter_raw())) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > LARGEST:
                        raise _NoToken(f"the answer is longer than {LARGEST} bytes")
        after = answer.headers.get("retry-after", "")
        return answer.status_code, float(after[:4]) if after.isdecimal() and after.isascii() else 0.0, bytes(body)


def _key(subject: Subject) -> bytes:
    return hashlib.sha256(subject.token.encode()).digest()


def _form(spec: TokenSpec, subject: Subject | None) -> list[tuple[str, str]]:
    if subject is None:
        form = [("grant_type", "client_credentials")]
    else:
        form = [
            ("grant_type", _GRANT),
            ("subject_token", subject.token),
            ("subject_token_type", _ACCESS_TOKEN),
            ("requested_token_type", _ACCESS_TOKEN),
        ]
    form += [("scope", " ".join(spec.scopes))] if spec.scopes else []
    form += [("audience", each) for each in spec.audience]
    return form + [("resource", each) for each in spec.resource]


def _granted(body: bytes) -> _Granted:
    try:
        granted = msgspec.json.decode(body, type=_Granted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _NoToken("the answer is no token response") from None
    # RFC 6749 §7.1: a client must not use a token of a type that it does not know.
    if granted.token_type.lower() != "bearer":
        raise _NoToken("the token is no bearer token")
    if len(granted.access_token) > LONGEST_TOKEN or _TOKEN.fullmatch(granted.access_token) is None:
        raise _NoToken("the token is empty, too long, or has characters that a token cannot have")
    return granted


def _life(written: float | str | None) -> float:
    """Return the seconds for which a token is good; some servers write them as text."""
    if isinstance(written, str):
        written = int(written) if re.fullmatch(r"[0-9]{1,9}", written, re.ASCII) else 0
    return _UNSAID if written is None else float(min(max(written, 0.0), _LONGEST_LIFE))


def _code(body: bytes) -> str:
    try:
        code = msgspec.json.decode(body, type=_Refused).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return code if code in _CODES else ""


def _place(url: str) -> str:
    """Return the host of the endpoint; its path and query may hold secrets."""
    # Not httpx's own reading, which raises for hosts that it cannot encode.
    return urlsplit(url).hostname or ""


def _failed(why: str, retry_after: float) -> UpstreamAuthFailed:
    return UpstreamAuthFailed(
        "the gateway cannot get a credential for the agent; try again later", detail=why, retry_after=retry_after
    )
