"""Owner of every long-running task, and file work in threads with a deadline."""

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

FILE_TIMEOUT = 20.0
"""Timeout of file work in seconds, for a disk that does not answer or a pipe without a writer."""
FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0

logger = logging.getLogger("gateway.background")


class Background:
    """Runs the tasks that outlive a request.

    A task that raises is restarted after 0.5 s, with a back-off that doubles up to 30 s. A task that returns, or that
    raises while it is cancelled, has ended.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run `work()` until it returns, the returned task is cancelled, or `aclose` is called."""
        task = asyncio.get_running_loop().create_task(self._keep(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await work()
            except Exception:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    # A task that was cancelled must not be restarted.
                    logger.exception("background task %s failed during its cancellation", name)
                    raise asyncio.CancelledError from None
                logger.exception("background task %s failed; restart in %.1f s", name, pause)
            else:
                return
            await sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


class FileWork:
    """Runs blocking file work in one thread at a time, with a deadline.

    Work that timed out keeps its thread until the file system answers, and no other work starts until then. So a disk
    that hangs takes one thread of the pool.
    """

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, work: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - the arguments of `work`
        """Return the result of `work(*args)`, or raise its exception.

        Raises:
            TimeoutError: It, or earlier work, took longer than `FILE_TIMEOUT`.
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
    # Retrieve the exception of work that timed out, or asyncio reports it as never retrieved.
    if not running.cancelled():
        running.exception()
