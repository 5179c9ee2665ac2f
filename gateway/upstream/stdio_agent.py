"""The processes of the backends on stdio: one pool for each backend, or for each tenant of one that says so.

They outlive a configuration: a backend whose words have not changed keeps its processes, and their tasks, when another
configuration takes the place of the one that started them (`holdings.py`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.a2a.fault import Draining, Overloaded
from gateway.upstream.stdio_pool import StdioPool
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
    """

    running: int = 0
    restarts: int = 0
    late: int = 0
    strays: int = 0


class StdioAgent:
    """The processes of one backend.

    Args:
        name: The key of the backend.
    """

    def __init__(self, name: str, spec: Spec) -> None:
        self.name = name
        self.spec = spec
        self._pools: OrderedDict[str, StdioPool] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()
        # Of pools that have made room.
        self._past = Figures()
        self._closed = False

    def pool(self, tenant: str) -> StdioPool:
        """The processes for a caller's tenant; whose have been needed least lately make room where there are too many.

        Raises:
            Overloaded: the processes of all tenants that there is room for are at work.
            Draining: they are being ended.
        """
        if self._closed:
            raise Draining("the gateway is ending this agent", retry_after=1.0)
        tenant = tenant if self.spec.per_tenant else NOBODY
        pool = self._pools.get(tenant)
        if pool is None:
            self._make_room()
            pool = self._pools[tenant] = self._make(tenant)
        elif len(self._pools) > 1:
            self._pools.move_to_end(tenant)
        return pool

    def show(self) -> StdioPool:
        """The processes that show the agent to everybody: where each tenant has its own, one of nobody's."""
        return self.pool(NOBODY)

    def workers(self) -> Iterable[tuple[str, Worker]]:
        """Every place for a process, with whose it is."""
        for tenant, pool in list(self._pools.items()):
            for worker in pool.workers:
                yield tenant, worker

    def figures(self) -> "Figures":
        """What became of the processes so far."""
        return _plus(_figures(worker for _, worker in self.workers()), replace(self._past, running=0))

    async def aclose(self) -> None:
        """End every process."""
        self._closed = True
        pools = list(self._pools.values())
        await asyncio.gather(*(pool.aclose() for pool in pools), *self._leaving)

    def _make(self, tenant: str) -> StdioPool:
        if not self.spec.per_tenant:
            return StdioPool(self.name, self.spec)
        command = self.spec.command
        if tenant == NOBODY:
            return StdioPool(self.name, replace(self.spec, processes=1))
        environment = {**command.environment, TENANT_VARIABLE: tenant}
        own = replace(self.spec, command=replace(command, environment=environment))
        return StdioPool(f"{self.name} for {tenant}", own)

    def _make_room(self) -> None:
        if not self.spec.per_tenant or len(self._pools) < self.spec.tenants:
            return
        for tenant, pool in self._pools.items():
            if not pool.calls:
                del self._pools[tenant]
                self._past = _plus(self._past, _figures(pool.workers))
                # Not awaited: who comes new does not wait for who leaves.
                leaving = asyncio.ensure_future(pool.aclose())
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
                return
        raise Overloaded("the agent has no place for one more tenant", retry_after=1.0)


def _figures(workers: Iterable[Worker]) -> Figures:
    found = Figures()
    for worker in workers:
        own = Figures(int(worker.link is not None), max(worker.starts - 1, 0), worker.late, worker.strays)
        found = _plus(found, own)
    return found


def _plus(one: Figures, other: Figures) -> Figures:
    return Figures(
        one.running + other.running,
        one.restarts + other.restarts,
        one.late + other.late,
        one.strays + other.strays,
    )
