"""The catalog as documents: AI Catalog and an API catalog, each caller's own view of the agents.

- AI Catalog (draft of the AI Catalog working group, `specVersion` 1.0): `/.well-known/ai-catalog.json`, one entry for
  each agent with the URL of its card. The gateway is not the publisher of the agents, so identifiers are URLs of its
  own.
- RFC 9727: `/.well-known/api-catalog`, a link set (RFC 9264) with the agents as items, and the card of each as
  `service-desc`.

Both are paged by `Link: rel="next"` (RFC 8288), because neither format has pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from gateway.a2a.card_rewriting import etag
from gateway.a2a.fault import BadParams
from gateway.a2a.paths import fits_path
from gateway.cards.serve import PublicUrl
from gateway.catalog.directory import Directory, Seen
from gateway.principal import Principal
from gateway.routing.endpoint import unmet
from gateway.routing.route import RoutingInput, Rule
from gateway.routing.table import Table

AI_CATALOG = ".well-known/ai-catalog.json"
API_CATALOG = ".well-known/api-catalog"
CONTENT_TYPES: Mapping[str, bytes] = {
    AI_CATALOG: b"application/ai-catalog+json",
    API_CATALOG: b'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
}
"""The feeds by path, with their media types."""

USUAL_LIMIT, MOST = 100, 500
"""Agents on a page."""
_LONGEST = 256
_CARD = "/.well-known/agent-card.json"


@dataclass(frozen=True, slots=True)
class Filters:
    """The part of the catalog that a request asks for.

    Attributes:
        cursor: The last agent of the page before; empty for the first page.
    """

    skill: str = ""
    tag: str = ""
    q: str = ""
    cursor: str = ""
    limit: int = USUAL_LIMIT

    @classmethod
    def read(cls, query: bytes) -> "Filters":
        """Return the filters of a query; other parameters are ignored.

        Raises:
            BadParams: a parameter is repeated, too long, or not a number.
        """
        try:
            pairs = parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=32)
        except ValueError as error:
            raise BadParams("the query cannot be read") from error
        texts: dict[str, str] = {}
        for name in ("skill", "tag", "q", "cursor", "limit"):
            values = pairs.get(name, [""])
            if len(values) > 1 or len(values[0]) > _LONGEST:
                raise BadParams(f"the query parameter {name!r} stands twice or is too long")
            texts[name] = values[0]
        limit = texts.pop("limit")
        if limit and not (limit.isascii() and limit.isdigit() and 1 <= int(limit) <= MOST):
            raise BadParams(f"`limit` is a number from 1 to {MOST}")
        return cls(**texts, limit=int(limit or USUAL_LIMIT))

    def following(self, cursor: str) -> str:
        """Return the query of the next page."""
        parts = {"skill": self.skill, "tag": self.tag, "q": self.q, "limit": str(self.limit), "cursor": cursor}
        return urlencode({name: value for name, value in parts.items() if value})


@dataclass(frozen=True, slots=True)
class Feed:
    """One page as it is sent.

    Attributes:
        links: Values of the `Link` header.
    """

    body: bytes
    etag: str
    links: tuple[str, ...]


class _Entry(NamedTuple):
    """One agent of a page: the URL to call, and that of its card."""

    seen: Seen
    url: str
    card: str


def feed(
    directory: Directory, table: Table, public: PublicUrl, principal: Principal | None, *, path: str, filters: Filters
) -> Feed:
    """Return a page of a feed, as one caller may see it.

    Args:
        path: One of `CONTENT_TYPES`.
        principal: None for a stranger.

    Raises:
        BadParams: the cursor is not of this list.
    """
    agents = directory.search(principal, skill=filters.skill, tag=filters.tag, text=filters.q)
    seen = _behind(agents, filters)
    entries = []
    for each in seen:
        if each.listing.sanitized is None or (rule := rule_for(table, each, principal)) is None:
            continue
        entries.append(_entry(public, each, rule))
        if len(entries) > filters.limit:
            break
    own = public.at(None, tuple(path.split("/")))
    links = [f'<{own}>; rel="api-catalog"'] if path == API_CATALOG else []
    if len(entries) > filters.limit:
        entries.pop()
        links.append(f'<{own}?{filters.following(entries[-1].seen.agent)}>; rel="next"')
    tree = _ai_catalog(public, entries) if path == AI_CATALOG else _api_catalog(own, entries)
    body = msgspec.json.encode(tree)
    return Feed(body, etag(body), tuple(links))


def _behind(seen: Sequence[Seen], filters: Filters) -> Sequence[Seen]:
    """Return the agents behind the cursor: by name, or where they are ranked behind the one that it names."""
    if not filters.cursor:
        return seen
    if not (filters.skill or filters.tag or filters.q):
        return [each for each in seen if each.agent > filters.cursor]
    names = [each.agent for each in seen]
    if filters.cursor not in names:
        raise BadParams("the cursor is of another list: begin again without it")
    return seen[names.index(filters.cursor) + 1 :]


def rule_for(table: Table, seen: Seen, principal: Principal | None) -> Rule | None:
    """Return the match by which the caller finds an agent: the one with the fewest conditions; or None.

    An agent with skill matches only has no address of its own. A match that needs a credential is hidden from
    strangers.
    """
    rules = []
    for rule in table.agents[seen.agent].rules:
        request = RoutingInput((), "", rule.tenant, principal)
        if not rule.by_skill and not (rule.host or "").startswith("*.") and unmet(rule, request) is None:
            rules.append(rule)
    return min(rules, key=lambda rule: len(rule.conditions), default=None)


def _entry(public: PublicUrl, seen: Seen, rule: Rule) -> _Entry:
    url, query = public.at(rule.host, rule.path).rstrip("/"), ""
    if rule.tenant is not None and fits_path(rule.tenant):
        url = f"{url}/{rule.tenant}"
    elif rule.tenant is not None:
        query = f"?tenant={quote(rule.tenant, safe='')}"
    return _Entry(seen, url or public.origin, f"{url}{_CARD}{query}")


def _ai_catalog(public: PublicUrl, entries: Sequence[_Entry]) -> Any:  # noqa: ANN401 - JSON
    items = []
    for seen, _, card in entries:
        sanitized = seen.sanitized
        members = {
            "identifier": f"{public.at(None, (AI_CATALOG,))}#{seen.agent}",
            "displayName": (sanitized and sanitized.name) or seen.agent,
            "type": "application/a2a-agent-card+json",
            "url": card,
            "description": sanitized and sanitized.description,
            "tags": list(dict.fromkeys(str(tag) for skill in seen.skills for tag in skill["tags"])),
        }
        items.append({name: value for name, value in members.items() if value})
    host = {"displayName": urlsplit(public.origin).hostname or public.origin}
    return {"specVersion": "1.0", "host": host, "entries": items}


def _api_catalog(own: str, entries: Sequence[_Entry]) -> Any:  # noqa: ANN401 - JSON
    items = [{"href": each.url} for each in entries]
    contexts: list[Any] = [{"anchor": own, "item": items}] if items else []
    for each in entries:
        described = [{"href": each.card, "type": "application/json"}]
        contexts += [{"anchor": each.url, "service-desc": described}]
    return {"linkset": contexts}
