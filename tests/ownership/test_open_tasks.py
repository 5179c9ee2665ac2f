"""The ledger's record of a task stays true: that it is over, and that a stream of it is still open."""

import json
from functools import partial

import pytest

from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.fault import StateUnavailable
from gateway.a2a.paths import PathCall
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.ownership import Isolation, Ownership, ownership_of
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import SEEN_AGAIN, Observed, RecordedOwners
from tests.ownership.test_task_ownership import MESSAGE, Site, shared

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
        self.store = SqliteStore(None)
        self.ledger = TaskLedger(self.store, wall=lambda: float(self.now))
        self.isolation = Isolation(self.ledger, "crm", shared=False)

    def ownership(self) -> Ownership:
        return ownership_of(self.isolation, Principal("acme", "ann", "api_key"), "jsonrpc/1.0")

    async def polled(self, call: Call, told: Progress) -> None:
        ownership = self.ownership()
        await ownership.authorize(call)
        assert ownership.is_known(told) is (await self.seen() > self.now - SEEN_AGAIN)
        await ownership.observe(told)
        assert ownership.is_known(told)

    async def seen(self) -> int:
        [task] = await self.store.tasks("crm", ("t1",))
        assert task is not None
        return task.seen


async def test_a_task_that_is_polled_is_seen_though_nothing_of_it_is_new() -> None:
    aging, told = Aging(), Progress(task_id="t1", context_id="c1", state="completed", event="task")
    begun = aging.now
    await aging.ownership().observe(told)
    aging.now += SEEN_AGAIN - 1
    await aging.polled(GET, told)
    assert await aging.seen() == begun
    aging.now += 1
    await aging.polled(GET, told)
    assert await aging.seen() == aging.now == begun + SEEN_AGAIN


def send(context: str) -> Call:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [], "contextId": context}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}).encode()
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)


async def test_a_context_keeps_its_mark_when_its_owner_is_alone_at_the_agent() -> None:
    """A tenant is taken out of the file: whoever stays goes on with the conversations that it has named."""
    aging = Aging()
    before = ownership_of(
        Isolation(aging.ledger, "crm", shared=True), Principal("acme", "ann", "api_key"), "jsonrpc/1.0"
    )
    asked = await before.authorize(send("chat-1"))
    assert asked.context_id is not None
    assert asked.context_id.endswith("-chat-1")
    await before.observe(Progress(task_id="t1", context_id=asked.context_id, state="completed", event="task"))
    alone = aging.ownership()
    assert (await alone.authorize(send("chat-1"))).context_id == asked.context_id
    assert alone.prefix.remove(asked.context_id.encode()) == b"chat-1"
    # A task that begins now needs no mark.
    assert (await aging.ownership().authorize(send("chat-2"))).context_id == "chat-2"


async def test_a_context_without_a_mark_stays_without_when_others_come() -> None:
    aging = Aging()
    alone = aging.ownership()
    await alone.authorize(send("chat-1"))
    await alone.observe(Progress(task_id="t1", context_id="chat-1", state="completed", event="task"))
    shared_now = Isolation(aging.ledger, "crm", shared=True)
    ours = ownership_of(shared_now, Principal("acme", "ann", "api_key"), "jsonrpc/1.0")
    assert (await ours.authorize(send("chat-1"))).context_id == "chat-1"
    theirs = ownership_of(shared_now, Principal("globex", "gus", "api_key"), "jsonrpc/1.0")
    assert (await theirs.authorize(send("chat-1"))).context_id != "chat-1"


class Full:
    """A store to which nothing can be added, as on a full disk."""

    def __init__(self, store: SqliteStore) -> None:
        self._record = store.record
        self.full = False
        store.record = self.record  # type: ignore[method-assign]

    async def record(self, scope: str, observed: Observed) -> RecordedOwners:
        if self.full:
            raise StateUnavailable("the disk is full")
        return await self._record(scope, observed)


async def test_no_task_begins_that_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = SqliteStore(None), [100.0]
    disk = Full(store)
    monkeypatch.setattr("gateway.app.TaskLedger", partial(TaskLedger, clock=lambda: now[0]))
    async with shared(store=store) as site:
        task = await site.send("acme")
        disk.full = True
        for _ in range(5):
            answer = await site.call("acme", "SendMessage", {"message": MESSAGE})
            assert answer.json["error"]["code"] == -31503
        # The first of them was how it became known.
        assert len(site.agent.asked) == 2
        now[0] += 1.0
        for _ in range(5):
            assert "error" in (await site.call("acme", "SendMessage", {"message": MESSAGE})).json
        assert len(site.agent.asked) == 3
        # All else goes on.
        assert (await site.call("acme", "GetTask", {"id": task["id"]})).json["result"]["id"] == task["id"]
        disk.full = False
        now[0] += 1.0
        for _ in range(3):
            await site.send("acme")
