"""The cards that the gateway serves, cached until the agent's card changes.

A card depends on the agent's card and on the endpoint with its tenant, never on `Host` or a credential, so one entry
serves every caller that may see it. An extended card is the agent's answer to one caller; its rewritten form is cached
by the bytes of that answer, so it serves only callers with the same answer. Signatures are made once for each card and
key; the entity tag of a signed card is that of its content and its key, so that all workers and replicas agree on it.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from gateway.a2a.card import CardInvalid, parse_card
from gateway.a2a.card_rewriting import (
    DUAL,
    MODERN,
    OLD,
    Edition,
    Served,
    ServedInterface,
    TokenIssuer,
    encode_card,
    etag,
    rebuild,
)
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import CardUntrusted, UpstreamConnect, UpstreamProtocol
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.paths import fits_path
from gateway.a2a.sanitized_card import SanitizedCard, sanitize
from gateway.cards.fetch import CardReport, CardSource, aside
from gateway.cards.sign import KEY_SET_PATH, SigningKeys, sign
from gateway.routing.route import GrpcAddress, Rule

MOST_KEPT = 64
"""Most cached cards of one backend."""
ROOM = 1024 * 1024
"""Most bytes of them; the newest card is kept at any length."""
_PERSONAL = "a card of one caller"
_JSONRPC_1_0 = Dialect(Binding.JSONRPC, Version.V1_0)


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """The URL of the gateway on cards.

    Attributes:
        origin: Scheme and authority, without a trailing slash.
        prefix: Path in front of every endpoint; empty, or with a leading slash.
    """

    origin: str
    prefix: str = ""

    @classmethod
    def parse(cls, url: str) -> "PublicUrl":
        """Return the place of the URL in the file."""
        parts = urlsplit(url)
        return cls(f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/"))

    def at(self, host: str | None, path: tuple[str, ...]) -> str:
        """Return the URL of an endpoint; one with its own host keeps scheme and port of the gateway."""
        scheme, _, authority = self.origin.partition("://")
        return f"{scheme}://{authority if host is None else host + self._port}{self.prefix}/" + "/".join(path)

    def places(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return the authorities of the gateway and of endpoints with these hosts or patterns."""
        own = self.origin.partition("://")[2]
        return (own.lower(), *(host.lower() + self._port for host in hosts))

    @property
    def key_set(self) -> str:
        """Return the URL of the gateway's key set."""
        return f"{self.origin}{self.prefix}{KEY_SET_PATH}"

    @property
    def _port(self) -> str:
        port = urlsplit(self.origin).port
        return "" if port is None else f":{port}"


@dataclass(frozen=True, slots=True)
class GrpcPlace:
    """The gRPC address of the gateway on cards.

    Attributes:
        public: `host:port`.
        address: `Table.grpc_address`.
        written: `Table.written`.
    """

    public: str
    address: Callable[[Rule], GrpcAddress | None]
    written: Callable[[Rule], Rule]


class Speaker(Protocol):
    """A source of the dialects that an agent speaks."""

    def interfaces(self) -> Mapping[Dialect, object]:
        """Interfaces in the order of the card; empty while unknown."""


@dataclass(frozen=True, slots=True)
class _Way:
    """The parts of a card that depend on the request.

    Attributes:
        url: The URL over HTTP.
        tenant: The `tenant` field there, or None.
        grpc: `host:port` and tenant, or None if gRPC cannot reach the agent.
    """

    url: str
    tenant: str | None
    grpc: tuple[str, str | None] | None


@dataclass(frozen=True, slots=True)
class ServedCard:
    """A card as it is sent."""

    body: bytes
    etag: str


class SignedCards:
    """Signs cards, each once.

    Args:
        keys: None for cards without signatures.
        key_set_url: The URL of the gateway's key set.
    """

    def __init__(self, keys: SigningKeys | None, key_set_url: str) -> None:
        self._keys = keys
        self._key_set_url = key_set_url
        self._kept = _Shelf()

    async def signed(self, card: ServedCard) -> ServedCard:
        """Return a card with its signatures; long ones are signed in a thread.

        Raises:
            StateUnavailable: There is no key yet.
        """
        if self._keys is None:
            return card
        signing, *_ = await self._keys.published()
        key = (card.etag, signing.public["kid"])
        kept = self._kept.get(key)
        if kept is None:
            body = await aside(len(card.body), lambda: sign(card.body, signing, self._key_set_url))
            made = ServedCard(body, etag("\n".join(key).encode()))
            # Another request may have signed it meanwhile.
            kept = self._kept.get(key) or self._kept.put(key, made)
        assert isinstance(kept, ServedCard)
        return kept


