"""The card of one backend: fetched in the background, revalidated, the last good one kept.

Agents are not trusted: the size is capped while reading, nothing is decompressed, no redirect is followed, no cookie is
kept, and one deadline covers the whole fetch. A failed fetch changes only `error`; calls never wait for it. Long cards
are parsed in a thread, because that can take a tenth of a second.

With a verifier, a card is used only if its signatures are good; otherwise the last good card stays.

A source is *unread* until its first attempt ends, then *settled*, with a card or without. A card that the agent has not
confirmed for `keep` seconds is *stale* until the next success. A static card is settled and never stale.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ssl import SSLContext
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import httpx

from gateway.a2a.card import MAX_CARD, CardInterface, CardInvalid, is_callable, merge, parse_card, spoken
from gateway.a2a.fault import CardUntrusted, Fault, NoHealthyBackend, UpstreamAuthFailed, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import Discretion, SanitizedCard, sanitize
from gateway.cards.verify import CardVerifier, Verified
from gateway.telemetry.tls_failure import kind
from gateway.upstream.oauth2 import NoToken, TokenSource
from gateway.upstream.outlier_detection import explained

TTL = 600.0
"""Default of the seconds between two successful fetches."""
KEEP = 3600.0
"""Default of the seconds for which the last good card is served without a confirmation."""
DEADLINE = 10.0
"""Default timeout of one request, with the wait for a connection and the whole body."""
_WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")


@dataclass(frozen=True, slots=True)
class CardPlace:
    """The place of a backend's card.

    Attributes:
        backend_url: The backend; the well-known paths are below this URL, path included.
        card_url: Fetched instead, if given: as it is if its path ends in `.json` or it has a query, else first with the
            well-known paths.
        static: The card itself, checked before; nothing is fetched then.
        wrong: Its defects, as `parse_card` reports them.
        declared: Whether the file has the dialect of the agent, so that the card need not.
        credentials: Headers for the agent, sent to the backend's own origin only.
        tokens: The gateway's tokens for the agent, sent there only; or None.
        ttl: Seconds between two successful fetches.
        keep: Seconds for which the last good card is served without a confirmation.
        longest: Bytes of the longest card.
        deadline: Timeout of one request in seconds.
        others: URLs of other replicas, asked in turn when this one has no card.
        server_name: The TLS server name instead of the URL's host, or None.
    """

    backend_url: str
    card_url: str | None = None
    static: Tree | None = None
    wrong: tuple[str, ...] = ()
    declared: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict)
    tokens: TokenSource | NoToken | None = None
    ttl: float = TTL
    keep: float = KEEP
    longest: int = MAX_CARD
    deadline: float = DEADLINE
    others: tuple[str, ...] = ()
    server_name: str | None = None

    def elsewhere(self) -> "CardPlace":
        """Seconds for one attempt if there is another replica."""
        if not self.others:
            return self
        following, *rest = self.others
        return replace(self, backend_url=following, others=(*rest, self.backend_url))

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the URLs to ask, in order; the next one is tried after a 404."""
        if self.card_url is None:
            return tuple(self.backend_url.rstrip("/") + name for name in _WELL_KNOWN)
        parts = urlsplit(self.card_url)
        if parts.query or parts.path.endswith(".json"):
            return (self.card_url,)
        return (*(self.card_url.rstrip("/") + name for name in _WELL_KNOWN), self.card_url)

    @property
    def shown(self) -> str:
        """Return the address for logs, without a query, which may hold a credential."""
        return (self.card_url or self.backend_url).partition("?")[0]


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of a URL (RFC 6454), or the text itself if it is not one."""
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        # Such an address cannot be fetched, so it shares its origin with no other.
        return url, None, None
    return parts.scheme, parts.hostname, port


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """The answer of an agent that was asked for its card over gRPC or stdio.

    Attributes:
        spoken: The versions that it answered to.
        card: The card as JSON, or None if it has none.
        personal: Whether it is only for callers that may use the agent: the extended one, or one for a credential.
    """

    spoken: tuple[CardInterface, ...]
    card: bytes | None
    personal: bool = False


class CardAsker(Protocol):
    """Asks one agent for its card."""

    async def ask(self, deadline: float, longest: int) -> CardAnswer:
        """Ask for the card.

        Args:
            deadline: Timeout of each request in seconds.
            longest: Bytes of the longest card.

        Raises:
            Fault: There is no answer.
            UpstreamProtocol: The answer is not a card, or too long.
        """

    def turn(self) -> None:
        """Use the next replica from now on, if there is one."""


ASIDE = 16 * 1024
"""Bytes from which on a card is parsed in a thread; shorter ones take less than 5 ms."""
READERS = 64
"""Cards that one client fetches at a time."""
_FIRST_RETRY = 1.0
_LONGEST_RETRY = 30.0
NO_CARD = "the agent gives none when it is asked; write one down with `card: { file: … }`"
"""Message for an agent behind gRPC or on stdio without a card."""

logger = logging.getLogger("gateway.cards.fetch")


class CardReport(StrEnum):
    """The result of one attempt to fetch a card; a label of its metric."""

    READ = "read"
    UNCHANGED = "unchanged"
    """304: the current card is confirmed."""
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    """The answer has no card: an error status, a redirect, an encoded body."""
    INVALID = "invalid"
    """The body is not a card."""
    UNUSABLE = "unusable"
    """The card offers no interface that the gateway speaks."""
    UNTRUSTED = "untrusted"
    """The card has a bad signature, or none where one is required."""


@dataclass(frozen=True, slots=True)
class CardWatch:
    """Callbacks for changes of a card; both run on the loop and must not block."""

    on_report: Callable[[CardReport], None] = lambda _report: None
    on_change: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock, sleep and random numbers of a source, which tests replace.

    Attributes:
        clock: Monotonic seconds.
        rest: Sleeps for a number of seconds.
        chance: A number from 0 to 1.
    """

    clock: Callable[[], float] = time.monotonic
    rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


