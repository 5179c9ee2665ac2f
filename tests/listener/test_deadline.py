"""One timer for many deadlines: it is moved for nothing, and rings when the last one has passed."""

import asyncio

import pytest

from gateway.listener.deadline import Deadline

pytestmark = pytest.mark.anyio


class Site:
    def __init__(self) -> None:
        self.rang = asyncio.Event()
        self.times = 0
        self.deadline = Deadline(asyncio.get_running_loop(), self._late)

    def _late(self) -> None:
        self.times += 1
        self.rang.set()


async def test_what_is_late_is_told_once() -> None:
    site = Site()
    site.deadline.within(0.01)
    async with asyncio.timeout(5):
        await site.rang.wait()
    await asyncio.sleep(0.02)
    assert site.times == 1


async def test_a_deadline_that_moves_on_costs_no_timer() -> None:
    site = Site()
    site.deadline.within(0.02)
    alarm = site.deadline._alarm
    began = asyncio.get_running_loop().time()
    site.deadline.within(0.1)
    assert site.deadline._alarm is alarm
    async with asyncio.timeout(5):
        await site.rang.wait()
    assert asyncio.get_running_loop().time() - began >= 0.095


async def test_a_deadline_that_comes_nearer_is_kept() -> None:
    site = Site()
    site.deadline.within(60)
    site.deadline.within(0.01)
    async with asyncio.timeout(5):
        await site.rang.wait()


async def test_what_is_lifted_or_closed_is_never_late() -> None:
    lifted, closed = Site(), Site()
    lifted.deadline.within(0.01)
    lifted.deadline.lift()
    closed.deadline.within(0.01)
    closed.deadline.close()
    await asyncio.sleep(0.03)
    assert (lifted.times, closed.times) == (0, 0)


async def test_at_rest_there_is_no_timer_unless_something_is_due() -> None:
    site = Site()
    site.deadline.within(60)
    site.deadline.rest()
    assert site.deadline._alarm is not None
    site.deadline.lift()
    site.deadline.rest()
    assert site.deadline._alarm is None
    site.deadline.within(0.01)
    async with asyncio.timeout(5):
        await site.rang.wait()
