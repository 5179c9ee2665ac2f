"""`serve --workers N`: one process holds the sockets and looks after N that serve.

    parent    reads the configuration, binds, forks; serves nobody, has no threads and no event loop, knows no gRPC
    worker    a whole gateway on the sockets that it inherited; all accept from the same queue, so that a client who
              waits there waits for whichever is left when one of them dies

    SIGTERM, SIGINT     are passed on; the parent ends when the last worker has, with exit code 0; a second one ends
                        who is left after 5 s
    SIGHUP              is passed on, and the parent reads the file as well: whoever is started next begins with what
                        the others serve by then
    the parent dies     workers hear of it and end at once, with last words for their calls
    a worker dies       another takes its place at once; one that cannot even start is tried again after half a second
    a worker is stuck   it is killed once it has given no sign of life for half a minute (`pulse.py`), which is as above

Workers share tasks, webhooks and keys through the store, a file or a Redis, and counts through the board. Each gives
its share of the limits, but for requests where the store is a Redis. A worker that was told `POST /-/reload` has the
others do the same.
"""

import ctypes
import gc
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gateway.config import effective
from gateway.config.check import Examined
from gateway.config.dividing import divided
from gateway.config.problem import as_text
from gateway.listener.server import ListenFailed
from gateway.opening import Worker, asked_of_clients, bound, open_tls
from gateway.pulse import LOOK, LOOKS, Pulses
from gateway.reload import Origin, Unusable, usable
from gateway.systemd import Notifier
from gateway.telemetry import log
from gateway.telemetry.board import Board
from gateway.telemetry.shared_stream import SharedStream
from gateway.uptake import PATIENCE, Uptake, waited_for

_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1})
_AGAIN = 0.5
"""Seconds until a worker is tried again that could not start."""
_LOOK = 0.1
_AT_ONCE = 5.0
"""Seconds that a second signal leaves to workers, which take less."""
_READY, _APPLIED, _RELOAD = b"+", b"a", b"r"
_PR_SET_PDEATHSIG = 1

logger = logging.getLogger("gateway.supervisor")


