"""Forks for each run of a program, from a process that has loaded the modules of all of them once.

    python -m tests.forking SOCKET

As a program it runs the scripts of one interpreter that have a2a-sdk in common, of whatever version it has. Only the
standard library is imported otherwise: the interpreter may be of another environment than that of the tests.

Each run is a process of its own all the same, with a folder, streams and an exit code of its own. Who connects to the
socket sends one line of JSON, `arguments`, `cwd` and the variables `environ`, and with it the descriptors of its three
standard streams. It is told the process id in one line, and the exit code in another when the run has ended. The
forking process ends with its own standard input.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

_SHARED = (
    "a2a.client",
    "a2a.server.apps",
    "a2a.server.events",
    "a2a.server.request_handlers",
    "a2a.server.routes",
    "a2a.server.tasks",
    "grpc.aio",
    "starlette.applications",
    "uvicorn",
    "uvicorn.protocols.http.auto",
)
"""Modules that scripts import; an interpreter need not have all of them."""

Run = Callable[[list[str]], object]


def listen(path: str, run: Run) -> None:
    """Fork for each connection, until nobody is there any more; the child calls `run` with its arguments."""
    gc.freeze()
    # Nobody waits for those that wait for a run.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        print("ready", flush=True)  # noqa: T201 - it is waited for
        while True:
            ready, _, _ = select.select([server, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            asked, _ = server.accept()
            with asked:
                if os.fork() == 0:
                    server.close()
                    _tell(asked, run)


def _tell(asked: socket.socket, run: Run) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wanted, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    while not wanted.endswith(b"\n"):
        more = asked.recv(1 << 20)
        if not more:
            os._exit(1)
        wanted += more
    child = os.fork()
    if child == 0:
        asked.close()
        _run(**json.loads(wanted), streams=streams, run=run)
    for each in streams:
        os.close(each)
    asked.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(arguments: list[str], cwd: str, environ: dict[str, str], streams: list[int], run: Run) -> NoReturn:
    for number, opened in enumerate(streams):
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    run(arguments)
    raise SystemExit


def _run_script(arguments: list[str]) -> None:
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    for name in _SHARED:
        with suppress(ImportError):
            import_module(name)
    listen(sys.argv[1], _run_script)
