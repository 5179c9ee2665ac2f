"""Routing rules, rights of tenants, and shared backends of a configuration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.config import effective
from gateway.config.address import same_place
from gateway.config.agent import Agent, Backend, Match, Require, backends, is_stdio
from gateway.config.model import Config
from gateway.config.problem import KeyPath, Problem
from gateway.config.yaml import Marks
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import SKILL, AgentRules, Reach, Requirement, Route, Rule, backend_key
from gateway.routing.table import Table, claim_condition, path_segments

# ---- rules -----------------------------------------------------------------------------------------------------------


def table(config: Config, marks: Marks) -> Table:
    """Return the routing table of a configuration that was checked."""
    auth = config.auth
    guarded = auth is not None and bool(auth.issuers or auth.api_keys or auth.mtls)
    return Table.build(
        rules(config, marks),
        reach(config),
        guarded=guarded,
        grpc=config.gateway.listen_grpc is not None,
    )


def rules(config: Config, marks: Marks) -> tuple[AgentRules, ...]:
    """Return the rules of every agent, each with its place in the file."""
    return tuple(agent_rules(name, agent, marks) for name, agent in config.agents.items())


def agent_rules(name: str, agent: Agent, marks: Marks) -> AgentRules:
    """Return the rules of one agent: where no match is written, it is found at `/<name>`."""
    at: KeyPath = ("agents", name)
    return AgentRules(
        name=name,
        rules=tuple(_rules(name, agent, marks)),
        routes=_routes(name, agent),
        place=marks.key(at),
        require_tenant=agent.require_tenant,
        tenanted=agent.require_tenant or agent.upstream_tenant not in (None, "strip"),
        public=agent.visibility != "private",
        listed=agent.visibility == "listed",
        requirement=None if agent.require is None else _requirement(agent.require),
    )


def _requirement(written: Require) -> Requirement:
    return Requirement(written.scope, written.role, tuple(written.claim.items()))


def conditions(match: Match) -> frozenset[tuple[object, ...]]:
    """Return the conditions of a match beside host and path."""
    found: list[tuple[object, ...]] = [claim_condition(name, value) for name, value in match.claim.items()]
    if match.key is not None:
        found.append(("key", match.key))
    if match.tenant is not None:
        found.append(("tenant", match.tenant))
    if match.skill is not None:
        found.append(("skill", match.skill))
    if match.path is not None and path_segments(match.path)[-1:] == (SKILL,):
        found.append(("skill", None))
    return frozenset(found)


def _rules(name: str, agent: Agent, marks: Marks) -> Iterator[Rule]:
    if not agent.match:
        yield Rule(name, None, (name,), frozenset(), marks.key(("agents", name)))
    for number, match in enumerate(agent.match):
        yield Rule(
            agent=name,
            host=match.host,
            path=() if match.path is None else path_segments(match.path),
            conditions=conditions(match),
            place=marks.place(("agents", name, "match", number)),
        )


def _routes(name: str, agent: Agent) -> dict[str | None, Route]:
    found: dict[str | None, Route] = {
        tenant: _route(name, backend_key(name, tenant), entry.backend, tenant)
        for tenant, entry in agent.by_tenant.items()
        if entry.backend
    }
    if agent.backend:
        found[None] = _route(name, name, agent.backend)
    return found


def _route(name: str, key: str, backend: tuple[Backend, ...], tenant: str | None = None) -> Route:
    first, *others = backend
    return Route(name, key, first.url, tenant, tuple(one.url for one in others))


# ---- rights ----------------------------------------------------------------------------------------------------------


EVERYONE = "*"
"""In `tenants`: authenticated callers of an unnamed tenant. `allow`: any tenant. `tenants.X.agents`: any agent."""


def reach(config: Config) -> Mapping[str, Reach]:
    """Return the agents that each tenant may call; a tenant that is not a key has the reach of `*`, if that is one.

    A tenant T reaches an agent A if `tenants.T.agents` lists A or `*`, or is not written while `A.allow` lists T or
    `*`; and if `A.allow` is not written, or lists T or `*`. So `allow: ["*"]` is for every tenant that is admitted and
    whose own list does not say otherwise. Without `auth:` the anonymous tenant reaches every agent that does not keep
    it out, and may name any tenant, unless `tenants.anonymous` says less.
    """
    named = _Named(config)
    tenants = config.tenants.items()
    found = {name: Reach(named.agents(name), frozenset(tenant.act_for)) for name, tenant in tenants}
    if config.auth is None and ANONYMOUS_TENANT not in config.tenants:
        every = frozenset(name for name, agent in config.agents.items() if lets_in(agent, ANONYMOUS_TENANT))
        found[ANONYMOUS_TENANT] = Reach(every, None)
    return found


def lets_in(agent: Agent, tenant: str) -> bool:
    """Return whether the agent's own `allow` keeps a tenant out or not."""
    return agent.allow is None or tenant in agent.allow or EVERYONE in agent.allow


