"""What the ledger knows of a task stays true: that it is over, and that somebody still looks at it."""

import pytest

from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.path import PathCall
from gateway.a2a.progress import Progress
from gateway.claims import Claims, Tenure
from gateway.principal import Principal
from gateway.tasks.ledger import Ledger, soon
from gateway.tasks.memory import MemoryStore
from gateway.tasks.store import SEEN_AGAIN
from tests.test_claims import Site, shared

pytestmark = pytest.mark.anyio

WORKING, COMPLETED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"
ONE_OPEN = ", limits: { open_tasks: 1 }"


async def refused(site: Site) -> bool:
    """Whether acme is kept from beginning another task."""
    answer = await site.call("acme", "SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}})
    return "error" in answer.json


async def test_a_task_that_its_agent_has_forgotten_is_open_no_longer() -> None:
    async with shared(limits=ONE_OPEN, state=WORKING) as site:
        task = await site.send("acme")
        assert await refused(site)
        # As after a restart, with the store of the SDK that is in memory.
        site.agent.tasks.clear()
        assert await refused(site)
        answer = await site.call("acme", "GetTask", {"id": task["id"]})
        assert answer.json["error"]["code"] == -32001
        assert not await refused(site)


async def test_nobody_else_can_end_it() -> None:
    async with shared(limits=ONE_OPEN, state=WORKING) as site:
        task = await site.send("acme")
        site.agent.tasks.clear()
        assert (await site.call("globex", "GetTask", {"id": task["id"]})).json["error"]["code"] == -32001
        assert await refused(site)


async def test_a_list_that_shows_it_completed_ends_it() -> None:
    async with shared(limits=ONE_OPEN, state=WORKING) as site:
        task = await site.send("acme")
        site.agent.tasks[task["id"]]["status"] = {"state": COMPLETED}
        assert len((await site.call("globex", "ListTasks", {})).json["result"]["tasks"]) == 0
        assert await refused(site)
        assert len((await site.call("acme", "ListTasks", {})).json["result"]["tasks"]) == 1
        assert not await refused(site)


GET = jsonrpc.read_call(
    jsonrpc.open_envelope(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}'), PathCall(), b"", None
)


class Aging:
    """A ledger whose time passes as it is told."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.store = MemoryStore()
        self.ledger = Ledger(self.store, wall=lambda: float(self.now))
        self.tenure = Tenure(self.ledger, "crm", shared=False)

    def claims(self) -> Claims:
        return self.tenure.of(Principal("acme", "ann", "api_key"), "jsonrpc/1.0")

    async def polled(self, call: Call, told: Progress) -> None:
        claims = self.claims()
        await soon(claims.enter(call))
        assert claims.knows(told) is (self.seen > self.now - SEEN_AGAIN)
        unmet = claims.meet(told)
        assert unmet is None
        assert claims.knows(told)

    @property
    def seen(self) -> int:
        [task] = self.store.tasks("crm", ("t1",))
        assert task is not None
        return task.seen


async def test_a_task_that_is_polled_is_seen_though_nothing_of_it_is_new() -> None:
    aging, told = Aging(), Progress(task_id="t1", context_id="c1", state="completed", event="task")
    begun = aging.now
    aging.claims().meet(told)
    aging.now += SEEN_AGAIN - 1
    await aging.polled(GET, told)
    assert aging.seen == begun
    aging.now += 1
    await aging.polled(GET, told)
    assert aging.seen == aging.now == begun + SEEN_AGAIN
