import pytest

from gateway.tasks.affinity import TaskAffinity
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Observed, Owner
from tests.table import for_each

pytestmark = pytest.mark.anyio


async def met(affinity: TaskAffinity, task: str, context: str, replica: str) -> None:
    await affinity.record("acme", task, context, replica)


async def of(affinity: TaskAffinity, *tasks: str, context: str | None = None, mark: str = "") -> tuple[str, bool]:
    return await affinity.replica_of(tasks, context, mark)


@for_each("keeps", [True, False])
async def test_the_first_to_name_something_has_it_for_ever(keeps: bool) -> None:  # noqa: FBT001 - a parameter
    affinity = TaskAffinity(TaskLedger(SqliteStore(None)), "echo", keeps=keeps)
    await met(affinity, "t", "c", "a")
    await met(affinity, "t", "c", "b")
    assert await of(affinity, "t") == ("a", True)
    assert await of(affinity, context="c") == ("a", False)
    assert await of(affinity, "other", context="c") == ("a", False)
    assert (await of(affinity, "other", context="other"))[0] == ""


async def test_another_process_finds_both_in_the_store() -> None:
    ledger = TaskLedger(SqliteStore(None))
    await met(TaskAffinity(ledger, "echo", keeps=True), "t", "c", "a")
    # The line writes tasks down itself (`claims`).
    await ledger.store.record("echo", Observed(Owner("acme"), task="t", replica="a"))
    other = TaskAffinity(ledger, "echo", keeps=True)
    assert await of(other, "t") == ("a", True)
    assert await of(other, context="c") == ("a", False)
    assert (await of(TaskAffinity(ledger, "crm", keeps=True), context="c"))[0] == ""


async def test_a_clients_own_word_has_a_mark_before_it() -> None:
    affinity = TaskAffinity(TaskLedger(SqliteStore(None)), "echo", keeps=True)
    await met(affinity, "", "gw-acme-chat", "a")
    assert await of(affinity, context="chat", mark="gw-acme-") == ("a", False)
    assert (await of(affinity, context="chat", mark="gw-globex-"))[0] == ""


async def test_the_oldest_entries_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tasks.affinity.MOST", 10)
    affinity = TaskAffinity(TaskLedger(SqliteStore(None)), "echo", keeps=False)
    for number in range(15):
        await met(affinity, f"t{number}", "", "a")
    assert (await of(affinity, "t0"))[0] == ""
    assert (await of(affinity, "t14"))[0] == "a"
