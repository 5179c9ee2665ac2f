"""Finds the agent for a request that names a skill and no agent: the one that has its task, else the best one."""

from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.ids import referenced_ids
from gateway.proxy.connection_cache import Location
from gateway.proxy.request import RequestContext
from gateway.routing.route import RoutingInput, read_backend_key
from gateway.routing.skills import choose
from gateway.snapshot import Snapshot
from gateway.tasks.affinity import SkillCall


def best_agents(
    snapshot: Snapshot, location: Location, asked: RoutingInput, *, maker: str = "", partner: str = ""
) -> RoutingInput:
    """Return what routing sees of a request, with the best agent for each skill that the endpoint asks for.

    Args:
        maker: The agent that made the task that the request is about; or empty.
        partner: The agent of its context; or empty.
    """
    endpoint = location.endpoint
    if endpoint is None or not endpoint.skills:
        return asked
    return choose(
        snapshot.table,
        snapshot.directory,
        endpoint,
        asked,
        card=location.reads_card,
        maker=maker,
        partner=partner,
    )


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
