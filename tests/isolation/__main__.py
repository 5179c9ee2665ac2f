"""The long run; see the package."""

import argparse
import logging
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from math import ceil
from pathlib import Path

from hypothesis.errors import Flaky

import tests.isolation
from gateway.tasks.state_url import StateUrl
from tests.isolation import known
from tests.isolation.model import Broken
from tests.isolation.running import run_machine, standing
from tests.isolation.site import State, in_memory
from tests.support.redis_server import RedisServer

_STEPS = 50
_APART = 1_000_000
"""Between the seeds of two batches of runs."""


def main() -> int:
    """Run the machine until it has taken as many steps as are asked for, or has found something; the exit code."""
    names = [name for name, value in vars(known).items() if value is True]
    parser = argparse.ArgumentParser(
        prog="python -m tests.isolation",
        description=tests.isolation.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", type=int, default=2000, help="how many, at least")
    parser.add_argument("--seed", type=int, default=None, help="draws what it drew before")
    parser.add_argument("--state", choices=("memory", "sqlite", "redis"), default="memory", help="where the ledger is")
    parser.add_argument("--gateways", type=int, default=1, help="how many share it; several need a redis")
    parser.add_argument("--push", choices=("passthrough", "relay"), default="passthrough", help="who calls webhooks")
    parser.add_argument("--strict", choices=names, action="append", default=[], help="what is known is not tolerated")
    parser.add_argument("--as-found", action="store_true", help="what is found is not made smaller")
    asked = parser.parse_args()
    for name in asked.strict:
        setattr(known, name, False)
    if asked.gateways > 1 and asked.state != "redis":
        parser.error("several gateways need --state redis")
    # Log lines of agents and gateways are not shown here.
    logging.disable(logging.ERROR)
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    _say(f"--seed {seed} --state {asked.state} --gateways {asked.gateways} --push {asked.push}")
    figures: Counter[str] = Counter()
    began = time.monotonic()
    found: Broken | Flaky | None = None
    with _state(asked.state) as state, standing(state=state, gateways=asked.gateways, push=asked.push) as here:
        try:
            for batch in count():
                if figures["steps"] >= asked.steps:
                    break
                runs = ceil((asked.steps - figures["steps"]) / (_STEPS - 1))
                shrinks = not asked.as_found
                run_machine(here, figures, seed=seed + batch * _APART, runs=runs, steps=_STEPS, shrinks=shrinks)
        except (Broken, Flaky) as broken:
            found = broken
    if found is not None:
        traceback.print_exception(found)
    steps = figures.pop("steps")
    _say(f"{steps} steps in {time.monotonic() - began:.0f} s, {1 if found else 0} counter-examples")
    for name, times in sorted(figures.items()):
        _say(f"{times:8} {name}")
    return 1 if found else 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - for who runs it by hand


@contextmanager
def _state(kind: str) -> Iterator[State]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield lambda run: StateUrl("sqlite", path=Path(folder) / f"{run}.db")
    elif kind == "redis":
        server = RedisServer()
        try:
            yield lambda run: StateUrl("redis", url=f"{server.url}/0?prefix=run{run}")
        finally:
            server.stop()
    else:
        yield in_memory


if __name__ == "__main__":
    sys.exit(main())
