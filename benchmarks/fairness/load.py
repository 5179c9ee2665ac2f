"""Load from a process of its own, so that whoever measures one tenant is not slowed down by what another one does.

    python -m benchmarks.fairness.load

Reads plans from standard input, a line of JSON each, and writes what came of each to standard output, alike.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import uvloop

from benchmarks.edge.process import open_files
from benchmarks.fairness.calls import Calls, way
from benchmarks.fairness.plan import Outcome, Plan

_READY = b"ready\n"
_FILES = 20_000
_SLICE = 0.05


class Load:
    """A process that carries out plans, one after the other."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin = stdin
        self._stdout = stdout

    def begin(self, plan: Plan) -> None:
        """Have it carry out a plan."""
        self._stdin.write(msgspec.json.encode(plan) + b"\n")
        self._stdin.flush()

    def end(self) -> list[Outcome]:
        """Wait until that is done; what came of each source.

        Raises:
            EOFError: the process has ended.
        """
        line = self._stdout.readline()
        if not line:
            raise EOFError("a process that made load has ended")
        return msgspec.json.decode(line, type=list[Outcome])


@contextmanager
def loading(root: Path) -> Iterator[Load]:
    """Start a process for load, and end it in the end.

    Args:
        root: The project's folder.

    Raises:
        EOFError: it did not start.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fairness.load"],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        if child.stdout.readline() != _READY:
            raise EOFError("a process for load did not start")
        yield Load(child.stdin, child.stdout)
    finally:
        child.kill()
        child.wait()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.stdout.close()


async def carry_out(plan: Plan) -> list[Outcome]:
    """Do what a plan says."""
    sources = [Calls(source, plan) for source in plan.sources]
    ways = [way(each) for each in sources]
    try:
        await asyncio.gather(*(each.run() for each in ways))
        ends = plan.closes + plan.patience
        while time.monotonic() < ends and any(each.outcome.unanswered for each in sources):  # noqa: ASYNC110 - many
            await asyncio.sleep(_SLICE)
    finally:
        for source in sources:
            source.end()
        for each in ways:
            each.close()
    return [each.outcome for each in sources]


def main() -> None:
    open_files(_FILES)
    # Not `sys.stdout.buffer`, which writes what the pipe takes and no more where Python is told not to buffer.
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        out.write(_READY)
        out.flush()
        for line in sys.stdin.buffer:
            outcomes = uvloop.run(carry_out(msgspec.json.decode(line, type=Plan)))
            out.write(msgspec.json.encode(outcomes) + b"\n")
            out.flush()


if __name__ == "__main__":
    main()
