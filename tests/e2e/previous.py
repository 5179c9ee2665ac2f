"""Agents and clients of A2A 0.3, on the last a2a-sdk 0.3: processes of the interpreter that has it.

The two generations of the SDK cannot share an environment. `tests/check` makes the other one; A2A_LEGACY_PYTHON names
its interpreter, else it is looked for in `.venv-legacy`.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.process import ROOT, WAIT, Lines
from tests.program import Forked

SCRIPTS = Path(__file__).parent / "legacy"


def interpreter() -> str:
    """The Python that has a2a-sdk 0.3.

    Raises:
        AssertionError: there is none; the tests cannot do without.
    """
    named = os.environ.get("A2A_LEGACY_PYTHON")
    python = Path(named) if named else ROOT / ".venv-legacy" / "bin" / "python"
    assert python.exists(), (
        f"{python} does not exist, and without a2a-sdk 0.3 nothing is known of 0.3 clients and agents.\n"
        "Run tests/check, or: deploy/venv .venv-legacy tests/legacy/requirements.lock"
    )
    return str(python)


class _Script(Forked):
    """A script of that interpreter, which is talked to by its standard streams."""

    def __init__(self, script: str, *arguments: str) -> None:
        (heard, write), (read, out) = os.pipe(), os.pipe()
        words = [str(SCRIPTS / script), *arguments]
        # Standard error is the test's own, so that a traceback is seen.
        super().__init__(words, ROOT, dict(os.environ), out, 2, heard=heard, interpreter=interpreter())
        os.close(heard)
        os.close(out)
        self.stdin, self.stdout = os.fdopen(write, "wb"), os.fdopen(read, "rb")


@contextmanager
def _process(script: str, *arguments: str) -> Iterator[_Script]:
    process = _Script(script, *arguments)
    try:
        yield process
    finally:
        process.stdin.close()
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT)


class PreviousAgent:
    """An agent of 0.3.

    Attributes:
        url: Where it is called over HTTP, and where its card is.
        grpc: Host and port where the same tasks are had over gRPC.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        told = msgspec.json.decode(lines.find(lambda line: '"url"' in line))
        self.url: str = told["url"]
        self.grpc: str = told["grpc"]

    @property
    def port(self) -> str:
        """Its port as an address has it."""
        return ":" + self.url.rpartition(":")[2]

    def received(self, text: str) -> dict[str, Any]:
        """The first request that holds a text, waited for."""
        found: dict[str, Any] = msgspec.json.decode(self._lines.find(lambda line: text in line))
        return found

    def seen(self, text: str) -> int:
        """How many calls it received up to the first one that holds a text, which is waited for."""
        self.received(text)
        calls = [line for line in self._lines.text.splitlines() if '"path"' in line and "/.well-known/" not in line]
        return next(number for number, call in enumerate(calls, 1) if text in call)

    def call(self, text: str) -> str:
        """The first call that holds a text, waited for."""
        return str(self.received(text)["body"])

    def knows(self, text: str) -> bool:
        """Whether a request that came before the last one waited for holds a text."""
        return text in self._lines.text


@contextmanager
def previous_agent(marker: str) -> Iterator[PreviousAgent]:
    """An agent of 0.3, until the end of the block."""
    with _process("agent.py", marker) as process:
        lines = Lines(process.stdout)
        yield PreviousAgent(lines)
    lines.close()
