"""Runs the program without its start: a process that has loaded it once, and forks for each run.

    python -m tests.forked SOCKET

Most of what a command takes is to load its modules. Each run is a process of its own all the same, with a folder,
streams and an exit code of its own. Who connects to the socket sends one line of JSON, `arguments`, `cwd` and the
variables `environ`, and with it the descriptors of its three standard streams. It is told the process id in one line,
and the exit code in another when the run has ended. The forking process ends with its own standard input.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from gateway import __main__ as program
from gateway import process
from gateway.cli import main
from gateway.commands import check, diff, find_agent, health, init, key, route, send, serve, state, stdio
from gateway.demo import fleet, stage

# A command imports its module when it runs; here each run has all of them from the start.
_LOADED = (process, check, diff, find_agent, health, init, key, route, send, serve, state, stdio, fleet, stage)


def listen(path: str) -> None:
    """Fork for each connection, until nobody is there any more."""
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
                    _tell(asked)


def _tell(asked: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wanted, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    while not wanted.endswith(b"\n"):
        wanted += asked.recv(1 << 20)
    child = os.fork()
    if child == 0:
        asked.close()
        _run(**json.loads(wanted), streams=streams)
    for each in streams:
        os.close(each)
    asked.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(arguments: list[str], cwd: str, environ: dict[str, str], streams: list[int]) -> NoReturn:
    for number, opened in enumerate(streams):
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    sys.argv = [program.__file__, *arguments]
    main()
    raise SystemExit


if __name__ == "__main__":
    listen(sys.argv[1])
