"""Requests that two servers in a row could read in two ways are refused, on real sockets (safety H4 to H8)."""

import asyncio
import tracemalloc

import pytest

from gateway.a2a.call import Head
from gateway.listener.http1 import ClientResponder
from tests.listener.front import Front, fronting, limited
from tests.support.gateway import request
from tests.table import for_each

pytestmark = pytest.mark.anyio

GET = request("GET", "/", None)
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SECOND = b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n"


async def refused(front: Front, data: bytes, *statuses: int) -> None:
    """See that `data` is refused in plain HTTP with one of these, and that nothing behind it is served."""
    for pieces in ([data], [data[:7], data[7:]], [data[:-1], data[-1:]]):
        client = await front.client()
        try:
            for piece in pieces:
                await client.send(piece)
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        said = await client.ended()
        line, _, rest = said.partition(b"\r\n")
        assert int(line.split(b" ")[1]) in statuses, (data[:200], said)
        assert b"\r\nconnection: close\r\n" in rest
        assert b"\r\ncontent-type: text/plain; charset=utf-8\r\n" in rest
        assert said.count(b"\r\ncontent-length: ") == 1
        assert not any(head.path == b"/second" for head in front.heads)


# ---- H5: whose host ------------------------------------------------------------------------------------------------


@for_each(
    "hosts",
    [
        b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\nhOST: a\r\n", b"Host:\r\n", b"Host: :80\r\n",
        b"Host: x/beta?\r\n", b"Host: a b\r\n", b"Host: a, b\r\n", b"Host: a:80@evil\r\n", b"Host: user@a\r\n",
        b"Host: a:port\r\n", b"Host: a:123456\r\n", b"Host: [::1\r\n", b"Host: ::1\r\n", b"Host: \xe4\r\n",
        b"Host: a%2eb\r\n", b"Host: a#b\r\n", b"Host: a\\b\r\n", b"Host: " + b"a" * 400 + b"\r\n", b"Host : a\r\n",
        b" Host: a\r\n", b"X: 1\r\n Host: a\r\n",
    ],
)  # fmt: skip
async def test_a_request_has_one_host_that_is_one(hosts: bytes) -> None:
    async with fronting() as front:
        await refused(front, b"GET / HTTP/1.1\r\n" + hosts + b"\r\n", 400)


@for_each(
    ("host", "name"),
    [
        (b"A.Example", "a.example"),
        (b"a.example.:8080", "a.example"),
        (b"[::1]:80", "[::1]"),
        (b"a_b-c", "a_b-c"),
    ],
)
async def test_a_host_is_a_name_with_or_without_a_port(host: bytes, name: str) -> None:
    async with fronting() as front:
        client = await front.client()
        await client.send(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert (await client.answer()).status == 200
        assert front.heads[0].host == name


@for_each("goes_to", [b"http://evil/", b"HTTP://x/", b"//", b"*", b"x", b"evil:443", b"?q", b"@x"])
async def test_a_target_is_a_path(goes_to: bytes) -> None:
    async with fronting() as front:
        for method in (b"GET", b"OPTIONS", b"CONNECT"):
            data = method + b" " + goes_to + b" HTTP/1.1\r\nHost: x\r\n\r\n"
            if goes_to == b"//":
                client = await front.client()
                await client.send(data)
                # It is a path, though none that anybody is behind.
                assert (await client.answer()).status == 200
                assert front.heads[-1].path == b"//"
            else:
                await refused(front, data, 400)


# ---- H6: where a request ends --------------------------------------------------------------------------------------


@for_each(
    "lines",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5, 5\r\n", b"Content-Length: +5\r\n",
        b"Content-Length: -5\r\n", b"Content-Length: 0x5\r\n", b"Content-Length: 5 5\r\n", b"Content-Length: 5_0\r\n",
        b"Content-Length: \xb2\r\n", b"Content-Length:\r\n", b"Content-Length: 99999999999999999999\r\n",
        b"Content-Length : 5\r\n", b"Content-Length\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n", b"X: 1\r\n folded\r\n",
        b"X: 1\r\n\tTransfer-Encoding: chunked\r\n", b": nameless\r\n", b"X Y: 1\r\n", b"X\x00: 1\r\n",
        b"X: a\x00b\r\n", b"X: a\x7fb\r\n", b"X: a\x0bb\r\n", b"X: a\rb\r\n", b"X: a\nb: c\r\n",
        b"X: 1\rContent-Length: 5\r\n", b"X: 1\nContent-Length: 5\r\n", b"X: 1\r\r\n", b"X\xe4: 1\r\n",
    ],
)  # fmt: skip
async def test_a_head_that_could_be_read_in_two_ways_is_refused(lines: bytes) -> None:
    async with fronting() as front:
        await refused(front, POST + lines + b"\r\nhello" + SECOND, 400)


