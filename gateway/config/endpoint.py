"""Where agents are found: the grammar of matches, and matches that stand in each other's way.

Every check is a look-up by (host, path, conditions), so that a thousand agents cost a thousand look-ups.

What counts as hidden is what can be told from the file alone (design §6.2): a `by_tenant` entry that no match lets
through, one that a match of another agent with the same keys and that `tenant` takes over, and a match that asks for
a `tenant` its own agent has no backend for. A match that wins less often than its author thinks is not told apart
from one that is meant so.
"""

import re
from collections.abc import Iterator

from gateway.a2a.tenant import RESERVED, fits_path
from gateway.config.agent import Agent
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable
from gateway.config.routes import agent_rules
from gateway.routing.route import AgentRules, Rule

_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")

Found = tuple[Rule, KeyPath]
"""A rule, and the path in the file that it comes from."""


def check_endpoints(config: Config, findings: Findings) -> None:
    """Find what is wrong with the matches of all agents."""
    agents: dict[str, AgentRules] = {}
    found: list[Found] = []
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        _grammar(agent, at, findings)
        agents[name] = agent_rules(name, agent, findings.marks)
        paths = [(*at, "match", number) for number in range(len(agent.match))] or [at]
        found += zip(agents[name].rules, paths, strict=True)
        _own_tenants(agent, at, findings)
    _overlaps(agents, found, findings)


def _grammar(agent: Agent, at: KeyPath, findings: Findings) -> None:
    if not agent.match and "match" in agent.model_fields_set:
        findings.error((*at, "match"), "there is no match in the list", "write one, or leave `match` out")
    for number, match in enumerate(agent.match):
        here: KeyPath = (*at, "match", number)
        if not match.model_fields_set:
            remedy = "write `path: /` where it is meant to take everything that no other match takes"
            findings.error(here, "the match is empty", remedy)
        if match.path is not None:
            _path(match.path, (*here, "path"), findings)
        if match.host is not None and (len(match.host) > 253 or _HOST.fullmatch(match.host) is None):
            remedy = "write a name in lower case without a port: `agents.example.com` or `*.example.com`"
            findings.error((*here, "host"), f"{printable(match.host)!r} is no host", remedy)
        if not match.claim and "claim" in match.model_fields_set:
            findings.error((*here, "claim"), "there is no claim", "write `claim: {NAME: VALUE}`")
        if match.key is not None and match.claim:
            fact = "no caller can show both: claims come with a token, and two credentials in one request are refused"
            findings.warning(here, fact, "make two matches of it, one with `key`, one with `claim`")


def _path(path: str, at: KeyPath, findings: Findings) -> None:
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
        elif _SEGMENT.fullmatch(segment) is None:
            remedy = "segments have letters, digits and . _ ~ -"
            findings.error(at, f"{shown} has a segment with other characters", remedy)
        else:
            continue
        return


def _own_tenants(agent: Agent, at: KeyPath, findings: Findings) -> None:
    """Matches and `by_tenant` entries of one agent that cannot meet."""
    if not agent.by_tenant or not agent.match:
        return
    asked = [match.tenant for match in agent.match]
    for number, tenant in enumerate(asked):
        if tenant is not None and tenant not in agent.by_tenant:
            fact = f"the match can never answer: `by_tenant` has no {tenant!r}"
            findings.error((*at, "match", number, "tenant"), fact, "leave `tenant` out, or add it to `by_tenant`")
    if None in asked:
        return
    for tenant in agent.by_tenant:
        if tenant not in asked:
            fact = f"nothing reaches this backend: every match asks for another tenant than {tenant!r}"
            findings.error_at_key(
                (*at, "by_tenant", tenant), fact, "leave `tenant` out of a match, or remove the entry"
            )


# ---- matches of several agents -------------------------------------------------------------------------------------


def _overlaps(agents: dict[str, AgentRules], found: list[Found], findings: Findings) -> None:
    first: dict[tuple[object, ...], Found] = {}
    by_path: dict[tuple[str, ...], list[Found]] = {}
    by_parent: dict[tuple[str, ...], list[Found]] = {}
    for rule, at in found:
        same = first.setdefault((rule.host, rule.path, rule.conditions), (rule, at))
        if same[0] is not rule:
            other = "another match of its own" if same[0].agent == rule.agent else f"'{same[0].agent}'"
            fact = f"{_spelled(rule)} is also what {other} matches ({findings.line(same[1])})"
            findings.error(at, fact, "give one of them another path or host, or a `key`, `claim` or `tenant`")
        by_path.setdefault(rule.path, []).append((rule, at))
        if rule.path:
            by_parent.setdefault(rule.path[:-1], []).append((rule, at))
    for rule, at in found:
        agent = agents[rule.agent]
        for tenant in _tenants(rule, agent):
            _hidden(rule, at, tenant, first, findings)
            if fits_path(tenant):
                _taken(rule, at, tenant, by_path.get((*rule.path, tenant), []), findings)
        if agent.tenanted and rule.tenant is None and not agent.by_tenant:
            _maybe_taken(rule, at, by_parent.get(rule.path, []), findings)


def _tenants(rule: Rule, agent: AgentRules) -> Iterator[str]:
    """The tenants that the rule is for."""
    if rule.tenant is not None:
        yield rule.tenant
    elif agent.by_tenant:
        yield from (tenant for tenant in agent.routes if tenant is not None)


def _hidden(
    rule: Rule, at: KeyPath, tenant: str, first: dict[tuple[object, ...], Found], findings: Findings
) -> None:  # fmt: skip
    if rule.tenant is not None:
        return
    other = first.get((rule.host, rule.path, rule.conditions | {("tenant", tenant)}))
    if other is not None and other[0].agent != rule.agent:
        fact = f"the backend of tenant {tenant!r} is hidden: '{other[0].agent}' matches it ({findings.line(other[1])})"
        entry: KeyPath = (*at[:2], "by_tenant", tenant)
        findings.error_at_key(entry, fact, "remove one of the two, or give them different paths")


def _taken(rule: Rule, at: KeyPath, tenant: str, others: list[Found], findings: Findings) -> None:
    for other, where in others:
        if other.agent != rule.agent and _hosts_meet(rule.host, other.host):
            path = "/" + "/".join(other.path)
            fact = f"{path!r} is also the path of tenant {tenant!r} of '{rule.agent}' ({findings.line(at)})"
            place = (*where, "path") if len(where) > 2 else where
            findings.error(place, fact, "give one of the two another path, or the tenant another name")


def _maybe_taken(rule: Rule, at: KeyPath, others: list[Found], findings: Findings) -> None:
    names = sorted({one.agent for one, _ in others if one.agent != rule.agent and _hosts_meet(rule.host, one.host)})
    if names:
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        fact = f"its tenants share their paths with other agents ({listed}): a tenant of such a name is not reached"
        findings.warning(at, fact, "give the agent a path of its own, below which there is no other")


def _hosts_meet(one: str | None, other: str | None) -> bool:
    if one is None or other is None or one == other:
        return True
    for pattern, name in ((one, other), (other, one)):
        if pattern.startswith("*.") and name.endswith(pattern[1:]):
            return True
    return False


def _spelled(rule: Rule) -> str:
    path = "/" + "/".join(rule.path)
    return f"'{rule.host or ''}{path}'" + (" with the same keys" if rule.conditions else "")
