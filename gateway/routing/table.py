"""The routing table: immutable, built once per configuration, the one resolver for traffic, `route` and `tests:`.

Theory. Host (exact, then the longest `*.suffix`, then none) and the longest path pick an endpoint. The rules found
there differ in their other keys, the *conditions*. A rule is satisfied when all its conditions hold. Of several
satisfied rules the one whose conditions include all the others' wins; where none does, two sources of identity point
at two agents, and nothing is forwarded. Order in the file never matters. Over gRPC, which has no paths, the host alone
picks an endpoint, and what is found there is made of the same rules (`routing/grpc.py`).
"""

from collections.abc import Iterable, Iterator, Mapping

from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    Fault,
    HiddenConflict,
    InsufficientScope,
    NoEndpoint,
    NoRoute,
    NotAdmitted,
    RouteConflict,
    TenantDenied,
    TenantDeniedEndpoint,
)
from gateway.principal import Principal
from gateway.routing.endpoint import Condition, Endpoint, claim_condition, patterns, unmet
from gateway.routing.grpc import GrpcRules
from gateway.routing.route import AgentRules, Candidate, GrpcAddress, Knock, Reach, Route, Rule, Verdict


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
        self._grpc = grpc

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
        """The endpoint at a lower-case host and at the longest prefix of `path`, or None."""
        if self._hosts and host:
            for pattern in patterns(host):
                paths = self._by_host.get(pattern)
                if paths is not None and (endpoint := paths.longest(path)) is not None:
                    return endpoint
        return None if self._any_host is None else self._any_host.longest(path)

    def endpoints(self) -> Iterator[Endpoint]:
        """All of them that are found by a path."""
        for paths in self._by_host.values():
            yield from paths

    @property
    def grpc(self) -> bool:
        """Whether there are clients of gRPC."""
        return self._grpc is not None

    @property
    def grpc_endpoint(self) -> Endpoint | None:
        """Where all calls over gRPC arrive; None where there is no agent for them."""
        return None if self._grpc is None else self._grpc.endpoint

    def grpc_address(self, rule: Rule) -> GrpcAddress | None:
        """How clients of gRPC reach the agent of a rule by what that rule matches; None where they cannot.

        The tenant is None where the credential alone decides, or nothing has to. An agent that has tenants of its own
        (`by_tenant`, `require_tenant`) can then be told one of these.

        Args:
            rule: As HTTP has it, or as gRPC has it.
        """
        return None if self._grpc is None else self._grpc.address(rule)

    def written(self, rule: Rule) -> Rule:
        """The rule of the file, with its path, that a rule of gRPC stands for; any other rule itself."""
        return rule if self._grpc is None else self._grpc.written(rule)

    def admitted(self, principal: Principal) -> Reach | None:
        """What the principal's tenant may call, or None for a tenant that is not admitted at all."""
        found = self.reach.get(principal.tenant)
        if found is None and principal.method != "anonymous":
            found = self.reach.get("*")
        return found

    def may_call(self, principal: Principal, agent: str) -> bool:
        """Whether the principal may call the agent, by its tenant, its own key and what the agent requires."""
        reach = self.admitted(principal)
        return reach is not None and _reaches(reach, principal, agent) and self._suffices(principal, agent)

    def may_reach(self, principal: Principal, agent: str, tenant: str | None, *, claims_known: bool = True) -> bool:
        """Whether the principal may call a backend: an agent's only one (None), or the one that it has for a tenant.

        Args:
            claims_known: False where the caller's credential is no longer at hand: then what the agent requires of its
                claims is not asked.
        """
        rules, reach = self.agents.get(agent), self.admitted(principal)
        if rules is None or tenant not in rules.routes or reach is None or not _reaches(reach, principal, agent):
            return False
        if claims_known and not self._suffices(principal, agent):
            return False
        return tenant is None or tenant == principal.tenant or reach.act_for is None or tenant in reach.act_for

    def _suffices(self, principal: Principal, agent: str) -> bool:
        """Whether the principal has the scopes, roles and claims that the agent requires."""
        requirement = self.agents[agent].requirement
        return requirement is None or requirement.is_met(principal)

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
        winner, contenders = endpoint.select(knock)
        if winner is None:
            refusal = self._refusal(endpoint, principal, reach, contenders)
            return Verdict(None, refusal, contenders=contenders)
        if not _reaches(reach, principal, winner.agent):
            here = self._knows_any(endpoint, principal, reach)
            return Verdict(None, TenantDenied if here else TenantDeniedEndpoint, winner)
        if not self._suffices(principal, winner.agent):
            return Verdict(None, InsufficientScope, winner)
        if self._names_nobody(endpoint, winner, knock.tenant):
            return Verdict(None, NoRoute, winner)
        return self._backend(self.agents[winner.agent], winner, knock, reach)

    def _resolve_card(self, endpoint: Endpoint | None, knock: Knock) -> Verdict:
        if endpoint is None:
            return Verdict(None, NoEndpoint)
        winner, contenders = endpoint.select(knock)
        if winner is None and not contenders and self._is_stranger(knock.principal):
            found = self._behind_credential(endpoint, knock.tenant)
            if len({rule.agent for rule in found}) > 1:
                return Verdict(None, contenders=found)
            winner = found[0] if found else None
        return Verdict(None, NoEndpoint) if winner is None else self._card_of(endpoint, winner, knock)

    def _card_of(self, endpoint: Endpoint, winner: Rule, knock: Knock) -> Verdict:
        agent = self.agents[winner.agent]
        principal = knock.principal
        reach = None if principal is None else self.admitted(principal)
        known = principal is not None and reach is not None and _reaches(reach, principal, winner.agent)
        callable_ = known and principal is not None and self._suffices(principal, winner.agent)
        denied = InsufficientScope if known else TenantDeniedEndpoint
        if not agent.public and not callable_:
            return Verdict(None, denied, winner)
        if self._names_nobody(endpoint, winner, knock.tenant):
            return Verdict(None, NoEndpoint, winner)
        if not agent.by_tenant:
            return Verdict(agent.routes[None], None, winner)
        if knock.tenant is None and not callable_:
            # An unknown caller sees the product, not a customer: any backend's card, shown without a tenant.
            return Verdict(next(iter(agent.routes.values())), None, winner)
        if not callable_ or principal is None or reach is None:
            return Verdict(None, denied, winner)
        named = self._backend(agent, winner, knock, reach)
        if named.route is None and knock.tenant is None:
            return Verdict(next(iter(agent.routes.values())), None, winner)
        return Verdict(None, NoEndpoint, winner) if named.route is None else named

    def _behind_credential(self, endpoint: Endpoint, tenant: str | None) -> tuple[Rule, ...]:
        """Rules of public agents that a credential would pick at an endpoint, for a stranger who may name a tenant.

        Private agents are left out, so that they cannot be told from none.
        """
        found = endpoint.behind_credential.get(None, ())
        if tenant is not None:
            named = endpoint.behind_credential.get(tenant, ())
            found = (*named, *(rule for rule in found if not self._names_nobody(endpoint, rule, tenant)))
        return found

    def explain(
        self,
        endpoint: Endpoint | None,
        knock: Knock,
        *,
        everything: bool = False,
        card: bool = False,
        grpc: bool = False,
    ) -> Verdict:
        """As `resolve`, with why each rule was or was not taken.

        Args:
            everything: Every rule of every agent, not only those of the endpoint.
            card: The request reads a card.
            grpc: The request comes over gRPC.
        """
        # Rules are explained by what is the case, whatever a caller may know of it: only operators ask.
        verdict = self._resolve_card(endpoint, knock) if card else self._resolve(endpoint, knock)
        beside: tuple[Candidate, ...] = ()
        if not everything:
            rules = [] if endpoint is None else list(endpoint.rules)
        elif not grpc or self._grpc is None:
            rules = [rule for agent in self.agents.values() for rule in agent.rules]
        else:
            rules = list(self._grpc.rules())
            beside = tuple(
                Candidate(rule, taken=False, why=f"cannot be reached over gRPC: {obstacle}")
                for rule, obstacle in self._grpc.unreached()
            )
        candidates = tuple(self._explained(rule, endpoint, knock, verdict) for rule in rules)
        told = self._told(verdict, knock.principal)
        return Verdict(told.route, told.fault, told.rule, (*candidates, *beside))

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

        Only where tenants pick agents. An agent that is picked by neither answers for the rest, but for names that
        stand for paths, and one that has a use for tenants of its own takes any.
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
        condition = unmet(rule, knock)
        if condition is not None:
            why = self._asks(rule, condition, knock)
            if rule is verdict.rule and verdict.route is not None:
                return Candidate(rule, taken=True, why=f"{why}, but its card is anyone's, and no other agent is here")
            if verdict.signs_in:
                why += "; a stranger reads a card that says how to sign in"
            return Candidate(rule, taken=False, why=why)
        if rule is verdict.rule:
            return Candidate(rule, taken=verdict.route is not None, why=self._won(verdict, knock))
        return Candidate(rule, taken=False, why=_lost(rule, endpoint, knock, verdict))

    def _asks(self, rule: Rule, condition: Condition, knock: Knock) -> str:
        """Which condition of a rule does not hold."""
        kind, wanted = condition[0], condition[-1]
        if kind == "key":
            return f"asks for the API key {wanted!r}"
        if kind == "claim":
            return f"asks for the claim {condition[1]}={wanted[1] if isinstance(wanted, tuple) else wanted}"
        shown = "none" if knock.tenant is None else repr(knock.tenant)
        if wanted is None:
            return f"is picked by its credential where no tenant is named, the request has {shown}"
        written = self.written(rule)
        place = f"{written.host or 'the path '}/{'/'.join(written.path)}"
        stands = f", its name, which stands for {place}" if rule.addressed else ""
        return f"asks for tenant {wanted!r}{stands}, the request has {shown}"

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
        requirement = None if verdict.rule is None else self.agents[verdict.rule.agent].requirement
        if verdict.fault is InsufficientScope and requirement is not None and principal is not None:
            return f"all it asks for holds, but the caller lacks {', '.join(requirement.lacking(principal))}"
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

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._by_path.values())

    def longest(self, path: tuple[str, ...]) -> Endpoint | None:
        for length in range(min(len(path), self._longest), -1, -1):
            endpoint = self._by_path.get(path[:length])
            if endpoint is not None:
                return endpoint
        return None


