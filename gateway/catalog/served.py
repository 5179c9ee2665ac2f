"""The cards that the gateway serves, made from what was fetched and kept until the agent's card changes.

What a card says depends on the agent's card, on where it is asked for (the endpoint, its tenant) and on nothing else:
never on `Host` or a credential's content, so one entry serves every caller who may see it.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gateway.a2a.card import CardInvalid
from gateway.a2a.dialect import Version
from gateway.a2a.fault import UpstreamConnect, UpstreamProtocol
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.served_card import Served, ServedInterface, encode_card, etag, rebuild, rebuild_extended
from gateway.a2a.tree import Tree
from gateway.catalog.cards import CardSource
from gateway.routing.route import Rule
from gateway.upstream.http import HttpUpstream

_MOST_KEPT = 64
_BARE = ("capabilities", "defaultInputModes", "defaultOutputModes")


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """Where clients find the gateway, as cards advertise it.

    Attributes:
        origin: Scheme and authority, without a slash at the end.
        prefix: Path in front of every endpoint; empty or starting with a slash.
    """

    origin: str
    prefix: str = ""

    @classmethod
    def parse(cls, url: str) -> "PublicUrl":
        """From the URL that the file writes."""
        parts = urlsplit(url)
        return cls(f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/"))

    def at(self, host: str | None, path: tuple[str, ...]) -> str:
        """The URL of an endpoint; one with a host of its own keeps the scheme and port of the gateway's."""
        origin = self.origin
        if host is not None:
            parts = urlsplit(self.origin)
            origin = f"{parts.scheme}://{host}" + ("" if parts.port is None else f":{parts.port}")
        return origin + self.prefix + "/" + "/".join(path)


@dataclass(frozen=True, slots=True)
class ServedCard:
    """A card as it goes out."""

    body: bytes
    etag: str


class ServedCards:
    """The served cards of one backend of one agent.

    Args:
        overrides: Members that the operator sets (`card.set`).
        schemes: Credentials that the gateway asks for.
        secrets: Hosts that no card may show.
        methods: Operations that are relayed, None for all; the card promises no others.
    """

    def __init__(
        self,
        source: CardSource,
        upstream: HttpUpstream,
        public: PublicUrl,
        *,
        overrides: dict[str, Any],
        schemes: tuple[str, ...],
        secrets: tuple[str, ...],
        methods: frozenset[Operation] | None = None,
    ) -> None:
        self._source = source
        self._upstream = upstream
        self._public = public
        self._overrides = overrides
        self._schemes: tuple[Any, ...] = schemes
        self._secrets = secrets
        self._methods = frozenset(CALLABLE) if methods is None else methods
        # What cannot be served is kept too, as its reason: to find that out costs as much.
        self._kept: dict[tuple[int, str | None, tuple[str, ...], str | None, bool], ServedCard | str] = {}

    def card(self, rule: Rule, tenant: str | None, host: str, *, bare: bool = False) -> ServedCard:
        """The card for who asks at a rule's endpoint.

        Args:
            bare: Only how to call the agent, with what the operator sets: the card is a customer's own, and who asks
                is another.
            tenant: What the client must put into the `tenant` field, or None.
            host: The request's host, for rules whose host is a wildcard; it has matched the rule.

        Raises:
            UpstreamConnect: no card has been read yet.
            UpstreamProtocol: what was read is no card that can be served.
        """
        card = self._available()
        at = host if rule.host is not None and rule.host.startswith("*.") else rule.host
        key = (self._source.version, at, rule.path, tenant, bare)
        kept = self._kept.get(key)
        if kept is None:
            try:
                told = {"name": rule.agent, **{name: card[name] for name in _BARE if name in card}} if bare else card
                body = encode_card(rebuild(told, self._served(at, rule, tenant)))
                kept = ServedCard(body, etag(body))
            except CardInvalid as error:
                kept = str(error)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = kept
        if isinstance(kept, str):
            raise UpstreamProtocol("this agent's card cannot be served", detail=kept)
        return kept

    def extended(self, raw: bytes, rule: Rule, tenant: str | None, *, host: str, version: Version) -> bytes:
        """An extended card as it goes out; it belongs to one caller, so it is never kept.

        Raises:
            UpstreamProtocol: the agent's answer is no card.
        """
        at = host if rule.host is not None and rule.host.startswith("*.") else rule.host
        served = self._served(at, rule, tenant)
        dialect = next((each.dialect for each in served.interfaces if each.dialect.version is version), None)
        try:
            return encode_card(
                rebuild_extended(raw, served, served.interfaces[0].dialect if dialect is None else dialect)
            )
        except (CardInvalid, IndexError) as error:
            raise UpstreamProtocol("the agent's answer is no card", detail=str(error)) from error

    def _available(self) -> Tree:
        source = self._source
        if source.card is None or source.stale:
            raise UpstreamConnect("this agent's card is not available", detail=source.error or "not read yet")
        return source.card

    def _served(self, host: str | None, rule: Rule, tenant: str | None) -> Served:
        base = self._public.at(host, rule.path)
        interfaces = []
        for dialect in self._upstream.interfaces():
            if dialect.version is Version.V1_0:
                interfaces.append(ServedInterface(base, dialect, tenant))
            else:
                # Before 1.0 a client cannot say the tenant in a message, so its URL does (protocol §3).
                url = base if tenant is None else base.rstrip("/") + "/" + tenant
                interfaces.append(ServedInterface(url, dialect))
        return Served(
            tuple(interfaces),
            schemes=self._schemes,
            overrides=self._overrides,
            secrets=self._secrets,
            streaming=Operation.SEND_STREAMING_MESSAGE in self._methods,
            push=Operation.CREATE_PUSH_CONFIG in self._methods,
            extended=Operation.GET_EXTENDED_CARD in self._methods,
        )


def upstream_hosts(*urls: str | None) -> tuple[str, ...]:
    """The hosts of backend URLs, with and without port, as no card may show them."""
    found: dict[str, None] = {}
    for url in urls:
        if url is not None:
            parts = urlsplit(url)
            found[parts.netloc.rpartition("@")[2]] = None
            if parts.hostname:
                found[parts.hostname] = None
    return tuple(found)
