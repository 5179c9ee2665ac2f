"""One gateway as a process: signals, resource limits, log, exit code."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import uvloop
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from gateway.app import Gateway, StartFailed
from gateway.config import effective
from gateway.config.load import Examined
from gateway.config.problem import as_text
from gateway.listener.server import ListenFailed, raise_file_limit
from gateway.reload import ConfigurationOrigin, Trigger
from gateway.service_manager import SIGNALS, Notifier, leave_at_once, leave_within
from gateway.telemetry import log
from gateway.telemetry.log_output import SharedStream, form_of
from gateway.upstream.stdio.process import kill_all
from gateway.workers import Worker, supervise

_COLLECTOR = (10_000, 100, 100)
"""Thresholds of Python's garbage collector. With its defaults open calls start a collection of all objects every few
hundred calls, a third of their CPU time. Calls leave no cycles behind, and objects of the start are frozen. The first
threshold bounds a pause during a reload: visiting 10,000 new objects takes at most 10 ms."""
SWITCH_INTERVAL = 0.0001
"""Seconds after which a working thread yields the interpreter to a waiting one. With Python's own 5 ms each ready
socket would wait that long, one after the other, while a thread reads a configuration."""
_AT_ONCE = 3.0
"""Seconds for the last errors to clients after a second signal."""
_CLOSING = 8.0
"""Seconds to close everything after the drain; service managers kill after 10 s."""

logger = logging.getLogger("gateway")


async def run(
    gateway: Gateway,
    *,
    delay: float | None = None,
    on_started: Callable[[], None] = lambda: None,
    on_signal: Callable[[bool], None] = lambda _again: None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second one stops at once. SIGHUP reloads the configuration.

    A signal during the start ends the gateway as well.

    Args:
        delay: As `Gateway.stop`, for SIGTERM.
        on_started: Called once requests are served.
        on_signal: Called with each SIGTERM and SIGINT; the argument is true from the second on.

    Raises:
        ListenFailed, StartFailed: as `Gateway.start`.
    """
    signals = _Signals(gateway, on_signal)
    if not await _unless(signals.stop, gateway.start()):
        logger.info("stopped during the start")
        return
    on_started()
    signals.serve()
    await signals.stop.wait()
    signals.notifier.stopping()
    # Ctrl-C at a terminal needs no delay for load balancers.
    await gateway.stop(signals.at_once, delay=0.0 if signals.interactive else delay)


class _Signals:
    """Handles the signals of the process while its event loop runs.

    Attributes:
        stop: Set by the first SIGTERM or SIGINT.
        at_once: Set by the second one.
        interactive: Whether the first was SIGINT.
    """

    def __init__(self, gateway: Gateway, on_signal: Callable[[bool], None]) -> None:
        self._gateway = gateway
        self._on_signal = on_signal
        self._loop = asyncio.get_running_loop()
        self._serves = self._reload_asked = False
        self.stop, self.at_once = asyncio.Event(), asyncio.Event()
        self.interactive = False
        self.notifier = Notifier(os.environ)
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._end, number)
        self._loop.add_signal_handler(signal.SIGHUP, self._reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def serve(self) -> None:
        """Notify the service manager that requests are served, and run a reload that was requested during the start."""
        self.notifier.ready()
        self._serves = True
        if self._reload_asked:
            self._reload()
        if self.notifier.alive_every:
            self._send_heartbeat()

    def _end(self, number: signal.Signals) -> None:
        again = self.stop.is_set()
        self._on_signal(again)
        if again:
            self.at_once.set()
            return
        self.interactive = number is signal.SIGINT
        self.stop.set()

    def _reload(self) -> None:
        if not self._serves:
            # The file may have changed since it was read; the reload runs once there is a snapshot to compare with.
            self._reload_asked = True
            return
        self.notifier.reloading()
        self._gateway.reload_nowait(Trigger.SIGNAL, self.notifier.ready)

    def _send_heartbeat(self) -> None:
        self.notifier.alive()
        self._loop.call_later(self.notifier.alive_every, self._send_heartbeat)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work until the event is set; return whether it was completed."""
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
    """Serve a configuration file until a signal; return the exit code, and print problems to standard error.

    A SIGHUP during the start stays pending.
    """
    origin = ConfigurationOrigin(path, environ)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        examined = origin.read()
        if examined.config is None or examined.failed:
            sys.stderr.write(as_text((*examined.problems, *examined.failed)) + "\n")
            if examined.config is not None:
                sys.stderr.write("\nnot started: the configuration fails its own routing tests\n")
            return 1
        if workers == 1:
            return serve_examined(examined, origin=origin)
        raise_file_limit()

        def work(examined: Examined, worker: Worker, output: SharedStream) -> int:
            stream = cast("BinaryIO", output)  # It is only written to.
            return serve_examined(examined, origin=origin, access_stream=stream, worker=worker)

        return supervise(examined, origin, workers, work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve_examined(
    examined: Examined,
    *,
    origin: ConfigurationOrigin | None = None,
    access_stream: BinaryIO | None = None,
    on_started: Callable[[], None] = lambda: None,
    worker: Worker | None = None,
) -> int:
    """Serve a configuration without errors until a signal; return the exit code.

    Args:
        origin: Source of the configuration, for reloads.
        access_stream: Output of the access log, instead of standard output.
        on_started: Called once requests are served.
        worker: The worker that this process is; None in single-worker mode.
    """
    config = examined.config
    assert config is not None
    written = config.observe.log
    sink = log.configure(form_of(written.format, sys.stderr.buffer), written.level)
    raise_file_limit()
    for problem in examined.problems:
        logger.warning("%s: %s", problem.place, problem.fact)
    stream = access_stream or sys.stdout.buffer
    in_time = effective.drain_delay(config) + config.gateway.drain.timeout + _CLOSING
    timers: list[threading.Timer] = []

    def signalled(again: bool) -> None:  # noqa: FBT001 - as `run` calls it
        # A thread or a peer that hangs must not keep the process alive.
        timers.append(leave_within(_AT_ONCE if again else in_time, kill_all))

    def started() -> None:
        on_started()
        gc.collect()
        gc.freeze()
        if worker is not None:
            worker.ready()

    async def whole() -> None:
        gateway = Gateway(examined, access_stream=stream, origin=origin, worker=worker)
        _expose_process(gateway.metrics.registry)
        if worker is not None:
            worker.follow(gateway.obey)
            worker.answer_pings()
        try:
            await run(gateway, on_started=started, on_signal=signalled)
        finally:
            _handle_without_loop()

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*_COLLECTOR)
    try:
        uvloop.run(whole())
    except (ListenFailed, StartFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        for timer in timers:
            timer.cancel()
        if worker is not None:
            # A worker exits without running the handlers that flush the log.
            sink.close()
    return 0


def _expose_process(registry: CollectorRegistry) -> None:
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)


def _handle_without_loop() -> None:
    """Let signals end the process while its event loop closes."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.remove_signal_handler(number)
    leave_at_once()
