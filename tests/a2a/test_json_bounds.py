"""The measure of a document's structure, taken from its skeleton."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import BadRequest
from gateway.a2a.json import BOUNDS, BodyBounds, refuse_numbers, skeleton
from tests.support.yardstick import cpu_seconds
from tests.table import for_each

NARROW = BodyBounds(depth=4, members=20, elements=30)


def within(body: bytes, narrow: BodyBounds = NARROW) -> bool:
    try:
        skeleton(body, narrow)
    except BadRequest:
        return False
    return True


def members(number: int) -> bytes:
    return b'{"a":[{' + b"},{".join(b'"k%d":":{"' % index for index in range(number - 1)) + b"}]}"


def elements(number: int) -> bytes:
    return b'{"a":[' + b", ".join([b"[ ]", b'","', b"{}", b"1", b"[\n]"][index % 5] for index in range(number)) + b"]}"


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth // 2) + b"[" * (depth - depth // 2) + b"]" * (depth - depth // 2) + b"}" * (depth // 2)


@for_each("scale", [1, 100])
def test_each_bound_is_exact(scale: int) -> None:
    wide = BodyBounds(depth=4 * scale, members=20 * scale, elements=30 * scale)
    for shape, bound in ((members, wide.members), (nested, wide.depth)):
        assert within(shape(bound), BodyBounds(wide.depth, wide.members, 10**9))
        assert not within(shape(bound + 1), BodyBounds(wide.depth, wide.members, 10**9))
    assert within(elements(wide.elements), wide)
    assert not within(elements(wide.elements + 1), wide)


odd_texts = st.text(alphabet='[]{}",:\\ ae', max_size=6)
trees = st.recursive(
    st.none() | st.integers(-5, 5) | odd_texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(odd_texts, inner, max_size=6),
    max_leaves=40,
)


@given(trees, st.sampled_from([None, 1]), st.integers(1, 12))
def test_counts_agree_with_a_parser(tree: object, indent: int | None, slice_size: int) -> None:
    def count(value: object) -> tuple[int, int, int]:
        if not isinstance(value, dict | list):
            return 0, 0, 0
        inner = [count(item) for item in (value.values() if isinstance(value, dict) else value)]
        depth = 1 + max((found[0] for found in inner), default=0)
        own = (len(value), 0) if isinstance(value, dict) else (0, len(value))
        return depth, own[0] + sum(found[1] for found in inner), own[1] + sum(found[2] for found in inner)

    body = json.dumps(tree, indent=indent).encode()
    depth, member_count, element_count = count(tree)
    for narrow in (NARROW, BodyBounds(2, 1, 1), BodyBounds(1, 5, 3), BodyBounds(9, 900, 2)):
        fits = depth <= narrow.depth and member_count <= narrow.members and element_count <= narrow.elements
        assert within(body, narrow) == fits
    whole = skeleton(body, BOUNDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.a2a.json.SLICE", slice_size)
        assert skeleton(body, BOUNDS) == whole


# ---- Numbers ---------------------------------------------------------------------------------------------------------


def holds(number: str) -> bool:
    try:
        refuse_numbers(skeleton(f'{{"a":[true,{number},"1e999"]}}'.encode(), BOUNDS))
    except BadRequest:
        return False
    return True


@for_each(
    "number",
    [
        "0", "-0", "-0.0", "1e5", "1E+05", "1e-005", "1.7976931348623157e308", "-1.7976931348623157E308", "1e308",
        "123e306", "5e-324", "1e-400", "0e999", "9007199254740993", "18446744073709551616", "1" * 308, "9" * 308,
        "-" + "1" * 309, "0." + "3" * 500, "0.1e-99", "1e99", "1e007",
    ],
)  # fmt: skip
def test_a_number_that_a_double_holds_is_taken(number: str) -> None:
    assert holds(number)


@for_each(
    "number",
    [
        "1e309", "-1e309", "1E+999", "1e400", "1.8e308", "0.001e312", "123e307", "1e1000", "1e-1000", "1e0000",
        "1e99999999999999999999", "1" * 310, "9" * 309, "-" + "9" * 309, "1" * 309 + ".5e1", "1" * 5000,
        "1" * 1_000_000, "0e9999", "0." + "3" * 511, "1" + "0" * 250 + "e60",
    ],
)  # fmt: skip
def test_a_number_that_some_reader_makes_infinite_or_pays_too_much_for_is_refused(number: str) -> None:
    assert not holds(number)


def test_digits_in_strings_are_no_numbers() -> None:
    assert holds('"1e999", "' + "9" * 5000 + '", "0e0000 \\" 1e999"')


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80))
def test_every_number_that_python_or_javascript_writes_is_taken(number: float) -> None:
    assert holds(repr(number))


# ---- What it costs ---------------------------------------------------------------------------------------------------


@for_each(
    "body",
    [
        b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 1_000_000 + b"}", b'{"a":1e400}',
        b"{" + b",".join(b'"k%d":0' % index for index in range(200_000)) + b"}", b'{"a":["' + b"[" * 200_000,
        b'{"a":[' + b"0," * 400_000 + b"0]}", b'"' * 1_000_000, b"\\" * 1_000_001, b"[]" * 400_000,
        b'{"a":[' + b'"",' * 250_000 + b"0]}", b'{"a":[' + b"1e300," * 99_000 + b"0]}",
    ],
)  # fmt: skip
def test_a_hostile_document_costs_less_than_100_ms(body: bytes) -> None:
    def read() -> None:
        with contextlib.suppress(BadRequest):
            refuse_numbers(skeleton(body, BOUNDS))

    assert cpu_seconds(read) < 0.1