def open_client(verify: SSLContext | bool = True) -> httpx.AsyncClient:  # noqa: FBT001, FBT002 - httpx's own word
    """Return a client that sources share; its owner closes it.

    It ignores proxies and certificates of the environment, follows no redirect, and keeps no cookie (which would go to
    another agent of the same host) and no connection (fetches are minutes apart).
    """
    return httpx.AsyncClient(
        verify=verify,
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(5.0, connect=3.0, pool=DEADLINE),
        limits=httpx.Limits(max_connections=READERS, max_keepalive_connections=0),
        headers={"User-Agent": "a2a-gateway", "Accept": "application/json", "Accept-Encoding": "identity"},
    )


Result = TypeVar("Result")


async def aside(size: int, work: Callable[[], Result]) -> Result:
    """Return the result of `work` on a card of `size` bytes; a large card is worked on in a thread."""
    return work() if size < ASIDE else await asyncio.to_thread(work)


@dataclass(eq=False)
class CardSource:
    """Fetches the card of one backend; `run` keeps it current.

    Attributes:
        discretion: The operator's settings for the card.
        verifier: Verifies the signatures of the card; None for no verification.
        turns: Limits the fetches of all sources with one client. httpx examines all waiting requests whenever one ends,
            so a thousand at once would hold the loop for seconds.
        card: The last good card, or None.
        spoken: Its interfaces, and those over gRPC that the agent answers to; empty while unknown.
        sanitized: The sanitized card for clients, or None.
        version: Grows with each change of `card`, `spoken` or `sanitized`.
        fetched_at: Monotonic seconds of the last confirmation, or None.
        error: Reason of the last failure, for operators only, or None.
        wrong: Members that were left out for their type, as `parse_card` reports them, for operators only.
        report: Result of the last attempt; None before the first one.
        settled: Set when the first attempt has ended.
        personal: Whether it is the extended card for the gateway's credential.
        signed_by: The `kid` of the configured key that has signed the card, or None.
    """

    place: CardPlace
    client: httpx.AsyncClient
    watch: CardWatch = CardWatch()
    discretion: Discretion = field(default_factory=Discretion)
    timing: Timing = Timing()
    asker: CardAsker | None = None
    verifier: CardVerifier | None = None
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    card: Tree | None = field(default=None, init=False)
    spoken: tuple[CardInterface, ...] = field(default=(), init=False)
    sanitized: SanitizedCard | None = field(default=None, init=False)
    version: int = field(default=0, init=False)
    fetched_at: float | None = field(default=None, init=False)
    error: str | None = field(default=None, init=False)
    wrong: tuple[str, ...] = field(default=(), init=False)
    report: CardReport | None = field(default=None, init=False)
    personal: bool = field(default=False, init=False)
    signed_by: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        place = self.place
        self.settled = asyncio.Event()
        self._held: dict[bool, _Held] = {}
        # Whether `card` is the operator's, until the agent returns its own.
        self._begun = False
        if place.card_url is not None:
            # Its URL is always fetched.
            self.asker = None
        if place.static is not None:
            try:
                self.hold(place.static, sanitize(place.static, self.discretion))
            except CardInvalid as error:
                self.error = f"not a card: {error}"
                logger.warning("no card of %s: %s", place.shown, error)
            self.settled.set()
        self._warn(place.wrong)

    @property
    def longest(self) -> int:
        """Return the bytes of the longest card, read or served."""
        return self.place.longest

    @property
    def stale(self) -> bool:
        """Return whether the agent has not confirmed the card for too long."""
        return self.card is not None and self.error is not None and self.age > self.place.keep and not self._begun

    @property
    def is_settled(self) -> bool:
        """Return whether the first attempt has ended."""
        return self.settled.is_set()

    @property
    def age(self) -> float:
        """Return the seconds since the last confirmation; 0 for a static card, `math.inf` without one."""
        if self.place.static is not None:
            return 0.0
        return math.inf if self.fetched_at is None else self.timing.clock() - self.fetched_at

    def begin_with(self, card: Tree) -> None:
        """Serve the operator's card until the agent returns its own.

        Raises:
            CardInvalid: It cannot be served.
        """
        self.hold(card, sanitize(card, self.discretion))
        self._begun = True

    def follow(self, before: "CardSource") -> None:
        """Serve the card of another source until the agent returns its own.

        Raises:
            CardInvalid: It cannot be served.
        """
        if before.card is not None:
            self.begin_with(before.card)
        self.spoken = before.spoken
        self.personal = before.personal

    async def run(self) -> None:
        """Keep the card current until cancelled; return at once for a static card.

        After a failure the pause is 1 s and doubles up to 30 s. Each pause is up to a quarter shorter at random, so
        that agents that failed together are not asked together.
        """
        if self.place.static is not None:
            return
        retry = _FIRST_RETRY
        while True:
            if await self.refresh() in (CardReport.READ, CardReport.UNCHANGED):
                pause, retry = self.place.ttl, _FIRST_RETRY
            else:
                pause, retry = retry, min(retry * 2, _LONGEST_RETRY)
            await self.timing.rest(pause * (1 - self.timing.chance() / 4))

    async def refresh(self) -> CardReport:
        """Fetch the card once; a failure is kept in `error` and never raised."""
        try:
            report = await self._read_somewhere()
            self.error = None
            self.fetched_at = self.timing.clock()
        except _Failed as failure:
            report = failure.report
            if self.error != str(failure):
                logger.warning("no card from %s: %s", self.place.shown, failure)
            self.error = str(failure)
        finally:
            # A cancelled attempt has ended too, and must not block callers that wait for the first one.
            self.settled.set()
        self.report = report
        self.watch.on_report(report)
        return report

    def _warn(self, wrong: tuple[str, ...]) -> None:
        """Log the members that were left out of the last card."""
        if wrong and wrong != self.wrong:
            logger.warning("left out of the card of %s: %s", self.place.shown, "; ".join(wrong))
        self.wrong = wrong

    async def _read_somewhere(self) -> CardReport:
        """Ask the replicas one after the other; the next attempt begins with the one that answered."""
        for _ in self.place.others:
            try:
                return await self._read()
            except _Failed:
                self.place = self.place.elsewhere()
                if self.asker is not None:
                    self.asker.turn()
        return await self._read()

    async def _read(self) -> CardReport:
        if self.asker is not None:
            return await self._ask_for_it(self.asker)
        first = await self._ask_all(modern=True)
        if not first.varies:
            await self._take_called(first.card, first.size, first.wrong)
            self.signed_by = first.signed_by
            return first.report
        # protocol.md §12.1: some agents select the form of the card by A2A-Version, and return 0.3 without it.
        reports = {first.report}
        try:
            reports.add((await self._ask_all(modern=False)).report)
        except _Failed as failure:
            logger.warning("no card of 0.3 from %s: %s", self.place.shown, failure)
        # If the second form cannot be read, the previous one stays in the card; without one, half a card is served.
        second = self._held.get(False)
        if second is None:
            await self._take_called(first.card, first.size, first.wrong)
        else:
            wrong = tuple(dict.fromkeys((*first.wrong, *second.wrong)))
            await self._take_called(merge(first.card, second.card), first.size + second.size, wrong)
        self.signed_by = first.signed_by
        return CardReport.READ if CardReport.READ in reports else CardReport.UNCHANGED

    async def _ask_for_it(self, asker: CardAsker) -> CardReport:
        try:
            answer = await asker.ask(self.place.deadline, self.longest)
        except UpstreamProtocol as fault:
            raise _Failed(CardReport.REFUSED, fault.message) from fault
        except Fault as fault:
            # The detail says why a process does not run; other faults have addresses there.
            runs = not isinstance(fault, NoHealthyBackend) or not fault.detail
            why = explained(fault) if runs else f"{fault.message}: {fault.detail}"
            raise _Failed(CardReport.UNREACHABLE, why) from fault
        before = self.card
        if answer.card is not None:
            longest = self.longest
            body, kid = await self._verified(answer.card)
            wrong: list[str] = []
            try:
                card = await aside(len(body), lambda: parse_card(body, longest=longest, wrong=wrong))
            except CardInvalid as error:
                self._speaks(answer.spoken)
                raise _Failed(CardReport.INVALID, f"not a card: {error}") from error
            self._warn(tuple(wrong))
            self.personal = answer.personal
            await self._take(card, len(body))
            self.signed_by = kid
        self._speaks(answer.spoken)
        if answer.card is None:
            raise _Failed(CardReport.REFUSED, NO_CARD)
        return CardReport.UNCHANGED if self.card is before else CardReport.READ

    async def _verified(self, body: bytes) -> Verified:
        """Return the members of a card that may be used.

        Raises:
            _Failed: Its signatures are bad, or missing.
        """
        if self.verifier is None:
            return Verified(body, None)
        try:
            return await self.verifier.verified(body, self.longest)
        except CardUntrusted as fault:
            raise _Failed(CardReport.UNTRUSTED, f"{fault.reason}: {fault.detail}") from fault

    def _speaks(self, answered: tuple[CardInterface, ...]) -> None:
        """Record the versions that the agent answers to, in addition to those of its card."""
        written = () if self.card is None else spoken(self.card, services=True)
        known = {each.dialect for each in written}
        now = (*written, *(each for each in answered if each.dialect not in known))
        if answered and now != self.spoken:
            self.spoken = now
            self.version += 1
            self.watch.on_change()

    async def _take_called(self, card: Tree, size: int, wrong: tuple[str, ...]) -> None:
        """Accept a card that has an interface, unless the file has the dialect.

        Raises:
            _Failed: It offers no interface that the gateway speaks.
        """
        self._warn(wrong)
        if not self.place.declared and not is_callable(card):
            raise _Failed(CardReport.UNUSABLE, "its card offers no interface that the gateway speaks")
        await self._take(card, size)

    async def _take(self, card: Tree, size: int) -> None:
        if card == self.card:
            self._begun = False
            return
        try:
            sanitized = await aside(size, lambda: sanitize(card, self.discretion))
        except CardInvalid as error:
            raise _Failed(CardReport.INVALID, f"not a card: {error}") from error
        self.hold(card, sanitized)
        self._begun = False

    def hold(self, card: Tree, sanitized: SanitizedCard) -> None:
        """Use a card from now on."""
        self.card, self.spoken, self.sanitized = card, spoken(card, services=True), sanitized
        self.version += 1
        self.watch.on_change()

    async def _ask_all(self, *, modern: bool) -> "_Held":
        """Ask the candidates until one is not missing, and keep its answer."""
        missing: _Missing | None = None
        for url in self.place.candidates:
            # Before the turn, so that other agents do not wait for the token endpoint of this one.
            shown = await self._token(url)
            try:
                async with self.turns, asyncio.timeout(self.place.deadline):
                    headers = self._headers(url, modern=modern, shown=shown)
                    held = await self._ask(url, headers, self._held.get(modern))
            except TimeoutError as error:
                why = f"no complete answer within {self.place.deadline:g} s"
                raise _Failed(CardReport.UNREACHABLE, why) from error
            except _Missing as failure:
                missing = missing or failure
            except _Failed as failure:
                if failure.is_unauthorized and shown is not None and self.place.tokens is not None:
                    self.place.tokens.refused(shown)
                raise
            else:
                self._held[modern] = held
                return held
        raise missing or _Failed(CardReport.REFUSED, "no address to ask")

    async def _ask(self, url: str, headers: Mapping[str, str], held: "_Held | None") -> "_Held":
        """Fetch the card at one URL.

        Raises:
            _Failed: There is none.
        """
        if origin(url)[1] is None:
            raise _Failed(CardReport.UNREACHABLE, "not reached: the address is not valid")
        longest = self.longest
        try:
            sni = self.place.server_name if self._is_own(url) else None
            extensions = {} if sni is None else {"sni_hostname": sni}
            async with self.client.stream("GET", url, headers=dict(headers), extensions=extensions) as response:
                if response.status_code == 304 and held is not None and "If-None-Match" in headers:
                    return replace(held, report=CardReport.UNCHANGED)
                _refuse_status(response)
                keys_version = self._keys_version
                body, kid = await self._verified(await _body(response, longest))
                wrong: list[str] = []
                card = await aside(len(body), lambda: parse_card(body, longest=longest, wrong=wrong))
                etag = response.headers.get("etag", "")
                etag = etag if _usable(etag) else ""
                varies = _varies(response)
                return _Held(url, etag, varies, card, tuple(wrong), len(body), CardReport.READ, keys_version, kid)
        except CardInvalid as error:
            raise _Failed(CardReport.INVALID, f"not a card: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            # The kind only: the text can hold text of a hostile peer. ValueError: an invalid header or host.
            connecting = isinstance(error, httpx.ConnectError) and url.lower().startswith("https:")
            raise _Failed(CardReport.UNREACHABLE, f"not reached: {kind(error, connecting=connecting)}") from error

    @property
    def _keys_version(self) -> int:
        return 0 if self.verifier is None else self.verifier.keys.version

    def _is_own(self, url: str) -> bool:
        """Return whether a URL is at the backend, which alone gets credentials."""
        return origin(url) == origin(self.place.backend_url)

    async def _token(self, url: str) -> tuple[bytes, bytes] | None:
        """Return the header with the token for the agent; None where it gets none.

        Raises:
            _Failed: None can be had.
        """
        tokens = self.place.tokens
        if tokens is None or not self._is_own(url):
            return None
        try:
            return await tokens.pair()
        except UpstreamAuthFailed as fault:
            raise _Failed(CardReport.UNREACHABLE, explained(fault)) from fault

    def _headers(self, url: str, *, modern: bool, shown: tuple[bytes, bytes] | None = None) -> dict[str, str]:
        headers = dict(self.place.credentials) if self._is_own(url) else {}
        if shown is not None:
            headers[shown[0].decode()] = shown[1].decode()
        if modern:
            headers["A2A-Version"] = "1.0"
        held = self._held.get(modern)
        # The current card may not verify with the new keys.
        if held is not None and held.url == url and held.etag and held.keys_version == self._keys_version:
            headers["If-None-Match"] = held.etag
        return headers


# ---- One request ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Held:
    """The last answer, to compare the next one with."""

    url: str
    etag: str
    varies: bool
    card: Tree
    wrong: tuple[str, ...]
    size: int
    report: CardReport
    keys_version: int
    signed_by: str | None


class _Failed(Exception):  # noqa: N818 - it ends an attempt, it is no programming error
    """The attempt failed."""

    def __init__(self, report: CardReport, why: str, *, is_unauthorized: bool = False) -> None:
        super().__init__(why)
        self.report = report
        self.is_unauthorized = is_unauthorized


class _Missing(_Failed):
    """404: the card may have another name."""


def _refuse_status(response: httpx.Response) -> None:
    status = response.status_code
    if status == 404:
        raise _Missing(CardReport.REFUSED, "answered 404")
    if 300 <= status < 400:
        raise _Failed(CardReport.REFUSED, f"answered {status}; redirects are not followed")
    if status != 200:
        raise _Failed(CardReport.REFUSED, f"answered {status}", is_unauthorized=status == 401)
    if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise _Failed(CardReport.REFUSED, "answered with an encoded body, which was not asked for")


async def _body(response: httpx.Response, longest: int) -> bytes:
    """Return the raw body, never decoded."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > longest:
            raise CardInvalid(f"longer than {longest} bytes")
    return bytes(body)


def _varies(response: httpx.Response) -> bool:
    names = ",".join(response.headers.get_list("vary")).lower().split(",")
    return "a2a-version" in (name.strip() for name in names)


def _usable(etag: str) -> bool:
    # It is sent back, so it must be short and a valid header value.
    return len(etag) <= 256 and etag.isascii() and etag.isprintable()
