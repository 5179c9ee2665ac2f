"""`serve --workers N`: a supervisor process that holds the sockets, and N worker processes that serve them.

The supervisor is uvicorn's. It reads the configuration, binds, forks the workers, and replaces those that end. It has
no threads and no event loop, so a fork is safe. Each worker is a whole gateway and accepts from the shared sockets.

    SIGTERM, SIGINT     are passed on. The exit code is 0. A second signal stops the workers at once.
    SIGHUP              is passed on: each worker reloads by itself.
    a worker dies       Another one is forked at once, with the configuration that the others serve.
    a worker hangs      It is killed once its event loop has left pings unanswered for 30 s, and replaced.
    the supervisor dies The workers stop at once, and end their open calls with an error.

A worker reports its reload to the supervisor, which reads the configuration too, for workers that it forks later. Pings
carry the results of the last reload of all workers, so that `POST /-/reload` can answer for all of them. Orders of
operators (the level of the log, drain) reach all workers in the same way.
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
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import uvicorn
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import SIGNALS, Process

from gateway.config import effective
from gateway.config.checks.gateway import check_workers
from gateway.config.load import Examined
from gateway.config.problem import as_text
from gateway.listener.server import ListenFailed, bind, remove, reserve
from gateway.reload import ConfigurationOrigin, ReloadReport, ReloadResult, Unusable, usable
from gateway.service_manager import Notifier, leave_at_once
from gateway.startup import Sockets
from gateway.telemetry import log
from gateway.telemetry.log_output import SharedStream, form_of
from gateway.telemetry.worker_metrics import WorkerMetrics

_TICK = 0.1
"""Longest time until the supervisor handles a signal, in seconds."""
_PING = 0.5
"""Seconds between two pings."""
HANGS_AFTER = 30
"""Seconds without an answer after which a worker is killed."""
AGAIN = 0.5
"""Seconds until a worker is replaced that ended sooner after its start."""
_RELOAD = 25.0
"""Seconds that a reload may take in the other workers: slow files, and cards that are fetched."""
_SPREAD = 5.0
"""Seconds in which other workers confirm an order."""
_CLOSING = 10.0
"""Seconds beyond those of the drain until workers are killed after a signal to stop; they themselves need less."""
_AT_ONCE = 5.0
"""Seconds until they are killed after a second one."""
_STARTED = "started"
_HANDLED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_FORK = multiprocessing.get_context("fork")

logger = logging.getLogger("gateway.workers")


class ReloadOrder(NamedTuple):
    """The outcome of the last reload of a worker.

    Attributes:
        began: Its begin, in seconds of the monotonic clock, which all processes share.
        result: A `reload.Result`; `started` of a worker that has not reloaded yet.
        hash: Hash of the configuration that was read, valid or not.
        error: Reason of a rejection.
    """

    began: float
    result: str
    hash: str
    error: str | None = None


class Orders(NamedTuple):
    """The orders of operators that hold for all workers, also for those that are forked later.

    Attributes:
        level: The level of the own log; None for that of the configuration.
        level_since: When it was ordered, in seconds of the monotonic clock; the latest order wins.
        drains: Whether the gateway drains; never taken back.
    """

    level: str | None = None
    level_since: float = 0.0
    drains: bool = False

    def merged(self, other: "Orders") -> "Orders":
        """Return the combined orders."""
        newer = other if other.level_since > self.level_since else self
        return Orders(newer.level, newer.level_since, self.drains or other.drains)


class WorkerState(NamedTuple):
    """The state of a worker, which it reports to the supervisor, and the supervisor to the other workers.

    Attributes:
        is_serving: Whether it serves requests.
        last_reload: Its last reload, or its start.
        orders: The orders that it obeys.
    """

    is_serving: bool
    last_reload: ReloadOrder
    orders: Orders


class Worker(Process):
    """One worker: first the methods for its own process, then those for the supervisor.

    Args:
        config: Has the number of workers.
        sockets: The bound sockets.
        metrics: Merges the metrics of all workers.
        text_hash: Of the configuration that the worker starts with.
        serve: Serves as the worker; returns the exit code.
        orders: The orders that hold when it starts.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: Sockets,
        metrics: WorkerMetrics,
        text_hash: str,
        serve: "Callable[[Worker], int]",
        *,
        orders: Orders,
    ) -> None:
        super().__init__(config, [])
        # uvicorn would spawn an interpreter, which takes seconds to import everything.
        self.process = _FORK.Process(target=self.target)  # type: ignore[assignment]
        self.processes = config.workers
        self.sockets = sockets
        self.metrics = metrics
        self.state = WorkerState(False, ReloadOrder(time.monotonic(), _STARTED, text_hash), orders)
        self._obey: Callable[[Orders], None] = lambda _orders: None
        self._serve = serve
        self._supervisor = os.getpid()
        self._others: dict[int, WorkerState] = {}
        self.began = time.monotonic()
        self._unanswered = 0

    def target(self, _sockets: list[socket.socket] | None = None) -> None:
        """Serve, and end the process."""
        code = 1
        try:
            # A Ctrl-C at the terminal is for the supervisor, which passes it on.
            os.setpgid(0, 0)
            os.environ.pop("NOTIFY_SOCKET", None)
            leave_at_once()
            # SIGHUP waits until the gateway handles it.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED - {signal.SIGHUP})
            threading.Thread(target=_end_with, args=(self._supervisor,), daemon=True).start()
            code = self._serve(self)
        except Exception:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        finally:
            # Forks must not run the cleanup of the supervisor.
            os._exit(code)

    def answer_pings(self) -> None:
        """Answer the supervisor from the running event loop, which shows that the loop turns."""
        asyncio.get_running_loop().add_reader(self.child_conn.fileno(), self.pong)

    def pong(self) -> None:
        """Answer one ping."""
        self._others, ordered = self.child_conn.recv()
        self._others.pop(os.getpid(), None)
        ordered = self.state.orders.merged(ordered)
        if ordered != self.state.orders:
            self._obey(ordered)
        self._report(orders=ordered)

    def follow(self, obey: Callable[[Orders], None]) -> None:
        """Pass on the current orders, and later ones."""
        self._obey = obey
        obey(self.state.orders)

    async def spread(self, orders: Orders) -> int:
        """Give an order to all workers; return the number of others that have not confirmed it in time."""
        orders = self.state.orders.merged(orders)
        self._report(orders=orders)
        others = self.processes - 1
        done = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_SPREAD):
                while done < others:
                    await asyncio.sleep(0.02)
                    done = sum(each.orders.merged(orders) == each.orders for each in self._others.values())
        return others - done

    def ready(self) -> None:
        """Report to the supervisor that requests are served."""
        self._report(is_serving=True)

    def reloaded(self, report: ReloadReport) -> None:
        """Report the outcome of a reload to the supervisor."""
        last = ReloadOrder(report.began, report.result.value, report.text_hash, report.why or None)
        self._report(last_reload=last)

    async def reload_others(self) -> dict[str, Any]:
        """Reload all workers; return the results of the others, and the number without an answer in time."""
        since = time.monotonic()
        if os.getppid() == self._supervisor:
            os.kill(self._supervisor, signal.SIGHUP)
        workers: list[dict[str, Any]] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(_RELOAD):
                while len(workers) < self.processes - 1:
                    await asyncio.sleep(0.02)
                    workers = [
                        {"pid": pid, "result": last.result, "hash": last.hash, "error": last.error}
                        for pid, (_, last, _) in self._others.items()
                        if last.began >= since
                    ]
        return {"workers": workers, "unheard": self.processes - 1 - len(workers)}

    def _report(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the state
        self.state = self.state._replace(**changes)
        # The supervisor may be gone.
        with suppress(OSError):
            self.child_conn.send(self.state)

    # ---- In the supervisor -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fork."""
        # A signal in between would reach the handlers of the supervisor within the worker, and be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        super().start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)

    @property
    def runs(self) -> bool:
        """Return whether its process runs."""
        return self.process.is_alive()

    def send_signal(self, number: int) -> None:
        """Send a signal to the worker, if it runs."""
        if self.runs and self.pid is not None:
            os.kill(self.pid, number)

    def receive(self) -> None:
        """Read the messages of the worker."""
        with suppress(OSError, EOFError):
            while self.parent_conn.poll():
                self.state = self.parent_conn.recv()
                self._unanswered = 0

    def send_ping(self, states: dict[int, WorkerState], orders: Orders) -> bool:
        """Ping the worker unless a ping is unanswered; return whether it hangs."""
        if not self._unanswered:
            with suppress(OSError):
                self.parent_conn.send((states, orders))
        # Pings are counted, not seconds: a paused container also pauses the supervisor.
        self._unanswered += 1
        return self._unanswered > HANGS_AFTER / _PING


Work: TypeAlias = Callable[[Examined, Worker, SharedStream], int]
"""Serves a configuration as a worker, with the access log on a stream; returns the exit code."""


class Workers(Multiprocess):
    """The supervisor.

    Args:
        examined: The configuration that the first workers start with.
        origin: The source that it was read from.
        count: Number of workers.
        work: Serves in each of them.

    Attributes:
        exit_code: The exit code of the gateway.
    """

    processes: list[Worker]  # type: ignore[assignment]

    def __init__(self, examined: Examined, origin: ConfigurationOrigin, count: int, work: Work) -> None:
        super().__init__(uvicorn.Config("gateway", workers=count, log_config=None), [])
        for number in SIGNALS.keys() - _HANDLED:
            # SIGTTIN and SIGTTOU would change the number of workers, by which limits are divided.
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        self.exit_code = 0
        self._examined = examined
        self._read_at = time.monotonic()
        self._origin = origin
        self._work = work
        self._bound: dict[tuple[str, str], socket.socket] = {}
        self._output = SharedStream(sys.stdout.fileno())
        self._folder = Path(tempfile.mkdtemp(prefix="a2a-gateway-"))
        self._metrics = WorkerMetrics(self._folder)
        self._notifier = Notifier(os.environ)
        self._states: dict[int, WorkerState] = {}
        self._orders = Orders()
        self._ping_at = 0.0
        self._has_served = False
        self._reload_asked = math.inf
        """Time of the last reload request; infinite once all workers have reloaded."""
        self._ending = signal.SIGTERM
        self._kill_at = math.inf

    def run(self) -> None:
        """Serve until a signal.

        Raises:
            ListenFailed: an address cannot be listened on.
        """
        try:
            self._bind()
            self.init_processes()
            while not self.should_exit.is_set():
                self._wait()
                self.keep_subprocess_alive()
            self.terminate_all()
            self.join_all()
        finally:
            for each in self._bound.values():
                remove(each)
                each.close()
            self._output.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def init_processes(self) -> None:
        """Fork all workers."""
        for _ in range(self.processes_num):
            self.processes.append(self._started())

    def keep_subprocess_alive(self) -> None:
        """Ping the workers, and replace those that have ended or hang."""
        # First, so that the last messages of an ended worker are known when it is replaced.
        ended = [index for index, worker in enumerate(self.processes) if not worker.runs]
        for worker in self.processes:
            worker.receive()
        before, self._states = self._states, {each.pid or 0: each.state for each in self.processes}
        if self._states != before:
            self._follow()
        # Other workers need not know that a worker begins to serve, and each unanswered ping counts.
        has_news = {pid: state[1:] for pid, state in self._states.items()} != {
            pid: state[1:] for pid, state in before.items()
        }
        for state in self._states.values():
            self._orders = self._orders.merged(state.orders)
        if self._orders.level is not None and self._orders.level != log.current_level():
            log.set_level(self._orders.level)
        if has_news or time.monotonic() >= self._ping_at:
            self._ping_at = time.monotonic() + _PING
            for worker in self.processes:
                if worker.send_ping(self._states, self._orders):
                    pid = worker.pid
                    logger.error("worker %d answered no ping for %d s and is killed", pid, HANGS_AFTER)
                    worker.process.kill()
        self._notify()
        for index in ended:
            self._replace(index, self.processes[index])

    def terminate_all(self) -> None:
        """Pass on the signal that ends the workers, and allow them the drain time."""
        config = self._examined.config
        assert config is not None
        drain = effective.drain_delay(config) + config.gateway.drain.timeout
        self._kill_at = min(self._kill_at, time.monotonic() + drain + _CLOSING)
        self._pass_on(self._ending)

    def join_all(self) -> None:
        """Wait until all workers have ended."""
        while any(worker.runs for worker in self.processes):
            self._wait()
            for worker in self.processes:
                worker.receive()
            self._notifier.alive()
            if time.monotonic() >= self._kill_at:
                self._pass_on(signal.SIGKILL)

    def handle_term(self) -> None:
        """Stop."""
        self._stop(signal.SIGTERM)

    def handle_int(self) -> None:
        """Stop without the delay for load balancers."""
        self._stop(signal.SIGINT)

    def handle_hup(self) -> None:
        """Reload all workers."""
        if self._has_served:
            self._notifier.reloading()
            self._reload_asked = time.monotonic()
        self._pass_on(signal.SIGHUP)

    def _bind(self) -> None:
        assert self._examined.config is not None
        written = self._examined.config.gateway
        for role, address in (*(("public", each) for each in written.listen), ("admin", written.admin.listen)):
            self._bound[role, address] = bind(address, written.socket_mode)
        if written.listen_grpc is not None:
            self._bound["grpc", written.listen_grpc] = reserve(written.listen_grpc)

    def _wait(self) -> None:
        """Wait for a message of a worker or the end of one, and handle signals."""
        running = [worker for worker in self.processes if worker.exitcode is None]
        wait([*(each.parent_conn for each in running), *(each.process.sentinel for each in running)], _TICK)
        self.handle_signals()

    def _pass_on(self, number: int) -> None:
        for worker in self.processes:
            worker.send_signal(number)

    def _stop(self, number: signal.Signals) -> None:
        if self.should_exit.is_set():
            self._kill_at = min(self._kill_at, time.monotonic() + _AT_ONCE)
            self._pass_on(number)
            return
        self._ending = number
        self._notifier.stopping()
        self.should_exit.set()

    def _started(self) -> Worker:
        def serve(worker: Worker) -> int:
            return self._work(self._examined, worker, self._output)

        worker = Worker(self.config, self._bound, self._metrics, self._examined.text_hash, serve, orders=self._orders)
        worker.start()
        return worker

    def _replace(self, index: int, worker: Worker) -> None:
        """Replace a worker that has ended; stop all if the first start failed."""
        code = worker.exitcode or 0
        if not self._has_served:
            # The configuration or the machine is the cause, so another worker would fail as well.
            logger.error("a worker failed to start: exit code %d", code)
            self.exit_code = code if code > 0 else 1
            self.should_exit.set()
        elif time.monotonic() - worker.began >= AGAIN:
            logger.error("worker %d ended (exit code %d) and is replaced", worker.pid, code)
            worker.kill()  # closes its pipe
            try:
                self._metrics.bury(worker.pid or 0)
            except OSError as error:
                logger.warning("metrics of an ended worker are lost: %s", error)
            self.processes[index] = self._started()

    def _follow(self) -> None:
        """Read a configuration that a worker has applied, for workers that start later."""
        reloads = [state.last_reload for state in self._states.values()]
        newer = [each.began for each in reloads if each.result == ReloadResult.APPLIED and each.began > self._read_at]
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
        for worker in self.processes:
            start = worker.state.last_reload
            if start.result == _STARTED and start.began > min(newer) and start.hash != self._examined.text_hash:
                # It was forked after that reload began, with the configuration of before.
                worker.send_signal(signal.SIGHUP)

    def _notify(self) -> None:
        """Notify the service manager."""
        if not self._has_served and all(worker.state.is_serving for worker in self.processes):
            self._has_served = True
            logger.info("%d workers serve", self.processes_num)
            self._notifier.ready()
        is_late = time.monotonic() > self._reload_asked + _RELOAD
        if is_late or all(each.last_reload.began >= self._reload_asked for each in self._states.values()):
            self._reload_asked = math.inf
            self._notifier.ready()
        if self._has_served:
            self._notifier.alive()


def _end_with(supervisor: int) -> None:
    """End this process soon after the supervisor, even if its event loop hangs."""
    while os.getppid() == supervisor:
        time.sleep(_PING)
    for _ in range(2):
        # The second signal leaves no time to drain.
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    time.sleep(_AT_ONCE)
    os._exit(1)


def supervise(examined: Examined, origin: ConfigurationOrigin, count: int, work: Work) -> int:
    """Serve with `count` workers until a signal; return the exit code, and print problems to standard error."""
    config = examined.config
    assert config is not None
    problems = check_workers(config, examined.marks, count)
    if problems:
        sys.stderr.write(as_text(problems) + "\n")
        return 1
    written = config.observe.log
    log.configure_directly(form_of(written.format, sys.stderr.buffer), written.level)
    workers = Workers(examined, origin, count, work)
    try:
        workers.run()
    except ListenFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return workers.exit_code
