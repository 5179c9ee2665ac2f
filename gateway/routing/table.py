"""The routing table: immutable, built once per configuration, the one resolver for traffic, `route` and `tests:`.

Theory. Host (exact, then the longest `*.suffix`, then none) and the longest path pick an endpoint. The rules found
there differ in their other keys, the *conditions*. A rule is satisfied when all its conditions hold. Of several
satisfied rules the one whose conditions include all the others' wins; where none does, two sources of identity point
at two agents, and nothing is forwarded. Order in the file never matters.

Look-ups cost the same with ten agents or ten thousand: endpoints are found by dictionary, and the rules of an endpoint
are filed under one of their conditions (tenant, else key, else claim), so that only rules which may hold are looked at.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    Fault,
    HiddenConflict,
    NoEndpoint,
    NoRoute,
    NotAdmitted,
    RouteConflict,
    TenantDenied,
    TenantDeniedEndpoint,
)
from gateway.principal import Principal
from gateway.routing.route import AgentRules, Candidate, Knock, Reach, Route, Rule, Verdict

Condition = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a path where clients knock, with the rules found there.

    Attributes:
        tenants: Values that the A2A `tenant` may take here, as far as the table knows them.
        tenanted: Whether a path segment behind the endpoint is read as a tenant.
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

    def possible(self, knock: Knock) -> Iterator[Rule]:
        """The rules filed under what the knock shows; a superset of those that hold."""
        yield from self.unconditional
        if knock.tenant is not None:
            yield from self.by_condition.get(("tenant", knock.tenant), ())
        principal = knock.principal
        if principal is None:
            return
        if principal.key is not None:
            yield from self.by_condition.get(("key", principal.key), ())
        for name in self.claim_names:
            for value in claim_values(principal, name):
                yield from self.by_condition.get(("claim", name, value), ())


class Table:
    """Where every request goes.

    Attributes:
        guarded: Whether callers can prove who they are. Then a stranger, anonymous callers among them, is asked for a
            credential wherever it gets nothing, whether there is something or not.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentRules],
        reach: Mapping[str, Reach],
        by_host: Mapping[str | None, "_Paths"],
        *,
        guarded: bool,
    ) -> None:
        self.agents = agents
        self.reach = reach
        self.guarded = guarded
        self._by_host = by_host
        self._any_host = by_host.get(None)
        self._hosts = any(host is not None for host in by_host)

    @classmethod
    def build(cls, rules: Iterable[AgentRules], reach: Mapping[str, Reach], *, guarded: bool = False) -> "Table":
        """Compile the rules of every agent; the configuration has been checked before."""
        agents = {agent.name: agent for agent in rules}
        filed: dict[str | None, dict[tuple[str, ...], list[Rule]]] = {}
        for agent in agents.values():
            for rule in agent.rules:
                filed.setdefault(rule.host, {}).setdefault(rule.path, []).append(rule)
        return cls(
            agents,
            reach,
            {
                host: _Paths({path: _endpoint(host, path, found, agents) for path, found in paths.items()})
                for host, paths in filed.items()
            },
            guarded=guarded,
        )

    def locate(self, host: str, path: tuple[str, ...]) -> Endpoint | None:
        """The endpoint at a lower-case host and at the longest prefix of `path`, or None."""
        if self._hosts and host:
            for pattern in _patterns(host):
                paths = self._by_host.get(pattern)
                if paths is not None and (endpoint := paths.longest(path)) is not None:
                    return endpoint
        return None if self._any_host is None else self._any_host.longest(path)

    def admitted(self, principal: Principal) -> Reach | None:
        """What the principal's tenant may call, or None for a tenant that is not admitted at all."""
        found = self.reach.get(principal.tenant)
        if found is None and principal.method != "anonymous":
            found = self.reach.get("*")
        return found

    def may_call(self, principal: Principal, agent: str) -> bool:
        """Whether the principal may call the agent, by its tenant and by its own key."""
        reach = self.admitted(principal)
        return reach is not None and _reaches(reach, principal, agent)

    def turns_away(self, endpoint: Endpoint | None, principal: Principal | None) -> type[Fault] | None:
        """Why a caller gets nothing at an endpoint whatever it asks there; None where it may reach some agent."""
        if principal is None:
            return AuthMissing
        reach = self.admitted(principal)
        if reach is not None and endpoint is not None and self._knows_any(endpoint, principal, reach):
            return None
        if self._is_stranger(principal):
            return AuthMissing
        if reach is None:
            return NotAdmitted
        return NoEndpoint if endpoint is None else TenantDeniedEndpoint

    def resolve(self, endpoint: Endpoint | None, knock: Knock) -> Verdict:
        """Whose agent answers a call; no rule is explained."""
        return self._told(self._resolve(endpoint, knock), knock.principal)

    def resolve_card(self, endpoint: Endpoint | None, knock: Knock) -> Verdict:
        """Whose card a GET reads: public cards are anyone's, a private one is for those who may call the agent."""
        return self._told(self._resolve_card(endpoint, knock), knock.principal)

    def _told(self, verdict: Verdict, principal: Principal | None) -> Verdict:
        """The verdict as the caller may know it: to a stranger every path that is not public looks the same."""
        if verdict.fault in (None, AuthMissing, BadParams) or not self._is_stranger(principal):
            return verdict
        return Verdict(None, AuthMissing, verdict.rule, contenders=verdict.contenders)

    def _is_stranger(self, principal: Principal | None) -> bool:
        return self.guarded and (principal is None or principal.method == "anonymous")

    def _resolve(self, endpoint: Endpoint | None, knock: Knock) -> Verdict:
        principal = knock.principal
        if principal is None:
            return Verdict(None, AuthMissing)
        reach = self.admitted(principal)
        if reach is None:
            return Verdict(None, NotAdmitted)
        if endpoint is None:
            return Verdict(None, NoEndpoint)
        winner, contenders = _select(endpoint, knock)
        if winner is None:
            refusal = self._refusal(endpoint, principal, reach, contenders)
            return Verdict(None, refusal, contenders=contenders)
        if not _reaches(reach, principal, winner.agent):
            here = self._knows_any(endpoint, principal, reach)
            return Verdict(None, TenantDenied if here else TenantDeniedEndpoint, winner)
        if self._names_nobody(endpoint, winner, knock.tenant):
            return Verdict(None, NoRoute, winner)
        return self._backend(self.agents[winner.agent], winner, knock, reach)

    def _resolve_card(self, endpoint: Endpoint | None, knock: Knock) -> Verdict:
        if endpoint is None:
            return Verdict(None, NoEndpoint)
        winner, _ = _select(endpoint, knock)
        if winner is None:
            return Verdict(None, NoEndpoint)
        agent = self.agents[winner.agent]
        principal = knock.principal
        reach = None if principal is None else self.admitted(principal)
        callable_ = principal is not None and reach is not None and _reaches(reach, principal, winner.agent)
        if not agent.public and not callable_:
            return Verdict(None, TenantDeniedEndpoint, winner)
        if self._names_nobody(endpoint, winner, knock.tenant):
            return Verdict(None, NoEndpoint, winner)
        if not agent.by_tenant:
            return Verdict(agent.routes[None], None, winner)
        if knock.tenant is None and not callable_:
            # An unknown caller sees the product, not a customer: any backend's card, shown without a tenant.
            return Verdict(next(iter(agent.routes.values())), None, winner)
        if not callable_ or principal is None or reach is None:
            return Verdict(None, TenantDeniedEndpoint, winner)
        named = self._backend(agent, winner, knock, reach)
        if named.route is None and knock.tenant is None:
            return Verdict(next(iter(agent.routes.values())), None, winner)
        return Verdict(None, NoEndpoint, winner) if named.route is None else named

    def explain(
        self, endpoint: Endpoint | None, knock: Knock, *, everything: bool = False, card: bool = False
    ) -> Verdict:
        """As `resolve`, with why each rule was or was not taken.

        Args:
            everything: Every rule of every agent, not only those of the endpoint.
            card: The request reads a card.
        """
        # Rules are explained by what is the case, whatever a caller may know of it: only operators ask.
        verdict = self._resolve_card(endpoint, knock) if card else self._resolve(endpoint, knock)
        if everything:
            rules = [rule for agent in self.agents.values() for rule in agent.rules]
        else:
            rules = [] if endpoint is None else list(endpoint.rules)
        candidates = tuple(self._explained(rule, endpoint, knock, verdict) for rule in rules)
        told = self._told(verdict, knock.principal)
        return Verdict(told.route, told.fault, told.rule, candidates)

    def _refusal(
        self, endpoint: Endpoint, principal: Principal, reach: Reach, contenders: tuple[Rule, ...]
    ) -> type[Fault]:
        if contenders and all(_reaches(reach, principal, rule.agent) for rule in contenders):
            return RouteConflict
        if not self._knows_any(endpoint, principal, reach):
            return NoEndpoint
        return HiddenConflict if contenders else NoRoute

    def _knows_any(self, endpoint: Endpoint, principal: Principal, reach: Reach) -> bool:
        return any(_reaches(reach, principal, agent) for agent in endpoint.agents & reach.agents)

    def _names_nobody(self, endpoint: Endpoint, winner: Rule, tenant: str | None) -> bool:
        """Whether a credential alone has picked the winner, and the request names a tenant that does not agree.

        Only where tenants pick agents. An agent that is picked by neither answers for the rest, and one that has a use
        for tenants of its own takes any.
        """
        if tenant is None or not endpoint.tenants or not winner.conditions or ("tenant", tenant) in winner.conditions:
            return False
        agent = self.agents[winner.agent]
        if agent.by_tenant or agent.tenanted or agent.require_tenant:
            return False
        named = endpoint.by_condition.get(("tenant", tenant), ())
        return all(rule.agent != winner.agent for rule in named)

    def _backend(self, agent: AgentRules, rule: Rule, knock: Knock, reach: Reach) -> Verdict:
        if agent.require_tenant and knock.tenant is None:
            return Verdict(None, BadParams, rule)
        if not agent.by_tenant:
            return Verdict(agent.routes[None], None, rule)
        own = knock.principal.tenant if knock.principal is not None else None
        tenant = own if knock.tenant is None else knock.tenant
        # A caller names its own tenant, or one it may act for; anything else looks like what does not exist.
        permitted = tenant == own or reach.act_for is None or tenant in reach.act_for
        route = agent.routes.get(tenant) if permitted else None
        return Verdict(None, NoRoute, rule) if route is None else Verdict(route, None, rule)

    def _explained(self, rule: Rule, endpoint: Endpoint | None, knock: Knock, verdict: Verdict) -> Candidate:
        if endpoint is None or (rule.host, rule.path) != (endpoint.host, endpoint.path):
            return Candidate(rule, taken=False, why=_elsewhere(rule, endpoint, knock))
        unmet = _unmet(rule, knock)
        if unmet is not None:
            return Candidate(rule, taken=False, why=unmet)
        if rule is verdict.rule:
            return Candidate(rule, taken=verdict.route is not None, why=self._won(verdict, knock))
        return Candidate(rule, taken=False, why=_lost(rule, endpoint, knock, verdict))

    def _won(self, verdict: Verdict, knock: Knock) -> str:
        principal = knock.principal
        if verdict.route is not None:
            return "all it asks for holds"
        who = "a stranger" if principal is None else repr(principal.tenant)
        if verdict.reason == "tenant_denied":
            reach = None if principal is None else self.admitted(principal)
            if principal is not None and verdict.rule is not None and reach and verdict.rule.agent in reach.agents:
                who = f"the key {principal.key!r}"
            return f"all it asks for holds, but {who} may not call it"
        if verdict.reason == "bad_request":
            return "all it asks for holds, but it requires a `tenant`"
        if verdict.rule is not None and not self.agents[verdict.rule.agent].by_tenant:
            return f"all it asks for holds, but the tenant {knock.tenant!r} does not pick it"
        return f"all it asks for holds, but it has no backend for the tenant that {who} may name here"


