"""Ownership of tasks and contexts: what a call may name, what an answer may tell, and where that is recorded.

An agent hands any task to every caller that knows its id. The gateway therefore asks its ledger (`store.py`):

1. **On the way in** (`Ownership.authorize`): every task that a call names, wherever it stands, must belong to the
   caller. Otherwise the agent is not asked. A foreign task and an unknown one get the same answer, TaskNotFound.
2. **On the way back** (`Ownership.observe`): every task and context that a frame names is recorded as the receiver's
   before the frame leaves. A frame that names a foreign one is withheld. Errors and lists are checked, not recorded.
3. **Where it is written**: `Store.record` decides and writes in one step, so the first receiver owns an id for good.

A context is different: clients may name one that is not theirs yet, and two tenants may choose the same word. At an
agent that several owners reach, a client's own word gets a prefix of its owner (`context_prefix.py`). A context of
another owner's therefore looks like any free word. Clients of 0.1 make task ids as well, and these get the prefix too.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from gateway.a2a.call import Call, ReferencedIds
from gateway.a2a.dialect import Version
from gateway.a2a.fault import NotAdmitted, StateUnavailable, TaskNotFound, TasksLimited, UpstreamProtocol
from gateway.a2a.ids import referenced_ids, with_context, with_task
from gateway.a2a.nested_ids import NestedIds, nested_in_details
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.affinity import TaskAffinity
from gateway.tasks.context_prefix import NO_PREFIX, ContextPrefix
from gateway.tasks.ledger import Ledger
from gateway.tasks.skill_affinity import SkillCall
from gateway.tasks.store import LONGEST_ID, OPEN, SEEN_AGAIN, Decision, Observed, Owner, Task
from gateway.tasks.token_cipher import TokenCipher

_RETRY_AFTER = 5.0
_MOST_CALLERS = 10_000
_KEPT_CHARACTERS = 64
_LOST = "failed"
_NEWS = frozenset({"task", "status", "artifact"})
"""Events that show that a task goes on, as `Progress.event` spells them."""


# ---- One backend -----------------------------------------------------------------------------------------------------


class Caller(msgspec.Struct, frozen=True):
    """A caller of one backend.

    Attributes:
        cipher: The secret of its prefix; None if the store has not told it yet.
        prefix: The prefix of its contexts.
    """

    owner: Owner
    cipher: TokenCipher | None
    prefix: ContextPrefix = NO_PREFIX


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of one backend's tasks; made with a configuration and replaced with it.

    Attributes:
        scope: The key of the backend in the ledger.
        by_principal: Whether callers of one tenant are told apart.
        claims_unowned: Whether a task without an owner goes to the first caller that is answered about it.
        shared: Whether several owners reach the backend.
        keeps: Whether owners are recorded at all. If not, only webhooks have one.
        most_open: The bound on open tasks by tenant; under `*` that of all other tenants.
        affinity: Which replica made which task; None if that does not matter.
    """

    ledger: Ledger
    scope: str
    by_principal: bool = False
    claims_unowned: bool = False
    shared: bool = True
    keeps: bool = True
    most_open: Mapping[str, int | None] = field(default_factory=dict)
    affinity: TaskAffinity | None = None
    # By tenant, issuer and subject: most callers have called before.
    _callers: dict[tuple[str, str, str], Caller] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def filters(self) -> bool:
        """Whether lists of tasks are filtered: not if all tasks of the agent belong to one owner."""
        return self.keeps and (self.shared or not self.claims_unowned)

    def is_owned(self, owner: Owner, by: Owner) -> bool:
        """Return whether what belongs to `owner` is also `by`'s."""
        return owner.tenant == by.tenant and (owner.principal == by.principal or not self.by_principal)

    def caller(self, principal: Principal) -> Caller:
        """Return the owner that a principal is to this backend, with its prefix.

        Raises:
            NotAdmitted: callers are told apart by subject, and the token has none.
        """
        key = (principal.tenant, principal.issuer, principal.who)
        caller = self._callers.get(key)
        if caller is None or caller.cipher is not self.ledger.known_cipher:
            caller = self._new_caller(key, principal)
        return caller

    def prefix_of(self, cipher: TokenCipher, owner: Owner) -> str:
        """Return the prefix of an owner's own contexts."""
        return self.ledger.prefix(cipher, self.scope, owner, by_principal=self.by_principal)

    async def observe_notification(self, owner: Owner, told: Progress) -> bool:
        """Record what a notification to an owner's webhook names; return whether all of it is the owner's."""
        if not self.keeps:
            return True
        context = context_key(told.context_id or "")
        prefix = self.prefix_of(await self.ledger.cipher(), owner)
        observed = Observed(
            owner, told.task_id or "", context, told.state or "",
            now=self.ledger.now(), apart=self.by_principal, prefixed=context.startswith(prefix),
        )  # fmt: skip
        if told.others is not None and await self.names_foreign(owner, told.others, prefix):
            return False
        decision = await self.ledger.store.record(self.scope, observed)
        return decision.task is not None and not observed.is_foreign(decision.task, decision.context)

    async def names_foreign(self, owner: Owner, named: NestedIds, prefix: str) -> bool:
        """Return whether messages within a frame name something that is known to be another owner's.

        Unknown ids pass, since agents give messages ids of other kinds, too. Too many to look at do not pass.

        Args:
            prefix: The owner's, with which its own contexts begin.
        """
        if named.crowded:
            return True
        store = self.ledger.store
        found = await store.tasks(self.scope, named.tasks) if named.tasks else ()
        if any(task is not None and not self.is_owned(task.owner, owner) for task in found):
            return True
        for context in named.contexts:
            holder = await store.context(self.scope, context_key(context))
            if holder is not None and not self.is_owned(holder, owner) and not (prefix and context.startswith(prefix)):
                return True
        return False

    def _new_caller(self, key: tuple[str, str, str], principal: Principal) -> Caller:
        tenant, issuer, subject = key
        if self.by_principal and principal.method == "jwt" and not subject:
            raise NotAdmitted("the token names no subject, and here tasks are a subject's own")
        owner, cipher = Owner(tenant, f"{issuer}/{subject}"), self.ledger.known_cipher
        mark = ContextPrefix.of(self.prefix_of(cipher, owner)) if self.keeps and cipher is not None else NO_PREFIX
        if len(self._callers) >= _MOST_CALLERS:
            self._callers.clear()
        caller = self._callers[key] = Caller(owner, cipher, mark)
        return caller


