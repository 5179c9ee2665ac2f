"""Runs the program without its start: a process that has loaded it once, and forks for each run.

    python -m tests.forked SOCKET

Most of what a command takes is to load its modules. Each run is a process of its own all the same, with a folder,
streams and an exit code of its own. Who connects to the socket sends one line of JSON, `arguments`, `cwd` and the files
`out` and `err`, and is told the exit code when the run has ended. It ends with its own standard input.
"""

import json
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from gateway import __main__ as program
from gateway.cli import main


def serve(path: str) -> None:
    """Fork for each connection, until nobody is there any more."""
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
    with asked.makefile("r") as lines:
        wanted = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        asked.close()
        _run(**wanted)
    _, status = os.waitpid(child, 0)
    asked.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(arguments: list[str], cwd: str, out: str, err: str) -> NoReturn:
    for number, file, how in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        opened = os.open(file, how)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(cwd)
    sys.argv = [program.__file__, *arguments]
    main()
    raise SystemExit


if __name__ == "__main__":
    serve(sys.argv[1])
