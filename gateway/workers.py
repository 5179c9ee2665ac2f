"""`serve --workers N`: a supervisor process that holds the sockets, and N worker processes that serve them.

The supervisor is uvicorn's. It reads the configuration, binds, forks the workers, and restarts those that end. It has
no threads and no event loop, so a fork is safe. Each worker is a whole gateway and accepts from the shared sockets.

    SIGTERM, SIGINT     are passed on. The exit code is 0. A second signal stops the workers at once; after 5 s they are
                        killed.
    SIGHUP              is passed on: each worker reloads by itself.
    a worker dies       Another one is forked at once, with the configuration that the others serve.
    a worker hangs      It is killed once its event loop has left a ping unanswered for 30 s, and replaced.
    the supervisor dies The workers stop at once, and end their open calls with an error.

A worker that reloads tells the supervisor, which reads the configuration too, for workers that it forks later. Pings
tell each worker what the others made of their last reload, so that `POST /-/reload` can answer for all of them.
"""

import asyncio
import logging
import math
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import SIGNALS, Process

from gateway.config import effective
from gateway.config.check import Examined
from gateway.config.problem import as_text
from gateway.config.routes import divided
from gateway.departure import leave_at_once
from gateway.listener.server import ListenFailed, bind
from gateway.reload import Origin, Report, Result, Unusable, usable
from gateway.systemd import Notifier
from gateway.telemetry import log
from gateway.telemetry.shared_stream import SharedStream
from gateway.telemetry.worker_metrics import WorkerMetrics

_TICK = 0.5
"""Seconds between two pings. A worker that died sooner after its start is not replaced before the next one."""
_HANGS_AFTER = 30
"""Seconds without an answer after which a worker is killed."""
_RELOAD_TIMEOUT = 25.0
"""Seconds that a reload may take in the other workers: slow files, and cards that are fetched."""
_CLOSING = 10.0
"""Seconds beyond those of the drain until workers are killed after a signal to stop; they themselves need less."""
_HURRY_TIMEOUT = 5.0
"""Seconds until they are killed after a second one."""
_STARTED = "started"
_HEARD = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_FORK = multiprocessing.get_context("fork")

logger = logging.getLogger("gateway.workers")


class Reload(NamedTuple):
    """The outcome of the last reload of one worker.

    Attributes:
        began: When it began, in seconds of the monotonic clock, which all processes share.
        result: A `reload.Result`; `started` of a worker that has not reloaded yet.
        hash: Of the configuration that was read, good or bad.
        error: Why it was refused.
    """

    began: float
    result: str
    hash: str
    error: str | None = None


class Worker:
    """One worker, as its own process sees it.

    Args:
        processes: Number of workers.
        sockets: The bound sockets by role (`public`, `admin`, `grpc`).
        metrics: Merges the metrics of all workers.
        connection: Its end of the pipe to the supervisor.
        supervisor: The process id of that one.
        reloaded: The initial value of its last reload.
    """

    def __init__(
        self,
        *,
        processes: int,
        sockets: dict[str, socket.socket],
        metrics: WorkerMetrics,
        connection: Connection,
        supervisor: int,
        reloaded: Reload,
    ) -> None:
        self.processes = processes
        self.sockets = sockets
        self.metrics = metrics
        self._connection = connection
        self._supervisor = supervisor
        self._reloaded = reloaded
        self._others: dict[int, Reload] = {}
        self._is_ready = False

    def answer_pings(self) -> None:
        """Answer the supervisor from the running event loop, which shows that the loop turns."""
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._answer)

    def ready(self) -> None:
        """Tell the supervisor that requests are served."""
        self._is_ready = True
        self._tell()

    def reloaded(self, report: Report) -> None:
        """Tell the supervisor the outcome of a reload."""
        self._reloaded = Reload(report.began, report.result.value, report.text_hash, report.why or None)
        self._tell()

    async def reload_others(self) -> dict[str, Any]:
        """Have all workers reload; return what the others made of it, and how many did not answer in time."""
        since = time.monotonic()
        if os.getppid() == self._supervisor:
            os.kill(self._supervisor, signal.SIGHUP)
        fresh: dict[int, Reload] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(_RELOAD_TIMEOUT):
                while len(fresh) < self.processes - 1:
                    await asyncio.sleep(0.02)
                    fresh = {pid: last for pid, last in self._others.items() if last.began >= since}
        return {
            "workers": [
                {"pid": pid, "result": last.result, "hash": last.hash, "error": last.error}
                for pid, last in fresh.items()
            ],
            "unheard": self.processes - 1 - len(fresh),
        }

    def _answer(self) -> None:
        try:
            self._others = self._connection.recv()
        except (OSError, EOFError):
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            return
        self._others.pop(os.getpid(), None)
        self._tell()

    def _tell(self) -> None:
        # The supervisor may be gone.
        with suppress(OSError):
            self._connection.send((self._is_ready, self._reloaded))


