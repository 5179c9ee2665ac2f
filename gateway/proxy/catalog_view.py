"""Plain values for the pages of the catalog, read from a snapshot.

Cards are untrusted: their values are text for a template that escapes it, and only http and https URLs are links
(`a2a.sanitized_card`).
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import urlencode, urlsplit

from gateway.a2a.fault import Fault
from gateway.a2a.paths import fits_path
from gateway.a2a.sanitized_card import SanitizedCard
from gateway.backend.backend import Backend
from gateway.catalog.directory import NO_TEXT, CardText, Seen, Skill
from gateway.catalog.feeds import rule_for
from gateway.policy.limits import QuotaEnforcer
from gateway.principal import Principal
from gateway.routing.explain import Inquiry
from gateway.routing.route import Rule, read_backend_key
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import Recent
from gateway.upstream.stdio.upstream import trouble_of

PAGE = 50
"""Agents on one page of the list."""
MOST_SHOWN = 12
"""Values of one facet that are offered."""
MOST_EXPLAINED = 20
"""Tenants whose route to an agent is explained on its page."""
FACETS = ("skill", "tag", "tenant", "health")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One agent in the list.

    Attributes:
        name: Its name in the file.
        title: Its name on the card.
        text: The text of its card and of its skills.
        health: `up`, `degraded` (some replicas are down, or there is no current card) or `down`.
        tenants: The tenants that may call it; `*` for all others.
    """

    name: str
    title: str
    text: CardText
    tenants: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    health: str = ""
    replicas: int = 0
    replicas_up: int = 0

    def values(self, facet: str) -> Sequence[str]:
        """Return its values of a facet."""
        if facet == "skill":
            return self.text.skill_ids
        if facet == "health":
            return (self.health,)
        return self.text.tags if facet == "tag" else self.tenants

    def holds(self, words: str) -> bool:
        """Return whether words, without case, are in its names, description, skills or tags."""
        return words in self.name.casefold() or words in self.text.words


