"""The loops that the gateway runs on: uvloop in production, asyncio's own where there is none.

grpc.aio has one poller for all the loops of a process, so what belonged to a test that is over may be told while the
next one runs, and to a closed loop. Only tests have more than one loop; theirs take no offence.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVarTuple, cast

import pytest
import uvloop

_Args = TypeVarTuple("_Args")


class _Late:
    """What either loop does otherwise."""

    def call_soon_threadsafe(
        self: Any, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        # Of a thread of the gateway's own it stays a defect.
        if self.is_closed() and threading.current_thread() is threading.main_thread():
            return asyncio.Handle(callback, args, self, context)
        handle: asyncio.Handle = cast("Any", super()).call_soon_threadsafe(callback, *args, context=context)
        return handle


class PlainLoop(_Late, asyncio.SelectorEventLoop):
    """asyncio's own."""


class FastLoop(_Late, uvloop.Loop):  # type: ignore[misc]  # its own types differ from those of asyncio
    """uvloop's."""


PLAIN = ("asyncio", {"loop_factory": PlainLoop})
FAST = ("asyncio", {"loop_factory": FastLoop})


@pytest.fixture(params=[pytest.param(PLAIN, id="asyncio"), pytest.param(FAST, id="uvloop")])
def both_loops(request: pytest.FixtureRequest) -> Any:
    """Either loop in turn, for `anyio_backend`: they differ in when timers ring and in how a close is told."""
    return request.param
