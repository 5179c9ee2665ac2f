"""End the process without an event loop: before it runs, after it has ended, and when it is stuck.

The kernel delivers no unhandled signal to the first process of a container, so it needs a handler at any time. Log
lines of the last moment may be lost.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SERVE = frozenset({"serve", "demo"})


def serves(arguments: list[str]) -> bool:
    """Return whether the command serves until a signal; ending by one is then a success."""
    return next((each for each in arguments if not each.startswith("-")), None) in _SERVE


def leave_at_once() -> None:
    """Let SIGTERM and SIGINT end this process with exit code 0."""
    for number in SIGNALS:
        signal.signal(number, _leave)


def leave_within(seconds: float, last: Callable[[], None]) -> threading.Timer:
    """End this process after a time with exit code 0, unless the returned timer is cancelled.

    Args:
        last: Called in a thread just before the end.
    """

    def leave() -> None:
        try:
            last()
        finally:
            os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
    return timer


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
