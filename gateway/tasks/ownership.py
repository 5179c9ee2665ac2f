"""Ownership of tasks and contexts: checks of the ids in calls and answers, and the recording of owners.

An agent hands any task to every caller that knows its id. The gateway therefore asks its ledger (`store.py`):

1. **On the way in** (`Ownership.authorize`): each task that a call names, in any place, must belong to the caller.
   Otherwise the agent is not asked. A foreign task and an unknown one get the same answer, TaskNotFound.
2. **On the way back** (`Ownership.observe`): each task and context that a frame names is recorded as the receiver's
   before the frame leaves. A frame that names a foreign one is withheld. So is an error that does
   (`is_foreign_error`), and of a list each task that is not the caller's is left out (`check_list`); neither records an
   owner. A notification to a webhook is checked like a frame (`Isolation.observe_notification`).
3. **Where it is written**: `Store.record` decides and writes in one step, so the first receiver owns an id for good.

The rule is `Isolation.is_owned`: of the same tenant, and of the same principal if `isolation: principal`.

A context is different: clients may name one that is not theirs yet, and two tenants may choose the same word. At an
agent that several owners reach, a client's own word gets a prefix of its owner (`context_prefix.py`). So another
owner's context looks like any unused word. Clients of 0.1 make task ids as well, and these get the prefix too.
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
from gateway.a2a.ids import referenced_ids, with_context, with_task, without
from gateway.a2a.nested_ids import NestedIds, nested_in_details
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.affinity import SkillCall, TaskAffinity
from gateway.tasks.context_prefix import NO_PREFIX, ContextPrefix
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.store import LONGEST_ID, OPEN, SEEN_AGAIN, Observed, Owner, RecordedOwners, Task
from gateway.tasks.token_cipher import TokenCipher

_RETRY_AFTER = 5.0
_MOST_CALLERS = 10_000
_KEPT_CHARACTERS = 64
_TASK_EVENTS = frozenset({"task", "status", "artifact"})
"""Events of a task itself, as `Progress.event` spells them."""


# ---- One backend -----------------------------------------------------------------------------------------------------


class TaskOwner(msgspec.Struct, frozen=True):
    """A principal as an owner at one backend.

    Attributes:
        cipher: Makes its prefix; None if the store has not been read yet.
        prefix: Stands before its contexts at the agent.
    """

    owner: Owner
    cipher: TokenCipher | None
    prefix: ContextPrefix = NO_PREFIX


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of one backend's tasks; made with a configuration and replaced with it.

    Attributes:
        scope: The key of the backend in the ledger.
        by_principal: Whether each caller of a tenant owns its own tasks (`isolation: principal`).
        claims_unowned: Whether a task without an owner goes to the first caller that is answered about it.
        shared: Whether several owners reach the backend.
        keeps: Whether owners are recorded at all. If not, only webhooks have one.
        most_open: The bound on open tasks by tenant; under `*` that of all other tenants.
        affinity: The replicas of tasks; None if they do not matter.
    """

    ledger: TaskLedger
    scope: str
    by_principal: bool = False
    claims_unowned: bool = False
    shared: bool = True
    keeps: bool = True
    most_open: Mapping[str, int | None] = field(default_factory=dict)
    affinity: TaskAffinity | None = None
    # By tenant, issuer and subject: most callers have called before.
    _callers: dict[tuple[str, str, str], TaskOwner] = field(default_factory=dict, init=False, repr=False, compare=False)

    def is_owned(self, owner: Owner, by: Owner) -> bool:
        """Return whether the tasks of `owner` belong to `by` as well: the one rule of ownership."""
        return owner.tenant == by.tenant and (owner.principal == by.principal or not self.by_principal)

    @property
    def filters_lists(self) -> bool:
        """Whether lists of tasks are filtered: not if all tasks of the agent belong to one owner."""
        return self.keeps and (self.shared or not self.claims_unowned)

    def caller(self, principal: Principal) -> TaskOwner:
        """Return a principal as an owner at this backend, with its prefix.

        Raises:
            NotAdmitted: tasks belong to subjects, and the token has none.
        """
        key = (principal.tenant, principal.issuer, principal.who)
        caller = self._callers.get(key)
        if caller is None or caller.cipher is not self.ledger.known_cipher:
            caller = self._new_caller(key, principal)
        return caller

    def prefix_of(self, cipher: TokenCipher, owner: Owner) -> str:
        """Return the prefix of an owner's own contexts."""
        return self.ledger.prefix(cipher, self.scope, owner, by_principal=self.by_principal)

    def _new_caller(self, key: tuple[str, str, str], principal: Principal) -> TaskOwner:
        tenant, issuer, subject = key
        if self.by_principal and principal.method == "jwt" and not subject:
            raise NotAdmitted("the token names no subject, and here tasks are a subject's own")
        owner, cipher = Owner(tenant, f"{issuer}/{subject}"), self.ledger.known_cipher
        prefix = ContextPrefix.of(self.prefix_of(cipher, owner)) if self.keeps and cipher is not None else NO_PREFIX
        if len(self._callers) >= _MOST_CALLERS:
            self._callers.clear()
        caller = self._callers[key] = TaskOwner(owner, cipher, prefix)
        return caller

    async def observe_notification(self, owner: Owner, progress: Progress) -> bool:
        """Record the ids in a notification to an owner's webhook; return whether all of them are the owner's."""
        if not self.keeps:
            return True
        context = context_key(progress.context_id or "")
        prefix = self.prefix_of(await self.ledger.cipher(), owner)
        observed = Observed(
            owner, progress.task_id or "", context, progress.state or "",
            now=self.ledger.now(), apart=self.by_principal, prefixed=context.startswith(prefix),
        )  # fmt: skip
        if progress.others is not None and await self.names_foreign(owner, progress.others, prefix):
            return False
        decision = await self.ledger.store.record(self.scope, observed)
        return decision.task is not None and not observed.is_foreign(decision.task, decision.context)

    async def names_foreign(self, owner: Owner, named: NestedIds, prefix: str) -> bool:
        """Return whether messages within a frame name an id of another owner.

        Unknown ids pass, because agents also give messages other kinds of ids. A frame with too many ids does not pass.

        Args:
            prefix: The owner's, with which its own contexts begin.
        """
        if named.crowded:
            return True
        store = self.ledger.store
        tasks = await store.tasks(self.scope, named.tasks) if named.tasks else ()
        if any(task is not None and not self.is_owned(task.owner, owner) for task in tasks):
            return True
        for context in named.contexts:
            holder = await store.context(self.scope, context_key(context))
            if holder is not None and not self.is_owned(holder, owner) and not (prefix and context.startswith(prefix)):
                return True
        return False


