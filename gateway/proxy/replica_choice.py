"""Chooses the replica that a call goes to first: the one that made its task or context, else any."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from gateway.a2a.call import Call
from gateway.a2a.mention import mentions
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.backing import Backing
from gateway.claims import claims_of
from gateway.group import Group
from gateway.ownership import has_begun, home_of
from gateway.principal import Principal


async def choose_replica(
    backing: Backing, group: Group, principal: Principal, call: Call, alias: Alias | None
) -> tuple[Backing, bool, str | None]:
    """Return the replica, whether the call goes to no other, and the replica that made its task.

    The last is empty where nobody knows, and None where any replica knows of any task.

    Raises:
        NoHealthyBackend: as `Group.admit` and `Group.lead`.
        TaskNotFound: the replica is gone, and the task is not the caller's.
        StateUnavailable: the ledger does not answer.
    """
    if not group.is_settled:
        with suppress(TimeoutError):
            async with asyncio.timeout(backing.upstream.timeouts.connect):
                await group.settled()
    group.admit()
    if backing.tenure is None or backing.tenure.homes is None:
        return group.another(()), False, None
    named = mentions(call)
    if alias is not None and not alias.newer:
        named = replace(named, tasks=(alias.task_id, *named.tasks))
    claims = claims_of(backing.tenure, principal, "")
    home, by_task = await home_of(claims, named)
    home = group.called(home) if home else ""
    if call.operation is Operation.LIST_TASKS and not home:
        return group.steady(f"{principal.tenant} {principal.who}"), False, ""
    binds = home != "" and group.keeping.binds(by_task=by_task)
    if binds and not group.has(home):
        # Only a caller that may know of a task is told that its replica is gone.
        for each in named.tasks[: 1 if alias is not None else None] if by_task else ():
            await claims.claim(each, call.dialect.version)
        if not by_task and not await has_begun(claims, named.context or ""):
            return group.another(()), False, ""
    return group.lead(home, binds=binds), binds, home if by_task else ""