class _WorkerProcess(Process):
    """One worker, as the supervisor sees it.

    Args:
        serve: Serves as a worker, given its end of the pipe; returns the exit code.
        reloaded: The initial value of `reloaded`.

    Attributes:
        is_serving: Whether it has said that it serves.
        reloaded: Its last reload.
    """

    def __init__(self, config: uvicorn.Config, serve: Callable[[Connection], int], reloaded: Reload) -> None:
        super().__init__(config, [])
        # uvicorn would spawn an interpreter, which takes seconds to import everything.
        self.process = _FORK.Process(target=self.target)  # type: ignore[assignment]
        self._serve = serve
        self._supervisor = os.getpid()
        self._unanswered = 0
        self.is_serving = False
        self.reloaded = reloaded
        self.began = time.monotonic()

    def start(self) -> None:
        """Fork."""
        # A signal in between would reach the handlers of the supervisor within the worker, and be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        super().start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)

    def target(self, _sockets: list[socket.socket] | None = None) -> None:
        """Serve as a worker, and end the process."""
        code = 1
        try:
            # A Ctrl-C at the terminal is for the supervisor, which passes it on.
            os.setpgid(0, 0)
            os.environ.pop("NOTIFY_SOCKET", None)
            signal.set_wakeup_fd(-1)
            leave_at_once()
            # SIGHUP waits until the gateway handles it.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD - {signal.SIGHUP})
            threading.Thread(target=_end_with_parent, args=(self._supervisor,), daemon=True).start()
            code = self._serve(self.child_conn)
        except Exception:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        finally:
            # Whatever the supervisor cleans up is not cleaned up by its forks.
            os._exit(code)

    def receive(self) -> None:
        """Take in what the worker has said."""
        with suppress(OSError, EOFError):
            while self.parent_conn.poll():
                self.is_serving, self.reloaded = self.parent_conn.recv()
                self._unanswered = 0

    def tell(self, reloads: dict[int, Reload]) -> bool:
        """Ping the worker unless a ping is unanswered; return whether it hangs."""
        if not self._unanswered:
            with suppress(OSError):
                self.parent_conn.send(reloads)
        # Pings are counted, not seconds: in a container that was paused the supervisor stood still as well.
        self._unanswered += 1
        return self._unanswered > _HANGS_AFTER / _TICK

    def pass_on(self, number: int) -> None:
        """Send a signal to the worker, if it runs."""
        if self.process.is_alive() and self.pid is not None:
            os.kill(self.pid, number)


