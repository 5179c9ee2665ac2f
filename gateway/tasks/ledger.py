"""The ledger of this process: its store, its secret, and what is worked out from the two.

It lives as long as the process: a reload of the configuration keeps it.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.seal import Seal
from gateway.tasks.store import Bounds, Note, Owner, Soon, Store

_T = TypeVar("_T")

_MOST_MARKS = 10_000
_EXPIRE_EVERY = 30.0
_EXPIRE_AT_ONCE = 500

logger = logging.getLogger("gateway.tasks")


class Ledger:
    """Whose every task is.

    Args:
        wall: Unix seconds.

    Attributes:
        pending: By tenant, calls on their way that may make a task.
    """

    def __init__(
        self,
        store: Store,
        bounds: Bounds | None = None,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - entries outlive the process
    ) -> None:
        self.store = store
        self.bounds = Bounds() if bounds is None else bounds
        self.pending: dict[str, int] = {}
        self._wall = wall
        self._seal: Seal | None = None
        self._marks: dict[tuple[str, str, str], str] = {}

    async def open(self) -> None:
        """Get ready; a store over a network that does not answer yet is asked again when it is needed.

        Raises:
            StoreBroken: it can never work as it is written.
        """
        await self.store.open()
        try:
            await self._unseal()
        except StateUnavailable:
            logger.warning("the store of the ledger does not answer yet: %s", self.store.label)

    async def aclose(self) -> None:
        """Write what is left."""
        await self.store.aclose()

    def now(self) -> int:
        """Unix seconds."""
        return int(self._wall())

    @property
    def known_seal(self) -> Seal | None:
        """As `seal`; None where the store has not told it yet."""
        return self._seal

    def seal(self) -> Soon[Seal]:
        """What closes tokens and makes marks."""
        return self._seal if self._seal is not None else self._unseal()

    def mark(self, seal: Seal, scope: str, owner: Owner, *, by_principal: bool) -> str:
        """What stands before the names that an owner gives its contexts at a backend that others reach too."""
        key = (scope, owner.tenant, owner.principal if by_principal else "")
        mark = self._marks.get(key)
        if mark is None:
            if len(self._marks) >= _MOST_MARKS:
                self._marks.clear()
            mark = self._marks[key] = f"gw-{seal.mark(*key)}-"
        return mark

    async def run(self) -> None:
        """Forget what is past its time, for ever."""
        while True:
            await asyncio.sleep(_EXPIRE_EVERY)
            with suppress(StateUnavailable):
                await self._expire()

    async def _expire(self) -> None:
        more = True
        while more:
            more = await soon(self.store.expire(self.now(), self.bounds, _EXPIRE_AT_ONCE)) >= _EXPIRE_AT_ONCE
            # Others have their turn between two batches.
            await asyncio.sleep(0)

    async def _unseal(self) -> Seal:
        note = Note("secret", "ledger", secrets.token_bytes(32))
        self._seal = Seal(await soon(self.store.settle(note)))
        return self._seal


async def soon(value: Soon[_T]) -> _T:
    """What is there, or what it becomes."""
    if hasattr(value, "__await__"):
        return await cast("Awaitable[_T]", value)
    return value


def carried(steps: Generator[Any, Any, _T]) -> Soon[_T]:
    """What steps come to that ask a store: at once where it answers at once.

    Args:
        steps: Yields what a store gives, and is given what that is, or becomes.
    """
    try:
        asked = next(steps)
        while not hasattr(asked, "__await__"):
            asked = steps.send(asked)
    except StopIteration as done:
        return cast("_T", done.value)
    return _carry(steps, asked)


async def _carry(steps: Generator[Any, Any, _T], asked: Any) -> _T:  # noqa: ANN401 - whatever a step asks for
    try:
        while True:
            try:
                given = await asked if hasattr(asked, "__await__") else asked
            except Exception as error:  # noqa: BLE001 - it is for the steps
                asked = steps.throw(error)
            else:
                asked = steps.send(given)
    except StopIteration as done:
        return cast("_T", done.value)
    finally:
        steps.close()
