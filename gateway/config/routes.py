"""Routing of a configuration: its rules, rights of tenants and shared backends, and the explanation of a route.

`routing_table` builds the table; `explain_request` asks it for `a2a-gateway route` and `POST /-/route`, and
`failed_tests` for the routing tests of the file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.fault import BadRequest
from gateway.a2a.paths import segments
from gateway.config import effective
from gateway.config.agent import Agent, Backend, Match, backends, is_stdio
from gateway.config.model import Config, RouteTest
from gateway.config.problem import KeyPath, Problem
from gateway.config.yaml import Marks
from gateway.identity.client_names import ClientName, Clients, UnknownClient
from gateway.network.address import same_place
from gateway.principal import ANONYMOUS_TENANT, Principal
from gateway.routing.endpoint import claim_condition, host_named
from gateway.routing.explain import Inquiry, Question, RouteAnswer, ask
from gateway.routing.route import SKILL, AgentRules, Reach, Requirement, Route, Rule, Verdict, backend_key
from gateway.routing.skills import NO_RANKING, Ranking
from gateway.routing.table import Table, path_segments
from gateway.telemetry.log_output import printable

# ---- rules -----------------------------------------------------------------------------------------------------------


def routing_table(config: Config, marks: Marks) -> Table:
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
    place = marks.key(("agents", name))
    found = tuple(
        Rule(
            agent=name,
            host=match.host,
            path=() if match.path is None else path_segments(match.path),
            conditions=conditions(match),
            place=marks.place(("agents", name, "match", number)),
        )
        for number, match in enumerate(agent.match)
    )
    written: dict[str | None, tuple[Backend, ...]] = {tenant: own.backend for tenant, own in agent.by_tenant.items()}
    written[None] = agent.backend
    return AgentRules(
        name=name,
        rules=found or (Rule(name, None, (name,), frozenset(), place),),
        routes={
            tenant: Route(name, backend_key(name, tenant), urls[0], tenant, urls[1:])
            for tenant, backend in written.items()
            if (urls := tuple(one.url for one in backend))
        },
        place=place,
        require_tenant=agent.require_tenant,
        tenanted=agent.require_tenant or agent.upstream_tenant not in (None, "strip"),
        public=agent.visibility != "private",
        listed=agent.visibility == "listed",
        requirement=None
        if agent.require is None
        else Requirement(agent.require.scope, agent.require.role, tuple(agent.require.claim.items())),
    )


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
    without_allow = frozenset(name for name, agent in config.agents.items() if agent.allow is None)
    allowing: dict[str, set[str]] = {}
    for name, agent in config.agents.items():
        for tenant in agent.allow or ():
            allowing.setdefault(tenant, set()).add(name)
    reached: dict[str, Reach] = {}
    for tenant, entry in config.tenants.items():
        allowed = frozenset(allowing.get(tenant, ())).union(allowing.get(EVERYONE, ()))
        if entry.agents is not None:
            every = without_allow | allowed
            allowed = every if EVERYONE in entry.agents else every.intersection(entry.agents)
        reached[tenant] = Reach(allowed, frozenset(entry.act_for))
    if config.auth is None and ANONYMOUS_TENANT not in config.tenants:
        every = frozenset(name for name, agent in config.agents.items() if lets_in(agent, ANONYMOUS_TENANT))
        reached[ANONYMOUS_TENANT] = Reach(every, None)
    return reached


def lets_in(agent: Agent, tenant: str) -> bool:
    """Return whether the agent's own `allow` keeps a tenant out or not."""
    return agent.allow is None or tenant in agent.allow or EVERYONE in agent.allow


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
    callers: dict[str, set[str]] = {}
    for tenant, may in reached.items():
        for name in may.agents:
            callers.setdefault(name, set()).add(tenant)
    for name, agent in config.agents.items():
        may_call = frozenset(callers.get(name, ()))
        for backend, at in backends(agent, ("agents", name)):
            own = str(at[3]) if at[2] == "by_tenant" else None
            who = may_call if own is None else frozenset(_callers_of(own, may_call, reached))
            # A command is run for each that has it.
            place = str(at) if is_stdio(backend.url) else same_place(backend.url)
            key, here = (name, ("agents", name)) if own is None else (backend_key(name, own), at[:4])
            by_place.setdefault(place, []).append(Share(name, key, here, who))
    return [tuple(parts) for parts in by_place.values()]


def _callers_of(tenant: str, may_call: frozenset[str], reached: Mapping[str, Reach]) -> Iterator[str]:
    """Yield the tenants that may use the `by_tenant` backend of a tenant: itself, and those that act for it."""
    for caller in may_call:
        act_for = reached[caller].act_for
        if caller == tenant or act_for is None or tenant in act_for:
            yield caller
    if tenant not in reached and EVERYONE in may_call:
        yield tenant


