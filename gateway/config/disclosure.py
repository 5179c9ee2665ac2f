"""Names that answers would give away: tenants of one agent, told apart at a path that another agent shares.

Where a match without conditions stands beside matches with `tenant`, a call for an unknown tenant reaches the general
agent, while one for a tenant that the caller may not reach is refused. The difference tells that the tenant exists.
Over gRPC that is so only where the general agent takes any tenant, for there no other answers for unknown ones; but
there names of agents are tenants, too.
"""

from collections.abc import Iterable, Iterator, Mapping

from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable
from gateway.config.routes import agent_rules
from gateway.routing.grpc import GrpcRules
from gateway.routing.route import Reach, Rule

_SHOWN = 3


def check_disclosure(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    """Find general agents beside which hidden tenants can be told from unknown ones.

    Args:
        reached: What each tenant may call.
    """
    callers: dict[str, set[str]] = {}
    for tenant, may in reached.items():
        for agent in may.agents:
            callers.setdefault(agent, set()).add(tenant)
    written = list(_rules(config, findings))
    told = set()
    for rule, at, hidden in _hidden(config, written, callers, reached):
        told.add(rule.agent)
        findings.warning(at, _fact(hidden), "give this agent a path of its own, or a `tenant` in its match")
    if config.gateway.listen_grpc is None:
        return
    names = dict.fromkeys(rule.agent for rule, _ in written)
    agents = {name: agent_rules(name, config.agents[name], findings.marks) for name in names}
    endpoints = GrpcRules.build(agents)
    paths = dict(written)
    found = [(rule, paths[endpoints.written(rule)]) for rule in endpoints.rules()]
    for rule, at, hidden in _hidden(config, found, callers, reached):
        if agents[rule.agent].tenanted and rule.agent not in told:
            findings.warning(at, f"over gRPC {_fact(hidden)}", "give this agent a `key` or `claim`")


def _hidden(
    config: Config,
    found: Iterable[tuple[Rule, KeyPath]],
    callers: Mapping[str, set[str]],
    reached: Mapping[str, Reach],
) -> Iterator[tuple[Rule, KeyPath, list[Rule]]]:
    """General rules, with those for tenants beside them which not all that call the general one may reach."""
    general: list[tuple[Rule, KeyPath]] = []
    tenanted: dict[tuple[object, ...], list[Rule]] = {}
    for rule, at in found:
        if not rule.conditions and not config.agents[rule.agent].by_tenant:
            # With `by_tenant` an unknown tenant is refused as a hidden one is.
            general.append((rule, at))
        elif rule.conditions == {("tenant", rule.tenant)}:
            tenanted.setdefault((rule.host, rule.path), []).append(rule)
    for rule, at in general:
        here = callers.get(rule.agent, set())
        hidden = [
            one
            for one in tenanted.get((rule.host, rule.path), ())
            if one.agent != rule.agent and not here <= _answered(config, one, callers.get(one.agent, set()), reached)
        ]
        if hidden:
            yield rule, at, hidden


def _rules(config: Config, findings: Findings) -> Iterator[tuple[Rule, KeyPath]]:
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        if findings.is_broken((*at, "match")):
            continue
        paths = [(*at, "match", number) for number in range(len(agent.match))] or [at]
        yield from zip(agent_rules(name, agent, findings.marks).rules, paths, strict=True)


def _answered(config: Config, rule: Rule, callers: set[str], reached: Mapping[str, Reach]) -> set[str]:
    """Those of an agent's callers whom it answers for the tenant of the rule."""
    if not config.agents[rule.agent].by_tenant:
        return callers
    return {
        caller
        for caller in callers
        if caller == rule.tenant or (acts := reached[caller].act_for) is None or rule.tenant in acts
    }


def _fact(hidden: list[Rule]) -> str:
    names = ", ".join(f"{printable(str(rule.tenant))!r} of {rule.agent!r}" for rule in hidden[:_SHOWN])
    more = ", …" if len(hidden) > _SHOWN else ""
    return (
        f"callers can tell that tenants exist which they may not reach ({names}{more}): an unknown one is answered here"
    )
