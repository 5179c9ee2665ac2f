"""The reading of an answer's bytes, and the bytes that are refused."""

from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.a2a.fault import UpstreamProtocol, UpstreamReset
from gateway.upstream.response_parser import PlainHeads, ResponseParser
from tests.support.scripted import chunk, chunked, head, whole
from tests.table import for_each

CHUNKS = head(b"transfer-encoding: chunked")


def reader() -> ResponseParser:
    return ResponseParser(32 * 1024, 100, PlainHeads(32 * 1024, 100))


def read(*pieces: bytes) -> ResponseParser:
    made = reader()
    for piece in pieces:
        made.feed(piece)
    return made


def refusal(*pieces: bytes) -> str:
    with pytest.raises(UpstreamProtocol) as refused:
        read(*pieces)
    assert refused.value.reason == "upstream_protocol"
    return refused.value.detail


# ---- What is understood --------------------------------------------------------------------------------------------


def test_identity_is_no_encoding() -> None:
    assert read(whole(b"x", b"content-encoding: Identity ")).ended


VALID = st.one_of(
    st.builds(whole, st.binary(max_size=200)),
    st.builds(chunked, st.lists(st.binary(min_size=1, max_size=50), max_size=6)),
    st.builds(lambda body: b"HTTP/1.1 100 Continue\r\n\r\n" + whole(body), st.binary(max_size=50)),
    st.builds(lambda body: head() + body, st.binary(max_size=50)),
)


@given(VALID, st.lists(st.integers(1, 300), max_size=40))
@example(chunked([b"a", b"b"]), [1] * 40)
def test_chunk_borders_do_not_matter(answer: bytes, cuts: list[int]) -> None:
    pieces = []
    rest = answer
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    pieces.append(rest)
    at_once, in_pieces = read(answer), read(*pieces)
    assert at_once.take() == in_pieces.take()
    assert (at_once.status, at_once.headers, at_once.ended) == (in_pieces.status, in_pieces.headers, in_pieces.ended)


UNUSUAL = {
    "half a chunk": b"5\r\nhel",
    "more than a chunk": b"5\r\nhello\r\n1",
    "two chunks": b"1\r\na\r\n1\r\nb\r\n",
    "an extension": b"5;a=b\r\nhello\r\n",
    "a zero in front": b"05\r\nhello\r\n",
    "the last chunk": b"0\r\n\r\n",
    "another size": b"6\r\nhello\r\n",
    "a signed size": b"+5\r\nhello\r\n",
    "a prefix": b"0x5\r\nhello\r\n",
    "an underscore": b"1_0\r\n" + b"x" * 16 + b"\r\n",
    "a space": b"5 \r\nhello\r\n",
    "no size": b"\r\nhello\r\n",
    "another line end": b"5\nhello\r\n",
    "no line end": b"5\r\nhelloXX",
    "capital digits": b"A\r\n0123456789\r\n",
    "a long chunk": b"1000\r\n" + b"x" * 4096 + b"\r\n",
}


@for_each("data", UNUSUAL.values())
def test_partial_and_several_chunks_are_left_to_the_parser(data: bytes) -> None:
    assert read(CHUNKS).chunk(data) is None


@given(
    st.lists(
        st.sampled_from(
            [
                b"5\r\nhello\r\n",
                b"2\r\nh",
                b"o\r\n",
                b"3;x=y\r\n",
                b"abc\r",
                b"\n",
                b"0\r\n",
                b"\r\n",
                b"a: b\r\n",
                b"A\r\n0123456789\r\n",
                b"a\r\n0123456789\r\n",
            ]
        )
    )
)
def test_whole_chunks_mean_what_the_parser_says(pieces: list[bytes]) -> None:
    def outcome(feed: Callable[[ResponseParser, bytes], bytes]) -> tuple[object, ...]:
        made, body = read(CHUNKS), b""
        try:
            for piece in pieces:
                body += feed(made, piece)
        except UpstreamProtocol:
            return body, "refused"
        return body, made.ended, made.reusable

    def fast(made: ResponseParser, piece: bytes) -> bytes:
        whole = made.chunk(piece)
        if whole is not None:
            return whole
        made.feed(piece)
        return made.take()

    def slow(made: ResponseParser, piece: bytes) -> bytes:
        made.between = False
        made.feed(piece)
        return made.take()

    assert outcome(fast) == outcome(slow)


@given(VALID, st.binary(min_size=1, max_size=40), st.integers(0, 40))
def test_bytes_behind_the_end_are_never_part_of_anything(answer: bytes, extra: bytes, cut: int) -> None:
    made = read(answer)
    if not made.ended:
        return  # ends with the connection, so there is no behind
    clean = made.take()
    tainted = reader()
    border = len(answer) - min(cut, len(answer))
    try:
        tainted.feed(answer[:border])
        tainted.feed(answer[border:] + extra)
    except UpstreamProtocol:
        pass
    else:
        assert not tainted.reusable
    assert tainted.take() == clean


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_garbage_is_refused_or_awaited_but_never_an_answer(pieces: list[bytes]) -> None:
    # Bytes that begin like an answer may be one.
    assume(not b"".join(pieces).startswith(b"HTTP/1."))
    made = reader()
    try:
        for piece in pieces:
            made.feed(piece)
    except UpstreamProtocol:
        pass
    assert made.status == 0


