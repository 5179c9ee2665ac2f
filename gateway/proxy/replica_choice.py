"""Chooses the first replica for a call: the one that made its task or context, else any."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from gateway.a2a.call import Call
from gateway.a2a.ids import referenced_ids
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.backend.backend import Backend
from gateway.principal import Principal
from gateway.tasks.ownership import ownership_of
from gateway.upstream.balancer import Balancer
from gateway.upstream.replica import Replica


async def choose_replica(
    backend: Backend, balancer: Balancer, principal: Principal, call: Call, alias: Alias | None
) -> tuple[Replica, bool, str | None]:
    """Return the replica, whether the call is bound to it, and the replica that made its task.

    The last is empty if it is unknown, and None if every replica knows every task.

    Raises:
        NoHealthyBackend: as `Balancer.admit` and `Balancer.lead`.
        TaskNotFound: the replica is gone, and the task is not the caller's.
        StateUnavailable: the ledger does not answer.
    """
    if not balancer.is_settled:
        with suppress(TimeoutError):
            async with asyncio.timeout(backend.upstream.timeouts.connect):
                await balancer.settled()
    balancer.admit()
    if backend.isolation is None or backend.isolation.affinity is None:
        return balancer.another(()), False, None
    named = referenced_ids(call)
    if alias is not None and not alias.newer:
        named = replace(named, tasks=(alias.task_id, *named.tasks))
    ownership = ownership_of(backend.isolation, principal, "")
    home, by_task = await ownership.replica_of(named)
    home = balancer.current_name(home) if home else ""
    if call.operation is Operation.LIST_TASKS and not home:
        return balancer.steady(f"{principal.tenant} {principal.who}"), False, ""
    binds = home != "" and balancer.affinity.binds(by_task=by_task)
    if binds and home not in balancer.replicas:
        # Only a caller that may know of a task is told that its replica is gone.
        for each in named.tasks[: 1 if alias is not None else None] if by_task else ():
            await ownership.authorize_task(each, call.dialect.version)
        if not by_task and not await ownership.owns_context(named.context or ""):
            return balancer.another(()), False, ""
    return balancer.lead(home, binds=binds), binds, home if by_task else ""
