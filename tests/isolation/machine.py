"""The machine: what callers do, one step after the other (see the package)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.isolation import known as tolerated
from tests.isolation.ask import CREATE, NATIVE, OF_TASK, SENDS, SPEECHES, Ask, Speech
from tests.isolation.model import Broken, Mine, Visit
from tests.isolation.odd import CONTEXTS, FORMS, TASKS, WAYS
from tests.isolation.site import CALLERS, PLACES, SEEDED, Caller, Place, Site
from tests.isolation.stage import WORDS, Run, Stage, able

_BY_NAME = {place.name: place for place in PLACES}
GROUPS = (*((name,) for name in _BY_NAME if name not in ("left", "right")), ("left", "right"))
"""Places that are tried out together."""
VERBS = ("new", "wait", "ask", "talk", "hint", "long", "fail")
STATUSES = ("", "", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED")
MIXED_UP = ("task", "bare", "bare", "message", "mention", "update")
WHOSE = ("own", "foreign", "foreign", "foreign", "never", "next", "elsewhere", "none")

_picks = st.integers(0, 7)
_whose = st.sampled_from(WHOSE)
# What an agent speaks itself goes on to it as it came.
_speeches = st.sampled_from(SPEECHES) | st.sampled_from(NATIVE)
_contexts = st.sampled_from(("none", "word", "word", "own", "foreign", "never", "next"))
_operations = st.lists(st.sampled_from((*OF_TASK, *SENDS)), min_size=1, max_size=4, unique=True)
_insiders = st.integers(0, 6)
_others = st.sampled_from(("foreign", "foreign", "foreign", "next"))
_ways = st.sampled_from(WAYS)
_forms = st.just("{}") | st.sampled_from(FORMS)
# A number is that of a place where somebody looks for an id.
_hidden = st.integers(0, 9999) | st.tuples(_ways, st.sampled_from(TASKS), _forms, st.just("foreign"), st.booleans())
_odds = st.none() | st.tuples(
    _ways, st.sampled_from(TASKS) | st.sampled_from(CONTEXTS), _forms, st.sampled_from(("own", "foreign", "never")),
    st.booleans(),
)  # fmt: skip
_paths = st.sampled_from(("{}",) * 6 + ("{}/", "{}%20", "{};x", "x/../{}", "x%2F..%2F{}", "./{}"))


class Isolation(RuleBasedStateMachine):
    """Callers that ask one gateway.

    Args:
        run, site, figures: As `Stage`.
    """

    def __init__(self, run: Run[Any], site: Site, figures: Counter[str]) -> None:
        super().__init__()
        self._stage = Stage(run, site, figures)
        self._places: list[Place] = []

    def teardown(self) -> None:
        self._stage.end()

    @initialize(
        groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2, unique=True),
        hooked=st.booleans(),
        luck=st.integers(0, 2**32),
    )
    def choose(self, *, groups: list[tuple[str, ...]], hooked: bool, luck: int) -> None:
        """Choose the places of a run; everybody has a task there already, perhaps with a webhook."""
        # Hypothesis begins with the simplest of all runs, in which nothing happens but one thing many times.
        assume(luck > 0)
        self._places = [_BY_NAME[name] for group in groups for name in group]
        for place in self._places:
            for caller in _reaching(place):
                self._stage.settle(place, caller, hooked=hooked)

    # ---- What belongs to nobody else, and what may belong to anybody ---------------------------------------------

    @rule(
        who=_picks, where=_picks, how=_speeches, streams=st.booleans(), verb=st.sampled_from(VERBS),
        task=st.just("none") | _whose, pick=_picks, context=_contexts, references=st.lists(_whose, max_size=2),
        hook=st.none() | _whose, snake=st.booleans(), odd=_odds,
    )  # fmt: skip
    def send(self, *, who: int, where: int, how: Speech, streams: bool, verb: str, pick: int, **drawn: Any) -> None:
        """Somebody sends a message."""
        visit = self._visit(who, where, pick)
        self._send(visit, self._message(visit, how, verb, SENDS[streams], pick, **drawn))

    @rule(
        who=_picks, where=_picks, how=_speeches, operation=st.sampled_from(OF_TASK), task=_whose, pick=_picks,
        config=st.integers(0, 1), snake=st.booleans(), odd=_odds, path=_paths,
    )  # fmt: skip
    def touch(self, *, who: int, where: int, how: Speech, operation: str, pick: int, **drawn: Any) -> None:
        """Somebody asks for something to be done with a task."""
        visit = self._visit(who, where, pick)
        self._touch(visit, self._asking(visit, how, operation, pick, **drawn))

    @rule(
        who=_insiders, where=_picks, streams=st.booleans(), verb=st.sampled_from(("new", "ask", "talk")),
        job=st.integers(0, 1), context=st.sampled_from(("none", "word")),
        then=st.sampled_from(("GetTask", "CancelTask")),
    )  # fmt: skip
    def name_as_others_do(
        self, *, who: int, where: int, streams: bool, verb: str, job: int, context: str, then: str
    ) -> None:
        """A client of 0.1 calls its task as clients like to."""
        visit, how = self._visit(who, where), Speech("jsonrpc", "0.1")
        ask = self._message(visit, how, verb, SENDS[streams], job, task="none", snake=False, context=context)
        self._send(visit, ask)
        self._touch(visit, replace(ask, operation=then))

    # ---- What belongs to somebody else -------------------------------------------------------------------------------

    @rule(
        who=_insiders, where=_picks, how=_speeches, operations=_operations, task=_others, pick=_picks,
        snake=st.booleans(), verb=st.sampled_from(("new", "wait", "ask")),
    )  # fmt: skip
    def name_another(
        self, *, who: int, where: int, how: Speech, operations: list[str], verb: str, pick: int, **drawn: Any
    ) -> None:
        """Somebody asks for things to be done with another's task, or goes on with it."""
        visit = self._visit(who, where, pick)
        for operation in operations:
            self._ask(visit, how, operation, pick, verb=verb, **drawn)

    @rule(
        who=_insiders, where=_picks, how=_speeches, streams=st.booleans(), other=_others, pick=_picks,
        task=st.sampled_from(("none", "none", "own")), snake=st.booleans(),
    )  # fmt: skip
    def mention_another(
        self, *, who: int, where: int, how: Speech, streams: bool, other: str, pick: int, **drawn: Any
    ) -> None:
        """Somebody sends messages of its own that mention what is another's."""
        visit = self._visit(who, where, pick)
        for mentioned in ({"references": ["own", other][pick % 2 :]}, {"hook": other}, {"context": other}):
            self._send(visit, self._message(visit, how, "new", SENDS[streams], pick, **drawn, **mentioned))

    @rule(
        who=_insiders, where=_picks, how=_speeches, operations=_operations, pick=_picks,
        task=st.sampled_from(("own", "own", "never")), snake=st.booleans(), odd=_hidden,
    )  # fmt: skip
    def hide_another(
        self, *, who: int, where: int, how: Speech, operations: list[str], pick: int, **drawn: Any
    ) -> None:
        """Somebody has another's task stand where it has no place, in calls about one of its own."""
        visit = self._visit(who, where, pick)
        for operation in operations:
            self._ask(visit, how, operation, pick, **drawn)

    @rule(
        who=_insiders, where=_picks, how=_speeches, operation=st.sampled_from((*SENDS, *SENDS, *OF_TASK)), pick=_picks,
        kind=st.sampled_from(MIXED_UP),
    )  # fmt: skip
    def mix_up(self, *, who: int, where: int, how: Speech, operation: str, pick: int, kind: str) -> None:
        """An agent answers somebody with what is another's."""
        stage, visit = self._stage, self._visit(who, where)
        agent = visit.agent
        if agent == "twin" and tolerated.TWO_AGENTS_WITH_ONE_BACKEND_HAVE_TWO_LEDGERS:
            return
        own = stage.model.mine_at(agent, visit.whose)
        others = [each.id for each in stage.model.mine if each.agent == agent and not each.named and each.id not in own]
        if not others or not own or not stage.site.agents[agent].mix_up(others[pick % len(others)], kind):
            return
        text = stage.model.text(agent, visit.whose)
        hook = text if operation == CREATE else ""
        ask = Ask(operation, visit.place.name, able(how, operation, visit.place), f"new {text}", hook=hook)
        ask = replace(ask, tenant=visit.tenant, config="p-0", task=own[pick % len(own)])
        stage.once(visit, replace(ask, context=WORDS[0]) if operation in SENDS else ask)
        stage.site.agents[agent].mix_up("", "")
        stage.figures["answers with what is another's"] += 1

    # ---- Lists -------------------------------------------------------------------------------------------------------

    @rule(
        who=_picks, where=_picks, how=_speeches, context=_contexts, size=st.integers(1, 3),
        status=st.sampled_from(STATUSES), token=st.sampled_from(("none", "own", "garbage")), pick=_picks, odd=_odds,
    )  # fmt: skip
    def list_some(
        self, *, who: int, where: int, how: Speech, context: str, size: int, status: str, token: str, pick: int,
        odd: Any,
    ) -> None:  # fmt: skip
        """Somebody asks for one page of a list."""
        stage, visit = self._stage, self._visit(who, where, pick)
        place = visit.place
        filters: dict[str, Any] = {"pageSize": size, **({"status": status} if status else {})}
        how = able(how, "ListTasks", place)
        ask = Ask("ListTasks", place.name, how, tenant=visit.tenant, filters=filters)
        odd = stage.odd(odd, pick, visit, "ListTasks", how)
        ask = replace(ask, context=stage.context(context, pick, visit), odd=odd)
        kept = [each for each in stage.tokens if each.agent == visit.agent and each.owner == visit.whose]
        if token == "own" and kept:
            before = kept[pick % len(kept)]
            ask = replace(ask, context=before.ask.context, filters={**before.ask.filters, "pageToken": before.token})
        elif token == "garbage":
            ask = replace(ask, filters={**filters, "pageToken": "A" * 60})
        told, _ = stage.do(visit, ask)
        stage.keep_token(visit, ask, told)

    @precondition(lambda self: self._stage.tokens)
    @rule(who=_insiders, where=_picks, how=_speeches, astray=st.booleans(), pick=st.integers(0, 63))
    def go_on_with_another_list(self, *, who: int, where: int, how: Speech, astray: bool, pick: int) -> None:
        """Somebody asks for a page by the token that another was given, or that is of another agent's list."""
        stage = self._step()
        other = stage.tokens[pick % len(stage.tokens)]
        place = self._places[where % len(self._places)] if astray else _BY_NAME[other.ask.place]
        reach = _reaching(place)
        visit = stage.visit(place, reach[who % len(reach)])
        if (other.agent, other.owner) == (visit.agent, visit.whose):
            return
        ask = replace(other.ask, place=place.name, speech=able(how, "ListTasks", place), tenant=visit.tenant)
        filters = {**other.ask.filters, "pageToken": other.token}
        told, heard = stage.do(visit, replace(ask, filters=filters))
        garbage = "".join("B" if letter.isalnum() else letter for letter in other.token)
        twin, _ = stage.do(visit, replace(ask, filters={**filters, "pageToken": garbage}))
        stage.figures["page tokens of others"] += 1
        if told.ok or heard or told.plain != twin.plain:
            raise Broken(f"4: another's page token is told from garbage: {told} {twin}")

    @precondition(lambda self: self._stage.model.mine)
    @rule(pick=st.integers(0, 63), who=_picks, how=_speeches, size=st.integers(0, 3))
    def look_back(self, *, pick: int, who: int, how: Speech, size: int) -> None:
        """Somebody asks for a task of its own, or for all of them, so many at a time."""
        mine = self._step().model.mine[pick % len(self._stage.model.mine)]
        if size == 0:
            self._read_back(mine, who, how)
        else:
            self._list_all(mine, how, size)

    def _list_all(self, mine: Mine, how: Speech, size: int) -> None:
        stage = self._stage
        visit = mine.visit
        place, caller, agent = visit.place, visit.caller, visit.agent
        how = able(how, "ListTasks", place)
        if not place.lists or (how == Speech("jsonrpc", "0.3")) != (place.name == "old"):
            # Lists of 0.3 are for those who speak it on both sides.
            return
        found: list[str] = []
        token, total = "", -1
        while token or total < 0:
            filters = {"pageSize": size, **({"pageToken": token} if token else {})}
            ask = Ask("ListTasks", place.name, how, tenant=visit.tenant, filters=filters)
            told, _ = stage.do(visit, ask)
            if not told.ok:
                raise Broken(f"5: {caller} cannot list: {told}")
            stage.keep_token(visit, ask, told)
            page = told.results[0]
            found += [task["id"] for task in page.get("tasks", ())]
            token, total = page.get("nextPageToken", ""), int(page.get("totalSize", 0))
        must = set(stage.model.mine_at(agent, mine.owner))
        may = {*stage.model.own(agent, "t", mine.owner), *must}
        if len(set(found)) != len(found) or not must <= set(found) <= may:
            raise Broken(f"5: {caller} has {sorted(must)}, and is shown {found}")
        if not place.adopts and total not in range(len(must), len(may) + 1):
            raise Broken(f"5: {caller} has {sorted(must)}, which are counted as {total}")
        stage.figures["own tasks all listed"] += 1

    def _read_back(self, mine: Mine, who: int, how: Speech) -> None:
        stage = self._stage
        place = mine.visit.place
        owners = [
            each for caller in _reaching(place) if (each := replace(mine.visit, caller=caller)).whose == mine.owner
        ]
        visit = mine.visit if mine.named else owners[who % len(owners)]
        how = Speech("jsonrpc", "0.1") if mine.named else able(how, "GetTask", place)
        said = stage.model.said(visit.agent, mine.owner)
        if how.binding == "jsonrpc" and not (place.ancient or mine.named) and mine.id in said:
            # Somebody has called another task of its own so, in the words of 0.1.
            how = SPEECHES[0]
        told, _ = stage.do(visit, Ask("GetTask", place.name, how, task=mine.id, tenant=visit.tenant))
        sight = told.sights[0] if told.ok and told.sights else None
        # The context of a task that its client names is called as its client called it last.
        word = mine.word if mine.named or sight is None else sight.context or mine.word
        if sight is None or sight.task != mine.id or word != mine.word:
            raise Broken(f"5: {visit.caller} asks for {mine.id} in {mine.word!r}, and is told {told}")
        stage.figures["own tasks read back"] += 1

    # ---- And else ----------------------------------------------------------------------------------------------------

    @rule(
        where=_picks, one=_picks, other=_picks, hows=st.tuples(_speeches, _speeches), pick=_picks,
        streams=st.booleans(), adopts=st.none() | st.integers(1, SEEDED),
    )  # fmt: skip
    def at_once(
        self, *, where: int, one: int, other: int, hows: tuple[Speech, Speech], pick: int, streams: bool,
        adopts: int | None,
    ) -> None:  # fmt: skip
        """Two callers say the same at the same time, or ask for the same old task."""
        stage = self._step()
        place = self._places[where % len(self._places)]
        reach = _reaching(place)
        callers = reach[one % len(reach)], reach[other % len(reach)]
        if place.name == "own" or callers[0].tenant_and_subject == callers[1].tenant_and_subject:
            return
        calls = []
        for caller, drawn in zip(callers, hows, strict=True):
            visit, how = stage.visit(place, caller), able(drawn, SENDS[streams], place)
            text = stage.model.text(visit.agent, visit.whose)
            name = f"job-{pick % 3}" if how.version == "0.1" else ""
            ask = Ask(SENDS[streams], place.name, how, f"new {text}", task=name, context=WORDS[pick % len(WORDS)])
            if place.adopts and adopts is not None:
                ask = Ask("GetTask", place.name, how, task=f"{visit.agent}-t{adopts:04}")
            calls.append((visit, ask))
        for (visit, ask), (told, heard) in zip(calls, stage.together(calls), strict=True):
            if told.ok and ask.operation in SENDS:
                stage.sent(visit, ask, told, heard)
            elif ask.operation in SENDS and place.name not in ("ancient", "official"):
                raise Broken(f"5: {visit.caller} sends, and is told {told}")

    @precondition(lambda self: self._stage.site.lasts)
    @rule()
    def again(self) -> None:
        """The gateway stops, and another one goes on."""
        self._step().again()

    # ---- What the rules share ----------------------------------------------------------------------------------------

    def _step(self) -> Stage:
        self._stage.figures["steps"] += 1
        return self._stage

    def _visit(self, who: int, where: int, pick: int = 0) -> Visit:
        stage = self._step()
        place = self._places[where % len(self._places)]
        reach = _reaching(place)
        # Now and then somebody who may not.
        caller = CALLERS[where % len(CALLERS)] if who == 7 else reach[who % len(reach)]
        return stage.visit(place, caller, pick)

    def _ask(self, visit: Visit, how: Speech, operation: str, pick: int, *, verb: str = "new", **drawn: Any) -> None:
        if operation in SENDS:
            self._send(visit, self._message(visit, how, verb, operation, pick, **drawn))
        else:
            self._touch(visit, self._asking(visit, how, operation, pick, **drawn))

    def _message(
        self,
        visit: Visit,
        how: Speech,
        verb: str,
        operation: str,
        pick: int,
        *,
        task: str,
        snake: bool,
        context: str = "none",
        references: Sequence[str] = (),
        hook: str | None = None,
        odd: Any = None,
    ) -> Ask:
        """A send, of kinds of ids."""
        stage, place = self._stage, visit.place
        how = able(how, operation, place)
        named = stage.task(task, pick, visit)
        if how.version == "0.1":
            # There clients name their tasks, and may well hit on others' names.
            named = named or f"job-{pick % 3}"
        if verb == "wait" and place.name in ("ancient", "official"):
            # They would not answer before the task is over.
            verb = "ask"
        text = stage.model.text(visit.agent, visit.whose)
        return Ask(
            operation,
            place.name,
            how,
            f"{verb} {text}",
            task=named,
            context=stage.context(context, pick, visit),
            references=tuple(filter(None, (stage.task(each, pick, visit) for each in references))),
            hook=text if hook is not None else "",
            hook_task=stage.task(hook, pick, visit) if hook is not None else "",
            tenant=visit.tenant,
            snake=snake,
            odd=stage.odd(odd, pick, visit, operation, how),
        )

    def _send(self, visit: Visit, ask: Ask) -> None:
        stage = self._stage
        told, heard = stage.do(visit, ask)
        if told.ok:
            stage.sent(visit, ask, told, heard)
            return
        may_fail = ask.text.startswith("fail ") or visit.place.name in ("ancient", "official")
        if not may_fail and stage.is_own(ask, visit):
            raise Broken(f"5: {visit.caller} names its own, and is told {told}")

    def _asking(
        self,
        visit: Visit,
        how: Speech,
        operation: str,
        pick: int,
        *,
        task: str,
        snake: bool,
        config: int = 0,
        odd: Any = None,
        path: str = "{}",
    ) -> Ask:
        """A call about a task, of kinds of ids."""
        stage, how = self._stage, able(how, operation, visit.place)
        return Ask(
            operation,
            visit.place.name,
            how,
            task=stage.task(task, pick, visit) or f"job-{pick % 3}",
            hook=stage.model.text(visit.agent, visit.whose) if operation == CREATE else "",
            config=f"p-{config}",
            tenant=visit.tenant,
            snake=snake,
            path=path,
            odd=stage.odd(odd, pick, visit, operation, how),
        )

    def _touch(self, visit: Visit, ask: Ask) -> None:
        stage = self._stage
        told, _ = stage.do(visit, ask)
        # Whether later generations know a task by a name of 0.1, too, is nothing to anybody else.
        named = ask.task.startswith("job-") and ask.speech.version != "0.1"
        if ask.operation == CREATE and told.ok and ask.odd is None and visit.agent != "official" and not named:
            again, _ = stage.do(visit, replace(ask, operation="GetTaskPushNotificationConfig"))
            if ask.hook not in again.text:
                raise Broken(f"5: {visit.caller} asks for its webhook {ask.hook}, and is told {again}")


def _reaching(place: Place) -> list[Caller]:
    return [caller for caller in CALLERS if caller.tenant in place.agents]
