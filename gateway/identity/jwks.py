"""The public keys of an issuer (RFC 7517), read in the background: verifying a token does not wait for the network.

A document is refused as a whole if it is not a key set, has too many keys, or no usable key. A single key is ignored if
it is symmetric, private, weak, malformed, meant for something else, or fits none of the issuer's algorithms (safety
K5). PyJWT builds the keys. If two different keys share a `kid` and an algorithm, the one that was known before stays;
if neither was known, both are ignored.

A key set is read every five minutes; after a failure again after 1 s, then twice as long each time, up to 30 s, with
jitter. A bad answer (nothing, an error, HTML, a hostile set) leaves the last good keys in place for a day (R16).

A token may name a key that is newer than the last reading. The first such token in ten seconds causes a reading; tokens
that name unknown keys wait for it for up to two seconds, all others are refused at once (K6). Tokens of known keys
never wait. `auth.verification` configures five minutes, ten seconds and a day.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from ssl import SSLContext
from types import MappingProxyType
from typing import Annotated, Final, Literal, cast

import httpx
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt import PyJWK, PyJWTError
from msgspec import UNSET, Meta, UnsetType

from gateway.a2a.card_rewriting import TokenIssuer
from gateway.identity.settings import VerificationSettings
from gateway.network.address import is_loopback
from gateway.telemetry.tls_failure import kind

PATIENCE: Final = 2.0
"""Longest wait of a token for a reading, in seconds."""
LONGEST_KID: Final = 256
MOST_KEYS: Final = 100
"""Most keys of a set without its own bound."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
# For discovery and the keys together; each step of httpx has its own, but a slow drip would outlive them.
DEADLINE: Final = 10.0
_STEP_TIMEOUT: Final = 5.0
_CONNECT: Final = 3.0
"""Seconds for connecting, and for the TLS handshake: much less than the deadline, which cancels. httpcore 1.0.9 closes
the socket of a handshake that takes longer than httpx allows, and leaves that of a cancelled one open."""
_LARGEST_PORT: Final = 65535
_LONGEST_URL: Final = 2048
_DISCOVERY: Final = "/.well-known/openid-configuration"

_WEAKEST_RSA: Final = 2048
# Longer ones take milliseconds per signature, and so do long exponents.
_STRONGEST_RSA: Final = 8192
_LONGEST_EXPONENT: Final = 64
# Ordinates of the Edwards points of order 8 at most: signatures for such keys can be forged.
_ED25519_FIELD: Final = 2**255 - 19
_ED25519_ORDER_8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_ED25519_WEAK: Final = frozenset({0, 1, _ED25519_FIELD - 1, _ED25519_ORDER_8, _ED25519_FIELD - _ED25519_ORDER_8})
_ED448_FIELD: Final = 2**448 - 2**224 - 1
_ED448_WEAK: Final = frozenset({0, 1, _ED448_FIELD - 1})
_RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVE_ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "P-256": ("ES256",),
        "P-384": ("ES384",),
        "P-521": ("ES512",),
        "Ed25519": ("EdDSA",),
        "Ed448": ("EdDSA",),
    }
)
"""Algorithms that a key may verify (RFC 7518 §3.1, RFC 8037); a type that is not here verifies nothing (`oct`)."""

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

logger = logging.getLogger("gateway.identity.jwks")


class KeySetInvalid(Exception):  # noqa: N818 - named after what went wrong, as faults are
    """A document that is not a usable key set; the message is for the log."""


# ---- Keys ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One public key.

    Attributes:
        algorithms: The issuer's algorithms that this key may verify.
        material: The key in DER, to compare keys by.
    """

    kid: str | None
    algorithms: frozenset[str]
    public: PublicKey
    material: bytes


class Keys:
    """The usable keys of one document.

    Attributes:
        ignored: The number of keys of the document that are not among them.
        content: The keys without their order; equal for key sets that verify the same tokens.
    """

    def __init__(self, keys: Iterable[VerificationKey] = (), ignored: int = 0) -> None:
        self.ignored = ignored
        self._keys = tuple(keys)
        self.content = frozenset((key.kid, key.algorithms, key.material) for key in self._keys)
        self._by_kid: dict[str, list[VerificationKey]] = {}
        for key in self._keys:
            if key.kid is not None:
                self._by_kid.setdefault(key.kid, []).append(key)

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return the only key that matches the header of a token; None if there is none, or more than one."""
        candidates = self._keys if kid is None else self._by_kid.get(kid, ())
        fitting = [key for key in candidates if algorithm in key.algorithms]
        return fitting[0] if len(fitting) == 1 else None

    def has(self, key: VerificationKey, algorithm: str) -> bool:
        """Return whether this very key is here, by the same `kid` and for this algorithm."""
        named = () if key.kid is None else self._by_kid.get(key.kid, ())
        return any(each.material == key.material and algorithm in each.algorithms for each in named)

    def has_kid(self, kid: str) -> bool:
        """Return whether a key has this `kid`."""
        return kid in self._by_kid


