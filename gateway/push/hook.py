"""What the gateway keeps of a push configuration whose webhook it calls itself.

An agent is given a callback of the gateway's own: a path that nobody can guess, and a token to show there. Neither
is kept, only what they hash to, so that a copy of the store calls nobody's callback. The client's own token and
credentials are kept as they are, for they are sent on.

A hook is *pending* from when the agent is asked until it has agreed, and then *settled*; one that is never settled is
soon forgotten. Once its task is over, it is kept for late notifications, and no longer.
"""

import hashlib
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.a2a.dialect import Version
from gateway.a2a.fault import StateUnavailable
from gateway.a2a.push_config import PushConfig
from gateway.tasks.store import Note, Owner, Store

KIND: Final = "hook"
PENDING: Final = 86_400
"""Seconds for which a hook is kept that no agent has agreed to: more than any send takes."""
SETTLED: Final = 90 * 86_400
"""Seconds for which one is kept after it was last heard of."""
OVER: Final = 2 * 86_400
"""Seconds for which one is kept after its task has ended: as long as anything may be on its way."""

_BYTES: Final = 32


class Secrets(NamedTuple):
    """What an agent is given for one hook, 256 bits each.

    Attributes:
        id: The last segment of the callback's path.
        token: What the agent shows there.
    """

    id: str
    token: str


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """One webhook of one client.

    Attributes:
        key: What its id hashes to; names it in the store.
        proof: What its token hashes to.
        scope: The backend's key.
        config: The webhook as the client wrote it; its `task_id` is the agent's, and empty until it is known. Its `id`
            is the client's, or else what the agent has called it.
        version: The generation that the client reads.
        asked: The generation in which the agent was asked, or None where that is not known.
        mark: What stands in the agent's ids before those of the client, and is taken out; or empty.
        name: What a client of 0.1 calls the task, where the agent calls it otherwise; or empty.
        session: Likewise for the context.
        made: Unix seconds.
        until: When it is forgotten, in Unix seconds.
        settled: Whether the agent has agreed to it.
        over: Whether the task has ended.
    """

    key: str
    proof: str
    scope: str
    owner: Owner
    config: PushConfig
    version: Version
    asked: Version | None = None
    mark: str = ""
    name: str = ""
    session: str = ""
    made: int = 0
    until: int = 0
    settled: bool = False
    over: bool = False

    @property
    def task(self) -> str:
        """What the agent calls its task; empty where that is not known yet."""
        return self.config.task_id

    @property
    def agent(self) -> str:
        """The agent's name, for metrics."""
        return self.scope.partition("/")[0]

    def is_called(self, config_id: str) -> bool:
        """Whether it is the configuration of that id: one without an id of its own is called as its task."""
        return config_id == (self.config.id or self.task)

    def __repr__(self) -> str:
        """Without anything that lets one call anybody."""
        return f"Hook(scope={self.scope!r}, task={self.task!r}, config={self.config.id!r})"


def new_secrets() -> Secrets:
    """Secrets of a new hook."""
    return Secrets(secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES))


def digest(secret: str) -> str:
    """What a secret is known by: it has 256 bits, so that no salt is needed."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


class HookUnreadable(StateUnavailable):
    """What the store has of a hook is nothing that this gateway can read: another version's, or damaged."""


class Hooks:
    """The hooks in a store; every method may raise `StateUnavailable`.

    Args:
        gone: Told the tenant of each that is dropped.
    """

    def __init__(self, store: Store, gone: Callable[[str], None] = lambda _tenant: None) -> None:
        self._store = store
        self._gone = gone

    async def find(self, key: str) -> Hook | None:
        """The hook of a key.

        Raises:
            HookUnreadable: it cannot be read.
        """
        value = await self._store.note(KIND, key)
        return None if value is None else _read(value)

    async def of(self, scope: str, task: str, most: int) -> list[Hook]:
        """The hooks of a task, the oldest first; `most` at most are looked at."""
        notes = await self._store.group(KIND, _group(scope, task), most)
        return sorted((_read(value) for _, value in notes), key=lambda hook: hook.made)

    async def write(self, hook: Hook) -> None:
        """Keep a hook, over what was kept of it."""
        group = _group(hook.scope, hook.task) if hook.task else ""
        note = Note(KIND, hook.key, _encode(hook), hook.owner.tenant, group, until=hook.until)
        await self._store.keep(note)

    async def rewrite(self, hook: Hook) -> None:
        """Keep a hook, unless it was dropped meanwhile."""
        if await self._store.note(KIND, hook.key) is not None:
            await self.write(hook)

    async def settle(self, hook: Hook, now: int, **changes: str) -> Hook:
        """Keep a hook that the agent has agreed to, and drop the one whose place it takes.

        Args:
            changes: Of its configuration: `id`, `task_id`.
        """
        config = replace(hook.config, **{name: value for name, value in changes.items() if value})
        settled = replace(hook, config=config, settled=True, until=hook.until if hook.over else now + SETTLED)
        await self.rewrite(settled)
        if settled.task:
            for other in await self.of(settled.scope, settled.task, MOST):
                if other.key != settled.key and other.settled and other.is_called(config.id or config.task_id):
                    await self.drop(other.key, other.owner.tenant)
        return settled

    async def drop(self, key: str, tenant: str) -> None:
        """Forget a hook, which is its tenant's."""
        if await self._store.drop(KIND, key):
            self._gone(tenant)


MOST: Final = 1000
"""Hooks of one task that are ever looked at: more than one may have, for some may not be settled yet."""


def _group(scope: str, task: str) -> str:
    # No scope has a space.
    return f"{scope} {task}"


def _read(value: bytes) -> Hook:
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise HookUnreadable("the gateway cannot read what it knows of a webhook") from error


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Hook)