@for_each(
    "coding", [b"gzip", b"gzip, chunked", b"chunked, chunked", b"xchunked", b"identity", b"chunked;x=1", b'"chunked"']
)
async def test_only_the_chunked_coding_is_known(coding: bytes) -> None:
    async with fronting() as front:
        await refused(front, POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n" + SECOND, 501)


async def test_the_chunked_coding_is_known_in_any_case_and_not_to_http_1_0() -> None:
    async with fronting() as front:
        client = await front.client()
        await client.send(POST + b"Transfer-Encoding:\tCHUNKED \r\n\r\n2\r\nok\r\n0\r\n\r\n")
        assert (await client.answer()).body == b"ok"
        await refused(front, CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n" + SECOND, 400)


@for_each(
    "line",
    [
        b"GET  / HTTP/1.1", b"GET / HTTP/1.1 ", b"GET /  HTTP/1.1", b"GET\t/\tHTTP/1.1", b"GET / http/1.1",
        b"GET / HTTP/1", b"GET / HTTP/1.1.1", b"GET / HTTP/01.1", b"GET / HTTP/ 1.1", b"GET /a b HTTP/1.1",
        b"GET /\x00 HTTP/1.1", b"GET /\xe4 HTTP/1.1", b"GET /\r HTTP/1.1", b"GET HTTP/1.1", b"G\x00T / HTTP/1.1",
        b"G(T / HTTP/1.1", b"A" * 33 + b" / HTTP/1.1", b"\xef\xbb\xbfGET / HTTP/1.1", b" GET / HTTP/1.1",
    ],
)  # fmt: skip
async def test_a_request_line_is_three_words(line: bytes) -> None:
    async with fronting() as front:
        await refused(front, line + b"\r\nHost: x\r\n\r\n", 400)


@for_each("end", [b"\n", b"\r", b"\n\r"])
async def test_lines_end_with_cr_and_lf(end: bytes) -> None:
    limits = limited(header_timeout=0.2)
    async with fronting(limits=limits) as front:
        data = b"GET / HTTP/1.1" + end + b"Host: x" + end * 2
        client = await front.client()
        await client.send(data)
        # Lone carriage returns end no line to anybody: there the rest of the head is waited for.
        assert (await client.ended())[9:12] in ((b"400", b"408") if end == b"\r" else (b"400",))
        assert front.heads == []


@for_each(
    "chunks",
    [
        b"0x5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"5_0\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n", b";x\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n", b"5\rhello\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello\r0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n",
        b"6\r\nhello\r\n0\r\n\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"5;a\x00\r\nhello\r\n0\r\n\r\n",
        b"10000000000000005\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\nnone\r\n\r\n",
        b"5\r\nhello\r\n0\r\n x: folded\r\n\r\n", b"5\r\nhello\r\n0\r\nx: 1\n\r\n",
        b"5\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n", b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)  # fmt: skip
async def test_chunks_are_what_the_specification_says_they_are(chunks: bytes) -> None:
    async with fronting() as front:
        await refused(front, CHUNKED + chunks + SECOND, 400)


async def test_chunks_may_have_extensions_and_trailers_and_neither_counts() -> None:
    async with fronting() as front:
        for chunks in (
            b"5;name=value\r\nhello\r\n0\r\n\r\n",
            b"05\r\nhello\r\n00\r\n\r\n",
            b"2\r\nhe\r\n3\r\nllo\r\n0\r\nAuthorization: Bearer secret\r\nHost: evil\r\n\r\n",
        ):
            client = await front.client()
            for _ in range(2):
                await client.send(CHUNKED + chunks)
                answer = await client.answer()
                assert answer.body == b"hello"
            head = front.heads[-1]
            assert head.first(b"authorization") is None
            assert head.host == "x"


async def test_trailers_are_bounded() -> None:
    async with fronting(limits=limited(headers=1000)) as front:
        client = await front.client()
        await client.send(CHUNKED + b"5\r\nhello\r\n0\r\n")
        for number in range(100):
            try:
                await client.send(b"x-%d: 0123456789012345678901234567890123456789\r\n" % number)
            except ConnectionError:
                break
            await asyncio.sleep(0)
        assert (await client.ended()).startswith(b"HTTP/1.1 431 ")


async def test_chunks_of_next_to_nothing_are_bounded() -> None:
    async with fronting() as front:
        for chunks in (b"1;x=%b\r\na\r\n" % (b"y" * 100), b"%b1\r\na\r\n" % (b"0" * 1000)):
            await refused(front, CHUNKED + chunks * 1000 + b"0\r\n\r\n", 400)


@for_each("framing", [b"Content-Length: 5\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
async def test_an_answer_before_the_end_of_the_request_ends_the_connection(framing: bytes) -> None:
    async def early(front: Front, head: Head, wire: ClientResponder) -> None:
        await wire.answer(200, [], b"early")

    async with fronting(early) as front:
        client = await front.client()
        await client.send(POST + framing)
        answer = await client.answer()
        assert (answer.body, answer.header("connection")) == (b"early", "close")
        # The rest would be another request for a server that ignored the body.
        await client.send(SECOND)
        assert await client.ended() == b""
        assert len(front.heads) == 1


async def test_a_body_that_ends_while_its_early_answer_goes_out_keeps_nothing_open() -> None:
    async def early(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.open(200, [])
        await front.go.wait()
        await wire.close()

    async with fronting(early) as front:
        client = await front.client()
        await client.send(POST + b"Content-Length: 5\r\n\r\nhe")
        _, headers = await client.head()
        assert dict(headers)["connection"] == "close"
        await client.send(b"llo" + SECOND)
        front.go.set()
        assert await client.rest() == b""
        assert await client.ended() == b""
        assert len(front.heads) == 1


# ---- H7: nothing but HTTP/1 ----------------------------------------------------------------------------------------


@for_each("upgrade", [b"websocket", b"h2c, websocket", b"TLS/1.0", b"HTTP/2.0", b""])
async def test_a_connection_is_not_upgraded(upgrade: bytes) -> None:
    async with fronting() as front:
        await refused(front, GET[:-2] + b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n", 400)


async def test_an_offer_of_http_2_is_passed_over_and_what_follows_is_http_1() -> None:
    async with fronting() as front:
        offer = (
            b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n"
        )
        client = await front.client()
        await client.send(GET[:-2] + offer)
        assert (await client.answer()).status == 200
        await client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert (await client.ended()).startswith(b"HTTP/1.1 505 ")


@for_each(
    ("line", "status"),
    [
        (b"GET / HTTP/2.0", 505), (b"GET / HTTP/1.2", 505), (b"GET / HTTP/0.9", 505), (b"GET / HTTP/3.0", 505),
        (b"PRI * HTTP/2.0", 505), (b"CONNECT x:443 HTTP/1.1", 400), (b"OPTIONS * HTTP/1.1", 400),
        (b"get / HTTP/1.1", 400), (b"Get / HTTP/1.1", 400), (b"GET /", 400), (b"GET", 400),
    ],
)  # fmt: skip
async def test_other_versions_and_forms_are_refused(line: bytes, status: int) -> None:
    async with fronting() as front:
        await refused(front, line + b"\r\nHost: x\r\n\r\n", status)


@for_each(
    "data", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00", b"SSH-2.0-x\r\n", b"GET /\r\n", b"{", b"\x80"]
)
async def test_bytes_that_are_no_http_are_refused_at_once(data: bytes) -> None:
    async with fronting() as front:
        client = await front.client()
        await client.send(data)
        # No more of it is waited for, as the rest of a head would be for longer than anything here is.
        assert (await client.head())[0] == 400


# ---- H8: bombs -----------------------------------------------------------------------------------------------------


def bomb_of_headers(count: int, size: int) -> bytes:
    return GET[:-2] + b"".join(b"x%d: %b\r\n" % (number, b"v" * size) for number in range(count)) + b"\r\n"


@for_each(
    ("data", "statuses"),
    [
        (bomb_of_headers(5000, 1), (431,)),
        (bomb_of_headers(101, 1), (431,)),
        (bomb_of_headers(1, 300_000), (431,)),
        (bomb_of_headers(90, 400), (431,)),
        (b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414,)),
        (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414,)),
        (b"GET /?" + b"a" * 8192 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414,)),
        (b"A" * 300_000, (414, 400)),
        (CHUNKED + b"5;x=" + b"y" * 1_000_000 + b"\r\nhello\r\n0\r\n\r\n", (400,)),
        (CHUNKED + b"0" * 1_000_000 + b"5\r\nhello\r\n0\r\n\r\n", (400,)),
        (CHUNKED + b"0\r\n" + b"x: y\r\n" * 200_000 + b"\r\n", (400, 431)),
    ],
)
async def test_a_bomb_is_refused_and_takes_no_memory(data: bytes, statuses: tuple[int, ...]) -> None:
    async with fronting() as front:
        for size in (len(data), 10_000):
            client = await front.client()
            tracemalloc.start()
            try:
                for start in range(0, len(data), size):
                    client.writer.write(data[start : start + size])
                    await asyncio.sleep(0.001)
            except ConnectionError:
                pass
            said = await client.ended()
            kept = sum(each.unread for each in front.connections)
            current, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert int(said[9:12]) in statuses, said
            assert kept == 0
            client.leave()
            # Bytes that the client of the test has not sent are its own.
            assert current < 2 * len(data) + 500_000


async def test_the_largest_head_that_is_allowed_is_read() -> None:
    async with fronting(limits=limited(target=50, headers=200, header_count=4)) as front:
        client = await front.client()
        goes_to = b"/" + b"a" * 49
        for lines in (b"A: 1\r\nB: 2\r\nC: 3\r\n", b"A: " + b"v" * 170 + b"\r\n"):
            await client.send(b"GET " + goes_to + b" HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
            assert (await client.answer()).status == 200
        for lines, status in ((b"A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n", 431), (b"A: " + b"v" * 190 + b"\r\n", 431)):
            await refused(front, b"GET " + goes_to + b" HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n", status)
        await refused(front, b"GET " + goes_to + b"a HTTP/1.1\r\nHost: x\r\n\r\n", 414)
