import pytest

from gateway.a2a.fault import NotAdmitted
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.ledger import Ledger
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import LONGEST_ID, Owner, Sighting
from gateway.tenure import Tenure, kept

pytestmark = pytest.mark.anyio


def test_who_calls_again_is_the_same_caller() -> None:
    tenure = Tenure(Ledger(SqliteStore(None)), "crm", by_principal=True)
    ann = Principal("acme", "ann", "api_key")
    assert tenure.caller(ann) is tenure.caller(Principal("acme", "ann", "api_key"))
    assert tenure.caller(ann).owner != tenure.caller(Principal("acme", "bob", "api_key")).owner
    assert tenure.caller(ann).owner != tenure.caller(Principal("globex", "ann", "api_key")).owner


async def test_a_caller_gets_its_mark_once_the_store_has_told_the_secret() -> None:
    ledger = Ledger(SqliteStore(None))
    tenure = Tenure(ledger, "crm")
    ann = Principal("acme", "ann", "api_key")
    assert tenure.caller(ann).mark.text == ""
    await ledger.open()
    assert tenure.caller(ann).mark.text.startswith("gw-")


def test_a_token_without_a_subject_is_nobody_where_callers_are_told_apart() -> None:
    nameless = Principal("acme", "", "jwt")
    with pytest.raises(NotAdmitted):
        Tenure(Ledger(SqliteStore(None)), "crm", by_principal=True).caller(nameless)
    assert Tenure(Ledger(SqliteStore(None)), "crm").caller(nameless).owner.tenant == "acme"


def test_a_context_too_long_for_the_ledger_stands_there_as_what_it_hashes_to() -> None:
    short, long = "c" * LONGEST_ID, "c" * (LONGEST_ID + 1)
    assert kept(short) == short
    assert len(kept(long)) <= LONGEST_ID
    assert kept(long) != kept(long + "c")


async def test_a_context_with_the_owners_mark_is_the_owners_whoever_was_met_with_it() -> None:
    ledger = Ledger(SqliteStore(None))
    ann, eve = Owner("acme", "ann"), Owner("globex", "eve")
    tenure = Tenure(ledger, "crm")
    mark = ledger.mark(await ledger.seal(), "crm", ann, by_principal=False)
    for context, mine in ((f"{mark}chat", True), ("chat", False)):
        await ledger.store.meet("crm", Sighting(eve, context=context))
        assert await tenure.notified(ann, Progress(task_id="t", context_id=context, event="task")) is mine
