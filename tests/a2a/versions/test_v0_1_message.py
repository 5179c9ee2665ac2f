"""Messages and parts of 0.1: every vector both ways, what is kept in metadata, and what nobody may send."""

from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.a2a.json import Tree
from gateway.a2a.versions.v0_1_message import (
    lift_heard_message,
    lift_heard_part,
    lift_sent_message,
    lift_sent_part,
    lower_message,
    lower_part,
    require_id,
)
from gateway.a2a.versions.version import Misfit
from tests.doubles.ancient import insist

CASES = msgspec.json.Decoder(float_hook=Decimal).decode(
    (Path(__file__).parents[2] / "vectors" / "parts.json").read_bytes()
)["cases"]
NAMES = [case["case"] for case in CASES]


def case(name: str) -> tuple[Tree, Tree]:
    """A part in the hub and in 0.1."""
    found = deepcopy(CASES[NAMES.index(name)])
    return found["v1.0"], found["v0.1"]


def hear(**more: Any) -> Tree:
    return lift_heard_message({"role": "agent", "parts": [{"type": "text", "text": "hi"}], **more}, "t", "c")


# ---- Parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_the_vectors_is_lowered(name: str) -> None:
    hub, old = case(name)
    lowered = lower_part(hub)
    insist("Part", lowered)
    if "lost" in name:
        # More is kept than the vector says.
        assert lowered.pop("metadata") == {"media_type_compat": "text/markdown"}
    assert lowered == old


@pytest.mark.parametrize("name", [name for name in NAMES if "lost" not in name])
def test_a_part_of_the_vectors_is_lifted(name: str) -> None:
    hub, old = case(name)
    assert lift_sent_part(old) == hub


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_the_vectors_survives_0_1(name: str) -> None:
    hub, _ = case(name)
    assert lift_heard_part(lower_part(deepcopy(hub))) == hub


@pytest.mark.parametrize("lift", [lift_sent_part, lift_heard_part])
def test_a_part_may_say_its_type_as_kind(lift: Any) -> None:
    assert lift({"kind": "text", "text": "hi"}) == {"text": "hi"}
    assert lift({"type": "text", "kind": "data", "text": "hi"}) == {"text": "hi"}
    assert lift({"type": None, "kind": "data", "data": {}}) == {"data": {}}


def test_an_agents_part_may_leave_its_type_out_and_a_clients_may_not() -> None:
    assert lift_heard_part({"text": "hi", "metadata": None}) == {"text": "hi"}
    assert lift_heard_part({"file": {"uri": "u", "bytes": None}}) == {"url": "u"}
    assert lift_heard_part({"data": {"a": 1}}) == {"data": {"a": 1}}
    parts: list[Tree] = [{"text": "hi"}, {"file": {"uri": "u"}}, {"data": {}}]
    for part in parts:
        with pytest.raises(Misfit) as caught:
            lift_sent_part(part)
        assert caught.value.field == "type"


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({}, "type"),
        ({"type": "image", "image": "x"}, "type"),
        ({"type": 1, "text": "x"}, "type"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": 1}, "text"),
        ({"type": "text", "text": "x", "metadata": "x"}, "metadata"),
        ({"type": "file"}, "file"),
        ({"type": "file", "file": {}}, "file"),
        ({"type": "file", "file": {"bytes": "AA==", "uri": "u"}}, "file"),
        ({"type": "file", "file": {"bytes": 1}}, "file.bytes"),
        ({"type": "file", "file": {"uri": "u", "mimeType": 1}}, "file.mimeType"),
        ({"type": "file", "file": {"uri": "u"}, "metadata": 1}, "metadata"),
        ({"type": "data"}, "data"),
        ({"type": "data", "data": [1]}, "data"),
        ({"type": "data", "data": {}, "metadata": 1}, "metadata"),
    ],
)
def test_a_part_of_a_wrong_shape_is_told_by_its_place(part: Tree, field: str) -> None:
    for lift in (lift_sent_part, lift_heard_part):
        with pytest.raises(Misfit) as caught:
            lift(deepcopy(part))
        assert caught.value.field == field


def test_a_part_never_becomes_two_things() -> None:
    everything = {"text": "x", "raw": "AA==", "url": "u", "data": {"a": 1}, "file": {"uri": "v"}, "mediaType": 1}
    assert lift_sent_part({**everything, "type": "text"}) == {"text": "x"}
    assert lift_sent_part({**everything, "type": "file"}) == {"url": "v"}
    assert lift_sent_part({**everything, "type": "data"}) == {"data": {"a": 1}}
    for hub in ({"text": "x"}, {"raw": "AA=="}, {"url": "u"}, {"data": 1}):
        insist("Part", lower_part({**hub, "kind": "text", "file": {"uri": "v"}, "type": "x"}))


