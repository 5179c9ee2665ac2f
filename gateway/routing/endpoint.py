"""An endpoint: a host and a path with the rules found there, and the choice of the rule that wins.

Rules are indexed by one of their conditions (tenant, else key, else claim). A look-up reads only rules that may hold,
so it costs the same with ten rules or ten thousand.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from gateway.routing.route import SKILL, AgentRules, RoutingInput, Rule
from gateway.routing.token_claim import claim_values, typed

Condition = tuple[object, ...]

HOST = re.compile(r"(?=.{0,253}$)(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)?|\[[0-9a-f:.]{2,45}\]")
"""A valid host of a request, in lower case and without a port; the card of `*.example.com` repeats it."""
_AUTHORITY = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{0,5})?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a path with the rules found there.

    Attributes:
        path: Empty over gRPC, which has none.
        tenants: Values of the A2A `tenant` here that are in the configuration.
        tenanted: Whether a path segment behind the endpoint is read as a tenant.
        named: Whether the names of agents replace their paths, as over gRPC. A tenant that is not a name then finds no
            agent, like an unknown path.
        skills: The skills that rules require, None for the one in the path; empty if no skill selects an agent.
        by_agent: The rules of each agent, where skills pick them.
        behind_credential: One rule for each public agent that a key or claim selects here, by the required tenant or
            None; two agents at most.
    """

    host: str | None
    path: tuple[str, ...]
    rules: tuple[Rule, ...]
    agents: frozenset[str]
    tenants: frozenset[str]
    tenanted: bool
    by_condition: Mapping[Condition, tuple[Rule, ...]]
    claim_names: tuple[str, ...]
    unconditional: tuple[Rule, ...]
    behind_credential: Mapping[str | None, tuple[Rule, ...]]
    named: bool = False
    skills: tuple[str | None, ...] = ()
    by_agent: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        host: str | None,
        path: tuple[str, ...],
        rules: Sequence[Rule],
        agents: Mapping[str, AgentRules],
        *,
        named: bool = False,
    ) -> Self:
        """Index the rules of one host and path."""
        filed: dict[Condition, list[Rule]] = {}
        by_agent: dict[str, list[Rule]] = {}
        skills = {condition[1] for rule in rules for condition in rule.conditions if condition[0] == "skill"}
        unconditional: list[Rule] = []
        for rule in rules:
            condition = _filed_under(rule)
            by_agent.setdefault(rule.agent, []).append(rule)
            if condition is None:
                unconditional.append(rule)
            else:
                filed.setdefault(condition, []).append(rule)
        names = frozenset(rule.agent for rule in rules)
        tenants = {rule.tenant for rule in rules if rule.tenant is not None}
        for name in names:
            tenants.update(tenant for tenant in agents[name].routes if tenant is not None)
        claims = {str(condition[1]) for condition in filed if condition[0] == "claim"}
        return cls(
            host=host,
            path=path,
            rules=tuple(rules),
            agents=names,
            tenants=frozenset(tenants),
            tenanted=bool(tenants) or any(agents[name].tenanted or agents[name].require_tenant for name in names),
            by_condition={condition: tuple(found) for condition, found in filed.items()},
            claim_names=tuple(sorted(claims)),
            unconditional=tuple(unconditional),
            behind_credential=_behind_credential(rules, agents),
            named=named,
            skills=tuple(None if skill is None else str(skill) for skill in sorted(skills, key=str)),
            by_agent={agent: tuple(found) for agent, found in by_agent.items()} if skills else {},
        )

    def skill_of(self, path: tuple[str, ...]) -> str | None:
        """Return the skill that the path of a request to this endpoint names; None where the path names none."""
        return path[len(self.path) - 1] if self.path[-1:] == (SKILL,) else None

    def possible(self, request: RoutingInput) -> Iterator[Rule]:
        """Yield the rules that the request may satisfy; a superset of those that hold."""
        yield from self.unconditional
        if request.tenant is not None:
            yield from self.by_condition.get(("tenant", request.tenant), ())
        for agent in dict.fromkeys((request.best or {}).values()):
            yield from self.by_condition.get(("agent", agent), ())
        principal = request.principal
        if principal is None:
            return
        if principal.key is not None:
            yield from self.by_condition.get(("key", principal.key), ())
        for name in self.claim_names:
            for value in claim_values(principal.claims, name):
                yield from self.by_condition.get(("claim", name, value), ())

    def select(self, request: RoutingInput) -> tuple[Rule | None, tuple[Rule, ...]]:
        """Return the rule that wins, or None with the rules in conflict (none if no rule holds)."""
        satisfied = [rule for rule in self.possible(request) if unmet(rule, request) is None]
        if len(satisfied) == 1:
            return satisfied[0], ()
        if not satisfied:
            return None, ()
        top = max(satisfied, key=lambda rule: len(rule.conditions))
        # Two agents with the same conditions conflict; that is possible over gRPC only.
        contenders = tuple(
            rule
            for rule in satisfied
            if not rule.conditions <= top.conditions or (rule.agent != top.agent and rule.conditions == top.conditions)
        )
        if not contenders or all(rule.agent == top.agent for rule in contenders):
            return top, ()
        return None, (top, *contenders)


