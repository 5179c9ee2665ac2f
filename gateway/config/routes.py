"""The routing rules that a configuration means."""

from collections.abc import Iterator

from gateway.config.agent import Agent, Backend, Match, Require
from gateway.config.model import Config
from gateway.config.problem import KeyPath
from gateway.config.reach import reach
from gateway.config.source import Marks
from gateway.routing.requirement import Requirement
from gateway.routing.route import AgentRules, Route, Rule, backend_key
from gateway.routing.table import Table, claim_condition, path_segments


def table(config: Config, marks: Marks) -> Table:
    """The routing table of a configuration that was checked."""
    auth = config.auth
    guarded = auth is not None and bool(auth.issuers or auth.api_keys or auth.mtls)
    return Table.build(
        rules(config, marks),
        reach(config),
        guarded=guarded,
        grpc=config.gateway.listen_grpc is not None,
    )


def rules(config: Config, marks: Marks) -> tuple[AgentRules, ...]:
    """The rules of every agent, each with its place in the file."""
    return tuple(agent_rules(name, agent, marks) for name, agent in config.agents.items())


def agent_rules(name: str, agent: Agent, marks: Marks) -> AgentRules:
    """The rules of one agent: where no match is written, it is found at `/<name>`."""
    at: KeyPath = ("agents", name)
    return AgentRules(
        name=name,
        rules=tuple(_rules(name, agent, marks)),
        routes=_routes(name, agent),
        place=marks.key(at),
        require_tenant=agent.require_tenant,
        tenanted=agent.require_tenant or agent.upstream_tenant not in (None, "strip"),
        public=agent.visibility != "private",
        requirement=None if agent.require is None else _requirement(agent.require),
    )


def _requirement(written: Require) -> Requirement:
    return Requirement(written.scope, written.role, tuple(written.claim.items()))


def conditions(match: Match) -> frozenset[tuple[object, ...]]:
    """What a match asks for beside host and path."""
    found: list[tuple[object, ...]] = [claim_condition(name, value) for name, value in match.claim.items()]
    if match.key is not None:
        found.append(("key", match.key))
    if match.tenant is not None:
        found.append(("tenant", match.tenant))
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
            own_path=match.path is not None,
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