class _Document(msgspec.Struct):
    keys: list[msgspec.Raw]


_Base64Url = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]*\Z")]


class _Jwk(msgspec.Struct):
    """The members of a key that matter here, with the bounds that PyJWT does not check."""

    kty: str
    kid: Annotated[str, Meta(max_length=LONGEST_KID)] | UnsetType = UNSET
    use: Literal["sig"] | UnsetType = UNSET
    key_ops: list[str] | UnsetType = UNSET
    alg: str | UnsetType = UNSET
    crv: str = ""
    n: _Base64Url = ""
    e: _Base64Url = ""
    x: _Base64Url = ""
    y: _Base64Url = ""
    d: msgspec.Raw | UnsetType = UNSET


def parse_keys(
    document: bytes, algorithms: frozenset[str], *, most: int = MOST_KEYS, before: Keys | None = None
) -> Keys:
    """Return the usable keys of a key set document.

    Args:
        algorithms: Those that the issuer may use.
        most: Keys that the set may have.
        before: The keys of the last good reading.

    Raises:
        KeySetInvalid: the document is refused whole.
    """
    try:
        written = msgspec.json.decode(document, type=_Document).keys
    except (msgspec.MsgspecError, RecursionError):
        raise KeySetInvalid("the answer is no key set") from None
    if len(written) > most:
        raise KeySetInvalid(f"the key set has over {most} keys")
    keys = _without_conflicts([key for raw in written if (key := _read_key(raw, algorithms)) is not None], before)
    if not keys:
        raise KeySetInvalid("the key set has no usable key")
    return Keys(keys, len(written) - len(keys))


def _read_key(raw: msgspec.Raw, algorithms: frozenset[str]) -> VerificationKey | None:
    """Return the key, or None if it is not usable."""
    try:
        jwk = msgspec.json.decode(raw, type=_Jwk)
        # A published private key proves no identity.
        if jwk.d is not UNSET or (jwk.key_ops is not UNSET and "verify" not in jwk.key_ops):
            return None
        fitting = _RSA_ALGORITHMS if jwk.kty == "RSA" else _CURVE_ALGORITHMS.get(jwk.crv, ())
        usable = algorithms.intersection(fitting if jwk.alg is UNSET else {jwk.alg}.intersection(fitting))
        if not usable:
            return None
        public: PublicKey = PyJWK(msgspec.to_builtins(jwk), min(usable)).key
        if not _is_sound(public):
            return None
        material = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (msgspec.MsgspecError, RecursionError, PyJWTError, ValueError, UnsupportedAlgorithm):
        return None
    return VerificationKey(None if jwk.kid is UNSET else jwk.kid, usable, public, material)


def _is_sound(key: PublicKey) -> bool:
    """Return whether a key is secure, and fast to verify with."""
    if isinstance(key, RSAPublicKey):
        numbers = key.public_numbers()
        # OpenSSL accepts an even modulus, which is not a product of two odd primes, and fails only when it verifies.
        is_short = numbers.e.bit_length() <= _LONGEST_EXPONENT
        return _WEAKEST_RSA <= key.key_size <= _STRONGEST_RSA and is_short and numbers.n % 2 == 1
    if isinstance(key, EllipticCurvePublicKey):
        return True
    point = int.from_bytes(key.public_bytes_raw(), "little")
    # Without the highest bit, which is the sign of the other coordinate.
    if isinstance(key, Ed25519PublicKey):
        return point % 2**255 % _ED25519_FIELD not in _ED25519_WEAK
    return point % 2**455 % _ED448_FIELD not in _ED448_WEAK


def _without_conflicts(keys: list[VerificationKey], before: Keys | None) -> list[VerificationKey]:
    """Return the keys without those that share a `kid` and an algorithm with another; equal keys are merged."""
    merged: dict[tuple[str | None, bytes], VerificationKey] = {}
    for key in keys:
        place = (key.kid, key.material)
        algorithms = key.algorithms | merged[place].algorithms if place in merged else key.algorithms
        merged[place] = VerificationKey(key.kid, algorithms, key.public, key.material)
    claims = Counter((key.kid, algorithm) for key in merged.values() for algorithm in key.algorithms)

    def may_verify(key: VerificationKey, algorithm: str) -> bool:
        # Two keys cannot both have been known: the set before had no conflict either.
        return claims[key.kid, algorithm] == 1 or (before is not None and before.has(key, algorithm))

    # Keys without a `kid` cannot conflict here: `Keys.find` uses them only where exactly one fits.
    return [
        key
        for key in merged.values()
        if key.kid is None or all(may_verify(key, algorithm) for algorithm in key.algorithms)
    ]


