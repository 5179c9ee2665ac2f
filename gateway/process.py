"""One gateway as a process: its signals, its limits, its log, and its exit code."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import uvloop

from gateway.app import Gateway
from gateway.config import effective
from gateway.config.check import Examined
from gateway.config.model import Config
from gateway.config.problem import as_text
from gateway.departure import SIGNALS, leave_at_once, leave_within
from gateway.listener.server import ListenFailed, raise_file_limit
from gateway.opening import ALONE, StartFailed, Worker
from gateway.pulse import EVERY
from gateway.reload import Origin, Trigger
from gateway.supervisor import supervise
from gateway.systemd import Notifier
from gateway.telemetry import log
from gateway.telemetry.shared_stream import SharedStream

_SWITCH = 0.0001
"""Seconds after which a thread that works gives the interpreter to another one that waits for it. Python's own 5 ms are
those for which every socket that is ready would wait, one after the other, while a configuration is read."""
_LOOK = 0.5
_AT_ONCE = 3.0
"""Seconds that a second signal leaves, for last words."""
_CLOSING = 8.0
"""Seconds for all that is left to do once calls have had their time; who manages services waits for 10 s."""

logger = logging.getLogger("gateway")


class _Bound:
    """Sees to it that a process ends in time once it is told to, even one of whose threads or peers hangs."""

    def __init__(self, config: Config) -> None:
        self._whole = effective.drain_delay(config) + config.gateway.drain.timeout + _CLOSING
        self._timers: list[threading.Timer] = []

    def on_signal(self, again: bool) -> None:  # noqa: FBT001 - as `run` tells it
        """Count from now."""
        self._timers.append(leave_within(_AT_ONCE if again else self._whole))

    def lift(self) -> None:
        """It has ended."""
        for timer in self._timers:
            timer.cancel()


def _hand_over() -> None:
    """Have signals end this process while its loop is closed, which hears none."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.remove_signal_handler(number)
    leave_at_once()


