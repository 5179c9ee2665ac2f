"""The agents' ids of tasks that clients of 0.1 named themselves.

Clients of 0.1 make the ids of their tasks; agents of every later version make their own (protocol §8.1). The agent's id
is kept in memory, and in the ledger's store where tasks have owners. Elsewhere, after a restart or in another process,
such a task is known by the agent's id only.

Clients' ids are easily guessed. A name therefore belongs to its owner: another proven caller, or the same one under
another A2A tenant, does not find the task by it. Callers without a credential are one owner.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from gateway.a2a.fault import StateUnavailable
from gateway.a2a.naming import Alias
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.store import NAMES, Note

logger = logging.getLogger("gateway.tasks")

MOST_OF_A_TENANT = 10_000
"""The most names of one tenant; the least recently used are evicted first."""
MOST_TENANTS = 1_000
"""The most tenants that have names."""

_alias = msgspec.json.Decoder(Alias)


class AliasKey(NamedTuple):
    """A name with its owner.

    Attributes:
        owner: The caller's tenant, the caller within it, and the A2A tenant of the call.
        name: The client's id of the task.
    """

    owner: tuple[str, ...]
    backend: str
    name: str

    @property
    def text(self) -> str:
        """All of it as one text."""
        return msgspec.json.encode(tuple(self)).decode()


class Aliases:
    """The names in memory, and those in the store of a ledger.

    Args:
        most: Names of one tenant.
        tenants: Tenants.
    """

    def __init__(self, most: int = MOST_OF_A_TENANT, tenants: int = MOST_TENANTS) -> None:
        self._most = most
        self._most_tenants = tenants
        self._tenants: OrderedDict[str, OrderedDict[AliasKey, Alias]] = OrderedDict()
        self._writing: set[asyncio.Task[None]] = set()

    def find(self, key: AliasKey) -> Alias | None:
        """Return the alias of a task by its client's name; None if it is unknown."""
        known = self._tenants.get(key.owner[0])
        if known is None or (alias := known.get(key)) is None:
            return None
        known.move_to_end(key)
        self._tenants.move_to_end(key.owner[0])
        return alias

    def forget(self, key: AliasKey) -> None:
        """Remove a name."""
        self._tenants.get(key.owner[0], OrderedDict()).pop(key, None)

    def put(self, key: AliasKey, name: str, alias: Alias) -> None:
        """Store the alias of a task.

        Args:
            name: The client's id, in case the key was made before it was known.
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

    async def find_kept(self, ledger: TaskLedger, key: AliasKey) -> Alias | None:
        """As `find`; a name that is not in memory is looked up in the store.

        Raises:
            StateUnavailable: the store cannot be asked.
        """
        alias = self.find(key)
        if alias is None and key.name:
            kept = await ledger.store.note(NAMES, key.text)
            if kept is not None:
                alias = _alias.decode(kept)
                self.put(key, key.name, alias)
        return alias

    def keep(self, ledger: TaskLedger, loop: asyncio.AbstractEventLoop, key: AliasKey, name: str, alias: Alias) -> None:
        """As `put`, from any thread; the store is written a moment later."""
        self.put(key, name, alias)
        until = ledger.now() + ledger.bounds.open
        text = key._replace(name=name).text
        note = Note(NAMES, text, msgspec.json.encode(alias), tenant=key.owner[0], until=until)

        def write() -> None:
            task = loop.create_task(_write(ledger, note))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

        loop.call_soon_threadsafe(write)


async def _write(ledger: TaskLedger, note: Note) -> None:
    try:
        await ledger.store.keep(note)
    except StateUnavailable:
        logger.warning("the name of a task could not be written down")