@dataclass(frozen=True, slots=True)
class Search:
    """A search in the list.

    Attributes:
        text: Lower or upper case, looked for in names, descriptions, skills and tags.
        chosen: The chosen value of each facet.
        page: From 1.
    """

    text: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str], facets: Sequence[str] = FACETS) -> "Search":
        """Return the search of a query string; invalid parameters are ignored."""
        page = query.get("page", "")
        chosen = {facet: query[facet] for facet in facets if query.get(facet)}
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        return cls(query.get("q", "").strip(), chosen, max(1, number))

    def link(self, **changes: str | int | None) -> str:
        """Return the relative URL of this search with some values changed, on its first page."""
        values = {"q": self.text, **self.chosen, **changes}
        query = urlencode({key: value for key, value in values.items() if value not in ("", None)}, errors="replace")
        return f"./?{query}" if query else "./"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    Attributes:
        facets: By facet the most frequent values among the results, with their count.
    """

    search: Search
    entries: Sequence[CatalogEntry]
    total: int
    pages: int
    facets: Mapping[str, Sequence[tuple[str, int]]]


def find(entries: Collection[CatalogEntry], search: Search, facets: Sequence[str] = FACETS) -> SearchResult:
    """Return the entries that a search finds, in the order given."""
    words = search.text.casefold()
    hits = [
        entry
        for entry in entries
        if all(value in entry.values(facet) for facet, value in search.chosen.items())
        and (not words or entry.holds(words))
    ]
    counts = {facet: Counter(chain.from_iterable(entry.values(facet) for entry in hits)) for facet in facets}
    pages = max(1, -(-len(hits) // PAGE))
    page = min(search.page, pages)
    shown = hits[(page - 1) * PAGE : page * PAGE]
    offered = {facet: counter.most_common(MOST_SHOWN) for facet, counter in counts.items()}
    return SearchResult(Search(search.text, search.chosen, page), shown, len(hits), pages, offered)


def entries_of(snapshot: Snapshot) -> list[CatalogEntry]:
    """Return all agents by name."""
    backends: dict[str, list[Backend]] = {}
    for backend in snapshot.backends.values():
        backends.setdefault(backend.agent, []).append(backend)
    tenants: dict[str, list[str]] = {}
    for tenant, reach in snapshot.table.reach.items():
        for agent in reach.agents:
            tenants.setdefault(agent, []).append(tenant)
    return [_entry(snapshot, name, backends[name], tenants.get(name, [])) for name in sorted(backends)]


def entry_of(snapshot: Snapshot, name: str) -> CatalogEntry:
    """Return one agent."""
    backends = [backend for backend in snapshot.backends.values() if backend.agent == name]
    tenants = [tenant for tenant, reach in snapshot.table.reach.items() if name in reach.agents]
    return _entry(snapshot, name, backends, tenants)


def _entry(snapshot: Snapshot, name: str, backends: Sequence[Backend], tenants: list[str]) -> CatalogEntry:
    # An agent's backends for its tenants have cards of one product; the first card with skills represents all.
    texts = [snapshot.directory.texts.of(backend.upstream.backend, backend.source) for backend in backends]
    text = next((each for each in texts if each.skills), texts[0])
    has_card = all(backend.source.sanitized is not None and not backend.source.stale for backend in backends)
    replicas = [replica for backend in backends for replica in backend.replicas]
    up = sum(replica.condition.is_up and not trouble_of(replica.upstream) for replica in replicas)
    return CatalogEntry(
        name,
        text.title or name,
        text,
        tenants=tuple(sorted(tenants)),
        dialects=tuple(
            dict.fromkeys(str(each) for backend in backends for each in backend.upstream.dialects.interfaces())
        ),
        health="down" if not up else "up" if has_card and up == len(replicas) else "degraded",
        replicas=len(replicas),
        replicas_up=up,
    )


def entries_for(snapshot: Snapshot, principal: Principal | None) -> list[CatalogEntry]:
    """Return the agents that a caller may see, by name, with the data of the cards that it may read only.

    Args:
        principal: None for a stranger.
    """
    return [_seen_entry(snapshot, seen) for seen in _seen(snapshot, principal)]


def _seen(snapshot: Snapshot, principal: Principal | None) -> Iterator[Seen]:
    for seen in snapshot.directory.seen_by(principal):
        if seen.listing.sanitized is not None and rule_for(snapshot.table, seen, principal) is not None:
            yield seen


def _seen_entry(snapshot: Snapshot, seen: Seen) -> CatalogEntry:
    text = snapshot.directory.texts.of(seen.listing.backend, seen.listing.card) if seen.tells else NO_TEXT
    return CatalogEntry(seen.agent, text.title or seen.agent, text)


# ---- One agent -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """The address at which clients call an agent over JSON-RPC.

    Attributes:
        url: The URL.
        path: Its raw path, as a request has it.
        host: Lower case, without port.
        tenant: The A2A `tenant` field that the call needs, or None.
        place: The place of the rule in the file.
        card_url: The URL of the card.
    """

    url: str
    path: str
    host: str
    tenant: str | None
    place: str
    card_url: str


def addresses(snapshot: Snapshot, agent: str) -> list[Address]:
    """Return the addresses of an agent, in the order of the file."""
    return [_address(snapshot, rule) for rule in rules_of(snapshot, agent)]


def rules_of(snapshot: Snapshot, agent: str) -> list[Rule]:
    """Return the rules of an agent, those for any agent with a skill last.

    A path for any skill gets the first skill of its card.
    """
    own = [backend for backend in snapshot.backends.values() if backend.agent == agent]
    texts = [snapshot.directory.texts.of(backend.upstream.backend, backend.source) for backend in own]
    skill = next((each for text in texts for each in text.skill_ids), "SKILL")
    rules = snapshot.table.agents[agent].rules
    return [rule.at(skill) for rule in sorted(rules, key=lambda rule: rule.by_skill)]


def _address(snapshot: Snapshot, rule: Rule) -> Address:
    # Any host fits a wildcard.
    host = rule.host.replace("*", "any", 1) if rule.host is not None else None
    url = snapshot.public.at(host, rule.path)
    below = f"/{rule.tenant}" if rule.tenant is not None and fits_path(rule.tenant) else ""
    card = f"{url.rstrip('/')}{below}/.well-known/agent-card.json"
    path = "/" + "/".join((*snapshot.prefix, *rule.path))
    return Address(url, path, urlsplit(url).hostname or "", rule.tenant, str(rule.place), card)


@dataclass(frozen=True, slots=True)
class ServedView:
    """A card as the gateway serves it, or the reason why there is none.

    Attributes:
        interfaces: URL, binding, version and tenant of each.
    """

    text: str
    error: str
    interfaces: Sequence[Mapping[str, Any]] = ()


def served_card(
    backend: Backend, address: Address, rule: Rule, *, tenant: str | None, bare: bool = False
) -> ServedView:
    """Return the card that a caller reads at an address.

    Args:
        tenant: The value of the `tenant` field on it.
        bare: As `ServedCards.card`.
    """
    try:
        card = backend.cards.card(rule, tenant, address.host, bare=bare, modern=True)
    except Fault as fault:
        return ServedView("", f"{fault.message}: {fault.detail}" if fault.detail else fault.message)
    tree = json.loads(card.body)  # noqa: TID251 - a card of our own making, to be shown
    return ServedView(json.dumps(tree, indent=2, ensure_ascii=False), "", tree.get("supportedInterfaces") or ())


def agent_values(
    snapshot: Snapshot, entry: CatalogEntry, sanitized: SanitizedCard | None, found: Sequence[Address], card: ServedView
) -> dict[str, Any]:
    """Return the values of the page of an agent.

    Args:
        found: Its addresses; the first one is called in the examples.
        card: The card that it has there.
    """
    signs_in = snapshot.config.auth is not None
    return {
        "entry": entry,
        "sanitized": sanitized,
        "addresses": found,
        "card": card,
        "calls": snippets(found[0], signs_in=signs_in),
        "with_message": with_message,
        "example": next((text for skill in entry.text.skills for text in skill.examples), "Hello"),
        "signs_in": signs_in,
    }


def agent_for(snapshot: Snapshot, principal: Principal | None, name: str) -> dict[str, Any] | None:
    """Return the values of the page of an agent that a caller may see; None if it is missing or hidden."""
    seen = next((each for each in _seen(snapshot, principal) if each.agent == name), None)
    rule = None if seen is None else rule_for(snapshot.table, seen, principal)
    if seen is None or rule is None:
        return None
    address = _address(snapshot, rule)
    tenant = read_backend_key(seen.listing.backend)[1]
    own = tenant if principal is not None and tenant == principal.tenant else None
    card = served_card(
        snapshot.backends[seen.listing.backend], address, rule, tenant=own or rule.tenant, bare=not seen.tells
    )
    return agent_values(snapshot, _seen_entry(snapshot, seen), seen.sanitized, [address], card)


def routes_to(snapshot: Snapshot, agent: str, tenants: Sequence[str], address: Address) -> list[dict[str, Any]]:
    """Return the route of a call to an agent's address for some tenants, with the reasons."""
    asked: list[str | None] = [None, *[tenant for tenant in tenants if tenant != "*"][:MOST_EXPLAINED]]
    found = []
    for tenant in asked:
        if tenant == "anonymous":
            continue
        inquiry = Inquiry(address.path, tenant=address.tenant, as_=tenant, host=address.host)
        answer = snapshot.explain(inquiry)
        why = next((each["why"] for each in answer["candidates"] if each["agent"] == agent), answer["hint"] or "")
        found.append({"tenant": tenant, "agent": answer["agent"], "reason": answer["reason"], "why": why})
    return found


