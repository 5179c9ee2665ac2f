"""The process of an agent on stdio: started behind its supervisor, ended with all that it left behind, and reaped.

A command is a list of words of the configuration; no shell sees it. The environment is what is written and nothing of
the gateway's own. No descriptor goes along but the three pipes. `stdio_supervisor` says what becomes of the process
when the gateway is gone.

An agent without a `uid` runs as the gateway does. So that it cannot read the gateway's environment and memory, where
everybody's credentials are, the gateway gives up being dumpable before it starts the first one (Linux): neither a
debugger of that user nor a core dump sees it from then on.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

_SUPERVISOR = Path(__file__).with_name("stdio_supervisor.py")
_LAST_RESORT = 5.0
"""Seconds for the supervisor to end after it was told to; then it is killed, too."""
_PR_SET_DUMPABLE = 4
_WORDS = {
    errno.ENOENT: "there is no such program",
    errno.EACCES: "the program may not be run",
    errno.ENOEXEC: "it is no program",
    errno.EPERM: "it may not run as this user",
}


@dataclass(frozen=True, slots=True)
class Command:
    """What is run, and within which bounds.

    Attributes:
        words: The program and its arguments.
        folder: Where it runs.
        environment: All of it.
        uid: The user it runs as; None for the gateway's own.
        memory: Bytes of data that a process may have; 0 for no bound, as in the next two.
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


class StartFailed(Exception):  # noqa: N818 - named after what happened
    """A process cannot be started; the text says why, for operators."""


