"""The task names of clients before 1.0, and the meaning of a call with such a name.

Clients of 0.1 choose the ids of their tasks; agents of later generations choose their own. A client of 1.0 objects
under a 0.3 method is remembered likewise, so that its next calls are understood as 1.0. The names are kept in
`tasks/aliases.py`.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.a2a.spelling import SPELLINGS
from gateway.backend.backend import Backend
from gateway.principal import Principal
from gateway.proxy.request import RequestContext
from gateway.tasks.aliases import Aliases, AliasKey
from gateway.upstream.dialects import spellings

_OF_0_1 = frozenset(name for row in SPELLINGS.values() for name in row.jsonrpc_0_1)
_MAYBE_NAMED = _OF_0_1.union(SPELLINGS[Operation.SUBSCRIBE_TO_TASK].jsonrpc_0_3)
"""Methods that may name a task by the client's own id, or a task that the client made in another version."""
_MIXED = Alias("", newer=True, mixed=True)
"""The alias of a caller whose last message had objects of 1.0 under a method of 0.3."""
_SEEDS = uuid.UUID("5b7c2f1e-6d0b-5a7e-9a63-0c8a4a0f6f1d")


class TaskNames:
    """The names of all clients, in memory and, for backends whose tasks have owners, in the ledger."""

    def __init__(self) -> None:
        self._aliases = Aliases()

    async def find(self, key: AliasKey, backend: Backend, call: Call) -> Alias | None:
        """Return the alias of the name in a call, or None."""
        isolation = backend.isolation
        if isolation is None or call.method not in _MAYBE_NAMED:
            return self._aliases.find(key)
        alias = await self._aliases.find_kept(isolation.ledger, key)
        if alias is not None and not alias.newer and isolation.keeps:
            known = await isolation.ledger.store.tasks(isolation.scope, (alias.task_id,))
            if known == [None] and not isolation.claims_unowned:
                # The task was erased or forgotten meanwhile: the name is free again.
                self._aliases.forget(key)
                return None
        return alias

    def meaning(
        self, request: RequestContext, call: Call, key: AliasKey | None, alias: Alias | None
    ) -> tuple[Call, tuple[Dialect, ...]]:
        """Return the call and its possible dialects; it is of 1.0 if only its task shows that."""
        meant = spellings(call, alias)
        if meant[0].version is Version.V1_0 and meant[0] != call.dialect:
            call = request.call = replace(call, dialect=meant[0])
            request.version = Version.V1_0
        if key is not None and call.operation.sends:
            # For the caller's lists, which name no task.
            if call.is_mixed:
                self._aliases.put(key, "", _MIXED)
            else:
                self._aliases.forget(key._replace(name=""))
        return call, meant

    def recorder(self, key: AliasKey, backend: Backend) -> Callable[[str, Alias], None]:
        """Return a function that records the names in an answer."""
        if backend.isolation is None:
            return partial(self._aliases.put, key)
        return partial(self._aliases.keep, backend.isolation.ledger, asyncio.get_running_loop(), key)


def name_key(principal: Principal, backend: str, call: Call) -> AliasKey | None:
    """Return the key of the task name in a call; None if such a call has no names."""
    mixed = call.is_mixed and call.operation.sends
    if call.dialect.binding is not Binding.JSONRPC or (call.dialect.version is Version.V1_0 and not mixed):
        return None
    owner = (principal.tenant, principal.issuer, principal.who, call.tenant or "")
    return AliasKey(owner, backend, call.task_id or "")


def message_id_of(key: AliasKey, call: Call) -> str:
    """Return an id for a message of 0.1, which has none; the same when the very same request comes again."""
    body = hashlib.sha256(call.body).hexdigest()
    return str(uuid.uuid5(_SEEDS, f"{key!r} {body}"))
