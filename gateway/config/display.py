"""The configuration as it may be shown: whole, with what holds where nothing is written, but for what is secret."""

from typing import Any

from gateway.config import effective
from gateway.config.agent import IdentityHeaders
from gateway.config.model import Config
from gateway.config.secrets import MASK


def shown(config: Config) -> dict[str, Any]:
    """The configuration in its long form, with every credential, key hash and token masked.

    What is left out at an agent is shown with the value that holds: that of `defaults`, or the built-in one.
    """
    tree: dict[str, Any] = config.model_dump(mode="json", by_alias=True, exclude={"agents": {"__all__": True}})
    for name, agent in config.agents.items():
        tree["agents"][name] = agent.model_dump(mode="json", by_alias=True)
    for key in (tree.get("auth") or {}).get("api_keys", {}).values():
        # A weak key can be found from its hash.
        key["sha256"] = [MASK for _ in key["sha256"]]
    tree["gateway"]["drain"]["delay"] = effective.drain_delay(config)
    tree["defaults"] |= {
        "timeouts": effective.timeouts(config).model_dump(mode="json"),
        "connections": effective.connections(config).model_dump(mode="json"),
        "cards": effective.cards(config).model_dump(mode="json", by_alias=True),
        "affinity": effective.affinity(config).model_dump(mode="json"),
        "health": effective.health(config).model_dump(mode="json"),
        "retry": effective.retry(config).model_dump(mode="json"),
        "identity_headers": _headers(effective.identity_headers(config)),
    }
    for name in config.tenants:
        tree["tenants"][name]["limits"] = effective.tenant_limits(config, name).model_dump(mode="json")
    for name, agent in config.agents.items():
        insecure = config.defaults.allow_insecure if agent.allow_insecure is None else agent.allow_insecure
        tree["agents"][name] |= {
            "allow_insecure": insecure,
            "timeouts": effective.timeouts(config, agent).model_dump(mode="json"),
            "connections": effective.connections(config, agent).model_dump(mode="json"),
            "cards": effective.cards(config, agent).model_dump(mode="json", by_alias=True),
            "affinity": effective.affinity(config, agent).model_dump(mode="json"),
            "health": effective.health(config, agent).model_dump(mode="json"),
            "retry": effective.retry(config, agent).model_dump(mode="json"),
            "limits": effective.limits(config, agent).model_dump(mode="json"),
            "identity_headers": _headers(effective.identity_headers(config, agent)),
            "isolation": effective.isolation(config, agent),
            "unknown_tasks": effective.unknown_tasks(config, agent),
            "tls": tree["defaults"]["tls"] if agent.tls is None else tree["agents"][name]["tls"],
        }
        for tenant in agent.by_tenant:
            limits = effective.limits(config, agent, tenant)
            tree["agents"][name]["by_tenant"][tenant]["limits"] = limits.model_dump(mode="json")
    return tree


def _headers(headers: IdentityHeaders) -> dict[str, Any]:
    """The names as they are written, null for off, and the claims where there are any."""
    names = {key: name or None for key, name in headers.model_dump().items()}
    return {**names, "claims": dict(headers.claims)} if headers.claims else names
