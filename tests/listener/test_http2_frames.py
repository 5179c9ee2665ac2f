"""Frames on their way in: cut where they end, and refused from their first bytes."""

import pytest
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st

from gateway.listener.http2_frames import (
    ANY_STREAM,
    LONGEST_FRAME,
    PREFACE,
    Frame,
    FrameRefused,
    Frames,
    Kind,
    OtherProtocol,
    goaway,
)
from tests.listener.grpc_front import raw_frame

END_HEADERS = 4
SETTINGS = raw_frame(Kind.SETTINGS)
GREETING = PREFACE + SETTINGS


class Clock:
    now = 7.0

    def __call__(self) -> float:
        return self.now


def frames(data: bytes = GREETING, longest_block: int = 1000) -> Frames:
    """Frames after what a client says first."""
    found = Frames(longest_block, Clock())
    found.feed(data)
    if data == GREETING:
        assert [frame.kind for frame in every(found)] == [Kind.SETTINGS]
    return found


def every(found: Frames) -> list[Frame]:
    read = []
    while (frame := found.next()) is not None:
        read.append(frame)
    return read


def refused(found: Frames, data: bytes) -> FrameRefused:
    found.feed(data)
    with pytest.raises(FrameRefused) as caught:
        every(found)
    return caught.value


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Kind.DATA, Kind.PING, Kind.WINDOW_UPDATE, Kind.RST_STREAM, 77]),
            st.integers(0, 255),
            st.integers(0, 2**31 - 1),
            st.binary(max_size=50),
        ),
        max_size=10,
    ),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_the_borders_of_packets_do_not_matter(said: list[tuple[int, int, int, bytes]], sizes: list[int]) -> None:
    data = GREETING + b"".join(raw_frame(*each) for each in said)
    found, read, at, turn = Frames(1000, Clock()), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found.feed(data[at : at + size])
        at, turn = at + size, turn + 1
        read += every(found)
        assert len(found) < 9 + 50
    assert [(frame.kind, frame.flags, frame.stream) for frame in read[1:]] == [each[:3] for each in said]
    assert b"".join(frame.raw for frame in read) == data[len(PREFACE) :]
    assert [frame.size for frame in read[1:]] == [len(each[3]) for each in said]


def test_the_first_bit_of_a_stream_has_no_meaning() -> None:
    found = frames()
    found.feed(raw_frame(Kind.DATA, 0, 0x80000003, b"x"))
    [frame] = every(found)
    assert frame.stream == 3


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"P\0", b"\x16\x03\x01", PREFACE[:-1] + b"x"])
def test_another_protocol_is_known_by_its_first_other_byte(said: bytes) -> None:
    assert isinstance(refused(Frames(1000, Clock()), said), OtherProtocol)


def test_a_preface_may_come_in_pieces() -> None:
    found = Frames(1000, Clock())
    for at in range(len(GREETING)):
        assert not found.begun
        found.feed(GREETING[at : at + 1])
        assert bool(every(found)) == (at == len(GREETING) - 1)
    assert found.begun


@pytest.mark.parametrize("said", [raw_frame(Kind.PING, 0, 0, b"12345678"), raw_frame(Kind.SETTINGS, 1)])
def test_settings_come_first(said: bytes) -> None:
    assert refused(frames(PREFACE), said[:9]).code is ErrorCodes.PROTOCOL_ERROR


def test_a_frame_that_is_too_long_is_refused_before_it_comes() -> None:
    found = frames()
    found.feed(raw_frame(Kind.DATA, 0, 1, b"x" * LONGEST_FRAME))
    assert [frame.size for frame in every(found)] == [LONGEST_FRAME]
    announced = (LONGEST_FRAME + 1).to_bytes(3, "big") + bytes(6)
    assert refused(found, announced).code is ErrorCodes.FRAME_SIZE_ERROR