# ---- What is not used again ------------------------------------------------------------------------------------------


@for_each(
    "answer",
    [
        whole(b"x", b"connection: close"),
        whole(b"x", b"connection: foo, Close"),
        whole(b"x", b"proxy-connection: close"),
        head(b"content-length: 1", b"connection: keep-alive", version=b"1.0") + b"x",
        CHUNKS + chunk(b"x") + b"0\r\nx: y\r\n\r\n",
        CHUNKS + chunk(b"x") + b"0;ext\r\n\r\n",
        head(b"content-length: 5", status=b"204 No Content"),
        head(b"transfer-encoding: chunked", status=b"204 No Content"),
    ],
)
def test_a_connection_in_any_doubt_is_not_reused(answer: bytes) -> None:
    made = read(answer)
    assert (made.ended, made.reusable) == (True, False)


# ---- What is refused -------------------------------------------------------------------------------------------------


@for_each(
    "answer",
    [
        b"garbage", b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"RTSP/1.1 200 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n", b"HTTP/0.9 200 OK\r\n\r\n", b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 200 OK\r\na: b\n\r\n", b"HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na : b\r\n\r\n", b"HTTP/1.1 200 OK\r\na: b\0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n", head(b"content-length: -1"), head(b"content-length: +1"),
        head(b"content-length: 1x"), head(b"content-length: "), head(b"content-length: 1, 1"),
        head(b"content-length: 1", b"content-length: 1"), head(b"content-length: 1", b"content-length: 2"),
        head(b"content-length: 9999999999999999"), head(b"content-length: 1", b"transfer-encoding: chunked"),
        head(b"transfer-encoding: chunked", b"content-length: 1"), head(b"transfer-encoding: gzip, chunked"),
        head(b"transfer-encoding: chunked, gzip"), head(b"transfer-encoding: identity"),
        head(b"transfer-encoding: chunked", b"transfer-encoding: chunked"), head(b"transfer-encoding: xchunked"),
        head(b"transfer-encoding: chunked", version=b"1.0"), CHUNKS + b"0x1\r\nx\r\n", CHUNKS + b"-1\r\nx\r\n",
        CHUNKS + b"1\nx\r\n", CHUNKS + b"fffffffffffffffff\r\n", CHUNKS + b"1\r\nxx\r\n",
        whole(b"x", b"content-encoding: gzip"), whole(b"x", b"content-encoding: identity, br"),
    ],
)  # fmt: skip
def test_ambiguous_responses_are_refused(answer: bytes) -> None:
    assert refusal(answer)
    # However it is cut.
    assert refusal(*(answer[at : at + 1] for at in range(len(answer))))


def test_a_second_answer_is_refused_and_the_first_one_kept() -> None:
    for first in (whole(b"one"), chunked([b"one"])):
        made = reader()
        with pytest.raises(UpstreamProtocol, match="not valid HTTP") as refused:
            made.feed(first + whole(b"two"))
        assert refused.value.detail == "bytes after the end of the answer"
        assert made.take() == b"one"


def test_a_head_is_bounded_however_it_comes() -> None:
    line = b"a: " + b"x" * 997 + b"\r\n"
    assert "head exceeds" in refusal(b"HTTP/1.1 200 OK\r\n", *([line] * 33))
    assert "head exceeds" in refusal(b"HTTP/1.1 200 OK\r\na: " + b"x" * (4 << 20))
    assert "head exceeds" in refusal(*([b"HTTP/1.1 103 Hi\r\n" + line * 10 + b"\r\n"] * 4))


def test_headers_are_counted() -> None:
    assert read(whole(b"x", *[b"a: b"] * 98)).ended
    assert "headers" in refusal(whole(b"x", *[b"a: b"] * 99))


def test_endless_trailers_and_extensions_are_refused() -> None:
    assert "between" in refusal(CHUNKS, b"0\r\na: ", *([b"x" * 1000] * 40))
    assert "between" in refusal(CHUNKS, b"1;a=", *([b"x" * 1000] * 40))


def test_no_answer_is_complete_before_its_end() -> None:
    for pieces, where in (
        ((), "without an answer"),
        ((b"HTTP/1.1 200",), "in the head"),
        ((whole(b"hello")[:-1],), "in the body"),
        ((CHUNKS, chunk(b"hello")), "in the body"),
    ):
        made = read(*pieces)
        with pytest.raises(UpstreamReset) as reset:
            made.close()
        assert reset.value.detail == f"closed {where}"
