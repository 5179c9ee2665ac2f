"""Trees translated by a table."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.dialect import Version, parse_version
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.translation import FORMS
from gateway.a2a.versions import schema as rules
from gateway.a2a.versions import v0_1, v0_3, v0_3_proto, v1_0
from gateway.a2a.versions.schema import called, exact, need, schema
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Memo, Misfit
from tests.table import for_each


def test_two_spellings_of_one_member_agree() -> None:
    known = schema({"theMember": rules.COUNT})
    assert known({"the_member": "1", "theMember": 1}, Memo()) == {"theMember": 1}
    assert known({"the_member": None, "theMember": 1}, Memo()) == {"theMember": 1}
    with pytest.raises(Misfit) as caught:
        known({"the_member": 1, "theMember": 2}, Memo())
    assert caught.value.field == "the_member"


def test_members_swap_their_names_and_a_closed_object_has_no_others() -> None:
    swap = {"id": need(called("taskId", rules.ID)), "configId": called("id", rules.ID)}
    assert exact(swap, closed=True)({"configId": "c", "more": 1, "id": "t"}, Memo()) == {"taskId": "t", "id": "c"}
    assert schema(swap)({"id": "t", "more": 1}, Memo()) == {"taskId": "t", "more": 1}
    with pytest.raises(Misfit, match="id: is required"):
        schema(swap)({"id": ""}, Memo())


# ---- Timestamps ------------------------------------------------------------------------------------------------------

ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@for_each(
    "said",
    [
        "", "now", "2026-02-03", "2026-13-03T04:05:06Z", "2026-02-30T04:05:06Z", "2026-02-03T24:05:06Z",
        "2026-02-03T04:05:06+24:00", "2026-02-03T04:05:06+01:60", "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00", "2026-02-03T04:05:06Z\n", "\uff12026-02-03T04:05:06Z", "2026-02-03T04:05:06.Z",
        "1770091506",
    ],
)  # fmt: skip
def test_a_malformed_timestamp_is_none(said: str) -> None:
    assert rules.to_utc(said) is None


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES))  # noqa: DTZ001 - bounds of what is drawn, which has a zone
def test_the_moment_stays_the_same(moment: datetime) -> None:
    written = rules.to_utc(moment.isoformat())
    assert written is not None
    assert written.endswith("Z")
    assert datetime.fromisoformat(written) == moment.astimezone(UTC)
    assert rules.to_utc(written) == written


@given(st.text())
def test_no_text_does_harm(text: str) -> None:
    rules.to_utc(text)


# ---- The versions: the word for each, and what all forms have in common ----------------------------------------------


def test_every_generation_answers_sends_and_gets() -> None:
    for dialect, form in FORMS.items():
        assert form.version is dialect.version
        assert {Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.GET_TASK} <= form.answers
    assert set(CALLABLE) <= v1_0.FORM.answers
    assert Operation.LIST_TASKS not in v0_3.FORM.answers | v0_3_proto.FORM.answers | v0_1.FORM.answers


def test_a_state_does_not_wait_and_end_at_once() -> None:
    assert not TERMINAL & INTERRUPTED


@given(st.text())
def test_no_text_does_more_than_be_unknown(text: str) -> None:
    assert parse_version(text) in (None, *Version)
