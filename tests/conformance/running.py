"""Agents, clients and the gateway as processes of the matrix."""

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from tests.conformance.normal import Tree, normal
from tests.conformance.software import ROOT, Software
from tests.program import Forked

WAIT = 20.0
"""Seconds until an agent serves or has ended."""
RUN = 300.0
"""Seconds for all the operations of one client."""

ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}
"""For the doubles of this project, which are run from its own tree."""

Told = dict[str, Tree]
"""The results of a client, by operation."""


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses of a sample agent.

    Attributes:
        url: Where its card is, and where it is called but over gRPC.
        grpc: Host and port where it is called over gRPC; empty for one that is not.
    """

    url: str
    grpc: str = ""


@contextmanager
def agent_process(agent: Software) -> Iterator[Place]:
    """A sample agent until the end of the block; where it is."""
    with agent_processes([agent]) as places:
        yield places[agent]


@contextmanager
def agent_processes(agents: Iterable[Software]) -> Iterator[dict[Software, Place]]:
    """As `agent_process`, several: they start, and end, all at a time."""
    with ExitStack() as stack:
        started = {agent: _started(agent, stack) for agent in agents}
        yield {agent: _place(agent, stdout) for agent, (_, stdout) in started.items()}
        for process, _ in started.values():
            process.send_signal(signal.SIGTERM)


def _start(software: Software, folder: str, out: int, err: int, *arguments: str) -> "Forked | subprocess.Popen[bytes]":
    """Start a script; of those of Python none loads its SDK again."""
    command = software.environment.command(folder, software.script, *arguments)
    if software.environment.name == "node":
        return subprocess.Popen(command, env=ENVIRON, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    script = command.index(next(word for word in command if word.endswith(".py")))
    return Forked(command[script:], ROOT, ENVIRON, out, err, interpreter=command[0])


def _started(agent: Software, stack: ExitStack) -> tuple["Forked | subprocess.Popen[bytes]", IO[bytes]]:
    read, out = os.pipe()
    stdout = stack.enter_context(os.fdopen(read, "rb"))
    try:
        with Path(os.devnull).open("wb") as nothing:
            process = _start(agent, "agents", out, nothing.fileno(), agent.binding, agent.version)
    finally:
        os.close(out)
    stack.callback(_end, process)
    return process, stdout


def _place(agent: Software, stdout: IO[bytes]) -> Place:
    first = stdout.readline()
    assert first, f"{agent.key} did not start"
    return Place(**json.loads(first))


def _end(process: "Forked | subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ask(client: Software, url: str, **more: Any) -> Told:
    """Have a client do every operation at a URL, or those that `operations` names; what it was told, as it is."""
    return _said(client, {"url": url, "binding": client.binding, "version": client.version, **more})[-1]


def ask_each(client: Software, places: Iterable[Mapping[str, Any]]) -> list[Told]:
    """As `ask`, one place after another, by one process; of clients that are driven by `driving.py`."""
    asked = [{"binding": client.binding, "version": client.version, **place} for place in places]
    told = _said(client, asked)[-len(asked) :]
    assert len(told) == len(asked), f"{client.key} said too little"
    return told


def _said(client: Software, asked: object) -> list[Told]:
    with TemporaryFile() as out, TemporaryFile() as err:
        process = _start(client, "clients", out.fileno(), err.fileno(), json.dumps(asked))
        try:
            process.wait(RUN)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        told = [json.loads(line) for line in out if line.startswith(b"{")]
        assert told, f"{client.key} said nothing: {err.read().decode()[-2000:]}"
    return told


def in_normal_form(told: Mapping[str, Tree]) -> Told:
    """Each operation's result in words of no generation."""
    return {operation: normal(operation, each) for operation, each in told.items()}
