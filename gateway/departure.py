"""Ends the process where no event loop does: before there is one, once there is none, and when one is stuck.

The system ends the first process of a container by no signal that it has no handler for, so each moment of its life
needs one. Nothing is looked back at: what is written to the log in the last moment may be lost.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SERVE = frozenset({"serve", "demo"})


def serves(arguments: list[str]) -> bool:
    """Whether the command with these arguments runs until it is told to end, which then is no failure."""
    return next((each for each in arguments if not each.startswith("-")), None) in _SERVE


def leave_at_once() -> None:
    """From now on SIGTERM and SIGINT end this process, with exit code 0."""
    for number in SIGNALS:
        signal.signal(number, _leave)


def leave_within(seconds: float, last: Callable[[], None]) -> threading.Timer:
    """End this process by then, with exit code 0, whatever it does; unless what is given is cancelled.

    Args:
        last: Called in a thread just before.
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
