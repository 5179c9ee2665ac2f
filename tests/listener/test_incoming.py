"""Heads and bodies in pieces; over sockets: `test_protocol` and the others."""

import pytest

from gateway.listener.incoming import IncomingBody, IncomingHeads
from gateway.listener.introduction import UNMET
from gateway.listener.request import RequestHead, Unreadable, read_head
from tests.listener.front import limited

HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"


class Sink:
    def __init__(self) -> None:
        self.body = b""

    def feed(self, data: bytes) -> None:
        self.body += data


def heads() -> IncomingHeads:
    return IncomingHeads(limited())


def body(head: bytes) -> tuple[IncomingBody, Sink]:
    sink = Sink()
    return IncomingBody(sink, read_head(head, "p", "http", limited()), 1000, 0.0), sink


# ---- Heads ---------------------------------------------------------------------------------------------------------


def test_the_borders_of_pieces_do_not_matter() -> None:
    for cut in range(1, len(HEAD)):
        reading = heads()
        assert reading.feed(HEAD[:cut], "p", UNMET) is None
        found = reading.feed(HEAD[cut:] + b"hello", "p", UNMET)
        assert found is not None
        read, rest = found
        assert (read.head.path, read.length, rest) == (b"/x", 5, b"hello")
        assert not reading.received


def test_what_was_received_and_not_looked_at_is_read_with_the_rest() -> None:
    reading = heads()
    reading.received += HEAD
    found = reading.feed(b"", "p", UNMET)
    assert found is not None
    assert found[0].head.path == b"/x"


def test_the_same_head_again_is_the_same_until_it_is_forgotten() -> None:
    reading = heads()

    def again() -> RequestHead:
        found = reading.feed(HEAD, "p", UNMET)
        assert found is not None
        return found[0]

    first = again()
    assert reading.knows
    assert again().head is first.head
    reading.forget()
    assert not reading.knows
    assert again().head is not first.head


def test_a_long_head_is_not_kept() -> None:
    reading = heads()
    reading.feed(HEAD[:-2] + b"A: " + b"a" * 3000 + b"\r\n\r\n", "p", UNMET)
    assert not reading.knows


def test_what_can_come_to_no_good_end_is_refused_before_it_does() -> None:
    with pytest.raises(Unreadable):
        heads().feed(b"\x16\x03\x01", "p", UNMET)


# ---- Bodies --------------------------------------------------------------------------------------------------------


def test_a_counted_body_ends_with_its_last_byte() -> None:
    reading, sink = body(HEAD)
    assert not reading.feed(b"hel")
    assert reading.feed(b"loX")
    assert (sink.body, reading.excess) == (b"hello", True)


def test_a_chunked_body_ends_with_its_last_chunk() -> None:
    reading, sink = body(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert not reading.feed(b"5\r\nhello\r\n")
    assert reading.feed(b"0\r\n\r\n")
    assert (sink.body, reading.excess) == (b"hello", False)


def test_a_rate_counts_after_a_while_and_from_when_somebody_reads() -> None:
    reading, _ = body(HEAD.replace(b"5", b"500"))
    reading.feed(b"x" * 100)
    assert not reading.is_slow(9.0, 1000)
    assert reading.is_slow(11.0, 1000)
    assert not reading.is_slow(11.0, 9)
    reading.count_from(11.0)
    assert not reading.is_slow(20.0, 1000)
    assert reading.is_slow(22.0, 9)
