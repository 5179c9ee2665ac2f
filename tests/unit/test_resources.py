"""Equal resources are shared, run once, and are closed once."""

import asyncio

import pytest

from gateway.background import Background
from gateway.resources import Resources

pytestmark = pytest.mark.anyio


class Thing:
    def __init__(self) -> None:
        self.running = 0
        self.closed = 0

    async def run(self) -> None:
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        self.closed += 1


def hold(resources: Resources, name: str, made_of: object) -> Thing:
    return resources.acquire(
        (name,), made_of, Thing, run=lambda thing: (name, thing.run), close=lambda thing: thing.aclose
    )


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_equal_specifications_share_a_resource_and_others_do_not() -> None:
    background = Background()
    first = Resources()
    kept, gone, other = hold(first, "kept", 1), hold(first, "gone", 1), hold(first, "other", 1)
    first.open(background)
    second = Resources(first)
    assert hold(second, "kept", 1) is kept
    changed = hold(second, "other", 2)
    assert changed is not other
    second.open(background)
    await turn()
    assert [thing.running for thing in (kept, gone, other, changed)] == [1, 1, 1, 1]
    first.hand_over(second)
    first.stop()
    await turn()
    assert [thing.running for thing in (kept, gone, other, changed)] == [1, 0, 0, 1]
    assert [thing.closed for thing in (kept, gone, other, changed)] == [0, 0, 0, 0]
    await first.aclose()
    assert [thing.closed for thing in (kept, gone, other, changed)] == [0, 1, 1, 0]
    await first.aclose()
    await second.aclose()
    assert [thing.closed for thing in (kept, gone, other, changed)] == [1, 1, 1, 1]
    await background.aclose()


async def test_an_abandoned_snapshot_leaves_earlier_resources_alone() -> None:
    background = Background()
    first = Resources()
    kept = hold(first, "kept", 1)
    first.open(background)
    vain = Resources(first)
    assert hold(vain, "kept", 1) is kept
    new = hold(vain, "new", 1)
    vain.open(background)
    await turn()
    vain.hand_over(first)
    vain.stop()
    await vain.aclose()
    await turn()
    assert (kept.running, kept.closed, new.running, new.closed) == (1, 0, 0, 1)
    await background.aclose()


async def test_the_last_holder_closes_a_resource() -> None:
    background = Background()
    first = Resources()
    early, late = hold(first, "early", 1), hold(first, "late", 1)
    first.open(background)
    second = Resources(first)
    hold(second, "late", 1)
    second.open(background)
    first.hand_over(second)
    third = Resources(second)
    third.open(background)
    second.hand_over(third)
    # The calls of the first last longer than those of the second.
    second.stop()
    await second.aclose()
    assert (early.closed, late.closed) == (0, 1)
    first.stop()
    await first.aclose()
    assert (early.closed, late.closed) == (1, 1)
    await background.aclose()


async def test_all_resources_are_closed_at_once_although_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    both, closed = asyncio.Barrier(2), list[str]()

    async def waits() -> None:
        await both.wait()
        closed.append("waits")

    async def fails() -> None:
        await both.wait()
        raise OSError("gone")

    resources = Resources()
    for name, close in (("one", waits), ("two", fails)):
        resources.acquire((name,), None, object, close=lambda _, close=close: close)  # type: ignore[misc]
    async with asyncio.timeout(10):
        await resources.aclose()
    assert closed == ["waits"]
    assert "could not be closed" in caplog.text


async def test_resources_that_do_not_linger_end_with_their_replacement() -> None:
    background = Background()
    first = Resources()
    things = [
        first.acquire((name,), 1, Thing, run=lambda thing: ("thing", thing.run), lingers=lingers)
        for name, lingers in (("lingers", True), ("ends", False), ("kept", False))
    ]
    first.open(background)
    second = Resources(first)
    assert second.acquire(("kept",), 1, Thing) is things[2]
    second.open(background)
    await turn()
    first.hand_over(second)
    await turn()
    assert [thing.running for thing in things] == [1, 0, 1]
    first.stop()
    await turn()
    assert [thing.running for thing in things] == [0, 0, 1]
    await background.aclose()
