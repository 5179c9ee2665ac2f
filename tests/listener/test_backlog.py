"""A client that reads slowly is no dead one, and who waits for it is told."""

import asyncio
from typing import Any, cast

import pytest

from gateway.listener.backlog import Backlog, drop


class Transport:
    def __init__(self) -> None:
        self.left = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.left

    def get_extra_info(self, _name: str) -> Any:
        return None

    def abort(self) -> None:
        self.aborted = True


def seen(*sizes: int) -> list[bool]:
    transport, backlog, found = Transport(), Backlog(), []
    for size in sizes:
        transport.left = size
        found.append(backlog.look(cast("asyncio.Transport", transport)))
    return found


def test_who_reads_a_little_reads() -> None:
    assert seen(100, 90, 90, 10, 0) == [False, True, False, True, False]


def test_what_is_dropped_is_dropped_at_once_also_without_a_socket() -> None:
    transport = Transport()
    drop(cast("asyncio.Transport", transport))
    assert transport.aborted


@pytest.mark.anyio
async def test_all_who_wait_are_told() -> None:
    backlog, loop = Backlog(), asyncio.get_running_loop()
    first, second = (asyncio.ensure_future(backlog.moved(loop)) for _ in range(2))
    await asyncio.sleep(0)
    backlog.wake()
    async with asyncio.timeout(5):
        await asyncio.gather(first, second)


@pytest.mark.anyio
async def test_who_no_longer_waits_is_forgotten() -> None:
    backlog = Backlog()
    waiting = asyncio.ensure_future(backlog.moved(asyncio.get_running_loop()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert backlog._waiters == []
