"""The program, run as people and scripts run it."""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
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


def run(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, in a process that need not load the program first (`forked.py`)."""
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as asked:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch()
        err.touch()
        asked.settimeout(120)
        asked.connect(_forking())
        wanted = {"arguments": arguments, "cwd": str(cwd), "out": str(out), "err": str(err)}
        asked.sendall(msgspec.json.encode(wanted) + b"\n")
        exit_code = int(asked.recv(16))
        done = subprocess.CompletedProcess(list(arguments), exit_code, out.read_text(), err.read_text())
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def _forking() -> str:
    """Where the process listens that runs commands."""
    with _STARTING:
        return _forker()


@cache
def _forker() -> str:
    """Start it; it ends with this one."""
    folder = TemporaryDirectory()
    path = str(Path(folder.name, "socket"))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.forked", path],
        env=ENVIRONMENT,
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


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def until(stream: IO[str] | None, words: str) -> str:
    """What the process said, up to the line that holds the words."""
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
