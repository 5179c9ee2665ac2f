"""What agents call the tasks that clients of 0.1 named themselves.

Clients of 0.1 make the ids of their tasks; agents of every later generation make their own (protocol §8.1). What an
agent calls such a task is remembered in the memory of this process: after a restart, and in another process, such a
task is known by the agent's id only.

Ids that clients make are easily guessed, and those of agents are not. So a name is its owner's: who is proven to be
another, and who is known by another A2A tenant, does not find the task by it. Callers without a credential are one
owner: nobody is proven there, so nothing is protected.
"""

from collections import OrderedDict
from typing import NamedTuple

from gateway.a2a.naming import Alias

MOST_OF_A_TENANT = 10_000
"""Tasks that are remembered for one tenant; those not asked for longest are forgotten first."""
MOST_TENANTS = 1_000
"""Tenants whose tasks are remembered at a time."""


class Key(NamedTuple):
    """Who calls a task by a name.

    Attributes:
        owner: The tenant of the caller, then whoever it is within, then the A2A tenant that it named.
        name: What the client calls it.
    """

    owner: tuple[str, ...]
    backend: str
    name: str


class Aliases:
    """The names of tasks, by who may use them.

    Args:
        most: Tasks of one tenant.
        tenants: Tenants.
    """

    def __init__(self, most: int = MOST_OF_A_TENANT, tenants: int = MOST_TENANTS) -> None:
        self._most = most
        self._most_tenants = tenants
        self._tenants: OrderedDict[str, OrderedDict[Key, Alias]] = OrderedDict()

    def find(self, key: Key) -> Alias | None:
        """What is known of a task by its client's name for it."""
        known = self._tenants.get(key.owner[0])
        if known is None or (found := known.get(key)) is None:
            return None
        known.move_to_end(key)
        self._tenants.move_to_end(key.owner[0])
        return found

    def put(self, key: Key, name: str, alias: Alias) -> None:
        """Remember what the agent calls a task.

        Args:
            name: What the client calls it, where the key was made before that was known.
        """
        tenant = key.owner[0]
        known = self._tenants.setdefault(tenant, OrderedDict())
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > self._most_tenants:
            self._tenants.popitem(last=False)
        key = key._replace(name=name)
        known[key] = alias
        known.move_to_end(key)
        if len(known) > self._most:
            known.popitem(last=False)
