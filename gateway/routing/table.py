"""The routing table: immutable, built once per configuration, the one resolver for traffic, `route` and `tests:`.

The host (exact, then the longest `*.suffix`, then none) and the longest path pick an endpoint. The other keys of a rule
are its *conditions*; it holds if all of them hold. Of several rules that hold, the one whose conditions include those
of all others wins. Without such a rule two sources of identity name two agents, and the call is refused. The order in
the file never matters.

gRPC has no paths, and its listener sees no host. So all calls have one endpoint, with the same resolution. A match
without host and path has the same conditions there. Any other match has these instead:

- its `tenant`; without one, the name of its agent as the tenant;
- with a credential and no tenant also the credential alone, for calls without a tenant;
- no name if its agent needs the field for its own tenants (`by_tenant`, `require_tenant`). The credential of an agent
  with its own tenants (also `upstream_tenant`) is enough with any tenant; `check` warns of it.

So matches that differ only in host or path have the same conditions. A `tenant` in the file takes precedence over an
equal name, which then reaches no agent. Two agents with the same tenant or credential in the file conflict, and calls
to both are refused. The tenants of a `by_tenant` agent count as tenants in the file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Self

from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    Fault,
    HiddenConflict,
    InsufficientScope,
    NoEndpoint,
    NoHealthyBackend,
    NoRoute,
    NotAdmitted,
    RouteConflict,
    TenantDenied,
    TenantDeniedEndpoint,
)
from gateway.principal import Principal
from gateway.routing.endpoint import Condition, Endpoint, patterns, unmet
from gateway.routing.route import SKILL, AgentRules, GrpcAddress, Reach, Route, RoutingInput, Rule, Verdict

_Conditions = frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why clients of gRPC cannot reach the agent of a rule of the file.

    Attributes:
        why: A clause about the agent, which it calls `it`.
        rival: The conflicting rule of another agent in the file, or None.
    """

    why: str
    rival: Rule | None = None

    def __str__(self) -> str:
        return self.why if self.rival is None else f"{self.why} ({self.rival.place})"


@dataclass(frozen=True, slots=True)
class _Claim:
    """A rule as it applies over gRPC, and the rule of the file that it comes from."""

    rule: Rule
    written: Rule


