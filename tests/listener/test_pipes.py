"""Standard input and output are read and written without blocking the loop."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gateway.listener.stdio import ROOM, Pipes
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio


class Ends:
    """Two pipes: what the process has of them, and what its host has."""

    def __init__(self) -> None:
        self.source, self.says = os.pipe()
        self.hears, self.target = os.pipe()

    def close(self) -> None:
        for each in (self.source, self.says, self.hears, self.target):
            with suppress(OSError):
                os.close(each)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


async def test_a_writer_learns_that_the_pipe_is_full_and_can_wait(ends: Ends) -> None:
    pipes = Pipes(ends.source, ends.target)
    assert pipes.write(b"x" * ROOM)
    assert not pipes.write(b"x")
    waiting = asyncio.ensure_future(pipes.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    got = 0
    while got <= ROOM:
        got += len(await asyncio.to_thread(os.read, ends.hears, 65536))
    async with asyncio.timeout(WAIT):
        await waiting
    assert pipes.write(b"")
    pipes.close()


async def test_a_host_that_never_reads_is_not_waited_for(ends: Ends) -> None:
    pipes = Pipes(ends.source, ends.target)
    pipes.write(b"x" * ROOM)
    await pipes.flushed(0.01)
    pipes.close()
    # The thread that is at it is let go.
    os.close(ends.hears)


async def test_a_closed_reader_is_told_once(ends: Ends) -> None:
    told = asyncio.Event()
    pipes = Pipes(ends.source, ends.target, told.set)
    os.close(ends.hears)
    pipes.write(b"x")
    async with asyncio.timeout(WAIT):
        await told.wait()
    told.clear()
    assert pipes.write(b"x" * 2 * ROOM)
    await pipes.drained()
    await pipes.flushed(WAIT)
    assert not told.is_set()
    pipes.close()


async def test_an_unreadable_pipe_has_ended(ends: Ends) -> None:
    pipes = Pipes(ends.target, ends.target)
    assert await pipes.read() == b""
    pipes.close()