def ranks_of(snapshot: Snapshot, agent: str, skills: Sequence[Skill]) -> list[dict[str, Any]]:
    """Return the rank of an agent for its first skills, with its parts."""
    return [
        {"skill": skill.id, "backend": ranked.backend, "score": str(ranked), "trouble": ranked.trouble}
        for skill in skills[:MOST_SHOWN]
        for ranked in snapshot.directory.ranked(skill.id, [agent])
    ]


def usage_of(
    limits: QuotaEnforcer, backends: Sequence[str], tenants: Sequence[str], now: float
) -> list[dict[str, Any]]:
    """Return the limits that a call to an agent meets, and their use in this process."""
    rows = [("agent", name, usage) for name in backends for usage in limits.usage("agent", name, now)]
    for tenant in tenants[:MOST_EXPLAINED]:
        rows += [("tenant", tenant, usage) for usage in limits.usage("tenant", tenant, now)]
    return [{"scope": scope, "name": name, **usage._asdict()} for scope, name, usage in rows]


# ---- Copy the call ---------------------------------------------------------------------------------------------------

MARK = "__MESSAGE__"
"""Placeholder for the message, as a JSON string, in the text of a call."""


def snippets(address: Address, *, signs_in: bool) -> dict[str, str]:
    """Return the call as people write it, with `MARK` for the message.

    The credential is read from the environment variable `A2A_TOKEN`; it is never part of the text.
    """
    card_base = address.card_url.removesuffix(".well-known/agent-card.json")
    tenant = "" if address.tenant is None else f'"tenant":{json.dumps(address.tenant)},'
    message = f'{{"messageId":"1","role":"ROLE_USER","parts":[{{"text":{MARK}}}]}}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{{{tenant}"message":{message}}}}}'
    credential = ' \\\n  -H "Authorization: Bearer $A2A_TOKEN"' if signs_in else ""
    return {
        "curl": f"""\
curl -N {_shell(address.url)}{credential} \\
  -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' \\
  -d {_shell(body)}
""",
        "python": f"""\
import asyncio
{"import os" if signs_in else ""}
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest

URL = {json.dumps(card_base)}
HEADERS = {'{"Authorization": "Bearer " + os.environ["A2A_TOKEN"]}' if signs_in else "{}"}


async def main() -> None:
    async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(URL)
        message = new_text_message({MARK}, role=Role.ROLE_USER)
        async for event in client.send_message(SendMessageRequest(message=message)):
            print(event)


asyncio.run(main())
""",
        "javascript": f"""\
import {{ ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory }} from "@a2a-js/sdk/client";

const url = {json.dumps(card_base)};
const headers = {"{ Authorization: `Bearer ${process.env.A2A_TOKEN}` }" if signs_in else "{}"};
const fetchImpl = (input, init = {{}}) =>
  fetch(input, {{ ...init, headers: {{ ...Object.fromEntries(new Headers(init.headers)), ...headers }} }});
const factory = new ClientFactory({{
  transports: [new JsonRpcTransportFactory({{ fetchImpl }})],
  cardResolver: new DefaultAgentCardResolver({{ fetchImpl }}),
}});

const client = await factory.createFromUrl(url, ".well-known/agent-card.json");
const parts = [{{ content: {{ $case: "text", value: {MARK} }} }}];
const message = {{ messageId: crypto.randomUUID(), role: 1, parts }};
for await (const event of client.sendMessageStream({{ message }})) {{
  console.log(JSON.stringify(event));
}}
""",
    }


