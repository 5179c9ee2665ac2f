"""What a snapshot holds open, each under its name and with what it was made of: the next one takes over what is alike.

    make      the snapshot is compiled: what is alike is taken over, the rest is made; nothing runs or is dialled yet
    open      the snapshot is made ready: what is new in it begins to run
    enter     it is in use from now on in another's place, and what it holds is told so
    part      the next one is in use: what that took over is its own, and what does not linger ends
    rest      a while later: the rest runs no more; calls that have begun may use it still
    aclose    the last of those calls is over: it is closed

So connections, cards and keys outlive every change of the file that is not about them, and a snapshot that comes to
nothing has touched none of them. What is held in both is one object: it runs once and is closed once, by whoever is
last to hold it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

from gateway.background import Background

T = TypeVar("T")

logger = logging.getLogger("gateway")


class Runs(Protocol):
    """What is to run for as long as it is held."""

    def run(self) -> Coroutine[Any, Any, None]:
        """Go on until cancelled."""


class _Held:
    __slots__ = ("close", "lingers", "made_of", "retire", "task", "value", "work")

    def __init__(self, value: object, made_of: object) -> None:
        self.value = value
        self.made_of = made_of
        self.work: tuple[str, Callable[[], Coroutine[Any, Any, None]]] | None = None
        self.close: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.retire: Callable[[], None] | None = None
        self.lingers = True
        self.task: asyncio.Task[None] | None = None


class Holdings:
    """What one snapshot holds open.

    Args:
        before: What the snapshot holds that runs while this one is made; None for the first.
    """

    def __init__(self, before: "Holdings | None" = None) -> None:
        self._before = None if before is None else before._held  # noqa: SLF001 - its own kind
        self._held: dict[tuple[str, ...], _Held] = {}
        self._rest: tuple[_Held, ...] = ()
        self._entering: list[Callable[[], None]] = []

    def hold(
        self,
        name: tuple[str, ...],
        made_of: object,
        make: Callable[[], T],
        *,
        run: Callable[[T], tuple[str, Callable[[], Coroutine[Any, Any, None]]]] | None = None,
        close: Callable[[T], Callable[[], Coroutine[Any, Any, None]]] | None = None,
        retire: Callable[[T], Callable[[], None]] | None = None,
        lingers: bool = True,
    ) -> T:
        """What was made under this name of the same before, or what `make` makes now.

        Args:
            made_of: Compared with `==`; whatever the value would be another by.
            run: Gives a name for the log, and what runs for as long as it is held.
            close: Gives what closes it.
            retire: Gives what tells it, when it rests, that only calls that have begun will use it.
            lingers: Whether it runs until it rests, for calls that have begun may wait for what it finds out; else it
                ends as soon as another snapshot is in use that does not hold it.
        """
        held = self._held.get(name) or (self._before or {}).get(name)
        if held is None or held.made_of != made_of:
            value = make()
            held = _Held(value, made_of)
            held.work = None if run is None else run(value)
            held.close = None if close is None else close(value)
            held.retire = None if retire is None else retire(value)
            held.lingers = lingers
        self._held[name] = held
        return cast("T", held.value)

    def before(self, name: tuple[str, ...]) -> object:
        """What is held under this name by the snapshot in whose place this one comes, or None."""
        held = None if self._before is None else self._before.get(name)
        return None if held is None else held.value

    def on_entry(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when the snapshot takes the place of the one before."""
        self._entering.append(tell)

    def open(self, background: Background) -> None:
        """Have run what does not run yet."""
        for held in self._held.values():
            if held.work is not None and held.task is None:
                held.task = background.start(*held.work)
        # Those before it are not kept for its sake.
        self._before = None

    def enter(self) -> None:
        """Tell what wants to know that the snapshot is in use from now on, in the place of the one before."""
        entering, self._entering = self._entering, []
        for tell in entering:
            tell()

    def part(self, after: "Holdings") -> None:
        """Let go of what another snapshot holds, too: that is for it to close."""
        # In one go, for it is done in the swap: four of each agent.
        kept = after._held  # noqa: SLF001 - its own kind
        self._rest = tuple(held for name, held in self._held.items() if kept.get(name) is not held)
        self._held = {}
        for held in self._rest:
            if not held.lingers and held.task is not None:
                held.task.cancel()

    def rest(self) -> None:
        """Have nothing run any more."""
        for held in (*self._held.values(), *self._rest):
            if held.task is not None:
                held.task.cancel()
            if held.retire is not None:
                held.retire()

    async def aclose(self) -> None:
        """Close what no other holds, all at a time; what is on its way over it is cut."""
        held, self._held, self._rest = (*self._held.values(), *self._rest), {}, ()
        closing = [one.close() for one in held if one.close is not None]
        for failed in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(failed, Exception):
                logger.error("something could not be closed", exc_info=failed)
