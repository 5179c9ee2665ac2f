"""Which replica of a backend made a task, or began a context.

The ledger keeps the replica of each task; that of a context stands in a note. Both are remembered in this process as
well, for neither ever changes: so a follow-up mostly asks no store, and where no ledger is kept this is all there is.
"""

from collections.abc import Sequence

from gateway.tasks.ledger import Ledger
from gateway.tasks.store import HOMES, LONGEST_ID, Note, Task

_MOST = 100_000
_KEPT = 90 * 86_400


class Homes:
    """Those of one backend.

    Args:
        scope: The key of the backend.
        keeps: Whether a ledger is kept of its tasks.
    """

    def __init__(self, ledger: Ledger, scope: str, *, keeps: bool) -> None:
        self._ledger = ledger
        self._scope = scope
        self._keeps = keeps
        self._tasks: dict[str, str] = {}
        self._contexts: dict[str, str] = {}

    async def of(self, tasks: Sequence[str], context: str | None, mark: str) -> tuple[str, bool]:
        """Which replica a call belongs to, and whether that is by a task: empty for none that is known.

        Args:
            tasks: Those that it names, the one that it is about first.
            mark: What stands in the agent's ids before words of the caller's own; empty for nothing.

        Raises:
            StateUnavailable: nobody knows.
        """
        found = await self._of_tasks(_spelled(mark, *tasks))
        if found or not context:
            return found, True
        found = await self._of_context(_spelled(mark, context))
        return found, False

    async def _of_tasks(self, ids: Sequence[str]) -> str:
        """The replica of the first of the tasks of which one is known; empty for none."""
        for each in ids:
            if each in self._tasks:
                return self._tasks[each]
        if not self._keeps or not ids:
            return ""
        found: list[Task | None] = await self._ledger.store.tasks(self._scope, ids)
        for each, task in zip(ids, found, strict=True):
            if task is None:
                continue
            # A notification may have named it before the answer did, and says nothing of replicas: its context does.
            replica = task.replica or ((await self._of_context((task.context,))) if task.context else "")
            if replica:
                _remember(self._tasks, each, replica)
                return replica
        return ""

    async def _of_context(self, ids: Sequence[str]) -> str:
        """As `_of_tasks`, of the ways in which one context is spelled."""
        for each in ids:
            if each in self._contexts:
                return self._contexts[each]
        if not self._keeps:
            return ""
        for each in ids:
            value: bytes | None = await self._ledger.store.note(HOMES, self._key(each))
            if value:
                replica = value.decode()
                _remember(self._contexts, each, replica)
                return replica
        return ""

    async def met(self, tenant: str, task: str, context: str, replica: str) -> None:
        """Keep which replica named a task and a context, if nobody did before; the ledger has the task's by itself.

        Raises:
            StateUnavailable: it cannot be written down.
        """
        if task and task not in self._tasks and len(task) <= LONGEST_ID:
            _remember(self._tasks, task, replica)
        if not context or context in self._contexts or len(context) > LONGEST_ID:
            return
        kept = replica
        if self._keeps:
            until = self._ledger.now() + _KEPT
            note = Note(HOMES, self._key(context), replica.encode(), tenant=tenant, until=until)
            kept = (await self._ledger.store.settle(note)).decode()
        _remember(self._contexts, context, kept)

    def _key(self, context: str) -> str:
        return f"{self._scope} {context}"


def _spelled(mark: str, *ids: str) -> tuple[str, ...]:
    """Ids as the agent may know them: a client's own word has a mark before it there."""
    return ids if not mark else tuple(spelled for each in ids for spelled in (mark + each, each))


def _remember(known: dict[str, str], id: str, replica: str) -> None:  # noqa: A002 - the word
    if len(known) >= _MOST:
        # The oldest go first: a dictionary keeps the order.
        for each in list(known)[: _MOST // 10]:
            del known[each]
    known[id] = replica
