"""One reading of a JSON document, or none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import document
from gateway.a2a.document import MAX_DEPTH, MAX_MEMBERS, open_body, open_object, text, write
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed


def raw(body: bytes) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in open_body(body).items()}


def test_values_keep_their_bytes() -> None:
    body = b' { "a" : 1e5 , "b":[ 1, 2 ],"c":"\\u0041" , "d": {"x" : 0} } \r\n'
    assert raw(body) == {"a": b"1e5", "b": b"[ 1, 2 ]", "c": b'"\\u0041"', "d": b'{"x" : 0}'}
    assert write(open_body(body)) == b'{"a":1e5,"b":[ 1, 2 ],"c":"\\u0041","d":{"x" : 0}}'


@pytest.mark.parametrize("body", [b"{}", b" {\n} ", b'{"":0}', b'{"a":1e400}', b'{"a":-0}', b'{"a":"\\u0000"}'])
def test_odd_but_clear_documents_are_read(body: bytes) -> None:
    assert raw(body) is not None


@pytest.mark.parametrize(
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
def test_what_is_no_strict_json_is_refused(body: bytes) -> None:
    with pytest.raises(ParseFailed):
        open_body(body)


@pytest.mark.parametrize("body", [b"[]", b"[{}]", b" [1]", b"1", b'"a"', b"null", b"true"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        open_body(body)
    assert caught.type is BadRequest
    assert ("batch" in caught.value.message) == (body.strip()[:1] == b"[")


@pytest.mark.parametrize(
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
        open_object(document.Raw(body), "params")


@pytest.mark.parametrize(
    "name",
    [
        "Tenant", "TENANT", "tenanT", "Method", "ID", "Params", "Jsonrpc", "taskid", "TaskId", "Task_Id", "CONTEXTID",
        "param\u017f", "me\u017f\u017fage", "ta\u017fkId", "tas\u212aId", "\\u0054enant", "param\\u017f",
    ],
)  # fmt: skip
def test_a_telling_name_in_another_case_is_refused_as_go_folds_case(name: str) -> None:
    with pytest.raises(DuplicateKey):
        open_body(f'{{"{name}":1}}'.encode())


def test_what_decides_nothing_may_be_in_any_case_and_twice_further_inside() -> None:
    assert set(raw(b'{"Metadata":1,"metadata":{"a":1,"a":2,"Tenant":"x"}}')) == {"Metadata", "metadata"}


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth // 2) + b"[" * (depth - depth // 2) + b"]" * (depth - depth // 2) + b"}" * (depth // 2)


def test_nesting_is_bounded() -> None:
    assert raw(nested(MAX_DEPTH))
    with pytest.raises(BadRequest, match="deeper"):
        open_body(nested(MAX_DEPTH + 1))
    with pytest.raises(BadRequest):
        open_body(b'{"a":' + b"[" * 1_000_000)


def test_brackets_in_strings_do_not_nest_and_do_not_close() -> None:
    assert raw(b'{"a":"' + b"[" * 100 + b'","b":"' + b'\\"[{' * 100 + b'","c":"\\\\"}')
    with pytest.raises(BadRequest, match="deeper"):
        open_body(b'{"a":' + b'["]",' * (MAX_DEPTH + 1) + b"0" + b"]" * (MAX_DEPTH + 1) + b"}")
    with pytest.raises(BadRequest, match="deeper"):
        open_body(b'{"a":' + b'["\\\\",["]\\"]",' * MAX_DEPTH + b"0" + b"]" * MAX_DEPTH * 2 + b"}")


def test_members_are_bounded() -> None:
    def members(number: int) -> bytes:
        return b'{"a":[{' + b"},{".join(b'"k%d":0' % index for index in range(number - 1)) + b"}]}"

    assert raw(members(MAX_MEMBERS))
    with pytest.raises(BadRequest, match="members"):
        open_body(members(MAX_MEMBERS + 1))
    assert raw(b'{"a":"' + b":" * 50_000 + b'"}')


@given(st.integers(1, 200), st.text(alphabet='[]{}"\\:a', max_size=12))
def test_depth_is_counted_as_json_counts_it(depth: int, noise: str) -> None:
    body = json.dumps({"n": noise, "a": json.loads("[" * depth + "]" * depth)}).encode()
    if depth + 1 <= MAX_DEPTH:
        assert set(raw(body)) == {"n", "a"}
    else:
        with pytest.raises(BadRequest, match="deeper"):
            open_body(body)


# ---- Whatever is accepted, every parser reads alike ------------------------------------------------------------------

names = st.sampled_from(
    ['"a"', '"b"', '"\\u0061"', '"A"', '"id"', '"ID"', '"\\u0069d"', '""', '"\\""', '"ä"', '"\\\\"']
)
values = st.sampled_from(
    ["1", "12", "-0", "1.5", "1e9", '""', '"a"', '",\\"a\\":1"', "{}", '{"a":1,"a":2}', "[1,{}]", "nul"]
)
spaces = st.sampled_from(["", "", "", " ", "\n ", "\t\r\n", "\x0b", "\ufeff"])
members = st.tuples(spaces, names, spaces, values, spaces).map(lambda piece: "{}{}{}:{}{}".format(*piece))
documents = st.builds(
    lambda start, inside, end: start + "{" + ",".join(inside) + "}" + end,
    spaces,
    st.lists(members, max_size=5),
    spaces,
)


@given(documents)
def test_a_document_is_accepted_only_if_each_name_stands_once(body: str) -> None:
    try:
        pairs: list[tuple[str, Any]] | None = json.loads(body, object_pairs_hook=list)
    except ValueError:
        pairs = None
    twins = pairs is not None and ("ID" in dict(pairs) or len(dict(pairs)) != len(pairs))
    try:
        opened = raw(body.encode())
    except DuplicateKey:
        assert twins
    except ParseFailed:
        assert pairs is None or body.startswith("\ufeff")
    else:
        assert pairs is not None
        assert not twins
        assert [(name, json.loads(value, object_pairs_hook=list)) for name, value in opened.items()] == pairs


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda said: said.encode("utf-8", "surrogatepass")))
def test_no_bytes_do_more_than_be_refused(body: bytes) -> None:
    try:
        opened = raw(body)
    except BadRequest:
        return
    assert {name: json.loads(value) for name, value in opened.items()} == json.loads(body)


# ---- Members ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"null", b"1", b'"a"', b"[]"])
def test_a_value_that_must_be_an_object_and_is_none_is_named(value: bytes) -> None:
    with pytest.raises(BadParams, match=r"params\.message must be an object"):
        open_object(document.Raw(value), "params.message")


def test_a_string_is_read_and_what_is_unset_is_none() -> None:
    opened = open_body(b'{"a":"\\u00e4\\u0000","b":"","c":null}')
    assert [text(opened, name) for name in "abcd"] == ["ä\0", None, None, None]


@pytest.mark.parametrize("value", [b"1", b"true", b"[]", b"{}", b'["a"]'])
def test_a_string_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(BadParams, match="tenant must be a string"):
        text(open_body(b'{"tenant":' + value + b"}"), "tenant")