def context_key(context: str) -> str:
    """Return a context as the ledger has it: a long one is its beginning and its hash."""
    if len(context) <= LONGEST_ID:
        return context
    return f"{context[:_KEPT_CHARACTERS]}…{hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest()}"


# ---- One call --------------------------------------------------------------------------------------------------------


def ownership_of(isolation: Isolation, principal: Principal, label: str) -> "Ownership":
    """Return the ownership checks of one call.

    Args:
        label: The caller's dialect, such as `jsonrpc/1.0`.

    Raises:
        NotAdmitted: as `Isolation.caller`.
    """
    caller = isolation.caller(principal)
    return Ownership(isolation, caller.owner, label, caller.prefix)


class Ownership(msgspec.Struct, eq=False):
    """The ownership checks of one call; a struct, since one is made for each call.

    Attributes:
        isolation: The isolation of the backend.
        owner: The caller.
        prefix: The prefix of the caller's contexts at the agent.
        is_foreign: Whether the call or its answer named what belongs to another owner; for the audit log.
        is_prefixed: Whether the ids of the known task or context have the prefix at the agent.
        context: The context that the agent is asked for; empty for none.
        replica: The replica that is asked; empty if there is only one.
        by_skill: The skill by which the caller came, which the agent of its task is recorded with; or None.
    """

    isolation: Isolation
    owner: Owner
    _label: str
    prefix: ContextPrefix = NO_PREFIX
    is_foreign: bool = False
    # When the task was made that the call names, in Unix seconds; 0 where it is unknown, or had ended before.
    _made: int = 0
    # The task and the context that are known to be the caller's.
    _task: str = ""
    _state: str = ""
    _context: str = ""
    # Whether the ledger saw them so long ago that it has to see them again, or it would forget them.
    _stale: bool = False
    is_prefixed: bool = False
    context: str = ""
    # Whether the call counts among the tenant's pending ones.
    _pending: bool = False
    replica: str = ""
    by_skill: SkillCall | None = None
    # Named tasks without an owner: they become the caller's once the agent has answered about them.
    _claimed: tuple[str, ...] = ()

    # ---- On the way in ---------------------------------------------------------------------------------------------

    async def authorize(self, call: Call, named: ReferencedIds | None = None, also: tuple[str, ...] = ()) -> Call:
        """Check what a call names, and return it as the agent may get it.

        Args:
            call: In the agent's dialect.
            named: The ids that it names, if known.
            also: Tasks that the client named, for which the agent's dialect may have no place.

        Raises:
            TaskNotFound: it names a task that is not the caller's.
            TasksLimited: it would open one task more than the tenant may have.
            StateUnavailable: the ledger cannot be asked.
            BadParams: an id is malformed.
        """
        if not self.isolation.keeps:
            return call
        if named is None:
            named = referenced_ids(call)
        if also and (lost := tuple(task for task in also if task not in named.tasks)):
            named = replace(named, tasks=named.tasks + lost, references=named.references + lost)
        if not self.prefix.text:
            await self.load_prefix()
        if named.tasks:
            call = await self._authorize_tasks(call, named)
        if call.operation.sends and not self._task:
            await self._admit_new_task()
        if named.context is not None:
            call = await self._authorize_context(call, named.context)
        return call

    async def authorize_task(self, id: str, version: Version) -> str:  # noqa: A002 - the protocol's word
        """Return the agent's id of a task that the caller names.

        Args:
            version: The agent's; in 0.1 clients make the ids of tasks.

        Raises:
            TaskNotFound: it is not the caller's.
        """
        if not self.isolation.keeps:
            return id
        task = await self._find(id)
        if task is not None and self.owns(task.owner):
            return id
        if version is Version.V0_1:
            prefixed = await self.load_prefix() + id
            known = await self._find(prefixed)
            if known is not None and self.owns(known.owner):
                return prefixed
        self._claim_unowned(id, task)
        return id

    async def load_prefix(self) -> str:
        """Return the prefix of the caller's ids at the agent; empty where owners are not kept.

        Raises:
            StateUnavailable: the store has never told the secret.
        """
        if self.isolation.keeps and not self.prefix.text:
            text = self.isolation.prefix_of(await self.isolation.ledger.cipher(), self.owner)
            self.prefix = ContextPrefix.of(text)
            self._note_prefix()
        return self.prefix.text

    async def replica_of(self, named: ReferencedIds) -> tuple[str, bool]:
        """Return the replica that a call belongs to, or an empty text; and whether a task decides that.

        Nothing of it is told to the client. Ownership is checked later.

        Raises:
            StateUnavailable: the ledger cannot be asked.
        """
        affinity = self.isolation.affinity
        if affinity is None or not (named.tasks or named.context):
            return "", False
        prefix = await self.load_prefix()
        about = tuple(each for each in named.tasks if each not in named.references)
        found = await affinity.replica_of(about, named.context, prefix)
        if found[0] or not named.references:
            return found
        # A call that only refers to a task is best sent there, but may go anywhere.
        best, _ = await affinity.replica_of(named.references, None, prefix)
        return best, False

    async def owns_context(self, context: str) -> bool:
        """Return whether a context, in the caller's spelling, is known to be the caller's."""
        if not self.isolation.keeps:
            return True
        for spelled in (await self.load_prefix() + context, context):
            owner = await self.isolation.ledger.store.context(self.isolation.scope, spelled)
            if owner is not None and self.owns(owner):
                return True
        return False

    async def _authorize_tasks(self, call: Call, named: ReferencedIds) -> Call:
        found = await self.isolation.ledger.store.tasks(self.isolation.scope, named.tasks)
        about = named.tasks[0] if len(named.tasks) > len(named.references) else None
        for id, task in zip(named.tasks, found, strict=True):  # noqa: A001 - the protocol's word
            if task is not None and self.owns(task.owner):
                if id == about:
                    self._know(id, task)
            elif call.dialect.version is not Version.V0_1:
                self._claim_unowned(id, task)
            elif id == about:
                call = await self._authorize_named_by_client(call, id, task)
            else:
                await self.authorize_task(id, Version.V0_1)
        return call

    async def _authorize_named_by_client(self, call: Call, id: str, task: Task | None) -> Call:  # noqa: A002 - as above
        """Check a call about a task that an agent of 0.1 knows, or shall know, by the client's word."""
        prefixed = self.prefix.text + id
        known = await self._find(prefixed)
        if known is not None and self.owns(known.owner):
            self._know(prefixed, known)
        elif not call.operation.sends:
            self._claim_unowned(id, task)
            return call
        elif task is None and not self.isolation.shared:
            return call
        return with_task(call, prefixed)

    async def _authorize_context(self, call: Call, context: str) -> Call:
        if context_key(context) != self._context:
            scope, store = self.isolation.scope, self.isolation.ledger.store
            owner = await store.context(scope, context_key(context))
            if owner is None and not self.isolation.shared:
                # It may have been begun, with the prefix, while others reached the agent.
                prefixed = await store.context(scope, context_key(self.prefix.text + context))
                owner = self.owner if prefixed is None else None
            if owner is None or not self.owns(owner):
                context = self.prefix.text + context
                call = with_context(call, context)
        self.context = context_key(context)
        return call

    def _claim_unowned(self, id: str, task: Task | None) -> None:  # noqa: A002 - as above
        """Pass a task without an owner, where that is allowed; the agent's answer then decides the owner."""
        if task is not None or not self.isolation.claims_unowned or len(id) > LONGEST_ID:
            self._refuse_task(found=task is not None)
        self._claimed = (*self._claimed, id)

    def _refuse_task(self, *, found: bool) -> NoReturn:
        self.is_foreign = found
        raise TaskNotFound("task not found", detail="it is another's" if found else "it is unknown here")

    async def _admit_new_task(self) -> None:
        ledger, tenant = self.isolation.ledger, self.owner.tenant
        if ledger.refuses:
            ledger.try_again()
        bounds = self.isolation.most_open
        bound = bounds.get(tenant, bounds.get("*")) if bounds else None
        if bound is None and ledger.store.local:
            return
        # Also without a bound: an agent shall not begin what the ledger could not record.
        opened = await ledger.store.open_tasks(tenant)
        if bound is None:
            return
        pending = ledger.pending
        if opened + pending.get(tenant, 0) >= bound:
            detail = f"{opened} of {bound} are open"
            raise TasksLimited("too many tasks are open", detail=detail, retry_after=_RETRY_AFTER)
        pending[tenant] = pending.get(tenant, 0) + 1
        self._pending = True

    def release(self) -> None:
        """End the call, however it went."""
        if self._pending:
            self._pending = False
            pending, tenant = self.isolation.ledger.pending, self.owner.tenant
            left = pending.get(tenant, 0) - 1
            if left > 0:
                pending[tenant] = left
            else:
                pending.pop(tenant, None)

    # ---- On the way back -------------------------------------------------------------------------------------------

    def is_known(self, told: Progress) -> bool:
        """Return whether a frame names nothing new, in the spelling that the client has: it may leave as it is."""
        return (
            (told.task_id or "") == self._task
            and (not told.context_id or told.context_id == self._context)
            and (not told.state or told.state == self._state)
            and not self.is_prefixed
            and not self._stale
            and told.legible
            and told.others is None
        ) or not (self.isolation.keeps or self._follows)

    async def observe(self, told: Progress) -> None:
        """Record what a frame names, before the frame leaves.

        Args:
            told: As the agent wrote it.

        Raises:
            UpstreamProtocol: it names what belongs to another owner, or may do so.
            TaskNotFound: likewise, where the call named a task that had no owner then.
            StateUnavailable: it cannot be recorded.
        """
        isolation = self.isolation
        if not isolation.keeps:
            await self._remember_replica(told)
            return
        if told.others is not None or not told.legible:
            await self._check_nested(told)
        task, context, state = told.task_id or "", context_key(told.context_id or ""), told.state or ""
        is_known = task == self._task and context in ("", self._context) and state in ("", self._state)
        if (is_known and not (self._stale and task)) or not (task or context):
            return
        if len(task) > LONGEST_ID:
            raise UpstreamProtocol("the agent's task has an id that is too long", detail=f"{len(task)} characters")
        if task and told.event not in _NEWS and task not in self._claimed and await self._find(task) is None:
            # Only a message names it. Agents make up ids for such, and never end these tasks.
            state = "completed"
        prefixed, now = self.prefix.starts(context), int(isolation.ledger.wall())
        observed = Observed(
            self.owner, task, context, state, self.replica, self._label, now, isolation.by_principal, prefixed
        )
        try:
            decision = await isolation.ledger.store.record(isolation.scope, observed)
        except StateUnavailable:
            if task and not self._task:
                isolation.ledger.refused()
            raise
        self._learn(observed, decision)
        if isolation.affinity is not None and self.replica:
            await isolation.affinity.record(self.owner.tenant, task, context, self.replica)
        if self.by_skill is not None:
            await self._remember_agent(self.by_skill, task, told.context_id or "")

    async def _remember_agent(self, by_skill: SkillCall, task: str, context: str) -> None:
        """Record the backend of a task and a context, in the client's spelling."""
        own, scope = self.prefix.text, self.isolation.scope
        task, context = task.removeprefix(own), context.removeprefix(own)
        await by_skill.record(self.owner.tenant, task=task, context=context, backend=scope)

    async def record_loss(self) -> None:
        """Record that the agent no longer knows the caller's task, which therefore is not open any more."""
        if self._task and self._state in OPEN and self.isolation.keeps:
            with suppress(StateUnavailable):
                await self.observe(Progress(task_id=self._task, state=_LOST, event="status"))

    async def check_list(self, tasks: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Return which tasks of a list are the caller's, and record those of them that have ended.

        A task that is listed in a foreign context is not the caller's: it may be either owner's.

        Args:
            tasks: Id, context and state of each; a context or a state is empty if it is not known.
        """
        scope, store = self.isolation.scope, self.isolation.ledger.store
        owned: list[bool] = []
        for (id, told, state), known in zip(  # noqa: A001 - the protocol's word
            tasks, await store.tasks(scope, [task for task, _, _ in tasks]), strict=True
        ):
            is_own, context = known is not None and self.owns(known.owner), context_key(told)
            if is_own and known is not None and context and context != known.context:
                is_own = not self._is_foreign(None, context, await store.context(scope, context))
                self.is_foreign = self.is_foreign or not is_own
            owned.append(is_own)
            if is_own and known is not None and known.state in OPEN and state not in OPEN:
                await store.record(scope, Observed(self.owner, id, "", state, now=self.isolation.ledger.now()))
        return owned

    async def count(self) -> int:
        """Return how many tasks of the caller are known, or how many in the context that the call names."""
        owner = self.owner if self.isolation.by_principal else Owner(self.owner.tenant)
        return await self.isolation.ledger.store.count(self.isolation.scope, owner, self.context)

    async def is_foreign_error(self, told: Progress) -> bool:
        """Return whether an agent's error names what is known to be another owner's; nothing is recorded.

        Unknown ids pass, since agents give errors ids of other kinds, too.
        """
        if not self.isolation.keeps:
            return False
        if not told.legible and (told.task_id is not None or told.event == "other"):
            # It names several tasks. A lone `id` that is no text need not be a task's.
            self.is_foreign = True
            return True
        if told.others is not None and await self.names_foreign(told.others):
            return True
        context = context_key(told.context_id or "")
        task = await self._find(told.task_id) if told.task_id else None
        owner = await self.isolation.ledger.store.context(self.isolation.scope, context) if context else None
        self.is_foreign = self._is_foreign(None if task is None else task.owner, context, owner)
        return self.is_foreign

    async def names_foreign(self, named: NestedIds) -> bool:
        """Return whether messages, or the details of an error, name what is known to be another owner's."""
        found = self.isolation.keeps and await self.isolation.names_foreign(self.owner, named, self.prefix.text)
        self.is_foreign = self.is_foreign or found
        return found

    async def refuse_foreign_details(self, details: Iterable[object]) -> None:
        """Refuse an error over gRPC whose details name what is known to be another owner's.

        Raises:
            UpstreamProtocol: they do.
            StateUnavailable: the ledger cannot be asked.
        """
        named = nested_in_details(details)
        if named is not None and await self.names_foreign(named):
            raise UpstreamProtocol("the agent's answer is not this caller's", detail="its error tells of another's")

    async def _check_nested(self, told: Progress) -> None:
        """Refuse a frame that cannot be read, or whose messages name something foreign."""
        if not told.legible or told.others is None:
            raise UpstreamProtocol("the agent's answer may be another's", detail="its ids cannot be read")
        if await self.names_foreign(told.others):
            self._refuse("task or context, in a message or a detail")

    def _learn(self, observed: Observed, decision: Decision) -> None:
        """Refuse what turned out to be foreign; remember the rest as the caller's."""
        task, context = observed.task, observed.context
        if decision.task is not None and not self.owns(decision.task):
            if task in self._claimed:
                self._refuse_task(found=True)
            self._refuse("task")
        if decision.context is not None and not (observed.prefixed or self.owns(decision.context)):
            self._refuse("context")
        if task:
            if not self._task:
                self.isolation.ledger.refuses = False
            self._task, self._state, self._stale = task, observed.state or self._state, False
            # From here on the store counts it.
            self.release()
            if self._claimed:
                self._claimed = tuple(each for each in self._claimed if each != task)
        if context:
            self._context = context
        self._note_prefix()

    def _refuse(self, what: str) -> NoReturn:
        self.is_foreign = True
        raise UpstreamProtocol("the agent's answer is not this caller's", detail=f"it names another's {what}")

    # ---- Without owners: only the replica matters ------------------------------------------------------------------

    @property
    def _follows(self) -> bool:
        return (self.replica != "" and self.isolation.affinity is not None) or self.by_skill is not None

    async def _remember_replica(self, told: Progress) -> None:
        task, context = told.task_id or "", told.context_id or ""
        affinity = self.isolation.affinity
        if not self._follows or (task in ("", self._task) and context in ("", self._context)):
            self._state = told.state or self._state
            return
        self._task, self._state, self._context = task or self._task, told.state or self._state, context or self._context
        if affinity is not None and self.replica:
            await affinity.record(self.owner.tenant, task, context, self.replica)
        if self.by_skill is not None:
            await self._remember_agent(self.by_skill, task, context)

    # ---- What both ways use ----------------------------------------------------------------------------------------

    @property
    def bound(self) -> tuple[str, ...]:
        """The words that a page token of the caller is bound to."""
        owner, isolation = self.owner, self.isolation
        return isolation.scope, owner.tenant, owner.principal if isolation.by_principal else ""

    @property
    def open_for(self) -> float | None:
        """Return the age in seconds of the task that the call names, if that was open when the call came."""
        return max(self.isolation.ledger.wall() - self._made, 0.0) if self._made else None

    def owns(self, owner: Owner) -> bool:
        """Return whether what belongs to an owner is the caller's."""
        return self.isolation.is_owned(owner, self.owner)

    def _is_foreign(self, task: Owner | None, context: str, holder: Owner | None) -> bool:
        """Return whether a task, by its owner, or a context, by its holder, is another owner's."""
        prefixed, apart = self.prefix.starts(context), self.isolation.by_principal
        return Observed(self.owner, context=context, apart=apart, prefixed=prefixed).is_foreign(task, holder)

    def _know(self, id: str, task: Task) -> None:  # noqa: A002 - the protocol's word
        self._task, self._state, self._context = id, task.state, task.context
        self._made = task.made if task.state in OPEN else 0
        self._stale = self.isolation.ledger.now() - task.seen >= SEEN_AGAIN
        self._note_prefix()

    async def _find(self, task: str) -> Task | None:
        (found,) = await self.isolation.ledger.store.tasks(self.isolation.scope, (task,))
        return found

    def _note_prefix(self) -> None:
        self.is_prefixed = self.prefix.starts(self._task) or self.prefix.starts(self._context)
