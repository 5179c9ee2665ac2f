"""What clients of gRPC cannot reach, or not as they might think: there are no paths, and no host is seen."""

from collections.abc import Mapping
from itertools import islice

from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.reach import EVERYONE, reach
from gateway.config.routes import agent_rules
from gateway.routing.grpc import GrpcRules
from gateway.routing.route import AgentRules, Place, Reach, Rule

_SHOWN = 5


def check_addressing(config: Config, findings: Findings) -> None:
    """Find agents that clients of gRPC cannot reach, or not for each of their tenants, although their cards list it."""
    if config.gateway.listen_grpc is None:
        return
    listing = {name for name, agent in config.agents.items() if "grpc" in agent.expose}
    # What is wrong with a match is told elsewhere.
    agents = {
        name: agent_rules(name, agent, findings.marks)
        for name, agent in config.agents.items()
        if not findings.is_broken(("agents", name, "match"))
    }
    found = GrpcRules.build(agents)
    alike: dict[object, list[Rule]] = {}
    for rule in found.rules():
        alike.setdefault(rule.conditions, []).append(rule)
    named = [rule for rule in found.rules() if rule.tenant is not None]
    reached_by = reach(config)
    for agent in agents.values():
        _taken(config, agent, named, reached_by, findings)
        _hosts(agent, found, findings, listed=agent.name in listing)
    reached = {name for name in listing & agents.keys() if _is_reached(agents[name], found, findings)}
    for rule in found.rules():
        if rule.agent in reached and agents[rule.agent].by_tenant and found.written(rule).tenant is None:
            _disputed(rule, alike[rule.conditions], found, findings)
    for name in (name for name in config.agents if name in reached):
        _shared(agents[name], found, named, findings)


def _is_reached(agent: AgentRules, found: GrpcRules, findings: Findings) -> bool:
    """Whether some match of an agent has an address; tells it where none has."""
    obstacles = [found.obstacle(rule) for rule in agent.rules]
    first = obstacles[0]
    if first is None or None in obstacles:
        return True
    fact = f"clients of gRPC cannot reach it: {first.why}"
    if first.rival is not None:
        fact += f" ({_line(first.rival.place, findings)})"
    keys = "`key` or `claim`" if agent.by_tenant or agent.require_tenant else "another `tenant`"
    remedy = f"give it a match with {keys}, or leave `grpc` out of `expose`"
    findings.warning(("agents", agent.name, "expose"), fact, remedy)
    return False


def _hosts(agent: AgentRules, found: GrpcRules, findings: Findings, *, listed: bool) -> None:
    """Tell of a host that picks an agent over HTTP and would be expected to over gRPC."""
    number = next((at for at, rule in enumerate(agent.rules) if rule.host is not None), None)
    if number is None or not (listed or all(rule.host and not rule.conditions for rule in agent.rules)):
        return
    address = found.address(agent.rules[number])
    if address is None:
        remedy = "give the agent a match with a `tenant`, `key` or `claim`"
    elif address.tenant is None:
        remedy = "clients of gRPC need the credential that the match asks for; add a match without `host` to say so"
    else:
        remedy = f"clients of gRPC name the tenant {address.tenant!r}; add a match without `host` to say so"
    fact = "over gRPC no host picks an agent: it is not seen there"
    findings.warning(("agents", agent.name, "match", number, "host"), fact, remedy)


def _disputed(rule: Rule, there: list[Rule], found: GrpcRules, findings: Findings) -> None:
    """Tell of a tenant of a `by_tenant` agent that another agent's match asks for."""
    rival = next((other for other in there if other.agent != rule.agent), None)
    if rule.tenant is None or rival is None:
        return
    line = _line(found.written(rival).place, findings)
    fact = f"clients of gRPC cannot reach this backend: {rival.agent!r} asks for tenant {rule.tenant!r} too ({line})"
    remedy = "give one of the two tenants another name"
    findings.warning(("agents", rule.agent, "by_tenant", rule.tenant), fact, remedy)


def _shared(agent: AgentRules, found: GrpcRules, named: list[Rule], findings: Findings) -> None:
    """Tell of an agent that takes any tenant, and is found beside others that tenants pick."""
    if agent.by_tenant or not agent.tenanted:
        return
    addresses = [address for rule in agent.rules if (address := found.address(rule)) is not None]
    if all(address.tenant is not None for address in addresses):
        return
    names = [str(rule.tenant) for rule in islice((one for one in named if one.agent != agent.name), _SHOWN + 1)]
    if names:
        listed = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        fact = f"over gRPC its tenants share the field with other agents ({listed}): one of such a name is not reached"
        remedy = "give the agent a `key` or `claim`, or leave `grpc` out of `expose`"
        findings.warning(("agents", agent.name, "expose"), fact, remedy)


def _taken(
    config: Config,
    agent: AgentRules,
    named: list[Rule],
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
            for other in named
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
            remedy = "give its callers another credential for the others"
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
