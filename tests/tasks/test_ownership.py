import pytest

from gateway.a2a.call import ReferencedIds
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.affinity import TaskAffinity
from gateway.tasks.ledger import Ledger
from gateway.tasks.ownership import Isolation, Ownership, ownership_of
from gateway.tasks.sqlite import SqliteStore
from tests.table import for_each

pytestmark = pytest.mark.anyio


class Agent:
    """One that acme and globex share."""

    def __init__(self) -> None:
        self.ledger = Ledger(SqliteStore(None))
        self.isolation = Isolation(self.ledger, "crm", affinity=TaskAffinity(self.ledger, "crm", keeps=True))

    def ownership(self, tenant: str) -> Ownership:
        return ownership_of(self.isolation, Principal(tenant, "ann", "api_key"), "jsonrpc/1.0")

    async def tells(self, tenant: str, task: str, context: str, state: str = "working") -> None:
        ownership = self.ownership(tenant)
        ownership.replica = "a"
        await ownership.observe(Progress(task_id=task, context_id=context, state=state, event="task"))


async def test_of_a_list_those_are_the_callers_that_are_in_a_context_of_its_own() -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    await agent.tells("acme", "t2", "c2")
    await agent.tells("globex", "t3", "c3")
    ownership = agent.ownership("acme")
    assert await ownership.check_list([("t1", "c1", "working"), ("t3", "c3", "working"), ("t4", "", "")]) == [
        True, False, False,
    ]  # fmt: skip
    assert not ownership.is_foreign
    assert await ownership.check_list([("t1", "c2", "working"), ("t2", "c3", "working")]) == [True, False]
    assert ownership.is_foreign


async def test_what_is_over_in_a_list_is_open_no_more() -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    assert await agent.ledger.store.open_tasks("acme") == 1
    await agent.ownership("globex").check_list([("t1", "c1", "completed")])
    assert await agent.ledger.store.open_tasks("acme") == 1
    await agent.ownership("acme").check_list([("t1", "c1", "completed")])
    assert await agent.ledger.store.open_tasks("acme") == 0
    assert await agent.ownership("acme").count() == 1


@for_each(
    ("told", "others"),
    [
        (Progress(task_id="t1"), True),
        (Progress(context_id="c1"), True),
        (Progress(task_id="t2", context_id="c2"), False),
        (Progress(task_id="t9", context_id="c9"), False),
        (Progress(event="other", legible=False), True),
        (Progress(event="error", legible=False), False),
    ],
)
async def test_an_error_may_tell_of_what_nobody_has_met(told: Progress, *, others: bool) -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    await agent.tells("globex", "t2", "c2")
    ownership = agent.ownership("globex")
    assert await ownership.is_foreign_error(told) is ownership.is_foreign is others
    (met,) = await agent.ledger.store.tasks("crm", ("t9",))
    assert met is None


async def test_a_context_has_begun_for_its_owner_alone() -> None:
    agent = Agent()
    mark = await agent.ownership("acme").load_prefix()
    await agent.tells("acme", "t1", f"{mark}chat")
    await agent.tells("acme", "t2", "c2")
    for context in ("chat", "c2"):
        assert await agent.ownership("acme").owns_context(context)
        assert not await agent.ownership("globex").owns_context(context)


async def test_a_call_is_best_asked_where_what_it_refers_to_is_and_need_not_be() -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    ownership = agent.ownership("acme")
    assert await ownership.replica_of(ReferencedIds(tasks=("t1",))) == ("a", True)
    assert await ownership.replica_of(ReferencedIds(tasks=("t1",), references=("t1",))) == ("a", False)
    assert await ownership.replica_of(ReferencedIds()) == ("", False)
