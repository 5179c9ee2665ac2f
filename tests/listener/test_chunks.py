"""Chunks become a body, and nothing else in them counts; on sockets: test_strictness.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.listener.chunks import Chunks
from gateway.listener.request import Unreadable


class Body:
    def __init__(self) -> None:
        self.data = b""

    def feed(self, data: bytes) -> None:
        self.data += data


def read(*pieces: bytes, longest: int = 1000) -> tuple[bytes, bool, bool]:
    body = Body()
    chunks = Chunks(body, longest)
    size = sum(chunks.feed(piece) for piece in pieces)
    assert size == len(body.data)
    return body.data, chunks.done, chunks.excess


def test_chunks_are_a_body() -> None:
    assert read(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n") == (b"abcde", True, False)
    assert read(b"0\r\n\r\n") == (b"", True, False)
    assert read(b"A\r\n0123456789\r\n", b"a\r\n0123") == (b"01234567890123", False, False)


def test_what_comes_behind_the_last_chunk_is_no_part_of_the_body() -> None:
    assert read(b"1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n") == (b"a", True, True)
    assert read(b"1\r\na\r\n0\r\n\r\n", b"x") == (b"a", True, True)
    assert read(b"1\r\na\r\n0\r\nConnection: close\r\n\r\n", b"x") == (b"a", True, True)


def test_trailers_are_dropped_and_bounded() -> None:
    trailer = b"authorization: secret\r\n"
    assert read(b"1\r\na\r\n0\r\n" + trailer + b"\r\n") == (b"a", True, False)
    assert read(b"1\r\na\r\n0\r\n", *[trailer] * 43, b"\r\n") == (b"a", True, False)
    with pytest.raises(Unreadable) as caught:
        read(b"1\r\na\r\n0\r\n", *[trailer] * 44)
    assert caught.value.status == 431


def test_a_chunk_whose_data_comes_later_is_no_trailer() -> None:
    pieces = [b"3\r\n", *[b"abc\r\n3\r\n"] * 1000, b"abc\r\n0\r\n\r\n"]
    assert read(*pieces, longest=10)[0] == b"abc" * 1001


@pytest.mark.parametrize("chunks", [b"x\r\n", b"1\r\nab\r\n", b"1\na\n", b"0\r\nnone\r\n\r\n", b"-1\r\n"])
def test_what_is_no_chunk_is_refused(chunks: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        read(chunks)
    assert caught.value.status == 400


def test_a_lot_of_bytes_for_next_to_nothing_is_refused() -> None:
    for chunks in (b"1;" + b"x" * 200_000 + b"\r\na", b"0" * 200_000 + b"1\r\na", b"1;xxxxxxxxxxxxx\r\na\r\n" * 20_000):
        with pytest.raises(Unreadable):
            read(chunks)
    # As many bytes of framing as any client needs.
    assert read(b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n")[0] == b"a" * 100_000


@given(st.lists(st.binary(min_size=1, max_size=9)), st.lists(st.integers(0, 99), max_size=9))
def test_cuts_do_not_matter(parts: list[bytes], places: list[int]) -> None:
    raw = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nx: y\r\n\r\n"
    cuts = sorted({place for place in places if 0 < place < len(raw)})
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert read(*pieces) == read(raw) == (b"".join(parts), True, False)
