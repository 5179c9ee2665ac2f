"""CLAIM and OBSERVE: whose the tasks and contexts are that a call names, and whose those that come back.

An agent hands any task to whoever names it, so the gateway asks its ledger first: each id that a call names, wherever
it stands, must be the caller's own, or the agent is not asked. Another's task and one that never was get one answer.
What an agent's frame names is written down as its receiver's before the frame leaves; a frame that names what is
another's never leaves.

A context may be named by whoever begins it, and two tenants may hit on one word. At a backend that several owners reach
the words of clients therefore go to the agent with a *mark* of their owner before them, and come back without it. So
nobody can be told that a context is another's: under another's word for one, everybody has one of their own. The ids of
tasks of 0.1, which clients make as well, are marked alike.
"""

from contextlib import suppress
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import StateUnavailable, TaskNotFound, TasksLimited, UpstreamProtocol
from gateway.a2a.mention import Mentions, mentions
from gateway.a2a.progress import Progress
from gateway.a2a.renaming import with_context, with_task
from gateway.a2a.within import Others
from gateway.mark import NO_MARK, Mark
from gateway.principal import Principal
from gateway.tasks.store import LONGEST_ID, OPEN, SEEN_AGAIN, Met, Owner, Sighting, Task
from gateway.tenure import Tenure, kept

_TRY_AGAIN = 5.0
_GONE = "failed"
_NEWS = frozenset({"task", "status", "artifact"})
"""Events by which a task is known to be one that goes on, as `Progress.event` spells them."""


def claims_of(tenure: Tenure, principal: Principal, label: str) -> "Claims":
    """The claims of one caller.

    Args:
        label: What the caller speaks.

    Raises:
        NotAdmitted: as `Tenure.caller`.
    """
    caller = tenure.caller(principal)
    return Claims(tenure, caller.owner, label, caller.mark)