class GrpcRules:
    """The routing rules of the file, as they apply over gRPC.

    Args:
        endpoint: The endpoint of all calls; None if no rule can be reached.
        written: The rule of the file for each rule of the endpoint.
        addresses: The address of each rule of the file, or why it has none.
    """

    def __init__(
        self,
        endpoint: Endpoint | None,
        written: Mapping[Rule, Rule],
        addresses: Mapping[Rule, GrpcAddress | Obstacle],
    ) -> None:
        self.endpoint = endpoint
        self._written = written
        self._addresses = addresses

    @classmethod
    def build(cls, agents: Mapping[str, AgentRules]) -> Self:
        """Compute the conditions of the rules of every agent over gRPC."""
        claims = {rule: tuple(_claims(rule, agent)) for agent in agents.values() for rule in agent.rules}
        by_conditions: dict[_Conditions, list[_Claim]] = {}
        for made in claims.values():
            for claim in made:
                by_conditions.setdefault(claim.rule.conditions, []).append(claim)
        settled = {
            conditions: _Settled.of(found, _by_tenant(conditions, by_conditions, agents))
            for conditions, found in by_conditions.items()
        }
        kept = [claim for one in settled.values() for claim in one.kept]
        endpoint = Endpoint.build(None, (), [claim.rule for claim in kept], agents, named=True) if kept else None
        addresses = {rule: _address(rule, made, settled) for rule, made in claims.items()}
        return cls(endpoint, {claim.rule: claim.written for claim in kept}, addresses)

    def address(self, rule: Rule) -> GrpcAddress | None:
        """Return the address by which clients reach the agent of a rule, or None if they cannot.

        The tenant is None if the credential alone decides, or no condition is needed. An agent that has tenants of its
        own (`by_tenant`, `require_tenant`) can then be given one of these.

        Args:
            rule: As HTTP has it, or as gRPC has it.
        """
        address = self._addresses.get(self.written(rule))
        return address if isinstance(address, GrpcAddress) else None

    def obstacle(self, rule: Rule) -> Obstacle | None:
        """Return why clients cannot reach the agent of a rule of the file; None if they can."""
        address = self._addresses.get(rule)
        return address if isinstance(address, Obstacle) else None

    def written(self, rule: Rule) -> Rule:
        """Return the rule of the file for a rule of the endpoint; any other rule unchanged."""
        return self._written.get(rule, rule)

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the endpoint."""
        return () if self.endpoint is None else self.endpoint.rules

    def unreached(self) -> Iterator[tuple[Rule, Obstacle]]:
        """Yield the rules of the file without a rule at the endpoint, except those that repeat another one."""
        reached = set(self._written.values())
        for rule, address in self._addresses.items():
            if isinstance(address, Obstacle) and rule not in reached:
                yield rule, address


# ---- what a rule asks for ------------------------------------------------------------------------------------------


def _claims(rule: Rule, agent: AgentRules) -> Iterator[_Claim]:
    if rule.by_skill:
        # A call over gRPC names no skill, so without its path the rule would match any call.
        return
    if not rule.path and rule.host is None:
        yield _Claim(rule, rule)
        return
    bare = replace(rule, host=None, path=())
    is_named = rule.tenant is None and not agent.by_tenant and not agent.require_tenant
    if rule.conditions:
        yield _Claim(replace(bare, untenanted=is_named and not agent.tenanted), rule)
    if is_named:
        named = rule.conditions | {("tenant", rule.agent)}
        yield _Claim(replace(bare, conditions=named, addressed=True), rule)


def _by_tenant(
    conditions: _Conditions, by_conditions: Mapping[_Conditions, Sequence[_Claim]], agents: Mapping[str, AgentRules]
) -> Iterator[_Claim]:
    """Yield the rules of `by_tenant` agents with a tenant, for agents that match all other conditions."""
    for condition in conditions:
        if condition[0] != "tenant":
            continue
        for claim in by_conditions.get(conditions - {condition}, ()):
            if agents[claim.rule.agent].by_tenant and condition[1] in agents[claim.rule.agent].routes:
                yield _Claim(replace(claim.rule, conditions=conditions), claim.written)


# ---- precedence among several rules ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settled:
    """The agents that are found by the same conditions.

    Attributes:
        kept: The claims there: of one agent, or of several, which then conflict.
        wanted: Those of the claims that the file writes.
    """

    kept: tuple[_Claim, ...]
    wanted: tuple[_Claim, ...]

    @classmethod
    def of(cls, claims: Sequence[_Claim], by_tenant: Iterator[_Claim]) -> Self:
        explicit = _one_each([claim for claim in claims if not claim.rule.addressed])
        own = _one_each([claim for claim in by_tenant if claim.rule.agent not in explicit])
        wanted = (*explicit.values(), *own.values())
        if not wanted:
            # A name is one agent's.
            return cls(tuple(_one_each(claims).values()), ())
        # A claim that only a `by_tenant` agent makes has no rival.
        return cls(wanted if explicit else (), wanted)

    @property
    def owner(self) -> str | None:
        """Return the one agent that is reached there, or None."""
        return self.kept[0].rule.agent if len(self.kept) == 1 else None

    def rival(self, agent: str) -> Rule | None:
        """Return the rule of another agent that conflicts with an agent, or None."""
        return next((claim.written for claim in self.wanted if claim.rule.agent != agent), None)


def _one_each(claims: Sequence[_Claim]) -> dict[str, _Claim]:
    """Return one claim of each agent: the first one in the file."""
    by_agent: dict[str, _Claim] = {}
    for claim in sorted(claims, key=attrgetter("rule.place.file", "rule.place.line", "rule.place.column")):
        by_agent.setdefault(claim.rule.agent, claim)
    return by_agent


def _address(rule: Rule, claims: Sequence[_Claim], settled: Mapping[_Conditions, _Settled]) -> GrpcAddress | Obstacle:
    for claim in claims:
        if settled[claim.rule.conditions].owner == rule.agent:
            return GrpcAddress(claim.rule.tenant)
    lost = "path" if rule.host is None else "host and path" if rule.path else "host"
    if rule.by_skill:
        return Obstacle("a skill picks it, and calls over gRPC cannot name one")
    if not claims:
        stands = f"the `tenant` that could stand for a {lost}"
        return Obstacle(f"only its {lost} picks it, and {stands} is for tenants of its own")
    last = claims[-1].rule
    rival = settled[last.conditions].rival(rule.agent)
    assert rival is not None
    if last.addressed:
        why = f"its name {rule.agent!r}, which would stand for its {lost}, is a tenant of {rival.agent!r}"
    elif rival.conditions == rule.conditions:
        why = f"it differs from {rival.agent!r} in its {lost} alone"
    else:
        why = f"its tenant {rule.tenant!r} is one of {rival.agent!r} too"
    return Obstacle(why, rival)


# ---- The table -------------------------------------------------------------------------------------------------------


class Table:
    """The routing table: resolves a request to an agent.

    Attributes:
        guarded: Whether callers can authenticate. Then a stranger, or an anonymous caller, is asked for a credential at
            every path that it cannot use, existing or not.
        grpc: Whether there are clients of gRPC.
        grpc_endpoint: The endpoint of all calls over gRPC; None if no agent is reached over it.
        grpc_address, written, unreached: As the methods of `GrpcRules`.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentRules],
        reach: Mapping[str, Reach],
        by_host: Mapping[str | None, "_Paths"],
        grpc: GrpcRules | None,
        *,
        guarded: bool,
    ) -> None:
        self.agents = agents
        self.reach = reach
        self.guarded = guarded
        self._by_host = by_host
        self._any_host = by_host.get(None)
        self._hosts = any(host is not None for host in by_host)
        self.grpc = grpc is not None
        self._grpc = GrpcRules(None, {}, {}) if grpc is None else grpc
        self.grpc_endpoint = self._grpc.endpoint
        self.grpc_address, self.written, self.unreached = self._grpc.address, self._grpc.written, self._grpc.unreached

    @classmethod
    def build(
        cls,
        rules: Iterable[AgentRules],
        reach: Mapping[str, Reach],
        *,
        guarded: bool = False,
        grpc: bool = False,
    ) -> "Table":
        """Compile the rules of every agent; the configuration has been checked before.

        Args:
            grpc: Whether there are clients of gRPC.
        """
        agents = {agent.name: agent for agent in rules}
        filed: dict[str | None, dict[tuple[str, ...], list[Rule]]] = {}
        for agent in agents.values():
            for rule in agent.rules:
                filed.setdefault(rule.host, {}).setdefault(rule.path, []).append(rule)
        return cls(
            agents,
            reach,
            {
                host: _Paths({path: Endpoint.build(host, path, found, agents) for path, found in paths.items()})
                for host, paths in filed.items()
            },
            GrpcRules.build(agents) if grpc else None,
            guarded=guarded,
        )

    def locate(self, host: str, path: tuple[str, ...]) -> Endpoint | None:
        """Return the endpoint at a lower-case host and at the longest prefix of `path`, or None."""
        if self._hosts and host:
            for pattern in patterns(host):
                paths = self._by_host.get(pattern)
                if paths is not None and (endpoint := paths.longest(path)) is not None:
                    return endpoint
        return None if self._any_host is None else self._any_host.longest(path)

    def rules(self, *, grpc: bool = False) -> Sequence[Rule]:
        """Return every rule of every agent; over gRPC, those of its endpoint."""
        if grpc:
            return self._grpc.rules()
        return [rule for agent in self.agents.values() for rule in agent.rules]

    def admitted(self, principal: Principal) -> Reach | None:
        """Return the access list of the principal's tenant, or None for a tenant that is not admitted."""
        reach = self.reach.get(principal.tenant)
        if reach is None and principal.method != "anonymous":
            reach = self.reach.get("*")
        return reach

    def may_call(self, principal: Principal, agent: str) -> bool:
        """Return whether the principal may call the agent, by its tenant, its own key and what the agent requires."""
        reach = self.admitted(principal)
        return reach is not None and _reaches(reach, principal, agent) and self._suffices(principal, agent)

    def may_reach(self, principal: Principal, agent: str, tenant: str | None, *, claims_known: bool = True) -> bool:
        """Return whether the principal may call a backend: an agent's only one (None), or that of a tenant.

        Args:
            claims_known: False if the claims of the caller were not stored: then the requirements of the agent are not
                checked.
        """
        rules, reach = self.agents.get(agent), self.admitted(principal)
        if rules is None or tenant not in rules.routes or reach is None or not _reaches(reach, principal, agent):
            return False
        if claims_known and not self._suffices(principal, agent):
            return False
        return tenant is None or tenant == principal.tenant or reach.act_for is None or tenant in reach.act_for

    def _suffices(self, principal: Principal, agent: str) -> bool:
        """Return whether the principal has the scopes, roles and claims that the agent requires."""
        requirement = self.agents[agent].requirement
        return requirement is None or not requirement.lacking(principal)

    def skill_route(
        self, endpoint: Endpoint, request: RoutingInput, agent: str, skill: str, *, card: bool = False
    ) -> Route | None:
        """Return the backend by which an agent answers a request for a skill; None where the caller may not reach it.

        Args:
            card: The request reads a card: strangers read those of the agents that the catalog shows to anyone.
        """
        rules = self.agents.get(agent)
        rule = next((each for each in endpoint.by_agent.get(agent, ()) if _is_for(each, request, skill)), None)
        if rules is None or rule is None:
            return None
        principal = request.principal
        reach = None if principal is None else self.admitted(principal)
        if principal is None or reach is None or not _reaches(reach, principal, agent):
            is_open = card and rules.listed and (principal is None or principal.method == "anonymous")
            return next(iter(rules.routes.values())) if is_open else None
        if not self._suffices(principal, agent) or self._names_nobody(endpoint, rule, request.tenant):
            return None
        if card and not rules.by_tenant:
            return rules.routes[None]
        return self._backend(rules, rule, request, reach).route

    def turns_away(self, endpoint: Endpoint | None, principal: Principal | None) -> type[Fault] | None:
        """Return the refusal of a caller that may reach no agent at an endpoint; None where it may reach one."""
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

    def resolve(self, endpoint: Endpoint | None, request: RoutingInput) -> Verdict:
        """Return the verdict on a call, as the caller may know it."""
        return self.masked(self.decide(endpoint, request), request.principal)

    def resolve_card(self, endpoint: Endpoint | None, request: RoutingInput) -> Verdict:
        """Return the verdict on a GET of a card: a private card is for its callers, any other for anyone."""
        return self.masked(self.decide_card(endpoint, request), request.principal)

    def masked(self, verdict: Verdict, principal: Principal | None) -> Verdict:
        """Return the verdict as the caller may know it: for a stranger all paths that are not public look the same."""
        if verdict.fault in (None, AuthMissing, BadParams) or not self._is_stranger(principal):
            return verdict
        return Verdict(None, AuthMissing, verdict.rule, contenders=verdict.contenders)

    def _is_stranger(self, principal: Principal | None) -> bool:
        return self.guarded and (principal is None or principal.method == "anonymous")

    def decide(self, endpoint: Endpoint | None, request: RoutingInput) -> Verdict:
        """Return the route of a call, with rules that the caller may not know: for operators."""
        principal = request.principal
        if principal is None:
            return Verdict(None, AuthMissing)
        reach = self.admitted(principal)
        if reach is None:
            return Verdict(None, NotAdmitted)
        if endpoint is None:
            return Verdict(None, NoEndpoint)
        winner, contenders = endpoint.select(request)
        if winner is None:
            refusal = self._refusal(endpoint, principal, reach, contenders, unavailable=request.unavailable)
            return Verdict(None, refusal, contenders=contenders)
        if not _reaches(reach, principal, winner.agent):
            here = self._knows_any(endpoint, principal, reach)
            return Verdict(None, TenantDenied if here else TenantDeniedEndpoint, winner)
        if not self._suffices(principal, winner.agent):
            return Verdict(None, InsufficientScope, winner)
        if self._names_nobody(endpoint, winner, request.tenant):
            return Verdict(None, NoRoute, winner)
        return self._backend(self.agents[winner.agent], winner, request, reach)

    def decide_card(self, endpoint: Endpoint | None, request: RoutingInput) -> Verdict:
        """Return the route of a GET of a card, as `decide`."""
        if endpoint is None:
            return Verdict(None, NoEndpoint)
        winner, contenders = endpoint.select(request)
        if winner is None and not contenders and self._is_stranger(request.principal):
            rules = self._behind_credential(endpoint, request.tenant)
            if len({rule.agent for rule in rules}) > 1:
                return Verdict(None, contenders=rules)
            winner = rules[0] if rules else None
        return Verdict(None, NoEndpoint) if winner is None else self._card_of(endpoint, winner, request)

    def _card_of(self, endpoint: Endpoint, winner: Rule, request: RoutingInput) -> Verdict:
        agent = self.agents[winner.agent]
        principal = request.principal
        reach = None if principal is None else self.admitted(principal)
        known = principal is not None and reach is not None and _reaches(reach, principal, winner.agent)
        callable_ = known and principal is not None and self._suffices(principal, winner.agent)
        denied = InsufficientScope if known else TenantDeniedEndpoint
        if not agent.public and not callable_:
            return Verdict(None, denied, winner)
        if self._names_nobody(endpoint, winner, request.tenant):
            return Verdict(None, NoEndpoint, winner)
        if not agent.by_tenant:
            return Verdict(agent.routes[None], None, winner)
        if request.tenant is None and not callable_:
            # An unknown caller sees the product, not a customer: the card of any backend, without a tenant.
            return Verdict(next(iter(agent.routes.values())), None, winner)
        if not callable_ or principal is None or reach is None:
            return Verdict(None, denied, winner)
        named = self._backend(agent, winner, request, reach)
        if named.route is None and request.tenant is None:
            return Verdict(next(iter(agent.routes.values())), None, winner)
        return Verdict(None, NoEndpoint, winner) if named.route is None else named

    def _behind_credential(self, endpoint: Endpoint, tenant: str | None) -> tuple[Rule, ...]:
        """Rules of public agents that a credential would pick at an endpoint, for a stranger who may name a tenant.

        Private agents are left out, so that they look like missing ones.
        """
        rules = endpoint.behind_credential.get(None, ())
        if tenant is not None:
            named = endpoint.behind_credential.get(tenant, ())
            rules = (*named, *(rule for rule in rules if not self._names_nobody(endpoint, rule, tenant)))
        return rules

    def _refusal(
        self, endpoint: Endpoint, principal: Principal, reach: Reach, contenders: tuple[Rule, ...], *, unavailable: bool
    ) -> type[Fault]:
        if contenders and all(_reaches(reach, principal, rule.agent) for rule in contenders):
            return RouteConflict
        if unavailable:
            return NoHealthyBackend
        if not self._knows_any(endpoint, principal, reach):
            return NoEndpoint
        return HiddenConflict if contenders else NoRoute

    def _knows_any(self, endpoint: Endpoint, principal: Principal, reach: Reach) -> bool:
        if principal.narrowed is None:
            return not endpoint.agents.isdisjoint(reach.agents)
        return any(agent in reach.agents for agent in endpoint.agents & principal.narrowed)

    def _names_nobody(self, endpoint: Endpoint, winner: Rule, tenant: str | None) -> bool:
        """Return whether a credential alone has picked the winner, and the request names another tenant.

        Only where tenants pick agents. An agent without tenant or credential match is the fallback, except for names
        that stand for paths. An agent that has tenants of its own accepts any name.
        """
        if tenant is None or not endpoint.tenants or ("tenant", tenant) in winner.conditions:
            return False
        is_fine = tenant == winner.agent if endpoint.named else not winner.conditions
        if is_fine:
            return False
        agent = self.agents[winner.agent]
        if agent.by_tenant or agent.tenanted or agent.require_tenant:
            return False
        named = endpoint.by_condition.get(("tenant", tenant), ())
        return all(rule.agent != winner.agent for rule in named)

    def _backend(self, agent: AgentRules, rule: Rule, request: RoutingInput, reach: Reach) -> Verdict:
        if agent.require_tenant and request.tenant is None:
            return Verdict(None, BadParams, rule)
        if not agent.by_tenant:
            return Verdict(agent.routes[None], None, rule)
        own = request.principal.tenant if request.principal is not None else None
        tenant = own if request.tenant is None else request.tenant
        # A caller may name its own tenant, or one that it may act for; any other looks like a missing one.
        permitted = tenant == own or reach.act_for is None or tenant in reach.act_for
        route = agent.routes.get(tenant) if permitted else None
        return Verdict(None, NoRoute, rule) if route is None else Verdict(route, None, rule)


