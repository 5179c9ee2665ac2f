"""A document is outlined as it is when it is read whole, however it is cut, in bounded memory and time."""

import itertools
import json
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.outline import Outline
from tests.doubles.yardstick import cpu_seconds

RESULT = b'{"jsonrpc":"2.0","id":"a","result":{"x":[1,"]}\\"",{}]}}'


def outlined(*pieces: bytes, envelope: bool = True) -> Outline:
    outline = Outline(envelope=envelope)
    for piece in pieces:
        outline.feed(piece)
    outline.close()
    return outline


def refusal(*pieces: bytes, envelope: bool = True) -> str:
    with pytest.raises(UpstreamProtocol) as refused:
        outlined(*pieces, envelope=envelope)
    return refused.value.detail


# ---- What is read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "identity"),
    [
        (RESULT, b'"a"'),
        (b' \r\n\t{ "id" : 17 , "result" : null } \n', b"17"),
        (b'{"result":"a \\\\\\" } string","id":null}', b"null"),
        (b'{"id":-1.5e3,"result":true}', b"-1.5e3"),
        (b'{"i\\u0064":"\\"\\\\","result":[]}', b'"\\"\\\\"'),
        (b'{"result":{"id":1}}', None),
        (b"{}", None),
    ],
)
def test_the_id_is_read_wherever_it_stands_and_however_the_document_is_cut(
    document: bytes, identity: bytes | None
) -> None:
    for size in (1, 2, 3, len(document)):
        pieces = [document[at : at + size] for at in range(0, len(document), size)]
        assert outlined(*pieces).id == identity


def test_the_id_is_known_as_soon_as_it_has_passed() -> None:
    outline = Outline(envelope=True)
    outline.feed(b'{"id":"ab')
    assert outline.id is None
    outline.feed(b'c"')
    assert outline.id == b'"abc"'
    outline.feed(b',"result":[')
    assert not outline.ended
    outline.feed(b"]}")
    assert outline.ended


@pytest.mark.parametrize(
    ("members", "once", "failed"),
    [
        (b'"result":1', True, False),
        (b'"result":null,"error":null', True, False),
        (b'"error":{}', True, True),
        (b'"error":{},"result":null', True, True),
        (b'"error":{},"result":1', False, True),
        (b'"result":{},"error":{}', False, True),
        (b'"error":null', False, False),
        (b'"x":1', False, False),
    ],
)
def test_results_and_errors_are_told_apart(members: bytes, *, once: bool, failed: bool) -> None:
    outline = outlined(b"{" + members + b"}")
    assert (outline.answers_once(), outline.failed) == (once, failed)


@pytest.mark.parametrize(
    "document",
    [b' [ {"id":1}, "]" ] ', b'{"id":{},"id":"' + b"x" * 9999 + b'","error":1}', b"[]", b"{}", b'["\\"]"]', b"[[],{}]"],
)
def test_of_a_document_that_is_no_envelope_only_the_end_is_read(document: bytes) -> None:
    for size in (1, 3, len(document)):
        pieces = [document[at : at + size] for at in range(0, len(document), size)]
        outline = outlined(*pieces, envelope=False)
        assert (outline.ended, outline.id, outline.failed) == (True, None, False)
    assert refusal(document + b"{}", envelope=False) == "bytes behind its end"
    assert refusal(document.rstrip()[:-1], envelope=False) == "it breaks off"
    assert refusal(b"x" + document, envelope=False) == "it is no JSON"


# ---- What is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        b'"text"', b"1", b"null", b"[]", b"\xef\xbb\xbf{}", '{"id":1}'.encode("utf-16"), b"\x1f\x8b\x08", b"<html>",
        b"{]", b"{,}", b'{"id"}', b'{"id":}', b'{"id":,}', b'{"id":1,}', b'{"id":1 2}', b'{"id":1}{}', b"{}x", b"[]]",
        b'{"a":1,,"b":2}', b'{"id":NaN}', b'{"id":nul}', b'{"id":01}', b'{"id"::1}', b'{"id":{}}', b'{"id":[1]}',
        b'{"jsonrpc":"1.0"}', b'{"jsonrpc":2.0}', b'{"error":"boom"}', b'{"error":[]}', b'{"a":\x0c1}', b"{1:2}",
        b'{"\\x":1}',
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused(document: bytes) -> None:
    assert refusal(document)
    assert refusal(*(document[at : at + 1] for at in range(len(document))))


