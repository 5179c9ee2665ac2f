"""Frames in turns: a burst stops nobody, and their order stays."""

import asyncio

import pytest

from gateway.listener.http2_frames import PREFACE, Frame, Frames, Kind
from gateway.listener.http2_turns import FrameTurns
from gateway.listener.turn import Turns
from tests.listener.grpc_front import raw_frame

pytestmark = pytest.mark.anyio


def calls(count: int, size: int = 1) -> bytes:
    return b"".join(raw_frame(Kind.HEADERS, 5, 2 * number + 1, b"x" * size) for number in range(count))


class Reading:
    """A connection that notes what it is given, and in which turn of the loop."""

    def __init__(self, turns: Turns) -> None:
        self.loop = asyncio.get_running_loop()
        self.frames = Frames(1 << 16, self.loop.time)
        self.turns = FrameTurns(self.frames, turns, self.loop, self.receive, self.again)
        self.read: list[Frame] = []
        self.batches: list[int] = []
        self.enough = False

    def feed(self, data: bytes) -> None:
        self.frames.feed(data)
        if not self.turns.waits:
            self._note()

    def receive(self, frame: Frame) -> bool:
        self.read.append(frame)
        return not self.enough

    def again(self) -> None:
        self._note(granted=True)

    def _note(self, *, granted: bool = False) -> None:
        before = len(self.read)
        self.turns.read(granted=granted)
        self.batches.append(len(self.read) - before)

    async def done(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.read) < count:  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0)


def greeted(turns: Turns) -> Reading:
    reading = Reading(turns)
    reading.feed(PREFACE + raw_frame(Kind.SETTINGS))
    reading.read.clear()
    reading.batches.clear()
    return reading


async def test_calls_that_come_at_once_are_begun_in_turns_and_in_order() -> None:
    reading = greeted(Turns(8))
    reading.feed(calls(100))
    assert reading.turns.waits
    await reading.done(100)
    assert [frame.stream for frame in reading.read] == list(range(1, 201, 2))
    assert max(reading.batches) <= 8


async def test_frames_that_bring_no_call_have_turns_beyond_a_few() -> None:
    reading = greeted(Turns(2))
    reading.feed(raw_frame(Kind.PING, 0, 0, bytes(8)) * 1000)
    await reading.done(1000)
    assert max(reading.batches) <= 4 + 2 * 16


async def test_what_comes_while_others_wait_waits_behind_them() -> None:
    reading = greeted(Turns(2))
    reading.feed(calls(10))
    reading.feed(raw_frame(Kind.RST_STREAM, 0, 1, bytes(4)))
    await reading.done(11)
    assert reading.read[-1].kind == Kind.RST_STREAM


async def test_connections_have_turns_one_after_the_other() -> None:
    turns = Turns(2)
    one, other = greeted(turns), greeted(turns)
    one.feed(calls(50))
    other.feed(calls(5))
    await other.done(5)
    assert len(one.read) < 15
    await one.done(50)


async def test_headers_that_take_long_leave_less_for_others() -> None:
    reading = greeted(Turns(16))
    reading.feed(calls(6, 15 * 1024))
    await reading.done(6)
    assert max(reading.batches) <= 3


async def test_nothing_is_read_behind_the_last_word() -> None:
    reading = greeted(Turns(16))
    reading.enough = True
    reading.feed(calls(5))
    assert len(reading.read) == 1
    reading.turns.clear()
    reading.feed(b"")
    assert len(reading.read) == 1


async def test_what_waited_is_let_go_of() -> None:
    reading = greeted(Turns(2))
    reading.feed(calls(10))
    begun = len(reading.read)
    reading.turns.clear()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(reading.read) == begun
