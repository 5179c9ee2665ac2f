"""Frames of agents on stdio: cut where they end, told apart by their first byte, never too long."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.framing.lsp import HEADER_BYTES, HEADER_FIELDS, BadFrame, Frame, FrameDecoder, Framing, encode
from tests.table import for_each

contents = st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4).map(json.dumps)
framings = st.sampled_from(Framing)


def lsp(content: bytes, *headers: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in headers) + b"\r\n" + content


def test_a_frame_is_its_length_its_type_the_headers_and_the_content() -> None:
    assert encode(b'{"a":"\xc3\xa4"}', Framing.LSP, [(b"A2A-Version", b"1.0")]) == (
        b'Content-Length: 10\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n\r\n{"a":"\xc3\xa4"}'
    )


def test_line_framing_removes_line_ends_of_the_content() -> None:
    assert encode(b'{\r\n "a": 1\n}', Framing.NDJSON, [(b"a2a-version", b"1.0")]) == b'{   "a": 1 }\n'


@for_each(
    "header",
    [(b"content-length", b"3"), (b"Content-Type", b"x"), (b"a b", b"x"), (b"a", b"x\r\ny: z"), (b"a", b"\xff")],
)
def test_a_header_that_is_none_or_that_frames_is_never_written(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="cannot be in a frame"):
        encode(b"{}", Framing.LSP, [header])


@given(st.lists(st.tuples(contents, framings), max_size=8), st.lists(st.integers(0, 800), max_size=12))
def test_chunk_borders_do_not_matter(written: list[tuple[str, Framing]], cuts: list[int]) -> None:
    stream = b"".join(encode(content.encode(), framing) for content, framing in written)
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    # More than the longest content, each of whose characters may be escaped as two.
    decoder = FrameDecoder(2000)
    found = [frame for start, end in itertools.pairwise(borders) for frame in decoder.feed(stream[start:end])]
    assert [(frame.content.decode(), frame.framing) for frame in found] == written
    assert decoder.last is None


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_a_stream_is_read_or_refused_alike_however_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    def read(borders: list[int]) -> tuple[list[Frame], bool]:
        decoder = FrameDecoder(100)
        found: list[Frame] = []
        try:
            for start, end in itertools.pairwise(borders):
                found += decoder.feed(stream[start:end])
        except BadFrame:
            return found, True
        return found, decoder.refused is not None

    whole = read([0, len(stream)])
    assert read([0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]) == whole


def test_headers_are_case_insensitive_and_the_content_type_is_optional() -> None:
    [frame] = FrameDecoder().feed(b'content-LENGTH: 2\nA2A-Extensions:  urn:x \r\n\r\n{}{"b":1}\n'[:-8])
    assert frame == Frame(b"{}", [(b"content-length", b"2"), (b"a2a-extensions", b"urn:x")], Framing.LSP)
    assert frame.header(b"a2a-extensions") == b"urn:x"
    assert frame.header(b"x") is None


def test_blank_lines_between_frames_and_a_mark_before_the_first_are_nothing() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(b"\xef") == decoder.feed(b"\xbb\xbf\r\n\n") == []
    [first, second] = decoder.feed(b'\n{"a":1}\r\n\n' + encode(b"{}", Framing.LSP) + b"\r\n \r\n")
    assert (first.content, second.content) == (b'{"a":1}', b"{}")
    assert decoder.last is None
    assert not decoder.midway
    decoder.feed(b"Content-Length: 2\r\n")
    assert decoder.midway


@for_each(
    "stream",
    [
        b"\x00\x01",
        b"starting up...\n",
        b": 2\r\n\r\n{}",
        b"Content-Length: 2\r\n x: y\r\n\r\n{}",
        b"Content-Length: 2\r\nX: \x01\r\n\r\n{}",
        lsp(b"{}", b"Content-Type: application/json"),
        lsp(b"{}", b"Content-Length: 2", b"Content-Length: 2"),
        lsp(b"{}", b"Content-Length: 2", b"Content-Type: a/b", b"content-type: a/b"),
        lsp(b"{}", b"Content-Length: -2"),
        lsp(b"{}", b"Content-Length: +2"),
        lsp(b"{}", b"Content-Length: 0x2"),
        lsp(b"{}", b"Content-Length: 2, 2"),
        lsp(b"{}", b"Content-Length: "),
        lsp(b"{}", b"Content-Length: 99999999999999999999"),
        lsp(b"{}", b"Content-Length: 101"),
        lsp(b"{}", b"Content-Length: 2", b"Content-Type: application/json; charset=latin-1"),
        lsp(b"{}", *[b"A: b"] * HEADER_FIELDS, b"Content-Length: 2"),
        b"A" * HEADER_BYTES,
        b"A: " + b"b" * HEADER_BYTES + b"\r\n",
        b"A: b\r\n" * (HEADER_BYTES // 6) + b"A: b\r\n",
        b"\r\n" * 40_000,
        b"{" * 103,
        b"{" * 101 + b"\n",
    ],
)
def test_a_bad_frame_is_refused_and_ends_the_reading(stream: bytes) -> None:
    decoder = FrameDecoder(100)
    with pytest.raises(BadFrame):
        decoder.feed(stream)
    with pytest.raises(BadFrame):
        decoder.feed(encode(b"{}", Framing.LSP))


def test_the_frames_before_a_bad_one_are_given_first() -> None:
    decoder = FrameDecoder()
    assert [frame.content for frame in decoder.feed(encode(b"{}", Framing.LSP) + b"\x00")] == [b"{}"]
    assert decoder.refused is not None
    with pytest.raises(BadFrame):
        decoder.feed(b"")


def test_a_content_as_long_as_the_cap_is_read() -> None:
    content = b'{"a":"' + b"x" * 92 + b'"}'
    for framing in Framing:
        [frame] = FrameDecoder(100).feed(encode(content, framing))
        assert frame.content == content


def test_a_line_at_the_end_that_nobody_ended_is_one_and_half_a_frame_is_none() -> None:
    decoder = FrameDecoder()
    decoder.feed(b'{"a":1}')
    assert decoder.last == Frame(b'{"a":1}', [], Framing.NDJSON)
    for begun in (b"Content-Le", b"Content-Length: 2\r\n", b"Content-Length: 2\r\n\r\n{"):
        decoder = FrameDecoder()
        decoder.feed(begun)
        with pytest.raises(BadFrame):
            _ = decoder.last
