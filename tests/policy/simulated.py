"""An event loop whose time passes only while nobody has anything to do: hours go by at once, and always alike."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Leaping(selectors.DefaultSelector):
    """Waits for nothing: where nothing has happened, the time is later."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> "list[tuple[selectors.SelectorKey, int]]":
        events = super().select(0)
        if not events:
            assert timeout is not None, "everybody waits, and nothing will ever happen"
            self.now += timeout
        return events


class SimulatedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with a clock that leaps to the next timer."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own, in no time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main)


def now() -> float:
    """Return the time of the running loop's clock."""
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let everybody go on who can."""
    for _ in range(10):
        await asyncio.sleep(0)
