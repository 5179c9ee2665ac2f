"""Selects the agent that answers a request, and refuses callers that no agent answers.

The table of routes decides (`routing/table.py`). Refusals that must look alike have the same words.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from gateway.a2a import fault as faults
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import Fault
from gateway.a2a.ids import referenced_ids
from gateway.principal import Principal
from gateway.proxy.connection_cache import Location, RouteDecision
from gateway.proxy.request import RequestContext
from gateway.routing.endpoint import explain_conflict
from gateway.routing.route import Requirement, RoutingInput, Verdict, read_backend_key
from gateway.routing.skills import choose
from gateway.snapshot import Snapshot
from gateway.tasks.affinity import SkillCall


def refuse_outsiders(snapshot: Snapshot, request: RequestContext, location: Location) -> None:
    """Refuse callers that may reach nothing at the endpoint, before their body is read.

    Raises:
        AuthMissing, NotAdmitted, NoEndpoint: they are refused; an endpoint that is hidden looks like none.
        BadRequest: the path can be no endpoint's.
    """
    if location.endpoint is None and location.unread is not None and request.principal is not None:
        raise location.unread
    decision = request.cache.decision
    if decision is not None and decision.principal is request.principal:
        return
    kind = snapshot.table.turns_away(location.endpoint, request.principal)
    if kind is not None:
        if location.endpoint is not None:
            request.contenders = location.endpoint.rules
        raise kind(kind.words)


def select(snapshot: Snapshot, request: RequestContext, location: Location, tenant: str | None) -> Verdict:
    """Return the route to the agent that answers; none for the card that says how to sign in.

    Args:
        tenant: The A2A tenant that the request names.

    Raises:
        AuthMissing, NotAdmitted, NoRoute, RouteConflict, BadParams, InsufficientScope: no agent answers.
        NoHealthyBackend: no agent with the skill that the request names is up.
    """
    decision = request.cache.decision
    if decision is not None and decision.principal is request.principal and decision.tenant == tenant:
        verdict = decision.verdict
    else:
        verdict = _resolve(snapshot, request, location, tenant)
    request.rule = verdict.rule
    if verdict.contenders:
        request.contenders = verdict.contenders
    if verdict.route is None:
        if verdict.signs_in:
            return verdict
        rule, kind = verdict.rule, verdict.fault or faults.NoEndpoint
        if kind is faults.InsufficientScope and rule is not None and request.principal is not None:
            requirement = snapshot.table.agents[rule.agent].requirement
            assert requirement is not None
            raise _insufficient(requirement, request.principal)
        if kind is faults.RouteConflict:
            # The rules of a conflict are only those that the caller may know of.
            raise kind(explain_conflict(verdict.contenders))
        raise kind(_WORDS.get(kind, kind.words))
    backend = snapshot.backends[verdict.route.backend]
    request.agent, request.backend, request.meter = backend.agent, verdict.route.backend, backend.meter
    return verdict


def _resolve(snapshot: Snapshot, request: RequestContext, location: Location, tenant: str | None) -> Verdict:
    table, principal, endpoint, is_card = snapshot.table, request.principal, location.endpoint, location.reads_card
    asked = RoutingInput((), request.head.host, tenant, principal, location.skill)
    resolve = table.resolve_card if is_card else table.resolve
    if endpoint is not None and endpoint.skills:
        known = request.by_skill
        maker, partner = ("", "") if known is None else (known.maker, known.partner)
        asked = choose(table, snapshot.directory, endpoint, asked, card=is_card, maker=maker, partner=partner)
        verdict = resolve(endpoint, asked)
        # Never cached, for ranks and health change.
        return verdict if verdict.rule is None else replace(verdict, rule=verdict.rule.at(location.skill))
    verdict = resolve(endpoint, asked)
    if verdict.route is not None and principal is not None and not is_card:
        request.cache.decision = RouteDecision(principal, tenant, verdict)
    return verdict


async def follow_task(snapshot: Snapshot, request: RequestContext, location: Location, call: Call) -> None:
    """Look up the agent that made the task or the context of a call; the request gets it.

    Raises:
        StateUnavailable: the ledger cannot be asked.
        BadParams: an id is malformed.
    """
    endpoint, principal = location.endpoint, request.principal
    if endpoint is None or not endpoint.skills or principal is None:
        return
    skill = location.skill or next((each for each in endpoint.skills if each is not None), "")
    affinity, named = snapshot.skill_affinity, referenced_ids(call)
    found = SkillCall(affinity, skill)
    request.by_skill = found
    about = next((each for each in named.tasks if each not in named.references), None)
    if about is not None and call.dialect.version is Version.V0_1:
        found.own_name = about
    if about is not None:
        found.maker = read_backend_key(await affinity.of_task(principal.tenant, about))[0]
    if named.context and not found.maker:
        found.partner = read_backend_key(await affinity.of_context(principal.tenant, skill, named.context))[0]


def _insufficient(requirement: Requirement, principal: Principal) -> Fault:
    """Return the refusal of a caller that lacks what an agent requires; only the log tells what that is."""
    message = faults.InsufficientScope.words
    if requirement.scopes:
        message = f"{message}; it requires the scope {' '.join(requirement.scopes)}"
    return faults.InsufficientScope(
        message, detail=f"lacks {', '.join(requirement.lacking(principal))}", scopes=requirement.scopes
    )


_WORDS: Mapping[type[Fault], str] = {
    faults.BadParams: "this agent needs a tenant",
    faults.NoHealthyBackend: "no agent with this skill can be reached for now",
}
"""The messages of faults that have another one elsewhere."""