@dataclass(eq=False)
class ServedCards:
    """The served cards of one backend.

    Attributes:
        schemes: Credentials that the gateway accepts.
        issuers: Returns the issuers of tokens that are known; they may change.
        scopes: Scopes that the agent requires.
        exposed: Bindings on the cards, whatever the agent speaks, because the gateway translates.
        grpc: The gRPC address; None lists no gRPC.
        methods: Operations that are relayed; cards promise no others.
        require_tenant: Whether a call without a tenant is refused.
        signs: Signs them; by default they are not signed.
    """

    source: CardSource
    upstream: Speaker
    public: PublicUrl
    schemes: tuple[Any, ...]
    issuers: Callable[[], tuple[TokenIssuer, ...]] = tuple
    scopes: tuple[str, ...] = ()
    exposed: tuple[Binding, ...] = (Binding.JSONRPC, Binding.REST)
    grpc: GrpcPlace | None = None
    methods: frozenset[Operation] = frozenset(CALLABLE)
    require_tenant: bool = False
    signs: SignedCards = field(default_factory=lambda: SignedCards(None, ""))

    def __post_init__(self) -> None:
        self._kept = _Shelf()
        self._rewriting = asyncio.Lock()

    async def signed(self, card: ServedCard) -> ServedCard:
        """Return a card with its signatures, as `SignedCards.signed`."""
        return await self.signs.signed(card)

    def card(
        self, rule: Rule, tenant: str | None, host: str, *, bare: bool = False, old: bool = False, modern: bool = False
    ) -> ServedCard:
        """Return the card for a request at a rule's endpoint, without signatures; `signed` adds them.

        Args:
            bare: Show only how to call the agent, and the operator's settings: the card belongs to another customer.
            old: Return the card for `agent.json` instead of that for `agent-card.json`.
            modern: Return the card with the members of 1.0 alone.
            tenant: The required value of the `tenant` field, or None.
            host: The host of the request, for rules with a wildcard that it has matched.

        Raises:
            UpstreamConnect: No card was fetched yet.
            CardUntrusted: No card with a good signature was fetched.
            UpstreamProtocol: The card cannot be served, or has no interface that can be used.
        """
        sanitized = self._available()
        way = self._way(rule, tenant, host)
        edition = OLD if old else MODERN if modern else DUAL
        key = (self.source.version, way, bare, edition, self.issuers())

        def make() -> ServedCard:
            shown = sanitized.bare(rule.agent, self.source.discretion.overrides) if bare else sanitized
            return self._encode(shown, self._served(way), edition)

        return self._cached(key, make)

    async def inside(self, rule: Rule, tenant: str | None, host: str, dialect: Dialect) -> bytes:
        """Return the card inside an answer of this dialect: 0.3 over gRPC has one method for it and the extended one.

        Raises:
            UpstreamConnect, UpstreamProtocol, CardUntrusted: As `card`.
            StateUnavailable: As `signed`.
        """
        sanitized = self._available()
        way = self._way(rule, tenant, host)
        key = (self.source.version, way, dialect, self.issuers())
        made = self._cached(key, lambda: self._encode(sanitized, self._served(way), Edition.inside(dialect)))
        return (await self.signed(made)).body

    async def extended(
        self, raw: bytes, rule: Rule, tenant: str | None, *, host: str, dialect: Dialect, dual: bool = False
    ) -> bytes:
        """Return an extended card in the dialect of the call; over gRPC the ProtoJSON of its message.

        Cards of this backend are rewritten one at a time, long ones in a thread.

        Args:
            raw: The agent's answer: a JSON-RPC `result`, a REST body or the ProtoJSON of a message.
            tenant: The client's `tenant` field, or None.
            dual: Whether the client may mean 1.0 with words of 0.3, so that the card has the members of both.

        Raises:
            UpstreamProtocol: The agent's answer is not a card.
            CardUntrusted: Its signatures are bad, or missing.
            StateUnavailable: As `signed`.
        """
        way = self._way(rule, tenant, host)
        digest = hashlib.sha256(raw).digest()
        edition = DUAL if dual else Edition.inside(dialect)
        verifier = self.source.verifier
        key = (
            _PERSONAL,
            self.source.version,
            way,
            edition,
            digest,
            None if verifier is None else verifier.keys.version,
            self.issuers(),
        )
        kept = self._kept.get(key)
        if kept is None:
            if verifier is not None:
                raw = (await verifier.verified(raw, self.source.longest)).card
            served = self._served(way)
            async with self._rewriting:
                kept = self._kept.get(key)
                if kept is None:
                    made = await aside(len(raw), lambda: _attempt(lambda: self._encode_own(raw, served, edition)))
                    kept = self._kept.put(key, made)
        if isinstance(kept, str):
            raise UpstreamProtocol("the agent's answer is no card", detail=kept)
        return (await self.signed(kept)).body

    def _cached(self, key: tuple[object, ...], make: Callable[[], ServedCard]) -> ServedCard:
        """Return the card under a key, made once.

        Raises:
            UpstreamProtocol: It cannot be made, which is cached as well.
        """
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept.put(key, _attempt(make))
        if isinstance(kept, str):
            raise UpstreamProtocol("this agent's card cannot be served", detail=kept)
        return kept

    def _encode_own(self, raw: bytes, served: Served, edition: Edition) -> ServedCard:
        if not served.interfaces:
            raise CardInvalid("no way to call this agent is known yet, or none that `expose` names")
        longest = self.source.longest
        sanitized = sanitize(parse_card(raw, longest=longest), self.source.discretion)
        return self._encode(sanitized, served, edition)

    def _encode(self, sanitized: SanitizedCard, served: Served, edition: Edition) -> ServedCard:
        body = encode_card(rebuild(sanitized, served, edition), longest=self.source.longest)
        return ServedCard(body, etag(body))

    def _available(self) -> SanitizedCard:
        source = self.source
        if source.sanitized is None or source.stale:
            if source.report is CardReport.UNTRUSTED:
                raise CardUntrusted("this agent's card cannot be trusted", detail=source.error or "")
            if source.report is CardReport.UNUSABLE:
                words = "this agent's card offers no interface that can be used"
                raise UpstreamProtocol(words, detail=source.error or "")
            raise UpstreamConnect("this agent's card is not available", detail=source.error or "not read yet")
        return source.sanitized

    def _way(self, rule: Rule, tenant: str | None, host: str) -> _Way:
        # Over gRPC a rule has no path, and its tenant may only replace one: then there is none over HTTP.
        written = rule if self.grpc is None else self.grpc.written(rule)
        # A card names the host of the rule, or for a wildcard the one that matched it.
        at = host if written.host is not None and written.host.startswith("*.") else written.host
        over_grpc: tuple[str, str | None] | None = None
        if self.grpc is not None and Binding.GRPC in self.exposed:
            address = self.grpc.address(written)
            if address is not None:
                over_grpc = self.grpc.public, tenant if address.tenant is None else address.tenant
        return _Way(self.public.at(at, written.path), None if rule.addressed else tenant, over_grpc)

    def _served(self, way: _Way) -> Served:
        spoken = tuple(self.upstream.interfaces())
        interfaces: list[ServedInterface] = []
        for dialect in offered(spoken, self.exposed):
            if dialect.binding is Binding.GRPC:
                interfaces += self._over_grpc(dialect.version, way)
            elif dialect == _JSONRPC_1_0 or fits_path(way.tenant):
                # HTTP+JSON has the tenant in the path, and clients before 1.0 in the URL; not every tenant fits there.
                interfaces.append(_over_http(way.url, way.tenant, dialect))
        # 0.1 has no extended card, even if the operator's card says so.
        ancient = {dialect.version for dialect in spoken} == {Version.V0_1}
        return Served(
            tuple(interfaces),
            schemes=self.schemes,
            issuers=self.issuers(),
            scopes=self.scopes,
            streaming=Operation.SEND_STREAMING_MESSAGE in self.methods,
            push=Operation.CREATE_PUSH_CONFIG in self.methods,
            extended=Operation.GET_EXTENDED_CARD in self.methods and not ancient,
        )

    def _over_grpc(self, version: Version, way: _Way) -> Iterator[ServedInterface]:
        if way.grpc is None:
            return
        place, tenant = way.grpc
        # The plain service of 0.3 has no field for a tenant, and no tenant is known for the scoped one.
        if tenant is not None or not self.require_tenant or version is Version.V1_0:
            yield ServedInterface(place, Dialect(Binding.GRPC, version), tenant)


