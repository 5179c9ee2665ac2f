"""Pages that tests run: their titled blocks, on free ports, with commands in terminals."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.program import ENVIRONMENT

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r'(<!-- not run[^>]*-->\n)?^```(\w+) title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"\b(?:808[01]|9090|900[123])\b")


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The titled blocks of a page, but those that it says are not run."""
    for skipped, *rest in _BLOCK.findall(page.read_text()):
        if not skipped:
            yield Block(*rest)


def free_ports(text: str) -> dict[str, int]:
    """A free port for each port of a text."""
    with ExitStack() as held:
        ports = {}
        for number in sorted(set(_PORT.findall(text))):
            probe = held.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports[number] = probe.getsockname()[1]
        return ports


def on_ports(text: str, ports: Mapping[str, int]) -> str:
    """A text with free ports in place of its own."""
    return _PORT.sub(lambda found: str(ports[found[0]]), text)


def commands(folder: Path) -> dict[str, str]:
    """An environment with the two commands that pages call."""
    for name, words in (("python", sys.executable), ("a2a-gateway", f"{sys.executable} -m gateway")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        command.chmod(0o755)
    return {**ENVIRONMENT, "PATH": f"{folder}:{os.environ['PATH']}"}


@contextmanager
def terminal(text: str, folder: Path, environ: Mapping[str, str], ports: list[int]) -> Iterator[None]:
    """Commands that go on, once they listen."""
    with (folder / "said").open("ab") as said:
        process = subprocess.Popen(
            ["sh", "-c", text], cwd=folder, env=environ, stdout=said, stderr=said, start_new_session=True
        )
    try:
        end = time.monotonic() + 60
        while not all(map(listens, ports)):
            assert time.monotonic() < end, (folder / "said").read_text()
            time.sleep(0.05)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
