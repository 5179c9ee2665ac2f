"""Checks of matches and of the tests that travel with the file."""

import re
from collections.abc import Iterable, Iterator, Mapping

from gateway.a2a.fault import REASONS
from gateway.a2a.paths import RESERVED, fits_path
from gateway.config.agent import Agent
from gateway.config.checks.findings import Findings, listed
from gateway.config.model import Config, RouteTest
from gateway.config.problem import KeyPath, nearest
from gateway.config.routes import EVERYONE, agent_rules, caller_with_certificate, reach
from gateway.identity.client_names import UnknownClient
from gateway.routing.endpoint import host_named
from gateway.routing.route import SKILL, AgentRules, Reach, Rule
from gateway.routing.table import GrpcRules
from gateway.telemetry.log_output import printable

# ---- matches ---------------------------------------------------------------------------------------------------------

_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")

_SHOWN = 5
"""Agents or tenants that a message names."""

PlacedRule = tuple[Rule, KeyPath]
"""A rule, and the path in the file that it comes from."""


def check_routes(config: Config, findings: Findings) -> None:
    """Find mistakes in matches and tests."""
    agents: dict[str, AgentRules] = {}
    rules: list[PlacedRule] = []
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        _check_matches(agent, at, findings)
        agents[name] = agent_rules(name, agent, findings.marks)
        paths = [(*at, "match", number) for number in range(len(agent.match))] or [at]
        rules += zip(agents[name].rules, paths, strict=True)
        _check_own_tenants(agent, at, findings)
    reached = reach(config)
    _check_overlaps(agents, rules, findings)
    _check_disclosure(config, agents, rules, reached, findings)
    if config.gateway.listen_grpc is not None:
        _check_grpc(config, agents, reached, findings)
    _check_tests(config, findings)


def _check_matches(agent: Agent, at: KeyPath, findings: Findings) -> None:
    if not agent.match and "match" in agent.model_fields_set:
        findings.error((*at, "match"), "there is no match in the list", "write one, or leave `match` out")
    for number, match in enumerate(agent.match):
        here: KeyPath = (*at, "match", number)
        if not match.model_fields_set:
            remedy = "write `path: /` where it is meant to take everything that no other match takes"
            findings.error(here, "the match is empty", remedy)
        if match.path is not None:
            _check_path(match.path.removesuffix(f"/skills/{SKILL}") or "/", (*here, "path"), findings)
        if match.host is not None and (len(match.host) > 253 or _HOST.fullmatch(match.host) is None):
            remedy = "write a name in lower case without a port: `agents.example.com` or `*.example.com`"
            findings.error((*here, "host"), f"{printable(match.host)!r} is no host", remedy)
        if not match.claim and "claim" in match.model_fields_set:
            findings.error((*here, "claim"), "there is no claim", "write `claim: {NAME: VALUE}`")
        if match.key is not None and match.claim:
            fact = "no caller can show both: claims come with a token, and two credentials in one request are refused"
            findings.warning(here, fact, "make two matches of it, one with `key`, one with `claim`")


def _check_path(path: str, at: KeyPath, findings: Findings) -> None:
    if path == "/":
        return
    shown = f"{printable(path)!r}"
    if not path.startswith("/"):
        findings.error(at, f"{shown} does not start with a slash", f"write /{path}")
        return
    if path.endswith("/"):
        findings.error(at, f"{shown} ends with a slash", f"write {path.rstrip('/') or '/'}")
        return
    for segment in path[1:].split("/"):
        if not segment:
            findings.error(at, f"{shown} has an empty segment", "write single slashes")
        elif segment in (".", ".."):
            findings.error(at, f"{shown} has a dot segment", "write the path that is meant")
        elif segment in RESERVED:
            remedy = "choose another segment; these are the protocol's own: " + ", ".join(
                sorted(RESERVED - {".", ".."})
            )
            findings.error(at, f"{shown} has the segment {segment!r}, which is the protocol's own", remedy)
        elif segment == SKILL:
            remedy = "write `/skills/{skill}`, at the end of the path"
            findings.error(at, f"{shown} has {SKILL} where it stands for no skill", remedy)
        elif _SEGMENT.fullmatch(segment) is None:
            remedy = "segments have letters, digits and . _ ~ -"
            findings.error(at, f"{shown} has a segment with other characters", remedy)
        else:
            continue
        return


