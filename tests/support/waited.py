"""A store in memory that is waited for, as one over a network is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import METHODS, Store


class Waited:
    """A store that answers each question some turns of the loop later.

    Attributes:
        down: Whether it does not answer at all.
        waits: Awaited before it answers.
    """

    local = False
    shared = True
    label = "waited"

    def __init__(self) -> None:
        self.down = False
        self.waits: Callable[[], Awaitable[None]] = _turns
        self._inner = SqliteStore(None)
        for name in METHODS:
            setattr(self, name, self._later(getattr(self._inner, name)))

    async def open(self) -> None:
        await self._inner.open()

    async def aclose(self) -> None:
        await self._inner.aclose()

    @property
    def store(self) -> Store:
        return cast("Store", self)

    def _later(self, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any) -> Any:
            await self.waits()
            if self.down:
                raise StateUnavailable("the store of tasks does not answer", retry_after=1.0)
            return await method(*args)

        return ask


async def _turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)
