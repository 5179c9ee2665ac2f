"""Tests of limits that are fractions of a second, on a machine that may leave a process without a processor for longer.

What a timer of 200 ms does, and that something comes before it, can be seen only while the loop turns. A run in which
it stood still for longer than the test can bear shows nothing, whatever came of it; so where such a run fails, it is
made again. One that fails although the loop turned all the while fails.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

import pytest

Given = ParamSpec("Given")
Test: TypeAlias = Callable[Given, Coroutine[Any, Any, None]]

RUNS = 5
"""After which a failure is one: a gateway that makes the loop stand still does so in each."""

_BEAT = 0.005


class LoopLag:
    """The lag of the running loop, measured from now on until it is let go of."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._longest = 0.0
        self._expect()

    @property
    def longest(self) -> float:
        """Seconds, the most by which a beat was late so far."""
        return max(self._longest, self._loop.time() - self._due)

    def let_go(self) -> None:
        self._next.cancel()

    def _expect(self) -> None:
        self._due = self._loop.time() + _BEAT
        self._next = self._loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        self._longest = self.longest
        self._expect()


def undisturbed(bears: float) -> Callable[[Test[Given]], Test[Given]]:
    """Make a test again that failed while the loop stood still for longer than it bears.

    All that such a test changes it changes itself, and sets up anew: its fixtures are those of the first run.

    Args:
        bears: Seconds; less than what lies between a limit of the test's and what it does within that.
    """

    def decorate(test: Test[Given]) -> Test[Given]:
        @wraps(test)
        async def run(*given: Given.args, **named: Given.kwargs) -> None:
            for _ in range(RUNS - 1):
                lag = LoopLag()
                try:
                    await test(*given, **named)
                except (Exception, pytest.fail.Exception):
                    if lag.longest < bears:
                        raise
                else:
                    return
                finally:
                    lag.let_go()
            await test(*given, **named)

        return run

    return decorate