class _Paths:
    """The endpoints of one host, by path."""

    def __init__(self, by_path: Mapping[tuple[str, ...], Endpoint]) -> None:
        self._by_path = by_path
        self._skilled = any(path[-1:] == (SKILL,) for path in by_path)
        self._longest = max(map(len, by_path), default=0)

    def longest(self, path: tuple[str, ...]) -> Endpoint | None:
        for length in range(min(len(path), self._longest), -1, -1):
            endpoint = self._by_path.get(path[:length])
            if endpoint is None and self._skilled and length:
                endpoint = self._by_path.get((*path[: length - 1], SKILL))
            if endpoint is not None:
                return endpoint
        return None


def _reaches(reach: Reach, principal: Principal, agent: str) -> bool:
    return agent in reach.agents and (principal.narrowed is None or agent in principal.narrowed)


def _is_for(rule: Rule, request: RoutingInput, skill: str) -> bool:
    """Return whether a rule asks for a skill, and its other conditions hold."""
    skills = [condition[1] for condition in rule.conditions if condition[0] == "skill"]
    named = {request.skill if each is None else each for each in skills}
    return named == {skill} and unmet(rule, request, skills=False) is None


def path_segments(path: str) -> tuple[str, ...]:
    """Return the segments of a configured path; a trailing slash does not count."""
    return tuple(segment for segment in path.split("/") if segment)
