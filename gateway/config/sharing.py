"""Whose tasks lie together behind one backend."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.config import effective
from gateway.config.address import same_place
from gateway.config.agent import backends
from gateway.config.model import Config
from gateway.config.problem import KeyPath
from gateway.config.reach import EVERYONE, reach
from gateway.config.stdio import is_stdio
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import Reach, backend_key


@dataclass(frozen=True, slots=True)
class Share:
    """One agent's share in a place.

    Attributes:
        key: The backend's key, as `backend_key` makes it.
        at: Where it is written.
        callers: Tenants that reach it by this agent; `*` stands for any number that are not named.
    """

    agent: str
    key: str
    at: KeyPath
    callers: frozenset[str]


def shared(config: Config) -> frozenset[str]:
    """The keys of the backends that several owners reach.

    All agents with the same backend count together. Callers that are not named are many; anonymous ones are one. With
    `isolation: principal` one tenant is many, too.
    """
    found = places(config, reach(config))
    return frozenset(part.key for parts in found if is_shared(config, parts) for part in parts)


def is_shared(config: Config, parts: tuple[Share, ...]) -> bool:
    """Whether those who reach a place are several owners."""
    callers = frozenset[str]().union(*(part.callers for part in parts))
    if len(callers) > 1 or EVERYONE in callers:
        return True
    if not callers or callers == {ANONYMOUS_TENANT}:
        return False
    return any(part.callers and effective.isolation(config, config.agents[part.agent]) == "principal" for part in parts)


def places(config: Config, reached: Mapping[str, Reach]) -> list[tuple[Share, ...]]:
    """The backends of the file, those at the same place together.

    Args:
        reached: What each tenant may call.
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
    """Who may use the `by_tenant` backend of a tenant: itself, and those that act for it."""
    for caller in may_call:
        act_for = reached[caller].act_for
        if caller == tenant or act_for is None or tenant in act_for:
            yield caller
    if tenant not in reached and EVERYONE in may_call:
        yield tenant
