"""Tenants: names that must exist, both sides of what they may call, and whose tasks they are."""

import re
from collections.abc import Iterable, Mapping

from gateway.a2a.tenant import fits_path
from gateway.config import effective
from gateway.config.disclosure import check_disclosure
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable
from gateway.config.reach import EVERYONE, lets_in, reach
from gateway.config.sharing import Share, is_shared, places
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import Reach


def check_tenancy(config: Config, findings: Findings) -> None:
    """Find what is wrong between tenants, keys and agents."""
    _tenant_names(config, findings)
    _agent_names(config, findings)
    reached = reach(config)
    _matched_keys(config, reached, findings)
    _required(config, findings)
    _agreement(config, findings)
    _unreached(config, reached, findings)
    _adoption(config, reached, findings)
    _two_names(config, reached, findings)
    check_disclosure(config, reached, findings)


# ---- names ---------------------------------------------------------------------------------------------------------


def _tenant_names(config: Config, findings: Findings) -> None:
    auth = config.auth
    signed_in: dict[KeyPath, str | None] = {}
    if auth is not None:
        signed_in |= {("auth", "api_keys", name, "tenant"): key.tenant for name, key in auth.api_keys.items()}
        signed_in |= {("auth", "issuers", name, "tenant"): issuer.tenant for name, issuer in auth.issuers.items()}
        signed_in |= {
            ("auth", "issuers", name, "tenant_map", value): tenant
            for name, issuer in auth.issuers.items()
            for value, tenant in issuer.tenant_map.items()
        }
        clients = {} if auth.mtls is None else auth.mtls.clients
        signed_in |= {("auth", "mtls", "clients", name, "tenant"): each.tenant for name, each in clients.items()}
    for at, tenant in signed_in.items():
        if tenant is not None and tenant != ANONYMOUS_TENANT:
            findings.known(at, tenant, config.tenants, "tenant")
    # What can be no name of a tenant may be a key of `by_tenant` all the same, for those who act for it.
    acted = _unnameable(config, (entry.act_for for entry in config.tenants.values()))
    divided = _unnameable(config, (agent.by_tenant for agent in config.agents.values()))
    for name, entry in config.tenants.items():
        for number, other in enumerate(entry.act_for):
            findings.known(("tenants", name, "act_for", number), other, divided, "tenant")
    # Without `auth` and `tenants` anyone names any tenant: the keys of `by_tenant` are all the names there are.
    closed = auth is not None or bool(config.tenants)
    for name, agent in config.agents.items():
        for number, other in enumerate(agent.allow or ()):
            if other not in (EVERYONE, ANONYMOUS_TENANT):
                findings.known(("agents", name, "allow", number), other, config.tenants, "tenant")
        for other in agent.by_tenant if closed else ():
            findings.known_key(("agents", name, "by_tenant", other), other, acted, "tenant")


def _unnameable(config: Config, written: Iterable[Iterable[str]]) -> frozenset[str]:
    """The names of tenants, and of what is written the A2A tenants that can be no such name."""
    return frozenset(config.tenants).union(each for one in written for each in one if not fits_path(each))


def _agent_names(config: Config, findings: Findings) -> None:
    for name, tenant in config.tenants.items():
        for number, agent in enumerate(tenant.agents or ()):
            if agent != EVERYONE:
                findings.known(("tenants", name, "agents", number), agent, config.agents, "agent")
    api_keys = {} if config.auth is None else config.auth.api_keys
    for name, key in api_keys.items():
        for number, agent in enumerate(key.agents or ()):
            findings.known(("auth", "api_keys", name, "agents", number), agent, config.agents, "agent")
    clients = {} if config.auth is None or config.auth.mtls is None else config.auth.mtls.clients
    for name, client in clients.items():
        for number, agent in enumerate(client.agents or ()):
            findings.known(("auth", "mtls", "clients", name, "agents", number), agent, config.agents, "agent")


