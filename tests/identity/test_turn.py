"""Turns of the event loop: a few judgements in each, first come, first served."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.identity.pending import Pending
from gateway.identity.turn import Turns

pytestmark = pytest.mark.anyio


class Loop:
    """A loop that turns when it is told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


def test_a_turn_has_place_for_a_few() -> None:
    loop = Loop()
    turns = Turns(3, loop.call_soon)
    for _ in range(3):
        turns.take()
    with pytest.raises(Pending):
        turns.take()
    loop.turn()
    turns.take()


def test_a_loop_at_rest_is_not_asked_to_turn() -> None:
    loop = Loop()
    turns = Turns(3, loop.call_soon)
    turns.take()
    turns.take()
    assert len(loop.soon) == 1
    loop.turn()
    assert loop.soon == []


async def test_who_came_first_is_served_first_and_nobody_passes_the_line() -> None:
    loop, served = Loop(), list[int]()
    turns = Turns(2, loop.call_soon)
    turns.take()
    turns.take()

    async def stand(number: int) -> None:
        with pytest.raises(Pending) as caught:
            turns.take()
        await caught.value.settled()
        served.append(number)

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        line = [group.create_task(stand(number)) for number in range(5)]
        await asyncio.sleep(0)
        for expected in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]):
            loop.turn()
            # Two are called to the front, and until they have been there a third does not get in between.
            if len(expected) < 5:
                with pytest.raises(Pending):
                    turns.take()
            await asyncio.wait(line[: len(expected)])
            assert served == expected


async def test_who_leaves_the_line_costs_nobody_a_turn() -> None:
    loop = Loop()
    turns = Turns(1, loop.call_soon)
    turns.take()

    async def stand() -> None:
        with pytest.raises(Pending) as caught:
            turns.take()
        await caught.value.settled()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        first, second = group.create_task(stand()), group.create_task(stand())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        loop.turn()
        await second


async def test_the_running_loop_turns_by_itself_and_sees_to_others_in_between() -> None:
    turns = Turns(4)
    seen: list[str] = []

    async def judged(number: int) -> None:
        try:
            turns.take()
        except Pending as pending:
            await pending.settled()
        seen.append(str(number))

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(judged(number))

        async def beat() -> None:
            while len(seen) - seen.count("beat") < 40:
                seen.append("beat")
                await asyncio.sleep(0)

        group.create_task(beat())
    assert [each for each in seen if each != "beat"] == [str(number) for number in range(40)]
    runs = "".join("." if each == "beat" else "x" for each in seen).split(".")
    assert max(map(len, runs)) == 4
