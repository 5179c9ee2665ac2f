"""Agents whose cards would send clients to gRPC, and what these cannot reach there: it has no paths."""

from collections.abc import Mapping
from itertools import islice

from gateway.config import effective
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.reach import EVERYONE, reach
from gateway.config.routes import agent_rules
from gateway.routing.grpc import GrpcEndpoints
from gateway.routing.route import AgentRules, Place, Reach, Rule

_SHOWN = 5


def check_addressing(config: Config, findings: Findings) -> None:
    """Find agents that clients of gRPC cannot reach, or not for each of their tenants, although their cards list it."""
    if config.gateway.listen_grpc is None:
        return
    listing = {name for name, agent in config.agents.items() if "grpc" in agent.expose}
    agents = {name: agent_rules(name, agent, findings.marks) for name, agent in config.agents.items()}
    endpoints = GrpcEndpoints.build(agents, effective.grpc_host(config))
    at_spot: dict[tuple[object, ...], list[Rule]] = {}
    named: dict[str | None, list[Rule]] = {}
    for rule in endpoints.rules():
        at_spot.setdefault((rule.host, rule.conditions), []).append(rule)
        if rule.tenant is not None:
            named.setdefault(rule.host, []).append(rule)
    reached_by = reach(config)
    for agent in agents.values():
        _taken(config, agent, named, reached_by, findings)
    reached = {name for name in listing & agents.keys() if _is_reached(agents[name], endpoints, findings)}
    for rule in endpoints.rules():
        if rule.agent in reached and agents[rule.agent].by_tenant and endpoints.written(rule).tenant is None:
            _disputed(rule, at_spot[rule.host, rule.conditions], endpoints, findings)
    for name in (name for name in config.agents if name in reached):
        _shared(agents[name], endpoints, named, findings)


def _is_reached(agent: AgentRules, endpoints: GrpcEndpoints, findings: Findings) -> bool:
    """Whether some match of an agent has an address; tells it where none has."""
    obstacles = [endpoints.obstacle(rule) for rule in agent.rules]
    first = obstacles[0]
    if first is None or None in obstacles:
        return True
    fact = f"clients of gRPC cannot reach it: {first.why}"
    if first.rival is not None:
        fact += f" ({_line(first.rival.place, findings)})"
    keys = "`host`, `key` or `claim`" if agent.by_tenant or agent.require_tenant else "`host` or another `tenant`"
    remedy = f"give it a match with a {keys}, or leave `grpc` out of `expose`"
    findings.warning(("agents", agent.name, "expose"), fact, remedy)
    return False


def _disputed(rule: Rule, there: list[Rule], endpoints: GrpcEndpoints, findings: Findings) -> None:
    """Tell of a tenant of a `by_tenant` agent that another agent's match asks for."""
    rival = next((other for other in there if other.agent != rule.agent), None)
    if rule.tenant is None or rival is None:
        return
    line = _line(endpoints.written(rival).place, findings)
    fact = f"clients of gRPC cannot reach this backend: {rival.agent!r} asks for tenant {rule.tenant!r} too ({line})"
    remedy = "give one of the two a host of its own, or the tenant another name"
    findings.warning(("agents", rule.agent, "by_tenant", rule.tenant), fact, remedy)


def _shared(
    agent: AgentRules, endpoints: GrpcEndpoints, named: Mapping[str | None, list[Rule]], findings: Findings
) -> None:
    """Tell of an agent that takes any tenant, and is found beside others that tenants pick."""
    if agent.by_tenant or not agent.tenanted:
        return
    addresses = [address for rule in agent.rules if (address := endpoints.address(rule)) is not None]
    hosts = dict.fromkeys(address.host for address in addresses if address.tenant is None)
    others = (rule for host in hosts for rule in named.get(host, ()) if rule.agent != agent.name)
    names = [str(rule.tenant) for rule in islice(others, _SHOWN + 1)]
    if names:
        listed = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        fact = f"over gRPC its tenants share the field with other agents ({listed}): one of such a name is not reached"
        remedy = "give the agent a host of its own, or leave `grpc` out of `expose`"
        findings.warning(("agents", agent.name, "expose"), fact, remedy)


def _taken(
    config: Config,
    agent: AgentRules,
    named: Mapping[str | None, list[Rule]],
    reached: Mapping[str, Reach],
    findings: Findings,
) -> None:
    """Tell of a credential at a path whose callers name other agents in vain: it picks this one for any tenant."""
    if not (agent.by_tenant or agent.tenanted):
        return
    for number, match in enumerate(config.agents[agent.name].match):
        rule = agent.rules[number]
        if not rule.path or rule.tenant is not None or not rule.conditions:
            continue
        may = _reached_with(config, match.key, reached)
        others = dict.fromkeys(
            other.agent
            for other in named.get(rule.host, ())
            if other.agent != agent.name
            and not rule.conditions <= other.conditions
            and (may is None or other.agent in may)
        )
        if others:
            names = list(others)
            listed = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            written = "claim" if match.key is None else "key"
            fact = (
                f"over gRPC it picks {agent.name!r} whatever tenant is named: with it nobody reaches others ({listed})"
            )
            remedy = "give the agent a host of its own, or its callers another credential for the others"
            findings.warning(("agents", agent.name, "match", number, written), fact, remedy)


def _reached_with(config: Config, key: str | None, reached: Mapping[str, Reach]) -> frozenset[str] | None:
    """The agents that the callers with an API key may call; None where nobody knows."""
    found = None if config.auth is None or key is None else config.auth.api_keys.get(key)
    if found is None:
        return None
    may = reached.get(found.tenant, reached.get(EVERYONE))
    agents = frozenset[str]() if may is None else may.agents
    return agents if found.agents is None else agents & frozenset(found.agents)


def _line(place: Place, findings: Findings) -> str:
    return f"line {place.line}" if place.file == findings.marks.start.file else str(place)
