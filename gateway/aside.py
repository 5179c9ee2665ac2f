"""Work on files, beside the loop: in a thread of its own, which nobody has to wait for.

A file system on the network may not answer for minutes, and a pipe never. The threads of the loop's pool are few, and
are waited for when the process ends; this one is not.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


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
            way, outcome = told.set_result, context.run(work, *args)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            way, outcome = told.set_exception, error
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, way, outcome)

    threading.Thread(target=run, name="files", daemon=True).start()
    return await told