class _Paths:
    """The endpoints of one host, by path."""

    __slots__ = ("_by_path", "_longest")

    def __init__(self, by_path: Mapping[tuple[str, ...], Endpoint]) -> None:
        self._by_path = by_path
        self._longest = max(map(len, by_path), default=0)

    def longest(self, path: tuple[str, ...]) -> Endpoint | None:
        for length in range(min(len(path), self._longest), -1, -1):
            endpoint = self._by_path.get(path[:length])
            if endpoint is not None:
                return endpoint
        return None


def claim_values(principal: Principal, name: str) -> tuple[object, ...]:
    """The values that a verified claim offers to a match: itself, the members of a list, the words of `scope`."""
    value = principal.claims.get(name)
    if isinstance(value, list | tuple):
        return tuple(_typed(member) for member in value if isinstance(member, str | int))
    if isinstance(value, str) and name == "scope":
        return tuple(value.split())
    return (_typed(value),) if isinstance(value, str | int) else ()


def claim_condition(name: str, value: str | bool | int) -> Condition:  # noqa: FBT001 - a claim may be true or false
    """The condition that a claim has a value; `true` and `1` are not the same."""
    return ("claim", name, _typed(value))


def _typed(value: object) -> object:
    return ("bool", value) if isinstance(value, bool) else value


