"""One reading of a JSON document, or none."""

import contextlib

import pytest

from gateway.a2a import json as strict_json
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.json import MAX_DEPTH, MAX_PARTS, SLICE, TreeInvalid, open_body, open_object, parse_tree, text, write
from tests.support.yardstick import cpu_seconds
from tests.table import for_each


def raw(body: bytes) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in open_body(body).items()}


def test_values_keep_their_bytes() -> None:
    body = b' { "a" : 1e5 , "b":[ 1, 2 ],"c":"\\u0041" , "d": {"x" : 0} } \r\n'
    assert raw(body) == {"a": b"1e5", "b": b"[ 1, 2 ]", "c": b'"\\u0041"', "d": b'{"x" : 0}'}
    assert write(open_body(body)) == b'{"a":1e5,"b":[ 1, 2 ],"c":"\\u0041","d":{"x" : 0}}'


@for_each(
    "body",
    [
        b"", b" ", b"{", b'{"a":1', b'{"a":1}}', b'{"a":1}{"b":2}', b'{"a":1} x', b'{"a":1}\0', b'{"a":1}\x0c',
        b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32"), '{"a":1}'.encode("utf-16-le"),
        b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":0x1}',
        b'{"a":1,}', b'{"a":[1,]}', b'{"a":1 /* x */}', b"{'a':1}", b"{a:1}", b'{"a":"\n"}', b'{"a":"\\x"}',
        b'{"a":"\\ud800"}', b'{"a":"\\udc00 and more"}', b'{"a":"\\ud800\\u0041"}', b'{"\\ud800":1}',
        b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc0\xaf"}', b'{"a\xff":1}', b"nul",
    ],
)  # fmt: skip
def test_json_that_is_not_strict_is_refused(body: bytes) -> None:
    with pytest.raises(ParseFailed):
        open_body(body)


@for_each("body", [b"[]", b"[{}]", b" [1]", b"1", b'"a"', b"null", b"true"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        open_body(body)
    assert caught.type is BadRequest
    assert ("batch" in caught.value.message) == (body.strip()[:1] == b"[")


@for_each(
    "body",
    [
        b'{"a":1,"a":1}', b'{"a":1,"a":2}', b'{"a":12,"a":1}', b'{"a":1,"a":12}', b'{"a":1.5,"a":1}',
        b'{"a":1,"b":2,"a":3}', b'{"b":0,"a":1,"a":1,"c":2}', b'{"a":{"x":1},"a":{"x":1}}', b'{"a":"","a":""}',
        b'{ "a" : 1 , "a" : 2 }', b'{"a":1,\n"\\u0061":2}', b'{"\\u0061":1,"a":2}', b'{"\\u0061":1,"\\u0061":2}',
        b'{"\xc3\xa4":1,"\\u00e4":2}', b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}', b'{"":1,"":2}',
        b'{"a":"}","a":"{"}', b'{"a\\"":1,"a\\u0022":2}', b'{"a":1,"a":1,"a":1}', b'{"a":[1],"b":1,"a":[1]}',
    ],
)  # fmt: skip
def test_a_member_that_stands_twice_is_refused_however_it_is_written(body: bytes) -> None:
    with pytest.raises(DuplicateKey):
        open_body(body)
    with pytest.raises(DuplicateKey):
        open_object(strict_json.Raw(body), "params")


@for_each(
    "name",
    [
        "Tenant", "TENANT", "tenanT", "Method", "ID", "Params", "Jsonrpc", "taskid", "TaskId", "Task_Id", "CONTEXTID",
        "Session_Id", "session-id", "task-id", "Reference-Task-Ids", "push-notification-config",
        "param\u017f", "me\u017f\u017fage", "ta\u017fkId", "tas\u212aId", "\\u0054enant", "param\\u017f",
    ],
)  # fmt: skip
def test_a_telling_name_in_another_spelling_is_refused(name: str) -> None:
    with pytest.raises(DuplicateKey):
        open_body(f'{{"{name}":1}}'.encode())


def test_members_that_decide_nothing_may_repeat_further_inside() -> None:
    assert set(raw(b'{"Metadata":1,"metadata":{"a":1,"a":2,"Tenant":"x"}}')) == {"Metadata", "metadata"}


@for_each(
    "piece", [b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x82", "\u00e4".encode("latin-1")]
)
def test_bad_utf_8_is_found_at_any_place_of_a_long_body(piece: bytes) -> None:
    for before in (SLICE - 20, SLICE - 9, SLICE - 8, SLICE - 7, 2 * SLICE):
        filler = b"x" * (before % 2) + "\u00e4".encode() * (before // 2)
        assert open_body(b'{"a":"' + filler + "\U0001f600\u20ac".encode() + b'"}')
        with pytest.raises(ParseFailed):
            open_body(b'{"a":"' + filler + piece + b'"}')


@for_each("name", ["tenant\\u0000", "\\u0000", "x\\u0000tenant", "__proto__", "\\u005f_proto__"])
def test_a_name_that_stands_for_another_to_some_parsers_is_refused(name: str) -> None:
    with pytest.raises(DuplicateKey):
        open_body(f'{{"{name}":1}}'.encode())
    assert open_body(f'{{"metadata":{{"{name}":1}}}}'.encode())


# ---- Members ---------------------------------------------------------------------------------------------------------


@for_each("value", [b"null", b"1", b'"a"', b"[]"])
def test_a_value_that_must_be_an_object_and_is_none_is_named(value: bytes) -> None:
    with pytest.raises(BadParams, match=r"params\.message must be an object"):
        open_object(strict_json.Raw(value), "params.message")


def test_a_string_is_read_and_an_absent_one_is_none() -> None:
    opened = open_body(b'{"a":"\\u00e4\\u0000","b":"","c":null}')
    assert [text(opened, name) for name in "abcd"] == ["ä\0", None, None, None]


@for_each("value", [b"1", b"true", b"[]", b"{}", b'["a"]'])
def test_a_string_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(BadParams, match="tenant must be a string"):
        text(open_body(b'{"tenant":' + value + b"}"), "tenant")


# ---- Reading a JSON object strictly ----------------------------------------------------------------------------------


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
def test_ambiguous_json_is_refused(raw: bytes, why: str) -> None:
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
