"""What several processes of one gateway would each have for themselves, so that calls would meet the wrong one."""

from collections.abc import Iterator

from gateway.config import effective
from gateway.config.agent import backends
from gateway.config.model import Config
from gateway.config.problem import KeyPath, Problem
from gateway.config.stdio import is_stdio
from gateway.config.yaml import Marks


def divided(config: Config, marks: Marks, processes: int) -> tuple[Problem, ...]:
    """What keeps a configuration from being served by so many processes; nothing where there is one."""
    return tuple(_divided(config, marks, processes)) if processes > 1 else ()


def _divided(config: Config, marks: Marks, processes: int) -> Iterator[Problem]:
    kept = config.gateway.state
    # A file serves all processes of a machine, and where nothing is written it is a file.
    if effective.keeps_state(config) and kept is not None and kept.kind == "memory":
        at: KeyPath = ("gateway", "state")
        fact = f"{processes} workers would each remember for themselves whose task is whose"
        remedy = "write `gateway.state: sqlite:///PATH`, or a Redis where limits have to be exact, or serve with one"
        yield Problem(marks.place(at), at, fact, remedy)
    for name, agent in config.agents.items():
        for backend, place in backends(agent, ("agents", name)):
            if is_stdio(backend.url):
                fact = f"{processes} workers would each start this command, and one does not know the other's tasks"
                yield Problem(marks.place(place), place, fact, "serve with one worker, or run the agent behind a URL")
