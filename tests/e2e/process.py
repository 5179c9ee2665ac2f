"""The gateway as an operator runs it: a process of its own, started from a file, heard through its two streams."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

import msgspec
import yaml

from tests.program import Forked

ROOT = Path(__file__).parents[2]
WAIT = 60.0
"""Seconds after which what a test waits for will not happen any more."""

IS_ASGI = os.environ.get("A2A_TEST_EDGE") == "asgi"
"""As `tests.edge`, which imports the gateway."""
_SERVING = re.compile(r"serving (http[^\s,]+), admin on (http[^\s,\"]+)(?:, gRPC on ([^\s\"]+))?")

Line = dict[str, Any]


class Lines:
    """The lines of a stream as they come, read on a thread so that the process never waits for a reader."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def find(self, sought: Callable[[str], bool]) -> str:
        """The first line that is sought, waited for.

        Raises:
            AssertionError: the stream ended, or stayed silent, without it.
        """
        seen = 0

        def found() -> bool:
            nonlocal seen
            while seen < len(self._lines) and not sought(self._lines[seen]):
                seen += 1
            return seen < len(self._lines)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, WAIT)
            assert found(), f"no such line among: {self.text}"
            return self._lines[seen]

    @property
    def text(self) -> str:
        """All that has come so far."""
        return "".join(self._lines)

    def close(self) -> None:
        """Read to the end; the process has ended."""
        self._thread.join(WAIT)
        self._stream.close()

    def _read(self) -> None:
        for raw in self._stream:
            with self._changed:
                self._lines.append(raw.decode())
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class GatewayProcess:
    """One gateway process; what it remembers of tasks lies beside its file, unless that says otherwise.

    Args:
        options: Of `serve`.
        before: Words in front of the command, such as those of a program that becomes it.
        environ: Variables beside those of this process.
        forked: Whether it comes from a process that has loaded the program before (`tests/forked.py`). That saves most
            of the start, and says nothing of how much memory it needs.

    Attributes:
        url: Where clients find it, without a slash at the end.
        admin: Where operators find it.
        grpc: Host and port where it takes calls over gRPC; empty for nowhere.
    """

    def __init__(
        self,
        file: Path,
        *options: str,
        before: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        forked: bool = False,
    ) -> None:
        own = {"PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1", "STATE_DIRECTORY": str(file.parent)}
        arguments, variables = ["serve", "-c", str(file), *options], {**os.environ, **own, **(environ or {})}
        (heard, out), (told, err) = os.pipe(), os.pipe()
        self._process: Forked | subprocess.Popen[bytes]
        if forked and not IS_ASGI:
            self._process = Forked(arguments, ROOT, variables, out, err)
        else:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", *_program(file, arguments)],
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        os.close(out)
        os.close(err)
        self.access_output = Lines(os.fdopen(heard, "rb"))
        self._log = Lines(os.fdopen(told, "rb"))
        self.url = ""
        self.admin = ""
        self.grpc = ""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def await_serving(self) -> Self:
        """Wait until it says where it serves."""
        said = _SERVING.search(self._log.find(lambda line: _SERVING.search(line) is not None))
        assert said is not None
        self.url, self.admin, self.grpc = said[1].rstrip("/"), said[2].rstrip("/"), said[3] or ""
        return self

    def access(self, request_id: str) -> Line:
        """The line of the access log for a request, waited for."""
        sought = f'"{request_id}"'
        line: Line = msgspec.json.decode(self.access_output.find(lambda line: sought in line))
        return line

    def said(self, text: str) -> str:
        """The line of the gateway's own log that holds a text, waited for."""
        return self._log.find(lambda line: text in line)

    @property
    def access_lines(self) -> list[Line]:
        """Every line of the access log so far."""
        return [msgspec.json.decode(line) for line in self.access_output.text.splitlines()]

    @property
    def log_text(self) -> str:
        """The gateway's own log so far."""
        return self._log.text

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; the exit code."""
        return self._process.wait(WAIT)

    def close(self) -> None:
        """End it, in whatever state it is."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(WAIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.access_output.close()
        self._log.close()


def _program(file: Path, arguments: Sequence[str]) -> list[str]:
    if IS_ASGI and len(arguments) == 3:
        return ["tests.edge", str(file)]
    return ["gateway", *arguments]


def write(configuration: Mapping[str, Any], folder: Path) -> Path:
    """A configuration file, listening on ports that the system picks."""
    gateway = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", **configuration.get("gateway", {})}
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump({"version": 1, **configuration, "gateway": gateway}, sort_keys=False))
    return file


@contextmanager
def gateway_process(
    configuration: Mapping[str, Any],
    folder: Path,
    *,
    before: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    forked: bool = True,
) -> Iterator[GatewayProcess]:
    """A gateway process that serves a configuration, until the end of the block; the rest as above."""
    forked = forked and not before and environ is None
    process = GatewayProcess(write(configuration, folder), before=before, environ=environ, forked=forked)
    try:
        yield process.await_serving()
    finally:
        process.close()