def _endpoint(host: str | None, path: tuple[str, ...], rules: list[Rule], agents: Mapping[str, AgentRules]) -> Endpoint:
    filed: dict[Condition, list[Rule]] = {}
    unconditional: list[Rule] = []
    for rule in rules:
        condition = _filed_under(rule)
        if condition is None:
            unconditional.append(rule)
        else:
            filed.setdefault(condition, []).append(rule)
    names = frozenset(rule.agent for rule in rules)
    tenants = {rule.tenant for rule in rules if rule.tenant is not None}
    for name in names:
        tenants.update(tenant for tenant in agents[name].routes if tenant is not None)
    claims = {str(condition[1]) for condition in filed if condition[0] == "claim"}
    return Endpoint(
        host=host,
        path=path,
        rules=tuple(rules),
        agents=names,
        tenants=frozenset(tenants),
        tenanted=bool(tenants) or any(agents[name].tenanted or agents[name].require_tenant for name in names),
        by_condition={condition: tuple(found) for condition, found in filed.items()},
        claim_names=tuple(sorted(claims)),
        unconditional=tuple(unconditional),
    )


def _filed_under(rule: Rule) -> Condition | None:
    """The one condition that a rule is filed under: the most telling one it has."""
    for kind in ("tenant", "key", "claim"):
        for condition in sorted(rule.conditions, key=repr):
            if condition[0] == kind:
                return condition
    return None


