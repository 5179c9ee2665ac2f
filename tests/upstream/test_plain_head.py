"""Heads of answers that need no parser: they mean what the parser says, and whatever is unusual is left to it."""

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.a2a.fault import UpstreamProtocol, UpstreamReset
from gateway.upstream.response_parser import PlainHeads, ResponseParser
from tests.table import for_each

BYTES, COUNT = 2048, 8
GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nDate: today\r\n\r\n{}"


def heads() -> PlainHeads:
    return PlainHeads(BYTES, COUNT)


UNUSUAL = {
    "half a head": GOOD[:40],
    "HTTP/1.0": GOOD.replace(b"1.1", b"1.0"),
    "another protocol": GOOD.replace(b"HTTP", b"RTSP"),
    "an interim answer": GOOD.replace(b"200", b"100"),
    "no body": GOOD.replace(b"200", b"204"),
    "not modified": GOOD.replace(b"200", b"304"),
    "no such status": GOOD.replace(b"200", b"600"),
    "no reason": GOOD.replace(b"200 OK", b"200"),
    "a reason that is no text": GOOD.replace(b"OK", b"O\xffK"),
    "a bare line feed": GOOD.replace(b"\r\nDate", b"\nDate"),
    "a bare carriage return": GOOD.replace(b"today", b"to\rday"),
    "a folded line": GOOD.replace(b"today", b"today\r\n and tomorrow"),
    "a space in front of a colon": GOOD.replace(b"Date:", b"Date :"),
    "a header without a name": GOOD.replace(b"Date:", b":"),
    "a header without a colon": GOOD.replace(b"Date: today", b"Date"),
    "a NUL": GOOD.replace(b"today", b"to\0day"),
    "a delete": GOOD.replace(b"today", b"to\x7fday"),
    "two lengths": GOOD.replace(b"Date: today", b"Content-Length: 2"),
    "a length in a list": GOOD.replace(b"Length: 2", b"Length: 2, 2"),
    "a signed length": GOOD.replace(b"Length: 2", b"Length: +2"),
    "an endless length": GOOD.replace(b"Length: 2", b"Length: " + b"2" * 16),
    "a length with white space": GOOD.replace(b"Length: 2", b"Length: 2 "),
    "an empty length": GOOD.replace(b"Length: 2", b"Length: "),
    "no length": GOOD.replace(b"Content-Length", b"X-Length"),
    "chunks": GOOD.replace(b"Date: today", b"Transfer-Encoding: chunked"),
    "a coding": GOOD.replace(b"Date: today", b"Content-Encoding: gzip"),
    "a connection that ends": GOOD.replace(b"Date: today", b"Connection: close"),
    "a connection of many words": GOOD.replace(b"Date: today", b"Connection: keep-alive, close"),
    "a proxy's word": GOOD.replace(b"Date: today", b"Proxy-Connection: close"),
    "an upgrade": GOOD.replace(b"Date: today", b"Upgrade: h2c"),
    "too many headers": GOOD.replace(b"Date: today", b"a: b\r\n" * COUNT + b"a: b"),
    "too many bytes": GOOD.replace(b"today", b"x" * BYTES),
}


@for_each("data", UNUSUAL.values())
def test_unusual_heads_are_left_to_the_parser(data: bytes) -> None:
    kept = heads()
    assert kept.read(data) is None
    # Nor is it read by the one before.
    assert kept.read(GOOD) is not None
    assert kept.read(data) is None


def test_cached_heads_share_no_headers() -> None:
    kept, found = heads(), []
    for length in (b"2", b"0", b"10", b"2"):
        made = ResponseParser(BYTES, COUNT, kept)
        made.feed(GOOD[:-2].replace(b"Length: 2", b"Length: " + length))
        found.append(dict(made.headers)[b"content-length"])
        made.headers.clear()
    assert found == [b"2", b"0", b"10", b"2"]


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"Content-Length: 2", b"content-length:2", b"Content-Length:  02", b"Content-Length: 0",
                b"Content-Length: 2\t", b"Content-Length: 1_0", b"Transfer-Encoding: chunked",
                b"Content-Encoding: identity", b"Connection: keep-alive", b"Connection: close", b"Connection:",
                b"connection: keep-alive, upgrade", b"Upgrade: h2c", b"Proxy-Connection: close", b"a:", b"a:\t b \t",
                b"a: \xff", b" folded", b"no colon", b"a : b", b": b", b"a: \x00", b"a: b\rc", b"a: b\nc", b"",
            ]
        ),
        st.binary(max_size=12),
    ),
    max_size=5,
)  # fmt: skip
STARTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK", b"HTTP/1.1 200 ", b"HTTP/1.1 200", b"HTTP/1.1 404 Not Found", b"HTTP/1.1 204 x",
        b"HTTP/1.1 599 x", b"HTTP/1.1 100 x", b"HTTP/1.0 200 OK", b"HTTP/1.1 099 x", b"HTTP/2.0 200 OK",
        b"http/1.1 200 OK", b"HTTP/1.1 200 O\tK", b"HTTP/1.1 200 \xff", b"HTTP/1.1  200 OK", b"\r\nHTTP/1.1 200 OK",
    ]
)  # fmt: skip


def outcome(plain: PlainHeads | None, raw: bytes) -> tuple[object, ...]:
    made = ResponseParser(BYTES, COUNT, plain)
    try:
        made.feed(raw)
        if not made.ended:
            made.close()
    except UpstreamProtocol:
        return ("refused",)
    except UpstreamReset:
        return "cut", made.status
    return made.status, made.headers, made.reusable, made.ended, made.take()


@given(st.lists(st.tuples(STARTS, LINES, st.sampled_from([b"", b"{}", b"{}{", b"2\r\n{}\r\n0\r\n\r\n"])), max_size=4))
@example([(b"HTTP/1.1 200 OK", [b"Content-Length: 2"], b"{}"), (b"HTTP/1.1 200 OK", [b"Content-Length: 02"], b"{}")])
@example([(b"HTTP/1.1 200 OK", [b"Content-Length: 2"], b"{}"), (b"HTTP/1.1 200 OK", [b"Content-Length: 2 "], b"{}")])
def test_plain_heads_mean_what_the_parser_says(answers: list[tuple[bytes, list[bytes], bytes]]) -> None:
    # One after the other: each may be known by the one before.
    kept = heads()
    for start, lines, body in answers:
        raw = b"\r\n".join([start, *lines, b"", body])
        assert outcome(kept, raw) == outcome(None, raw)


@given(st.binary(max_size=24), st.integers(0, len(GOOD)), st.integers(0, 24))
def test_damaged_heads_mean_what_the_parser_says(damage: bytes, at: int, over: int) -> None:
    kept = heads()
    kept.read(GOOD)
    raw = GOOD[:at] + damage + GOOD[at + over :]
    assert outcome(kept, raw) == outcome(None, raw)
