import pytest

from gateway.tasks.homes import Homes
from gateway.tasks.ledger import Ledger
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner, Sighting

pytestmark = pytest.mark.anyio


async def met(homes: Homes, task: str, context: str, replica: str) -> None:
    await homes.met("acme", task, context, replica)


async def of(homes: Homes, *tasks: str, context: str | None = None, mark: str = "") -> tuple[str, bool]:
    return await homes.of(tasks, context, mark)


@pytest.mark.parametrize("keeps", [True, False])
async def test_the_first_to_name_something_has_it_for_ever(keeps: bool) -> None:  # noqa: FBT001 - a parameter
    homes = Homes(Ledger(SqliteStore(None)), "echo", keeps=keeps)
    await met(homes, "t", "c", "a")
    await met(homes, "t", "c", "b")
    assert await of(homes, "t") == ("a", True)
    assert await of(homes, context="c") == ("a", False)
    assert await of(homes, "other", context="c") == ("a", False)
    assert (await of(homes, "other", context="other"))[0] == ""


async def test_another_process_finds_both_in_the_store() -> None:
    ledger = Ledger(SqliteStore(None))
    await met(Homes(ledger, "echo", keeps=True), "t", "c", "a")
    # The line writes tasks down itself (`claims`).
    await ledger.store.meet("echo", Sighting(Owner("acme"), task="t", replica="a"))
    other = Homes(ledger, "echo", keeps=True)
    assert await of(other, "t") == ("a", True)
    assert await of(other, context="c") == ("a", False)
    assert (await of(Homes(ledger, "crm", keeps=True), context="c"))[0] == ""


async def test_a_task_that_a_notification_named_first_is_where_its_context_began() -> None:
    ledger = Ledger(SqliteStore(None))
    await ledger.store.meet("echo", Sighting(Owner("acme"), task="t", context="c"))
    await met(Homes(ledger, "echo", keeps=True), "t", "c", "a")
    await ledger.store.meet("echo", Sighting(Owner("acme"), task="t", context="c", replica="a"))
    assert await of(Homes(ledger, "echo", keeps=True), "t") == ("a", True)


async def test_a_clients_own_word_has_a_mark_before_it() -> None:
    homes = Homes(Ledger(SqliteStore(None)), "echo", keeps=True)
    await met(homes, "", "gw-acme-chat", "a")
    assert await of(homes, context="chat", mark="gw-acme-") == ("a", False)
    assert (await of(homes, context="chat", mark="gw-globex-"))[0] == ""


async def test_what_was_met_first_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tasks.homes._MOST", 10)
    homes = Homes(Ledger(SqliteStore(None)), "echo", keeps=False)
    for number in range(15):
        await met(homes, f"t{number}", "", "a")
    assert (await of(homes, "t0"))[0] == ""
    assert (await of(homes, "t14"))[0] == "a"
