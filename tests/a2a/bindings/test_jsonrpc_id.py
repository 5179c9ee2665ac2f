"""Which answers are those of a call."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.jsonrpc import answers
from tests.table import for_each

BIG = b"9" * 400


@for_each(
    ("frame", "call"),
    [
        (b"1", b"1"), (b'"a"', b'"a"'), (b'"a"', b'"\\u0061"'), (b"", b"1"), (b"null", b'"a"'), (b"1.0", b"1"),
        (b"0", b"-0"), (b"9007199254740992", b"9007199254740993"), (b"9.007199254740992e15", b"9007199254740993"),
        (b"1" + b"0" * 400, BIG), (BIG, BIG), (b"null", b"0"), (b"null", b'""'),
    ],
)  # fmt: skip
def test_an_answer_is_known_by_its_id_as_servers_change_it(frame: bytes, call: bytes) -> None:
    assert answers(frame, call)


@for_each(
    ("frame", "call"),
    [
        (b"2", b"1"), (b'"1"', b"1"), (b"1", b'"1"'), (b"true", b"1"), (b"false", b"0"), (b"[]", b"1"), (b"{}", b'"a"'),
        (b'"b"', b'"a"'), (b"1.5", b"1"), (BIG, b"1"), (b"-" + BIG, BIG), (b"1e400", b"1"), (b"x", b"1"), (b"1", BIG),
        (b'"A"', b'"a"'), (b"9007199254740990", b"9007199254740993"), (b'"a"' + b" " * 4000, b'"a"'),
    ],
)  # fmt: skip
def test_an_answer_to_another_call_is_known_too(frame: bytes, call: bytes) -> None:
    assert not answers(frame, call)


@given(st.text(st.characters(codec="utf-8"), max_size=8) | st.integers(), st.binary(max_size=12))
def test_every_id_answers_itself_and_no_bytes_break_the_comparison(identity: object, other: bytes) -> None:
    written, escaped = json.dumps(identity, ensure_ascii=False).encode(), json.dumps(identity).encode()
    assert answers(written, escaped)
    assert answers(escaped, written)
    answers(other, written)
