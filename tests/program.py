"""The program, run as people and scripts run it."""

import atexit
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import IO, Any

import msgspec

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "FORCE_COLOR"))},
    "PYTHONPATH": str(ROOT),
    "NO_COLOR": "1",
    "COLUMNS": "100",
}
_STARTING = Lock()
COMMAND = [sys.executable, "-W", "error", "-m", "gateway"]


def run(*arguments: str, cwd: Path, code: int = 0, said: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself, in a process that need not load the program first (`forked.py`).

    Args:
        code: The exit code that is expected.
        said: Its standard input.
    """
    with TemporaryFile() as heard, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        heard.write(said)
        heard.seek(0)
        exit_code = Forked(arguments, cwd, ENVIRONMENT, out.fileno(), err.fileno(), heard=heard.fileno()).wait(120)
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(list(arguments), exit_code, out.read(), err.read())
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


class Forked:
    """A run of the program that need not load it first (`forking.py`); the methods are those of `subprocess.Popen`.

    Args:
        out: The descriptor that becomes its standard output.
        err: The descriptor of its standard error.
        heard: The descriptor of its standard input; without one there is no input. All of them stay open here.
        interpreter: The Python that runs a script, the first of the arguments; without one it is the program that runs.

    Attributes:
        pid: Its process id.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        out: int,
        err: int,
        *,
        heard: int | None = None,
        interpreter: str = "",
    ) -> None:
        self._asked = socket.socket(socket.AF_UNIX)
        self._asked.connect(_forking(interpreter))
        wanted = {"arguments": arguments, "cwd": str(cwd), "environ": environ}
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno() if heard is None else heard, out, err]
            socket.send_fds(self._asked, [msgspec.json.encode(wanted) + b"\n"], streams)
        self._told = b""
        self.returncode: int | None = None
        self.pid = self._line(120)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._line(timeout)
            self._asked.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _line(self, timeout: float | None) -> int:
        """The next number that the forking process tells."""
        self._asked.settimeout(timeout)
        while b"\n" not in self._told:
            try:
                piece = self._asked.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("forked", timeout or 0) from None
            assert piece, "the forking process has ended"
            self._told += piece
        line, _, self._told = self._told.partition(b"\n")
        return int(line)


def _forking(interpreter: str) -> str:
    """Return the socket of the process that runs commands, or scripts of an interpreter."""
    with _STARTING:
        return _forker(interpreter)


@cache
def _forker(interpreter: str) -> str:
    """Start it; it ends with this one."""
    folder = TemporaryDirectory()
    path = str(Path(folder.name, "socket"))
    scripts = [interpreter, "-W", "ignore", "-m", "tests.forking"]
    process = subprocess.Popen(
        [*(scripts if interpreter else [sys.executable, "-W", "error", "-m", "tests.forked"]), path],
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    atexit.register(folder.cleanup)
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return path


def runs(*commands: tuple[str, ...], cwd: Path, code: int = 0) -> list[subprocess.CompletedProcess[str]]:
    """As `run`, several at once: most of what each takes is its start."""
    with ThreadPoolExecutor(len(commands)) as together:
        return list(together.map(lambda arguments: run(*arguments, cwd=cwd, code=code), commands))


def report(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stderr == ""
    return msgspec.json.decode(done.stdout)


class Heard(Forked):
    """A run whose output is read while it lasts."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        (read, out), (read_err, err) = os.pipe(), os.pipe()
        super().__init__(arguments, cwd, ENVIRONMENT, out, err)
        os.close(out)
        os.close(err)
        self.stdout, self.stderr = os.fdopen(read), os.fdopen(read_err)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Return what it still says, once it has ended."""
        with ThreadPoolExecutor(1) as beside:
            errors = beside.submit(self.stderr.read)
            said = self.stdout.read()
        self.wait(timeout)
        return said, errors.result()


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[Heard]:
    process = Heard(*arguments, cwd=cwd)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()


def until(stream: IO[str] | None, words: str) -> str:
    """Return the output of the process up to the line that holds the words."""
    said = ""
    assert stream is not None
    for line in stream:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


def written(folder: Path, text: str, name: str = "gateway.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path