def offered(spoken: tuple[Dialect, ...], exposed: tuple[Binding, ...]) -> tuple[Dialect, ...]:
    """Return the dialects on cards: both versions over every exposed binding, because the gateway translates.

    In each version, bindings that the agent speaks come first, at that version and then at any. gRPC is always last:
    most clients take the first interface that they know, and not all of them can reach gRPC. The list is empty while no
    dialect of the agent is known.

    Args:
        spoken: The agent's dialects in the order of its card; empty while unknown.
    """
    if not spoken:
        return ()
    dialects = []
    for version in (Version.V1_0, Version.V0_3):
        own = [dialect.binding for dialect in spoken if dialect.version is version]
        others = [dialect.binding for dialect in spoken]
        listed = [binding for binding in dict.fromkeys((*own, *others, *exposed)) if binding in exposed]
        dialects += [Dialect(binding, version) for binding in sorted(listed, key=lambda each: each is Binding.GRPC)]
    return tuple(dialects)


def sign_in_card(
    public: PublicUrl,
    host: str | None,
    path: tuple[str, ...],
    *,
    tenant: str | None,
    schemes: tuple[str, ...],
    issuers: tuple[TokenIssuer, ...] = (),
    old: bool = False,
    modern: bool = False,
) -> ServedCard:
    """Return the card of an endpoint where only a credential selects the agent: addresses and security schemes.

    Args:
        host: The endpoint's own, or None.
        tenant: The tenant in the path behind the endpoint, or None.
        old: As in `ServedCards.card`.
        modern: As in `ServedCards.card`.
    """
    edition = OLD if old else MODERN if modern else DUAL
    url = public.at(host, path)
    interfaces = (
        _over_http(url, tenant, Dialect(binding, version))
        for version in (Version.V1_0, Version.V0_3)
        for binding in (Binding.JSONRPC, Binding.REST)
    )
    sanitized = SanitizedCard(
        name=urlsplit(url).hostname or "", description="Ask again with a credential: it says which agent answers here."
    )
    taken: tuple[Any, ...] = schemes
    body = encode_card(rebuild(sanitized, Served(tuple(interfaces), schemes=taken, issuers=issuers), edition))
    return ServedCard(body, etag(body))


