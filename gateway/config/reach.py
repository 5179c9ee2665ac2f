"""Which tenant may call which agent, as the file says it from either side."""

from collections.abc import Mapping

from gateway.config.agent import Agent
from gateway.config.model import Config
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import Reach

EVERYONE = "*"
"""In `tenants`: who signs in and is not named. In `allow`: any tenant. In `tenants.X.agents`: any agent."""


def reach(config: Config) -> Mapping[str, Reach]:
    """What each tenant may call; a tenant that is not a key has the reach of `*`, if that is one.

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
    """Whether the agent's own `allow` keeps a tenant out or not."""
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