# ---- Reading ---------------------------------------------------------------------------------------------------------


def open_http(verify: SSLContext) -> httpx.AsyncClient:
    """Return a client for key sets: no proxies or certificates from the environment (safety K9), no redirects (K8).

    Args:
        verify: The TLS context for issuers; httpx's own context would write its keys where SSLKEYLOGFILE says.
    """
    return httpx.AsyncClient(
        verify=verify, trust_env=False, follow_redirects=False, timeout=httpx.Timeout(_STEP_TIMEOUT, connect=_CONNECT)
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading that tokens wait for, until `deadline` in monotonic seconds at most."""

    deadline: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class _Discovered(msgspec.Struct):
    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""


class KeySet:
    """The keys of one issuer, read periodically by `run`.

    Args:
        name: The configured name of the issuer, for the log.
        issuer_url: Its exact `iss`; where `jwks_url` is None, OIDC discovery starts here.
        algorithms: Those that its tokens may use.
        http: See `open_http`; not closed here.
        bounds: Interval of readings, longest document, and lifetime of its keys.
        on_result: Called after each reading with the name and whether it succeeded.
        label: The subject of log lines; by default the issuer.
        clock: Monotonic seconds.
        wall: Wall-clock seconds, for `last_success` alone.

    Attributes:
        version: Counts up whenever the keys change, or are given up as stale.
        last_success: Wall-clock seconds of the last good reading; 0 before the first.
        error: Why the last reading failed, for operators only, or None.
        issuer: Its endpoints, for clients; None before discovery.
    """

    def __init__(
        self,
        name: str,
        *,
        issuer_url: str,
        jwks_url: str | None,
        algorithms: Iterable[str],
        http: httpx.AsyncClient,
        bounds: VerificationSettings,
        on_result: Callable[[str, bool], None] | None = None,
        label: str = "",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - the metric is a wall-clock time
    ) -> None:
        self.name = name
        self.version = 0
        self.last_success = 0.0
        self.error: str | None = None
        self.issuer: TokenIssuer | None = None
        self._issuer_url = issuer_url
        self._configured_url = jwks_url
        self._url = jwks_url
        self._algorithms = frozenset(algorithms)
        self._http = http
        self._bounds = bounds
        self._on_result = on_result
        self._label = label or f"issuer {name}"
        self._clock = clock
        self._wall = wall
        self._keys: Keys | None = None
        self._read_at = 0.0
        self._first: _Reading | None = None
        self._demanded: _Reading | None = None
        self._wake = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether there are keys to verify with."""
        return self._keys is not None

    @property
    def located(self) -> bool:
        """Whether the address of the keys is known, by the file or by discovery."""
        return self._url is not None

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return the only key that matches the header of a token, or None."""
        return None if self._keys is None else self._keys.find(kid, algorithm)

    async def wait_for(self, kid: str | None) -> bool:
        """Wait for a reading that may bring the key of a token, or until its deadline.

        Returns: False, at once, if no reading can help, or none is due (at most one in `keys_on_demand` seconds).
        """
        if self._keys is not None and (kid is None or self._keys.has_kid(kid)):
            return False
        reading = self._first_reading() if self._keys is None else self._demand()
        left = 0.0 if reading.over.is_set() else reading.deadline - self._clock()
        if left <= 0.0:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await reading.over.wait()
        return True

    async def settled(self) -> None:
        """Wait until the first reading of the keys has ended."""
        await self._first_reading().over.wait()

    async def run(self) -> None:
        """Read the keys periodically, until cancelled."""
        failures = 0
        while True:
            failures = 0 if await self.refresh() else failures + 1
            chance = random.random()  # noqa: S311 - spreads load, no secret
            pause = pause_after(failures, chance, every=self._bounds.keys_every)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def refresh(self) -> bool:
        """Read the keys once; return whether that succeeded."""
        self._first_reading()
        # A reading for a waiting token has little time: it uses the last discovered address.
        rediscover = self._configured_url is None and not (self._wake.is_set() and self._url is not None)
        try:
            async with asyncio.timeout(DEADLINE):
                keys = await self._read(rediscover=rediscover)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError, KeySetInvalid) as error:
            # The text of other errors can hold text of a hostile peer.
            is_own = isinstance(error, KeySetInvalid)
            self.error = str(error) if is_own else kind(error, connecting=isinstance(error, httpx.ConnectError))
            logger.warning("%s: keys not read: %s", self._label, self.error)
            self._drop_stale()
        else:
            self.error = None
            self._accept(keys)
        finally:
            # Tokens that asked during this reading have been served by it.
            self._wake.clear()
            for reading in (self._first, self._demanded):
                if reading is not None:
                    reading.over.set()
        if self._on_result is not None:
            self._on_result(self.name, self.error is None)
        return self.error is None

    def _first_reading(self) -> _Reading:
        if self._first is None:
            self._first = _Reading(self._clock() + PATIENCE)
        return self._first

    def _demand(self) -> _Reading:
        """Return the reading that unknown keys caused last, or a new one where that is over and another is due."""
        now, last = self._clock(), self._demanded
        is_under_way = last is not None and not last.over.is_set() and now < last.deadline
        is_due = last is None or now - (last.deadline - PATIENCE) >= self._bounds.keys_on_demand
        if last is None or (is_due and not is_under_way):
            self._demanded = last = _Reading(now + PATIENCE)
            self._wake.set()
        return last

    def _accept(self, keys: Keys) -> None:
        self.last_success = self._wall()
        self._read_at = self._clock()
        if self._keys is not None and keys.content == self._keys.content:
            return
        self._keys = keys
        self.version += 1
        if keys.ignored:
            logger.warning("%s: %d keys of its key set are unusable and ignored", self._label, keys.ignored)

    def _drop_stale(self) -> None:
        if self._keys is not None and self._clock() - self._read_at > self._bounds.keys_kept:
            logger.error("%s: keys dropped: they could not be read for %.0f s", self._label, self._bounds.keys_kept)
            self._keys = None
            self.version += 1

    async def _read(self, *, rediscover: bool) -> Keys:
        if rediscover or self._url is None:
            self._url = await self._discover()
        document = await self._get(self._url)
        # A hundred keys take up to 10 ms, which would hold the loop.
        most = self._bounds.keys_count
        return await asyncio.to_thread(parse_keys, document, self._algorithms, most=most, before=self._keys)

    async def _discover(self) -> str:
        """Return the address of the keys, by OpenID Connect Discovery 1.0 §4."""
        address = self._issuer_url.removesuffix("/") + _DISCOVERY
        document = await self._get(address)
        try:
            discovered = msgspec.json.decode(document, type=_Discovered)
        except (msgspec.MsgspecError, RecursionError):
            raise KeySetInvalid("the answer is no discovery document") from None
        # §4.3: otherwise one issuer could impersonate another.
        if discovered.issuer != self._issuer_url:
            raise KeySetInvalid("the discovery document is of another issuer")
        self.issuer = TokenIssuer(
            address, self._for_clients(discovered.authorization_endpoint), self._for_clients(discovered.token_endpoint)
        )
        return discovered.jwks_uri

    def _for_clients(self, url: str) -> str:
        """Return an address of the document that cards may show; empty for any other."""
        if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
            return ""
        try:
            self._check(url)
        except (httpx.InvalidURL, UnicodeError, KeySetInvalid):
            return ""
        return url

    async def _get(self, url: str) -> bytes:
        """Return a document, its size bounded while it is read.

        Raises:
            KeySetInvalid: the address is not allowed, or the answer is not acceptable.
        """
        self._check(url)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self._http.stream("GET", url, headers=headers, follow_redirects=False) as answer:
            if answer.status_code != httpx.codes.OK:
                raise KeySetInvalid(f"the answer has status {answer.status_code}")
            # Answers are not decompressed: a small answer could become a large one.
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
        """Refuse every address except https, and http on loopback."""
        address = httpx.URL(url)
        if address.userinfo or not address.host:
            raise KeySetInvalid("the address has no host, or a user in it")
        # Sockets answer other ports with errors of their own, which httpx does not translate.
        if address.port is not None and not 0 < address.port <= _LARGEST_PORT:
            raise KeySetInvalid("the address has an impossible port")
        if address.scheme == "https":
            return
        # Only a local issuer may lead to local addresses.
        local = is_loopback(address.host) and is_loopback(httpx.URL(self._configured_url or self._issuer_url).host)
        if address.scheme != "http" or not local:
            raise KeySetInvalid("the address is neither https nor on loopback")


def pause_after(failures: int, chance: float, every: float) -> float:
    """Return the seconds until the next reading, after so many failures in a row.

    Args:
        every: Seconds between two good readings, and at most between two failed ones.
        chance: 0 to 1; takes up to a quarter away, so that a fleet of gateways does not ask in step.
    """
    backoff = _FIRST_PAUSE * 2.0 ** min(failures - 1, 10)
    pause = every if failures == 0 else min(every, _LONGEST_PAUSE, backoff)
    return pause * (1.0 - chance / 4)
