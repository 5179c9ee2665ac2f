"""Limits: what of them can never count."""

from collections.abc import Iterator

from gateway.config import effective
from gateway.config.finding import Findings
from gateway.config.limit import Limits
from gateway.config.model import Config
from gateway.config.problem import KeyPath

_NEEDED = {"burst": "requests", "queue": "concurrency", "queue_timeout": "concurrency"}
"""Limits that mean nothing without another one."""
_MOST = 1_000_000_000
"""Calls that may come at once, as `requests` has no more either: Redis counts millionths of them."""


def check_allowances(config: Config, findings: Findings) -> None:
    """Find limits that limit nothing."""
    for written, holding, at in _limits(config):
        for key, needed in _NEEDED.items():
            if key not in written.model_fields_set or any(needed in one.model_fields_set for one in holding):
                continue
            findings.error_at_key((*at, key), f"it limits nothing without `{needed}`", f"add `{needed}`, or remove it")
        _futile(config, written, at, findings)
    agents = config.agents.values()
    if any(effective.isolation(config, agent) != "none" for agent in agents) or not config.agents:
        return
    for name, tenant in config.tenants.items():
        if tenant.limits.open_tasks is not None:
            fact = "no agent's tasks have owners, so that nobody's are counted: all of them say `isolation: none`"
            findings.warning(("tenants", name, "limits", "open_tasks"), fact, "write `isolation: tenant`, or remove it")


def _futile(config: Config, written: Limits, at: KeyPath, findings: Findings) -> None:
    gateway = config.gateway
    if written.burst is not None and written.burst > _MOST:
        fact = f"{written.burst} calls are more than {_MOST}"
        findings.error((*at, "burst"), fact, f"write {_MOST} or less, or remove `requests`")
    if written.body is not None and written.body > gateway.body_limit:
        fact = f"it limits nothing: no body is longer than `gateway.body_limit`, {gateway.body_limit} bytes"
        findings.warning((*at, "body"), fact, "write less, or raise `gateway.body_limit`")
    if written.concurrency is not None and written.concurrency < gateway.replicas:
        fact = f"each of {gateway.replicas} gateways lets one call through at least, so that it is {gateway.replicas}"
        findings.warning((*at, "concurrency"), fact, f"write {gateway.replicas} or more")


def _limits(config: Config) -> Iterator[tuple[Limits, list[Limits], KeyPath]]:
    """Limits that are written, those that hold together with them, and where they are."""
    for name, tenant in config.tenants.items():
        yield tenant.limits, [tenant.limits], ("tenants", name, "limits")
    default = config.defaults.limits
    of_backends = {name: [one.limits for one in agent.by_tenant.values()] for name, agent in config.agents.items()}
    of_agents = [limits for name, agent in config.agents.items() for limits in (agent.limits, *of_backends[name])]
    yield default, [default, *of_agents], ("defaults", "limits")
    for name, agent in config.agents.items():
        yield agent.limits, [default, agent.limits, *of_backends[name]], ("agents", name, "limits")
        for tenant_name, entry in agent.by_tenant.items():
            at: KeyPath = ("agents", name, "by_tenant", tenant_name, "limits")
            yield entry.limits, [default, agent.limits, entry.limits], at
