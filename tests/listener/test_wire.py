"""One exchange: its body is read once and bounded, its answer is framed once and ends once; on sockets: the others."""

import asyncio
import tracemalloc
from functools import partial

import pytest

from gateway.a2a.fault import BodyTooLarge, BodyTooSlow, ClientGone
from gateway.listener.request import read_head
from gateway.listener.wire import ClientWire, header_lines, status_line
from tests.listener.front import limited

pytestmark = pytest.mark.anyio

TEXT = (b"content-type", b"text/plain")


class Recorded:
    """A connection that keeps what it is told."""

    def __init__(self) -> None:
        self.keeps = True
        self.paused = self.fills = False
        self.sent = b""
        self.most = 0
        self.told: list[str] = []
        self.go = asyncio.Event()

    def opening(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        return status_line(status) + b"date: now\r\n" + header_lines(headers)

    def reads(self) -> None:
        self.told.append("reads")

    def forget(self) -> None:
        """Nobody can see it."""

    def wants_body(self) -> None:
        self.told.append("wants body")

    def answers_early(self) -> None:
        self.told.append("early")
        self.keeps = False

    def write(self, data: bytes | memoryview) -> None:
        self.sent += data
        self.paused = self.paused or self.fills
        self.most = max(self.most, len(data))

    async def drained(self) -> None:
        await self.go.wait()

    def answered(self, *, keep: bool) -> None:
        self.told.append(f"answered, {'kept' if keep else 'closed'}")

    def cut(self, *, hard: bool = False) -> None:
        self.told.append("reset" if hard else "cut")


class Site:
    """A wire, and the connection that it believes in."""

    def __init__(self, *lines: bytes, first: bytes = b"POST / HTTP/1.1", length: int | None = 0) -> None:
        raw = b"\r\n".join((first, b"Host: x", *lines)) + b"\r\n\r\n"
        self.connection = Recorded()
        self.wire = ClientWire(self.connection, read_head(raw, "p", "http", limited()), length, whole=length == 0)

    @property
    def said(self) -> bytes:
        return self.connection.sent.replace(b"date: now\r\n", b"")


def whole(body: bytes, *extra: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"content-type: text/plain", b"content-length: %d" % len(body), *extra]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


# ---- The body ------------------------------------------------------------------------------------------------------


async def test_a_request_without_a_body_is_not_waited_for() -> None:
    site = Site()
    assert await site.wire.read(10) == b""
    assert site.connection.told == []


async def test_a_body_that_is_there_is_given_at_once_and_once() -> None:
    site = Site(length=3)
    site.wire.feed(b"one")
    site.wire.fed()
    assert await site.wire.read(3) == b"one"
    assert await site.wire.read(3) == b""
    assert site.connection.told == []


async def test_a_body_that_comes_is_waited_for() -> None:
    site = Site(length=None)
    reading = asyncio.ensure_future(site.wire.read(6))
    await asyncio.sleep(0)
    for part in (b"on", b"", b"e two"[:4]):
        site.wire.feed(part)
        assert site.wire.awaited is True
    site.wire.fed()
    assert await reading == b"one tw"
    assert site.connection.told == ["reads"]


async def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    site = Site(b"Expect: 100-continue", length=11)
    with pytest.raises(BodyTooLarge):
        await site.wire.read(10)
    assert site.connection.told == []


async def test_a_body_that_turns_out_too_long_is_read_no_further() -> None:
    site = Site(length=None)
    site.wire.feed(b"x" * 11)
    with pytest.raises(BodyTooLarge):
        await site.wire.read(10)
    other = Site(length=None)
    reading = asyncio.ensure_future(other.wire.read(10))
    await asyncio.sleep(0)
    other.wire.feed(b"x" * 11)
    assert not other.wire.awaited
    with pytest.raises(BodyTooLarge):
        await reading


async def test_a_body_is_no_longer_than_the_limit_also_where_it_came_at_once() -> None:
    site = Site(length=11)
    site.wire.feed(b"x" * 11)
    site.wire.fed()
    with pytest.raises(BodyTooLarge):
        await site.wire.read(10)


async def test_a_held_back_body_is_asked_for_once_and_only_where_it_is_not_there() -> None:
    site = Site(b"Expect: 100-continue", length=3)
    reading = asyncio.ensure_future(site.wire.read(10))
    await asyncio.sleep(0)
    assert site.connection.told == ["reads", "wants body"]
    site.wire.feed(b"one")
    site.wire.fed()
    assert await reading == b"one"
    there = Site(b"Expect: 100-continue", length=3)
    there.wire.feed(b"one")
    there.wire.fed()
    await there.wire.read(10)
    assert there.connection.told == []


async def test_a_body_that_stays_out_is_too_slow_before_and_while_it_is_read() -> None:
    for early in (True, False):
        site = Site(length=3)
        if early:
            site.wire.too_slow()
        reading = asyncio.ensure_future(site.wire.read(10))
        await asyncio.sleep(0)
        site.wire.too_slow()
        with pytest.raises(BodyTooSlow):
            await reading


async def test_a_client_that_leaves_in_its_body_is_gone() -> None:
    for early in (True, False):
        site = Site(length=3)
        if early:
            site.wire.lost()
        reading = asyncio.ensure_future(site.wire.read(10))
        await asyncio.sleep(0)
        site.wire.lost()
        with pytest.raises(ClientGone):
            await reading


async def test_small_pieces_of_a_body_take_no_more_memory_than_large_ones() -> None:
    size = 1_000_000
    site = Site(length=size)
    pieces = [bytes((number % 256, 1)) for number in range(1000)]
    tracemalloc.start()
    try:
        for _ in range(size // 2000):
            for piece in pieces:
                site.wire.feed(piece)
        site.wire.fed()
        current, _ = tracemalloc.get_traced_memory()
        assert current < 1.5 * size
        assert len(await site.wire.read(size)) == size
    finally:
        tracemalloc.stop()


# ---- The answer ----------------------------------------------------------------------------------------------------


async def test_an_answer_has_its_length_and_keeps_the_connection() -> None:
    site = Site()
    assert not site.wire.opened
    site.wire.extra = [(b"x", b"1")]
    await site.wire.answer(200, [TEXT], b"hello")
    assert site.wire.opened
    assert site.said == whole(b"hello").replace(b"content-length", b"x: 1\r\ncontent-length")
    assert site.connection.told == ["answered, kept"]


async def test_a_connection_that_ends_says_so() -> None:
    site = Site()
    site.connection.keeps = False
    await site.wire.answer(200, [TEXT], b"")
    assert site.said == whole(b"", b"connection: close")
    assert site.connection.told == ["answered, closed"]


async def test_an_answer_before_the_body_is_whole_ends_the_connection() -> None:
    site = Site(length=5)
    site.wire.feed(b"he")
    await site.wire.answer(200, [TEXT], b"early")
    assert site.said == whole(b"early", b"connection: close")
    assert site.connection.told == ["early", "answered, closed"]


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_has_no_length(status: int) -> None:
    site = Site()
    await site.wire.answer(status, [], b"")
    assert site.said.split(b"\r\n")[1:] == [b"", b""]


async def test_the_answer_to_head_has_the_length_of_what_get_would_give() -> None:
    site = Site(first=b"HEAD / HTTP/1.1")
    await site.wire.answer(200, [TEXT], b"hello")
    assert site.said == whole(b"hello")[: -len(b"hello")]
    other = Site(first=b"HEAD / HTTP/1.1")
    other.wire.open(200, [TEXT])
    await other.wire.write(b"never")
    assert other.wire.write_nowait(b"never")
    await other.wire.close()
    assert other.said == b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"
    assert other.connection.told == ["answered, kept"]


async def test_a_stream_is_chunked_and_ends_once() -> None:
    site = Site()
    site.wire.open(200, [TEXT])
    await site.wire.write(b"one")
    await site.wire.write(b"")
    assert site.wire.write_nowait(b"two")
    await site.wire.drained()
    await site.wire.close()
    await site.wire.close()
    site.wire.cut()
    head, _, body = site.said.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked"
    assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    assert site.connection.told == ["answered, kept"]


async def test_http_1_0_gets_no_chunks_and_a_loss_is_a_reset() -> None:
    site = Site(first=b"GET / HTTP/1.0")
    site.connection.keeps = False
    site.wire.open(200, [TEXT])
    await site.wire.write(b"one")
    assert site.said == b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\none"
    site.wire.cut()
    assert site.connection.told == ["reset"]


async def test_a_status_without_a_name_is_written_too() -> None:
    site = Site()
    await site.wire.answer(599, [], b"")
    assert site.said.startswith(b"HTTP/1.1 599 \r\n")


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\rb", b"a\nb", b"a\0b"])
async def test_a_header_that_would_be_two_is_none(value: bytes) -> None:
    for headers in ([(b"a", value)], [(value, b"a")]):
        site = Site()
        with pytest.raises(ValueError, match="line end"):
            await site.wire.answer(200, headers, b"")
        assert site.said == b""
        assert not site.wire.opened


async def test_a_long_answer_goes_out_in_slices_and_waits_for_its_client() -> None:
    site = Site()
    body = b"x" * 200_000
    site.connection.paused = True
    answering = asyncio.ensure_future(site.wire.answer(200, [TEXT], body))
    await asyncio.sleep(0)
    assert site.said == whole(body)[: -len(body)]
    site.connection.paused = False
    site.connection.go.set()
    await answering
    assert site.said == whole(body)
    assert site.connection.most <= 65536


async def test_pieces_wait_for_a_slow_client_and_heartbeats_do_not() -> None:
    site = Site()
    site.wire.open(200, [TEXT])
    site.connection.paused = True
    before = site.said
    writing = asyncio.ensure_future(site.wire.write(b"one"))
    await asyncio.sleep(0)
    assert site.said == before
    assert not site.wire.write_nowait(b":\n")
    assert site.said == before + b"2\r\n:\n\r\n"
    draining = asyncio.ensure_future(site.wire.drained())
    await asyncio.sleep(0)
    assert not draining.done()
    site.connection.go.set()
    await writing
    await draining
    assert site.said == before + b"2\r\n:\n\r\n3\r\none\r\n"


@pytest.fixture
async def torn() -> Site:
    """A wire whose writer was cancelled in the middle of a long piece."""
    site = Site()
    site.wire.open(200, [TEXT])
    site.connection.paused = True
    writing = asyncio.ensure_future(site.wire.write(b"x" * 200_000))
    site.connection.paused = False

    site.connection.fills = True
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    return site


@pytest.mark.parametrize("way", ["write", "write_nowait", "close"])
async def test_nothing_follows_a_piece_that_was_torn(torn: Site, way: str) -> None:
    if way == "write":
        await torn.wire.write(b"last word")
    elif way == "close":
        await torn.wire.close()
    else:
        torn.wire.write_nowait(b"last word")
    assert torn.connection.told == ["cut"]


# ---- Who leaves, and when ------------------------------------------------------------------------------------------


async def test_who_asks_is_told_once_that_the_client_left_before_or_after() -> None:
    for early in (True, False):
        site = Site()
        told: list[int] = []
        if early:
            site.wire.lost()
        site.wire.when_gone(partial(told.append, 1))
        site.wire.lost()
        site.wire.lost()
        assert told == [1]


async def test_what_is_written_for_nobody_goes_nowhere() -> None:
    site = Site(length=5)
    site.wire.lost()
    site.wire.open(200, [TEXT])
    await site.wire.write(b"x" * 200_000)
    assert site.wire.write_nowait(b"y")
    await site.wire.drained()
    await site.wire.close()
    await site.wire.answer(200, [], b"")
    site.wire.cut()
    site.wire.abandoned()
    assert site.connection.told == []
    assert site.said == b""


async def test_an_answer_that_is_not_complete_is_cut_once_nobody_serves_it() -> None:
    site = Site()
    site.wire.open(200, [TEXT])
    site.wire.abandoned()
    site.wire.abandoned()
    assert site.connection.told == ["cut"]
    done = Site()
    await done.wire.answer(200, [], b"")
    done.wire.abandoned()
    done.wire.lost()
    assert done.connection.told == ["answered, kept"]