@pytest.mark.parametrize("document", [b"", b" ", b"{", b'{"id', b'{"id":1', b'{"id":1,', b'{"a":[1', b'{"a":"'])
def test_half_a_document_is_none(document: bytes) -> None:
    assert refusal(document) == "it breaks off"


@pytest.mark.parametrize("name", [b"id", b"result", b"error", b"jsonrpc"])
def test_no_member_of_the_envelope_stands_twice(name: bytes) -> None:
    value = {b"jsonrpc": b'"2.0"', b"error": b"null"}.get(name, b"1")
    one = b'"' + name + b'":' + value
    escaped = b'"\\u%04x' % name[0] + name[1:] + b'":' + value
    for twice in (one + b"," + one, one + b',"x":[{}],' + escaped):
        assert refusal(b"{" + twice + b"}") == "a member stands twice"


def test_a_value_that_is_kept_is_bounded() -> None:
    assert "too long" in refusal(b'{"id":"', *itertools.repeat(b"x" * 100, 100))
    assert refusal(b'{"x":' + b"1" * 2000)
    assert "more than 64" in refusal(b"{" + b",".join(b'"%d":1' % number for number in range(100)) + b"}")


def test_a_name_of_any_length_passes_and_is_not_kept() -> None:
    outline = Outline(envelope=True)
    outline.feed(b'{"')
    for _ in range(100):
        outline.feed(b"x" * 10_000)
    assert len(outline._kept) < 1000
    outline.feed(b'":1,"id":2}')
    assert outline.id == b"2"


# ---- Against a whole reading ---------------------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**6)
    | st.text(max_size=8)
    | st.sampled_from(['"', "\\", '\\"', "]}"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["id", "result", "x", "jsonrpc!", "\\", '"', "é"])
cuts = st.lists(st.integers(1, 9), max_size=40)


def cut(document: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(document[at : at + size])
        at += size
    return [*pieces, document[at:]]


@given(st.dictionaries(names, values, max_size=5), cuts, st.booleans())
@example({"x": "\\" * 9 + '"'}, [1] * 40, True)
def test_every_object_is_outlined_as_it_is(tree: dict[str, object], sizes: list[int], spaced: bool) -> None:  # noqa: FBT001 - drawn
    document = json.dumps(tree, ensure_ascii=False, indent=1 if spaced else None).encode()
    if isinstance(tree.get("id"), dict | list):
        assert refusal(*cut(document, sizes))
        return
    outline = outlined(*cut(document, sizes))
    found = None if outline.id is None else json.loads(outline.id)
    assert found == tree.get("id")
    assert ("result" in tree) == outline.answers_once()


soup = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"id", b'"id"', b"1", b" ", b"null", b'"a":']),
    max_size=25,
).map(b"".join)


@given(soup, cuts)
def test_no_soup_is_read_in_two_ways(document: bytes, sizes: list[int]) -> None:
    try:
        members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        members = None
    found: list[object] = []
    for pieces in ([document], cut(document, sizes), [document[at : at + 1] for at in range(len(document))]):
        try:
            found.append(outlined(*pieces).id)
        except UpstreamProtocol:
            found.append(UpstreamProtocol)
    assert len(set(map(repr, found))) == 1
    if members is not None and found[0] is not UpstreamProtocol:
        assert found[0] == (bytes(members["id"]) if "id" in members else None)


# ---- Bounds --------------------------------------------------------------------------------------------------------

FLOODS = {
    "one string": b"x",
    "escapes": b"\\\\",
    "half escapes": b"\\",
    "quotes in a list": b'"",',
    "nesting": b"[",
    "nesting and text": b'["a",{"b":"',
    "brackets": b"[],",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_endless_documents_take_little_memory_and_time(flood: bytes) -> None:
    opening = b'{"id":1,"result":"' if flood in (b"x", b"\\\\", b"\\") else b'{"id":1,"result":['
    piece = flood * (200_000 // len(flood))
    outline = Outline(envelope=True)
    outline.feed(opening)

    def feed() -> None:
        for _ in range(5):
            outline.feed(piece)

    tracemalloc.start()
    try:
        feed()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    # A megabyte; a byte at a time in Python would take a tenth of a second and more.
    assert cpu_seconds(feed) < 0.5
