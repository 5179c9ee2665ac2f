"""The processes of the backends on stdio: one pool for each backend, or for each tenant of one that says so.

They outlive a configuration: a backend whose words have not changed keeps its processes, and their tasks, when another
configuration takes the place of the one that started them (`holdings.py`). Where they have changed, others are started,
and the ones before go on until those are ready (`stdio_succession.py`).
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any

from gateway.a2a.fault import Draining, Overloaded
from gateway.upstream.stdio_introduction import MANNER, Manner
from gateway.upstream.stdio_pool import StdioPool
from gateway.upstream.stdio_succession import settled
from gateway.upstream.stdio_worker import Spec, Worker

NOBODY = ""
"""Stands for the tenant where processes are everybody's."""
TENANT_VARIABLE = "A2A_TENANT"
"""The environment variable that tells a process of one tenant whose it is."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of processes.

    Attributes:
        running: That calls go to now.
        restarts: Starts after the first, in each place.
        late: Frames of calls that were over.
        strays: Frames that were nobody's.
        notices: Notifications of their own.
    """

    running: int = 0
    restarts: int = 0
    late: int = 0
    strays: int = 0
    notices: int = 0


class StdioAgent:
    """The processes of one backend.

    Args:
        name: The key of the backend.

    Attributes:
        manner: How they are asked for their card, when they start.
    """

    def __init__(self, name: str, spec: Spec, manner: Manner = MANNER) -> None:
        self.name = name
        self.spec = spec
        self.manner = manner
        self._pools: OrderedDict[str, StdioPool] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()
        self._settling: set[StdioPool] = set()
        # Of pools that have made room.
        self._past = Figures()
        self._after: StdioAgent | None = None
        self._closed = False

    def pool(self, tenant: str) -> StdioPool:
        """The processes for a caller's tenant; whose have been needed least lately make room where there are too many.

        Raises:
            Overloaded: the processes of all tenants that there is room for are at work.
            Draining: they are being ended.
        """
        if self._after is not None:
            return self._after.pool(tenant)
        if self._closed:
            raise Draining("the gateway is ending this agent", retry_after=1.0)
        tenant = self._whose(tenant)
        pool = self._pools.get(tenant)
        if pool is None:
            pool = self._pools[tenant] = self._make(tenant, self._make_room(tenant))
        elif len(self._pools) > 1:
            self._pools.move_to_end(tenant)
        return pool

    def show(self) -> StdioPool:
        """The processes that show the agent to everybody: where each tenant has its own, one of nobody's."""
        return self.pool(NOBODY)

    def succeed(self, before: "StdioAgent") -> None:
        """Take the place of the processes of another configuration; calls go to those until these are ready."""
        before._after = self  # noqa: SLF001 - its own kind
        pools, before._pools = before._pools, OrderedDict()  # noqa: SLF001 - as above
        for leaving in before._leaving:  # noqa: SLF001 - as above
            self._await(leaving)
        for pool in before._settling:  # noqa: SLF001 - as above
            self._let_settle(pool)
        room = self.spec.tenants
        # Those that were needed last come first; in the end they are the last again.
        for tenant, old in reversed(pools.items()):
            if self._whose(tenant) != tenant or (tenant != NOBODY and not room):
                self._let_settle(old)
                continue
            room -= tenant != NOBODY
            own = self._pools.get(tenant)
            if own is None:
                own = self._pools[tenant] = self._make(tenant, None)
            self._pools.move_to_end(tenant, last=False)
            own.succeed(old)

    def retire(self) -> None:
        """End the processes once no call is open there: no configuration has this backend any more."""
        if self._after is None and not self._closed:
            for pool in self._pools.values():
                self._let_settle(pool)

    def workers(self) -> Iterable[tuple[str, Worker]]:
        """Every place for a process, with whose it is."""
        for tenant, pool in list(self._pools.items()):
            for worker in (*pool.workers, *(() if pool.before is None else pool.before.workers)):
                yield tenant, worker

    def figures(self) -> "Figures":
        """What became of the processes so far."""
        return _plus(_figures(worker for _, worker in self.workers()), replace(self._past, running=0))

    async def aclose(self) -> None:
        """End every process, but those whose place another agent's have taken: it ends them."""
        self._closed = True
        if self._after is not None:
            return
        pools = list(self._pools.values())
        await asyncio.gather(*(pool.aclose() for pool in (*pools, *self._settling)))
        await asyncio.gather(*self._leaving)

    def _whose(self, tenant: str) -> str:
        return tenant if self.spec.per_tenant else NOBODY

    def _make(self, tenant: str, after: "asyncio.Future[None] | None") -> StdioPool:
        if not self.spec.per_tenant:
            return StdioPool(self.name, self.spec, manner=lambda: self.manner)
        command = self.spec.command
        if tenant == NOBODY:
            return StdioPool(self.name, replace(self.spec, processes=1), manner=lambda: self.manner)
        environment = {**command.environment, TENANT_VARIABLE: tenant}
        own = replace(self.spec, command=replace(command, environment=environment))
        return StdioPool(f"{self.name} for {tenant}", own, manner=lambda: self.manner, after=after)

    def _make_room(self, tenant: str) -> "asyncio.Future[None] | None":
        """Have others leave where there are too many; done once they have left."""
        of_tenants = [(each, pool) for each, pool in self._pools.items() if each != NOBODY]
        if tenant == NOBODY or len(of_tenants) < self.spec.tenants:
            return None
        for idle, pool in of_tenants:
            if not pool.is_busy:
                del self._pools[idle]
                self._past = _plus(self._past, _figures(pool.workers))
                return self._leave(pool.aclose())
        raise Overloaded("the agent has no place for one more tenant", retry_after=1.0)

    def _let_settle(self, pool: StdioPool) -> None:
        """End the processes of a pool once no call is open there."""

        async def end() -> None:
            await settled(pool, math.inf)
            await pool.aclose()
            self._settling.discard(pool)

        self._settling.add(pool)
        self._leave(end())

    def _leave(self, ending: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        leaving = asyncio.ensure_future(ending)
        self._await(leaving)
        return leaving

    def _await(self, leaving: "asyncio.Task[None]") -> None:
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


def _figures(workers: Iterable[Worker]) -> Figures:
    found = Figures()
    for worker in workers:
        own = Figures(
            int(worker.link is not None), max(worker.starts - 1, 0), worker.late, worker.strays, worker.notices
        )
        found = _plus(found, own)
    return found


def _plus(one: Figures, other: Figures) -> Figures:
    return Figures(
        one.running + other.running,
        one.restarts + other.restarts,
        one.late + other.late,
        one.strays + other.strays,
        one.notices + other.notices,
    )