def _check_own_tenants(agent: Agent, at: KeyPath, findings: Findings) -> None:
    """Matches and `by_tenant` entries of one agent that cannot meet."""
    if not agent.by_tenant or not agent.match:
        return
    tenants = [match.tenant for match in agent.match]
    for number, tenant in enumerate(tenants):
        if tenant is not None and tenant not in agent.by_tenant:
            fact = f"the match can never answer: `by_tenant` has no {tenant!r}"
            findings.error((*at, "match", number, "tenant"), fact, "leave `tenant` out, or add it to `by_tenant`")
    if None in tenants:
        return
    for tenant in agent.by_tenant:
        if tenant not in tenants:
            fact = f"nothing reaches this backend: every match asks for another tenant than {tenant!r}"
            findings.error_at_key(
                (*at, "by_tenant", tenant), fact, "leave `tenant` out of a match, or remove the entry"
            )


# ---- matches of several agents -------------------------------------------------------------------------------------


def _check_overlaps(agents: dict[str, AgentRules], rules: list[PlacedRule], findings: Findings) -> None:
    first: dict[tuple[object, ...], PlacedRule] = {}
    by_path: dict[tuple[str, ...], list[PlacedRule]] = {}
    by_parent: dict[tuple[str, ...], list[PlacedRule]] = {}
    for rule, at in rules:
        # Several agents may ask for the same skill: their rank decides.
        of = rule.agent if rule.by_skill else ""
        same = first.setdefault((rule.host, rule.path, rule.conditions, of), (rule, at))
        if same[0] is not rule:
            other = "another match of its own" if same[0].agent == rule.agent else f"'{same[0].agent}'"
            shown = f"'{rule.host or ''}/{'/'.join(rule.path)}'" + (" with the same keys" if rule.conditions else "")
            fact = f"{shown} is also what {other} matches ({findings.line(same[1])})"
            findings.error(at, fact, "give one of them another path or host, or a `key`, `claim` or `tenant`")
        by_path.setdefault(rule.path, []).append((rule, at))
        if rule.path:
            by_parent.setdefault(rule.path[:-1], []).append((rule, at))
    _check_skills(rules, findings)
    for rule, at in rules:
        agent = agents[rule.agent]
        for tenant in _tenants_of(rule, agent):
            _check_hidden_backend(rule, at, tenant, first, findings)
            if fits_path(tenant):
                _check_path_of_tenant(rule, at, tenant, by_path.get((*rule.path, tenant), []), findings)
        if agent.tenanted and rule.tenant is None and not agent.by_tenant:
            _check_paths_of_tenants(rule, at, by_parent.get(rule.path, []), findings)


def _check_skills(rules: list[PlacedRule], findings: Findings) -> None:
    """Find matches for two skills at one place, where requests cannot name a skill."""
    first: dict[tuple[object, ...], PlacedRule] = {}
    for rule, at in rules:
        skill = next((each[1] for each in rule.conditions if each[0] == "skill" and each[1] is not None), None)
        if skill is None or ("skill", None) in rule.conditions:
            continue
        rest = frozenset(each for each in rule.conditions if each[0] != "skill")
        other = first.setdefault((rule.host, rule.path, rest), (rule, at))
        if ("skill", skill) not in other[0].conditions:
            fact = f"here is another skill already ({findings.line(other[1])}), and no request says which one is meant"
            findings.error((*at, "skill"), fact, "give each skill a path of its own, or write `path: /skills/{skill}`")


def _tenants_of(rule: Rule, agent: AgentRules) -> Iterator[str]:
    """Return the tenants that the rule is for."""
    if rule.tenant is not None:
        yield rule.tenant
    elif agent.by_tenant:
        yield from (tenant for tenant in agent.routes if tenant is not None)


def _check_hidden_backend(
    rule: Rule, at: KeyPath, tenant: str, first: dict[tuple[object, ...], PlacedRule], findings: Findings
) -> None:  # fmt: skip
    if rule.tenant is not None:
        return
    other = first.get((rule.host, rule.path, rule.conditions | {("tenant", tenant)}, ""))
    if other is not None and other[0].agent != rule.agent:
        fact = f"the backend of tenant {tenant!r} is hidden: '{other[0].agent}' matches it ({findings.line(other[1])})"
        entry: KeyPath = (*at[:2], "by_tenant", tenant)
        findings.error_at_key(entry, fact, "remove one of the two, or give them different paths")


