"""Where calls over gRPC go: there are no paths, and the listener sees no host, so there is one endpoint for all calls.

A match of the file without host and path asks for the same over gRPC. One that has either loses it, and asks for
something in its place: for its `tenant` where it has one, else for the agent's own name in that field. A match with a
credential and no tenant holds with the credential alone, too, where no tenant is named: at its path the credential
picks the agent, and a tenant that is another agent's name stands for another path. So the endpoint has rules as any
other has, and they are resolved in the same way. An agent that takes tenants of its own (`by_tenant`, `require_tenant`,
`upstream_tenant`) has the credential whatever tenant is named; `check` warns of it.

Two matches that differ only in host or path ask for the same now. A `tenant` that the file writes goes before a name:
the name is nobody's then. Of two agents that the file itself gives the same tenant or credential, neither is reached by
it: they contend, and nothing is forwarded. The tenants of a `by_tenant` agent count as written where it is found. An
agent that has tenants of its own (`by_tenant`, `require_tenant`) needs the field for them, so no name stands for its
host or path. Order in the file never matters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from gateway.routing.endpoint import Condition, Endpoint
from gateway.routing.route import AgentRules, GrpcAddress, Place, Rule

_Conditions = frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why clients of gRPC cannot reach what a rule of the file matches.

    Attributes:
        why: A clause about the agent, which it calls `it`.
        rival: The rule of the file, of another agent, that is in the way; None where there is none.
    """

    why: str
    rival: Rule | None = None

    def __str__(self) -> str:
        return self.why if self.rival is None else f"{self.why} ({self.rival.place})"


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a rule of the file asks for over gRPC, and that rule."""

    rule: Rule
    written: Rule


class GrpcRules:
    """The routing rules of the file, as they apply over gRPC.

    Args:
        endpoint: Where all calls arrive; None where no rule can be reached.
        written: The rule of the file that each rule of the endpoint stands for.
        addresses: How each rule of the file is reached, or why it is not.
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
        """Work out what the rules of every agent ask for over gRPC."""
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
        """How clients reach what a rule matches, or None; see `Table.grpc_address`."""
        address = self._addresses.get(self.written(rule))
        return address if isinstance(address, GrpcAddress) else None

    def obstacle(self, rule: Rule) -> Obstacle | None:
        """Why clients cannot reach what a rule of the file matches; None where they can."""
        address = self._addresses.get(rule)
        return address if isinstance(address, Obstacle) else None

    def written(self, rule: Rule) -> Rule:
        """The rule of the file that a rule of the endpoint stands for; any other rule itself."""
        return self._written.get(rule, rule)

    def rules(self) -> Sequence[Rule]:
        """The rules of the endpoint."""
        return () if self.endpoint is None else tuple(self.endpoint.rules)

    def unreached(self) -> Iterator[tuple[Rule, Obstacle]]:
        """The rules of the file that no rule of the endpoint stands for, but for those that say what others do."""
        standing = set(self._written.values())
        for rule, address in self._addresses.items():
            if isinstance(address, Obstacle) and rule not in standing:
                yield rule, address


# ---- what a rule asks for ------------------------------------------------------------------------------------------


def _claims(rule: Rule, agent: AgentRules) -> Iterator[_Claim]:
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
    """Yield the rules of `by_tenant` agents with a tenant, for agents that everything else finds."""
    for condition in conditions:
        if condition[0] != "tenant":
            continue
        for claim in by_conditions.get(conditions - {condition}, ()):
            if agents[claim.rule.agent].by_tenant and condition[1] in agents[claim.rule.agent].routes:
                yield _Claim(replace(claim.rule, conditions=conditions), claim.written)


# ---- who gets what several ask for ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settled:
    """The agents that are found by the same conditions.

    Attributes:
        kept: What is found there: of one agent, or of several, which then contend.
        wanted: What of these is there by the file's own words.
    """

    kept: tuple[_Claim, ...]
    wanted: tuple[_Claim, ...]

    @classmethod
    def of(cls, found: Sequence[_Claim], by_tenant: Iterator[_Claim]) -> Self:
        explicit = _one_each([claim for claim in found if not claim.rule.addressed])
        own = _one_each([claim for claim in by_tenant if claim.rule.agent not in explicit])
        wanted = (*explicit.values(), *own.values())
        if not wanted:
            # A name is one agent's.
            return cls(tuple(_one_each(found).values()), ())
        # What only a `by_tenant` agent asks for is its own anyway.
        return cls(wanted if explicit else (), wanted)

    @property
    def owner(self) -> str | None:
        """The one agent that is reached there, or None."""
        return self.kept[0].rule.agent if len(self.kept) == 1 else None

    def rival(self, agent: str) -> Rule | None:
        """The rule of another agent that is in the way of one."""
        return next((claim.written for claim in self.wanted if claim.rule.agent != agent), None)


def _one_each(claims: Sequence[_Claim]) -> dict[str, _Claim]:
    """One claim of each agent: that which stands first, wherever the file has the others."""
    found: dict[str, _Claim] = {}
    for claim in sorted(claims, key=lambda claim: _order(claim.rule.place)):
        found.setdefault(claim.rule.agent, claim)
    return found


def _order(place: Place) -> tuple[str, int, int]:
    return place.file, place.line, place.column


def _address(rule: Rule, claims: Sequence[_Claim], settled: Mapping[_Conditions, _Settled]) -> GrpcAddress | Obstacle:
    for claim in claims:
        if settled[claim.rule.conditions].owner == rule.agent:
            return GrpcAddress(claim.rule.tenant)
    lost = "path" if rule.host is None else "host and path" if rule.path else "host"
    if not claims:
        stands = f"the `tenant` that could stand for a {lost}"
        return Obstacle(f"only its {lost} picks it, and {stands} is for tenants of its own")
    asked = claims[-1].rule
    rival = settled[asked.conditions].rival(rule.agent)
    assert rival is not None
    if asked.addressed:
        why = f"its name {rule.agent!r}, which would stand for its {lost}, is a tenant of {rival.agent!r}"
    elif rival.conditions == rule.conditions:
        why = f"it differs from {rival.agent!r} in its {lost} alone"
    else:
        why = f"its tenant {rule.tenant!r} is one of {rival.agent!r} too"
    return Obstacle(why, rival)
