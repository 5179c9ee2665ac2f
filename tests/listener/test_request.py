"""A head is read in one way or refused, whether it comes at once or in pieces; on sockets: test_strictness.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.listener.http_limits import HttpLimits
from gateway.listener.request_parser import Again, RequestHead, Unreadable, check_start, read_head
from tests.listener.front import limited

BOUNDS = limited()


def head_of(raw: bytes, bounds: HttpLimits = BOUNDS) -> RequestHead:
    return read_head(raw, "192.0.2.1", "https", bounds)


def lines(*each: bytes, first: bytes = b"POST /a?b=c HTTP/1.1") -> bytes:
    return b"\r\n".join((first, b"Host: x", *each)) + b"\r\n\r\n"


# ---- What is refused -----------------------------------------------------------------------------------------------


def test_a_head_in_pieces_has_room_for_the_longest_that_is_allowed() -> None:
    bounds = limited(target=100, headers=200)
    whole = b"OPTIONS /" + b"a" * 99 + b" HTTP/1.1\r\nHost: x\r\nA: " + b"v" * 180 + b"\r\n\r\n"
    for size in range(1, len(whole) - 3):
        check_start(whole[:size], bounds)
    assert head_of(whole, bounds).head.method == "OPTIONS"
    assert len(whole) <= bounds.target + bounds.headers + len(" HTTP/1.1\r\n") + 32


def test_an_early_look_refuses_what_can_come_to_no_good_end() -> None:
    for start, status in (
        (b"g", 400),
        (b"\r", 400),
        (b"\x16\x03\x01", 400),
        (b"GET /\r\n", 400),
        (b"GET / HTTP/2.0\r\n", 505),
        (b"GET / HTTP/1.1\nHost", 400),
        (b"GET / HTTP/1.1\r\nA: b\nC", 400),
        (b"A" * 9000, 414),
        (b"GET /" + b"a" * 9000, 414),
        (b"GET / HTTP/1.1\r\nA: " + b"v" * 40_000, 431),
    ):
        with pytest.raises(Unreadable) as caught:
            check_start(start, BOUNDS)
        assert caught.value.status == status, start[:40]


def test_refusals_name_the_fault_and_nothing_else() -> None:
    for raw in (lines(b"X: \x00secret"), lines(b"Content-Length: secret"), lines(b"Upgrade: secret")):
        with pytest.raises(Unreadable) as caught:
            head_of(raw)
        assert "secret" not in caught.value.words


# ---- Cuts do not matter --------------------------------------------------------------------------------------------


def outcome(raw: bytes, cuts: list[int], bounds: HttpLimits) -> tuple[object, ...] | None:
    """Return a connection's reading of the first head in `raw`; None if it is refused."""
    received = b""
    checked = 0
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        received += raw[start:end]
        if not received:
            continue
        found = received.find(b"\r\n\r\n")
        try:
            if found >= 0:
                read = read_head(received[: found + 4], "p", "http", bounds)
                return read.head.method, read.head.path, read.head.headers, read.length, read.chunked, read.keeps
            check_start(received, bounds, checked)
        except Unreadable:
            return None
        checked = len(received)
    return ("more",)


PIECES = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n", b"POST /a HTTP/1.0\r\n", b"Host: x\r\n", b"Content-Length: 5\r\n", b"\r\n", b"\r", b"\n",
        b"Transfer-Encoding: chunked\r\n", b"A: ", b"v" * 30, b"Connection: close\r\n", b" ", b"\t", b"\0", b":",
        b"hello",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12), st.lists(st.integers(0, 200), max_size=6))
def test_a_head_cut_anywhere_is_read_as_it_is_in_one_piece(pieces: list[bytes], places: list[int]) -> None:
    raw = b"".join(pieces)
    cuts = sorted({place for place in places if 0 < place < len(raw)})
    bounds = limited(target=20, headers=80, header_count=4)
    whole = outcome(raw, [], bounds)
    for each in (cuts, list(range(1, len(raw)))):
        cut = outcome(raw, each, bounds)
        # In pieces it may be refused before its end has come, never read in another way.
        assert cut == whole or (cut is None and whole == ("more",))
        assert whole is not None or cut is None


# ---- The same head again -------------------------------------------------------------------------------------------


def test_a_repeated_head_is_recognised_at_any_length() -> None:
    for before, after in (
        (b"Content-Length: 5", b"Content-Length: 123456789"),
        (b"content-length:\t7 ", b"content-length:\t0 "),
    ):
        first = lines(b"A: 1", before, b"B: 2")
        read = head_of(first)
        again = Again(first, read)
        found = again.read(lines(b"A: 1", after, b"B: 2"))
        assert found is not None
        assert found.head is read.head
        assert found.length == head_of(lines(b"A: 1", after, b"B: 2")).length


def test_another_head_is_not_known() -> None:
    first = lines(b"A: 1", b"Content-Length: 5", b"B: 2")
    again = Again(first, head_of(first))
    for other in (
        lines(b"A: 2", b"Content-Length: 5", b"B: 2"),
        lines(b"A: 1", b"Content-Length: 5", b"B: 3"),
        lines(b"A: 1", b"Content-Length: ", b"B: 2"),
        lines(b"A: 1", b"Content-Length: 5\r\nContent-Length: 6", b"B: 2"),
        lines(b"A: 1", b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"B: 2"),
        lines(b"A: 1", b"Content-Length: -5", b"B: 2"),
        lines(b"A: 1", b"Content-Length: " + b"9" * 16, b"B: 2"),
        lines(b"A: 1", b"B: 2"),
        lines(b"A: 1", b"Content-Length: 5", b"B: 2", b"C: 3"),
        first[:40],
    ):
        assert again.read(other) is None
    short = b"GET / HTTP/1.0\r\n\r\n"
    assert Again(short, head_of(short)).read(short + b"x") is None


@given(st.binary(max_size=12), st.sampled_from([b"", b"Content-Length: 12\r\n", b"Transfer-Encoding: chunked\r\n"]))
def test_a_recognised_head_equals_the_parsed_one(middle: bytes, framing: bytes) -> None:
    first = b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n"
    other = first.replace(b"12", middle) if b"12" in framing else first[:-2] + middle + b"\r\n"
    found = Again(first, head_of(first)).read(other)
    if found is not None:
        assert found == head_of(other)