class _Named:
    """The agents of each tenant, with the file read once and not once for each tenant."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open = frozenset(name for name, agent in config.agents.items() if agent.allow is None)
        self._allowing: dict[str, set[str]] = {}
        for name, agent in config.agents.items():
            for tenant in agent.allow or ():
                self._allowing.setdefault(tenant, set()).add(name)

    def agents(self, tenant: str) -> frozenset[str]:
        listed = self._config.tenants[tenant].agents
        allowing = self._allowing.get(tenant, set())
        allowing = allowing | self._allowing.get(EVERYONE, set())
        if listed is None:
            return frozenset(allowing)
        letting_in = self._open | allowing
        return letting_in if EVERYONE in listed else frozenset(listed) & letting_in


# ---- shared backends -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """One agent's share in a place.

    Attributes:
        key: The backend's key, as `backend_key` makes it.
        at: Its place in the file.
        callers: Tenants that reach it by this agent; `*` stands for any number that are not named.
    """

    agent: str
    key: str
    at: KeyPath
    callers: frozenset[str]


def shared(config: Config) -> frozenset[str]:
    """Return the keys of the backends that several owners reach.

    All agents with the same backend count together. Callers that are not named are many; anonymous ones are one. With
    `isolation: principal` one tenant is many, too.
    """
    found = places(config, reach(config))
    return frozenset(part.key for parts in found if is_shared(config, parts) for part in parts)


def is_shared(config: Config, parts: tuple[Share, ...]) -> bool:
    """Return whether the callers of a place are several owners."""
    callers = frozenset[str]().union(*(part.callers for part in parts))
    if len(callers) > 1 or EVERYONE in callers:
        return True
    if not callers or callers == {ANONYMOUS_TENANT}:
        return False
    return any(part.callers and effective.isolation(config, config.agents[part.agent]) == "principal" for part in parts)


def places(config: Config, reached: Mapping[str, Reach]) -> list[tuple[Share, ...]]:
    """Return the backends of the file, those at the same place together.

    Args:
        reached: The agents that each tenant may call.
    """
    by_place: dict[str, list[Share]] = {}
    for place, part in _parts(config, reached):
        by_place.setdefault(place, []).append(part)
    return [tuple(parts) for parts in by_place.values()]


def _parts(config: Config, reached: Mapping[str, Reach]) -> Iterator[tuple[str, Share]]:
    callers: dict[str, set[str]] = {}
    for tenant, may in reached.items():
        for name in may.agents:
            callers.setdefault(name, set()).add(tenant)
    for name, agent in config.agents.items():
        may_call = frozenset(callers.get(name, ()))
        for backend, at in backends(agent, ("agents", name)):
            own = str(at[3]) if at[2] == "by_tenant" else None
            who = may_call if own is None else frozenset(_who(own, may_call, reached))
            # A command is run for each that has it.
            place = str(at) if is_stdio(backend.url) else same_place(backend.url)
            key, here = (name, ("agents", name)) if own is None else (backend_key(name, own), at[:4])
            yield place, Share(name, key, here, who)


def _who(tenant: str, may_call: frozenset[str], reached: Mapping[str, Reach]) -> Iterator[str]:
    """Yield the tenants that may use the `by_tenant` backend of a tenant: itself, and those that act for it."""
    for caller in may_call:
        act_for = reached[caller].act_for
        if caller == tenant or act_for is None or tenant in act_for:
            yield caller
    if tenant not in reached and EVERYONE in may_call:
        yield tenant


# ---- several workers -------------------------------------------------------------------------------------------------


def divided(config: Config, marks: Marks, processes: int) -> tuple[Problem, ...]:
    """Return the settings with which several processes cannot serve a configuration."""
    return tuple(_divided(config, marks, processes)) if processes > 1 else ()


def _divided(config: Config, marks: Marks, processes: int) -> Iterator[Problem]:
    kept = config.gateway.state
    # A file serves all processes of a machine, and where nothing is written it is a file.
    if effective.keeps_state(config) and kept is not None and kept.kind == "memory":
        at: KeyPath = ("gateway", "state")
        fact = f"{processes} workers would each keep a ledger of their own"
        remedy = "write `gateway.state: sqlite:///PATH`, or a Redis where limits have to be exact, or serve with one"
        yield Problem(marks.place(at), at, fact, remedy)
    for name, agent in config.agents.items():
        for backend, place in backends(agent, ("agents", name)):
            if is_stdio(backend.url):
                fact = f"{processes} workers would each start this command, and one does not know the other's tasks"
                yield Problem(marks.place(place), place, fact, "serve with one worker, or run the agent behind a URL")
