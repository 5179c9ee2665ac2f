"""One gateway as a process: its signals, its limits, its log, and its exit code."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, cast

import uvloop

from gateway.app import Gateway
from gateway.config.check import Examined
from gateway.config.problem import as_text
from gateway.listener.server import ListenFailed, raise_file_limit
from gateway.opening import ALONE, StartFailed, Worker
from gateway.reload import Origin, Trigger
from gateway.supervisor import supervise
from gateway.systemd import Notifier
from gateway.telemetry import log
from gateway.telemetry.shared_stream import SharedStream

logger = logging.getLogger("gateway")


async def run(gateway: Gateway, *, delay: float | None = None, on_started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; a second one stops at once. SIGHUP has the configuration read again.

    Args:
        delay: As `Gateway.stop`, for SIGTERM.
        on_started: Called once requests are taken.

    Raises:
        ListenFailed, StartFailed: as `Gateway.start`.
    """
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()
    quick = serves = asked = False

    def on_signal(number: signal.Signals) -> None:
        nonlocal quick
        if stop.is_set():
            hurry.set()
            return
        quick = number is signal.SIGINT
        stop.set()

    notifier = Notifier(os.environ)

    def on_hangup() -> None:
        nonlocal asked
        if not serves:
            # What was read before it came may be old: it is read again once there is something to put it beside.
            asked = True
            return
        notifier.reloading()
        gateway.reload_nowait(Trigger.SIGNAL, notifier.ready)

    def live() -> None:
        notifier.alive()
        loop.call_later(notifier.alive_every, live)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    await gateway.start()
    # What is there now stays: no collection needs to look at it again.
    gc.collect()
    gc.freeze()
    on_started()
    notifier.ready()
    serves = True
    if asked:
        on_hangup()
    if notifier.alive_every:
        live()
    await stop.wait()
    notifier.stopping()
    # A person at a terminal has no balancer that must be given time.
    await gateway.stop(hurry, delay=0.0 if quick else delay)


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

    try:
        uvloop.run(run(gateway, on_started=started))
    except (ListenFailed, StartFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        if worker is not ALONE:
            # Its process ends without looking back.
            sink.close()
    return 0