class Supervisor:
    """Looks after workers.

    Args:
        examined: What they begin with.
        origin: Where it comes from.
        count: How many there are to be.
        work: Serves as a worker, in a process of its own; gives its exit code.
    """

    def __init__(
        self, examined: Examined, origin: Origin, count: int, work: Callable[[Examined, Worker, SharedStream], int]
    ) -> None:
        assert examined.config is not None
        self._examined = examined
        self._origin = origin
        self._count = count
        self._work = work
        self._folder = Path(tempfile.mkdtemp(prefix="a2a-gateway-"))
        self._lock = self._folder / "output"
        # Opened once, for all: the folder may be cleaned while they serve.
        self._output = SharedStream(sys.stdout.fileno(), self._lock)
        (self._folder / "board").mkdir()
        self._board = Board(self._folder / "board")
        (self._folder / "uptake").mkdir()
        self._uptake = Uptake(self._folder / "uptake")
        self._asked = math.inf
        """When workers were told to read their configuration again; infinite once they have."""
        self._hear, self._tell = os.pipe()
        os.set_blocking(self._hear, False)
        self._sockets: dict[str, socket.socket] = {}
        self._alive: dict[int, float] = {}
        self._pulses = Pulses(count)
        self._look_at = 0.0
        self._ready = 0
        self._due: list[float] = []
        self._stopping = False
        self._last = math.inf
        """When who has not ended by itself is ended."""
        self._code = 0
        self._notifier = Notifier(os.environ)

    def run(self) -> int:
        """Serve until a signal; the exit code.

        Raises:
            ListenFailed: an address cannot be listened on.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in _SIGNALS:
            # Whatever was said of it before, such as nohup's.
            signal.signal(number, signal.SIG_DFL)
        try:
            self._bind()
            self._due = [0.0] * self._count
            while self._alive or (self._due and not self._stopping):
                self._start_due()
                if self._ready >= self._count:
                    self._notifier.alive()
                told = signal.sigtimedwait(_SIGNALS, self._pause())
                if told is not None:
                    self._on(signal.Signals(told.si_signo))
                if self._asked < math.inf and not self._stopping:
                    self._see_taken()
                if not self._stopping and time.monotonic() >= self._look_at:
                    self._end_stuck()
                if time.monotonic() >= self._last:
                    self._pass_on(signal.SIGKILL)
        finally:
            for listener in self._sockets.values():
                listener.close()
            self._output.close()
            for tidy in (
                self._board.close,
                self._uptake.close,
                partial(self._lock.unlink, missing_ok=True),
                self._folder.rmdir,
            ):
                _attempt(tidy)
        return self._code

    def _bind(self) -> None:
        assert self._examined.config is not None
        written = self._examined.config.gateway
        for role, address in (
            ("public", written.listen),
            ("admin", written.admin.listen),
            ("grpc", written.listen_grpc),
        ):
            if address is not None:
                self._sockets[role] = bound(role, address)

    # ---- What happens ----------------------------------------------------------------------------------------------

    def _on(self, number: signal.Signals) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            if self._stopping:
                self._last = min(self._last, time.monotonic() + _AT_ONCE)
            else:
                self._notifier.stopping()
            self._stopping = True
            self._pass_on(number)
        elif number is signal.SIGHUP:
            serves = self._ready >= self._count
            if serves:
                self._notifier.reloading()
                self._asked = time.monotonic()
            self._read_again()
            self._pass_on(number)
        elif number is signal.SIGCHLD:
            self._reap()
        else:
            self._listen()

    def _see_taken(self) -> None:
        """Say that the configuration was read again, once the workers have, or are not heard of."""
        late = waited_for(self._uptake.said(), self._asked)
        if not late or time.monotonic() > self._asked + PATIENCE:
            self._asked = math.inf
            self._notifier.ready()

    def _end_stuck(self) -> None:
        """End who gives no sign of life, so that another takes its place."""
        self._look_at = time.monotonic() + LOOK
        for pid in self._pulses.still():
            logger.error("worker %d has given no sign of life for %.0f s, and is killed", pid, LOOK * LOOKS)
            os.kill(pid, signal.SIGKILL)

    def _pass_on(self, number: signal.Signals) -> None:
        for pid in self._alive:
            os.kill(pid, number)

    def _listen(self) -> None:
        try:
            told = os.read(self._hear, 4096)
        except BlockingIOError:
            return
        before = self._ready
        self._ready += told.count(_READY)
        if before < self._count <= self._ready:
            logger.info("%d workers serve", self._count)
            self._notifier.ready()
        if _APPLIED in told or _RELOAD in told:
            self._read_again()
        if _RELOAD in told:
            self._pass_on(signal.SIGHUP)

    def _read_again(self) -> None:
        """Keep what workers are started with up to date, as they do; they tell themselves what is wrong with it."""
        running, examined = self._examined.config, self._origin.read()
        assert running is not None
        if examined.failed:
            return
        # What the others serve: not what they refused, nor what waits for a restart.
        with suppress(Unusable, ListenFailed):
            examined, _ = usable(running, examined, has_store=effective.keeps_state(running), processes=self._count)
            assert examined.config is not None
            tls = examined.config.gateway.tls
            if tls is not None:
                open_tls(tls, examined.marks, clients=asked_of_clients(examined.config))
            self._examined = examined

    def _reap(self) -> None:
        while self._alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            began = self._alive.pop(pid, None)
            _attempt(partial(self._board.bury, pid))
            self._uptake.forget(pid)
            self._pulses.forget(pid)
            if self._stopping or began is None:
                continue
            self._listen()
            code = os.waitstatus_to_exitcode(status)
            if self._ready < self._count:
                # It is the file, or the machine: others would fare no better.
                logger.error("a worker could not start: exit code %d", code)
                self._code = code if code > 0 else 1
                self._stopping = True
                self._pass_on(signal.SIGTERM)
                continue
            logger.error("worker %d is gone (exit code %d), another takes its place", pid, code)
            now = time.monotonic()
            self._due.append(now if now - began > _AGAIN else now + _AGAIN)

    def _pause(self) -> float:
        if min(self._last, self._asked) < math.inf:
            return _LOOK
        if self._stopping or not self._due:
            # Signals say all there is to know; the bound is for what no one foresees.
            return min(self._notifier.alive_every or LOOK, LOOK) if self._ready >= self._count else _LOOK
        return min(max(min(self._due) - time.monotonic(), 0.0), _LOOK)

    # ---- Workers ---------------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        now = time.monotonic()
        due = [moment for moment in self._due if moment <= now]
        if self._stopping or not due:
            return
        self._due = [moment for moment in self._due if moment > now]
        gc.collect()
        # What the workers share with the parent stays one copy.
        gc.freeze()
        parent = os.getpid()
        for _ in due:
            pid = os.fork()
            if not pid:
                self._be_worker(parent)
            self._alive[pid] = now
            self._pulses.begin(pid)

    def _be_worker(self, parent: int) -> None:
        """Serve, and never come back."""
        code = 1

        def orphaned() -> bool:
            return os.getppid() != parent

        try:
            # A Ctrl-C at the terminal is for the parent, who passes it on; else it would count twice.
            os.setpgid(0, 0)
            _die_with_parent()
            if orphaned():
                # It was gone before the system was asked to tell of that.
                return
            # A SIGHUP waits until the gateway hears it.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS - {signal.SIGHUP})
            os.environ.pop("NOTIFY_SOCKET", None)

            def tell(word: bytes) -> None:
                os.write(self._tell, word)
                if not orphaned():
                    os.kill(parent, signal.SIGUSR1)

            worker = Worker(
                self._count,
                self._board,
                lambda role, _address: self._sockets[role],
                ready=lambda: tell(_READY),
                applied=lambda: tell(_APPLIED),
                reload_all=lambda: tell(_RELOAD),
                uptake=self._uptake,
                orphaned=orphaned,
                beat=self._pulses.beat(self._pulses.place()),
            )
            code = self._work(self._examined, worker, self._output)
        finally:
            # What the parent has to tidy up is not for its copies.
            os._exit(code)


def _attempt(work: Callable[[], None]) -> None:
    """Do what only figures need: a folder that is full, or was cleaned, ends nobody."""
    try:
        work()
    except OSError as error:
        logger.warning("the figures of the workers cannot be kept: %s", error)


def _die_with_parent() -> None:
    """Have the system end this process when its parent is gone, however that was."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def supervise(
    examined: Examined, origin: Origin, count: int, work: Callable[[Examined, Worker, SharedStream], int]
) -> int:
    """Serve with so many workers until a signal; the exit code, what is wrong told on standard error."""
    config = examined.config
    assert config is not None
    problems = divided(config, examined.marks, count)
    if problems:
        sys.stderr.write(as_text(problems) + "\n")
        return 1
    log.configure_directly(config.observe.log.format, config.observe.log.level)
    # What comes from now on is waited for: whoever is ended in between would leave a folder behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return Supervisor(examined, origin, count, work).run()
    except ListenFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
