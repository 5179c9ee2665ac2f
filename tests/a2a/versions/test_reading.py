"""Reads tell what is wrong and where, and cost nothing when nothing is."""

from typing import Any

import pytest

from gateway.a2a.tree import Tree
from gateway.a2a.versions import reading
from gateway.a2a.versions.version import Misfit

GOOD = {"text": "t", "bool": False, "int": 0, "object": {}, "list": [], "texts": ["a", ""]}
KINDS = ("text", "bool", "int", "object", "list", "texts")


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_of_the_right_type_is_returned_as_it_is(kind: str) -> None:
    tree = dict(GOOD)
    assert getattr(reading, f"expect_{kind}")(tree, kind) is GOOD[kind]
    assert tree == GOOD


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_is_missing_is_none(kind: str) -> None:
    assert getattr(reading, f"expect_{kind}")({}, kind) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_is_null_is_none_and_taken_out(kind: str) -> None:
    tree: Tree = {"it": None, "other": None}
    assert getattr(reading, f"expect_{kind}")(tree, "it") is None
    assert tree == {"other": None}


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("text", 1), ("text", []), ("bool", 0), ("bool", "true"), ("int", True), ("int", "1"), ("int", 2**31),
        ("int", -(2**31) - 1), ("object", []), ("object", ""), ("list", {}), ("list", "ab"), ("texts", "ab"),
    ],
)  # fmt: skip
def test_a_member_of_another_type_is_a_misfit_that_names_it(kind: str, wrong: Any) -> None:
    with pytest.raises(Misfit, match=r"^it: must be") as caught:
        getattr(reading, f"expect_{kind}")({"it": wrong}, "it")
    assert caught.value.field == "it"


def test_a_list_of_strings_says_which_is_none() -> None:
    with pytest.raises(Misfit, match=r"it\[1\]: must be a string"):
        reading.expect_texts({"it": ["a", None]}, "it")


@pytest.mark.parametrize("kind", ["text", "object", "list"])
def test_a_member_that_must_be_there_is_returned_or_missed(kind: str) -> None:
    require = getattr(reading, f"require_{kind}")
    assert require(dict(GOOD), kind) is GOOD[kind]
    for missing in ({}, {kind: None}):
        with pytest.raises(Misfit, match=f"{kind}: is required"):
            require(missing, kind)
    with pytest.raises(Misfit, match=f"{kind}: must be a"):
        require({kind: 5}, kind)


def test_a_table_reads_all_members_at_once_and_takes_out_nulls() -> None:
    tree: Tree = {"a": "x", "b": None, "c": {}, "d": None, "unknown": None}
    reading.check(tree, {"a": str, "b": bool, "c": dict, "d": list, "e": str})
    assert tree == {"a": "x", "c": {}, "unknown": None}


@pytest.mark.parametrize(("wanted", "wrong"), [(str, 1), (bool, 1), (dict, []), (list, {})])
def test_a_table_refuses_other_types(wanted: type, wrong: Any) -> None:
    with pytest.raises(Misfit, match="it: must be"):
        reading.check({"it": wrong}, {"it": wanted})


def test_two_spellings_of_a_name_must_say_the_same() -> None:
    tree: Tree = {"taskId": "t", "task_id": "t", "message_id": "m", "context_id": None}
    reading.read(tree, {"taskId": str})
    assert tree == {"taskId": "t", "messageId": "m", "contextId": None}
    tree = {"taskId": None, "task_id": "t"}
    reading.read(tree, {"taskId": str})
    assert tree == {"taskId": "t"}
    with pytest.raises(Misfit, match="taskId: is there as task_id too"):
        reading.read({"taskId": "t", "task_id": "other"}, {})


def test_an_id_that_must_be_there_is_not_empty() -> None:
    assert reading.require_id({"id": "t"}, "id") == "t"
    with pytest.raises(Misfit, match="id: must not be empty"):
        reading.require_id({"id": ""}, "id")
    with pytest.raises(Misfit, match="id: is required"):
        reading.require_id({}, "id")


def test_a_walk_puts_what_it_makes_in_the_place_of_what_it_read() -> None:
    tree: Tree = {"one": {"n": 1}, "many": [{"n": 2}, {"n": 3}], "none": None}
    assert reading.inside(tree, "one", lambda found: {"seen": found["n"]}) == {"seen": 1}
    assert reading.each(tree, "many", lambda found: {"seen": found["n"]}) == [{"seen": 2}, {"seen": 3}]
    assert reading.inside(tree, "none", dict) is None
    assert reading.each(tree, "nowhere", dict) is None
    assert tree == {"one": {"seen": 1}, "many": [{"seen": 2}, {"seen": 3}]}


def test_the_way_to_what_is_wrong_is_told_from_the_top() -> None:
    def part(found: Tree) -> Tree:
        reading.require_text(found, "kind")
        return found

    def message(found: Tree) -> Tree:
        reading.each(found, "parts", part)
        return found

    with pytest.raises(Misfit) as caught:
        reading.inside({"message": {"parts": [{"kind": "text"}, {}]}}, "message", message)
    assert (caught.value.field, caught.value.words) == ("message.parts[1].kind", "is required")
    with pytest.raises(Misfit) as caught:
        reading.every([{"parts": ["no object"]}], "", message)
    assert caught.value.field == "[0].parts[0]"


def test_what_is_wrong_with_the_whole_is_called_by_the_way_to_it() -> None:
    assert reading.beneath("a[0]", Misfit("", "must be")).field == "a[0]"
    assert reading.beneath("a", Misfit("[1].b", "must be")).field == "a[1].b"
    assert reading.beneath("a", Misfit("b", "must be")).field == "a.b"