class Workers(Multiprocess):
    """The supervisor.

    Args:
        examined: The configuration that the first workers start with.
        origin: Where it was read from.
        count: Number of workers.
        work: Serves as a worker, in a process of its own; returns the exit code.
    """

    processes: list[_WorkerProcess]  # type: ignore[assignment]

    def __init__(
        self, examined: Examined, origin: Origin, count: int, work: Callable[[Examined, Worker, SharedStream], int]
    ) -> None:
        super().__init__(uvicorn.Config("gateway", workers=count, log_config=None), [])
        for number in SIGNALS.keys() - _HEARD:
            # SIGTTIN and SIGTTOU would change the number of workers, by which limits are divided.
            signal.signal(number, signal.SIG_DFL)
        self._wakeup, wakes = socket.socketpair()
        for end in (self._wakeup, wakes):
            end.setblocking(False)
        self._wakes = wakes
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        self._examined = examined
        self._read_at = time.monotonic()
        self._origin = origin
        self._work = work
        self._listening: dict[str, socket.socket] = {}
        self._output = SharedStream(sys.stdout.fileno())
        self._folder = Path(tempfile.mkdtemp(prefix="a2a-gateway-"))
        self._metrics = WorkerMetrics(self._folder)
        self._notifier = Notifier(os.environ)
        self._reloads: dict[int, Reload] = {}
        self._next_ping = 0.0
        self._has_served = False
        self._reload_asked = math.inf
        """When the workers were told to reload; infinite once they have."""
        self._ending = signal.SIGTERM
        self._kill_at = math.inf
        self.exit_code = 0

    def run(self) -> None:
        """Serve until a signal.

        Raises:
            ListenFailed: an address cannot be listened on.
        """
        try:
            self._bind()
            self.init_processes()
            while not self.should_exit.is_set():
                self._wait(max(self._next_ping - time.monotonic(), 0.0))
                self.handle_signals()
                self.keep_subprocess_alive()
            self.terminate_all()
            self.join_all()
        finally:
            signal.set_wakeup_fd(-1)
            for each in (self._wakeup, self._wakes, *self._listening.values()):
                each.close()
            self._output.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def init_processes(self) -> None:
        """Fork all workers."""
        for _ in range(self.processes_num):
            self.processes.append(self._start_worker())

    def keep_subprocess_alive(self) -> None:
        """Take in what the workers have said, ping them, and replace those that have ended or hang."""
        before = self._reloads
        for process in self.processes:
            process.receive()
        self._reloads = {process.pid: process.reloaded for process in self.processes if process.pid is not None}
        if self._reloads != before:
            self._follow()
        now = time.monotonic()
        if now >= self._next_ping or self._reloads != before:
            self._next_ping = now + _TICK
            for process in self.processes:
                if process.tell(self._reloads):
                    pid = process.pid
                    logger.error("worker %d has given no sign of life for %d s, and is killed", pid, _HANGS_AFTER)
                    process.process.kill()
                    process.join()
        for index, process in enumerate(self.processes):
            if not process.process.is_alive() and not self._replace(index, process):
                return
        self._notify()

    def terminate_all(self) -> None:
        """Pass the signal on that ends them."""
        for process in self.processes:
            process.pass_on(self._ending)

    def join_all(self) -> None:
        """Wait until all workers have ended."""
        while any(process.process.is_alive() for process in self.processes):
            self._wait(_TICK)
            self.handle_signals()
            self._notifier.alive()
            if time.monotonic() >= self._kill_at:
                for process in self.processes:
                    process.process.kill()

    def handle_term(self) -> None:
        """Stop."""
        self._stop(signal.SIGTERM)

    def handle_int(self) -> None:
        """Stop, without the time that a load balancer is given."""
        self._stop(signal.SIGINT)

    def handle_hup(self) -> None:
        """Have all workers reload."""
        if self._has_served:
            self._notifier.reloading()
            self._reload_asked = time.monotonic()
        for process in self.processes:
            process.pass_on(signal.SIGHUP)

    def _bind(self) -> None:
        assert self._examined.config is not None
        written = self._examined.config.gateway
        addresses = {"public": written.listen, "admin": written.admin.listen, "grpc": written.listen_grpc}
        for role, address in addresses.items():
            if address is not None:
                self._listening[role] = bind(address)

    def _start_worker(self) -> _WorkerProcess:
        reloaded, supervisor = Reload(time.monotonic(), _STARTED, self._examined.text_hash), os.getpid()

        def serve(connection: Connection) -> int:
            worker = Worker(
                processes=self.processes_num,
                sockets=self._listening,
                metrics=self._metrics,
                connection=connection,
                supervisor=supervisor,
                reloaded=reloaded,
            )
            return self._work(self._examined, worker, self._output)

        process = _WorkerProcess(self.config, serve, reloaded)
        process.start()
        return process

    def _replace(self, index: int, process: _WorkerProcess) -> bool:
        """Fork another worker for one that has ended; return False if the gateway ends instead."""
        code = process.exitcode or 0
        if not self._has_served:
            # The cause is the configuration or the machine, and another worker would fare no better.
            logger.error("a worker could not start: exit code %d", code)
            self.exit_code = code if code > 0 else 1
            self.should_exit.set()
            return False
        now = time.monotonic()
        if now - process.began < _TICK:
            # It could not even start. `began` moves on, so that this is looked at again later.
            self._next_ping = min(self._next_ping, process.began + _TICK)
            return True
        logger.error("worker %d is gone (exit code %d), another takes its place", process.pid, code)
        process.kill()  # closes its pipe
        try:
            self._metrics.bury(process.pid or 0)
        except OSError as error:
            logger.warning("the metrics of a worker that ended are lost: %s", error)
        self.processes[index] = self._start_worker()
        return True

    def _follow(self) -> None:
        """Read a configuration that a worker has applied: workers that start later begin with it."""
        applied = [each.began for each in self._reloads.values() if each.result == Result.APPLIED]
        newer = [began for began in applied if began > self._read_at]
        if not newer:
            return
        self._read_at = time.monotonic()
        running, examined = self._examined.config, self._origin.read()
        assert running is not None
        if examined.config is None or examined.failed:
            return
        with suppress(Unusable):
            has_store = effective.keeps_state(running)
            self._examined, _ = usable(running, examined, has_store=has_store, processes=self.processes_num)
        for process in self.processes:
            started = process.reloaded
            if started.result == _STARTED and started.began > min(newer) and started.hash != self._examined.text_hash:
                # It was forked after that reload began, with the configuration of before.
                process.pass_on(signal.SIGHUP)

    def _notify(self) -> None:
        if not self._has_served and all(process.is_serving for process in self.processes):
            self._has_served = True
            logger.info("%d workers serve", self.processes_num)
            self._notifier.ready()
        if all(each.began >= self._reload_asked for each in self._reloads.values()) or (
            time.monotonic() > self._reload_asked + _RELOAD_TIMEOUT
        ):
            self._reload_asked = math.inf
            self._notifier.ready()
        if self._has_served:
            self._notifier.alive()

    def _stop(self, number: signal.Signals) -> None:
        if self.should_exit.is_set():
            self._kill_at = min(self._kill_at, time.monotonic() + _HURRY_TIMEOUT)
            for process in self.processes:
                process.pass_on(number)
            return
        self._notifier.stopping()
        self._ending = number
        assert self._examined.config is not None
        drain = effective.drain_delay(self._examined.config) + self._examined.config.gateway.drain.timeout
        self._kill_at = time.monotonic() + drain + _CLOSING
        self.should_exit.set()

    def _wait(self, seconds: float) -> None:
        """Wait until a signal, a message of a worker or the end of one comes, for so many seconds at most."""
        running = [process for process in self.processes if process.exitcode is None]
        pipes = [process.parent_conn for process in running] if not self.should_exit.is_set() else []
        wait([self._wakeup, *pipes, *(process.process.sentinel for process in running)], seconds)
        with suppress(BlockingIOError):
            while self._wakeup.recv(4096):
                pass


def _end_with_parent(parent: int) -> None:
    """End this process soon after its parent, whatever its event loop does."""
    while os.getppid() == parent:
        time.sleep(_TICK)
    for _ in range(2):
        # The second signal says that there is no time to drain.
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    time.sleep(_HURRY_TIMEOUT)
    os._exit(1)


def supervise(
    examined: Examined, origin: Origin, count: int, work: Callable[[Examined, Worker, SharedStream], int]
) -> int:
    """Serve with so many workers until a signal; return the exit code, and print problems to standard error."""
    config = examined.config
    assert config is not None
    problems = divided(config, examined.marks, count)
    if problems:
        sys.stderr.write(as_text(problems) + "\n")
        return 1
    log.configure_directly(config.observe.log.format, config.observe.log.level)
    workers = Workers(examined, origin, count, work)
    try:
        workers.run()
    except ListenFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return workers.exit_code
