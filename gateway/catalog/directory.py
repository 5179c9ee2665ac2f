"""The directory of one snapshot: the skills and tags of agents' cards, indexed, and the agents that a caller may see.

The index follows the cards: a change of a card re-reads that card alone, at the next look-up. A look-up reads the
ranked list of one skill, which is kept until a card or a measured latency changes, or for a minute. Texts that pages
show and search are made once per version of a card.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol

from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import SanitizedCard
from gateway.catalog.ranking import USUAL_TRUST, Changes, FirstByte, Score
from gateway.principal import Principal
from gateway.routing.table import Table

_RANKS_KEPT = 60.0
"""Seconds after which agents are ranked again: a measured latency may have expired."""


class CardFacts(Protocol):
    """The card of one backend, as `cards.fetch.CardSource` has it."""

    @property
    def sanitized(self) -> SanitizedCard | None:
        """The sanitized card, or None."""

    @property
    def stale(self) -> bool:
        """Whether the agent has not confirmed it for too long."""

    @property
    def personal(self) -> bool:
        """Whether it is only for callers that may use the agent."""

    @property
    def version(self) -> int:
        """Grows with each change."""

    @property
    def is_settled(self) -> bool:
        """Whether the first attempt to read it has ended."""

    @property
    def error(self) -> str | None:
        """The reason of the last failure, for operators; or None."""


@dataclass(frozen=True, slots=True, eq=False)
class AgentListing:
    """One backend of an agent, as the catalog knows it.

    Attributes:
        backend: Its key.
        hint: The operator's latency in seconds, or None.
        why_down: Returns why it cannot take calls now, or an empty text.
        first_byte: Its measured latency.
        is_product: Whether its card is that of the agent, and not that of one tenant's backend.
    """

    agent: str
    backend: str
    card: CardFacts
    first_byte: FirstByte
    trust: int = USUAL_TRUST
    hint: float | None = None
    why_down: Callable[[], str] = str
    is_product: bool = True

    @property
    def is_open(self) -> bool:
        """Whether a stranger may read what its card says of it."""
        return self.is_product and not self.card.personal

    @property
    def sanitized(self) -> SanitizedCard | None:
        """The card, or None if there is none that can be served."""
        return None if self.card.stale else self.card.sanitized

    @property
    def skills(self) -> tuple[Tree, ...]:
        """The skills of its card."""
        sanitized = self.sanitized
        return () if sanitized is None else sanitized.skills

    def score(self, now: float, *, by_tag: bool) -> Score:
        """Return its score for a skill."""
        measured = self.first_byte.seconds(now)
        return Score.of(self.backend, by_tag=by_tag, trust=self.trust, hint=self.hint, measured=measured)


@dataclass(frozen=True, slots=True)
class RankedListing:
    """A backend that has a skill, and its score."""

    listing: AgentListing
    score: Score

    @property
    def agent(self) -> str:
        """Its agent."""
        return self.listing.agent

    @property
    def backend(self) -> str:
        """Its key."""
        return self.listing.backend

    @property
    def trouble(self) -> str:
        """Why it cannot take calls now, or an empty text."""
        if self.listing.sanitized is None:
            return "its card is too old"
        return self.listing.why_down()

    @property
    def is_open(self) -> bool:
        """Whether a stranger may read what its card says of it."""
        return self.listing.is_open

    def parts(self) -> dict[str, object]:
        """Return the parts of its score."""
        return self.score.parts()

    def __str__(self) -> str:
        return str(self.score)


class _Order(NamedTuple):
    """The backends that have one skill or tag, the best one first.

    Attributes:
        changes: The number of changes when they were ranked.
        at: When that was.
    """

    changes: tuple[int, int]
    at: float
    ranked: list[RankedListing]


@dataclass(frozen=True, slots=True)
class Seen:
    """An agent as one caller may see it.

    Attributes:
        listing: The backend whose card the caller would read.
        tells: Whether the caller may read the agent's own descriptions and skills.
    """

    listing: AgentListing
    tells: bool

    @property
    def agent(self) -> str:
        """Its name in the file."""
        return self.listing.agent

    @property
    def sanitized(self) -> SanitizedCard | None:
        """Its card, or None where the caller may not read it or there is none."""
        return self.listing.sanitized if self.tells else None

    @property
    def skills(self) -> tuple[Tree, ...]:
        """The skills of its card, as far as the caller may read it."""
        return self.listing.skills if self.tells else ()


class Directory:
    """The agents of one snapshot.

    Args:
        changes: Counts the changes of cards and of measured latencies.
        clock: Monotonic seconds.

    Attributes:
        texts: The texts of the cards.
    """

    def __init__(
        self,
        table: Table,
        listings: Sequence[AgentListing],
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.texts = CardTexts()
        self._table = table
        self._listings = tuple(listings)
        self._changes = changes
        self._clock = clock
        self._by_agent: dict[str, list[AgentListing]] = {}
        self._by_backend = {listing.backend: listing for listing in listings}
        for listing in listings:
            self._by_agent.setdefault(listing.agent, []).append(listing)
        # By skill id or tag: the backends that have it, and whether it is only a tag there.
        self._words: dict[str, dict[str, bool]] = {}
        self._read: dict[str, tuple[int, Collection[str]]] = {}
        self._orders: dict[str, _Order] = {}
        self._strangers: list[Seen] = []
        self._unread = dict.fromkeys(self._by_agent)
        self._cards = -1

    # ---- Skills: what routing asks -----------------------------------------------------------------------------------

    def ranked(self, skill: str, agents: Collection[str]) -> Iterator[RankedListing]:
        """Yield the backends of some agents that have a skill, the best one first."""
        self._follow()
        having = self._words.get(skill)
        if having is None:
            return
        now = self._clock()
        if len(agents) >= len(having):
            yield from (each for each in self._ordered(skill, having, now) if each.agent in agents)
            return
        own = (each for agent in agents for each in self._by_agent.get(agent, ()) if each.backend in having)
        yield from sorted((_rank(each, now, by_tag=having[each.backend]) for each in own), key=_by_score)

    def unread(self, agents: Collection[str]) -> Iterator[str]:
        """Yield those of some agents whose card was not read yet."""
        for agent in list(self._unread):
            if all(listing.card.is_settled for listing in self._by_agent[agent]):
                del self._unread[agent]
            elif agent in agents:
                yield agent

    def absence(self, agent: str, skill: str) -> str:
        """Return why an agent is not ranked for a skill, for operators."""
        listings = self._by_agent.get(agent, ())
        if all(listing.card.sanitized is None for listing in listings):
            error = next((listing.card.error for listing in listings if listing.card.error), None)
            return "has no card yet" if error is None else f"has no card: {error}"
        return f"has no skill or tag {skill!r} on its card"

    # ---- Agents: what the catalog asks -------------------------------------------------------------------------------

    def seen_by(self, principal: Principal | None) -> list[Seen]:
        """Return the agents that a caller may see, by name.

        A caller sees the agents that it may call, except those that are left out of the catalog. A stranger, and an
        anonymous caller, sees the agents that are listed for anyone.
        """
        if principal is None or principal.method == "anonymous":
            self._follow()
            return self._strangers
        # `unlisted` agents are not in the catalog; private ones are, for their callers.
        table = self._table
        return [
            self._seen(agent, principal)
            for agent in sorted(self._by_agent)
            if (table.agents[agent].listed or not table.agents[agent].public) and table.may_call(principal, agent)
        ]

    def search(self, principal: Principal | None, *, skill: str = "", tag: str = "", text: str = "") -> list[Seen]:
        """Return the agents that a caller may see and that fit every filter, the best one first; all of them by name.

        Args:
            skill: A skill id or a tag, compared exactly: as it picks agents at `/skills/{skill}`.
            tag: A tag, compared exactly.
            text: A part of the name, a description, a skill or a tag, compared without case.
        """
        seen = self.seen_by(principal)
        if not (skill or tag or text):
            return seen
        self._follow()
        having = self._words.get(skill, {})
        if skill:
            seen = [each for each in seen if each.tells and each.listing.backend in having]
        if tag:
            tagged = self._words.get(tag, {})
            seen = [each for each in seen if each.listing.backend in tagged]
            seen = [each for each in seen if any(tag in skill["tags"] for skill in each.skills)]
        if text:
            words = text.casefold()
            seen = [each for each in seen if self._says(each, words)]
        now = self._clock()
        scored = [(each.listing.score(now, by_tag=having.get(each.listing.backend, False)), each) for each in seen]
        return [each for _, each in sorted(scored, key=itemgetter(0))]

    def _seen(self, agent: str, caller: Principal | None) -> Seen:
        listings = self._by_agent[agent]
        if not self._table.agents[agent].by_tenant:
            return Seen(listings[0], tells=caller is not None or listings[0].is_open)
        route = None if caller is None else self._table.agents[agent].routes.get(caller.tenant)
        own = None if route is None else next((one for one in listings if one.backend == route.backend), None)
        product = next((one for one in listings if one.is_open or (one.is_product and caller is not None)), None)
        return Seen(own or product or listings[0], tells=own is not None or product is not None)

    # ---- The index -----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Read the cards that have changed."""
        if self._changes.cards == self._cards:
            return
        self._cards = self._changes.cards
        for listing in self._listings:
            known = self._read.get(listing.backend)
            if known is None or known[0] != listing.card.version:
                self._index(listing, () if known is None else known[1])
        rules = self._table.agents
        self._strangers = [self._seen(agent, None) for agent in sorted(self._by_agent) if rules[agent].listed]

    def _index(self, listing: AgentListing, before: Collection[str]) -> None:
        backend, sanitized = listing.backend, listing.card.sanitized
        words: dict[str, bool] = {}
        for skill in () if sanitized is None else sanitized.skills:
            for tag in skill["tags"]:
                words.setdefault(tag, True)
            words[skill["id"]] = False
        for word in before:
            if word not in words:
                del self._words[word][backend]
                if not self._words[word]:
                    del self._words[word]
                    self._orders.pop(word, None)
        for word, by_tag in words.items():
            self._words.setdefault(word, {})[backend] = by_tag
        self._read[backend] = listing.card.version, words

    def _ordered(self, skill: str, having: Mapping[str, bool], now: float) -> list[RankedListing]:
        changes = self._changes.cards, self._changes.ranks
        order = self._orders.get(skill)
        if order is None or order.changes != changes or now - order.at > _RANKS_KEPT:
            own = (_rank(self._by_backend[backend], now, by_tag=by_tag) for backend, by_tag in having.items())
            order = self._orders[skill] = _Order(changes, now, sorted(own, key=_by_score))
        return order.ranked

    def _says(self, seen: Seen, words: str) -> bool:
        """Return whether words are in the texts of an agent that the caller may read, without case."""
        if words in seen.agent.casefold():
            return True
        return seen.sanitized is not None and words in self.texts.of(seen.listing.backend, seen.listing.card).words


