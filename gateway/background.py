"""Owns every long-running task: named, restarted when it fails, logged, cancelled at the end; and work on files."""

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

FILE_TIMEOUT = 20.0
"""Seconds after which work on files is given up: a disk that does not answer, or a pipe that nobody writes to."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0

logger = logging.getLogger("gateway.background")


class Background:
    """The tasks that outlive a request.

    A task whose work raises is started again after 0.5 s, then after twice as long each time, up to 30 s. Work that
    returns is over, and so is work that raises while it is being ended.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run `work()` until it returns or `aclose` is called; cancelling the task that is returned ends it too."""
        task = asyncio.get_running_loop().create_task(self._keep(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Cancel every task and wait until each has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await work()
            except Exception:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    # It was told to end, and what it did last failed: started again, it would never hear of it.
                    logger.exception("background task %s failed as it ended", name)
                    raise asyncio.CancelledError from None
                logger.exception("background task %s failed; starting it again in %.1f s", name, pause)
            else:
                return
            await sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


class FileWork:
    """Blocking work on files, in one thread at a time, with a deadline.

    Work that is given up keeps its thread until the file system answers. No other work starts meanwhile, so that a
    disk that hangs takes one thread of the loop's pool and no more.
    """

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, work: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - the arguments of `work`
        """Return what `work(*args)` returns, or raise what it raises.

        Raises:
            TimeoutError: it took longer than `FILE_TIMEOUT`, or earlier work still runs after that time.
        """
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=FILE_TIMEOUT)
            if not self._running.done():
                raise TimeoutError
        running: asyncio.Future[T] = asyncio.ensure_future(asyncio.to_thread(work, *args))
        self._running = running
        running.add_done_callback(_forget)
        done, _ = await asyncio.wait((running,), timeout=FILE_TIMEOUT)
        if not done:
            raise TimeoutError
        return running.result()


def _forget(running: "asyncio.Future[Any]") -> None:
    # Nobody may wait for it any more; its error is still retrieved, so that asyncio does not report it as lost.
    if not running.cancelled():
        running.exception()
