"""The program, run as people and scripts run it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "FORCE_COLOR"))},
    "PYTHONPATH": str(ROOT),
    "NO_COLOR": "1",
    "COLUMNS": "100",
}
COMMAND = [sys.executable, "-W", "error", "-m", "gateway"]


def run(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


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
