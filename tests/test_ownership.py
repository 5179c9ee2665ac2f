import pytest

from gateway.a2a.mention import Mentions
from gateway.a2a.progress import Progress
from gateway.claims import Claims, claims_of
from gateway.ownership import count, has_begun, home_of, is_others, own
from gateway.principal import Principal
from gateway.tasks.homes import Homes
from gateway.tasks.ledger import Ledger
from gateway.tasks.sqlite import SqliteStore
from gateway.tenure import Tenure

pytestmark = pytest.mark.anyio


class Agent:
    """One that acme and globex share."""

    def __init__(self) -> None:
        self.ledger = Ledger(SqliteStore(None))
        self.tenure = Tenure(self.ledger, "crm", homes=Homes(self.ledger, "crm", keeps=True))

    def claims(self, tenant: str) -> Claims:
        return claims_of(self.tenure, Principal(tenant, "ann", "api_key"), "jsonrpc/1.0")

    async def tells(self, tenant: str, task: str, context: str, state: str = "working") -> None:
        claims = self.claims(tenant)
        claims.replica = "a"
        await claims.meet(Progress(task_id=task, context_id=context, state=state, event="task"))


async def test_of_a_list_those_are_the_callers_that_are_in_a_context_of_its_own() -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    await agent.tells("acme", "t2", "c2")
    await agent.tells("globex", "t3", "c3")
    claims = agent.claims("acme")
    assert await own(claims, [("t1", "c1", "working"), ("t3", "c3", "working"), ("t4", "", "")]) == [
        True, False, False,
    ]  # fmt: skip
    assert not claims.foreign
    assert await own(claims, [("t1", "c2", "working"), ("t2", "c3", "working")]) == [True, False]
    assert claims.foreign


async def test_what_is_over_in_a_list_is_open_no_more() -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    assert await agent.ledger.store.open_tasks("acme") == 1
    await own(agent.claims("globex"), [("t1", "c1", "completed")])
    assert await agent.ledger.store.open_tasks("acme") == 1
    await own(agent.claims("acme"), [("t1", "c1", "completed")])
    assert await agent.ledger.store.open_tasks("acme") == 0
    assert await count(agent.claims("acme")) == 1


@pytest.mark.parametrize(
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
    claims = agent.claims("globex")
    assert await is_others(claims, told) is claims.foreign is others
    (met,) = await agent.ledger.store.tasks("crm", ("t9",))
    assert met is None


async def test_a_context_has_begun_for_its_owner_alone() -> None:
    agent = Agent()
    mark = await agent.claims("acme").marked()
    await agent.tells("acme", "t1", f"{mark}chat")
    await agent.tells("acme", "t2", "c2")
    for context in ("chat", "c2"):
        assert await has_begun(agent.claims("acme"), context)
        assert not await has_begun(agent.claims("globex"), context)


async def test_a_call_is_best_asked_where_what_it_refers_to_is_and_need_not_be() -> None:
    agent = Agent()
    await agent.tells("acme", "t1", "c1")
    claims = agent.claims("acme")
    assert await home_of(claims, Mentions(tasks=("t1",))) == ("a", True)
    assert await home_of(claims, Mentions(tasks=("t1",), references=("t1",))) == ("a", False)
    assert await home_of(claims, Mentions()) == ("", False)
