"""What agents call the tasks that clients of 0.1 named themselves.

Clients of 0.1 make the ids of their tasks; agents of every later generation make their own (protocol §8.1). What an
agent calls such a task is remembered, for each backend and tenant apart, in the memory of this process: after a
restart, and in another process, such a task is known by the agent's id only.
"""

from collections import OrderedDict

from gateway.a2a.translation import Alias

MOST_OF_A_TENANT = 10_000
"""Tasks that are remembered for one tenant; those not asked for longest are forgotten first."""
MOST_TENANTS = 1_000
"""Tenants whose tasks are remembered at a time."""


class Aliases:
    """The names of tasks, by who may use them.

    Args:
        most: Tasks of one tenant.
        tenants: Tenants.
    """

    def __init__(self, most: int = MOST_OF_A_TENANT, tenants: int = MOST_TENANTS) -> None:
        self._most = most
        self._most_tenants = tenants
        self._tenants: OrderedDict[str, OrderedDict[tuple[str, str], Alias]] = OrderedDict()

    def find(self, tenant: str, backend: str, name: str) -> Alias | None:
        """What is known of the task that a tenant's client calls `name`."""
        known = self._tenants.get(tenant)
        if known is None or (found := known.get((backend, name))) is None:
            return None
        known.move_to_end((backend, name))
        self._tenants.move_to_end(tenant)
        return found

    def put(self, tenant: str, backend: str, name: str, alias: Alias) -> None:
        """Remember what the agent calls it."""
        known = self._tenants.setdefault(tenant, OrderedDict())
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > self._most_tenants:
            self._tenants.popitem(last=False)
        known[backend, name] = alias
        known.move_to_end((backend, name))
        if len(known) > self._most:
            known.popitem(last=False)
