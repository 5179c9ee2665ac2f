"""Reading a JSON object strictly."""

import contextlib

import pytest

from gateway.a2a.json import MAX_DEPTH, MAX_PARTS, TreeInvalid, parse_tree
from tests.support.yardstick import cpu_seconds
from tests.table import for_each


@for_each(
    ("raw", "why"),
    [
        (b'{"a": 1, "a": 1}', "named twice"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "named twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e400}', "range of doubles"),
        (b'{"a": 18446744073709551616}', "64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "64 bits"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udc00": 1}', "surrogate"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b"[]", "not a JSON object"),
        (b"", "not JSON"),
        (b"{} {}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 1 /* */}', "not JSON"),
        (b'{"a": "\n"}', "not JSON"),
        (b'{"a": "' + b"x" * 1000 + b'"}', "longer than"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nests deeper"),
    ],
)
def test_what_two_parsers_could_read_differently_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(TreeInvalid, match=why):
        parse_tree(raw, max_bytes=6000 if why == "64 bits" else 1000)


def test_depth_counts_no_brackets_in_strings() -> None:
    assert parse_tree(b'{"a": "' + b"[" * 100 + b'\\"{{"}', max_bytes=1000) == {"a": "[" * 100 + '"{{'}
    deepest = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    assert parse_tree(deepest, max_bytes=1000)


def test_a_document_of_very_many_values_is_refused_before_it_is_built() -> None:
    def listed(number: int) -> bytes:
        return b'{"a":[' + b",".join([b"[]"] * number) + b"]}"

    assert len(parse_tree(listed(MAX_PARTS), max_bytes=262_144)["a"]) == MAX_PARTS
    with pytest.raises(TreeInvalid, match="elements"):
        parse_tree(listed(MAX_PARTS + 1), max_bytes=262_144)


@for_each(
    "raw",
    [
        b"[" * 262_144,
        b'{"a":' * 52_000,
        b'"' * 262_144,
        b'"' + b'\\"' * 131_000,
        b'"' + b"\\" * 262_143,
        b'{"a": ' + b"9" * 262_000 + b"}",
        b"{" + b",".join(b'"k%d":0' % number for number in range(20_000)) + b"}",
        b'{"a":"' + b"\\ud800" * 43_000 + b'"}',
        b'{"a":[' + b",".join([b"[]"] * 80_000) + b"]}",
        b'{"a":[' + b",".join([b"0"] * 130_000) + b"]}",
    ],
)  # fmt: skip
def test_hostile_text_is_answered_without_much_work(raw: bytes) -> None:
    def read() -> None:
        with contextlib.suppress(TreeInvalid):
            parse_tree(raw, max_bytes=262_144)

    assert cpu_seconds(read) < 0.25