class Claims(msgspec.Struct, eq=False):
    """What the caller of one exchange may name, and what it is told of.

    A struct, and the usual calls go through `enter`, `meet` and `knows` without any other call of Python's: what an
    exchange costs is how many of them it makes.

    Attributes:
        tenure: How the backend's tasks are kept apart.
        owner: Who calls.
        mark: What stands before the caller's words at the agent.
        foreign: Whether the call or its answer named what is another's; for the audit.
        renamed: Whether the client has other words than the agent for what is known to be the caller's.
        asked: The context that the agent is asked for; empty for none.
        replica: Which of the backend's replicas is asked; empty where there is one.
    """

    tenure: Tenure
    owner: Owner
    _label: str
    mark: Mark = NO_MARK
    foreign: bool = False
    # What is known to be the caller's already.
    _task: str = ""
    _state: str = ""
    _context: str = ""
    # Whether that was written down so long ago that it has to be again, so as not to be forgotten.
    _stale: bool = False
    renamed: bool = False
    asked: str = ""
    _pending: bool = False
    replica: str = ""
    # Tasks of nobody's that the call names: the caller's as soon as the agent has said that there are such.
    _adopting: tuple[str, ...] = ()

    # ---- There -----------------------------------------------------------------------------------------------------

    async def enter(self, call: Call, named: Mentions | None = None, also: tuple[str, ...] = ()) -> Call:
        """The call as the agent may get it.

        Args:
            call: What the agent is to be asked, in its own dialect.
            named: What it names, where that is known.
            also: Tasks that the client named where the agent's dialect may have no place for them.

        Raises:
            TaskNotFound: it names a task that is not the caller's.
            TasksLimited: it would make one more than the tenant may have open.
            StateUnavailable: nobody knows whose they are.
            BadParams: an id is none.
        """
        tenure = self.tenure
        if not tenure.keeps:
            return call
        if named is None:
            named = mentions(call)
        if also and (lost := tuple(task for task in also if task not in named.tasks)):
            named = replace(named, tasks=named.tasks + lost, references=named.references + lost)
        tasks, context, store = named.tasks, named.context, tenure.ledger.store
        found: list[Task | None] | None = None
        if call.dialect.version is not Version.V0_1 and (self.mark.text or not tenure.shared):
            # Nearly all calls end here: they name nothing, or a task of the caller's.
            if len(tasks) == 1 and not named.references:
                found = await store.tasks(tenure.scope, tasks)
                if (task := found[0]) is not None and tenure.owned(task.owner, self.owner):
                    self._know(tasks[0], task)
                    if context is None or context == task.context:
                        self.asked = context or ""
                        return call
            is_free = not call.operation.sends or (store.local and not tenure.most_open and not tenure.ledger.refuses)
            if not tasks and context is None and is_free:
                return call
        return await self._enter(call, named, found)

    async def claim(self, id: str, version: Version) -> str:  # noqa: A002 - the word
        """What the agent calls a task that is the caller's.

        Args:
            version: The agent's; in 0.1 tasks are named by clients.

        Raises:
            TaskNotFound: it is not the caller's.
        """
        tenure = self.tenure
        if not tenure.keeps:
            return id
        (task,) = await self.tenure.ledger.store.tasks(tenure.scope, (id,))
        if task is not None and self.owns(task.owner):
            return id
        if version is Version.V0_1:
            await self._get_mark()
            marked = self.mark.text + id
            (known,) = await self.tenure.ledger.store.tasks(tenure.scope, (marked,))
            if known is not None and self.owns(known.owner):
                return marked
        self._adopt(id, task)
        return id

    async def marked(self) -> str:
        """What stands in the agent's ids before those of the caller; empty where nothing does."""
        if self.tenure.keeps:
            await self._get_mark()
        return self.mark.text

    def leave(self) -> None:
        """The call is over, however it ended."""
        if self._pending:
            self._pending = False
            pending, tenant = self.tenure.ledger.pending, self.owner.tenant
            left = pending.get(tenant, 0) - 1
            if left > 0:
                pending[tenant] = left
            else:
                pending.pop(tenant, None)

    async def _enter(self, call: Call, named: Mentions, found: list[Task | None] | None = None) -> Call:
        """As `enter`.

        Args:
            found: What the store has of the tasks that are named, where it has been asked.
        """
        tenure = self.tenure
        await self._get_mark()
        if named.tasks:
            call = await self._enter_tasks(call, named, found)
        if call.operation.sends and not self._task:
            await self._admit_new()
        context = named.context
        if context is not None and kept(context) != self._context:
            owner: Owner | None = await self.tenure.ledger.store.context(tenure.scope, kept(context))
            if owner is None and not tenure.shared:
                # It may have been named when others reached the agent, too.
                name = kept(self.mark.text + context)
                marked: Owner | None = await self.tenure.ledger.store.context(tenure.scope, name)
                owner = None if marked is not None else self.owner
            if owner is None or not self.owns(owner):
                context = self.mark.text + context
                call = with_context(call, context)
        self.asked = kept(context or "")
        return call

    async def _enter_tasks(self, call: Call, named: Mentions, found: list[Task | None] | None) -> Call:
        if found is None:
            found = await self.tenure.ledger.store.tasks(self.tenure.scope, named.tasks)
        about = named.tasks[0] if len(named.tasks) > len(named.references) else None
        for id, task in zip(named.tasks, found, strict=True):  # noqa: A001 - the word
            if task is not None and self.owns(task.owner):
                if id == about:
                    self._know(id, task)
            elif id == about and call.dialect.version is Version.V0_1:
                call = await self._named_by_client(call, id, task)
            elif call.dialect.version is Version.V0_1:
                await self.claim(id, Version.V0_1)
            else:
                self._adopt(id, task)
        return call

    async def _named_by_client(self, call: Call, id: str, task: Task | None) -> Call:  # noqa: A002 - the word
        """A call about a task that an agent of 0.1 knows, or is to know, by its client's word."""
        marked = self.mark.text + id
        (known,) = await self.tenure.ledger.store.tasks(self.tenure.scope, (marked,))
        if known is not None and self.owns(known.owner):
            self._know(marked, known)
        elif not call.operation.sends:
            self._adopt(id, task)
            return call
        elif task is None and not self.tenure.shared:
            return call
        return with_task(call, marked)

    def _adopt(self, id: str, task: Task | None) -> None:  # noqa: A002 - the word
        """Let a task through that nobody owns, where that may be; whose it is then is known by the agent's answer."""
        if task is None and self.tenure.adopts and len(id) <= LONGEST_ID:
            self._adopting = (*self._adopting, id)
            return
        self._refuse_task(found=task is not None)

    def _refuse_task(self, *, found: bool) -> NoReturn:
        self.foreign = found
        raise TaskNotFound("task not found", detail="it is another's" if found else "nobody has met it here")

    async def _admit_new(self) -> None:
        if self.tenure.ledger.refuses:
            self.tenure.ledger.try_again()
        most, tenant = self.tenure.most_open, self.owner.tenant
        bound = most.get(tenant, most.get("*")) if most else None
        if bound is None and self.tenure.ledger.store.local:
            return
        # Also where nothing is bounded: an agent that nobody's answer may leave from is not asked to begin anything.
        opened: int = await self.tenure.ledger.store.open_tasks(tenant)
        if bound is None:
            return
        pending = self.tenure.ledger.pending
        if opened + pending.get(tenant, 0) >= bound:
            raise TasksLimited(
                "too many tasks are open", detail=f"{opened} of {bound} are open", retry_after=_TRY_AGAIN
            )
        pending[tenant] = pending.get(tenant, 0) + 1
        self._pending = True

    async def _get_mark(self) -> None:
        if not self.mark.text:
            tenure = self.tenure
            seal = await self.tenure.ledger.seal()
            mark = self.tenure.ledger.mark(seal, tenure.scope, self.owner, by_principal=tenure.by_principal)
            self.mark = Mark.of(mark)
            self.renamed = self._task.startswith(mark) or self._context.startswith(mark)

    def owns(self, owner: Owner) -> bool:
        """Whether what is an owner's is the caller's."""
        return self.tenure.owned(owner, self.owner)

    def _know(self, id: str, task: Task) -> None:  # noqa: A002 - the word
        self._task, self._state, self._context = id, task.state, task.context
        self._stale = self.tenure.ledger.now() - task.seen >= SEEN_AGAIN
        mark = self.mark.text
        self.renamed = bool(mark) and (id.startswith(mark) or task.context.startswith(mark))

    # ---- Back ------------------------------------------------------------------------------------------------------

    def knows(self, told: Progress) -> bool:
        """Whether all that a frame names has been met, and the client has the agent's words for it."""
        return (
            (told.task_id or "") == self._task
            and (not told.context_id or told.context_id == self._context)
            and (not told.state or told.state == self._state)
            and not self.renamed
            and not self._stale
            and told.legible
            and told.others is None
        ) or not (self.tenure.keeps or self._follows)

    async def meet(self, told: Progress) -> None:
        """Write down what an agent's frame names, before it leaves.

        Args:
            told: As the agent wrote it.

        Raises:
            UpstreamProtocol: it names what is another's, or may do so.
            TaskNotFound: likewise, where the call named a task that nobody owned then.
            StateUnavailable: it cannot be written down.
        """
        tenure = self.tenure
        if not tenure.keeps:
            await self._remember(told)
            return
        if told.others is not None or not told.legible:
            await self._meet_within(told)
            return
        task, context, state = told.task_id or "", kept(told.context_id or ""), told.state or ""
        is_known = task == self._task and context in ("", self._context) and state in ("", self._state)
        if (is_known and not (self._stale and task)) or not (task or context):
            return
        if len(task) > LONGEST_ID:
            raise UpstreamProtocol("the agent's task has an id that is too long", detail=f"{len(task)} characters")
        if task in self._adopting:
            await self._meet_adopted(task, context, state)
            return
        if task and told.event not in _NEWS:
            await self._meet_in_passing(task, context)
            return
        sighting = self._sighting(task, context, state)
        try:
            met = await tenure.ledger.store.meet(tenure.scope, sighting)
        except StateUnavailable:
            if task and not self._task:
                tenure.ledger.refused()
            raise
        self._learn(sighting, met)
        await self._met_at(task, context)

    async def _meet_within(self, told: Progress) -> None:
        """Write down what a frame names that cannot be read, or whose messages name something else, too."""
        named = told.others
        if not told.legible or named is None:
            raise UpstreamProtocol("the agent's answer may be another's", detail="what it names cannot be read")
        if await self.names_others(named):
            self._refuse("task or context, in a message or a detail")
        await self.meet(replace(told, others=None))

    async def names_others(self, named: Others) -> bool:
        """Whether something of what messages name is known to be another's."""
        found: bool = await self.tenure.names_others(self.owner, named, self.mark.text)
        self.foreign = self.foreign or found
        return found

    @property
    def _follows(self) -> bool:
        """Whether it matters which replica a frame came from."""
        return self.replica != "" and self.tenure.homes is not None

    async def _remember(self, told: Progress) -> None:
        """Have it known which replica a frame came from, where no owners are kept; as `meet`."""
        task, context = told.task_id or "", told.context_id or ""
        if not self._follows or (task in ("", self._task) and context in ("", self._context)):
            self._state = told.state or self._state
            return
        self._task, self._state, self._context = task or self._task, told.state or self._state, context or self._context
        await self._met_at(task, context)

    async def _meet_in_passing(self, task: str, context: str) -> None:
        """Write down what a message names. Agents make up an id for the task it could have been of, which none ends."""
        ledger, scope = self.tenure.ledger, self.tenure.scope
        (known,) = await ledger.store.tasks(scope, (task,))
        state = "" if known is not None else "completed"
        sighting = self._sighting(task, context, state)
        self._learn(sighting, (await ledger.store.meet(scope, sighting)))
        await self._met_at(task, context)

    async def _meet_adopted(self, task: str, context: str, state: str) -> None:
        """Write down a task that nobody owned when the call named it."""
        sighting = self._sighting(task, context, state)
        self._learn(sighting, (await self.tenure.ledger.store.meet(self.tenure.scope, sighting)))
        await self._met_at(task, context)
        self._adopting = tuple(each for each in self._adopting if each != task)

    def _sighting(self, task: str, context: str, state: str) -> Sighting:
        tenure, mark = self.tenure, self.mark.text
        marked, now = bool(mark) and context.startswith(mark), int(tenure.ledger.wall())
        return Sighting(self.owner, task, context, state, self.replica, self._label, now, tenure.by_principal, marked)

    async def _met_at(self, task: str, context: str) -> None:
        """Have it known which replica named a task and a context."""
        homes = self.tenure.homes
        if homes is not None and self.replica:
            await homes.met(self.owner.tenant, task, context, self.replica)

    def _learn(self, sighting: Sighting, met: Met) -> None:
        """Go on with what was met, unless it is another's."""
        owner, task, context, mark = self.owner, sighting.task, sighting.context, self.mark.text
        if met.task is not None and met.task is not owner and not self.owns(met.task):
            if task in self._adopting:
                self._refuse_task(found=True)
            self._refuse("task")
        if met.context is not None and met.context is not owner and not (sighting.marked or self.owns(met.context)):
            self._refuse("context")
        if task:
            if not self._task:
                self.tenure.ledger.refuses = False
            # From here on the store counts it.
            self._task, self._state, self._stale = task, sighting.state or self._state, False
            if self._pending:
                self.leave()
        if context:
            self._context = context
        if mark:
            self.renamed = self._task.startswith(mark) or self._context.startswith(mark)

    async def gone(self) -> None:
        """The agent does not know the caller's task any more: it is over, and counts no longer among the open ones."""
        if self._task and self._state in OPEN and self.tenure.keeps:
            with suppress(StateUnavailable):
                await self.meet(Progress(task_id=self._task, state=_GONE, event="status"))

    def _refuse(self, what: str) -> None:
        self.foreign = True
        raise UpstreamProtocol("the agent's answer is not this caller's", detail=f"it names another's {what}")

    @property
    def bound(self) -> tuple[str, ...]:
        """Whose something is that is sealed for the caller."""
        owner, tenure = self.owner, self.tenure
        return tenure.scope, owner.tenant, owner.principal if tenure.by_principal else ""
