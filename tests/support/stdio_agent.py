"""Agents on stdio that misbehave, one of them a mode of this script; it needs nothing but Python.

    python stdio_agent.py MODE [COUNT] [--framing lsp|ndjson] [--journal FILE]

Whatever the mode, some calls are answered as they should be, so that a test can see whether the agent still serves:
the extended card, and messages whose text is one of `stdio_speech.GOOD`. Any other call gets what the mode is called
after (`stdio_modes.py`). A mode of `AT_START` shows it before any call.

To the journal the process writes what a test cannot see: `start PID`, `child PID`, `eof`, `term`, one a line.
"""

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from getopt import gnu_getopt
from pathlib import Path
from typing import BinaryIO

FILE = Path(__file__)
if __name__ == "__main__":
    # As a script it finds its own folder, where files are called as modules of others are.
    sys.path[0] = str(FILE.parents[2])

from tests.support.stdio_modes import MODES, Mode, hangs  # noqa: E402 - see above
from tests.support.stdio_speech import Agent, Call, Tree, card  # noqa: E402 - see above

AT_START = {
    "exits-at-start": "exits with 3, and says why",
    "exits-at-start-in-silence": "exits with 0",
    "never-starts": "neither reads nor writes",
    "is-alone": "behaves, unless another process with this journal is there: then it exits with 4",
    "waits-to-start": "behaves once there is a file beside the journal, called as that is and `.go`",
    "closes-stdout-at-start": "closes its stdout, and stays",
    "banner": "says something before its first frame, and behaves",
    "announces": "writes its card in a frame before it is asked, and behaves",
    "ignores-eof": "behaves, and stays when stdin ends, until TERM",
    "ignores-term": "behaves, and stays when stdin ends and on TERM",
    "slow-to-end": "behaves, and takes COUNT milliseconds to exit when stdin ends",
    "wraps": "behaves in a child that has the pipes, and waits for it, as uvx and npx do",
    "wraps-away": "as `wraps`, the child in a session of its own",
}
"""Actions before any call, or after the last."""


def requests(source: BinaryIO) -> Iterator[tuple[dict[str, str], Tree]]:
    """Yield the messages that come in, in either framing."""
    while line := source.readline():
        headers: dict[str, str] = {}
        while not line.startswith(b"{") and line.strip():
            name, _, value = line.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
            line = source.readline()
        content = source.read(int(headers["content-length"])) if headers else line
        if content.strip():
            yield headers, json.loads(content)


def serve(agent: Agent, mode: Mode) -> None:
    """Answer to the end of stdin."""
    for headers, tree in requests(sys.stdin.buffer):
        if "method" not in tree:
            # The host's answer to a request of ours.
            if agent.held:
                agent.raw(agent.says(agent.held.pop(), "told", tree))
            continue
        call = Call(tree.get("id"), tree["method"], tree.get("params") or {}, headers)
        if not agent.behave(call):
            mode(agent, call)
    agent.note("eof")


def beside(agent: Agent, suffix: str) -> Path:
    """A file beside the journal."""
    assert agent.journal is not None
    return agent.journal.with_name(agent.journal.name + suffix)


def alone(agent: Agent) -> bool:
    """Whether no other process with this journal is there; from now on none can be."""
    agent.lock = beside(agent, ".lock").open("w")
    try:
        fcntl.flock(agent.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def waits(agent: Agent) -> None:
    while not beside(agent, ".go").exists():
        time.sleep(0.01)


def start(agent: Agent, mode: str) -> None:
    """Take the actions of a mode at the start."""
    if mode == "exits-at-start":
        sys.stderr.write("cannot start: no model\n")
        sys.exit(3)
    if mode == "exits-at-start-in-silence":
        sys.exit(0)
    if mode == "never-starts":
        hangs()
    if mode == "closes-stdout-at-start":
        os.close(agent.out.fileno())
        hangs()
    if mode == "banner":
        agent.raw(b"Misbehaving agent 1.0 (c) nobody\n")
    if mode == "announces":
        agent.raw(agent.frame(card()))
    if mode == "is-alone" and not alone(agent):
        sys.exit(4)
    if mode == "waits-to-start":
        waits(agent)
    if mode == "ignores-term":
        signal.signal(signal.SIGTERM, lambda *_: agent.note("term"))


def main() -> None:
    """Be an agent."""
    # Not argparse, whose import takes as long as all the rest of a start.
    named, (mode, *count) = gnu_getopt(sys.argv[1:], "", ["framing=", "journal="])
    options = dict(named)
    if mode not in MODES and mode not in AT_START:
        sys.exit(f"there is no mode {mode}")
    journal = Path(options["--journal"]) if "--journal" in options else None
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    agent = Agent(int(*count or ["3"]), options.get("--framing", "lsp"), journal, sys.stdout.buffer)
    if mode in ("wraps", "wraps-away"):
        import subprocess  # noqa: PLC0415 - few modes need it, and each start pays for it

        arguments = ["behaves" if each == mode else each for each in sys.argv[1:]]
        child = subprocess.Popen([sys.executable, str(FILE), *arguments], start_new_session=mode == "wraps-away")
        agent.note("child", child.pid)
        sys.exit(child.wait())
    agent.note("start", os.getpid())
    start(agent, mode)
    serve(agent, MODES.get(mode, MODES["behaves"]))
    if mode in ("ignores-eof", "ignores-term"):
        hangs()
    if mode == "slow-to-end":
        time.sleep(agent.count / 1000)


if __name__ == "__main__":
    main()
