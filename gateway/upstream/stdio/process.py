"""One process of an agent on stdio: start it, write to it, read from it, and end it with its whole process group.

The command is a list of words of the configuration; no shell reads it. The environment is what the configuration says.
The process gets no open file but its three pipes, and leads a session and a process group of its own.

When the process exits, the rest of its group is killed. When the gateway is killed, the kernel kills the process
(`PR_SET_PDEATHSIG`) and closes its standard input; its own children see the end of that input and nothing else.

`asyncio.create_subprocess_exec` is not used: that of uvloop leaves descriptors of the gateway open in the child, and
gives it sockets where agents expect pipes. The kernel sends the death signal when the *thread* that forked ends, so the
thread of the loop starts processes.
"""

import asyncio
import ctypes
import errno
import logging
import math
import os
import pwd
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, cast

from gateway.policy.token_bucket import Bucket

LONGEST_LINE = 2048
"""Bytes of a line of standard error that are logged."""
_LINES_PER_SECOND = 20.0
_LINES_AT_ONCE = 100.0
_SKIPPED_EVERY = 10.0
"""Seconds between two log lines that count lines that were not logged."""
_FLOOD_PAUSE = 0.01
"""Seconds without reading standard error after a read that exceeded the rate: a flood slows the agent only."""
_GROUP_GONE = 0.5
"""Seconds in which a killed group is gone; never, where nothing reaps orphans."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_prctl: Callable[..., int] | None = getattr(ctypes.CDLL(None), "prctl", None)
"""Only on Linux."""
_REASONS = {
    errno.ENOENT: "there is no such program",
    errno.EACCES: "the program may not be run",
    errno.ENOEXEC: "it is no program",
    errno.EPERM: "it may not run as this user",
}

_running: set[int] = set()
"""The process groups that are not reaped."""

logger = logging.getLogger("gateway.upstream.stdio")


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run, and its resource limits.

    Attributes:
        words: The program and its arguments.
        folder: The working directory.
        environment: All of it.
        uid: The user it runs as; None for the gateway's own.
        memory: Bytes of data of a process; 0 for no bound, as in the next two.
        cpu: Seconds of CPU time of a process.
        files: Open files of a process.
    """

    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str] = field(default_factory=dict)
    uid: int | None = None
    memory: int = 0
    cpu: int = 0
    files: int = 0


class ProcessStartFailed(Exception):  # noqa: N818 - named after what happened
    """A process cannot be started; the text says why, for operators."""


class Process:
    """One running process. The constructor starts it, in the thread of the loop; `connect` opens its pipes.

    Attributes:
        pid: Its process id, which is also the id of its group.
        exited: Done with the exit code when it was reaped; negative for a signal.

    Raises:
        ProcessStartFailed: it cannot be started.
    """

    def __init__(self, command: Command) -> None:
        # An agent without a `uid` runs as the gateway's user. It must not read the gateway's environment and memory,
        # which hold all credentials. From here on debuggers of that user and core dumps cannot, either.
        if _prctl is not None:
            _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._loop = asyncio.get_running_loop()
        try:
            popen = self._popen = _spawn(command)
        except (OSError, subprocess.SubprocessError) as error:
            raise ProcessStartFailed(_reason(error, command)) from error
        self.pid = popen.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._input: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        # Pipes without a transport that closes them.
        self._ends = [cast("IO[bytes]", end) for end in (popen.stdout, popen.stderr, popen.stdin)]
        _running.add(self.pid)
        try:
            # The two kinds of loop share no child watcher, and the pool of threads is for short work.
            threading.Thread(target=self._reap, name=f"wait for {self.pid}", daemon=True).start()
        except RuntimeError as error:
            _signal_group(self.pid, signal.SIGKILL)
            _running.discard(self.pid)
            with popen:
                raise ProcessStartFailed("the system has no thread that could wait for its end") from error

    async def connect(
        self, output: asyncio.Protocol, errors: asyncio.Protocol, input_closed: Callable[[], None]
    ) -> None:
        """Connect the pipes.

        Args:
            output: Reads standard output.
            errors: Reads standard error.
            input_closed: Called when the process has closed its standard input.

        Raises:
            OSError: the system cannot watch them.
        """
        for protocol in (output, errors):
            transport, _ = await self._loop.connect_read_pipe(partial(_same, protocol), self._ends[0])
            self._outputs.append(transport)
            del self._ends[0]
        self._input, _ = await self._loop.connect_write_pipe(partial(_Input, input_closed), self._ends[0])
        del self._ends[0]

    @property
    def unread(self) -> int:
        """Return the bytes that were written and that the process has not read."""
        return 0 if self._input is None else self._input.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write to standard input; unread bytes are buffered in memory."""
        if self._input is not None and not self._input.is_closing():
            self._input.write(data)

    def close_input(self) -> None:
        """Close standard input after what was written, which asks the process to exit."""
        if self._input is not None:
            self._input.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its group, unless it was reaped."""
        if not self.exited.done():
            _signal_group(self.pid, number)

    async def has_exited(self, within: float) -> bool:
        """Wait at most so many seconds for the exit; return whether it has happened."""
        await asyncio.wait((self.exited,), timeout=within)
        return self.exited.done()

    async def aclose(self) -> None:
        """Kill the group, and wait until the process is reaped and its pipes are closed."""
        self.signal(signal.SIGKILL)
        try:
            await asyncio.wait((self.exited,))
        finally:
            for output in self._outputs:
                output.close()
            # A transport that is closed and has written everything cannot be aborted.
            if self._input is not None and (not self._input.is_closing() or self._input.get_write_buffer_size()):
                self._input.abort()
            for end in self._ends:
                end.close()

    def _reap(self) -> None:
        """Wait for the exit, in a thread of its own."""
        # While the process is not reaped no other group can have its number.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        _signal_group(self.pid, signal.SIGKILL)
        _running.discard(self.pid)
        status = self._popen.wait()
        until = time.monotonic() + _GROUP_GONE
        while time.monotonic() < until and _signal_group(self.pid, 0):
            time.sleep(0.002)
        with suppress(RuntimeError):
            # The loop is closed if the end was not awaited.
            self._loop.call_soon_threadsafe(self._ended, status)

    def _ended(self, status: int) -> None:
        if not self.exited.done():
            self.exited.set_result(status)


