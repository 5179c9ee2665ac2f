"""Explains the route of a request without sending it: for the command line, the admin port and `tests:` in the file.

An inquiry takes the same steps as traffic: the same parser reads the path, the same table applies the rules. If gRPC is
served, the path of a gRPC method (`/lf.a2a.v1.A2AService/SendMessage`) is resolved as for a gRPC client.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod
from gateway.a2a.dialect import Version
from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    BadRequest,
    Fault,
    InsufficientScope,
    MethodNotAllowed,
    NotAdmitted,
)
from gateway.a2a.operation import Operation
from gateway.a2a.params import agreed, of_card, split_query
from gateway.a2a.paths import WRONG_NAME, PathCall, is_tenant, read_rest, segments
from gateway.principal import Principal
from gateway.routing.endpoint import Condition, Endpoint, host_named, patterns, unmet
from gateway.routing.route import Candidate, RoutingInput, Rule, Verdict
from gateway.routing.skills import NO_RANKING, Ranked, Ranking, choose
from gateway.routing.table import Table


class Inquiry(msgspec.Struct, forbid_unknown_fields=True):
    """An inquiry of an operator.

    Attributes:
        path: As a client sends it; over gRPC that of a method.
        tenant: The A2A `tenant` field, or the `scope` of a method that has one.
        as_: The caller's tenant, proven by a token with `claim`; a stranger where neither this nor `key` nor
            `certificate` is given.
        key: The name of the API key that the caller shows.
        certificate: The name on the certificate that it shows: a URI, a DNS name or `CN=…`.
    """

    path: str
    method: str = "POST"
    tenant: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    key: str | None = None
    certificate: str | None = None
    host: str | None = None
    claim: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Question:
    """The parts of a request that routing uses.

    Attributes:
        path: As in a request, the public prefix in front; its query may name the tenant too. For gRPC that of a method,
            alone.
        host: The host that is named, over gRPC the authority.
        tenant: The A2A `tenant` field in the body or the query, or None; the `scope` of a method that has one.
        principal: The caller, or None for a stranger.
    """

    path: str
    method: str = "POST"
    host: str = ""
    tenant: str | None = None
    principal: Principal | None = None


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """The answer to an inquiry.

    Attributes:
        operation: The operation that the path names in HTTP+JSON or gRPC; None for JSON-RPC.
        fact: The fault of the request itself, if no rule was evaluated; else empty.
    """

    verdict: Verdict
    endpoint: Endpoint | None = None
    operation: Operation | None = None
    tenant: str | None = None
    fact: str = ""


def ask(
    table: Table,
    question: Question,
    *,
    prefix: tuple[str, ...] = (),
    everything: bool = False,
    ranking: Ranking = NO_RANKING,
) -> RouteAnswer:
    """Resolve an inquiry, with every candidate explained.

    Args:
        prefix: Segments of the public path, which a request carries in front of everything.
        everything: Explain every rule of every agent, not only those at the endpoint.
        ranking: The agents that have a skill.
    """
    host = host_named(question.host)
    if host is None:
        return RouteAnswer(Verdict(None, BadRequest), fact="the Host header names no host")
    method = BY_PATH.get(question.path) if table.grpc and question.method == "POST" else None
    if method is not None:
        return _ask_grpc(table, question, method, everything=everything)
    raw, _, query = question.path.encode("utf-8", "surrogatepass").partition(b"?")
    try:
        path = segments(raw)
        queried, _ = split_query(query)
    except BadRequest as wrong:
        return RouteAnswer(Verdict(None, BadRequest), fact=wrong.message)
    inside = path[: len(prefix)] == prefix
    path = path[len(prefix) :] if inside else path
    endpoint = table.locate(host, path) if inside else None
    try:
        rest = None if endpoint is None else _rest(question.method, path, endpoint)
    except BadRequest as wrong:
        return RouteAnswer(Verdict(None, BadRequest), endpoint, fact=wrong.message)
    card = rest is not None and rest.card is not None
    try:
        if card and rest is not None:
            rest, queried = of_card(rest, query), None
        named = _tenant(question.tenant or None, queried, None if rest is None else rest.tenant)
    except BadParams as wrong:
        return RouteAnswer(Verdict(None, BadParams), endpoint, fact=wrong.message)
    request = RoutingInput(path, host, named, question.principal)
    request = _with_best(table, ranking, endpoint, request, card=card)
    verdict = explain(table, endpoint, request, everything=everything, card=card, ranking=ranking)
    if not inside:
        below = "/" + "/".join(prefix)
        verdict = _refused(verdict, verdict.fault, f"is below {below}, and the path is not")
    if endpoint is not None and rest is None:
        # The endpoint exists, but not this path below it: every caller gets the answer of a missing endpoint.
        fault = table.resolve(None, request).fault
        why = "is here, but what follows in the path names nothing of A2A"
        verdict = _refused(verdict, fault, why, frozenset(endpoint.rules))
    if rest is not None and rest.allowed and verdict.route is not None and verdict.rule is not None:
        why = f"all it asks for holds, but the path is for {', '.join(rest.allowed)} only"
        refused = _refused(verdict, MethodNotAllowed, why, frozenset([verdict.rule]))
        verdict = Verdict(None, MethodNotAllowed, verdict.rule, refused.candidates)
    return RouteAnswer(verdict, endpoint, None if rest is None else rest.operation, named)


def _with_best(
    table: Table, ranking: Ranking, endpoint: Endpoint | None, request: RoutingInput, *, card: bool
) -> RoutingInput:
    """Return the request with the best agent for each skill that the endpoint asks for."""
    if endpoint is None or not endpoint.skills:
        return request
    request = structs.replace(request, skill=endpoint.skill_of(request.path))
    return choose(table, ranking, endpoint, request, card=card)


def _ask_grpc(table: Table, question: Question, method: GrpcMethod, *, everything: bool) -> RouteAnswer:
    endpoint = table.grpc_endpoint
    try:
        tenant = _tenant(question.tenant or None)
    except BadParams as wrong:
        return RouteAnswer(Verdict(None, BadParams), endpoint, method.operation, fact=wrong.message)
    request = RoutingInput((), "", tenant, question.principal)
    verdict = explain(table, endpoint, request, everything=everything, grpc=True)
    if table.turns_away(endpoint, question.principal) is None:
        # A body is read only for callers that may reach an agent there.
        why = _misread(method, tenant)
        verdict = verdict if why is None else _refused(verdict, BadParams, why)
    return RouteAnswer(verdict, endpoint, method.operation, tenant)


def _misread(method: GrpcMethod, tenant: str | None) -> str | None:
    """Return why no request of a method can have such a tenant, or None if it can."""
    if method.scoped and tenant is None:
        return "requests of the scoped service have a `scope`, and this one has none"
    if tenant is not None and method.version is Version.V0_3 and not method.scoped:
        return "requests of this service have no tenant; those of the scoped one have it as their `scope`"
    return None


def _refused(verdict: Verdict, fault: type[Fault] | None, why: str, of: Collection[Rule] | None = None) -> Verdict:
    """Return a refusal instead of a verdict, with the reason for some rules or for all."""
    return Verdict(
        None,
        fault,
        None,
        tuple(
            Candidate(each.rule, taken=False, why=why if of is None or each.rule in of else each.why)
            for each in verdict.candidates
        ),
    )


def _rest(method: str, path: tuple[str, ...], endpoint: Endpoint) -> PathCall | None:
    return read_rest(method, path[len(endpoint.path) :], tenanted=endpoint.tenanted)


def _tenant(*places: str | None) -> str | None:
    """Return the tenant on which all places agree.

    Raises:
        BadParams: Two of them differ, or one is not a tenant.
    """
    tenant = agreed("tenant", *places)
    if tenant is not None and not is_tenant(tenant):
        raise BadParams(WRONG_NAME)
    return tenant


# ---- Why each rule was or was not taken ------------------------------------------------------------------------------


def explain(
    table: Table,
    endpoint: Endpoint | None,
    request: RoutingInput,
    *,
    everything: bool = False,
    card: bool = False,
    grpc: bool = False,
    ranking: Ranking = NO_RANKING,
) -> Verdict:
    """Resolve as `Table.resolve` does, and explain for each rule why it was or was not taken.

    Args:
        everything: Every rule of every agent, not only those of the endpoint.
        card: The request reads a card.
        grpc: The request comes over gRPC.
        ranking: The agents that have a skill; `request` has the best ones.
    """
    # Only operators see this, so rules that the caller must not know are named too.
    verdict = (table.decide_card if card else table.decide)(endpoint, request)
    beside: tuple[Candidate, ...] = ()
    if everything:
        rules = table.rules(grpc=grpc)
        if grpc:
            beside = tuple(
                Candidate(rule, taken=False, why=f"cannot be reached over gRPC: {obstacle}")
                for rule, obstacle in table.unreached()
            )
    else:
        rules = () if endpoint is None else endpoint.rules
    candidates = tuple(_explained(table, rule, endpoint, request, verdict) for rule in rules)
    if endpoint is not None and endpoint.skills:
        ranked_for = cache(lambda skill: list(ranking.ranked(skill, endpoint.agents)))
        candidates = tuple(
            _with_rank(table, endpoint, request, each, ranked_for=ranked_for, absence=ranking.absence, card=card)
            for each in candidates
        )
    masked = table.masked(verdict, request.principal)
    return Verdict(masked.route, masked.fault, masked.rule, (*candidates, *beside))


def _explained(
    table: Table, rule: Rule, endpoint: Endpoint | None, request: RoutingInput, verdict: Verdict
) -> Candidate:
    if endpoint is None or (rule.host, rule.path) != (endpoint.host, endpoint.path):
        return Candidate(rule, taken=False, why=_elsewhere(rule, endpoint, request))
    condition = unmet(rule, request)
    if condition is not None:
        why = _asks(table, rule, condition, request)
        if rule is verdict.rule and verdict.route is not None:
            return Candidate(rule, taken=True, why=f"{why}, but its card is anyone's, and no other agent is here")
        if verdict.signs_in:
            why += "; a stranger reads a card that says how to sign in"
        return Candidate(rule, taken=False, why=why)
    if rule is verdict.rule:
        return Candidate(rule, taken=verdict.route is not None, why=_won(table, verdict, request))
    return Candidate(rule, taken=False, why=_lost(rule, endpoint, request, verdict))


def _with_rank(
    table: Table,
    endpoint: Endpoint,
    request: RoutingInput,
    candidate: Candidate,
    *,
    ranked_for: Callable[[str], list[Ranked]],
    absence: Callable[[str, str], str],
    card: bool,
) -> Candidate:
    """Return a candidate with the rank of its agent, where its rule asks for a skill that the request names.

    Args:
        request: With the best agents.
        ranked_for: Returns the agents of the endpoint that have a skill.
        absence: As `Ranking.absence`.
    """
    rule = candidate.rule
    if not rule.by_skill or (rule.host, rule.path) != (endpoint.host, endpoint.path):
        return candidate
    skills = {request.skill if each[1] is None else str(each[1]) for each in rule.conditions if each[0] == "skill"}
    if len(skills) > 1 or unmet(rule, request, skills=False) is not None:
        return candidate
    skill = next(iter(skills)) or ""
    ranked = ranked_for(skill)
    own = next((each for each in ranked if each.agent == rule.agent), None)
    if own is None:
        return replace(candidate, why=absence(rule.agent, skill))
    candidate = replace(
        candidate, score={**own.parts(), "skill": skill, "rank": ranked.index(own) + 1, "up": not own.trouble}
    )
    if candidate.taken:
        return replace(candidate, why=f"is the best for the skill {skill!r} ({own})")
    if table.skill_route(endpoint, request, rule.agent, skill, card=card) is None:
        who = "a stranger" if request.principal is None else "the caller"
        return replace(candidate, why=f"has the skill {skill!r} ({own}), but {who} may not call it")
    if own.trouble:
        return replace(candidate, why=f"has the skill {skill!r} ({own}), but is not up: {own.trouble}")
    best = (request.best or {}).get(skill)
    if best in (None, rule.agent):
        return candidate
    first = next(each for each in ranked if each.agent == best)
    tie = "; they tie, and the name decides" if own.parts() == first.parts() else ""
    return replace(candidate, why=f"has the skill {skill!r} ({own}), after {best!r} ({first}){tie}")


def _asks(table: Table, rule: Rule, condition: Condition, request: RoutingInput) -> str:
    """Return the condition of a rule that does not hold, in words."""
    kind, value = condition[0], condition[-1]
    if kind == "key":
        return f"asks for the API key {value!r}"
    if kind == "claim":
        return f"asks for the claim {condition[1]}={value[1] if isinstance(value, tuple) else value}"
    if kind == "skill":
        skill = request.skill if value is None else value
        return f"asks for the best agent for the skill {skill!r}"
    shown = "none" if request.tenant is None else repr(request.tenant)
    if value is None:
        return f"is picked by its credential where no tenant is named, the request has {shown}"
    written = table.written(rule)
    place = f"{written.host or 'the path '}/{'/'.join(written.path)}"
    stands = f", its name, which stands for {place}" if rule.addressed else ""
    return f"asks for tenant {value!r}{stands}, the request has {shown}"


def _won(table: Table, verdict: Verdict, request: RoutingInput) -> str:
    principal = request.principal
    if verdict.route is not None:
        return "all it asks for holds"
    who = "a stranger" if principal is None else repr(principal.tenant)
    if verdict.reason == "tenant_denied":
        reach = None if principal is None else table.admitted(principal)
        if principal is not None and verdict.rule is not None and reach and verdict.rule.agent in reach.agents:
            who = f"the key {principal.key!r}"
        return f"all it asks for holds, but {who} may not call it"
    requirement = None if verdict.rule is None else table.agents[verdict.rule.agent].requirement
    if verdict.fault is InsufficientScope and requirement is not None and principal is not None:
        return f"all it asks for holds, but the caller lacks {', '.join(requirement.lacking(principal))}"
    if verdict.reason == "bad_request":
        return "all it asks for holds, but it requires a `tenant`"
    if verdict.rule is not None and not table.agents[verdict.rule.agent].by_tenant:
        return f"all it asks for holds, but the tenant {request.tenant!r} does not pick it"
    return f"all it asks for holds, but it has no backend for the tenant that {who} may name here"


def _elsewhere(rule: Rule, endpoint: Endpoint | None, request: RoutingInput) -> str:
    here = f"is at {_spelled(rule)}"
    if rule.host is not None and not request.host:
        return f"{here}, and the request names no host"
    matched = rule.host is None or rule.host in patterns(request.host)
    if endpoint is None or not matched or rule.path != request.path[: len(rule.path)]:
        return here
    better = "is a longer path" if rule.host == endpoint.host else "has a more exact host"
    return f"{here}, but {_spelled(endpoint)} {better}"


def _lost(rule: Rule, endpoint: Endpoint, request: RoutingInput, verdict: Verdict) -> str:
    """Return why a rule of the endpoint that holds did not win."""
    if verdict.fault is AuthMissing:
        return "holds, but a stranger may call nothing: it shows no credential"
    if verdict.fault is NotAdmitted and request.principal is not None:
        return f"holds, but the tenant {request.principal.tenant!r} is not admitted"
    holding = [other for other in endpoint.possible(request) if other is not rule and unmet(other, request) is None]
    more = next((other for other in holding if rule.conditions < other.conditions), None)
    if more is not None:
        return f"holds, but {more.agent!r} asks for all of it and more"
    if verdict.rule is not None:
        return "holds, but another match of the same agent does too"
    rivals = [other for other in holding if not other.conditions < rule.conditions]
    others = ", ".join(sorted({repr(other.agent) for other in rivals}))
    if any(other.conditions == rule.conditions for other in rivals):
        return f"holds, but {others} asks for the same where there are no paths"
    return f"holds, but so does what {others} asks for, and neither asks for all that the other does"


def _spelled(place: Rule | Endpoint) -> str:
    return f"{place.host or ''}/{'/'.join(place.path)}"
