"""The typed details of errors, and what is made of agents' own ways."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import error_detail, error_kind
from gateway.a2a.error_detail import DEEPEST_DETAIL, LONGEST_DETAILS, MOST_DETAILS, STRUCT, encoder
from gateway.a2a.fault import A2A_DOMAIN, BAD_REQUEST, ERROR_INFO
from gateway.a2a.tree import Tree

TYPED = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}
INFO = {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": A2A_DOMAIN, "metadata": {"timestamp": "now"}}
# As pydantic finds fault.
FINDING = {"type": "missing", "loc": ["params", "message"], "msg": "Field required", "input": {"a": 1}}


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def nested(levels: int) -> Tree:
    tree: Tree = {}
    for _ in range(levels - 1):
        tree = {"in": tree}
    return {**tree, "@type": "t"}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([TYPED, INFO], [TYPED, INFO]),
        (TYPED, [TYPED]),
        ({"why": "x"}, [{"@type": STRUCT, "value": {"why": "x"}}]),
        ("why", [{"@type": STRUCT, "value": {"value": ["why"]}}]),
        (0, [{"@type": STRUCT, "value": {"value": [0]}}]),
        (False, [{"@type": STRUCT, "value": {"value": [False]}}]),
        ([FINDING], [{"@type": STRUCT, "value": FINDING}]),
        ([FINDING, "x", None], [{"@type": STRUCT, "value": {"value": [FINDING, "x"]}}]),
        ([{"why": 1}, TYPED], [TYPED, {"@type": STRUCT, "value": {"why": 1}}]),
        ([{"@type": 1}, {"@type": ""}], [{"@type": STRUCT, "value": {"value": [{"@type": 1}, {"@type": ""}]}}]),
        (None, []),
        ([], []),
        ({}, []),
        ("", []),
        ([None, {}, []], []),
    ],
)
def test_what_has_no_type_goes_into_a_struct(said: object, found: list[Tree]) -> None:
    assert error_detail.read(raw(said)) == found


@pytest.mark.parametrize("said", [b"", b"[1", b"nonsense", b'"\xff"', b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_json_is_no_detail(said: bytes) -> None:
    assert error_detail.read(msgspec.Raw(said)) == []


def test_numbers_keep_their_digits() -> None:
    said = b'{"@type":"t","a":1.50,"b":123456789012345678901234567890,"c":-0.0,"d":9007199254740993}'
    [found] = error_detail.read(msgspec.Raw(said))
    assert found["a"] == Decimal("1.50")
    assert encoder.encode(found) == said


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1e99999999999999999999", b"9" * 5000])
def test_a_number_beyond_all_readers_takes_its_detail_with_it(number: bytes) -> None:
    assert error_detail.read(msgspec.Raw(b'[{"@type":"t","a":%b},{"@type":"u"}]' % number)) == [{"@type": "u"}]


# ---- Bounds ----------------------------------------------------------------------------------------------------------


def test_more_details_than_there_is_room_for_are_left_out() -> None:
    many = error_detail.read(raw([{"@type": "t", "n": number} for number in range(1000)]))
    assert [detail["n"] for detail in error_detail.bounded(many)] == list(range(MOST_DETAILS))


def test_a_long_detail_leaves_room_for_those_behind_it() -> None:
    first, long, last = {"@type": "a"}, {"@type": "b", "x": "x" * (LONGEST_DETAILS - 60)}, {"@type": "c"}
    assert error_detail.bounded([first, long, long, last]) == (first, long, last)
    longest = {"@type": "b", "x": "x" * (LONGEST_DETAILS - len(encoder.encode({"@type": "b", "x": ""})))}
    assert error_detail.bounded([longest, last]) == (longest,)
    assert error_detail.bounded([first, longest, last]) == (first, last)


def test_space_counts_for_nothing_and_what_is_written_counts() -> None:
    said = msgspec.Raw(b'[{"@type":"t",' + b" " * 2 * LONGEST_DETAILS + b'"a":1}]')
    assert error_detail.read(said) == [{"@type": "t", "a": 1}]


def test_a_deep_detail_is_left_out() -> None:
    deepest, deeper = nested(DEEPEST_DETAIL), nested(DEEPEST_DETAIL + 1)
    assert error_detail.read(raw([deepest, deeper])) == [deepest]
    # What goes into a Struct is one level deeper there.
    untyped = {"in": nested(DEEPEST_DETAIL)["in"]}
    assert error_detail.bounded(error_detail.read(raw(untyped))) == ()


def test_much_too_much_is_not_even_read() -> None:
    assert error_detail.read(msgspec.Raw(b"[" + b"{}," * 500_000 + b'{"@type":"t"}]')) == []


@pytest.mark.parametrize("times", [1, 10])
def test_the_reason_is_read_of_a_detail_that_is_too_much(times: int) -> None:
    long = {**INFO, "metadata": {"errors": ["x" * LONGEST_DETAILS * times]}}
    assert error_detail.read(raw([long])) == [{**INFO, "metadata": {}}]
    foreign = {**long, "reason": "QUOTA"}
    for other in (foreign, {**long, "@type": "t"}, {**long, "reason": 1}):
        assert error_detail.read(raw([other])) == []


# ---- A2A's own -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", range(3))
def test_the_reason_is_found_wherever_it_is(position: int) -> None:
    details: list[Tree] = [TYPED, {"@type": "t"}]
    details.insert(position, INFO)
    assert error_detail.take_own(details) == (INFO, error_kind.TASK_NOT_FOUND)
    assert details == [TYPED, {"@type": "t"}]


def test_a_reason_without_a_domain_is_a2as() -> None:
    for domain in ({}, {"domain": ""}, {"domain": None}):
        found, kind = error_detail.take_own([{"@type": ERROR_INFO, "reason": "INVALID_PARAMS", **domain}])
        assert kind is error_kind.INVALID_PARAMS
        assert found == {"@type": ERROR_INFO, "reason": "INVALID_PARAMS", "domain": A2A_DOMAIN}


@pytest.mark.parametrize(
    "detail",
    [
        {**INFO, "domain": "example.com"},
        {**INFO, "domain": 1},
        {**INFO, "reason": "QUOTA"},
        {**INFO, "reason": None},
        {**INFO, "reason": ["TASK_NOT_FOUND"]},
        {**INFO, "@type": "type.googleapis.com/google.rpc.Help"},
    ],
)
def test_anything_else_is_no_reason_of_a2as(detail: Tree) -> None:
    details = [detail]
    assert error_detail.take_own(details) == (None, None)
    assert details == [detail]


def test_a_domain_that_makes_it_too_long_leaves_the_reason() -> None:
    info = {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "metadata": {"x": ""}}
    info["metadata"] = {"x": "x" * (LONGEST_DETAILS - len(encoder.encode(info)))}
    found, _ = error_detail.take_own([info])
    assert found == {**INFO, "metadata": {}}


@pytest.mark.parametrize("code", [-32050, -32010, 1, 0, -(2**31), 2**31 - 1])
def test_a_code_of_the_agents_own_is_kept(code: int) -> None:
    assert error_detail.kept_code(error_detail.keeping(code)) == code


@pytest.mark.parametrize(
    "metadata",
    [
        {"jsonrpcCode": text}
        for text in ("", "x", "-32001", "401", "-31401", "2147483648", "\uff11", "1e3", -32050, None)
    ]
    + [{}, None, "x", []],
)
def test_no_code_of_a2as_is_smuggled_in_with_it(metadata: Any) -> None:
    assert error_detail.kept_code({**INFO, "metadata": metadata}) is None


# ---- Others ----------------------------------------------------------------------------------------------------------


def test_the_findings_of_a_problem_are_violations() -> None:
    said = [{"field": "message.parts", "message": "at least one"}, {"field": 1, "message": "x"}, "x", {"field": "a"}]
    assert error_detail.violations(raw(said)) == [
        {"@type": BAD_REQUEST, "fieldViolations": [{"field": "message.parts", "description": "at least one"}]}
    ]
    assert error_detail.violations(raw({"a": 1})) == error_detail.violations(raw([1])) == []
    assert error_detail.violations(msgspec.Raw()) == []


def test_data_is_given_as_it_is_within_the_bounds() -> None:
    assert error_detail.given(raw({"why": [1]})) == {"why": [1]}
    assert error_detail.given(raw({})) == {}
    for nothing in (msgspec.Raw(), raw(None), raw("x" * LONGEST_DETAILS), raw(nested(40)), msgspec.Raw(b"{")):
        assert error_detail.given(nothing) is msgspec.UNSET


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (b"-32001", -32001),
        (b'"-32001"', -32001),
        (b"-32001.0", -32001),
        (b"0", 0),
        (b"-2147483648", -(2**31)),
        (b"2147483648", None),
        (b"99999999999", None),
        (b"-32001.5", None),
        (b"1e3", None),
        (b"true", None),
        (b"null", None),
        (b'"x"', None),
        (b'"1', None),
        (b"[1]", None),
        (b"", None),
        (b"1" * 100_000, None),
    ],
)
def test_a_number_is_read_however_it_is_written(said: bytes, number: int | None) -> None:
    assert error_detail.integer(msgspec.Raw(said)) == number


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("@type"), inner),
)


@given(trees | st.lists(trees))
def test_what_is_read_once_is_read_the_same_again(said: object) -> None:
    kept = error_detail.bounded(error_detail.read(raw(said)))
    written = encoder.encode(kept)
    assert error_detail.bounded(error_detail.read(msgspec.Raw(written))) == kept
    assert len(kept) <= MOST_DETAILS
    assert sum(len(encoder.encode(detail)) for detail in kept) <= LONGEST_DETAILS
