"""Work on files, beside the loop: in a thread of its own, which nobody has to wait for, and which gives way to it.

A file system on the network may not answer for minutes, and a pipe never. The threads of the loop's pool are few, and
are waited for when the process ends; this one is not.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from gateway.pacing import Pace, paced

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds after which files were read, or the disk they lie on does not answer."""
_MOST = 4


class Overdue(Exception):  # noqa: N818 - a fact about work, told as it is
    """Work that has not come back in time."""


class Asides:
    """Work beside the loop that is given up after a while, and goes on by itself then.

    No more than four of those that were given up go on at a time: each is a thread.

    Attributes:
        late: Those.
    """

    def __init__(self) -> None:
        self.late: set[asyncio.Future[Any]] = set()

    async def do(self, work: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - those of `work`
        """What `work(*args)` gives or raises; see `aside`.

        Raises:
            Overdue: it was given up, or as many go on already as may.
        """
        if len(self.late) >= _MOST:
            # No more threads for what does not answer, and no haste.
            await asyncio.wait(self.late, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if len(self.late) < _MOST:
            working = asyncio.ensure_future(aside(work, *args))
            try:
                await asyncio.wait((working,), timeout=PATIENCE)
            except asyncio.CancelledError:
                working.cancel()
                raise
            if working.done():
                return working.result()
            self.late.add(working)
            working.add_done_callback(self._came_back)
        raise Overdue(f"within {PATIENCE:.0f} s")

    def _came_back(self, working: asyncio.Future[Any]) -> None:
        self.late.discard(working)
        if not working.cancelled():
            # Nobody waits for it any more, nor for why it failed.
            working.exception()


async def aside(work: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - those of `work`
    """What `work(*args)` gives or raises. Who is cancelled waits no longer; the work goes on, and nobody learns of it.

    Raises:
        RuntimeError: the system grants no more threads.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(way: Callable[[Any], None], outcome: object) -> None:
        if not told.done():
            way(outcome)

    def run() -> None:
        way: Callable[[Any], None]
        outcome: object
        try:
            outcome = context.run(paced, Pace(loop.call_soon_threadsafe), work, *args)
            way = told.set_result
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            way, outcome = told.set_exception, error
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, way, outcome)

    threading.Thread(target=run, name="files", daemon=True).start()
    return await told