_by_score = attrgetter("score")


def _rank(listing: AgentListing, now: float, *, by_tag: bool) -> RankedListing:
    return RankedListing(listing, listing.score(now, by_tag=by_tag))


# ---- The texts of cards ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of a card."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CardText:
    """The texts of one card, as pages show and search them.

    Cards are untrusted: the texts here have no lone surrogates, which cannot be encoded, and no characters that change
    the text direction, which could disguise a name.

    Attributes:
        words: All that is searched, without case.
    """

    title: str = ""
    description: str = ""
    skills: tuple[Skill, ...] = ()
    skill_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    words: str = ""

    @classmethod
    def of(cls, sanitized: SanitizedCard) -> "CardText":
        """Return the texts of a card."""
        title, description, skills = _text(sanitized.name), _text(sanitized.description), tuple(_skills(sanitized))
        words = [title, description]
        for skill in skills:
            words += (skill.id, skill.name, skill.description, *skill.tags)
        return cls(
            title,
            description,
            skills,
            tuple(dict.fromkeys(skill.id for skill in skills)),
            tuple(dict.fromkeys(tag for skill in skills for tag in skill.tags)),
            "\n".join(words).casefold(),
        )


NO_TEXT = CardText()


class CardTexts:
    """The texts of the cards of one snapshot, by backend."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, CardText]] = {}

    def of(self, backend: str, card: CardFacts) -> CardText:
        """Return the texts of a backend's card; empty ones where there is none."""
        version, text = self._known.get(backend, (-1, NO_TEXT))
        if version != card.version:
            text = NO_TEXT if card.sanitized is None else CardText.of(card.sanitized)
            self._known[backend] = card.version, text
        return text


def _skills(sanitized: SanitizedCard) -> Iterator[Skill]:
    """Yield the skills of a card; members of a wrong type count as missing."""
    for skill in sanitized.skills:
        name = _text(skill.get("id"))
        yield Skill(
            name,
            _text(skill.get("name")) or name,
            _text(skill.get("description")),
            tuple(_texts(skill.get("tags"))),
            tuple(_texts(skill.get("examples"))),
        )


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.translate(_TURNS).encode("utf-8", "replace").decode("utf-8")


def _texts(value: object) -> list[str]:
    return [_text(each) for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


_TURNS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