def _check_path_of_tenant(rule: Rule, at: KeyPath, tenant: str, others: list[PlacedRule], findings: Findings) -> None:
    for other, where in others:
        if other.agent != rule.agent and _hosts_overlap(rule.host, other.host):
            path = "/" + "/".join(other.path)
            fact = f"{path!r} is also the path of tenant {tenant!r} of '{rule.agent}' ({findings.line(at)})"
            place = (*where, "path") if len(where) > 2 else where
            findings.error(place, fact, "give one of the two another path, or the tenant another name")


def _check_paths_of_tenants(rule: Rule, at: KeyPath, others: list[PlacedRule], findings: Findings) -> None:
    names = sorted({one.agent for one, _ in others if one.agent != rule.agent and _hosts_overlap(rule.host, one.host)})
    if names:
        others_shown = listed(names, _SHOWN)
        fact = (
            f"its tenants share their paths with other agents ({others_shown}): a tenant of such a name is not reached"
        )
        findings.warning(at, fact, "give the agent a path of its own, below which there is no other")


def _hosts_overlap(one: str | None, other: str | None) -> bool:
    if one is None or other is None or one == other:
        return True
    pairs = ((one, other), (other, one))
    return any(pattern.startswith("*.") and name.endswith(pattern[1:]) for pattern, name in pairs)


# ---- gRPC ------------------------------------------------------------------------------------------------------------


def _check_grpc(
    config: Config, agents: Mapping[str, AgentRules], reached_by: Mapping[str, Reach], findings: Findings
) -> None:
    """Find agents that list gRPC on their cards but cannot be reached over it, for some tenant, for want of paths."""
    listing = {name for name, agent in config.agents.items() if "grpc" in agent.expose}
    grpc_rules = GrpcRules.build(agents)
    alike: dict[object, list[Rule]] = {}
    for rule in grpc_rules.rules():
        alike.setdefault(rule.conditions, []).append(rule)
    named = [rule for rule in grpc_rules.rules() if rule.tenant is not None]
    for agent in agents.values():
        _check_grpc_credentials(config, agent, named, reached_by, findings)
        _check_grpc_host(agent, grpc_rules, findings, listed=agent.name in listing)
    reached = {name for name in listing & agents.keys() if _check_grpc_reachable(agents[name], grpc_rules, findings)}
    for rule in grpc_rules.rules():
        if rule.agent in reached and agents[rule.agent].by_tenant and grpc_rules.written(rule).tenant is None:
            _check_grpc_tenant(rule, alike[rule.conditions], grpc_rules, findings)
    for name in (name for name in config.agents if name in reached):
        _check_grpc_any_tenant(agents[name], grpc_rules, named, findings)


def _check_grpc_reachable(agent: AgentRules, grpc_rules: GrpcRules, findings: Findings) -> bool:
    """Return whether some match of an agent has an address; warn where none has."""
    obstacles = [grpc_rules.obstacle(rule) for rule in agent.rules]
    first = obstacles[0]
    if first is None or None in obstacles:
        return True
    if all(rule.by_skill for rule in agent.rules):
        fact = "no client of gRPC can reach it: a skill picks it, and calls over gRPC cannot name one"
        remedy = "add a match without a skill, or leave `grpc` out of `expose`"
        findings.error(("agents", agent.name, "expose"), fact, remedy)
        return False
    fact = f"clients of gRPC cannot reach it: {first.why}"
    if first.rival is not None:
        fact += f" ({findings.line_of(first.rival.place)})"
    keys = "`key` or `claim`" if agent.by_tenant or agent.require_tenant else "another `tenant`"
    remedy = f"give it a match with {keys}, or leave `grpc` out of `expose`"
    findings.warning(("agents", agent.name, "expose"), fact, remedy)
    return False


def _check_grpc_host(agent: AgentRules, grpc_rules: GrpcRules, findings: Findings, *, listed: bool) -> None:
    """Warn of a host that picks an agent over HTTP and would be expected to over gRPC."""
    number = next((at for at, rule in enumerate(agent.rules) if rule.host is not None), None)
    if number is None or not (listed or all(rule.host and not rule.conditions for rule in agent.rules)):
        return
    address = grpc_rules.address(agent.rules[number])
    if address is None:
        remedy = "give the agent a match with a `tenant`, `key` or `claim`"
    elif address.tenant is None:
        remedy = "clients of gRPC need the credential that the match asks for; add a match without `host` to say so"
    else:
        remedy = f"clients of gRPC name the tenant {address.tenant!r}; add a match without `host` to say so"
    fact = "over gRPC no host picks an agent: it is not seen there"
    findings.warning(("agents", agent.name, "match", number, "host"), fact, remedy)


