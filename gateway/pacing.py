"""Work beside the loop that gives way to it: about a millisecond of it falls into one turn of the loop.

All threads share one interpreter. The loop asks for it anew after each system call and for each socket that is ready,
and each time whoever works meanwhile keeps it for a moment (`process._SWITCH`), or for longer where that reads many
files; with some hundred sockets ready these moments are 50 ms in one turn. So what reads, checks and builds a
configuration says at many places that it could stop there, at least once for each agent. When it has worked for a
millisecond by then, it waits until the loop has been through a turn, in which nobody is in its way.

Nobody waits where nothing was said of a pace: where a file is read before anybody is served, and on the command line.

Decision (2026-11-22): places in the code that goes through a file, and not another process that reads it. What comes
back from there would have to be made into objects here, which is as much work as reading it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

WORK = 0.001
"""Seconds of work, by the processor's time, after which the loop has a turn; as much more for each second that the work
has waited already. With turns of 20 ms half a second of work is over after 4 s, and not after 10."""
PATIENCE = 8.0
"""Seconds for which one piece of work waits in all: whoever has it read is to see the end of it, however busy the loop
is, and `aside.PATIENCE` is longer."""


class Pace:
    """How one piece of work gives way to a loop; used by its own thread alone.

    Args:
        soon: Has the loop call something in its next turn; as `call_soon_threadsafe`.
        worked: Seconds for which this thread has worked.
        now: Monotonic seconds.

    Attributes:
        turns: How many turns it has waited for.
    """

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        *,
        worked: Callable[[], float] = time.thread_time,
        now: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self.turns = 0
        self._soon = soon
        self._worked = worked
        self._now = now
        self._patience = self._left = patience
        self._work = WORK
        self._thread = threading.get_ident()
        self._since, self._began = worked(), now()

    def give_way(self) -> None:
        """Wait for the loop to have been through a turn, where it is due one."""
        # Nobody works for longer than time goes by, and that is told for a tenth of the price.
        work = self._work
        if self._now() - self._began < work or self._left <= 0 or self._worked() - self._since < work:
            return
        if threading.get_ident() != self._thread:
            # What the work has the loop do inherits its context, and the loop must not wait for itself.
            return
        self._wait()
        self._since, self._began = self._worked(), self._now()

    def through(self, items: Iterable[T]) -> Iterator[T]:
        """The same items; before each of them it gives way."""
        for item in items:
            self.give_way()
            yield item

    def _wait(self) -> None:
        turned = threading.Lock()
        turned.acquire()
        began = self._now()
        try:
            # What is due by now, and what the sockets that are ready bring about, comes before it.
            self._soon(turned.release)
        except RuntimeError:
            # The loop is closed: nobody is served any more.
            self._left = 0.0
            return
        turned.acquire(timeout=self._left)
        self._left -= self._now() - began
        self._work = WORK * (1 + self._patience - self._left)
        self.turns += 1


_pace: ContextVar[Pace | None] = ContextVar("pace", default=None)


def paced(pace: Pace, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work` gives or raises, which gives way as `pace` says."""
    token = _pace.set(pace)
    try:
        return work(*args, **kwargs)
    finally:
        _pace.reset(token)


def give_way() -> None:
    """Say that the work could stop here; at once where no pace holds."""
    pace = _pace.get()
    if pace is not None:
        pace.give_way()


def unhurried(items: Iterable[T]) -> Iterable[T]:
    """The same items, with a place to stop before each; the items themselves where no pace holds."""
    pace = _pace.get()
    return items if pace is None else pace.through(items)
