import pytest

from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.affinity import TaskAffinity
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.ownership import Isolation, Ownership, ownership_of
from gateway.tasks.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


class Agent:
    """One that acme and globex share."""

    def __init__(self) -> None:
        self.ledger = TaskLedger(SqliteStore(None))
        self.isolation = Isolation(self.ledger, "crm", affinity=TaskAffinity(self.ledger, "crm", keeps=True))

    def ownership(self, tenant: str) -> Ownership:
        return ownership_of(self.isolation, Principal(tenant, "ann", "api_key"), "jsonrpc/1.0")

    async def tells(self, tenant: str, task: str, context: str, state: str = "working") -> None:
        ownership = self.ownership(tenant)
        ownership.replica = "a"
        await ownership.observe(Progress(task_id=task, context_id=context, state=state, event="task"))


async def test_a_context_has_begun_for_its_owner_alone() -> None:
    agent = Agent()
    mark = await agent.ownership("acme").load_prefix()
    await agent.tells("acme", "t1", f"{mark}chat")
    await agent.tells("acme", "t2", "c2")
    for context in ("chat", "c2"):
        assert await agent.ownership("acme").owns_context(context)
        assert not await agent.ownership("globex").owns_context(context)