def _check_grpc_tenant(rule: Rule, there: list[Rule], grpc_rules: GrpcRules, findings: Findings) -> None:
    """Warn of a tenant of a `by_tenant` agent that another agent's match asks for."""
    rival = next((other for other in there if other.agent != rule.agent), None)
    if rule.tenant is None or rival is None:
        return
    line = findings.line_of(grpc_rules.written(rival).place)
    fact = f"clients of gRPC cannot reach this backend: {rival.agent!r} asks for tenant {rule.tenant!r} too ({line})"
    remedy = "give one of the two tenants another name"
    findings.warning(("agents", rule.agent, "by_tenant", rule.tenant), fact, remedy)


def _check_grpc_any_tenant(agent: AgentRules, grpc_rules: GrpcRules, named: list[Rule], findings: Findings) -> None:
    """Warn of an agent that takes any tenant, and is found beside others that tenants pick."""
    if agent.by_tenant or not agent.tenanted:
        return
    addresses = [address for rule in agent.rules if (address := grpc_rules.address(rule)) is not None]
    if all(address.tenant is not None for address in addresses):
        return
    names = listed((str(rule.tenant) for rule in named if rule.agent != agent.name), _SHOWN)
    if names:
        fact = f"over gRPC its tenants share the field with other agents ({names}): one of such a name is not reached"
        remedy = "give the agent a `key` or `claim`, or leave `grpc` out of `expose`"
        findings.warning(("agents", agent.name, "expose"), fact, remedy)


def _check_grpc_credentials(
    config: Config,
    agent: AgentRules,
    named: list[Rule],
    reached: Mapping[str, Reach],
    findings: Findings,
) -> None:
    """Warn of a credential that picks this agent for any tenant, so that its callers cannot name another one."""
    if not (agent.by_tenant or agent.tenanted):
        return
    for number, match in enumerate(config.agents[agent.name].match):
        rule = agent.rules[number]
        if not rule.path or rule.tenant is not None or not rule.conditions:
            continue
        may = _agents_of_key(config, match.key, reached)
        others = dict.fromkeys(
            other.agent
            for other in named
            if other.agent != agent.name
            and not rule.conditions <= other.conditions
            and (may is None or other.agent in may)
        )
        if others:
            written = "claim" if match.key is None else "key"
            names = listed(others, _SHOWN)
            fact = f"over gRPC it picks {agent.name!r} for every tenant name: it cannot reach other agents ({names})"
            remedy = "give its callers another credential for the others"
            findings.warning(("agents", agent.name, "match", number, written), fact, remedy)


def _agents_of_key(config: Config, key: str | None, reached: Mapping[str, Reach]) -> frozenset[str] | None:
    """Return the agents that the callers with an API key may call; None if unknown."""
    api_key = None if config.auth is None or key is None else config.auth.api_keys.get(key)
    if api_key is None:
        return None
    may = reached.get(api_key.tenant, reached.get(EVERYONE))
    agents = frozenset[str]() if may is None else may.agents
    return agents if api_key.agents is None else agents & frozenset(api_key.agents)


# ---- disclosure ------------------------------------------------------------------------------------------------------


_FEW = 3
"""Tenants that a message names."""


def _check_disclosure(
    config: Config,
    agents: Mapping[str, AgentRules],
    written: list[PlacedRule],
    reached: Mapping[str, Reach],
    findings: Findings,
) -> None:
    """Find general agents whose answers disclose the names of tenants.

    At an endpoint that an agent without conditions shares with agents for tenants, a call for an unknown tenant reaches
    the general agent, and a call for a tenant out of reach is refused. Over gRPC that is so only if the general agent
    takes any tenant; names of agents are tenants there, too.
    """
    callers: dict[str, set[str]] = {}
    for tenant, may in reached.items():
        for agent in may.agents:
            callers.setdefault(agent, set()).add(tenant)
    disclosing = set()
    for rule, at, hidden in _disclosing_rules(config, written, callers, reached):
        disclosing.add(rule.agent)
        findings.warning(at, _disclosure_fact(hidden), "give this agent a path of its own, or a `tenant` in its match")
    if config.gateway.listen_grpc is None:
        return
    endpoints = GrpcRules.build(agents)
    paths = dict(written)
    rules = [(rule, paths[endpoints.written(rule)]) for rule in endpoints.rules()]
    for rule, at, hidden in _disclosing_rules(config, rules, callers, reached):
        if agents[rule.agent].tenanted and rule.agent not in disclosing:
            findings.warning(at, f"over gRPC {_disclosure_fact(hidden)}", "give this agent a `key` or `claim`")


