"""Where calls over gRPC go: it has no paths, so every host is one endpoint, and names of agents stand for paths.

Theory. A match of the file without a path asks for the same over gRPC. One with a path loses it, and asks for something
in its stead: for its `tenant` where it has one, else for the agent's own name in that field. A match with a credential
and no tenant holds with the credential alone, too, where no tenant is named: at its path the credential picks the
agent, and a tenant that is another agent's name stands for another path. So the endpoint of a host has rules as any
other has, and they are resolved in the same way. An agent that takes tenants of its own (`by_tenant`, `require_tenant`,
`upstream_tenant`) has the credential whatever tenant is named; `check` warns of it.

Two matches that differ in their path alone ask for the same now. A `tenant` that the file writes goes before a name
that stands for a path: the name is nobody's then. Of two agents that the file itself gives the same tenant or
credential, neither is reached by it: they contend, and nothing is forwarded. The tenants of a `by_tenant` agent count
as written where it is found. An agent that has tenants of its own (`by_tenant`, `require_tenant`) needs the field for
them, so no name stands for its paths. Order in the file never matters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from gateway.routing.endpoint import Condition, Endpoint, patterns
from gateway.routing.route import AgentRules, GrpcAddress, Place, Rule

_Spot = tuple[str | None, frozenset[Condition]]
"""A host, and what a rule asks for there."""


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

    @property
    def spot(self) -> _Spot:
        return self.rule.host, self.rule.conditions


class GrpcEndpoints:
    """The endpoints of gRPC, one for each host that the file names and one for all others.

    Args:
        endpoints: By host, exact or `*.suffix`; under None that of all others.
        written: The rule of the file that each rule of the endpoints stands for.
        addresses: How each rule of the file is reached, or why it is not.
    """

    def __init__(
        self,
        endpoints: Mapping[str | None, Endpoint],
        written: Mapping[Rule, Rule],
        addresses: Mapping[Rule, GrpcAddress | Obstacle],
    ) -> None:
        self._endpoints = endpoints
        self._written = written
        self._addresses = addresses
        self._any_host = endpoints.get(None)
        self._hosts = any(host is not None for host in endpoints)

    @classmethod
    def build(cls, agents: Mapping[str, AgentRules], host: str = "") -> Self:
        """Work out what the rules of every agent ask for over gRPC.

        Args:
            host: What clients name where a rule asks for no host, in lower case; empty where nobody knows.
        """
        claims = {rule: tuple(_claims(rule, agent)) for agent in agents.values() for rule in agent.rules}
        by_spot: dict[_Spot, list[_Claim]] = {}
        for made in claims.values():
            for claim in made:
                by_spot.setdefault(claim.spot, []).append(claim)
        settled = {spot: _Settled.of(found, _by_tenant(spot, by_spot, agents)) for spot, found in by_spot.items()}
        rules: dict[str | None, list[Rule]] = {}
        for (at, _), one in settled.items():
            rules.setdefault(at, []).extend(claim.rule for claim in one.kept)
        endpoints = {at: Endpoint.build(at, (), found, agents, named=True) for at, found in rules.items() if found}
        elsewhere = _located(endpoints, host) is not endpoints.get(None)
        addresses: dict[Rule, GrpcAddress | Obstacle] = {}
        for rule, made in claims.items():
            address = _address(rule, made, settled)
            if elsewhere and isinstance(address, GrpcAddress) and address.host is None:
                why = f"it asks for no host, and at {host!r}, which is what clients name, other agents are found"
                address = Obstacle(why)
            addresses[rule] = address
        written = {claim.rule: claim.written for one in settled.values() for claim in one.kept}
        return cls(endpoints, written, addresses)

    def locate(self, host: str) -> Endpoint | None:
        """The endpoint at a lower-case authority without its port: exact, then the longest `*.suffix`, then any."""
        return _located(self._endpoints, host) if self._hosts and host else self._any_host

    def address(self, rule: Rule, host: str = "") -> GrpcAddress | None:
        """How clients reach what a rule matches, or None; see `Table.grpc_address`."""
        address = self._addresses.get(self.written(rule))
        if not isinstance(address, GrpcAddress):
            return None
        if host and address.host is not None and address.host.startswith("*."):
            endpoint = self.locate(host)
            if endpoint is None or endpoint.host != address.host:
                return None
        return address

    def obstacle(self, rule: Rule) -> Obstacle | None:
        """Why clients cannot reach what a rule of the file matches; None where they can."""
        address = self._addresses.get(rule)
        return address if isinstance(address, Obstacle) else None

    def written(self, rule: Rule) -> Rule:
        """The rule of the file that a rule of an endpoint stands for; any other rule itself."""
        return self._written.get(rule, rule)

    def rules(self) -> Iterator[Rule]:
        """The rules of all endpoints."""
        for endpoint in self._endpoints.values():
            yield from endpoint.rules

    def unreached(self) -> Iterator[tuple[Rule, Obstacle]]:
        """The rules of the file that no rule of an endpoint stands for, but for those that say what others do."""
        standing = set(self._written.values())
        for rule, address in self._addresses.items():
            if isinstance(address, Obstacle) and rule not in standing:
                yield rule, address


def _located(endpoints: Mapping[str | None, Endpoint], host: str) -> Endpoint | None:
    for pattern in patterns(host):
        endpoint = endpoints.get(pattern)
        if endpoint is not None:
            return endpoint
    return endpoints.get(None)


# ---- what a rule asks for ------------------------------------------------------------------------------------------


def _claims(rule: Rule, agent: AgentRules) -> Iterator[_Claim]:
    if not rule.path:
        yield _Claim(rule, rule)
        return
    is_named = rule.tenant is None and not agent.by_tenant and not agent.require_tenant
    if rule.conditions:
        yield _Claim(replace(rule, path=(), untenanted=is_named and not agent.tenanted), rule)
    if is_named:
        named = rule.conditions | {("tenant", rule.agent)}
        yield _Claim(replace(rule, path=(), conditions=named, addressed=True), rule)


def _by_tenant(
    spot: _Spot, by_spot: Mapping[_Spot, Sequence[_Claim]], agents: Mapping[str, AgentRules]
) -> Iterator[_Claim]:
    """What `by_tenant` agents ask for at a spot with a tenant: those that are found there by everything else."""
    host, conditions = spot
    for condition in conditions:
        if condition[0] != "tenant":
            continue
        for claim in by_spot.get((host, conditions - {condition}), ()):
            if agents[claim.rule.agent].by_tenant and condition[1] in agents[claim.rule.agent].routes:
                yield _Claim(replace(claim.rule, conditions=conditions), claim.written)


# ---- who gets what several ask for ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settled:
    """Whose a spot is.

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


def _address(rule: Rule, claims: Sequence[_Claim], settled: Mapping[_Spot, _Settled]) -> GrpcAddress | Obstacle:
    for claim in claims:
        if settled[claim.spot].owner == rule.agent:
            return GrpcAddress(rule.host, claim.rule.tenant)
    if not claims:
        why = "only its path picks it, and the `tenant` that could stand for a path is for tenants of its own"
        return Obstacle(why)
    asked = claims[-1].rule
    rival = settled[claims[-1].spot].rival(rule.agent)
    assert rival is not None
    if asked.addressed:
        why = f"its name {rule.agent!r}, which would stand for its path, is a tenant of {rival.agent!r}"
    elif rival.conditions == rule.conditions:
        why = f"it differs from {rival.agent!r} in its path alone"
    else:
        why = f"its tenant {rule.tenant!r} is one of {rival.agent!r} too"
    return Obstacle(why, rival)