def _elsewhere(rule: Rule, endpoint: Endpoint | None, knock: Knock) -> str:
    here = f"is at {_spelled(rule)}"
    if rule.host is not None and not knock.host:
        return f"{here}, and the request names no host"
    matched = rule.host is None or rule.host in patterns(knock.host)
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
    holding = [other for other in endpoint.possible(knock) if other is not rule and unmet(other, knock) is None]
    more = next((other for other in holding if rule.conditions < other.conditions), None)
    if more is not None:
        return f"holds, but {more.agent!r} asks for all of it and more"
    if verdict.rule is not None:
        return "holds, but another match of the same agent does too"
    rivals = [other for other in holding if not other.conditions < rule.conditions]
    others = ", ".join(sorted({repr(other.agent) for other in rivals}))
    if any(other.conditions == rule.conditions for other in rivals):
        return f"holds, but {others} asks for the same where there are no paths"
    return f"holds, but so does what {others} asks for, and neither asks for all that the other does"


def _spelled(place: Rule | Endpoint) -> str:
    return f"{place.host or ''}/{'/'.join(place.path)}"


def _reaches(reach: Reach, principal: Principal, agent: str) -> bool:
    return agent in reach.agents and (principal.narrowed is None or agent in principal.narrowed)


def path_segments(path: str) -> tuple[str, ...]:
    """Segments of a path as the file writes it; a trailing slash does not count."""
    return tuple(segment for segment in path.split("/") if segment)


__all__ = ["Endpoint", "Route", "Table", "claim_condition", "path_segments"]