def context_key(context: str) -> str:
    """Return a context id as the ledger has it: a long id is its beginning and its hash."""
    if len(context) <= LONGEST_ID:
        return context
    return f"{context[:_KEPT_CHARACTERS]}…{hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest()}"


# ---- One call --------------------------------------------------------------------------------------------------------


def ownership_of(isolation: Isolation, principal: Principal, dialect: str) -> "Ownership":
    """Return the ownership checks of one call.

    Args:
        dialect: The caller's, such as `jsonrpc/1.0`.

    Raises:
        NotAdmitted: as `Isolation.caller`.
    """
    caller = isolation.caller(principal)
    return Ownership(isolation, caller.owner, dialect, caller.prefix)


class Ownership(msgspec.Struct, eq=False):
    """The ownership checks of one call; a struct, since one is made for each call.

    Attributes:
        isolation: The isolation of the backend.
        owner: The caller.
        prefix: The prefix of the caller's contexts at the agent.
        is_foreign: Whether the call or its answer named an id of another owner; for the audit log.
        is_prefixed: Whether the ids of the known task or context have the prefix at the agent.
        context: The context that the agent is asked for; empty for none.
        replica: The replica that answered; empty before the answer, for agents on stdio, and for lists.
        by_skill: The skill by which the caller came; the agent of its task is recorded with it. Or None.
    """

    isolation: Isolation
    owner: Owner
    _dialect: str
    prefix: ContextPrefix = NO_PREFIX
    is_foreign: bool = False
    # When the task that the call is about was made, in Unix seconds; 0 if it is unknown or had ended.
    _open_since: int = 0
    # The task and the context that are known to be the caller's.
    _task: str = ""
    _state: str = ""
    _context: str = ""
    # Whether they were recorded so long ago that they are recorded again, so that they do not expire.
    _is_stale: bool = False
    is_prefixed: bool = False
    context: str = ""
    # Whether the call counts among the tenant's pending ones.
    _is_pending: bool = False
    replica: str = ""
    by_skill: SkillCall | None = None
    # Named tasks without an owner: the first receiver of an answer about one becomes its owner.
    _claimed: tuple[str, ...] = ()

    # ---- On the way in -----------------------------------------------------------------------------------------------

    async def authorize(self, call: Call, named: ReferencedIds | None = None, also: tuple[str, ...] = ()) -> Call:
        """Check the ids that a call names, and return the call for the agent.

        Args:
            call: In the agent's dialect.
            named: The ids that it names, if known.
            also: Tasks that the client named, which the agent's dialect may not be able to express.

        Raises:
            TaskNotFound: it names a task that is not the caller's.
            TasksLimited: the tenant already has the most open tasks.
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

    async def _authorize_tasks(self, call: Call, named: ReferencedIds) -> Call:
        """Check each task that a call names; return the call with the agent's id of the one that it is about."""
        tasks = await self.isolation.ledger.store.tasks(self.isolation.scope, named.tasks)
        about = named.tasks[0] if len(named.tasks) > len(named.references) else None
        for task_id, task in zip(named.tasks, tasks, strict=True):
            if task is not None and self.owns(task.owner):
                if task_id == about:
                    self._remember(task_id, task)
            elif call.dialect.version is not Version.V0_1:
                self._claim_unowned(task_id, task)
            elif task_id == about:
                call = await self._authorize_named_by_client(call, task_id, task)
            else:
                await self.authorize_task(task_id, Version.V0_1)
        return call

    async def _authorize_named_by_client(self, call: Call, task_id: str, task: Task | None) -> Call:
        """Check a call about a task whose id at an agent of 0.1 is the client's word, with the prefix or without."""
        prefixed = self.prefix.text + task_id
        known = await self._find(prefixed)
        if known is not None and self.owns(known.owner):
            self._remember(prefixed, known)
        elif not call.operation.sends:
            self._claim_unowned(task_id, task)
            return call
        elif task is None and not self.isolation.shared:
            return call
        return with_task(call, prefixed)

    async def _authorize_context(self, call: Call, context: str) -> Call:
        """Return the call with the prefix before a context that is not known to be the caller's."""
        if context_key(context) != self._context:
            scope, store = self.isolation.scope, self.isolation.ledger.store
            owner = await store.context(scope, context_key(context))
            if owner is None and not self.isolation.shared:
                # It may have been begun, with the prefix, while several owners reached the agent.
                prefixed = await store.context(scope, context_key(self.prefix.text + context))
                owner = self.owner if prefixed is None else None
            if owner is None or not self.owns(owner):
                context = self.prefix.text + context
                call = with_context(call, context)
        self.context = context_key(context)
        return call

    async def authorize_task(self, task_id: str, version: Version) -> str:
        """Return the agent's id of a task that the caller names.

        Args:
            version: The agent's; in 0.1 clients make the ids of tasks.

        Raises:
            TaskNotFound: it is not the caller's.
        """
        if not self.isolation.keeps:
            return task_id
        task = await self._find(task_id)
        if task is not None and self.owns(task.owner):
            return task_id
        if version is Version.V0_1:
            prefixed = await self.load_prefix() + task_id
            known = await self._find(prefixed)
            if known is not None and self.owns(known.owner):
                return prefixed
        self._claim_unowned(task_id, task)
        return task_id

    def _claim_unowned(self, task_id: str, task: Task | None) -> None:
        """Let a task without an owner pass if that is allowed; the answer about it decides the owner.

        Raises:
            TaskNotFound: it has another owner, or that is not allowed.
        """
        if task is not None or not self.isolation.claims_unowned or len(task_id) > LONGEST_ID:
            self._refuse_task(found=task is not None)
        self._claimed = (*self._claimed, task_id)

    def _refuse_task(self, *, found: bool) -> NoReturn:
        self.is_foreign = found
        raise TaskNotFound("task not found", detail="it is another's" if found else "it is unknown here")

    # ---- The bound on open tasks -------------------------------------------------------------------------------------

    async def _admit_new_task(self) -> None:
        """Count a call that may make a task among the tenant's pending ones.

        Raises:
            TasksLimited, StateUnavailable: as `authorize`.
        """
        ledger, tenant = self.isolation.ledger, self.owner.tenant
        if ledger.refuses:
            ledger.try_again()
        bounds = self.isolation.most_open
        bound = bounds.get(tenant, bounds.get("*")) if bounds else None
        if bound is None and ledger.store.local:
            return
        # Also without a bound: an agent should not begin a task that the ledger cannot record.
        opened = await ledger.store.open_tasks(tenant)
        if bound is None:
            return
        pending = ledger.pending
        if opened + pending.get(tenant, 0) >= bound:
            detail = f"{opened} of {bound} are open"
            raise TasksLimited("too many tasks are open", detail=detail, retry_after=_RETRY_AFTER)
        pending[tenant] = pending.get(tenant, 0) + 1
        self._is_pending = True

    def release(self) -> None:
        """Stop counting the call: it has ended, or its task is recorded."""
        if self._is_pending:
            self._is_pending = False
            pending, tenant = self.isolation.ledger.pending, self.owner.tenant
            left = pending.get(tenant, 0) - 1
            if left > 0:
                pending[tenant] = left
            else:
                pending.pop(tenant, None)

    # ---- On the way back: frames -------------------------------------------------------------------------------------

    def is_known(self, progress: Progress) -> bool:
        """Return whether a frame names no new id, in the client's spelling: it may leave unchanged."""
        return (
            (progress.task_id or "") == self._task
            and (not progress.context_id or progress.context_id == self._context)
            and (not progress.state or progress.state == self._state)
            and not self.is_prefixed
            and not self._is_stale
            and progress.legible
            and progress.others is None
        ) or not (self.isolation.keeps or self._has_affinity)

    async def observe(self, progress: Progress) -> None:
        """Record the ids that a frame names, before the frame leaves.

        Args:
            progress: As the agent wrote it.

        Raises:
            UpstreamProtocol: it names, or may name, an id of another owner.
            TaskNotFound: likewise, if the call named a task that had no owner then.
            StateUnavailable: it cannot be recorded.
        """
        isolation = self.isolation
        if not isolation.keeps:
            await self._record_affinity(progress)
            return
        if progress.others is not None or not progress.legible:
            await self._check_nested(progress)
        task, context, state = progress.task_id or "", context_key(progress.context_id or ""), progress.state or ""
        is_known = task == self._task and context in ("", self._context) and state in ("", self._state)
        if (is_known and not (self._is_stale and task)) or not (task or context):
            return
        if len(task) > LONGEST_ID:
            raise UpstreamProtocol("the agent's task has an id that is too long", detail=f"{len(task)} characters")
        if task and progress.event not in _TASK_EVENTS and task not in self._claimed and await self._find(task) is None:
            # Only a message names it. Agents invent ids for messages, and never end these tasks.
            state = "completed"
        prefixed, now = self.prefix.starts(context), int(isolation.ledger.wall())
        observed = Observed(
            self.owner, task, context, state, self.replica, self._dialect, now, isolation.by_principal, prefixed
        )
        try:
            decision = await isolation.ledger.store.record(isolation.scope, observed)
        except StateUnavailable:
            if task and not self._task:
                isolation.ledger.refused()
            raise
        self._accept(observed, decision)
        if isolation.affinity is not None and self.replica:
            await isolation.affinity.record(self.owner.tenant, task, context, self.replica)
        if self.by_skill is not None:
            await self._record_agent(self.by_skill, task, progress.context_id or "")

    async def _check_nested(self, progress: Progress) -> None:
        """Withhold a frame that cannot be read, or whose messages name an id of another owner."""
        if not progress.legible or progress.others is None:
            raise UpstreamProtocol("the agent's answer may be another's", detail="its ids cannot be read")
        if await self.names_foreign(progress.others):
            self._withhold("task or context, in a message or a detail")

    def _accept(self, observed: Observed, decision: RecordedOwners) -> None:
        """Withhold a frame that names an id of another owner in the store; remember the other ids as the caller's.

        Raises:
            UpstreamProtocol, TaskNotFound: as `observe`.
        """
        task, context = observed.task, observed.context
        if decision.task is not None and not self.owns(decision.task):
            if task in self._claimed:
                self._refuse_task(found=True)
            self._withhold("task")
        if decision.context is not None and not (observed.prefixed or self.owns(decision.context)):
            self._withhold("context")
        if task:
            if not self._task:
                self.isolation.ledger.refuses = False
            self._task, self._state, self._is_stale = task, observed.state or self._state, False
            self.release()
            if self._claimed:
                self._claimed = tuple(each for each in self._claimed if each != task)
        if context:
            self._context = context
        self._update_prefixed()

    def _withhold(self, what: str) -> NoReturn:
        self.is_foreign = True
        raise UpstreamProtocol("the agent's answer is not this caller's", detail=f"it names another's {what}")

    async def record_loss(self) -> None:
        """Record that the agent no longer knows the caller's task: it counts as ended."""
        if self._task and self._state in OPEN and self.isolation.keeps:
            with suppress(StateUnavailable):
                await self.observe(Progress(task_id=self._task, state="failed", event="status"))

    # ---- On the way back: lists and errors ---------------------------------------------------------------------------

    async def check_list(self, tasks: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Return the tasks of a list that are the caller's, and record those of them that have ended.

        A task that is listed in a foreign context is not the caller's: it may be either owner's.

        Args:
            tasks: Id, context and state of each; a context or a state is empty if it is not known.
        """
        scope, store = self.isolation.scope, self.isolation.ledger.store
        owned: list[bool] = []
        known = await store.tasks(scope, [task_id for task_id, _, _ in tasks])
        for (task_id, named, state), task in zip(tasks, known, strict=True):
            if task is None or not self.owns(task.owner):
                owned.append(False)
                continue
            context = context_key(named)
            is_own = context in ("", task.context) or not self._is_foreign(
                None, context, await store.context(scope, context)
            )
            self.is_foreign = self.is_foreign or not is_own
            owned.append(is_own)
            if is_own and task.state in OPEN and state not in OPEN:
                await store.record(scope, Observed(self.owner, task_id, "", state, now=self.isolation.ledger.now()))
        return owned

    async def count(self) -> int:
        """Return how many tasks of the caller are known, or how many in the context that the call names."""
        owner = self.owner if self.isolation.by_principal else Owner(self.owner.tenant)
        return await self.isolation.ledger.store.count(self.isolation.scope, owner, self.context)

    async def is_foreign_error(self, progress: Progress) -> bool:
        """Return whether an agent's error names an id of another owner; nothing is recorded.

        Unknown ids pass, because agents also give errors other kinds of ids.
        """
        if not self.isolation.keeps:
            return False
        if not progress.legible and (progress.task_id is not None or progress.event == "other"):
            # It names several tasks. A lone `id` that is not a text need not be a task's.
            self.is_foreign = True
            return True
        if progress.others is not None and await self.names_foreign(progress.others):
            return True
        context = context_key(progress.context_id or "")
        task = await self._find(progress.task_id) if progress.task_id else None
        owner = await self.isolation.ledger.store.context(self.isolation.scope, context) if context else None
        self.is_foreign = self._is_foreign(None if task is None else task.owner, context, owner)
        return self.is_foreign

    async def refuse_foreign_details(self, details: Iterable[object]) -> None:
        """Refuse an error over gRPC whose details name an id of another owner.

        Raises:
            UpstreamProtocol: they do.
            StateUnavailable: the ledger cannot be asked.
        """
        named = nested_in_details(details)
        if named is not None and await self.names_foreign(named):
            raise UpstreamProtocol("the agent's answer is not this caller's", detail="its error tells of another's")

    async def names_foreign(self, named: NestedIds) -> bool:
        """Return whether messages, or the details of an error, name an id of another owner."""
        is_foreign = self.isolation.keeps and await self.isolation.names_foreign(self.owner, named, self.prefix.text)
        self.is_foreign = self.is_foreign or is_foreign
        return is_foreign

    def remove_prefix(self, call: Call, message: bytes, *, event: bool) -> bytes:
        """Return a gRPC message of the agent as the client may see it: without context prefixes.

        Args:
            call: The call that the agent was asked.
            event: Whether the message is an event of a stream.
        """
        raw = self.prefix.raw
        if not raw or raw not in message:
            return message
        dialect = call.dialect
        return without(message, raw, dialect.binding, version=dialect.version, operation=call.operation, event=event)

    # ---- What both ways use ------------------------------------------------------------------------------------------

    def owns(self, owner: Owner) -> bool:
        """Return whether the tasks of an owner belong to the caller."""
        return self.isolation.is_owned(owner, self.owner)

    def _is_foreign(self, task: Owner | None, context: str, holder: Owner | None) -> bool:
        """Return whether a task, by its owner, or a context, by its holder, is another owner's."""
        if task is not None and not self.owns(task):
            return True
        return holder is not None and not self.owns(holder) and not self.prefix.starts(context)

    async def _find(self, task: str) -> Task | None:
        (found,) = await self.isolation.ledger.store.tasks(self.isolation.scope, (task,))
        return found

    async def load_prefix(self) -> str:
        """Return the prefix of the caller's ids at the agent; empty where owners are not kept.

        Raises:
            StateUnavailable: the secret of the store has never been read.
        """
        if self.isolation.keeps and not self.prefix.text:
            text = self.isolation.prefix_of(await self.isolation.ledger.cipher(), self.owner)
            self.prefix = ContextPrefix.of(text)
            self._update_prefixed()
        return self.prefix.text

    def _remember(self, task_id: str, task: Task) -> None:
        """Remember the task that the call is about as the caller's."""
        self._task, self._state, self._context = task_id, task.state, task.context
        self._open_since = task.made if task.state in OPEN else 0
        self._is_stale = self.isolation.ledger.now() - task.seen >= SEEN_AGAIN
        self._update_prefixed()

    def _update_prefixed(self) -> None:
        self.is_prefixed = self.prefix.starts(self._task) or self.prefix.starts(self._context)

    @property
    def token_binding(self) -> tuple[str, ...]:
        """The words that a page token of the caller is bound to."""
        owner, isolation = self.owner, self.isolation
        return isolation.scope, owner.tenant, owner.principal if isolation.by_principal else ""

    @property
    def open_task_age(self) -> float | None:
        """Return the age in seconds of the task that the call names, if the task was open when the call came."""
        return max(self.isolation.ledger.wall() - self._open_since, 0.0) if self._open_since else None

    # ---- Affinity: the replica or the agent that is asked ------------------------------------------------------------

    async def replica_of(self, named: ReferencedIds) -> tuple[str, bool]:
        """Return the replica that a call belongs to, or an empty text; and whether a task decides that.

        Ownership is checked later, before the client gets any answer.

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
        # A call that only refers to a task prefers its replica, but may go anywhere.
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

    @property
    def _has_affinity(self) -> bool:
        """Whether the replica or the agent of a task is recorded; if owners are not kept, only these are recorded."""
        return (self.replica != "" and self.isolation.affinity is not None) or self.by_skill is not None

    async def _record_affinity(self, progress: Progress) -> None:
        task, context = progress.task_id or "", progress.context_id or ""
        affinity = self.isolation.affinity
        if not self._has_affinity or (task in ("", self._task) and context in ("", self._context)):
            self._state = progress.state or self._state
            return
        self._task, self._state, self._context = (
            task or self._task,
            progress.state or self._state,
            context or self._context,
        )
        if affinity is not None and self.replica:
            await affinity.record(self.owner.tenant, task, context, self.replica)
        if self.by_skill is not None:
            await self._record_agent(self.by_skill, task, context)

    async def _record_agent(self, by_skill: SkillCall, task: str, context: str) -> None:
        """Record the backend of a task and a context, in the client's spelling."""
        own, scope = self.prefix.text, self.isolation.scope
        task, context = task.removeprefix(own), context.removeprefix(own)
        await by_skill.record(self.owner.tenant, task=task, context=context, backend=scope)