def _disclosing_rules(
    config: Config,
    rules: Iterable[PlacedRule],
    callers: Mapping[str, set[str]],
    reached: Mapping[str, Reach],
) -> Iterator[tuple[Rule, KeyPath, list[Rule]]]:
    """Yield general rules, each with the rules for tenants beside it that some of its callers may not reach."""
    general: list[tuple[Rule, KeyPath]] = []
    tenanted: dict[tuple[object, ...], list[Rule]] = {}
    for rule, at in rules:
        if not rule.conditions and not config.agents[rule.agent].by_tenant:
            # With `by_tenant` an unknown tenant is refused as a hidden one is.
            general.append((rule, at))
        elif rule.conditions == {("tenant", rule.tenant)}:
            tenanted.setdefault((rule.host, rule.path), []).append(rule)
    for rule, at in general:
        here = callers.get(rule.agent, set())
        hidden = [
            one
            for one in tenanted.get((rule.host, rule.path), ())
            if one.agent != rule.agent
            and not here <= _answered_callers(config, one, callers.get(one.agent, set()), reached)
        ]
        if hidden:
            yield rule, at, hidden


def _answered_callers(config: Config, rule: Rule, callers: set[str], reached: Mapping[str, Reach]) -> set[str]:
    """Return the callers of an agent that it answers for the tenant of the rule."""
    if not config.agents[rule.agent].by_tenant:
        return callers
    return {
        caller
        for caller in callers
        if caller == rule.tenant or (acts := reached[caller].act_for) is None or rule.tenant in acts
    }


def _disclosure_fact(hidden: list[Rule]) -> str:
    names = listed((f"{printable(str(rule.tenant))!r} of {rule.agent!r}" for rule in hidden), _FEW)
    return f"callers can tell that tenants exist which they may not reach ({names}): an unknown one is answered here"


# ---- tests ----------------------------------------------------------------------------------------------------------

_METHODS = ("GET", "HEAD", "POST", "DELETE")


def _check_tests(config: Config, findings: Findings) -> None:
    for number, test in enumerate(config.tests):
        at: KeyPath = ("tests", number)
        _check_caller(config, test, at, findings)
        if test.expect.agent is not None:
            findings.check_known((*at, "expect", "agent"), test.expect.agent, config.agents, "agent")
        if test.expect.reason is not None and test.expect.reason not in REASONS:
            remedy = nearest(test.expect.reason, REASONS) or f"reasons are: {', '.join(REASONS)}"
            findings.error((*at, "expect", "reason"), f"{printable(test.expect.reason)!r} is no reason", remedy)
        if test.expect.reason is not None and (test.expect.agent or test.expect.backend):
            remedy = "expect an agent, or the reason why none answers"
            findings.error((*at, "expect", "reason"), "a refusal has no agent", remedy)
        if test.request.method not in _METHODS:
            remedy = f"write one of {', '.join(_METHODS)}"
            findings.error(
                (*at, "request", "method"), f"{printable(test.request.method)!r} is no method of A2A", remedy
            )
        if host_named(test.request.host or "") is None:
            fact = f"{printable(test.request.host or '')!r} is no host"
            findings.error((*at, "request", "host"), fact, "write a name, such as agents.example.com")


def _check_caller(config: Config, test: RouteTest, at: KeyPath, findings: Findings) -> None:
    if test.certificate is not None:
        _check_certificate(config, test, test.certificate, at, findings)
    elif test.key is not None:
        findings.check_known((*at, "key"), test.key, {} if config.auth is None else config.auth.api_keys, "API key")
        if test.tenant is not None or test.claim:
            findings.error((*at, "key"), "a caller shows a key or a token, not both", "remove `tenant` and `claim`")
    elif test.claim and test.tenant is None:
        findings.error((*at, "claim"), "no caller has these claims", "add the caller's `tenant`")


def _check_certificate(config: Config, test: RouteTest, name: str, at: KeyPath, findings: Findings) -> None:
    if test.key is not None or test.tenant is not None or test.claim:
        remedy = "remove `key`, `tenant` and `claim`"
        findings.error((*at, "certificate"), "the certificate determines the caller, and another one is given", remedy)
        return
    try:
        caller_with_certificate(config, name)
    except UnknownClient as error:
        remedy = "write a name that one of `auth.mtls.clients` fits, or CN=… for a common name"
        findings.error((*at, "certificate"), f"no client has this certificate: {error}", remedy)
    except ValueError:
        # An invalid pattern is reported at its place.
        return
