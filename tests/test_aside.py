"""Work on files holds up neither the loop nor the end of the process."""

import asyncio
import contextvars
import threading

import pytest

from gateway.aside import aside
from tests.doubles.alone import alone
from tests.doubles.scripted import WAIT

pytestmark = pytest.mark.anyio

asked: contextvars.ContextVar[str] = contextvars.ContextVar("asked")


async def test_it_gives_what_the_work_gives_and_knows_who_asked() -> None:
    asked.set("me")
    assert await aside(lambda word: (word, asked.get(), threading.current_thread().daemon), "yes") == (
        "yes",
        "me",
        True,
    )


async def test_it_raises_what_the_work_raises() -> None:
    def fails() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await aside(fails)


async def test_who_is_cancelled_does_not_wait_and_what_comes_later_is_nobodys() -> None:
    began, go, over = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        go.wait(WAIT)
        over.set()

    task = asyncio.ensure_future(aside(work))
    await asyncio.to_thread(began.wait, WAIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await asyncio.to_thread(over.wait, WAIT)


@alone
def test_a_loop_and_an_interpreter_end_without_it() -> None:
    async def give_up() -> None:
        began = threading.Event()

        def work() -> None:
            began.set()
            threading.Event().wait()

        task = asyncio.ensure_future(aside(work))
        await asyncio.to_thread(began.wait, WAIT)
        task.cancel()

    asyncio.run(give_up())