def kill_all() -> None:
    """Kill all processes with their groups without waiting: the gateway ends without its event loop."""
    for group in tuple(_running):
        _signal_group(group, signal.SIGKILL)


def _same(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol


def _reason(error: Exception, command: Command) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.filename == command.folder:
        return f"its folder {command.folder} cannot be used: {error.strerror}"
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def _spawn(command: Command) -> "subprocess.Popen[bytes]":
    """Fork and exec; this blocks the loop for some milliseconds."""
    group = command.uid
    if command.uid is not None:
        with suppress(KeyError):
            group = pwd.getpwuid(command.uid).pw_gid
    return subprocess.Popen(  # noqa: S603 - the words are the operator's, and no shell reads them
        command.words,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.folder,
        env=dict(command.environment),
        start_new_session=True,
        user=command.uid,
        group=group,
        extra_groups=None if command.uid is None else [],
        preexec_fn=partial(_prepare, os.getpid(), _limits(command)),  # noqa: PLW1509 - it takes no lock of a thread
    )


def _prepare(gateway: int, limits: list[tuple[int, tuple[int, int]]]) -> None:
    """Run in the child between fork and exec, after the change of user: that would clear the signal."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != gateway:
        # The gateway died before the signal was asked for.
        os._exit(1)
    for limit, bounds in limits:
        resource.setrlimit(limit, bounds)


def _limits(command: Command) -> list[tuple[int, tuple[int, int]]]:
    """Return the limits to set, none above the gateway's own."""
    wanted = {
        resource.RLIMIT_DATA: command.memory,
        resource.RLIMIT_CPU: command.cpu,
        resource.RLIMIT_NOFILE: command.files,
    }
    found = []
    for limit, most in wanted.items():
        if most:
            _, hard = resource.getrlimit(limit)
            bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
            found.append((limit, (bound, bound)))
    return found


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a group, or none for 0; return whether the group exists."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


class _Input(asyncio.BaseProtocol):
    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed = closed

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason is the same for all
        self._closed()


class ErrorLog(asyncio.Protocol):
    """Logs the standard error of a process, line by line and within a rate.

    An unread pipe blocks its writer at 64 KiB, so all of it is read. Lines above the rate are counted, and the pipe is
    read more slowly then.

    Args:
        name: The process, for the log.

    Attributes:
        ended: Done when all of it was read.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._rate = Bucket(_LINES_PER_SECOND, _LINES_AT_ONCE)
        self._transport: asyncio.ReadTransport | None = None
        self._rest = b""
        self._skipped = 0
        self._logged_at = -math.inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the pipe."""
        self._transport = cast("asyncio.ReadTransport", transport)  # uvloop's do not inherit from asyncio's

    def data_received(self, data: bytes) -> None:
        """Log whole lines, and keep the rest as far as it would be logged."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LONGEST_LINE]
        skipped = self._skipped
        for line in lines:
            self._log(line)
        if self._skipped > skipped and self._transport is not None:
            self._transport.pause_reading()
            self._loop.call_later(_FLOOD_PAUSE, self._resume)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason is the same for all
        """Log the rest."""
        self._log(self._rest)
        self._log_skipped()
        if not self.ended.done():
            self.ended.set_result(None)

    def _log(self, line: bytes) -> None:
        text = line[:LONGEST_LINE].decode("utf-8", "replace").strip()
        if text and self._rate.take(self._loop.time()):
            self._skipped += 1
        elif text:
            if self._loop.time() >= self._logged_at + _SKIPPED_EVERY:
                self._log_skipped()
            logger.info("%s: %s", self._name, text)

    def _log_skipped(self) -> None:
        skipped, self._skipped = self._skipped, 0
        if skipped:
            self._logged_at = self._loop.time()
            logger.warning("%s wrote %d more lines to standard error, which are not logged", self._name, skipped)

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
