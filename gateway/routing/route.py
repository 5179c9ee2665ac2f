"""The values of routing: the request as routing sees it, the rules of the file, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

import msgspec

from gateway.a2a.fault import Fault
from gateway.principal import Principal
from gateway.routing.token_claim import claim_values, roles, scopes, typed


@dataclass(frozen=True, slots=True)
class Requirement:
    """All of them are required; a caller without a token has no scope and no role.

    Attributes:
        claims: Paths of claims, each with the value that it must have or hold.
    """

    scopes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    claims: tuple[tuple[str, str | bool | int], ...] = ()

    def lacking(self, principal: Principal) -> tuple[str, ...]:
        """Return the missing requirements of the caller, in words for operators; empty if it meets all of them."""
        claims = principal.claims
        held, played = scopes(claims), roles(claims)
        return (
            *(f"the scope {each!r}" for each in self.scopes if each not in held),
            *(f"the role {each!r}" for each in self.roles if each not in played),
            *(
                f"the claim {path}={value}"
                for path, value in self.claims
                if typed(value) not in claim_values(claims, path)
            ),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the configuration.

    Attributes:
        file: The name of the file, or `(…)` for a configuration that the program wrote itself: its lines are not cited,
            since there is no file in which to look them up. For a value from outside the file, the flag or variable.
        line: From 1; 0 where it is no file.
    """

    file: str
    line: int
    column: int = 1
    # Made once: every line of the access log has one.
    _text: str = field(init=False, repr=False, compare=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "_text", f"{self.file}:{self.line}" if self.is_in_file else self.file)

    @property
    def is_in_file(self) -> bool:
        """Return whether it is in a file."""
        return self.line > 0 and not (self.file.startswith("(") and self.file.endswith(")"))

    @property
    def exact(self) -> str:
        """Return the place with its column."""
        return f"{self._text}:{self.column}" if self.is_in_file else self.file

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class Route:
    """One agent behind one backend: the destination of a request.

    Attributes:
        agent: The agent's name in the file.
        backend: Key of the backend; see `backend_key`.
        url: The backend's URL as written, for explanations.
        tenant: The tenant whose backend this is (`by_tenant`), or None.
        others: The URLs of its other replicas.
    """

    agent: str
    backend: str
    url: str
    tenant: str | None = None
    others: tuple[str, ...] = ()


def backend_key(agent: str, tenant: str | None = None) -> str:
    """Return the key of a backend in the ledger, logs and metrics: `<agent>`, or `<agent>/<tenant>` with `by_tenant`.

    A tenant is percent-encoded, so that a key has neither spaces nor a second slash, and no two backends have one key.
    """
    return agent if tenant is None else f"{agent}/{quote(tenant, safe='')}"


def read_backend_key(key: str) -> tuple[str, str | None]:
    """Return the agent and the tenant of the key of a backend."""
    agent, slash, tenant = key.partition("/")
    return agent, unquote(tenant) if slash else None


@dataclass(frozen=True, slots=True)
class GrpcAddress:
    """The address by which gRPC clients, which have no paths, reach the agent of a rule.

    Attributes:
        tenant: The value of `tenant` (1.0) or `scope` (the scoped service of 0.3); None for none.
    """

    tenant: str | None


