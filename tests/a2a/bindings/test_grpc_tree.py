"""Messages as trees and trees as messages, beside what protobuf's own ProtoJSON makes of them."""

from base64 import b64encode
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs
from google.protobuf.message import Message  # type: ignore[import-untyped]  # as above
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.bindings import grpc_tree
from gateway.a2a.versions.version import Misfit
from tests.a2a.bindings.grpc_sample import classes, fill_value, messages

CLASSES = st.sampled_from(classes())
EXACT = 2**53
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(st.characters(), max_size=6)
    | st.sampled_from(["TASK_STATE_WORKING", "AP8=", "2026-01-31T12:00:00Z"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=6), values),
    max_leaves=10,
)


def plain(tree: Any) -> Any:
    """A tree whose numbers are doubles, as `json_format` has them."""
    if isinstance(tree, dict):
        return {name: plain(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [plain(each) for each in tree]
    return float(tree) if isinstance(tree, int | Decimal) and not isinstance(tree, bool) else tree


# ---- Beside protobuf's own -------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(CLASSES, st.data())
def test_a_message_is_read_as_protobuf_reads_it(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    assert plain(grpc_tree.read(message)) == plain(MessageToDict(message))


@settings(max_examples=300)
@given(CLASSES, st.data())
def test_what_is_read_is_written_again_with_nothing_lost(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    tree = grpc_tree.read(message)
    assert kind.FromString(grpc_tree.write(tree, kind, strict=True)) == message
    # The same where it went through JSON on its way, as between two bindings.
    passed = msgspec.json.decode(msgspec.json.Encoder(decimal_format="number").encode(tree), strict=True)
    assert kind.FromString(grpc_tree.write(passed, kind, strict=False)) == message


@settings(max_examples=300)
@given(CLASSES, st.data())
def test_a_tree_is_written_as_protobuf_writes_it(kind: type[Message], data: st.DataObject) -> None:
    snake = data.draw(st.booleans())
    tree = MessageToDict(data.draw(messages(kind)), preserving_proto_field_name=snake)
    assert kind.FromString(grpc_tree.write(tree, kind, strict=True)) == ParseDict(tree, kind())


@settings(max_examples=300)
@given(CLASSES, st.data())
def test_any_tree_becomes_a_message_or_is_told_why_not(kind: type[Message], data: st.DataObject) -> None:
    tree = MessageToDict(data.draw(messages(kind)))
    spoilt = data.draw(spoils(tree))
    try:
        written = grpc_tree.write(spoilt, kind, strict=data.draw(st.booleans()))
    except Misfit:
        return
    msgspec.json.encode(plain(grpc_tree.read(kind.FromString(written))))


def spoils(tree: Any) -> st.SearchStrategy[Any]:
    """The tree with something else in one place of it, or in its own."""
    if isinstance(tree, dict) and tree:
        return ANY_JSON | st.sampled_from(sorted(tree)).flatmap(
            lambda name: spoils(tree[name]).map(lambda value: {**tree, name: value})
        )
    if isinstance(tree, list) and tree:
        return ANY_JSON | spoils(tree[0]).map(lambda value: [value, *tree[1:]])
    return ANY_JSON


# ---- Numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("double", "expected"),
    [
        (42.0, 42),
        (-1.0, -1),
        (0.0, 0),
        (float(EXACT), EXACT),
        (-float(EXACT), -EXACT),
        (float(EXACT * 2), Decimal("1.8014398509481984E+16")),
        (-0.0, Decimal("-0.0")),
        (0.1, Decimal("0.1")),
        (1.5, Decimal("1.5")),
        (1e300, Decimal("1E+300")),
        (5e-324, Decimal("5E-324")),
    ],
)
def test_a_number_of_metadata_is_an_integer_where_it_can_be(double: float, expected: object) -> None:
    message = new.Part()
    message.metadata.fields["n"].number_value = double
    (found,) = grpc_tree.read(message)["metadata"].values()
    assert found == expected
    assert type(found) is type(expected)
    assert float(msgspec.json.Encoder(decimal_format="number").encode(found)) == double


@pytest.mark.parametrize("double", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_told(double: float) -> None:
    message = new.Part()
    message.data.list_value.values.add().number_value = double
    with pytest.raises(Misfit, match="a number that JSON has not"):
        grpc_tree.read(message)


@pytest.mark.parametrize("number", [1, 1.5, Decimal("1.5"), Decimal("1E-400"), 2**53 + 1, 10**300, -(10**300)])
def test_a_number_of_metadata_is_written_as_the_nearest_double(number: Any) -> None:
    written = grpc_tree.write({"metadata": {"n": number}}, new.Part, strict=True)
    assert new.Part.FromString(written).metadata["n"] == float(number)


@pytest.mark.parametrize(
    "number",
    [10**309, -(10**400), Decimal("1E+309"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), float("nan"),
     float("inf")],
)  # fmt: skip
def test_a_number_beyond_all_doubles_is_told(number: Any) -> None:
    for tree in ({"metadata": {"n": number}}, {"data": [number]}):
        with pytest.raises(Misfit, match="a number that protobuf has not"):
            grpc_tree.write(tree, new.Part, strict=False)


@pytest.mark.parametrize("count", [2**31, -(2**31) - 1, 2**63, 2**64, 10**40, 1.0, Decimal(1), "1", True, [1], {}])
def test_a_count_is_an_integer_of_32_bits(count: Any) -> None:
    with pytest.raises(Misfit, match="pageSize: must be an integer of 32 bits"):
        grpc_tree.write({"pageSize": count}, new.ListTasksRequest, strict=True)


# ---- What is empty, unknown or there twice ---------------------------------------------------------------------------


def test_a_part_may_hold_a_null_or_nothing_at_all() -> None:
    written = grpc_tree.write({"data": None}, new.Part, strict=True)
    assert grpc_tree.read(new.Part.FromString(written)) == {"data": None}
    unkind = new.Part()
    unkind.data.SetInParent()
    assert grpc_tree.read(unkind) == {"data": None}
    assert grpc_tree.read(new.Part()) == {}


def test_nulls_elsewhere_are_nothing() -> None:
    tree = {"messageId": None, "parts": None, "metadata": None, "role": None, "extensions": None}
    assert grpc_tree.write(tree, new.Message, strict=True) == b""


def test_what_is_empty_stays_there_where_it_has_presence() -> None:
    trees: list[Any] = [{"metadata": {}}, {"text": ""}, {"raw": ""}, {"data": {}}, {"data": []}]
    for tree in [*trees, {"metadata": {"a": [{}, []]}}]:
        written = grpc_tree.write(tree, new.Part, strict=True)
        assert grpc_tree.read(new.Part.FromString(written)) == tree
    assert grpc_tree.write({"mediaType": "", "filename": ""}, new.Part, strict=True) == b""
    asked = grpc_tree.write({"id": "t", "historyLength": 0}, new.GetTaskRequest, strict=True)
    assert grpc_tree.read(new.GetTaskRequest.FromString(asked)) == {"id": "t", "historyLength": 0}


def test_members_without_a_place_are_left_out() -> None:
    tree = {"id": "t", "kind": "task", "x": {"deep": [10**400]}, "status": {"state": "TASK_STATE_WORKING", "y": None}}
    task = new.Task.FromString(grpc_tree.write(tree, new.Task, strict=True))
    assert grpc_tree.read(task) == {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}


def test_a_member_in_both_spellings_is_told() -> None:
    with pytest.raises(Misfit, match="is another name of"):
        grpc_tree.write({"taskId": "a", "task_id": "a"}, new.Message, strict=False)
    # As two definitions of 0.3 have it, whose names in JSON are others.
    with pytest.raises(Misfit, match="is another name of"):
        grpc_tree.write({"message": {}, "msg": {}}, old.SendMessageResponse, strict=False)


def test_two_contents_of_one_part_are_told() -> None:
    with pytest.raises(Misfit, match=r"parts\[1\]\.url: must not stand beside"):
        grpc_tree.write({"parts": [{"text": ""}, {"text": "", "url": ""}]}, new.Message, strict=False)
    with pytest.raises(Misfit, match="must not stand beside"):
        grpc_tree.write({"text": "a", "data": None}, new.Part, strict=False)


# ---- Enumerations ----------------------------------------------------------------------------------------------------


def test_a_state_that_nobody_knows_is_none_or_is_told() -> None:
    states: list[Any] = ["working", "TASK_STATE_NEW", "", 99, -1, True, 1.0, ["TASK_STATE_WORKING"], {}]
    for state in states:
        tree = {"status": {"state": state}}
        assert new.Task.FromString(grpc_tree.write(tree, new.Task, strict=False)).status.state == 0
        with pytest.raises(Misfit, match="state: must be one of TASK_STATE_UNSPECIFIED, TASK_STATE_SUBMITTED"):
            grpc_tree.write(tree, new.Task, strict=True)


def test_a_state_is_known_by_name_and_by_number() -> None:
    for state in ("TASK_STATE_CANCELED", 5):
        task = new.Task.FromString(grpc_tree.write({"status": {"state": state}}, new.Task, strict=True))
        assert grpc_tree.read(task)["status"]["state"] == "TASK_STATE_CANCELED"
    cancelled = grpc_tree.write({"status": {"state": "TASK_STATE_CANCELLED"}}, old.Task, strict=True)
    assert grpc_tree.read(old.Task.FromString(cancelled))["status"]["state"] == "TASK_STATE_CANCELLED"


def test_a_state_of_a_later_schema_is_read_as_its_number() -> None:
    assert grpc_tree.read(new.Task.FromString(b"\x1a\x02\x08\x63")) == {"status": {"state": 99}}


# ---- Texts, bytes, moments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800"])
def test_half_a_surrogate_pair_is_told_wherever_it_stands(text: str) -> None:
    trees: list[tuple[Any, Any]] = [
        ({"messageId": text}, new.Message),
        ({"extensions": [text]}, new.Message),
        ({"metadata": {text: 1}}, new.Message),
        ({"metadata": {"a": [text]}}, new.Message),
        ({"parts": [{"raw": text}]}, new.Message),
        ({"securitySchemes": {text: {}}}, new.AgentCard),
        ({"securityRequirements": [{"schemes": {"a": {"list": [text]}}}]}, new.AgentCard),
        ({"timestamp": text}, new.TaskStatus),
    ]
    for tree, kind in trees:
        with pytest.raises(Misfit):
            grpc_tree.write(tree, kind, strict=False)


@given(st.binary())
def test_bytes_come_in_either_alphabet_with_or_without_padding(raw: bytes) -> None:
    standard = b64encode(raw).decode()
    for text in (standard, standard.rstrip("="), standard.translate(str.maketrans("+/", "-_")).rstrip("=")):
        assert new.Part.FromString(grpc_tree.write({"raw": text}, new.Part, strict=True)).raw == raw


@pytest.mark.parametrize("text", ["A", "AA=A", "A===", "A\n==", "A A=", "ÄÄÄÄ", "====", "AAAA=", "AA==AA=="])
def test_what_is_no_base64_is_told(text: str) -> None:
    with pytest.raises(Misfit, match=r"parts\[0\]\.raw: must be a string of base64"):
        grpc_tree.write({"parts": [{"raw": text}]}, new.Message, strict=False)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-02-03T04:05:06Z", "2026-02-03T04:05:06Z"),
        ("2026-02-03T04:05:06.7Z", "2026-02-03T04:05:06.700Z"),
        ("2026-02-03T04:05:06.000001Z", "2026-02-03T04:05:06.000001Z"),
        ("2026-02-03T04:05:06.123456789Z", "2026-02-03T04:05:06.123456789Z"),
        ("2026-02-03T05:05:06.5+01:00", "2026-02-03T04:05:06.500Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500Z"),
    ],
)
def test_a_moment_is_the_same_moment(written: str, read: str) -> None:
    status = new.TaskStatus.FromString(grpc_tree.write({"timestamp": written}, new.TaskStatus, strict=True))
    assert grpc_tree.read(status) == {"timestamp": read}


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-13-01T00:00:00Z", "10000-01-01T00:00:00Z", 1, {}, True])
def test_what_is_no_moment_is_told(moment: Any) -> None:
    with pytest.raises(Misfit, match="timestamp"):
        grpc_tree.write({"timestamp": moment}, new.TaskStatus, strict=False)


@pytest.mark.parametrize(("seconds", "nanos"), [(2**62, 0), (-(2**62), 0), (0, -1), (0, 2**30), (-62_135_596_801, 0)])
def test_a_moment_outside_the_calendar_is_read_as_a_text_that_is_none(seconds: int, nanos: int) -> None:
    status = new.TaskStatus()
    status.timestamp.seconds, status.timestamp.nanos = seconds, nanos
    assert grpc_tree.read(status) == {"timestamp": "no moment"}


# ---- Depth -----------------------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    tree: Any = 1
    for level in range(levels):
        tree = [tree] if level % 2 else {"a": tree}
    return tree


# Lists and objects by turns: readers go 100 messages deep, and an object takes three of them.
DEEPEST = 39


@given(st.integers(1, 60))
def test_what_is_written_is_never_deeper_than_readers_go(levels: int) -> None:
    tree = {"parts": [{"data": deep(levels)}]}
    if levels > DEEPEST:
        with pytest.raises(Misfit, match=r"^is nested too deeply for protobuf$"):
            grpc_tree.write(tree, new.Message, strict=True)
    else:
        written = grpc_tree.write(tree, new.Message, strict=True)
        assert grpc_tree.read(new.Message.FromString(written)) == tree


@pytest.mark.parametrize("levels", [100, 900, 5_000, 100_000])
def test_a_tree_without_a_bottom_is_told(levels: int) -> None:
    with pytest.raises(Misfit, match="nested too deeply"):
        grpc_tree.write({"metadata": {"a": deep(levels)}}, new.Message, strict=False)


def test_a_message_as_deep_as_parsers_go_is_read() -> None:
    part = new.Part()
    fill_value(part.data, deep(DEEPEST))
    assert grpc_tree.read(new.Part.FromString(part.SerializeToString())) == {"data": deep(DEEPEST)}


# ---- Shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ([], "must be an object"),
        (None, "must be an object"),
        ({"messageId": 1}, "messageId: must be a string"),
        ({"parts": {}}, "parts: must be a list"),
        ({"parts": [1]}, r"parts\[0\]: must be an object"),
        ({"parts": [{}, {"text": 1}]}, r"parts\[1\]\.text: must be a string"),
        ({"extensions": ["a", None]}, r"extensions\[1\]: must be a string"),
        ({"metadata": []}, "metadata: must be an object"),
        ({"metadata": {"a": object()}}, "metadata: holds what JSON has not"),
        ({"metadata": {1: "a"}}, "metadata: must be a string"),
        ({"parts": [{"data": (1, 2)}]}, r"parts\[0\]\.data: holds what JSON has not"),
    ],
)
def test_a_wrong_shape_is_told_with_the_way_to_it(tree: Any, words: str) -> None:
    with pytest.raises(Misfit, match=f"^{words}$"):
        grpc_tree.write(tree, new.Message, strict=False)


def test_a_member_of_a_map_is_told_by_its_name() -> None:
    with pytest.raises(Misfit, match=r"""^securitySchemes\['b"'\]\.httpAuthSecurityScheme: must be an object$"""):
        grpc_tree.write({"securitySchemes": {'b"': {"httpAuthSecurityScheme": 1}}}, new.AgentCard, strict=False)
    with pytest.raises(Misfit, match="append: must be true or false"):
        grpc_tree.write({"append": 1}, new.TaskArtifactUpdateEvent, strict=False)


def test_a_map_holds_texts_or_messages_by_name() -> None:
    flow = {"tokenUrl": "https://x", "scopes": {"a": "b", "": ""}}
    scheme = {"oauth2SecurityScheme": {"flows": {"clientCredentials": flow}}}
    tree = {"securitySchemes": {"one": scheme, "none": {}}}
    assert grpc_tree.read(new.AgentCard.FromString(grpc_tree.write(tree, new.AgentCard, strict=True))) == tree
    flow["scopes"] = {"a": 1}
    with pytest.raises(Misfit, match=r"clientCredentials\.scopes\['a'\]: must be a string$"):
        grpc_tree.write(tree, new.AgentCard, strict=True)
