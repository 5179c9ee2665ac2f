"""Affinity: the replica that made a task or began a context, and the agent that did so for callers by a skill.

The ledger has the replica of each task. A note holds that of each context. Calls by skill name no agent, and the best
agent may change before the next call. So a note holds the backend of each task of such a call, and of each context by
tenant and skill. None of this ever changes, so it is cached here, and a follow-up call mostly needs no look-up. Without
a ledger there is only the cache.

A note only selects the backend: ownership is checked there as usual (`ownership.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.tasks.ledger import TaskLedger
from gateway.tasks.store import AFFINITY, LONGEST_ID, Note

MOST = 100_000
# Seconds for which a note is kept.
_KEPT = 90 * 86_400


class TaskAffinity:
    """The replicas of one backend's tasks and contexts.

    Args:
        scope: The key of the backend.
        keeps: Whether the ledger has the backend's tasks.
    """

    def __init__(self, ledger: TaskLedger, scope: str, *, keeps: bool) -> None:
        self._ledger = ledger
        self._scope = scope
        self._keeps = keeps
        self._tasks: dict[str, str] = {}
        self._contexts: dict[str, str] = {}

    async def replica_of(self, tasks: Sequence[str], context: str | None, prefix: str) -> tuple[str, bool]:
        """Return the replica that a call belongs to, or an empty text; and whether a task decides that.

        Args:
            tasks: The tasks that the call names, the one that it is about first.
            prefix: The prefix of the caller's own ids at the agent; or empty.

        Raises:
            StateUnavailable: the ledger cannot be asked.
        """
        replica = await self._of_tasks(_spellings(prefix, *tasks))
        if replica or not context:
            return replica, True
        return await self._of_context(_spellings(prefix, context)), False

    async def record(self, tenant: str, task: str, context: str, replica: str) -> None:
        """Record the replica that named a task and a context first; the ledger has the task's already.

        Raises:
            StateUnavailable: it cannot be written.
        """
        if task and task not in self._tasks and len(task) <= LONGEST_ID:
            _remember(self._tasks, task, replica)
        if not context or context in self._contexts or len(context) > LONGEST_ID:
            return
        if self._keeps:
            until = self._ledger.now() + _KEPT
            note = Note(AFFINITY, self._key(context), replica.encode(), tenant=tenant, until=until)
            replica = (await self._ledger.store.settle(note)).decode()
        _remember(self._contexts, context, replica)

    async def _of_tasks(self, ids: Sequence[str]) -> str:
        """Return the replica of the first task that has one; or an empty text."""
        for each in ids:
            if each in self._tasks:
                return self._tasks[each]
        if not self._keeps or not ids:
            return ""
        for each, task in zip(ids, await self._ledger.store.tasks(self._scope, ids), strict=True):
            if task is None:
                continue
            # A notification may have named the task before the answer did. It has no replica, but its context has.
            replica = task.replica or ((await self._of_context((task.context,))) if task.context else "")
            if replica:
                _remember(self._tasks, each, replica)
                return replica
        return ""

    async def _of_context(self, spellings: Sequence[str]) -> str:
        """Return the replica of one context by any of its spellings; or an empty text."""
        for each in spellings:
            if each in self._contexts:
                return self._contexts[each]
        for each in spellings if self._keeps else ():
            value = await self._ledger.store.note(AFFINITY, self._key(each))
            if value:
                _remember(self._contexts, each, value.decode())
                return value.decode()
        return ""

    def _key(self, context: str) -> str:
        return f"{self._scope} {context}"


class SkillAffinity:
    """The backends of tasks and contexts of callers that came by a skill."""

    def __init__(self, ledger: TaskLedger) -> None:
        self._ledger = ledger
        self._known: dict[str, str] = {}

    async def of_task(self, tenant: str, task: str) -> str:
        """Return the backend that made a task for a tenant; an empty text if it is unknown.

        Raises:
            StateUnavailable: the ledger cannot be asked.
        """
        return await self._find(_task(tenant, task))

    async def of_context(self, tenant: str, skill: str, context: str) -> str:
        """Return the backend with which a tenant began a context for a skill; an empty text if it is unknown.

        Raises:
            StateUnavailable: the ledger cannot be asked.
        """
        return await self._find(_context(tenant, skill, context))

    async def record(self, tenant: str, skill: str, *, task: str, context: str, backend: str) -> None:
        """Record the backend of a task and of a context, in the client's spelling; the first one stays.

        Raises:
            StateUnavailable: it cannot be written.
        """
        for key, id in ((_task(tenant, task), task), (_context(tenant, skill, context), context)):  # noqa: A001 - protocol
            if not id or len(id) > LONGEST_ID or key in self._known:
                continue
            until = self._ledger.now() + _KEPT
            value = await self._ledger.store.settle(Note(AFFINITY, key, backend.encode(), tenant=tenant, until=until))
            _remember(self._known, key, value.decode())

    async def _find(self, key: str) -> str:
        if key in self._known:
            return self._known[key]
        value = await self._ledger.store.note(AFFINITY, key)
        if value is None:
            return ""
        _remember(self._known, key, value.decode())
        return self._known[key]


@dataclass(slots=True, eq=False)
class SkillCall:
    """A call of a caller that came by a skill.

    Attributes:
        maker: The agent that made its task; or empty.
        partner: The agent with which its context was begun; or empty.
        own_name: The name that a client of 0.1 has for the task, which may be another at the agent; or empty.
    """

    affinity: SkillAffinity
    skill: str
    maker: str = ""
    partner: str = ""
    own_name: str = ""

    async def record(self, tenant: str, *, task: str, context: str, backend: str) -> None:
        """Record the backend of the task and the context that the answer names, in the client's spelling.

        Raises:
            StateUnavailable: it cannot be written.
        """
        await self.affinity.record(tenant, self.skill, task=task, context=context, backend=backend)
        if task and self.own_name:
            await self.affinity.record(tenant, self.skill, task=self.own_name, context="", backend=backend)


def _spellings(prefix: str, *ids: str) -> tuple[str, ...]:
    """Return ids as the agent may know them: a client's own word has a prefix there."""
    return ids if not prefix else tuple(spelled for each in ids for spelled in (prefix + each, each))


def _remember(known: dict[str, str], key: str, value: str) -> None:
    """Cache a value under a key; if there are too many, the oldest are evicted."""
    if len(known) >= MOST:
        # A dictionary keeps the order.
        for each in list(known)[: MOST // 10]:
            del known[each]
    known[key] = value


# The key has the tenant, whose name has no space, so no tenant finds another tenant's note. A key of `TaskAffinity`
# begins with the name of an agent, which has no slash.
def _task(tenant: str, task: str) -> str:
    return f"/task {tenant} {task}"


def _context(tenant: str, skill: str, context: str) -> str:
    # The length keeps a skill with spaces apart from the context behind it.
    return f"/context {tenant} {len(skill)} {skill} {context}"