def test_a_header_block_that_is_too_long_is_refused_before_it_comes() -> None:
    found = frames(longest_block=100)
    found.feed(raw_frame(Kind.HEADERS, 0, 1, b"x" * 60) + raw_frame(Kind.CONTINUATION, 0, 1, b"x" * 40))
    assert len(every(found)) == 2
    assert refused(found, raw_frame(Kind.CONTINUATION, 0, 1, b"x")[:9]).code is ErrorCodes.ENHANCE_YOUR_CALM
    assert refused(frames(longest_block=100), raw_frame(Kind.HEADERS, END_HEADERS, 1, b"x" * 101)[:9]).words


def test_a_header_block_is_known_to_be_unfinished() -> None:
    found = frames()
    for _ in range(2):
        assert found.block_since is None
        found.feed(raw_frame(Kind.HEADERS, 0, 1, b"x"))
        every(found)
        assert found.block_since == 7.0
        found.feed(raw_frame(Kind.CONTINUATION, END_HEADERS, 1, b"x"))
        every(found)
    assert found.block_since is None


@pytest.mark.parametrize(
    "said",
    [
        raw_frame(Kind.DATA, 0, 1, b"x"),
        raw_frame(Kind.CONTINUATION, END_HEADERS, 3, b"x"),
        raw_frame(Kind.HEADERS, END_HEADERS, 1, b"x"),
        raw_frame(Kind.GOAWAY, 0, 0, bytes(8)),
        raw_frame(200, 0, 0, b"x"),
    ],
)
def test_nothing_comes_between_the_parts_of_a_header_block(said: bytes) -> None:
    found = frames()
    found.feed(raw_frame(Kind.HEADERS, 0, 1, b"x"))
    every(found)
    assert refused(found, said).code is ErrorCodes.PROTOCOL_ERROR


def test_no_header_block_begins_with_its_continuation() -> None:
    assert refused(frames(), raw_frame(Kind.CONTINUATION, END_HEADERS, 1, b"x")).code is ErrorCodes.PROTOCOL_ERROR


def test_settings_that_mean_nothing_here_are_left_out() -> None:
    found = frames()
    known, unknown = bytes((0, 3, 0, 0, 0, 9)), bytes((0xFE, 3, 0, 0, 0, 1))
    found.feed(raw_frame(Kind.SETTINGS, 0, 0, unknown + known + unknown))
    found.feed(raw_frame(Kind.SETTINGS, 0, 0, known))
    assert [frame.raw for frame in every(found)] == [raw_frame(Kind.SETTINGS, 0, 0, known)] * 2


def test_a_flood_of_settings_in_one_frame_is_refused() -> None:
    assert refused(frames(), raw_frame(Kind.SETTINGS, 0, 0, bytes(6 * 33))).code is ErrorCodes.ENHANCE_YOUR_CALM
    assert refused(frames(), raw_frame(Kind.SETTINGS, 0, 0, bytes(7))).code is ErrorCodes.FRAME_SIZE_ERROR


@pytest.mark.parametrize(
    ("frame", "scrap"),
    [
        (raw_frame(Kind.DATA, 0, 1, b""), True),
        (raw_frame(Kind.DATA, 0, 1, b"x"), True),
        (raw_frame(Kind.DATA, 1, 1, b""), False),
        (raw_frame(Kind.DATA, 0, 1, b"x" * 16), False),
        (raw_frame(Kind.PING, 0, 0, bytes(8)), False),
    ],
)
def test_a_scrap_is_data_that_is_hardly_any(frame: bytes, *, scrap: bool) -> None:
    found = frames()
    found.feed(frame)
    assert [each.is_scrap for each in every(found)] == [scrap]


def test_what_is_let_go_of_is_not_read() -> None:
    found = frames()
    found.feed(raw_frame(Kind.HEADERS, 0, 1, b"x"))
    every(found)
    found.feed(b"\0")
    found.clear()
    assert (len(found), found.next(), found.block_since) == (0, None, None)


def test_a_goaway_names_the_last_stream_and_why() -> None:
    said = goaway(ANY_STREAM, ErrorCodes.ENHANCE_YOUR_CALM)
    assert said == raw_frame(Kind.GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes((0, 0, 0, 11)))
