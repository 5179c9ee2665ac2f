"""Where a card is found: the URLs to ask, what is shown to the agent, and how long an answer holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from gateway.a2a.card import MAX_CARD
from gateway.a2a.tree import Tree

TTL = 600.0
"""Seconds between two successful fetches, by default."""
KEEP = 3600.0
"""Seconds for which the last good card serves after its agent was last heard of, by default."""
DEADLINE = 10.0
"""Seconds that one request may take by default, from the wait for a connection to the last byte."""
_WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")


@dataclass(frozen=True, slots=True)
class CardPlace:
    """Where a backend's card is.

    Attributes:
        backend_url: Its well-known names are asked under this URL, path included.
        card_url: Asked instead, if given: as it is where its path ends in `.json` or it has a query, else first with
            the well-known names behind it.
        static: The card itself, already checked; then nothing is fetched.
        wrong: What is wrong with it, as `parse_card` says.
        declared: Whether the file says how the agent is called, so that its card need not.
        credentials: Headers that show the gateway to the agent; sent to the backend's own origin only.
        ttl: Seconds between two successful fetches.
        keep: Seconds for which the last good card serves although the agent gives none.
        longest: Bytes of the longest card.
        deadline: Seconds that one request may take.
        others: URLs of other replicas, which are asked in turn where this one gives no card.
        server_name: What is asked for over TLS, instead of the URL's host; None for that.
    """

    backend_url: str
    card_url: str | None = None
    static: Tree | None = None
    wrong: tuple[str, ...] = ()
    declared: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict)
    ttl: float = TTL
    keep: float = KEEP
    longest: int = MAX_CARD
    deadline: float = DEADLINE
    others: tuple[str, ...] = ()
    server_name: str | None = None

    def elsewhere(self) -> "CardPlace":
        """The same at the next replica."""
        if not self.others:
            return self
        following, *rest = self.others
        return replace(self, backend_url=following, others=(*rest, self.backend_url))

    @property
    def candidates(self) -> tuple[str, ...]:
        """The URLs to ask, in order; the next one counts when one answers 404."""
        if self.card_url is None:
            return tuple(self.backend_url.rstrip("/") + name for name in _WELL_KNOWN)
        parts = urlsplit(self.card_url)
        if parts.query or parts.path.endswith(".json"):
            return (self.card_url,)
        return (*(self.card_url.rstrip("/") + name for name in _WELL_KNOWN), self.card_url)

    @property
    def shown(self) -> str:
        """The address for logs, without a query, which may hold a credential."""
        return (self.card_url or self.backend_url).partition("?")[0]


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of a URL (RFC 6454); of what is none the whole of it, and no host."""
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        # No such address can be asked, so it shares its origin with none but itself.
        return url, None, None
    return parts.scheme, parts.hostname, port