# ---- explain ---------------------------------------------------------------------------------------------------------


def public_prefix(config: Config) -> tuple[str, ...]:
    """Return the segments that the paths of incoming requests have before anything of the gateway's."""
    if config.gateway.prefix_stripped or config.gateway.public_url is None:
        return ()
    return path_segments(urlsplit(config.gateway.public_url).path)


def advice(config: Config, path: str) -> str:
    """Return a hint for a path that leads nowhere.

    The path is missing, not below the public one, or of gRPC, which is not served. Empty for any other path.
    """
    if path in BY_PATH:
        served = config.gateway.listen_grpc is not None
        return "" if served else "this is a method of gRPC, and there is no `gateway.listen_grpc`"
    if path and not path.startswith("/"):
        meant = urlsplit(path).path if path.startswith(("http://", "https://")) else "/" + path
        return f"a path starts with a slash: write {printable(meant or '/')}"
    prefix = public_prefix(config)
    raw, mark, query = path.partition("?")
    try:
        inside = segments(raw.encode("utf-8", "surrogatepass"))[: len(prefix)] == prefix
    except BadRequest:
        return ""
    if inside:
        return ""
    front = "/" + "/".join(prefix)
    would_be = front + ("" if raw == "/" else raw) + mark + query
    return (
        f"the path lacks {front}, the path of `public_url`: clients send {printable(would_be)}; "
        "where something in front removes it, write `gateway.prefix_stripped: true`"
    )


def caller(config: Config, inquiry: Inquiry) -> Principal | None:
    """Return the caller of an inquiry; None for an anonymous caller that the configuration does not admit.

    A certificate takes precedence over an API key, and a key over a tenant.

    Raises:
        KeyError: the file has no such key.
        UnknownClient: No client has a certificate with this name.
    """
    key, tenant = inquiry.key, inquiry.as_
    if inquiry.certificate is not None:
        return caller_with_certificate(config, inquiry.certificate)
    if key is not None:
        known = {} if config.auth is None else config.auth.api_keys
        shown = known[key]
        narrowed = None if shown.agents is None else frozenset(shown.agents)
        return Principal(shown.tenant, key, "api_key", key=key, narrowed=narrowed)
    if tenant is not None and tenant != ANONYMOUS_TENANT:
        return Principal(tenant, method="jwt", claims=dict(inquiry.claim))
    if config.auth is None or config.gateway.anonymous:
        return Principal(ANONYMOUS_TENANT)
    return None


def caller_with_certificate(config: Config, subject: str) -> Principal:
    """Return the caller with a certificate that has only this name."""
    mtls = None if config.auth is None else config.auth.mtls
    if mtls is None:
        raise UnknownClient("there is no `auth.mtls`")
    name = ClientName.read(subject)
    match = Clients(mtls.as_settings().clients).find([name])
    san = () if name.kind == "common_name" else (name.text,)
    return match.principal({"san": san, "client": match.client})


# ---- the tests of the file -----------------------------------------------------------------------------------------


def failed_tests(config: Config, table: Table, marks: Marks) -> Iterator[Problem]:
    """Run the tests; each that fails is a problem at its expectation.

    The configuration has no errors: every name that a test has is known.
    """
    for number, test in enumerate(config.tests):
        answer = _run_test(config, table, test)
        request, verdict = test.request, answer.verdict
        if answer.endpoint is not None and answer.endpoint.skills:
            at: KeyPath = ("tests", number, "request")
            fact = f"the test {printable(test.name)!r} cannot run: a skill picks the agent, and cards are not read here"
            remedy = "remove the test; ask the gateway that runs, by `POST /-/route`"
            yield Problem(marks.place(at), marks.find(at), fact, remedy)
        elif not _is_expected(test, verdict):
            at = ("tests", number, "expect")
            target = " at ".join(part for part in (test.expect.agent, test.expect.backend) if part is not None)
            expected = test.expect.reason or target
            fact = f"the test {printable(test.name)!r} fails: expected {expected}, got {_describe(verdict)}"
            candidates = "; ".join(f"{one.rule.agent} ({one.rule.place}): {one.why}" for one in verdict.candidates[:4])
            none = "no agent is found at this path; `a2a-gateway route --explain` shows all"
            remedy = advice(config, request.path) or candidates or none
            yield Problem(marks.place(at), marks.find(at), fact, remedy)


def untested_matches(config: Config, table: Table) -> dict[str, list[str]]:
    """Return the agents that a caller can reach by a match that no test of the file takes, with the matches' places."""
    found_by = (_run_test(config, table, test).verdict.rule for test in config.tests)
    taken = {table.written(rule) for rule in found_by if rule is not None}
    untested: dict[str, list[str]] = {}
    for rule in table.rules():
        if rule not in taken:
            untested.setdefault(rule.agent, []).append(str(rule.place))
    return untested


