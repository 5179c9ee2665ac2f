"""Skill affinity: the agent that made a task, or began a context, for callers that reached it by a skill.

Such a caller names no agent, and the best one may be another by the time of its next call. So a note holds the backend
of each task that was made behind a skill, and of each context by tenant and skill. A note only says where to ask:
ownership is checked there as ever. The key of a note has the tenant in it, so nobody finds another tenant's.
"""

from dataclasses import dataclass

from gateway.tasks.affinity import KEPT, remember
from gateway.tasks.ledger import Ledger
from gateway.tasks.store import HOMES, LONGEST_ID, Note


class SkillAffinity:
    """The backends of tasks and contexts of callers that came by a skill."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, str] = {}

    async def of_task(self, tenant: str, task: str) -> str:
        """Return the backend that made a task for a tenant; an empty text if nobody knows.

        Raises:
            StateUnavailable: the ledger cannot be asked.
        """
        return await self._find(_task(tenant, task))

    async def of_context(self, tenant: str, skill: str, context: str) -> str:
        """Return the backend with which a tenant began a context for a skill; an empty text if nobody knows.

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
            until = self._ledger.now() + KEPT
            value = await self._ledger.store.settle(Note(HOMES, key, backend.encode(), tenant=tenant, until=until))
            remember(self._known, key, value.decode())

    async def _find(self, key: str) -> str:
        if key in self._known:
            return self._known[key]
        value = await self._ledger.store.note(HOMES, key)
        if value is None:
            return ""
        remember(self._known, key, value.decode())
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


# A key of another kind of note begins with the name of an agent, which has no slash. A tenant's name has no space.
def _task(tenant: str, task: str) -> str:
    return f"/task {tenant} {task}"


def _context(tenant: str, skill: str, context: str) -> str:
    # The length keeps a skill with spaces apart from the context behind it.
    return f"/context {tenant} {len(skill)} {skill} {context}"