async def run(
    gateway: Gateway,
    *,
    delay: float | None = None,
    on_started: Callable[[], None] = lambda: None,
    on_signal: Callable[[bool], None] = lambda _again: None,
    orphaned: Callable[[], bool] = lambda: False,
    beat: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second one stops at once. SIGHUP has the configuration read again.

    One that comes before it serves ends it likewise: what was opened by then is closed.

    Args:
        delay: As `Gateway.stop`, for SIGTERM.
        on_started: Called once requests are taken.
        on_signal: Called with each signal to end: whether it is not the first.
        orphaned: Whether nobody looks after this process any more: then it stops at once, too.
        beat: Called every second from when requests are taken, as long as the loop turns.

    Raises:
        ListenFailed, StartFailed: as `Gateway.start`.
    """
    heard = _Heard(gateway, on_signal, orphaned)
    if not await _unless(heard.stop, gateway.start()):
        logger.info("stopped before it served")
        return
    on_started()
    heard.serve()
    if beat is not None:
        _keep_beating(beat)
    await heard.stop.wait()
    heard.notifier.stopping()
    # A person at a terminal has no balancer that must be given time.
    await gateway.stop(heard.hurry, delay=0.0 if heard.quick else delay)


class _Heard:
    """What a process is told while its loop runs; it listens from the beginning.

    Attributes:
        stop: Set once it is to end.
        hurry: Set once that is to be at once.
        quick: Whether it was a person who asked.
    """

    def __init__(self, gateway: Gateway, on_signal: Callable[[bool], None], orphaned: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._on_signal = on_signal
        self._orphaned = orphaned
        self._loop = asyncio.get_running_loop()
        self._serves = self._asked = False
        self.stop, self.hurry = asyncio.Event(), asyncio.Event()
        self.quick = False
        self.notifier = Notifier(os.environ)
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._end, number)
        self._loop.add_signal_handler(signal.SIGHUP, self._hangup)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def serve(self) -> None:
        """It takes requests from now on."""
        self.notifier.ready()
        self._serves = True
        if self._asked:
            self._hangup()
        if self.notifier.alive_every:
            self._live()
        self._look()

    def _end(self, number: signal.Signals) -> None:
        again = self.stop.is_set() or self._orphaned()
        self._on_signal(again)
        if again:
            self.hurry.set()
        if not self.stop.is_set():
            self.quick = number is signal.SIGINT
            self.stop.set()

    def _hangup(self) -> None:
        if not self._serves:
            # What was read before it came may be old: it is read again once there is something to put it beside.
            self._asked = True
            return
        self.notifier.reloading()
        self._gateway.reload_nowait(Trigger.SIGNAL, self.notifier.ready)

    def _live(self) -> None:
        self.notifier.alive()
        self._loop.call_later(self.notifier.alive_every, self._live)

    def _look(self) -> None:
        """See whether somebody looks after this process, where the system does not tell."""
        if self.stop.is_set():
            return
        if self._orphaned():
            self._end(signal.SIGTERM)
        else:
            self._loop.call_later(_LOOK, self._look)


def _keep_beating(beat: Callable[[], None]) -> None:
    beat()
    asyncio.get_running_loop().call_later(EVERY, _keep_beating, beat)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do it, unless the event comes before it is done; whether it was done."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        await task
        return True
    finally:
        for each in (task, stopped):
            each.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)


def serve(path: Path, environ: Mapping[str, str], workers: int = 1) -> int:
    """Serve a configuration file until a signal; the exit code.

    Args:
        workers: Processes that serve it.

    Problems and addresses that are taken are told on standard error. A SIGHUP that comes before it serves waits.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        return _serve(path, environ, workers)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(path: Path, environ: Mapping[str, str], workers: int) -> int:
    origin = Origin(path, environ)
    examined = origin.read()
    if examined.config is None or examined.failed:
        sys.stderr.write(as_text((*examined.problems, *examined.failed)) + "\n")
        if examined.config is not None:
            # A file that breaks a promise of its own about who reaches what is not put to use.
            sys.stderr.write("\nnot started: the configuration fails its own routing tests\n")
        return 1
    if workers > 1:
        raise_file_limit()

        def work(examined: Examined, worker: Worker, output: SharedStream) -> int:
            stream = cast("BinaryIO", output)  # written to, and nothing else
            return serve_examined(examined, origin=origin, access_stream=stream, worker=worker)

        return supervise(examined, origin, workers, work)
    return serve_examined(examined, origin=origin)


def serve_examined(
    examined: Examined,
    *,
    origin: Origin | None = None,
    access_stream: BinaryIO | None = None,
    on_started: Callable[[], None] = lambda: None,
    worker: Worker = ALONE,
) -> int:
    """Serve a configuration that was examined and has no errors; the exit code.

    Args:
        origin: Where it comes from, to be read again.
        access_stream: Where the access log goes; standard output where it is left out.
        on_started: Called once requests are taken.
        worker: What this process is of the gateway.
    """
    assert examined.config is not None
    settings = examined.config.observe.log
    sink = log.configure(settings.format, settings.level)
    raise_file_limit()
    for problem in examined.problems:
        logger.warning("%s: %s", problem.place, problem.fact)
    stream = sys.stdout.buffer if access_stream is None else access_stream
    gateway = Gateway(examined, access_stream=stream, origin=origin, worker=worker)

    def started() -> None:
        on_started()
        worker.ready()

    bound = _Bound(examined.config)

    async def whole() -> None:
        try:
            # Who is alone has nobody to give a sign to.
            beat = None if worker is ALONE else worker.beat
            await run(gateway, on_started=started, on_signal=bound.on_signal, orphaned=worker.orphaned, beat=beat)
        finally:
            _hand_over()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        uvloop.run(whole())
    except (ListenFailed, StartFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        sys.setswitchinterval(interval)
        bound.lift()
        if worker is not ALONE:
            # Its process ends without looking back.
            sink.close()
    return 0
