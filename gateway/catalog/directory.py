"""The directory of one snapshot: the skills and tags of agents' cards, indexed, and the agents that a caller may see.

The index follows the cards: a change of a card re-reads that card alone, at the next look-up. A look-up reads the
ranked list of one skill, which is kept until a card or a measured latency changes, or for a minute.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import SanitizedCard
from gateway.catalog.ranking import USUAL_TRUST, Changes, FirstByte, Score
from gateway.principal import Principal
from gateway.routing.table import Table

_RANKS_KEPT = 60.0
"""Seconds after which agents are ranked again: a measured latency may have expired."""


class Settled(Protocol):
    """Whether the first attempt to read a card has ended."""

    def is_set(self) -> bool:
        """Return whether it has."""


class CardFacts(Protocol):
    """The card of one backend, as `cards.fetch.CardSource` has it."""

    @property
    def portrait(self) -> SanitizedCard | None:
        """The sanitized card, or None."""

    @property
    def stale(self) -> bool:
        """Whether the agent has not confirmed it for too long."""

    @property
    def personal(self) -> bool:
        """Whether it is for callers that may use the agent alone."""

    @property
    def version(self) -> int:
        """Grows with each change."""

    @property
    def settled(self) -> Settled:
        """Whether the first attempt to read it has ended."""

    @property
    def error(self) -> str | None:
        """The reason of the last failure, for operators; or None."""


def _no_trouble() -> str:
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """One backend of an agent, as the catalog knows it.

    Attributes:
        backend: Its key.
        hint: The operator's latency in seconds, or None.
        why_down: Returns why no call can go there now, or an empty text.
        first_byte: Its measured latency.
        is_product: Whether its card is that of the agent, and not that of one tenant's backend.
    """

    agent: str
    backend: str
    card: CardFacts
    first_byte: FirstByte
    trust: int = USUAL_TRUST
    hint: float | None = None
    why_down: Callable[[], str] = _no_trouble
    is_product: bool = True

    @property
    def is_open(self) -> bool:
        """Whether a stranger may read what its card says of it."""
        return self.is_product and not self.card.personal

    @property
    def portrait(self) -> SanitizedCard | None:
        """The card, or None if there is none that can be served."""
        return None if self.card.stale else self.card.portrait

    @property
    def skills(self) -> tuple[Tree, ...]:
        """The skills of its card."""
        portrait = self.portrait
        return () if portrait is None else portrait.skills

    def score(self, now: float, *, by_tag: bool) -> Score:
        """Return its score for a skill."""
        measured = self.first_byte.seconds(now)
        return Score.of(self.backend, by_tag=by_tag, trust=self.trust, hint=self.hint, measured=measured)


@dataclass(frozen=True, slots=True)
class RankedListing:
    """A backend that has a skill, and its score."""

    listing: Listing
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
        """Why no call can go there now, or an empty text."""
        if self.listing.portrait is None:
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


class _Skill:
    """The backends that have one skill or tag."""

    __slots__ = ("by_agent", "ordered", "ranked_at", "steps")

    def __init__(self) -> None:
        self.by_agent: dict[str, dict[str, tuple[Listing, bool]]] = {}
        self.ordered: list[RankedListing] | None = None
        self.ranked_at = 0.0
        self.steps = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """An agent as one caller may see it.

    Attributes:
        listing: The backend whose card the caller would read.
        tells: Whether the caller may read what the agent says of itself: its descriptions and skills.
    """

    listing: Listing
    tells: bool

    @property
    def agent(self) -> str:
        """Its name in the file."""
        return self.listing.agent

    @property
    def portrait(self) -> SanitizedCard | None:
        """Its card, or None where the caller may not read it or there is none."""
        return self.listing.portrait if self.tells else None

    @property
    def skills(self) -> tuple[Tree, ...]:
        """The skills of its card, as far as the caller may read it."""
        return self.listing.skills if self.tells else ()


class Directory:
    """The agents of one snapshot.

    Args:
        changes: Counts the changes of cards and of measured latencies.
        clock: Monotonic seconds.
    """

    def __init__(
        self, table: Table, listings: Sequence[Listing], changes: Changes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._table = table
        self._listings = tuple(listings)
        self._changes = changes
        self._clock = clock
        self._by_agent: dict[str, list[Listing]] = {}
        for listing in listings:
            self._by_agent.setdefault(listing.agent, []).append(listing)
        self._skills: dict[str, _Skill] = {}
        self._read: dict[str, tuple[int, frozenset[str]]] = {}
        self._unread = dict.fromkeys(self._by_agent)
        self._cards = -1

    # ---- Skills: what routing asks -----------------------------------------------------------------------------------

    def ranked(self, skill: str, agents: Collection[str]) -> Iterator[RankedListing]:
        """Yield the backends of some agents that have a skill, the best one first."""
        self._follow()
        entry = self._skills.get(skill)
        if entry is None:
            return
        now = self._clock()
        if len(agents) < len(entry.by_agent):
            own = (each for agent in agents for each in entry.by_agent.get(agent, {}).values())
            yield from sorted((_rank(listing, now, by_tag) for listing, by_tag in own), key=_by_score)
            return
        yield from (each for each in self._ordered(entry, now) if each.agent in agents)

    def unread(self, agents: Collection[str]) -> Iterator[str]:
        """Yield those of some agents of which nobody knows yet whether they have a card."""
        for agent in list(self._unread):
            if all(listing.card.settled.is_set() for listing in self._by_agent[agent]):
                del self._unread[agent]
            elif agent in agents:
                yield agent

    def absence(self, agent: str, skill: str) -> str:
        """Return why an agent is not ranked for a skill, for operators."""
        listings = self._by_agent.get(agent, ())
        if all(listing.card.portrait is None for listing in listings):
            error = next((listing.card.error for listing in listings if listing.card.error), None)
            return "has no card yet" if error is None else f"has no card: {error}"
        return f"has no skill or tag {skill!r} on its card"

    # ---- Agents: what the catalog asks -------------------------------------------------------------------------------

    def seen_by(self, principal: Principal | None) -> list[Seen]:
        """Return the agents that a caller may see, by name.

        A caller sees the agents that it may call, but for those that are left out of the catalog. A stranger, and an
        anonymous caller, sees the agents that are listed for anyone.
        """
        table = self._table
        is_stranger = principal is None or principal.method == "anonymous"
        found = []
        for agent in sorted(self._by_agent):
            rules = table.agents[agent]
            # `unlisted` leaves the catalog; what is private is in it for those who may call it.
            is_shown = rules.listed if is_stranger else rules.listed or not rules.public
            may_call = is_shown and principal is not None and table.may_call(principal, agent)
            if is_shown and (may_call or is_stranger):
                found.append(self._seen(agent, principal if may_call else None))
        return found

    def search(self, principal: Principal | None, *, skill: str = "", tag: str = "", text: str = "") -> list[Seen]:
        """Return the agents that a caller may see and that fit every filter, the best one first; all of them by name.

        Args:
            skill: A skill id or a tag, compared exactly: as it picks agents at `/skills/{skill}`.
            tag: A tag, compared exactly.
            text: A part of the name, a description, a skill or a tag, compared without case.
        """
        if not (skill or tag or text):
            return self.seen_by(principal)
        now, words = self._clock(), text.casefold()
        found = []
        for seen in self.seen_by(principal):
            ids = {str(each["id"]) for each in seen.skills}
            tags = {str(each) for own in seen.skills for each in own["tags"]}
            if skill and skill not in ids and skill not in tags:
                continue
            if (tag and tag not in tags) or (words and not _mentions(seen, words)):
                continue
            by_tag = bool(skill) and skill not in ids
            found.append((seen.listing.score(now, by_tag=by_tag), seen))
        return [seen for _, seen in sorted(found, key=lambda each: each[0])]

    def _seen(self, agent: str, caller: Principal | None) -> Seen:
        listings = self._by_agent[agent]
        if not self._table.agents[agent].by_tenant:
            return Seen(listings[0], tells=caller is not None or listings[0].is_open)
        own = next(
            (one for one in listings if caller is not None and self._is_own(one, caller)),
            None,
        )
        product = next((one for one in listings if one.is_open or (one.is_product and caller is not None)), None)
        return Seen(own or product or listings[0], tells=own is not None or product is not None)

    def _is_own(self, listing: Listing, caller: Principal) -> bool:
        route = self._table.agents[listing.agent].routes.get(caller.tenant)
        return route is not None and route.backend == listing.backend

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

    def _index(self, listing: Listing, before: Collection[str]) -> None:
        portrait = listing.card.portrait
        skills = () if portrait is None else portrait.skills
        found = {str(tag): True for skill in skills for tag in skill["tags"]}
        found |= {str(skill["id"]): False for skill in skills}
        for word in before:
            if word not in found:
                entry = self._skills[word]
                entry.by_agent[listing.agent].pop(listing.backend, None)
                if not entry.by_agent[listing.agent]:
                    del entry.by_agent[listing.agent]
                if not entry.by_agent:
                    del self._skills[word]
                entry.ordered = None
        for word, by_tag in found.items():
            entry = self._skills.setdefault(word, _Skill())
            entry.by_agent.setdefault(listing.agent, {})[listing.backend] = listing, by_tag
            entry.ordered = None
        self._read[listing.backend] = listing.card.version, frozenset(found)

    def _ordered(self, entry: _Skill, now: float) -> list[RankedListing]:
        steps = self._changes.ranks
        if entry.ordered is None or entry.steps != steps or now - entry.ranked_at > _RANKS_KEPT:
            own = (each for backends in entry.by_agent.values() for each in backends.values())
            entry.ordered = sorted((_rank(listing, now, by_tag) for listing, by_tag in own), key=_by_score)
            entry.ranked_at, entry.steps = now, steps
        return entry.ordered


_by_score = attrgetter("score")


def _rank(listing: Listing, now: float, by_tag: bool) -> RankedListing:  # noqa: FBT001 - a part of the score
    return RankedListing(listing, listing.score(now, by_tag=by_tag))


def _mentions(seen: Seen, words: str) -> bool:
    portrait = seen.portrait
    texts = [seen.agent]
    if portrait is not None:
        texts += [portrait.name, portrait.description]
        for skill in portrait.skills:
            texts += [str(skill["id"]), str(skill["name"]), str(skill["description"]), *map(str, skill["tags"])]
    return any(words in text.casefold() for text in texts)