def _run_test(config: Config, table: Table, test: RouteTest) -> RouteAnswer:
    request = test.request
    inquiry = Inquiry(
        request.path, request.method, request.tenant, test.tenant, test.key, test.certificate, request.host, test.claim
    )
    return ask(table, _question(inquiry, caller(config, inquiry)), prefix=public_prefix(config))


def _question(inquiry: Inquiry, who: Principal | None) -> Question:
    return Question(inquiry.path, inquiry.method, inquiry.host or "", inquiry.tenant, who)


def _is_expected(test: RouteTest, verdict: Verdict) -> bool:
    expect, route = test.expect, verdict.route
    if route is None:
        return expect.reason == verdict.reason
    if expect.reason is not None or expect.agent not in (None, route.agent):
        return False
    return expect.backend is None or expect.backend.rstrip("/") in {
        url.rstrip("/") for url in (route.url, *route.others)
    }


def _describe(verdict: Verdict) -> str:
    if verdict.signs_in:
        return "a card that says how to sign in"
    return f"{verdict.route.agent} at {verdict.route.url}" if verdict.route is not None else str(verdict.reason)


# ---- questions of operators ------------------------------------------------------------------------------------------


def explain_request(
    config: Config, table: Table, inquiry: Inquiry, *, everything: bool = False, ranking: Ranking = NO_RANKING
) -> dict[str, Any]:
    """Return the agent and the backend that answer, or the reason why none does, with every candidate explained.

    Args:
        everything: Explain every match of every agent, not only those at the endpoint.
        ranking: The agents that have a skill.

    Raises:
        LookupError: there can be no such caller or no such request; the text is for the operator.
    """
    try:
        who = caller(config, inquiry)
    except UnknownClient as error:
        raise LookupError(f"no client has this certificate: {error}") from error
    except KeyError as error:
        raise LookupError(f"there is no API key {inquiry.key!r} in the configuration") from error
    _check_caller(inquiry, who)
    _check_request(inquiry)
    prefix = public_prefix(config)
    answer = ask(table, _question(inquiry, who), prefix=prefix, everything=everything, ranking=ranking)
    verdict = answer.verdict
    route, rule = verdict.route, verdict.rule
    return {
        "agent": None if route is None else route.agent,
        "backend": None if route is None else route.url,
        "reason": verdict.reason,
        "status": 200 if verdict.fault is None else verdict.fault.http_status,
        "hint": _hint(config, inquiry, answer) or None,
        "match_line": None if rule is None else str(rule.place),
        "caller": None if who is None else {"tenant": who.tenant, "method": who.method, "key": who.key},
        "candidates": [
            {
                "agent": each.rule.agent,
                "line": str(each.rule.place),
                "taken": each.taken,
                "why": each.why,
                **({} if each.score is None else {"score": each.score}),
            }
            for each in verdict.candidates
        ],
    }


def _hint(config: Config, inquiry: Inquiry, answer: RouteAnswer) -> str:
    if answer.verdict.route is not None:
        return ""
    if answer.verdict.signs_in:
        return "several agents are here for callers with a credential: a stranger reads a card that says how to sign in"
    return advice(config, inquiry.path) or answer.fact


def _check_caller(inquiry: Inquiry, who: Principal | None) -> None:
    """Check that one caller can have all of these credentials.

    Raises:
        LookupError: it cannot.
    """
    if inquiry.certificate is not None and (inquiry.key or inquiry.as_ or inquiry.claim):
        raise LookupError("the certificate determines the caller: give no key, tenant or claims with it")
    if inquiry.key is not None and who is not None:
        if inquiry.as_ is not None and inquiry.as_ != who.tenant:
            whose = f"the API key {inquiry.key!r} is of the tenant {who.tenant!r}, not of {inquiry.as_!r}"
            raise LookupError(f"{whose}: name one of the two")
        if inquiry.claim:
            raise LookupError("a caller shows a key or a token, not both: claims come with a token, so name no key")
    elif inquiry.claim and (inquiry.as_ is None or who is None or who.method == "anonymous"):
        raise LookupError("no caller has these claims: they come with a token, so name the tenant that it is of")


def _check_request(inquiry: Inquiry) -> None:
    """Check that a client could send such a request at all.

    Raises:
        LookupError: it could not.
    """
    if _METHOD.fullmatch(inquiry.method) is None:
        meant = inquiry.method.upper()
        remedy = f"write {meant}" if _METHOD.fullmatch(meant) is not None else "write POST or GET"
        raise LookupError(f"{printable(inquiry.method)!r} is no method of HTTP: {remedy}")
    if host_named(inquiry.host or "") is None:
        raise LookupError(f"{printable(inquiry.host or '')!r} is no host: write a name, such as agents.example.com")


# As the listener reads them.
_METHOD = re.compile("[A-Z][A-Z-]{0,31}")
