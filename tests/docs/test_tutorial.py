"""The tutorial, run from its page in an empty folder: files are written, commands are run, outputs are compared."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.program import ENVIRONMENT

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorial.md"
_BLOCK = re.compile(r'(<!-- not run[^>]*-->\n)?^```(\w+) title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"\b(?:8080|9090|900[123])\b")
_FOREGROUND = "terminal 1"


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks() -> Iterator[Block]:
    for skipped, *rest in _BLOCK.findall(PAGE.read_text()):
        if not skipped:
            yield Block(*rest)


def free_ports() -> dict[str, int]:
    """A free port for each port of the page."""
    with ExitStack() as held:
        ports = {}
        for number in sorted(set(_PORT.findall(PAGE.read_text()))):
            probe = held.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports[number] = probe.getsockname()[1]
        return ports


def commands(folder: Path) -> dict[str, str]:
    """An environment with the two commands that the page calls."""
    for name, words in (("python", sys.executable), ("a2a-gateway", f"{sys.executable} -m gateway")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        command.chmod(0o755)
    return {**ENVIRONMENT, "PATH": f"{folder}:{os.environ['PATH']}"}


@contextmanager
def terminal(text: str, folder: Path, environ: dict[str, str], ports: list[int]) -> Iterator[None]:
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


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    folder, tools = tmp_path / "empty", tmp_path / "tools"
    folder.mkdir()
    (folder / "said").touch()
    tools.mkdir()
    environ, ports, said = commands(tools), free_ports(), ""

    def substituted(text: str) -> str:
        return _PORT.sub(lambda found: str(ports[found[0]]), text)

    with ExitStack() as running:
        for language, title, text in blocks():
            if title == "output":
                assert [line for line in text.splitlines() if line not in said] == []
            elif language != "sh":
                addresses = "gateway: { listen: '127.0.0.1:8080', admin: '127.0.0.1:9090' }\n"
                (folder / title).write_text(substituted(text + addresses * (title == "gateway.yaml")))
            elif title == _FOREGROUND:
                done = subprocess.run(
                    ["bash", "-ec", substituted(text)],
                    cwd=folder,
                    env=environ,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                said = done.stdout
                assert done.returncode == 0, said + done.stderr + (folder / "said").read_text()
            else:
                listening = [number for number in ports if number in text] or ["8080", "9090"]
                waited = [ports[number] for number in listening]
                running.enter_context(terminal(substituted(text), folder, environ, waited))


def test_the_tutorial_has_ten_steps_and_is_extracted() -> None:
    assert re.findall(r"^## (\d+)\.", PAGE.read_text(), re.MULTILINE) == [str(step) for step in range(1, 11)]
    assert {"agent.py", "gateway.yaml", "terminal 2", "terminal 3"} <= {block.title for block in blocks()}
