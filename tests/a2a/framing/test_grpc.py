"""Messages of gRPC behind their prefixes, and never longer than the cap."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.grpc import FrameDecoder, frame, unframe
from gateway.a2a.framing.sse import Event
from tests.table import for_each

messages = st.lists(st.binary(max_size=40), max_size=8)


def event(message: bytes) -> Event:
    return Event(frame(message), line=message)


def test_a_frame_is_a_flag_a_length_and_the_message() -> None:
    assert frame(b"abc") == b"\x00\x00\x00\x00\x03abc"
    assert frame(b"") == b"\x00\x00\x00\x00\x00"
    assert frame(b"x" * 0x010203)[:5] == b"\x00\x00\x01\x02\x03"


@given(messages)
def test_framed_messages_are_found_again(given_: list[bytes]) -> None:
    assert unframe(b"".join(map(frame, given_))) == given_


@given(messages, st.integers(min_value=1, max_value=50))
def test_a_message_may_come_in_pieces(given_: list[bytes], size: int) -> None:
    decoder = FrameDecoder(40)
    found: list[Event] = []
    for whole in map(frame, given_):
        for start in range(0, len(whole), size):
            piece = whole[start : start + size]
            only = decoder.only(piece)
            found += decoder.feed(piece) if only is None else [only]
    assert found == [event(message) for message in given_]
    assert (decoder.last, decoder.refused, decoder.held) == (None, None, 0)


def test_a_message_reads_as_an_event_without_a_name() -> None:
    [found] = FrameDecoder(10).feed(frame(b"data: x"))
    assert found.read() == ("message", b"data: x")
    assert not found.silent


@for_each("bad", [frame(b"x" * 11), struct.pack(">BI", 0, 2**32 - 1)])
def test_a_message_that_is_too_long_is_refused_from_its_prefix_on(bad: bytes) -> None:
    decoder = FrameDecoder(10)
    assert decoder.only(bad) is None
    assert decoder.feed(bad[:4]) == []
    with pytest.raises(UpstreamProtocol, match="too long"):
        decoder.feed(bad[4:5])
    assert decoder.refused is not None
