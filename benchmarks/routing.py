"""The time to load 1,000 agents, and the cost of a look-up with 10, 1,000 and 10,000 of them.

    python -m benchmarks.routing

Times are CPU time of this process, best of five.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from gateway.config.check import examine
from gateway.principal import Principal
from gateway.routing.route import AgentRules, Place, Reach, Route, RoutingInput, Rule
from gateway.routing.table import Table

SIZES = (10, 1_000, 10_000)
LOOK_UPS = 20_000


def best(work: Callable[[], object], rounds: int = 5) -> float:
    figures = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        figures.append(time.process_time() - started)
    return min(figures)


def configuration(count: int) -> str:
    agents = "".join(f"  agent-{n}:\n    backend: https://agent-{n}.example.com\n" for n in range(count))
    return f"version: 1\nagents:\n{agents}"


def shared(count: int) -> Table:
    """All agents at one path, told apart by the tenant field."""
    agents = [
        AgentRules(
            f"a{n}",
            (Rule(f"a{n}", None, ("a2a",), frozenset({("tenant", f"t{n}")}), Place("f", n)),),
            {None: Route(f"a{n}", f"a{n}", "http://a")},
            Place("f", n),
        )
        for n in range(count)
    ]
    return Table.build(agents, {"acme": Reach(frozenset(agent.name for agent in agents))})


def look_ups(table: Table, tenant: str) -> None:
    request = RoutingInput(("a2a",), "agents.example.com", tenant, Principal("acme"))
    for _ in range(LOOK_UPS):
        assert table.resolve(table.locate(request.host, request.path), request).route is not None


def main() -> None:
    text = configuration(1_000)
    seconds = best(lambda: examine(Path("gateway.yaml"), os.environ, text=text))
    print(f"load and check 1,000 agents   {seconds * 1000:7.1f} ms")
    first = 0.0
    for size in SIZES:
        table = shared(size)
        micros = best(lambda table=table, size=size: look_ups(table, f"t{size - 1}")) / LOOK_UPS * 1e6  # type: ignore[misc]
        first = first or micros
        print(f"look-up among {size:6,} agents   {micros:7.2f} us   {micros / first:4.2f} x")


if __name__ == "__main__":
    main()
