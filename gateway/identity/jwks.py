"""Keeps the public keys of one issuer at hand, so that verifying a token never waits for the network.

A key set is *unread* until its issuer has answered once with keys of use, then *ready*. While it is ready it is read
again every five minutes; an answer that is no good (nothing, an error, HTML, an empty or hostile set) leaves the last
good keys in place, for a day (safety K5, R16). After a failure it is asked again soon: after 1 s, then twice as long
each time, up to 30 s, with jitter. A key set that could not be read for a day is unread again.

A token that names a key which is not here may be newer than what was read last. The first such token in ten seconds
has the set read at once, and whoever shows one meanwhile waits for the same answer, for two seconds at most from when
it was asked for (`Pending`); all others are refused on the spot (safety K6). Tokens whose key is here never wait. Five
minutes, a day and ten seconds are defaults: `auth.verification` has them.
"""

import asyncio
import ipaddress
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from ssl import SSLContext
from typing import Final, cast

import httpx
import msgspec

from gateway.config.limit import Verification
from gateway.identity.jwk import Key, Keys, KeySetInvalid, parse_keys
from gateway.identity.pending import Pending
from gateway.tls_failure import kind

DEFAULTS: Final = Verification()
PATIENCE: Final = 2.0
"""Seconds that a token waits for a reading at most."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
# For discovery and the keys together; each step of httpx has its own, but a slow drip would outlive them.
_DEADLINE: Final = 10.0
_STEP_TIMEOUT: Final = 5.0
_LARGEST_PORT: Final = 65535
_DISCOVERY: Final = "/.well-known/openid-configuration"

logger = logging.getLogger("gateway.identity.jwks")


def open_http(verify: SSLContext) -> httpx.AsyncClient:
    """A client for key sets: no proxies or certificates from the environment (safety K9), no redirects (K8).

    Args:
        verify: How issuers are verified; httpx's own context would write its keys where SSLKEYLOGFILE says.
    """
    return httpx.AsyncClient(verify=verify, trust_env=False, follow_redirects=False, timeout=_STEP_TIMEOUT)


class _Reading:
    """A reading that tokens wait for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.over = asyncio.Event()
        self._clock = clock
        self._deadline = clock() + PATIENCE

    def remaining(self) -> float:
        """Seconds that are left to wait; 0 or less where waiting is over."""
        return 0.0 if self.over.is_set() else self._deadline - self._clock()

    async def wait(self) -> None:
        """Wait until the keys were read, or could not be, or two seconds have passed since they were asked for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.remaining()):
                await self.over.wait()


class _Discovered(msgspec.Struct):
    issuer: str
    jwks_uri: str


class KeySet:
    """The keys of one issuer, read again and again by `run`.

    Args:
        name: The configured name of the issuer, for the log.
        issuer_url: Its exact `iss`; where `jwks_url` is None, OIDC discovery starts here.
        algorithms: Those that its tokens may use.
        http: See `open_http`; not closed here.
        bounds: How often it is read, how long it may be, and how long its keys serve.
        on_result: Told the name and whether the reading was good, after each one.
        clock: Monotonic seconds.
        wall: Wall-clock seconds, for `last_success` alone.

    Attributes:
        version: Counts up whenever the keys change, or are given up as stale.
        last_success: Wall-clock seconds of the last good reading; 0 before the first.
        error: Why the last reading failed, for operators only, or None.
    """

    def __init__(
        self,
        name: str,
        *,
        issuer_url: str,
        jwks_url: str | None,
        algorithms: Iterable[str],
        http: httpx.AsyncClient,
        bounds: Verification = DEFAULTS,
        on_result: Callable[[str, bool], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - the metric is a wall-clock time
    ) -> None:
        self.name = name
        self.version = 0
        self.last_success = 0.0
        self.error: str | None = None
        self._issuer_url = issuer_url
        self._configured_url = jwks_url
        self._url = jwks_url
        self._algorithms = frozenset(algorithms)
        self._http = http
        self._bounds = bounds
        self._on_result = on_result
        self._clock = clock
        self._wall = wall
        self._keys: Keys | None = None
        self._read_at = 0.0
        self._first: _Reading | None = None
        self._demanded: _Reading | None = None
        self._demanded_at = float("-inf")
        self._wake = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether there are keys to verify with."""
        return self._keys is not None

    @property
    def located(self) -> bool:
        """Whether it is known where the keys are: by the file, or by discovery."""
        return self._url is not None

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The one key that a token with this header means, or None."""
        return None if self._keys is None else self._keys.find(kid, algorithm)

    def pending(self, kid: str | None) -> Pending | None:
        """What to wait for before a token with this `kid` is refused; None where waiting is no use.

        Asks for a reading where one is allowed, at most one in `keys_on_demand` seconds.
        """
        if self._keys is None:
            reading = self._begin_first()
            return self._wait_for(reading) if reading.remaining() > 0 else None
        if self._keys.knows(kid):
            return None
        if self._demanded is not None and self._demanded.remaining() > 0:
            return self._wait_for(self._demanded)
        now = self._clock()
        if now - self._demanded_at < self._bounds.keys_on_demand:
            return None
        self._demanded_at = now
        self._demanded = _Reading(self._clock)
        self._wake.set()
        return self._wait_for(self._demanded)

    async def settled(self) -> None:
        """Wait until the keys were read once, or could not be."""
        await self._begin_first().over.wait()

    async def run(self) -> None:
        """Read the keys, for ever; cancel it to stop."""
        failures = 0
        while True:
            failures = 0 if await self._refresh() else failures + 1
            chance = random.random()  # noqa: S311 - spreads load, no secret
            pause = pause_after(failures, chance, every=self._bounds.keys_every)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _refresh(self) -> bool:
        self._begin_first()
        # A reading that a token waits for is short of time: it trusts the address that was discovered last.
        rediscover = self._configured_url is None and not (self._wake.is_set() and self._url is not None)
        try:
            async with asyncio.timeout(_DEADLINE):
                keys = await self._read(rediscover=rediscover)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, KeySetInvalid) as error:
            self.error = _fact(error)
            logger.warning("issuer %s: keys not read: %s", self.name, self.error)
            self._give_up_stale()
            good = False
        else:
            self._take(keys)
            self.error = None
            good = True
        finally:
            self._settle()
        if self._on_result is not None:
            self._on_result(self.name, good)
        return good

    def _wait_for(self, reading: _Reading) -> Pending:
        return Pending("the keys of the issuer are being read", reading.wait, issuer=self.name)

    def _begin_first(self) -> _Reading:
        if self._first is None:
            self._first = _Reading(self._clock)
        return self._first

    def _settle(self) -> None:
        # Whoever asked while this reading was under way has been served by it.
        self._wake.clear()
        for reading in (self._first, self._demanded):
            if reading is not None:
                reading.over.set()

    def _take(self, keys: Keys) -> None:
        self.last_success = self._wall()
        self._read_at = self._clock()
        if self._keys is not None and keys.content == self._keys.content:
            return
        self._keys = keys
        self.version += 1
        if keys.ignored:
            logger.warning("issuer %s: %d keys of its key set are of no use and left out", self.name, keys.ignored)

    def _give_up_stale(self) -> None:
        if self._keys is not None and self._clock() - self._read_at > self._bounds.keys_kept:
            logger.error(
                "issuer %s: keys given up, they could not be read again for %.0f s", self.name, self._bounds.keys_kept
            )
            self._keys = None
            self.version += 1

    async def _read(self, *, rediscover: bool) -> Keys:
        if rediscover or self._url is None:
            self._url = await self._discover()
        document = await self._get(self._url)
        # A hundred keys take up to 10 ms, which nothing else shall wait for.
        most = self._bounds.keys_count
        return await asyncio.to_thread(parse_keys, document, self._algorithms, most=most, before=self._keys)

    async def _discover(self) -> str:
        """The address of the keys, by OpenID Connect Discovery 1.0 §4."""
        document = await self._get(self._issuer_url.removesuffix("/") + _DISCOVERY)
        try:
            found = msgspec.json.decode(document, type=_Discovered)
        except (msgspec.MsgspecError, RecursionError):
            raise KeySetInvalid("the answer is no discovery document") from None
        # §4.3: otherwise whoever answers here could speak for another issuer.
        if found.issuer != self._issuer_url:
            raise KeySetInvalid("the discovery document is of another issuer")
        return found.jwks_uri

    async def _get(self, url: str) -> bytes:
        """A document, its size bounded while it is read.

        Raises:
            KeySetInvalid: the address is not to be asked, or the answer is not to be read.
        """
        self._check(url)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self._http.stream("GET", url, headers=headers, follow_redirects=False) as answer:
            if answer.status_code != httpx.codes.OK:
                raise KeySetInvalid(f"the answer has status {answer.status_code}")
            # Nothing is decompressed: a small answer could become a large one.
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise KeySetInvalid("the answer is compressed")
            body = bytearray()
            # httpx declares less than it returns: closing needs the generator.
            async with aclosing(cast("AsyncGenerator[bytes, None]", answer.aiter_raw())) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > self._bounds.keys_size:
                        raise KeySetInvalid(f"the answer is longer than {self._bounds.keys_size} bytes")
        return bytes(body)

    def _check(self, url: str) -> None:
        """Refuse addresses that a key set is not read from: only https, or http on this very machine."""
        asked = httpx.URL(url)
        if asked.userinfo or not asked.host:
            raise KeySetInvalid("the address has no host, or a user in it")
        # Sockets answer other ports with errors of their own, which httpx does not translate.
        if asked.port is not None and not 0 < asked.port <= _LARGEST_PORT:
            raise KeySetInvalid("the address has an impossible port")
        if asked.scheme == "https":
            return
        # An issuer elsewhere has no business with what listens here: only a local one leads to local addresses.
        local = _is_loopback(asked.host) and _is_loopback(httpx.URL(self._configured_url or self._issuer_url).host)
        if asked.scheme != "http" or not local:
            raise KeySetInvalid("the address is neither https nor on loopback")


def pause_after(failures: int, chance: float, every: float = DEFAULTS.keys_every) -> float:
    """Seconds until the next reading, after so many failures in a row.

    Args:
        every: Seconds between two good readings; failures are not waited for longer either.
        chance: 0 to 1; takes up to a quarter away, so that a fleet of gateways does not knock in step.
    """
    again = _FIRST_PAUSE * 2.0 ** min(failures - 1, 10)
    pause = every if failures == 0 else min(every, _LONGEST_PAUSE, again)
    return pause * (1.0 - chance / 4)


def _fact(error: Exception) -> str:
    """Why keys were not read: the kind of an error, for its text can hold what a hostile peer wrote."""
    return (
        str(error)
        if isinstance(error, KeySetInvalid)
        else kind(error, connecting=isinstance(error, httpx.ConnectError))
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
