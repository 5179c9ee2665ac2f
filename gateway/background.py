"""Owns every long-running task: named, restarted when it fails, logged, cancelled at the end."""

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Coroutine
from typing import Any

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
