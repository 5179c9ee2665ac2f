"""The `redis-server`, or `valkey-server`, of the system, in a process of its own that keeps nothing on disk."""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")

needs_redis = pytest.mark.skipif(PROGRAM is None, reason="neither redis-server nor valkey-server is installed")

_READY = b"Ready to accept connections"
_WATCHING = b"+monitor master"
_TRIES = 5


class RedisServer:
    """One server, on a port of the loopback interface that the system picks.

    Args:
        options: As on its command line: `("--requirepass", "secret")`.
        watched: The port of a master that it watches as a Sentinel, by the name `main`; 0 for a server.

    Attributes:
        port: The same one after each start.
    """

    def __init__(self, *options: str, watched: int = 0) -> None:
        self._options = options
        self._watched = watched
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        for _ in range(1 if self.port else _TRIES):
            port = self.port or free_port()
            if self._started(port):
                self.port = port
                return
        raise RuntimeError("redis-server does not start")

    def stop(self) -> None:
        """Kill it: nothing is said, and nothing is kept."""
        if self._process is not None:
            self._process.kill()
            # One that was frozen dies only now.
            self._process.send_signal(signal.SIGCONT)
            self._process.wait()
            self._process = None
        if self._reader is not None:
            self._reader.join()

    def freeze(self) -> None:
        """Let it hang: connections are accepted, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def ask(self, *words: str) -> str:
        """Return the answer to one command, sent over a connection of its own.

        Raises:
            RuntimeError: with the error that it answered.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=10.0) as peer:
            peer.sendall(_encoded(words))
            file = peer.makefile("rb")
            return _read(file)

    def aclose(self) -> None:
        self.stop()
        self._folder.cleanup()

    def _started(self, port: int) -> bool:
        assert PROGRAM is not None
        place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", self._folder.name]
        nothing_kept = ["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", ""]
        command = [PROGRAM, *place, *nothing_kept, *self._options]
        if self._watched:
            # It writes down what it learns.
            file = Path(self._folder.name, "sentinel.conf")
            file.write_text(
                f"sentinel monitor main 127.0.0.1 {self._watched} 1\n"
                "sentinel down-after-milliseconds main 200\nsentinel failover-timeout main 1000\n"
            )
            command = [PROGRAM, str(file), "--sentinel", *place, "--daemonize", "no", "--logfile", ""]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        for line in process.stdout:
            if (_WATCHING if self._watched else _READY) in line:
                self._process = process
                self._reader = threading.Thread(target=_drain, args=(process.stdout,))
                self._reader.start()
                return True
        process.wait()
        process.stdout.close()
        return False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


@contextlib.contextmanager
def redis_server(*options: str, watched: int = 0) -> Iterator[RedisServer]:
    """A server, or a Sentinel, that is gone at the end."""
    server = RedisServer(*options, watched=watched)
    try:
        yield server
    finally:
        server.aclose()


def _drain(output: IO[bytes]) -> None:
    with output:
        for _ in output:
            pass


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _encoded(words: tuple[str, ...]) -> bytes:
    told = [word.encode() for word in words]
    return b"*%d\r\n" % len(told) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in told)


def _read(file: IO[bytes]) -> str:
    line = file.readline().rstrip(b"\r\n").decode()
    mark, rest = line[:1], line[1:]
    if mark == "-":
        raise RuntimeError(rest)
    if mark == "$":
        return file.read(int(rest) + 2)[:-2].decode("utf-8", "replace") if rest != "-1" else ""
    if mark == "*":
        return "\n".join(_read(file) for _ in range(int(rest)))
    return rest
