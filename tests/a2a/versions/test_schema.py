"""Trees translated by a table."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.versions import schema as rules
from gateway.a2a.versions.schema import Field, among, called, each, exact, named, need, schema, unless_empty, within
from gateway.a2a.versions.version import Memo, Misfit
from tests.table import for_each

COLOUR = named("must be a colour", {"RED": "RED", "rot": "RED", "NONE": None}, ("NONE", "RED"))
INNER = schema({"deepText": rules.TEXT})


def made(field: Field, value: object) -> Any:
    """What becomes of one member."""
    return schema({"theMember": field})({"theMember": value}, Memo()).get("theMember")


@for_each(
    ("field", "value", "stands"),
    [
        (rules.TEXT, "", ""),
        (rules.ID, "", None),
        (rules.ID, "i", "i"),
        (rules.BOOL, False, False),
        (rules.COUNT, 0, 0),
        (rules.COUNT, "-2147483648", -(2**31)),
        (rules.COUNT, Decimal("7.0"), 7),
        (unless_empty(among(range(1, 9), "small")), 0, None),
        (unless_empty(among(range(1, 9), "small")), 8, 8),
        (COLOUR, "RED", "RED"),
        (COLOUR, 1, "RED"),
        (COLOUR, "rot", "RED"),
        (COLOUR, "NONE", None),
        (COLOUR, 0, None),
        (rules.BYTES, "AP8=", "AP8="),
        (rules.BYTES, "AP8", "AP8="),
        (rules.BYTES, "_-8", "/+8="),
        (rules.BYTES, "", ""),
        (rules.MOMENT, "2026-02-03T04:05:06+01:00", "2026-02-03T03:05:06Z"),
        (rules.TEXTS, ["a", ""], ["a", ""]),
        (rules.OBJECT, {"any_name": None}, {"any_name": None}),
        (rules.ANY, [None], [None]),
        (within(INNER), {"deep_text": "x"}, {"deepText": "x"}),
        (each(INNER), [{"deep_text": "x"}, {}], [{"deepText": "x"}, {}]),
    ],
)
def test_a_value_is_brought_to_its_one_spelling(field: Field, value: object, stands: object) -> None:
    found = made(field, value)
    assert found == stands
    assert type(found) is type(stands)


@for_each(
    ("field", "value", "way"),
    [
        (rules.TEXT, 1, "theMember"),
        (rules.BOOL, "true", "theMember"),
        (rules.BOOL, 1, "theMember"),
        (rules.COUNT, True, "theMember"),
        (rules.COUNT, 2**31, "theMember"),
        (rules.COUNT, "x", "theMember"),
        (rules.COUNT, "1" * 5000, "theMember"),
        (rules.COUNT, Decimal("1.5"), "theMember"),
        (rules.COUNT, Decimal("1E+999999"), "theMember"),
        (COLOUR, "green", "theMember"),
        (COLOUR, 2, "theMember"),
        (COLOUR, -1, "theMember"),
        (COLOUR, True, "theMember"),
        (rules.BYTES, "A", "theMember"),
        (rules.MOMENT, "now", "theMember"),
        (rules.MOMENT, 7, "theMember"),
        (rules.TEXTS, ["a", 1], "theMember[1]"),
        (rules.TEXTS, "a", "theMember"),
        (rules.OBJECT, [], "theMember"),
        (within(INNER), {"deep_text": 1}, "theMember.deep_text"),
        (within(INNER), [], "theMember"),
        (each(INNER), [{}, {"deepText": 1}], "theMember[1].deepText"),
        (each(INNER), [None], "theMember[0]"),
        (each(INNER), {}, "theMember"),
    ],
)
def test_what_a_member_cannot_hold_is_told_by_the_way_to_it(field: Field, value: object, way: str) -> None:
    with pytest.raises(Misfit) as caught:
        made(field, value)
    assert caught.value.field == way
    assert caught.value.words


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
def test_what_names_no_moment_is_none(said: str) -> None:
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