def _over_http(url: str, tenant: str | None, dialect: Dialect) -> ServedInterface:
    if dialect.binding is Binding.REST:
        # Clients of HTTP+JSON append paths such as `/message:send`, also to the URL of a root.
        url = url.rstrip("/")
    if dialect.version is Version.V1_0:
        return ServedInterface(url, dialect, tenant)
    # Before 1.0 messages have no tenant, so the URL has it (protocol §3).
    return ServedInterface(url if tenant is None else url.rstrip("/") + "/" + tenant, dialect)


class _Shelf:
    """A cache of cards and of errors; the least recently used is evicted."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, ServedCard | str] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> ServedCard | str | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def put(self, key: Hashable, made: ServedCard | str) -> ServedCard | str:
        """Cache a card or an error under an empty key, and return it."""
        self._kept[key] = made
        self._size += _length(made)
        while len(self._kept) > MOST_KEPT or (self._size > ROOM and len(self._kept) > 1):
            self._size -= _length(self._kept.popitem(last=False)[1])
        return made


def _attempt(make: Callable[[], ServedCard]) -> ServedCard | str:
    """Return the cached result of `make`, or raise its cached error."""
    try:
        return make()
    except CardInvalid as error:
        return str(error)


def _length(made: ServedCard | str) -> int:
    return len(made) if isinstance(made, str) else len(made.body)


def upstream_hosts(*urls: str | None) -> tuple[str, ...]:
    """Return the hosts of backend URLs, with and without port, which no card may show."""
    parts = [urlsplit(url) for url in urls if url is not None]
    named = (name for part in parts for name in (part.netloc.rpartition("@")[2], part.hostname))
    return tuple(dict.fromkeys(name for name in named if name is not None))
