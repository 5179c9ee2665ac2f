"""Agents, clients and the gateway as processes of the matrix."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.conformance.normal import Tree, normal
from tests.conformance.software import ROOT, Software

WAIT = 20.0
"""Seconds until an agent serves or has ended."""
RUN = 300.0
"""Seconds for all the operations of one client."""

ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}
"""For the doubles of this project, which are run from its own tree."""

Told = dict[str, Tree]
"""What a client was told, by operation."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample agent is.

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
        yield {agent: _place(agent, process) for agent, process in started.items()}
        for process in started.values():
            process.terminate()


def _started(agent: Software, stack: ExitStack) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        _command(agent),
        env=ENVIRON,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    stack.callback(_end, process)
    return process


def _command(agent: Software) -> list[str]:
    return agent.environment.command("agents", agent.script, agent.binding, agent.version)


def _place(agent: Software, process: "subprocess.Popen[str]") -> Place:
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first, f"{agent.key} did not start: {' '.join(_command(agent))}"
    return Place(**json.loads(first))


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


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
    command = client.environment.command("clients", client.script, json.dumps(asked))
    done = subprocess.run(
        command,
        env=ENVIRON,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert told, f"{client.key} said nothing: {done.stderr[-2000:]}"
    return told


def in_normal_form(told: Mapping[str, Tree]) -> Told:
    """Each operation's result in words of no generation."""
    return {operation: normal(operation, each) for operation, each in told.items()}
