"""Tables of a few agents, and requests that show exactly what they look for."""

import itertools

from gateway.principal import Principal
from gateway.routing.endpoint import claim_condition
from gateway.routing.route import AgentRules, Place, Reach, Route, RoutingInput, Rule, Verdict
from gateway.routing.table import Table

KEYS = ("host", "path", "key", "claim", "tenant")
COMBINATIONS = [keys for count in range(1, 6) for keys in itertools.combinations(KEYS, count)]
HELD = {
    "host": "agents.example.com",
    "path": ("a2a",),
    "key": ("key", "batch"),
    "claim": claim_condition("team", "red"),
    "tenant": ("tenant", "billing"),
}
NAMES = ("it", "other", "third", "root", "short", "long", "exact", "pattern")
EVERYTHING = Reach(frozenset(NAMES))


def rule(agent: str, keys: tuple[str, ...], line: int = 1) -> Rule:
    conditions = frozenset(HELD[key] for key in keys if key in ("key", "claim", "tenant"))
    host = HELD["host"] if "host" in keys else None
    path = HELD["path"] if "path" in keys else ()
    return Rule(agent, host, path, conditions, Place("gateway.yaml", line))  # type: ignore[arg-type]


def agent(name: str, *rules: Rule, **more: object) -> AgentRules:
    route = Route(name, name, f"http://{name}:8000")
    return AgentRules(name, rules, {None: route}, Place("gateway.yaml", 1), **more)  # type: ignore[arg-type]


def table(*agents: AgentRules, **reach: Reach) -> Table:
    return Table.build(agents, reach or {"acme": EVERYTHING})


def routing_input(keys: tuple[str, ...], tenant: str = "acme") -> RoutingInput:
    """A request that shows exactly what `keys` name."""
    return RoutingInput(
        path=("a2a",) if "path" in keys else (),
        host="agents.example.com" if "host" in keys else "elsewhere.example.com",
        tenant="billing" if "tenant" in keys else None,
        principal=Principal(
            tenant,
            method="api_key" if "key" in keys else "jwt",
            key="batch" if "key" in keys else None,
            claims={"team": "red"} if "claim" in keys else {},
        ),
    )


def resolve(found: Table, asked: RoutingInput) -> Verdict:
    return found.resolve(found.locate(asked.host, asked.path), asked)
