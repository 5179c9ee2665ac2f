"""Task affinity: the replica of a backend that made a task, or began a context.

The ledger has the replica of each task; that of a context stands in a note. Neither ever changes, so both are cached
here, and a follow-up call mostly needs no look-up. Without a ledger the cache is all there is.
"""

from collections.abc import Sequence

from gateway.tasks.ledger import Ledger
from gateway.tasks.store import HOMES, LONGEST_ID, Note

_MOST = 100_000
KEPT = 90 * 86_400
"""Seconds for which a note of an affinity is kept."""


class TaskAffinity:
    """The replicas of one backend's tasks and contexts.

    Args:
        scope: The key of the backend.
        keeps: Whether the ledger has the backend's tasks.
    """

    def __init__(self, ledger: Ledger, scope: str, *, keeps: bool) -> None:
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
        found = await self._of_tasks(_spellings(prefix, *tasks))
        if found or not context:
            return found, True
        return await self._of_context(_spellings(prefix, context)), False

    async def record(self, tenant: str, task: str, context: str, replica: str) -> None:
        """Record the replica that named a task and a context first; the ledger has the task's already.

        Raises:
            StateUnavailable: it cannot be written.
        """
        if task and task not in self._tasks and len(task) <= LONGEST_ID:
            remember(self._tasks, task, replica)
        if not context or context in self._contexts or len(context) > LONGEST_ID:
            return
        if self._keeps:
            until = self._ledger.now() + KEPT
            note = Note(HOMES, self._key(context), replica.encode(), tenant=tenant, until=until)
            replica = (await self._ledger.store.settle(note)).decode()
        remember(self._contexts, context, replica)

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
                remember(self._tasks, each, replica)
                return replica
        return ""

    async def _of_context(self, spellings: Sequence[str]) -> str:
        """Return the replica of one context by any of its spellings; or an empty text."""
        for each in spellings:
            if each in self._contexts:
                return self._contexts[each]
        for each in spellings if self._keeps else ():
            value = await self._ledger.store.note(HOMES, self._key(each))
            if value:
                remember(self._contexts, each, value.decode())
                return value.decode()
        return ""

    def _key(self, context: str) -> str:
        return f"{self._scope} {context}"


def _spellings(prefix: str, *ids: str) -> tuple[str, ...]:
    """Return ids as the agent may know them: a client's own word has a prefix there."""
    return ids if not prefix else tuple(spelled for each in ids for spelled in (prefix + each, each))


def remember(known: dict[str, str], key: str, value: str) -> None:
    """Cache a value under a key; where there are too many, the oldest go."""
    if len(known) >= _MOST:
        # A dictionary keeps the order.
        for each in list(known)[: _MOST // 10]:
            del known[each]
    known[key] = value
