"""Where members stand, and what changing one leaves as it was."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.document import Members, open_body
from gateway.a2a.fault import BadRequest
from gateway.a2a.layout import cut, edited, insert, is_compact, is_whole, locate

COMPACT = b'{"a":1,"b":{"a":2},"c":"}"}'
SPACED = b'  { "a" : 1 ,\n"b":{"a":2} , "c" :"}" }\r\n'
PYTHON = b'{"a": 1, "b": {"a":2}, "c": "}"}'
ESCAPED = b'{"\\u0061":1,"b":{"a":2},"\\u0063":"}"}'
WRITTEN = [COMPACT, SPACED, PYTHON, ESCAPED]


def without(body: bytes, name: str) -> bytes:
    return edited(body, [cut(body, locate(body, (0, len(body)), open_body(body), name))])


@pytest.mark.parametrize("body", WRITTEN)
def test_a_member_is_found_however_it_is_written(body: bytes) -> None:
    members = open_body(body)
    assert is_compact(members, len(body)) == (body == COMPACT)
    for name, value in members.items():
        place = locate(body, (0, len(body)), members, name)
        assert body[place.value : place.end] == bytes(value)
        assert json.loads(body[place.name : place.value].strip(b": ")) == name
        assert body[place.delimiter] in b"{,"
    with pytest.raises(KeyError):
        locate(body, (0, len(body)), members, "d")


@pytest.mark.parametrize("body", WRITTEN)
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_member_is_cut_with_one_comma(body: bytes, name: str) -> None:
    left = {key: value for key, value in json.loads(body).items() if key != name}
    assert json.loads(without(body, name), object_pairs_hook=list) == [
        (key, list(value.items()) if isinstance(value, dict) else value) for key, value in left.items()
    ]


def test_the_last_one_leaves_an_empty_object() -> None:
    assert without(b'{"a":1}', "a") == b"{}"
    assert without(b' { "a" : 1 } ', "a") == b" {  } "


def test_a_member_of_an_object_inside_is_found_by_the_place_of_that_object() -> None:
    outer = locate(SPACED, (0, len(SPACED)), open_body(SPACED), "b")
    inner = locate(SPACED, (outer.value, outer.end), open_body(b'{"a":2}'), "a")
    assert edited(SPACED, [(inner.value, inner.end, b"3")]) == SPACED.replace(b"2", b"3")


def test_a_member_is_put_first() -> None:
    for body in WRITTEN:
        changed = edited(body, [insert(body, 0, b'"t":0', alone=False)])
        assert list(json.loads(changed).items()) == [("t", 0), *json.loads(body).items()]
    assert edited(b" {}", [insert(b" {}", 0, b'"t":0', alone=True)]) == b' {"t":0}'


def test_edits_are_made_in_the_order_of_their_places() -> None:
    assert edited(b"abcdef", [(4, 5, b"E"), (0, 1, b""), (1, 1, b"+")]) == b"+bcdEf"
    assert edited(b"abc", []) == b"abc"


# ---- Twins show, whatever was dropped --------------------------------------------------------------------------------

names = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"ä"', '"\\u00e4"', '""', '"a\\"b"'])
values = st.sampled_from(["1", "12", '""', '"a"', '",\\"a\\":1"', "{}", '{"a":1}', "[1,{}]", '"x\\\\"'])
spaces = st.sampled_from(["", "", "", " ", "\n "])
pieces = st.tuples(spaces, names, spaces, values, spaces).map(lambda piece: "{}{}{}:{}{}".format(*piece))
objects = st.lists(pieces, max_size=5).map(lambda inside: ("{" + ",".join(inside) + "}").encode())


def read(body: bytes) -> tuple[list[tuple[str, Any]], Members]:
    """The pairs as they are written, and the members as a parser keeps them."""
    return json.loads(body, object_pairs_hook=list), msgspec.json.decode(body, type=Members)


@given(objects)
def test_an_object_is_whole_only_if_nothing_of_it_was_dropped(body: bytes) -> None:
    pairs, members = read(body)
    assert is_whole(body, members) == (len(pairs) == len(members))
    if is_compact(members, len(body)):
        assert len(pairs) == len(members)


@given(objects, st.data())
def test_a_cut_leaves_the_other_members_and_every_byte_of_them(body: bytes, data: st.DataObject) -> None:
    try:
        members = open_body(body)
    except BadRequest:
        return
    if members:
        name = data.draw(st.sampled_from(sorted(members)))
        left = open_body(without(body, name))
        assert left == {key: value for key, value in members.items() if key != name}