def _select(endpoint: Endpoint, knock: Knock) -> tuple[Rule | None, tuple[Rule, ...]]:
    """The rule that wins, or None with the rules that contend (none of them: no rule holds)."""
    satisfied = [rule for rule in endpoint.possible(knock) if _unmet(rule, knock) is None]
    if len(satisfied) == 1:
        return satisfied[0], ()
    if not satisfied:
        return None, ()
    top = max(satisfied, key=lambda rule: len(rule.conditions))
    contenders = tuple(rule for rule in satisfied if not rule.conditions <= top.conditions)
    if not contenders or all(rule.agent == top.agent for rule in contenders):
        return top, ()
    return None, (top, *contenders)


def _unmet(rule: Rule, knock: Knock) -> str | None:
    """Which condition does not hold, in words, or None where all do."""
    for condition in rule.conditions:
        kind = condition[0]
        if kind == "tenant":
            if knock.tenant != condition[1]:
                shown = "none" if knock.tenant is None else repr(knock.tenant)
                return f"asks for tenant {condition[1]!r}, the request has {shown}"
        elif kind == "key":
            shown_key = None if knock.principal is None else knock.principal.key
            if shown_key != condition[1]:
                return f"asks for the API key {condition[1]!r}"
        elif knock.principal is None or condition[2] not in claim_values(knock.principal, str(condition[1])):
            value = condition[2]
            return f"asks for the claim {condition[1]}={value[1] if isinstance(value, tuple) else value}"
    return None


def _elsewhere(rule: Rule, endpoint: Endpoint | None, knock: Knock) -> str:
    here = f"is at {_spelled(rule)}"
    if rule.host is not None and not knock.host:
        return f"{here}, and the request names no host"
    matched = rule.host is None or rule.host in _patterns(knock.host)
    if endpoint is None or not matched or rule.path != knock.path[: len(rule.path)]:
        return here
    better = "is a longer path" if rule.host == endpoint.host else "has a more exact host"
    return f"{here}, but {_spelled(endpoint)} {better}"


def _lost(rule: Rule, endpoint: Endpoint, knock: Knock, verdict: Verdict) -> str:
    """Why a rule of the endpoint that holds is not the one that won."""
    if verdict.fault is AuthMissing:
        return "holds, but a stranger may call nothing: it shows no credential"
    if verdict.fault is NotAdmitted and knock.principal is not None:
        return f"holds, but the tenant {knock.principal.tenant!r} is not admitted"
    holding = [other for other in endpoint.possible(knock) if other is not rule and _unmet(other, knock) is None]
    more = next((other for other in holding if rule.conditions < other.conditions), None)
    if more is not None:
        return f"holds, but {more.agent!r} asks for all of it and more"
    if verdict.rule is not None:
        return "holds, but another match of the same agent does too"
    others = ", ".join(sorted({repr(other.agent) for other in holding if not other.conditions < rule.conditions}))
    return f"holds, but so does what {others} asks for, and neither asks for all that the other does"


def _spelled(place: Rule | Endpoint) -> str:
    return f"{place.host or ''}/{'/'.join(place.path)}"


def _reaches(reach: Reach, principal: Principal, agent: str) -> bool:
    return agent in reach.agents and (principal.narrowed is None or agent in principal.narrowed)


def _patterns(host: str) -> Iterator[str]:
    """The host itself, then `*.suffix` from the longest suffix to the shortest."""
    yield host
    rest = host
    while "." in rest:
        rest = rest.split(".", 1)[1]
        yield "*." + rest


def path_segments(path: str) -> tuple[str, ...]:
    """Segments of a path as the file writes it; a trailing slash does not count."""
    return tuple(segment for segment in path.split("/") if segment)


__all__ = ["Endpoint", "Route", "Table", "claim_condition", "claim_values", "path_segments"]
