"""The quotas of tenants and agents, built from the configuration."""

from gateway.config import effective
from gateway.config.limit import Limits, TenantLimits
from gateway.config.model import Config
from gateway.policy.limits import UNNAMED, Quota, Quotas
from gateway.routing.route import backend_key

_FIELDS = set(Limits.model_fields)


def quotas_of(config: Config) -> Quotas:
    """Return the quotas of a configuration; takes 20 µs for each agent."""
    tenants = {name: _quota(effective.tenant_limits(config, name)) for name in config.tenants}
    agents: dict[str, Quota] = {}
    for name, agent in config.agents.items():
        for tenant in (None, *agent.by_tenant):
            if tenant is not None or agent.backend:
                agents[backend_key(name, tenant)] = _quota(effective.limits(config, agent, tenant))
    open_tasks = {name: tenant.limits.open_tasks for name, tenant in config.tenants.items() if name != UNNAMED}
    return Quotas(
        tenants if any(quota != Quota() for quota in tenants.values()) else {},
        {key: quota for key, quota in agents.items() if quota != Quota()},
        named=frozenset(config.tenants),
        open_tasks={name: most for name, most in open_tasks.items() if most is not None},
        replicas=config.gateway.replicas,
    )


def _quota(written: Limits) -> Quota:
    """Return the quota of limits that hold; it has their fields, but for `open_tasks`."""
    weight = written.weight if isinstance(written, TenantLimits) else None
    return Quota(**{name: getattr(written, name) for name in _FIELDS}, weight=weight or 1.0)
