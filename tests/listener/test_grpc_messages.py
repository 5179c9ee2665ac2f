"""Messages of a client: cut by their prefixes, and refused by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import BodyTooLarge, EncodedBody
from gateway.a2a.framing.grpc import frame
from gateway.listener.grpc_messages import PREFIX, Messages


def every(found: Messages, limit: int = 1000) -> list[bytes]:
    read = []
    while len(found) >= (needed := found.needed(limit)):
        read.append(found.take(needed))
    return read


@given(st.lists(st.binary(max_size=100), max_size=10), st.lists(st.integers(1, 30), min_size=1))
def test_the_borders_of_pieces_do_not_matter(messages: list[bytes], sizes: list[int]) -> None:
    data = b"".join(map(frame, messages))
    found, read, at, turn = Messages(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found.feed(data[at : at + size])
        at, turn = at + size, turn + 1
        read += every(found)
    assert read == messages
    assert len(found) == 0


def test_a_message_that_is_too_long_is_refused_by_its_prefix() -> None:
    found = Messages()
    assert found.needed(10) == PREFIX
    found.feed(frame(b"x" * 11)[:PREFIX])
    assert found.needed(11) == PREFIX + 11
    with pytest.raises(BodyTooLarge):
        found.needed(10)


@pytest.mark.parametrize("flag", [1, 2, 255])
def test_a_message_that_is_compressed_is_refused_by_its_prefix(flag: int) -> None:
    found = Messages()
    found.feed(bytes((flag, 0, 0, 0, 0)))
    with pytest.raises(EncodedBody):
        found.needed(10)


def test_what_is_let_go_of_is_gone() -> None:
    found = Messages()
    found.feed(b"abc")
    found.clear()
    assert len(found) == 0
