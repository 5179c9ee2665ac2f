"""Server-sent events: bytes in, events out."""

import itertools
import re
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.sse import HEARTBEAT, Event, SseDecoder, encode
from tests.a2a.sample import vector
from tests.support.yardstick import growth
from tests.table import for_each

CAP = 4096
Read = tuple[str, bytes]


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    borders = sorted({0, len(stream), *(place % (len(stream) + 1) for place in cuts)})
    return [stream[start:end] for start, end in itertools.pairwise(borders)]


def feed(chunks: list[bytes], cap: int = CAP) -> tuple[list[Event], bytes]:
    decoder = SseDecoder(cap)
    return [event for chunk in chunks for event in decoder.feed(chunk)], decoder.rest


def reads(events: list[Event]) -> list[Read]:
    return [read for event in events if (read := event.read()) is not None]


@for_each("case", list(vector("sse")["cases"]))
def test_streams_are_read_as_the_standard_reads_them(case: dict[str, object]) -> None:
    raw = str(case["raw"]).encode()
    expected = [(name, data.encode()) for name, data in case["events_whatwg"]]  # type: ignore[attr-defined] # JSON
    for chunks in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        events, rest = feed(chunks)
        assert reads(events) == expected
        assert b"".join(event.raw for event in events) + rest == raw


# ---- Chunk borders and line ends do not matter (safety §6.5) ---------------------------------------------------------

cuts = st.lists(st.integers(0, 500), max_size=12)


def as_the_standard_reads(stream: bytes) -> list[Read]:
    """WHATWG HTML §9.2.6, line by line."""
    found: list[Read] = []
    name = "message"
    data: list[bytes] = []
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:
        if not line:
            if data:
                found.append((name, b"\n".join(data)))
            name, data = "message", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace") or "message"
    return found


soup = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"data", b":", b" ", b"x", b"event", b"\xff", b"\0", b"\xc3\xa4"]),
    max_size=30,
).map(b"".join)


@given(soup, cuts)
def test_any_bytes_are_read_as_the_standard_reads_them(stream: bytes, places: list[int]) -> None:
    events, rest = feed(cut(stream, places))
    assert reads(events) == as_the_standard_reads(stream)
    assert b"".join(event.raw for event in events) + rest == stream


def test_an_event_is_there_with_the_byte_that_ends_it() -> None:
    decoder = SseDecoder(CAP)
    assert reads(decoder.feed(b"data: 1\r\n\r")) == [("message", b"1")]
    assert [event.raw for event in decoder.feed(b"\ndata: 2\n\n")] == [b"\n", b"data: 2\n\n"]


def test_a_byte_order_mark_is_one_at_the_start_of_the_stream_only() -> None:
    stream = b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n"
    assert reads(feed([stream])[0]) == [("message", b"1"), ("message", b"3")] == as_the_standard_reads(stream)
    decoder = SseDecoder(CAP)
    assert decoder.last is None
    decoder.feed(b"\xef\xbb\xbfdata: 1")
    assert decoder.last is not None
    assert decoder.last.read() == ("message", b"1")


# ---- Bounds ----------------------------------------------------------------------------------------------------------


@for_each("event", [b"data: " + b"x" * CAP, b"data: x\n" * CAP, b": comment " + b"x" * CAP, b"\0" * CAP + b"x"])
@for_each("end", [b"\n\n", b""])
@for_each("size", [1, 1000, 10**6])
def test_an_event_over_the_cap_is_refused_and_never_shortened(event: bytes, end: bytes, size: int) -> None:
    stream = b"data: ok\n\n" + event + end
    decoder, seen = SseDecoder(CAP), []
    for at in range(0, len(stream), size):
        try:
            seen += decoder.feed(stream[at : at + size])
        except UpstreamProtocol:
            break
    # Earlier events are there with any chunks.
    assert [found.raw for found in seen] == [b"data: ok\n\n"]
    assert decoder.refused is not None
    assert "too long" in decoder.refused.message
    with pytest.raises(UpstreamProtocol):
        decoder.feed(b"data: more\n\n")
    assert decoder.rest == b""


def test_an_event_of_the_cap_passes() -> None:
    event = b"data: " + b"x" * (CAP - 8) + b"\n\n"
    assert len(event) == CAP
    for chunks in ([event], [event[:100], event[100:]], [event * 3]):
        assert feed(chunks)[0][0].raw == event


