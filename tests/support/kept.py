"""Gateways that the tests of a module share.

    pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

In such a module a gateway is started by the first test that asks for its configuration and stopped behind the last
test. Between two tests it rests: its connections are closed, and what it said is forgotten.
"""

from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """Open objects, by the configuration that they were opened for."""

    def __init__(self) -> None:
        self.stack = AsyncExitStack()
        self.open: dict[Hashable, Any] = {}


_MODULE: list[Kept] = []
"""The gateways of the module whose tests run, if they share."""


@asynccontextmanager
async def keeping() -> AsyncIterator[None]:
    """Let the tests of a module share what they open through `shared`."""
    kept = Kept()
    _MODULE.append(kept)
    try:
        async with kept.stack:
            yield
    finally:
        _MODULE.remove(kept)


@asynccontextmanager
async def shared(key: Hashable, opened: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[tuple[T, bool]]:
    """Give the object that another test has opened for the same key, else a new one.

    Gives it, and whether it was used before. Where the tests of the module share nothing it is closed in the end.
    """
    if not _MODULE:
        async with opened() as new:
            yield new, False
        return
    kept = _MODULE[-1]
    used = key in kept.open
    if not used:
        kept.open[key] = await kept.stack.enter_async_context(opened())
    yield kept.open[key], used
