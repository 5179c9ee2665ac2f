"""The loops that the gateway runs on: uvloop in production, asyncio's own where there is none.

grpc.aio has one poller for all the loops of a process, so what belonged to a test that is over may be told while the
next one runs, and to a closed loop. Only tests have more than one loop; theirs take no offence.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVarTuple

import pytest
import uvloop

_Args = TypeVarTuple("_Args")


def _is_too_late(loop: asyncio.AbstractEventLoop) -> bool:
    # Of a thread of the gateway's own it stays a defect.
    return loop.is_closed() and threading.current_thread() is threading.main_thread()


class PlainLoop(asyncio.SelectorEventLoop):
    """asyncio's own."""

    def call_soon_threadsafe(
        self, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        if _is_too_late(self):
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon_threadsafe(callback, *args, context=context)


class FastLoop(uvloop.Loop):
    """uvloop's."""

    def call_soon_threadsafe(
        self, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        if _is_too_late(self):
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon_threadsafe(callback, *args, context=context)


PLAIN = ("asyncio", {"loop_factory": PlainLoop})
FAST = ("asyncio", {"loop_factory": FastLoop})


@pytest.fixture(params=[pytest.param(PLAIN, id="asyncio"), pytest.param(FAST, id="uvloop")])
def both_loops(request: pytest.FixtureRequest) -> Any:
    """Either loop in turn, for `anyio_backend`: they differ in when timers ring and in how a close is told."""
    return request.param