SKILL = "{skill}"
"""The last segment of a path for any skill."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One match of one agent.

    Attributes:
        host: None for any, an exact lower-case host, or `*.suffix`.
        path: Segments of the prefix; empty for the root. The last one may be `SKILL`.
        conditions: Further conditions: `("key", name)`, `("claim", name, value)`, `("tenant", value)`, and
            `("skill", name)`: the agent is the best for the skill; without a name for the one in the path.
        addressed: Whether its tenant is the agent's own name, which stands for a path that gRPC does not have.
        untenanted: Whether it holds only where no tenant is named: over gRPC, a credential that picks the agent at a
            path alone.
    """

    agent: str
    host: str | None
    path: tuple[str, ...]
    conditions: frozenset[tuple[object, ...]]
    place: Place
    addressed: bool = False
    untenanted: bool = False

    @property
    def tenant(self) -> str | None:
        """Return the A2A `tenant` that the rule requires, or None."""
        return next((str(condition[1]) for condition in self.conditions if condition[0] == "tenant"), None)

    @property
    def by_skill(self) -> bool:
        """Return whether the agent has to be the best for a skill."""
        return any(condition[0] == "skill" for condition in self.conditions)

    def at(self, skill: str | None) -> "Rule":
        """Return the rule with the path of a request that names a skill there."""
        return self if skill is None or self.path[-1:] != (SKILL,) else replace(self, path=(*self.path[:-1], skill))


@dataclass(frozen=True, slots=True)
class AgentRules:
    """One agent as routing sees it.

    Attributes:
        routes: By tenant for a `by_tenant` agent; under the key None for one backend.
        require_tenant: Whether a call without a `tenant` field is refused.
        tenanted: Whether a path segment behind the endpoint may be a tenant although no rule asks for one.
        public: Whether anyone may read its card (`visibility` is not `private`).
        listed: Whether the catalog shows it to anyone (`visibility` is `listed`).
        requirement: Further requirements on the caller's token; None for none.
    """

    name: str
    rules: tuple[Rule, ...]
    routes: Mapping[str | None, Route]
    place: Place
    require_tenant: bool = False
    tenanted: bool = False
    public: bool = True
    listed: bool = True
    requirement: Requirement | None = None

    @property
    def by_tenant(self) -> bool:
        """Return whether the A2A `tenant` field picks the backend."""
        return None not in self.routes


@dataclass(frozen=True, slots=True)
class Reach:
    """The access list of one tenant.

    Attributes:
        agents: Names of the agents.
        act_for: Tenants it may name in `by_tenant` agents beside itself; None for any (no `auth:` at all).
    """

    agents: frozenset[str]
    act_for: frozenset[str] | None = frozenset()


class RoutingInput(msgspec.Struct, frozen=True):
    """A request as routing sees it.

    Attributes:
        host: Lower-case, without port; empty where unknown.
        tenant: The A2A `tenant` field, or None; already checked (`is_tenant`).
        principal: The caller, or None for a stranger (public cards only).
        skill: The skill that the path names, or None.
        best: The best agent for each skill that the endpoint asks for (`skills.choose`).
        unavailable: Whether there is no best agent only because all agents with the skill are down.
    """

    path: tuple[str, ...]
    host: str = ""
    tenant: str | None = None
    principal: Principal | None = None
    skill: str | None = None
    best: Mapping[str, str] | None = None
    unavailable: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One evaluated rule, and why it was taken or not.

    Attributes:
        score: The parts of the agent's rank where a skill is asked for; else None.
    """

    rule: Rule
    taken: bool
    why: str
    score: Mapping[str, object] | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The decision of routing for one request.

    Attributes:
        route: The agent that answers, or None.
        fault: Why no agent answers, as the class of the caller's fault, or None.
        rule: The rule that won, or None.
        candidates: Every evaluated rule; only `Table.explain` sets it.
        contenders: The rules that hold if none of them wins, which is a conflict. If a stranger has to sign in, the
            rules that a credential would select. For logs only.
    """

    route: Route | None
    fault: type[Fault] | None = None
    rule: Rule | None = None
    candidates: tuple[Candidate, ...] = ()
    contenders: tuple[Rule, ...] = ()

    @property
    def signs_in(self) -> bool:
        """Return whether a stranger gets the card that names no agent and only describes how to sign in."""
        return self.route is None and self.fault is None

    @property
    def reason(self) -> str | None:
        """Return the reason why no agent was chosen, from the closed list, or None."""
        return None if self.fault is None else self.fault.reason
