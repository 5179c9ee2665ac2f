"""Shared resources of a snapshot: connections, key sets, child processes. The next snapshot takes over equal ones.

Each resource has a name and a specification. In the life of a snapshot:

    acquire    at compile time: a resource with an equal specification is taken over, any other is made; none runs yet
    open       new resources begin to run
    enter      the snapshot is in use, and `on_entry` callbacks run
    hand_over  the next snapshot is in use: resources that it took over are its own; those that do not linger stop
    stop       a while later: the others stop, and may still be used by calls that have begun
    aclose     the last of those calls is over: they are closed

So connections, cards and keys survive a configuration change that does not concern them, and a snapshot that is never
used changes none of them. A shared resource runs once and is closed once, by its last holder.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from gateway.background import Background

T = TypeVar("T")
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

logger = logging.getLogger("gateway")


@dataclass(slots=True, eq=False)
class _Held:
    value: object
    made_of: object
    work: tuple[str, Work] | None = None
    close: Work | None = None
    retire: Callable[[], None] | None = None
    lingers: bool = True
    task: asyncio.Task[None] | None = None


class Resources:
    """The resources of one snapshot.

    Args:
        before: The resources of the current snapshot; None for the first.
    """

    def __init__(self, before: "Resources | None" = None) -> None:
        self._before = None if before is None else before._held  # noqa: SLF001 - its own kind
        self._held: dict[tuple[str, ...], _Held] = {}
        self._rest: tuple[_Held, ...] = ()
        self._entering: list[Callable[[], None]] = []

    def acquire(
        self,
        name: tuple[str, ...],
        made_of: object,
        make: Callable[[], T],
        *,
        run: Callable[[T], tuple[str, Work]] | None = None,
        close: Callable[[T], Work] | None = None,
        retire: Callable[[T], Callable[[], None]] | None = None,
        lingers: bool = True,
    ) -> T:
        """Return the resource of this name and specification, or make it.

        Args:
            made_of: The specification, compared with `==`.
            run: Returns a name for the log, and the work that runs while the resource is held.
            close: Returns the coroutine function that closes it.
            retire: Returns the function that is called at `stop`: only calls that have begun will use it.
            lingers: Whether it runs until `stop`, because open calls may wait for it; else until `hand_over`.
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
        """Return the resource of this name of the last snapshot, or None."""
        held = None if self._before is None else self._before.get(name)
        return None if held is None else held.value

    def on_entry(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the snapshot is in use."""
        self._entering.append(callback)

    def open(self, background: Background) -> None:
        """Start the work of new resources."""
        for held in self._held.values():
            if held.work is not None and held.task is None:
                held.task = background.start(*held.work)
        self._before = None

    def enter(self) -> None:
        """Run the `on_entry` callbacks, once."""
        entering, self._entering = self._entering, []
        for callback in entering:
            callback()

    def hand_over(self, after: "Resources") -> None:
        """Hand over the resources that the next snapshot has taken over."""
        kept = after._held  # noqa: SLF001 - its own kind
        self._rest = tuple(held for name, held in self._held.items() if kept.get(name) is not held)
        self._held = {}
        for held in self._rest:
            if not held.lingers and held.task is not None:
                held.task.cancel()

    def stop(self) -> None:
        """Stop the work of all resources."""
        for held in (*self._held.values(), *self._rest):
            if held.task is not None:
                held.task.cancel()
            if held.retire is not None:
                held.retire()

    async def aclose(self) -> None:
        """Close all resources at once; open calls are cut."""
        held, self._held, self._rest = (*self._held.values(), *self._rest), {}, ()
        closing = [one.close() for one in held if one.close is not None]
        for failed in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(failed, Exception):
                logger.error("something could not be closed", exc_info=failed)
