"""The stage for the machine's rules: one run of the site with its model; every step is checked against it.

What a rule draws are kinds of ids and numbers to pick by; which ids these are at that moment is decided here, so that
an example that is made smaller still means something.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypothesis import note

from tests.isolation.answer import Told
from tests.isolation.ask import CREATE, SENDS, SPEECHES, Ask, Speech
from tests.isolation.client import Clients
from tests.isolation.heard import Heard
from tests.isolation.model import Broken, Mine, Model, Owner, Visit
from tests.isolation.odd import Odd, telling
from tests.isolation.site import Caller, Place, Site

T = TypeVar("T")
Run = Callable[[Callable[[], Coroutine[Any, Any, T]]], T]

WORDS = ("chat-1", "chat-2", 'Zoë "z" \\ 1', "a b+c&d=e%20/", "gw-" + "a" * 26 + "-chat-1", "x" * 480)
"""Names that clients give to contexts, the same for all clients."""


_LOOKED_INTO = ("as the task", "as a reference", "in a webhook of a send")
"""Places in which another's id stops a call before the agent is asked, even an agent that is told nothing of it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A page token that was given.

    Attributes:
        ask: For which list.
        owner: To whom.
    """

    agent: str
    ask: Ask
    owner: Owner
    token: str


class Stage:
    """One run.

    Args:
        run: Runs something where gateway and agents run, and gives what it comes to.
        figures: Counts what was done.

    Attributes:
        tokens: Page tokens that were given.
    """

    def __init__(self, run: Run[Any], site: Site, figures: Counter[str]) -> None:
        self.figures = figures
        self.site = site
        self.model = Model(site.agents)
        self.tokens: list[Token] = []
        self._run = run
        self._serial = 0
        self._clients: Clients | None = None
        run(self._begin)

    async def _begin(self) -> None:
        await self.site.begin()
        self._clients = Clients(self.site)
        self._learn([])

    async def _leave(self) -> None:
        if self._clients is not None:
            await self._clients.aclose()

    def again(self) -> None:
        """Other gateways go on where these have stopped."""

        async def go_on() -> None:
            await self._leave()
            await self.site.again()
            self._clients = Clients(self.site)

        self._run(go_on)
        self.site.take()

    def end(self) -> None:
        """The run is over."""

        async def over() -> None:
            await self._leave()
            await self.site.end()

        self._run(over)

    # ---- Steps -------------------------------------------------------------------------------------------------------

    def do(self, visit: Visit, ask: Ask) -> tuple[Told, list[Heard]]:
        """Ask, and hold what is heard and told to the model; and compare what is told of another's with nobody's.

        Raises:
            Broken: 1, 2, 3 or 4.
        """
        told, heard = self.once(visit, ask)
        others = self._foreign(ask, visit)
        for where, _ in others:
            self.figures[f"ids of others {where}"] += 1
        said = self.model.said(visit.agent, visit.whose)
        if any(each in said for _, each in others):
            return told, heard
        # Of two ids in one place the last may count.
        asked = heard and not visit.place.ancient and ask.odd is None
        if asked and any(where in _LOOKED_INTO for where, _ in others):
            raise Broken(f"1: {visit.agent} was asked though {others} are named: {told}")
        # In 0.1 the same send is another one when its task is known.
        begun = heard and ask.operation in SENDS and ask.speech.version == "0.1"
        if visit.place.adopts or not others or begun:
            return told, heard
        twin, too = self.once(visit, self._without(ask, visit.agent, others))
        self.figures["compared with ids of nobody"] += 1
        if bool(heard) != bool(too) or (not heard and told.plain != twin.plain):
            raise Broken(f"4: what is another's is told from what is nobody's:\n{told.plain}\n{twin.plain}")
        return told, heard

    def once(self, visit: Visit, ask: Ask) -> tuple[Told, list[Heard]]:
        """Ask, and hold what is heard and told to the model.

        Raises:
            Broken: 1, 2, 3 or 5.
        """
        ((told, heard),) = self.together([(visit, ask)])
        if len(heard) == 1 and ask.context and ask.odd is None and ask.speech.version != "0.1":
            self.model.spell(visit.agent, visit.whose, ask.context, heard[0])
        return told, heard

    def _begin_anew(self, visit: Visit, ask: Ask, told: Told, heard: Sequence[Heard]) -> None:
        """Hold a client's own name for a task, in the words of 0.1, to what that client has named so before.

        Raises:
            Broken: 5.
        """
        if ask.speech.version != "0.1" or ask.operation not in SENDS or len(heard) != 1:
            return
        if visit.place.name in ("ancient", "official"):
            # The one has them named by clients anyway, and the other makes of messages what it likes.
            return
        job = (visit.agent, visit.place.name, visit.caller.name, visit.tenant, ask.task)
        made = [name for name, by in self.site.agents[visit.agent].makers.items() if by is heard[0] and "-t" in name]
        known, named = self.model.jobs.get(job), self.model.tasks_in(heard[0])
        if made and told.ok and not ask.text.startswith(("hint ", "talk ")):
            self.model.jobs[job] = made[0]
        is_plain = ask.task.startswith("job-") and not ask.references and ask.odd is None
        if is_plain and named != ({known} if known else set()):
            raise Broken(f"5: {visit} calls {known} {ask.task}, and the agent heard of {named}: {told}")

    def together(self, calls: Sequence[tuple[Visit, Ask]]) -> list[tuple[Told, list[Heard]]]:
        """As `once`, of calls at the same time by callers that agents tell apart."""
        for visit, ask in calls:
            note(f"{visit}: {ask}")
            self._say(visit, ask)
        told = self._run(lambda: self._ask(calls))
        by = {visit.caller.tenant_and_subject: number for number, (visit, _) in enumerate(calls)}
        heard: list[list[Heard]] = [[] for _ in calls]
        for each in self.site.take():
            note(f"    {each.agent} heard {each.tenant}/{each.subject}: {each.said}")
            # A caller that was not among them fails there.
            number = by.get((each.tenant or "", each.subject or ""), 0)
            heard[number].append(each)
            self._hear(*calls[number], each)
        self._learn([(each, visit.whose) for (visit, _), own in zip(calls, heard, strict=True) for each in own])
        for (visit, ask), answer in zip(calls, told, strict=True):
            note(f"    {visit.caller} ← {answer}")
            self._count(ask, answer)
            self.model.tell(visit, answer)
        answers = list(zip(told, heard, strict=True))
        for (visit, ask), answered in zip(calls, answers, strict=True):
            self._begin_anew(visit, ask, *answered)
        return answers

    async def _ask(self, calls: Sequence[tuple[Visit, Ask]]) -> list[Told]:
        assert self._clients is not None
        return await asyncio.gather(*(self._clients.ask(visit.caller, ask) for visit, ask in calls))

    def _say(self, visit: Visit, ask: Ask) -> None:
        """Take note of what a caller names as it likes."""
        words = [ask.context] if ask.context else []
        if ask.odd is not None and (
            ask.odd.is_context or (ask.odd.is_config and ask.operation in (*SENDS, CREATE) and not self._tells(ask))
        ):
            words.append(ask.odd.value)
        if (visit.place.ancient or ask.speech.version == "0.1") and ask.operation in SENDS:
            words.append(ask.task)
        if visit.place.adopts:
            # An id without an owner may be named again when it is another's.
            beside = [*ask.references, ask.hook_task, ask.odd.value if ask.odd is not None else ""]
            words += [each for each in beside if each and self.model.owners.get(each) is None]
        self.model.say(visit.agent, visit.whose, *words)

    def _hear(self, visit: Visit, ask: Ask, heard: Heard) -> None:
        beside = "" if ask.odd is None or self._tells(ask) else ask.odd.value
        if not self.model.hear(visit, heard, beside):
            self.figures["ids of others where nobody looks"] += 1

    @staticmethod
    def _tells(ask: Ask) -> bool:
        odd, how = ask.odd, ask.speech
        return odd is not None and odd.tells(ask.operation, how.binding, how.version)

    def _learn(self, calls: list[tuple[Heard, Owner]]) -> None:
        self.model.learn([agent.makers for agent in self.site.agents.values()], calls)

    def _count(self, ask: Ask, told: Told) -> None:
        for name in ("calls", f"of {ask.operation}", f"in {ask.speech}", "answered" if told.ok else "refused"):
            self.figures[name] += 1

    def sent(self, visit: Visit, ask: Ask, told: Told, heard: list[Heard]) -> None:
        """Hold a good answer to a send to what was sent, and keep what it tells of.

        Raises:
            Broken: 5.
        """
        if ask.context and not ask.task and ask.odd is None:
            for sight in told.sights:
                if sight.context and sight.context != ask.context:
                    raise Broken(
                        f"5: {visit.caller} sends in {ask.context!r}, and is told of {sight.context!r}: {told}"
                    )
        if ask.odd is None and len(heard) != 1:
            raise Broken(f"5: {visit.caller} is answered, and {len(heard)} calls were heard")
        sights = [sight for sight in told.sights if sight.task]
        if not sights or ask.text.startswith(("talk ", "hint ", "fail ")):
            # A message is no task, also where 0.1 has no other word for it.
            return
        word = next((sight.context for sight in sights if sight.context), "")
        named = ask.speech.version == "0.1" and not visit.place.ancient
        mine = Mine(visit, sights[0].task, word, named)
        if word and not any(each.is_same(mine) for each in self.model.mine):
            self.model.mine.append(mine)

    def keep_token(self, visit: Visit, ask: Ask, told: Told) -> None:
        """Keep the page token of an answer, if it has one."""
        token = told.results[0].get("nextPageToken") if told.ok and told.results else None
        if token and ask.odd is None:
            self.tokens.append(Token(visit.agent, ask, visit.whose, token))

    # ---- Who calls, and where ----------------------------------------------------------------------------------------

    def visit(self, place: Place, caller: Caller, pick: int = 0) -> Visit:
        """Somebody at a place, by one of the A2A tenants that it may name there."""
        if place.name != "own":
            return Visit(place, caller, place.agents.get(caller.tenant, "nobody"))
        if caller.tenant == "desk":
            tenant = ("acme", "globex")[pick % 2]
            return Visit(place, caller, place.agents[tenant], tenant)
        tenant = ("", caller.tenant, caller.tenant, "globex")[pick % 4]
        return Visit(place, caller, place.agents[caller.tenant] if tenant in ("", caller.tenant) else "nobody", tenant)

    def settle(self, place: Place, caller: Caller, *, hooked: bool) -> None:
        """Give somebody a task, perhaps with a webhook, before anything happens."""
        visit = self.visit(place, caller)
        text = f"ask {self.model.text(visit.agent, visit.whose)}"
        ask = Ask("SendMessage", place.name, SPEECHES[0], text, context=WORDS[0], tenant=visit.tenant)
        told, heard = self.once(visit, ask)
        if not told.ok:
            raise Broken(f"5: {visit.caller} sends, and is told {told}")
        self.sent(visit, ask, told, heard)
        if hooked:
            task, hook = told.sights[0].task, self.model.text(visit.agent, visit.whose)
            self.once(visit, replace(ask, operation=CREATE, task=task, context="", config="p-0", hook=hook))

    # ---- What is named -----------------------------------------------------------------------------------------------

    def task(self, kind: str, pick: int, visit: Visit) -> str:
        """The id of a task of a kind; where there is none of it, one that never was."""
        model, agent, whose = self.model, visit.agent, visit.whose
        match kind:
            case "own":
                found = model.mine_at(agent, whose) or model.own(agent, "t", whose)
            case "foreign":
                found = model.foreign(agent, "t", whose)
            case "elsewhere":
                found = [id for id, known in model.owners.items() if known == whose and "-t" in id]  # noqa: A001
                found = [id for id in found if not id.startswith(f"{agent}-")]  # noqa: A001 - the word
            case "next":
                found = self._next(agent, "t")
            case "none":
                return ""
            case _:
                found = []
        return found[pick % len(found)] if found else self._never(agent)

    def context(self, kind: str, pick: int, visit: Visit) -> str:
        """A context of a kind; where there is none of it, a word of clients."""
        model, agent = self.model, visit.agent
        match kind:
            case "none":
                return ""
            case "own":
                found = [each.word for each in model.mine if (each.agent, each.owner) == (agent, visit.whose)]
            case "foreign":
                found = model.foreign(agent, "c", visit.whose)
            case "never":
                found = [f"{agent}-c9999"]
            case "next":
                found = self._next(agent, "c")
            case _:
                found = []
        return found[pick % len(found)] if found else WORDS[pick % len(WORDS)]

    def odd(self, drawn: Any, pick: int, visit: Visit, operation: str, how: Speech) -> Odd | None:
        """One more id in a call, of what was drawn for it."""
        if drawn is None:
            return None
        if isinstance(drawn, int):
            alike = telling(operation, how.binding, how.version)
            which, variant = drawn % len(alike), drawn // len(alike)
            odd = alike[which][variant % len(alike[which])]
            return replace(odd, value=self.task("foreign", pick, visit))
        way, name, form, kind, first = drawn
        odd = Odd(way, name, form, "", first=first)
        if odd.is_context:
            return replace(odd, form="{}", value=WORDS[pick % 2])
        # Where a task is its first caller's, so is whatever is written a little otherwise.
        return replace(odd, value=self.task(kind, pick, visit), form="{}" if visit.place.adopts else odd.form)

    def is_own(self, ask: Ask, visit: Visit) -> bool:
        """Whether a call that its caller may make names its own tasks alone."""
        mine = self.model.mine_at(visit.agent, visit.whose)
        named = [ask.task if ask.speech.version != "0.1" else "", *ask.references, ask.hook_task]
        return visit.agent in self.site.agents and ask.odd is None and all(each in mine for each in named if each)

    def _next(self, agent: str, letter: str) -> list[str]:
        """The id that an agent will give to what it makes next."""
        if agent not in self.site.agents:
            return []
        prefix = f"{agent}-{letter}"
        return [f"{prefix}{sum(made.startswith(prefix) for made in self.site.agents[agent].makers) + 1:04}"]

    def _never(self, agent: str) -> str:
        self._serial += 1
        return f"{agent if agent in self.site.agents else 'shared'}-t{9000 + self._serial % 1000}"

    def _foreign(self, ask: Ask, visit: Visit) -> list[tuple[str, str]]:
        """The ids of others that a call names, each with where it stands."""
        # Tasks of 0.1 are called as their clients like, and what it does not know may be lost.
        version = ask.speech.version
        named = [("as a name of 0.1" if version == "0.1" else "as the task", ask.task)]
        named += [("as a reference of 0.1" if version == "0.1" else "as a reference", each) for each in ask.references]
        if version == "1.0" or ask.speech == Speech("jsonrpc", "0.3"):
            named.append(("in a webhook of a send", ask.hook_task))
        if ask.odd is not None:
            named.append(("in an odd place", ask.odd.value))
        others = self.model.foreign(visit.agent, "t", visit.whose)
        return [(where, each) for where, each in named if each in others]

    def _without(self, ask: Ask, agent: str, others: Sequence[tuple[str, str]]) -> Ask:
        """The same call with ids that never were in place of others'."""
        other = {each: self._never(agent) for each in dict.fromkeys(each for _, each in others)}
        return replace(
            ask,
            task=other.get(ask.task, ask.task),
            references=tuple(other.get(each, each) for each in ask.references),
            hook_task=other.get(ask.hook_task, ask.hook_task),
            odd=None if ask.odd is None else replace(ask.odd, value=other.get(ask.odd.value, ask.odd.value)),
        )


def able(how: Speech, operation: str, place: Place) -> Speech:
    """Return the dialect to use instead if a place has no such operation in the drawn one."""
    if how.binding == "native":
        how = Speech(*place.speaks[0 if how.version == "first" else -1].split(" "))
    if how.binding == "grpc" and not place.grpc:
        how = Speech("rest", how.version)
    return how if how.says(operation) else SPEECHES[0]
