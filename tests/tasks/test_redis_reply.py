"""Replies of a Redis: bytes in, values out."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tasks import redis_reply
from gateway.tasks.redis_reply import Complaint, NoReply, Reply, ReplyReader

WIRE = b"+OK\r\n:7\r\n:-1\r\n$2\r\nab\r\n$0\r\n\r\n$-1\r\n*0\r\n*-1\r\n*3\r\n$4\r\na\r\nb\r\n:1\r\n*1\r\n$-1\r\n"
SAID: list[Reply] = [b"OK", 7, -1, b"ab", b"", None, [], None, [b"a\r\nb", 1, [None]]]


def test_every_type_is_read() -> None:
    assert ReplyReader().feed(WIRE) == SAID


@given(st.lists(st.integers(0, len(WIRE)), max_size=8).map(sorted))
def test_chunk_borders_do_not_matter(cuts: list[int]) -> None:
    reader = ReplyReader()
    borders = [0, *cuts, len(WIRE)]
    pieces = [WIRE[start:end] for start, end in itertools.pairwise(borders)]
    assert [reply for piece in pieces for reply in reader.feed(piece)] == SAID


def test_an_error_is_a_complaint_by_its_first_word() -> None:
    [complaint] = ReplyReader().feed(b"-WRONGPASS invalid username-password pair\r\n")
    assert isinstance(complaint, Complaint)
    assert (complaint.word, complaint.rest) == ("WRONGPASS", b"invalid username-password pair")
    [bare] = ReplyReader().feed(b"-\xff" + b"x" * 100 + b"\r\n")
    assert isinstance(bare, Complaint)
    assert len(bare.word) == 32


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b":\r\n",
        b":1_0\r\n",
        b":+1\r\n",
        b":--1\r\n",
        b": 1\r\n",
        b":" + b"1" * 40 + b"\r\n",
        b"$-2\r\n",
        b"$99999999999\r\n",
        b"$1\r\nab\r\n",
        b"*-2\r\n",
        b"*99999999999\r\n",
        b"*1\r\n" * 10 + b":1\r\n",
        b"%1\r\n+a\r\n+b\r\n",
        b"_1\r\n",
    ],
)
def test_what_is_no_reply_is_refused(said: bytes) -> None:
    with pytest.raises(NoReply):
        ReplyReader().feed(said)


def test_a_reply_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_reply, "LARGEST", 100)
    reader = ReplyReader()
    assert reader.feed(b"+" + b"x" * 50) == []
    with pytest.raises(NoReply):
        reader.feed(b"x" * 100)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(said: bytes) -> None:
    with contextlib.suppress(NoReply):
        ReplyReader().feed(said)