class Child:
    """One running process, from `start` to `ended`.

    Attributes:
        pid: That of the agent itself, which leads its group.
        ended: Done when it has exited, with its exit code, negative for a signal; None where nobody knows.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.ended: asyncio.Future[int | None] = loop.create_future()
        self._process = process
        self._control: asyncio.WriteTransport | None = None
        self._input: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        self._started: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def start(
        cls,
        command: Command,
        *,
        reads: Callable[[], asyncio.Protocol],
        writes: Callable[[], asyncio.BaseProtocol],
        complains: Callable[[], asyncio.Protocol],
    ) -> "Child":
        """Start a process; it runs when this was awaited. Cancellation ends it.

        Args:
            reads: Gets what it writes to standard output.
            writes: Is told how standard input takes what is written.
            complains: Gets what it writes to standard error.

        Raises:
            StartFailed: it cannot be started.
        """
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
            try:
                ours, theirs = socket.socketpair()
                kept.callback(ours.close)
                passed.callback(theirs.close)
                (stdin, given), (taken, stdout), (complaints, stderr) = [_pipe(kept, passed, i) for i in range(3)]
                process = _spawn(command, theirs, (stdin, stdout, stderr))
            except OSError as error:
                raise StartFailed(f"{_WORDS.get(error.errno or 0, error.strerror)}: {command.folder}") from error
            kept.pop_all()
        child = cls(process)
        connecting = asyncio.ensure_future(
            child._connect(ours, given, taken, complaints, reads=reads, writes=writes, complains=complains)
        )
        try:
            # Not cut in the middle, where neither a transport nor anybody else has a pipe; it waits for nobody.
            await asyncio.shield(connecting)
            await child._started
        except BaseException:
            await asyncio.wait((connecting,))
            await child.aclose()
            raise
        return child

    @property
    def waiting(self) -> int:
        """Bytes that were written and that it has not read."""
        return 0 if self._input is None else self._input.get_write_buffer_size()

    def write(self, frame: bytes) -> None:
        """Write to its standard input; whatever it does not read yet waits."""
        if self._input is not None and not self._input.is_closing():
            self._input.write(frame)

    def close_input(self) -> None:
        """Close its standard input behind what was written: it is asked to exit."""
        if self._input is not None:
            self._input.close()

    def terminate(self) -> None:
        """Send SIGTERM to its group."""
        self._command(b"T")

    def kill(self) -> None:
        """Kill it and all that it started."""
        self._command(b"K")

    async def aclose(self) -> None:
        """Kill it if it still runs, with all that it started, and reap; nothing of it is left when this was awaited."""
        self.kill()
        waited = asyncio.ensure_future(asyncio.to_thread(self._reap))
        try:
            await asyncio.shield(waited)
        finally:
            # Also where this is cancelled: the thread ends within its bound.
            for output in self._outputs:
                output.close()
            for writer in (self._input, self._control):
                # What is closed for good cannot be aborted any more.
                if writer is not None and (not writer.is_closing() or writer.get_write_buffer_size()):
                    writer.abort()
            self._over(None)

    # ---- Between a child and its supervisor ------------------------------------------------------------------------

    def heard(self, line: bytes) -> None:
        """A line of the supervisor's."""
        word, _, figure = line.partition(b" ")
        if word == b"started":
            self.pid = int(figure)
            if not self._started.done():
                self._started.set_result(None)
        elif word == b"failed":
            number = int(figure)
            self._fail(_WORDS.get(number, os.strerror(number)))
        elif word == b"exited":
            self._over(int(figure))

    def lost(self) -> None:
        """The supervisor is gone."""
        self._fail("its supervisor could not be started, or was killed")
        if self.pid and not self.ended.done():
            # Whoever killed the supervisor left the agent's own children to nobody.
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except OSError:
                self._over(None)
        self._over(None)

    def _fail(self, why: str) -> None:
        if not self._started.done():
            self._started.set_exception(StartFailed(why))
            # Told where it is awaited, if anybody still does.
            self._started.exception()

    def _over(self, status: int | None) -> None:
        if not self.ended.done():
            self.ended.set_result(status)

    def _command(self, letter: bytes) -> None:
        if self._control is not None and not self._control.is_closing():
            self._control.write(letter)

    def _reap(self) -> None:
        try:
            self._process.wait(_LAST_RESORT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def _connect(
        self,
        ours: socket.socket,
        given: int,
        taken: int,
        complaints: int,
        *,
        reads: Callable[[], asyncio.Protocol],
        writes: Callable[[], asyncio.BaseProtocol],
        complains: Callable[[], asyncio.Protocol],
    ) -> None:
        loop = asyncio.get_running_loop()
        ours.setblocking(False)
        control, _ = await loop.create_unix_connection(lambda: _Control(self), sock=ours)
        self._control = cast("asyncio.WriteTransport", control)
        for descriptor, protocol in ((taken, reads), (complaints, complains)):
            file = os.fdopen(descriptor, "rb", 0)
            output, _ = await loop.connect_read_pipe(protocol, file)
            self._outputs.append(output)
        self._input, _ = await loop.connect_write_pipe(writes, os.fdopen(given, "wb", 0))


def _spawn(command: Command, control: socket.socket, pipes: tuple[int, int, int]) -> "subprocess.Popen[bytes]":
    """The supervisor, which starts the agent; the loop stands still for a millisecond."""
    _hide()
    stdin, stdout, stderr = pipes
    bounds = (-1 if command.uid is None else command.uid, command.memory, command.cpu, command.files)
    words = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(control.fileno()), *map(str, bounds), *command.words]
    return subprocess.Popen(  # noqa: S603 - the words are the operator's, and no shell reads them
        words,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=command.folder,
        env=dict(command.environment),
        pass_fds=(control.fileno(),),
        start_new_session=True,
    )


def _hide() -> None:
    """Be no process that another one of the same user may look into; systems but Linux have no such thing."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class _Control(asyncio.Protocol):
    """Hears the supervisor."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._child.heard(line)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why is the same to everybody
        self._child.lost()


def _pipe(kept: contextlib.ExitStack, passed: contextlib.ExitStack, number: int) -> tuple[int, int]:
    """A pipe whose one end the process gets: that to read from of the first, that to write to of all others."""
    reads, writes = os.pipe()
    theirs, ours = (reads, writes) if number == 0 else (writes, reads)
    passed.callback(os.close, theirs)
    kept.callback(os.close, ours)
    return reads, writes
