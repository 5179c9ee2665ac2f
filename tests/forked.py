"""Runs the program without its start: most of what a command takes is to load its modules (`forking.py`).

python -m tests.forked SOCKET
"""

import sys

from gateway import __main__ as program
from gateway import process
from gateway.cli import main
from gateway.commands import check, diff, find_agent, health, init, key, route, send, serve, state, stdio
from gateway.demo import fleet, stage
from tests.forking import listen

# A command imports its module when it runs; here each run has all of them from the start.
_LOADED = (process, check, diff, find_agent, health, init, key, route, send, serve, state, stdio, fleet, stage)


def _run(arguments: list[str]) -> None:
    sys.argv = [program.__file__, *arguments]
    main()


if __name__ == "__main__":
    listen(sys.argv[1], _run)
