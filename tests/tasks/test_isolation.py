import pytest

from gateway.a2a.progress import Progress
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.ownership import Isolation, context_key
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import LONGEST_ID, Observed, Owner

pytestmark = pytest.mark.anyio


def test_a_context_too_long_for_the_ledger_is_stored_as_its_hash() -> None:
    short, long = "c" * LONGEST_ID, "c" * (LONGEST_ID + 1)
    assert context_key(short) == short
    assert len(context_key(long)) <= LONGEST_ID
    assert context_key(long) != context_key(long + "c")


async def test_a_context_with_an_owners_prefix_belongs_to_that_owner() -> None:
    ledger = TaskLedger(SqliteStore(None))
    ann, eve = Owner("acme", "ann"), Owner("globex", "eve")
    isolation = Isolation(ledger, "crm")
    mark = ledger.prefix(await ledger.cipher(), "crm", ann, by_principal=False)
    for context, mine in ((f"{mark}chat", True), ("chat", False)):
        await ledger.store.record("crm", Observed(eve, context=context))
        assert (
            await isolation.observe_notification(ann, Progress(task_id="t", context_id=context, event="task")) is mine
        )
