"""Trees brought to one spelling by a table."""

from decimal import Decimal
from typing import Any

import pytest

from gateway.a2a.json import Tree
from gateway.a2a.versions import shape as shapes
from gateway.a2a.versions.shape import Field, among, choose, each, named, or_unset, read, required, shape, within
from gateway.a2a.versions.version import Memo, Misfit

COLOUR = named(("NONE", "RED"), "must be a colour", {"rot": "RED", "NONE": None})
INNER = shape({"deepText": shapes.TEXT})


def made(field: Field, value: object) -> Any:
    """What becomes of one member."""
    return read({"theMember": value}, shape({"theMember": field}), Memo()).get("theMember")


@pytest.mark.parametrize(
    ("field", "value", "stands"),
    [
        (shapes.TEXT, "", ""),
        (shapes.ID, "", None),
        (shapes.ID, "i", "i"),
        (shapes.BOOL, False, False),
        (shapes.COUNT, 0, 0),
        (shapes.COUNT, "-2147483648", -(2**31)),
        (shapes.COUNT, Decimal("7.0"), 7),
        (or_unset(among(range(1, 9), "small")), 0, None),
        (or_unset(among(range(1, 9), "small")), 8, 8),
        (COLOUR, "RED", "RED"),
        (COLOUR, 1, "RED"),
        (COLOUR, "rot", "RED"),
        (COLOUR, "NONE", None),
        (COLOUR, 0, None),
        (shapes.BYTES, "AP8=", "AP8="),
        (shapes.BYTES, "AP8", "AP8="),
        (shapes.BYTES, "_-8", "/+8="),
        (shapes.BYTES, "", ""),
        (shapes.MOMENT, "2026-02-03T04:05:06+01:00", "2026-02-03T03:05:06Z"),
        (shapes.TEXTS, ["a", ""], ["a", ""]),
        (shapes.OBJECT, {"any_name": None}, {"any_name": None}),
        (shapes.ANY, [None], [None]),
        (within(INNER), {"deep_text": "x"}, {"deepText": "x"}),
        (each(INNER), [{"deep_text": "x"}, {}], [{"deepText": "x"}, {}]),
    ],
)
def test_a_value_is_brought_to_its_one_spelling(field: Field, value: object, stands: object) -> None:
    found = made(field, value)
    assert found == stands
    assert type(found) is type(stands)


@pytest.mark.parametrize(
    ("field", "value", "way"),
    [
        (shapes.TEXT, 1, "theMember"),
        (shapes.BOOL, "true", "theMember"),
        (shapes.BOOL, 1, "theMember"),
        (shapes.COUNT, True, "theMember"),
        (shapes.COUNT, 2**31, "theMember"),
        (shapes.COUNT, "x", "theMember"),
        (shapes.COUNT, "1" * 5000, "theMember"),
        (shapes.COUNT, Decimal("1.5"), "theMember"),
        (shapes.COUNT, Decimal("1E+999999"), "theMember"),
        (COLOUR, "green", "theMember"),
        (COLOUR, 2, "theMember"),
        (COLOUR, -1, "theMember"),
        (COLOUR, True, "theMember"),
        (shapes.BYTES, "A", "theMember"),
        (shapes.MOMENT, "now", "theMember"),
        (shapes.MOMENT, 7, "theMember"),
        (shapes.TEXTS, ["a", 1], "theMember[1]"),
        (shapes.TEXTS, "a", "theMember"),
        (shapes.OBJECT, [], "theMember"),
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


@pytest.mark.parametrize("field", [shapes.TEXT, shapes.BOOL, shapes.COUNT, COLOUR, shapes.OBJECT, each(INNER)])
def test_a_null_is_absent(field: Field) -> None:
    assert read({"a": None}, shape({"a": field}), Memo()) == {}


def test_a_null_stays_where_anything_may_stand() -> None:
    assert read({"a": None}, shape({"a": shapes.ANY}), Memo()) == {"a": None}


def test_a_member_may_have_its_name_in_either_spelling_or_an_alias() -> None:
    known = shape({"theMember": shapes.TEXT}, oldName="theMember")
    for name in ("theMember", "the_member", "oldName", "old_name"):
        assert read({name: "x"}, known, Memo()) == {"theMember": "x"}


def test_two_spellings_of_one_member_agree() -> None:
    known = shape({"theMember": shapes.COUNT})
    assert read({"the_member": "1", "theMember": 1}, known, Memo()) == {"theMember": 1}
    assert read({"the_member": None, "theMember": 1}, known, Memo()) == {"theMember": 1}
    with pytest.raises(Misfit) as caught:
        read({"the_member": 1, "theMember": 2}, known, Memo())
    assert caught.value.field == "the_member"


def test_members_that_nobody_knows_stay() -> None:
    tree: Tree = {"foo_bar": None, "a": "x", "Foo": [1]}
    assert read(tree, shape({"a": shapes.TEXT}), Memo()) is tree
    assert tree == {"foo_bar": None, "a": "x", "Foo": [1]}


@pytest.mark.parametrize("tree", [{}, {"b": 1}, {"a": ""}, {"a": []}, {"a": None}])
def test_what_is_required_is_there_and_not_empty(tree: Tree) -> None:
    with pytest.raises(Misfit) as caught:
        required("a")(tree, Memo())
    assert (caught.value.field, caught.value.words) == ("a", "is required")


@pytest.mark.parametrize("tree", [{}, {"c": 1}, {"a": 1, "b": 1}])
def test_one_is_chosen(tree: Tree) -> None:
    choose({"a": None, "c": 1}, "a", "b")
    with pytest.raises(Misfit, match="exactly one of a and b"):
        choose(tree, "a", "b")
