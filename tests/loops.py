"""The loops that the gateway runs on: uvloop in production, asyncio's own where there is none.

grpc.aio has one poller for all the loops of a process, so what belonged to a test that is over may be told while the
next one runs, and to a closed loop. Only tests have more than one loop; theirs take no offence.

What a test leaves open would be collected while a later one runs, and fail that. So these loops say when they are
closed what of theirs is open: a server, a connection, a pipe, a process.
"""

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVarTuple, cast

import pytest
import uvloop

_Args = TypeVarTuple("_Args")


_MOMENT = 2.0
"""Seconds in which what is open may still end by itself."""
LEFT_OPEN: list[str] = []
"""Objects left open in closed loops; `conftest` fails their test."""


def _noted(name: str) -> Any:
    """A method that opens something, with a note of what that is."""

    async def opened(self: Any, *given: Any, **named: Any) -> Any:
        made = await getattr(super(_Late, self), name)(*given, **named)
        # Nothing refers weakly to a TLS transport of uvloop's.
        with suppress(TypeError):
            self.opened.append(weakref.ref(made[0] if isinstance(made, tuple) else made))
        return made

    return opened


class _Tolerant:
    """A loop that ignores what grpc's poller still reports to it once it is closed."""

    def call_soon_threadsafe(
        self: Any, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        # Of a thread of the gateway's own it stays a defect.
        if self.is_closed() and threading.current_thread() is threading.main_thread():
            return asyncio.Handle(callback, args, self, context)
        handle: asyncio.Handle = cast("Any", super()).call_soon_threadsafe(callback, *args, context=context)
        return handle


class _Late(_Tolerant):
    """Changes to the behaviour of either loop.

    Attributes:
        opened: Objects that its methods opened, as long as anybody has them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[weakref.ref[Any]] = []

    create_connection = _noted("create_connection")
    create_server = _noted("create_server")
    create_unix_connection = _noted("create_unix_connection")
    create_unix_server = _noted("create_unix_server")
    create_datagram_endpoint = _noted("create_datagram_endpoint")
    connect_read_pipe = _noted("connect_read_pipe")
    connect_write_pipe = _noted("connect_write_pipe")
    subprocess_exec = _noted("subprocess_exec")

    def close(self: Any) -> None:
        left = [] if self.is_closed() else list(dict.fromkeys(_left_open(self)))
        deadline = time.monotonic() + _MOMENT
        while left and time.monotonic() < deadline:
            # A connection that was accepted in the last turn has still to learn that its client has left.
            self.run_until_complete(asyncio.sleep(0.005))
            left = list(dict.fromkeys(_left_open(self)))
        LEFT_OPEN.extend(map(repr, left))
        for each in left:
            (each.abort if hasattr(each, "abort") else each.close)()
        if left:
            # It takes two turns until a connection that was cut is closed; uvloop would wait for it for ever.
            self.run_until_complete(asyncio.sleep(0))
            self.run_until_complete(asyncio.sleep(0))
        cast("Any", super()).close()


def _left_open(loop: Any) -> Iterator[Any]:
    for known in loop.opened:
        each = known()
        if each is not None and (each.is_serving() if hasattr(each, "is_serving") else not each.is_closing()):
            yield each
    if isinstance(loop, asyncio.SelectorEventLoop):
        # Those that it has accepted, too, and those that are still being closed.
        yield from [each for each in cast("Any", loop)._transports.values() if each._sock is not None]


class _Selecting(asyncio.SelectorEventLoop):
    """asyncio's own loop, and a connection that it accepts in the turn in which its server closes is closed as well.

    asyncio itself fails an assertion there, and keeps quiet about it: nobody closes the transport, and it would be
    collected while some later test runs.
    """

    async def _accept_connection2(
        self, factory: Any, accepted: Any, extra: Any, tls: Any, server: Any, *more: Any
    ) -> None:
        if server.sockets:
            await cast("Any", super())._accept_connection2(factory, accepted, extra, tls, server, *more)
        else:
            accepted.close()


class PlainLoop(_Late, _Selecting):
    """asyncio's own."""


class FastLoop(_Late, uvloop.Loop):  # type: ignore[misc]  # its own types differ from those of asyncio
    """uvloop's."""


class _RunLoop(_Tolerant, _Selecting):
    """The loop of `asyncio.run` in a test that has no loop of its own."""


class Policy(asyncio.DefaultEventLoopPolicy):
    """Makes loops for `asyncio.run` that outlive reports of grpc's poller."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return _RunLoop()


PLAIN = ("asyncio", {"loop_factory": PlainLoop})
FAST = ("asyncio", {"loop_factory": FastLoop})


@pytest.fixture(params=[pytest.param(PLAIN, marks=pytest.mark.long, id="asyncio"), pytest.param(FAST, id="uvloop")])
def both_loops(request: pytest.FixtureRequest) -> Any:
    """Either loop in turn, for `anyio_backend`: they differ in when timers ring and in how a close is told.

    tests/check runs these tests on the loop of production, and all other tests on asyncio's own.
    """
    return request.param