def _matched_keys(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    for name, agent in config.agents.items():
        for number, match in enumerate(agent.match):
            at: KeyPath = ("agents", name, "match", number)
            if config.auth is None:
                if match.key is not None or match.claim:
                    written = "key" if match.key is not None else "claim"
                    remedy = "add `auth`, or match by path, host or tenant"
                    findings.error((*at, written), "without `auth` no caller has a key or a claim", remedy)
                continue
            if match.key is None or not findings.known((*at, "key"), match.key, config.auth.api_keys, "API key"):
                continue
            key = config.auth.api_keys.get(match.key)
            if key is None:
                continue
            may = reached.get(key.tenant, reached.get(EVERYONE))
            if may is not None and (name not in may.agents or (key.agents is not None and name not in key.agents)):
                remedy = (
                    f"add {name!r} to `tenants.{key.tenant}.agents` and to the key's own `agents` where it has some"
                )
                findings.warning(
                    (*at, "key"), f"the key {match.key!r} may not call {name!r}: the match is in vain", remedy
                )


_SCOPE = re.compile(r"[!#-\[\]-~]+")
"""RFC 6749 §3.3; it stands in a challenge, too."""


def _required(config: Config, findings: Findings) -> None:
    """Find requirements that nobody can meet."""
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name, "require")
        require = agent.require
        if require is None:
            continue
        if not require.scope and not require.role and not require.claim:
            findings.error(at, "it requires nothing", "write a `scope`, `role` or `claim`, or remove `require`")
        for number, scope in enumerate(require.scope):
            if _SCOPE.fullmatch(scope) is None:
                remedy = "write one scope without spaces and quotes; several are a list"
                findings.error((*at, "scope", number), f"{printable(scope)!r} is no scope", remedy)
        if "" in require.role:
            findings.error((*at, "role"), "no role is named", "write the name of a role")
        if "" in require.claim:
            findings.error((*at, "claim"), "no claim is named", "write the name of a claim, or the path to it")
        auth = config.auth
        if auth is None:
            remedy = "add `auth` with an issuer, or remove `require`"
            findings.error(at, "without `auth` no caller has a scope, role or claim", remedy)
        elif not auth.issuers and (auth.mtls is None or require.scope or require.role):
            remedy = "add an issuer to `auth.issuers`, or remove `require`"
            findings.warning(at, "nobody can call this agent: without an issuer no caller has a token", remedy)


# ---- what tenants may call -----------------------------------------------------------------------------------------


def _agreement(config: Config, findings: Findings) -> None:
    """`allow` and `tenants.X.agents` say the same where both say something of the two."""
    listed = {name: frozenset(entry.agents) for name, entry in config.tenants.items() if entry.agents is not None}
    for name, agent in config.agents.items():
        for number, tenant in enumerate(agent.allow or ()):
            known = listed.get(tenant, frozenset([EVERYONE]))
            if tenant == EVERYONE or name in known or EVERYONE in known:
                continue
            fact = f"the tenant {tenant!r} does not list {name!r} ({findings.line(('tenants', tenant))})"
            remedy = f"add {name!r} to `tenants.{tenant}.agents`, or remove {tenant!r} here"
            findings.error(("agents", name, "allow", number), fact, remedy)
    for tenant, entry in config.tenants.items():
        for number, name in enumerate(entry.agents or ()):
            known_agent = config.agents.get(name)
            if known_agent is None or lets_in(known_agent, tenant):
                continue
            fact = f"{name!r} does not allow {tenant!r} ({findings.line(('agents', name, 'allow'))})"
            remedy = f"add {tenant!r} to `agents.{name}.allow`, or remove {name!r} here"
            findings.error(("tenants", tenant, "agents", number), fact, remedy)


def _unreached(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    called = frozenset[str]().union(*(one.agents for one in reached.values()))
    for name, agent in config.agents.items():
        if name not in called and agent.allow != ():
            remedy = f"add {name!r} to the `agents` of a tenant"
            findings.warning(("agents", name), "no tenant may call this agent", remedy)
        elif agent.allow == ():
            findings.warning(
                ("agents", name, "allow"), "no tenant may call this agent", "name tenants, or remove `allow`"
            )


# ---- whose tasks they are ------------------------------------------------------------------------------------------


def _adoption(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    """Tell where the first who names a task could be another than the one who has it."""
    for parts in places(config, reached):
        for part in parts if is_shared(config, parts) else ():
            agent = config.agents[part.agent]
            if not effective.tenure(config, agent) or effective.unknown_tasks(config, agent) != "adopt":
                continue
            at: KeyPath = (
                ("agents", part.agent, "unknown_tasks") if agent.unknown_tasks else ("defaults", "unknown_tasks")
            )
            fact = f"{_told(parts, part)}: whoever first names a task that the gateway never saw has it from then on"
            findings.warning(at, fact, "write deny as soon as the tasks from before the gateway are over")


def _two_names(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    """Tell where what is known by one name of a place is not known by the other."""
    for first, *others in places(config, reached):
        callers = first.callers.union(*(part.callers for part in others))
        if len(callers) < 2 and EVERYONE not in callers:
            continue
        for part in others:
            if any(effective.tenure(config, config.agents[one.agent]) for one in (first, part)):
                also = f"its backend is that of {first.key!r} too"
                fact = f"{also}: whose a task is that came by one is not known by the other"
                findings.warning(part.at, fact, "make one agent of them, with a `match` for each, or two backends")


def _told(parts: tuple[Share, ...], part: Share) -> str:
    callers = frozenset[str]().union(*(one.callers for one in parts))
    named = sorted(callers - {EVERYONE})
    who = ", ".join([*named[:4], *(["…"] if len(named) > 4 else []), *(["others"] if EVERYONE in callers else [])])
    others = sorted({one.agent for one in parts if one.agent != part.agent})
    also = f", which is the backend of {', '.join(others[:3])} too" if others else ""
    return f"several callers share the backend of {part.key!r} ({who}){also}"