@for_each("flood", [b":\n\n", b"\n", b"\r\n", b": ping\r\n\r\n", b"\r", b":\n"])
def test_a_flood_of_nothing_is_one_piece(flood: bytes) -> None:
    stream = flood * 20_000
    events, rest = feed([b"data: 1\n\n" + stream])
    assert len(events) <= 3
    assert (reads(events), b"".join(event.raw for event in events) + rest) == (
        [("message", b"1")],
        b"data: 1\n\n" + stream,
    )


def lines(kind: bytes, number: int, start: bytes = b"") -> bytes:
    return start + kind * number + b"\n"


@for_each(
    ("raw", "read"),
    [
        (lines(b"data: x\n", 100_000), ("message", b"x\n" * 99_999 + b"x")),
        (lines(b"data: x\r\n", 100_000), ("message", b"x\n" * 99_999 + b"x")),
        (lines(b"data: x\r", 100_000, b"id: 7\n: c\nevent: e\n"), ("e", b"x\n" * 99_999 + b"x")),
        (lines(b"data:x\n", 10_000), ("message", b"x\n" * 9_999 + b"x")),
    ],
)
def test_an_event_of_many_lines_is_read_in_little_time_and_memory(raw: bytes, read: Read) -> None:
    event = Event(raw)
    tracemalloc.start()
    try:
        assert event.read() == read
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(raw) + (2 << 20)


@for_each("kind", [b"data:x\n", b"data: x\nid: 1\n", b"x\ndata\n"])
def test_an_event_of_too_many_lines_of_several_kinds_is_refused(kind: bytes) -> None:
    with pytest.raises(UpstreamProtocol, match="too many lines"):
        Event(lines(kind, 20_000)).read()


def test_reading_byte_by_byte_takes_time_in_proportion() -> None:
    def read(size: int) -> None:
        decoder = SseDecoder(10**7)
        for _ in range(size):
            decoder.feed(b"\r\nx")

    # Ten times the length; quadratic reading would take a hundred times as long.
    assert growth(lambda: read(10_000), lambda: read(100_000)) < 30


# ---- Writing ---------------------------------------------------------------------------------------------------------


@given(st.text(max_size=50), st.sampled_from([None, "error"]))
def test_written_events_are_read_again(text: str, name: str | None) -> None:
    events, rest = feed([encode(msgspec.json.encode(text), name)])
    assert rest == b""
    [(read_name, data)] = reads(events)
    assert (read_name, msgspec.json.decode(data)) == (name or "message", text)


def test_a_heartbeat_says_nothing() -> None:
    events, rest = feed([HEARTBEAT])
    assert (reads(events), rest) == ([], b"")


# ---- The event that a chunk is -------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from([b"data: x\n\n", b"data: y", b"\n\n", b"\n", b"\r", b": ping\n\n", b"data: a\ndata: b\n\n"])
    )
)
def test_an_event_that_is_a_chunk_is_the_one_that_feeding_gives(chunks: list[bytes]) -> None:
    quick, slow = SseDecoder(CAP), SseDecoder(CAP)
    for chunk in chunks:
        event, fed = quick.only(chunk), slow.feed(chunk)
        if event is None:
            assert quick.feed(chunk) == fed
        else:
            assert [(each.raw, each.read()) for each in fed] == [(event.raw, event.read())]
            assert event.line == b"x"
        assert quick.rest == slow.rest


def test_an_event_beyond_the_cap_is_not_read_on_its_own() -> None:
    assert SseDecoder(5).only(b"data: x\n\n") is None


@for_each("character", ["\x85", "\u2028", "\u2029"])
def test_line_ends_of_some_readers_are_escaped(character: str) -> None:
    text = f"\u201cone\u201d{character}\\\\{character}two\u0085\xc2\u00e2"
    event = encode(msgspec.json.encode({"text": text}))
    line, *rest = event.decode().splitlines()
    assert rest == [""]
    assert msgspec.json.decode(line.removeprefix("data: ")) == {"text": text}
    assert encode(b'{"text":"\\u201c\xe2\x80\x9c\xc3\xa4"}') == b'data: {"text":"\\u201c\xe2\x80\x9c\xc3\xa4"}\n\n'