def _behind_credential(
    rules: Sequence[Rule], agents: Mapping[str, AgentRules]
) -> Mapping[str | None, tuple[Rule, ...]]:
    """Return `Endpoint.behind_credential`; two agents suffice, because a card is shown only for a single agent."""
    found: dict[str | None, dict[str, Rule]] = {}
    for rule in rules:
        kinds = {condition[0] for condition in rule.conditions}
        if kinds.isdisjoint(("key", "claim")) or "skill" in kinds or not agents[rule.agent].public:
            continue
        here = found.setdefault(rule.tenant, {})
        if len(here) < 2:
            here.setdefault(rule.agent, rule)
    return {tenant: tuple(here.values()) for tenant, here in found.items()}


def unmet(rule: Rule, request: RoutingInput, *, skills: bool = True) -> Condition | None:
    """Return a condition of the rule that does not hold, or None if all hold.

    `("tenant", None)` means that no tenant is named.

    Args:
        skills: Whether to check the skills of the rule.
    """
    if rule.untenanted and request.tenant is not None:
        return ("tenant", None)
    for condition in rule.conditions:
        kind = condition[0]
        if kind == "tenant":
            if request.tenant != condition[1]:
                return condition
        elif kind == "key":
            if request.principal is None or request.principal.key != condition[1]:
                return condition
        elif kind == "skill":
            skill = request.skill if condition[1] is None else str(condition[1])
            if skills and (request.best is None or skill is None or request.best.get(skill) != rule.agent):
                return condition
        elif request.principal is None or condition[2] not in claim_values(request.principal.claims, str(condition[1])):
            return condition
    return None


def host_named(authority: str) -> str | None:
    """Return the host of a Host header: lower case, without port; empty for none.

    None if it is no host.
    """
    if not authority:
        return ""
    found = _AUTHORITY.fullmatch(authority.lower())
    name = "" if found is None else found[1].removesuffix(".")
    return name if name and HOST.fullmatch(name) is not None else None


def patterns(host: str) -> Iterator[str]:
    """Yield the host itself, then `*.suffix` from the longest suffix to the shortest."""
    yield host
    rest = host
    while "." in rest:
        rest = rest.split(".", 1)[1]
        yield "*." + rest


def claim_condition(path: str, value: str | bool | int) -> Condition:  # noqa: FBT001 - a claim may be true or false
    """Return the condition that the claim at a path has a value; `true` and `1` differ."""
    return ("claim", path, typed(value))


def _filed_under(rule: Rule) -> Condition | None:
    """Return the condition by which a rule is indexed: its most selective one, or its agent for a skill."""
    for kind in ("tenant", "key", "claim"):
        for condition in sorted(rule.conditions, key=repr):
            if condition[0] == kind:
                return condition
    return ("agent", rule.agent) if rule.by_skill else None


def explain_conflict(contenders: Sequence[Rule]) -> str:
    """Return the two sources that pick two agents, in words for the caller; no agent is named.

    Args:
        contenders: The rules that hold, as `Endpoint.select` returns them: the first has the most conditions.
    """
    first, *others = contenders
    rival = max((rule for rule in others if rule.agent != first.agent), key=lambda rule: len(rule.conditions))
    pair = (_sources(first.conditions - rival.conditions), _sources(rival.conditions - first.conditions))
    # The credential first, because the order of the rules is arbitrary.
    one, other = sorted(pair, key=lambda words: (words.startswith(_TENANT), words))
    if not one or not other:
        return "the request names two agents that only their paths tell apart, and gRPC has no paths"
    if one == other:
        return f"the request names two agents, both by {one}"
    return f"the request names two agents, one by {one} and one by {other}"


def _sources(conditions: Iterable[Condition]) -> str:
    """Return the sources of conditions in words: the key, claims and tenant of a caller."""
    kinds = {condition[0] for condition in conditions}
    claims = sorted({f"the claim {str(condition[1])!r}" for condition in conditions if condition[0] == "claim"})
    sources = [_KEY] * ("key" in kinds) + claims + [_TENANT] * ("tenant" in kinds)
    return " and ".join(sources)


_KEY = "its API key"
_TENANT = "its tenant"
