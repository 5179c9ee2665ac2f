"""One timer for many deadlines."""

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

from gateway.upstream.alarm import Alarm


class Clock:
    """A loop whose time stands still, and its timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], Any]) -> "Timer":
        self.timers.append(Timer(self, when, callback))
        return self.timers[-1]

    def go_to(self, moment: float) -> None:
        """Let time pass."""
        self.now = moment
        for timer in [each for each in self.timers if each.when <= moment]:
            timer.cancel()
            timer.callback()


class Timer:
    def __init__(self, clock: Clock, when: float, callback: Callable[[], Any]) -> None:
        self.clock, self.when, self.callback = clock, when, callback

    def cancel(self) -> None:
        if self in self.clock.timers:
            self.clock.timers.remove(self)


def alarm() -> tuple[Clock, Alarm, list[float]]:
    clock = Clock()
    rung: list[float] = []
    made = Alarm(cast("asyncio.AbstractEventLoop", clock), lambda: rung.append(clock.now))
    return clock, made, rung


def test_it_rings_once_at_its_deadline() -> None:
    clock, made, rung = alarm()
    made.set(5.0)
    clock.go_to(4.9)
    assert rung == []
    clock.go_to(5.0)
    clock.go_to(100.0)
    assert (rung, made.deadline) == ([5.0], math.inf)


def test_a_deadline_that_moves_on_needs_no_other_timer() -> None:
    clock, made, rung = alarm()
    made.set(5.0)
    [timer] = clock.timers
    for moment in range(6, 20):
        made.set(float(moment))
    made.deadline = 25.0
    assert clock.timers == [timer]
    clock.go_to(5.0)
    assert [each.when for each in clock.timers] == [25.0]
    clock.go_to(25.0)
    assert rung == [25.0]


def test_an_earlier_deadline_counts_at_once() -> None:
    clock, made, rung = alarm()
    made.set(50.0)
    made.set(5.0)
    assert [each.when for each in clock.timers] == [5.0]
    clock.go_to(5.0)
    assert rung == [5.0]


def test_who_waits_for_nothing_is_not_woken_and_may_wait_again() -> None:
    clock, made, rung = alarm()
    made.set(5.0)
    made.deadline = math.inf
    clock.go_to(5.0)
    assert (rung, clock.timers) == ([], [])
    made.set(9.0)
    clock.go_to(9.0)
    assert rung == [9.0]
    made.set(20.0)
    made.stop()
    assert (clock.timers, made.deadline) == ([], math.inf)
    made.stop()
    clock.go_to(20.0)
    assert rung == [9.0]
