"""Messages of gRPC: cut where they end, whatever the borders, and never longer than the cap."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.grpc import FrameDecoder, frame, unframe
from gateway.a2a.framing.sse import Event
from tests.table import for_each

messages = st.lists(st.binary(max_size=40), max_size=8)


def prefixed(message: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(message)) + message


def event(message: bytes) -> Event:
    return Event(prefixed(message), line=message)


def test_a_frame_is_a_flag_a_length_and_the_message() -> None:
    assert frame(b"abc") == b"\x00\x00\x00\x00\x03abc"
    assert frame(b"") == b"\x00\x00\x00\x00\x00"
    assert frame(b"x" * 0x010203)[:5] == b"\x00\x00\x01\x02\x03"


@given(messages)
def test_what_is_framed_is_found_again(given_: list[bytes]) -> None:
    assert unframe(b"".join(map(frame, given_))) == given_


@for_each(
    "data",
    [
        b"\x00",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x02a",
        frame(b"a") + b"\x00\x00",
        frame(b"a") + frame(b"bc")[:-1],
        prefixed(b"a", flag=1),
        prefixed(b"a", flag=0x80),
        frame(b"a") + prefixed(b"", flag=1),
        b"\x00\xff\xff\xff\xff",
    ],
)
def test_a_body_that_is_not_whole_plain_messages_has_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"body ends within|compressed"):
        unframe(data)


# ---- Streams ---------------------------------------------------------------------------------------------------------


@given(messages, st.lists(st.integers(min_value=0, max_value=200), max_size=10))
def test_chunk_borders_do_not_matter(given_: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, given_))
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder = FrameDecoder(40)
    found: list[Event] = []
    for start, end in itertools.pairwise(borders):
        chunk = stream[start:end]
        if (only := decoder.only(chunk)) is not None:
            found.append(only)
        else:
            found.extend(decoder.feed(chunk))
    assert found == [event(message) for message in given_]
    assert decoder.last is None
    assert decoder.refused is None


def test_a_message_reads_as_an_event_without_a_name() -> None:
    [found] = FrameDecoder(10).feed(frame(b"data: x"))
    assert found.read() == ("message", b"data: x")
    assert not found.silent


# ---- What is refused -------------------------------------------------------------------------------------------------


@for_each(
    ("bad", "why"),
    [
        (prefixed(b"a", flag=1), "compressed"),
        (prefixed(b"", flag=255), "compressed"),
        (frame(b"x" * 11), "too long"),
        (b"\x00\xff\xff\xff\xff", "too long"),
    ],
)
def test_a_message_that_is_refused_is_so_from_its_prefix_on(bad: bytes, why: str) -> None:
    decoder = FrameDecoder(10)
    assert decoder.feed(bad[:4]) == []
    with pytest.raises(UpstreamProtocol, match=why):
        decoder.feed(bad[4:5])
    assert decoder.refused is not None
    assert decoder.only(frame(b"a")) is None
    with pytest.raises(UpstreamProtocol, match=why):
        decoder.feed(frame(b"a"))


def test_what_came_before_it_goes_out_first() -> None:
    decoder = FrameDecoder(10)
    assert decoder.feed(frame(b"a") + frame(b"b") + frame(b"x" * 11) + frame(b"c")) == [event(b"a"), event(b"b")]
    assert decoder.refused is not None
    assert decoder.last is None
    with pytest.raises(UpstreamProtocol, match="too long"):
        decoder.feed(b"")


@for_each("rest", [b"\x00", b"\x00\x00\x00\x00\x02", frame(b"ab")[:-1]])
def test_a_stream_that_ends_within_a_message_did_not_end_well(rest: bytes) -> None:
    decoder = FrameDecoder(10)
    assert decoder.feed(frame(b"a") + rest) == [event(b"a")]
    with pytest.raises(UpstreamProtocol, match="within a message"):
        _ = decoder.last