def with_message(language: str, text: str, message: str) -> str:
    """Return the text of a call with its message."""
    # A JSON string is a string of Python and of JavaScript, too.
    literal = json.dumps(message)
    return text.replace(MARK, literal.replace("'", "'\\''") if language == "curl" else literal)


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ---- Requests --------------------------------------------------------------------------------------------------------

SHOWN = (
    "agent", "tenant", "principal", "operation", "binding", "a2a_version", "status", "outcome", "reason", "task_state",
    "duration_s", "first_byte_s", "attempts", "stream", "events", "backend", "match_line", "request_id",
)  # fmt: skip
"""The fields of the access log that the page shows."""


def matches(line: Recent, query: Mapping[str, str]) -> bool:
    """Return whether a request matches the filter.

    Args:
        query: `agent` and `tenant` by name; `status` is an HTTP status, an outcome or a reason.
    """
    fields = line.fields
    for name in ("agent", "tenant"):
        if query.get(name) and query[name] not in str(fields.get(name) or "").split(", "):
            return False
    status = query.get("status", "")
    return not status or status in (str(fields.get("status")), fields.get("outcome"), fields.get("reason"))


def row(line: Recent) -> dict[str, object]:
    """Return a request as a row of the page."""
    return {"number": line.number, "time": line.time, **{name: line.fields.get(name) for name in SHOWN}}