def test_members_that_nobody_knows_stay() -> None:
    assert lift_sent_part({"type": "text", "text": "hi", "more": 1}) == {"text": "hi", "more": 1}
    assert lower_part({"text": "hi", "more": 1}) == {"type": "text", "text": "hi", "more": 1}


def test_empty_content_of_a_file_gives_way_to_what_is_there() -> None:
    assert lift_sent_part({"type": "file", "file": {"bytes": "", "uri": "u", "name": ""}}) == {"url": "u"}
    assert lift_sent_part({"type": "file", "file": {"bytes": "AA==", "uri": ""}}) == {"raw": "AA=="}
    assert lift_sent_part({"type": "file", "file": {"bytes": ""}}) == {"raw": ""}
    assert lift_sent_part({"type": "file", "file": {"uri": ""}}) == {"url": ""}


def test_a_part_without_content_is_an_empty_text() -> None:
    assert lower_part({"metadata": {"a": 1}}) == {"type": "text", "text": "", "metadata": {"a": 1}}


def test_what_a_data_part_says_of_itself_is_read_only_if_it_fits() -> None:
    for data, mark in (({"value": 1, "b": 2}, True), ({"other": 1}, True), ({"value": 1}, "true")):
        part = {"type": "data", "data": data, "metadata": {"data_part_compat": mark}}
        assert lift_sent_part(deepcopy(part)) == {"data": data, "metadata": {"data_part_compat": mark}}


# ---- Messages ------------------------------------------------------------------------------------------------------


def test_what_0_1_has_no_word_for_comes_back_from_metadata() -> None:
    hub = {
        "messageId": "m", "taskId": "t", "contextId": "c", "role": "ROLE_USER", "parts": [{"text": "hi"}],
        "extensions": ["https://e"], "referenceTaskIds": ["t-0"], "metadata": {"a": 1},
    }  # fmt: skip
    lowered = lower_message(deepcopy(hub), "user", names=True)
    insist("Message", lowered)
    assert lowered["metadata"] == {
        "a": 1, "message_id_compat": "m", "extensions_compat": ["https://e"], "reference_task_ids_compat": ["t-0"],
    }  # fmt: skip
    assert lift_heard_message(lowered, "t", "c") == hub


def test_clients_are_not_told_ids_of_messages() -> None:
    hub = {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "kind": "message", "content": []}
    assert lower_message(hub, "agent") == {"role": "agent", "parts": []}


def test_what_has_been_kept_and_no_longer_fits_is_left_in_metadata() -> None:
    metadata = {"message_id_compat": 1, "extensions_compat": [1], "reference_task_ids_compat": "t"}
    heard = hear(metadata=metadata)
    assert heard["metadata"] == {"extensions_compat": [1], "reference_task_ids_compat": "t"}
    assert len(heard["messageId"]) == 32
    assert "extensions" not in heard


def test_a_message_has_the_same_id_wherever_an_agent_says_it() -> None:
    again = lift_heard_message({"parts": [{"kind": "text", "text": "hi"}], "role": "agent"}, "t", "other")
    assert hear()["messageId"] == again["messageId"]
    assert hear()["messageId"] != hear(role="user")["messageId"]
    assert (
        hear()["messageId"] != lift_heard_message({"role": "agent", "parts": [{"text": "hi"}]}, "u", "c")["messageId"]
    )
    assert hear(messageId="own")["messageId"] == "own"


def test_ids_of_task_and_context_are_those_of_the_task() -> None:
    heard = hear(taskId="x", contextId=1, task_id="y", metadata={"taskId": "z"})
    assert (heard["taskId"], heard["contextId"]) == ("t", "c")
    assert "task_id" not in heard


def test_a_clients_own_id_of_a_message_is_kept() -> None:
    message: Tree = {"role": "user", "parts": []}
    assert lift_sent_message({**message, "messageId": "own"})["messageId"] == "own"
    assert "messageId" not in lift_sent_message({**message, "messageId": 1})


@pytest.mark.parametrize("role", ["ROLE_UNSPECIFIED", "", None])
def test_a_role_that_is_none_is_the_speakers(role: str | None) -> None:
    assert lower_message({"role": role, "parts": []}, "user")["role"] == "user"
    assert lower_message({"role": role}, "agent") == {"role": "agent", "parts": []}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"parts": []}, "role"),
        ({"role": "system", "parts": []}, "role"),
        ({"role": "user"}, "parts"),
        ({"role": "user", "parts": {}}, "parts"),
        ({"role": "user", "parts": ["hi"]}, "parts[0]"),
        ({"role": "user", "parts": [], "metadata": []}, "metadata"),
    ],
)
def test_a_message_of_a_wrong_shape_is_told_by_its_place(message: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_sent_message(message)
    assert caught.value.field == field


def test_an_id_says_something() -> None:
    assert require_id({"id": "t"}, "id") == "t"
    for tree in ({}, {"id": ""}, {"id": 1}, {"id": None}):
        with pytest.raises(Misfit):
            require_id(tree, "id")
