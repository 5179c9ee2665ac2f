"""What agents call the tasks that clients of 0.1 named themselves.

Clients of 0.1 make the ids of their tasks; agents of every later generation make their own (protocol §8.1). What an
agent calls such a task is remembered in memory, and in the store of the ledger where tasks have owners. Where they have
none such a task is known by the agent's id only after a restart, and in another process.

Ids that clients make are easily guessed, and those of agents are not. So a name is its owner's: who is proven to be
another, and who is known by another A2A tenant, does not find the task by it. Callers without a credential are one
owner: nobody is proven there, so nothing is protected.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from gateway.a2a.fault import StateUnavailable
from gateway.a2a.naming import Alias
from gateway.tasks.ledger import Ledger
from gateway.tasks.store import NAMES, Note

logger = logging.getLogger("gateway.tasks")

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

    @property
    def text(self) -> str:
        """All of it as one word."""
        return msgspec.json.encode(tuple(self)).decode()


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

    def forget(self, key: Key) -> None:
        """The task is no more."""
        self._tenants.get(key.owner[0], OrderedDict()).pop(key, None)

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


class KeptAliases:
    """The names of tasks whose owners a ledger knows.

    Args:
        aliases: Those that are known without asking it.

    Attributes:
        ledger: Where they are kept.
    """

    def __init__(self, aliases: Aliases, ledger: Ledger) -> None:
        self.ledger = ledger
        self._aliases = aliases
        self._writing: set[asyncio.Task[None]] = set()

    async def find(self, key: Key) -> Alias | None:
        """As `Aliases.find`.

        Raises:
            StateUnavailable: nobody knows.
        """
        found = self._aliases.find(key)
        if found is None and key.name:
            kept = await self.ledger.store.note(NAMES, key.text)
            if kept is not None:
                found = _alias.decode(kept)
                self._aliases.put(key, key.name, found)
        return found

    def put(self, loop: asyncio.AbstractEventLoop, key: Key, name: str, alias: Alias) -> None:
        """As `Aliases.put`, from any thread; it is written down a moment later."""
        self._aliases.put(key, name, alias)
        note = Note(
            NAMES,
            key._replace(name=name).text,
            msgspec.json.encode(alias),
            tenant=key.owner[0],
            until=self.ledger.now() + self.ledger.bounds.open,
        )
        loop.call_soon_threadsafe(self._keep, note)

    def _keep(self, note: Note) -> None:
        task = asyncio.get_running_loop().create_task(self._write(note))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, note: Note) -> None:
        try:
            await self.ledger.store.keep(note)
        except StateUnavailable:
            logger.warning("the name of a task could not be written down")


_alias = msgspec.json.Decoder(Alias)
