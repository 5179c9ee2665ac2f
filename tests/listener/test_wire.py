"""One exchange: its body is read once and bounded, its answer is framed once and ends once; on sockets: the others."""

import asyncio
import tracemalloc
from typing import Any

import pytest

from gateway.a2a.fault import BodyTooLarge
from gateway.listener.http1 import ClientResponder, header_lines, status_line
from gateway.listener.request_parser import read_head
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
        connection: Any = self.connection
        self.wire = ClientResponder(connection, read_head(raw, "p", "http", limited()), length, whole=length == 0)

    @property
    def said(self) -> bytes:
        return self.connection.sent.replace(b"date: now\r\n", b"")


def whole(body: bytes, *extra: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"content-type: text/plain", b"content-length: %d" % len(body), *extra]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


# ---- The body ------------------------------------------------------------------------------------------------------


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
