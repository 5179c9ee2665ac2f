"""Tasks that outlive a request."""

import asyncio
import logging

import pytest

from gateway import background
from gateway.background import Background

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.0)


async def test_work_that_raises_is_logged_by_name_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    keeper, ran = Background(), 0

    async def work() -> None:
        nonlocal ran
        ran += 1
        if ran < 3:
            raise OSError("gone")

    with caplog.at_level(logging.ERROR, "gateway.background"):
        await keeper.start("fetch", work)
    assert ran == 3
    assert [record.getMessage() for record in caplog.records] == ["background task fetch failed; restart in 0.0 s"] * 2


async def test_pauses_double_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Background()
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def work() -> None:
        if len(pauses) < 9:
            raise OSError("gone")

    monkeypatch.setattr(background, "FIRST_PAUSE", 0.5)
    # Not asyncio's own: a server of another test's fixture that woke meanwhile would never sleep again.
    monkeypatch.setattr(background, "sleep", pause)
    await keeper.start("fetch", work)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


async def test_closing_cancels_every_task_and_waits_for_its_end() -> None:
    keeper = Background()
    started, ended = asyncio.Event(), []

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("clean")

    first, second = keeper.start("a", work), keeper.start("b", work)
    await started.wait()
    await keeper.aclose()
    assert (ended, first.cancelled(), second.cancelled()) == (["clean"] * 2, True, True)


async def test_work_that_fails_as_it_is_ended_is_not_started_again(caplog: pytest.LogCaptureFixture) -> None:
    keeper, ran, started = Background(), 0, asyncio.Event()

    async def work() -> None:
        nonlocal ran
        ran += 1
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("no space left on device")

    task = keeper.start("post", work)
    await started.wait()
    async with asyncio.timeout(10):
        await keeper.aclose()
    assert (ran, task.cancelled()) == (1, True)
    assert [record.getMessage() for record in caplog.records] == ["background task post failed during its cancellation"]
