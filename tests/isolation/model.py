"""The owner of everything, by calls and answers alone, and the ids that must never be seen.

Ids that agents make have a shape of their own (`mind.py`), and so have the texts of callers, `mk-0001`, and what the
gateway puts before the contexts of clients: whatever has one of these shapes has an owner, or is nobody's.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tests.isolation.answer import Told
from tests.isolation.heard import Heard
from tests.isolation.site import Caller, Place

Owner = tuple[str, str]
"""A tenant, and a principal where they are told apart."""


class Broken(AssertionError):  # noqa: N818 - what it is
    """A promise that does not hold; the text begins with its number (see the package)."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody at a place.

    Attributes:
        agent: The one that may hear what is asked; a name that is no agent's where there is none.
        tenant: The A2A tenant that is named.
    """

    place: Place
    caller: Caller
    agent: str
    tenant: str = ""

    @property
    def whose(self) -> Owner:
        """As whom its caller owns things there."""
        return self.caller.tenant, self.caller.principal if self.place.by_principal else ""

    def __str__(self) -> str:
        return f"{self.caller} at {self.place}"


@dataclass
class Mine:
    """A task that somebody was told of, as its owner knows it.

    Attributes:
        visit: When it was sent for.
        id: As its owner calls it.
        word: The owner's name of its context.
        named: Whether it is known to its maker alone, in the words of 0.1, because its maker named it.
    """

    visit: Visit
    id: str
    word: str
    named: bool

    @property
    def agent(self) -> str:
        return self.visit.agent

    @property
    def owner(self) -> Owner:
        return self.visit.whose

    def is_same(self, other: "Mine") -> bool:
        """Whether both are one task, by one name."""
        mine, theirs = ((each.agent, each.owner, each.id, each.named) for each in (self, other))
        return mine == theirs and (not self.named or self.visit.caller == other.visit.caller)


@dataclass
class Model:
    """All that there is, and whose.

    Attributes:
        agents: The names of all agents.
        owners: Of ids that agents made, tasks and contexts alike; None where it is nobody's yet.
        texts: The agent and the owner of each text like `mk-0001`.
        words: Names that each owner has given, at each agent.
        contexts: The callers heard in each context, at each agent; of 0.1, also the caller that named each task.
        spelled: As what an agent hears an owner's word for a context.
        mine: Tasks that were told of.
        jobs: The agent's id of a task that a client of 0.1 has named: by agent, place, caller, A2A tenant and name.
    """

    agents: Iterable[str]
    owners: dict[str, Owner | None] = field(default_factory=dict)
    texts: dict[str, tuple[str, Owner]] = field(default_factory=dict)
    words: dict[tuple[str, Owner], set[str]] = field(default_factory=dict)
    contexts: dict[tuple[str, str], Owner] = field(default_factory=dict)
    spelled: dict[tuple[str, Owner, str], str] = field(default_factory=dict)
    mine: list[Mine] = field(default_factory=list)
    jobs: dict[tuple[str, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = "|".join(map(re.escape, self.agents))
        self._ids = re.compile(rf"(?:{names})-[tc]\d{{4}}")
        self._tasks = re.compile(rf"(?:{names})-t\d{{4}}")
        self._shapes = re.compile(rf"(?:{names})-[tc]\d{{4}}|mk-\d{{4}}|gw-[a-z0-9]{{20,}}-")

    def text(self, agent: str, whose: Owner) -> str:
        """A text that nobody else has said."""
        text = f"mk-{len(self.texts) + 1:04}"
        self.texts[text] = (agent, whose)
        return text

    def say(self, agent: str, whose: Owner, *words: str) -> None:
        """Somebody names something: others may have a thing of that name, and so may now this one."""
        self.words.setdefault((agent, whose), set()).update(words)

    def said(self, agent: str, whose: Owner) -> set[str]:
        """Return the ids that a caller has named at an agent."""
        return self.words.get((agent, whose), set())

    # ---- What agents may hear ----------------------------------------------------------------------------------------

    def hear(self, visit: Visit, heard: Heard, beside: str = "") -> bool:
        """Hold a call that an agent heard to what it may hear; whether all of it is so, but for the id beside.

        Args:
            beside: An id that stands where nobody looks for one.

        Raises:
            Broken: 1 or 2.
        """
        who, agent, whose = visit.caller, visit.agent, visit.whose
        if heard.agent != agent:
            raise Broken(f"1: {heard.agent} heard {visit}: {heard.said}")
        if (heard.tenant, heard.subject) != (who.tenant, who.subject):
            raise Broken(f"1: {agent} was told of {heard.tenant}/{heard.subject}, and it was {who}: {heard.said}")
        texts = () if visit.place.ancient else heard.texts
        for id in [found for text in texts for found in self._tasks.findall(text)]:  # noqa: A001 - the word
            known = self.owners.get(id)
            if known is None and visit.place.adopts:
                # The first answer decides the owner.
                continue
            if known != whose and id == beside:
                return False
            if known != whose:
                raise Broken(f"1: {agent} heard {who} name {id}, which is {_of(known)}: {heard.said}")
        return self._hear_names(visit, heard, beside)

    def _hear_names(self, visit: Visit, heard: Heard, beside: str) -> bool:
        """As `hear`, of what callers name themselves."""
        agent, whose = visit.agent, visit.whose
        # At an agent of 0.1 clients name tasks as they do contexts.
        for name in heard.names if visit.place.ancient else heard.contexts:
            known = self.owners.get(name) or self.contexts.setdefault((agent, name), whose)
            if known != whose and name == beside:
                return False
            if known != whose:
                raise Broken(f"2: {agent} heard {visit.caller} name {name}, which is {_of(known)}: {heard.said}")
        return True

    def tasks_in(self, heard: Heard) -> set[str]:
        """The tasks that a call names, as agents call them."""
        return {found for text in heard.texts for found in self._tasks.findall(text)}

    def spell(self, agent: str, whose: Owner, word: str, heard: Heard) -> None:
        """Hold what an agent hears of an owner's word to what it has heard before.

        Raises:
            Broken: 5: one word leads to two contexts, or two words to one.
        """
        if self._ids.search(word) or len(heard.contexts) != 1:
            return
        (context,) = heard.contexts
        before = self.spelled.setdefault((agent, whose, word), context)
        others = [known for known, spelled in self.spelled.items() if spelled == context and known[0] == agent]
        if before != context or others != [(agent, whose, word)]:
            raise Broken(f"5: {whose} says {word!r}, and {agent} hears {context!r}; before: {before!r}, {others}")

    def learn(self, makers: Iterable[Mapping[str, Heard | None]], calls: Iterable[tuple[Heard, Owner]]) -> None:
        """Take note of what agents have made.

        Args:
            makers: As each agent has them.
            calls: The calls heard, each with its caller.
        """
        made = {id(heard): whose for heard, whose in calls}
        for each in makers:
            for name, heard in each.items():
                if self.owners.get(name) is None:
                    self.owners[name] = None if heard is None else made.get(id(heard))

    # ---- What callers may be told ------------------------------------------------------------------------------------

    def tell(self, visit: Visit, told: Told) -> None:
        """Hold an answer to what its caller may be told.

        Raises:
            Broken: 3.
        """
        who, agent, whose = visit.caller, visit.agent, visit.whose
        said = self.said(agent, whose)
        text = told.text
        for word in said:
            if word.startswith("gw-"):
                text = text.replace(word, "")
        told_of = {sight.task for sight in told.sights} if told.ok else set()
        for found in set(self._shapes.findall(text)):
            if found.startswith("gw-"):
                raise Broken(f"3: {who} is shown a mark: {told}")
            if found.startswith("mk-"):
                if self.texts.get(found) != (agent, whose):
                    raise Broken(f"3: {who} is shown {found}, the text of {self.texts.get(found)}: {told}")
            elif found not in said and self._reveal(visit, found, told_of) != whose:
                raise Broken(f"3: {who} is shown {found}, which is {_of(self.owners.get(found))}: {told}")

    def _reveal(self, visit: Visit, id: str, told_of: Collection[str]) -> Owner | None:  # noqa: A002 - the word
        """Return the owner of an id that is shown to a caller.

        Where nobody can look into the agent it is whose it was first, and so is what was there before there was a
        gateway.

        Args:
            told_of: The tasks that the answer is about; it may repeat others that were asked for.
        """
        known, whose = self.owners.get(id), visit.whose
        if known is not None or not id.startswith(f"{visit.agent}-"):
            return known
        if visit.place.adopts and id not in told_of and "-t" in id:
            return whose
        if id not in self.owners or visit.place.adopts:
            self.owners[id] = whose
        return self.owners[id]

    # ---- What there is to be named -----------------------------------------------------------------------------------

    def made(self, agent: str, letter: str) -> list[str]:
        """The ids that an agent has made, of tasks (`t`) or of contexts (`c`)."""
        return [name for name in self.owners if name.startswith(f"{agent}-{letter}")]

    def own(self, agent: str, letter: str, whose: Owner) -> list[str]:
        """Return the ids that a caller owns."""
        return [name for name in self.made(agent, letter) if self.owners[name] == whose]

    def foreign(self, agent: str, letter: str, whose: Owner) -> list[str]:
        """Return the ids that others own; of an agent of 0.1, the names that others give to their tasks."""
        if agent == "ancient" and letter == "t":
            own = self.mine_at(agent, whose)
            return [each.id for each in self.mine if each.agent == agent and each.id not in own]
        return [name for name in self.made(agent, letter) if self.owners[name] not in (None, whose)]

    def mine_at(self, agent: str, whose: Owner) -> list[str]:
        """The tasks that somebody knows of, but those that are known to their maker alone."""
        return [each.id for each in self.mine if (each.agent, each.owner, each.named) == (agent, whose, False)]


def _of(whose: Owner | None) -> str:
    return "nobody's" if whose is None else f"{'/'.join(filter(None, whose))}'s"
