"""Subscriptions: the push configurations whose webhooks the gateway calls itself.

An agent gets a callback of the gateway: an unguessable path, and a token. Only the hashes of the two are stored, so
that a copy of the store does not allow calls of callbacks. The client's own token and credentials are stored in plain
text, because they are sent to its webhook.

A subscription is *pending* until the agent has accepted it, and then *confirmed*; one that is never confirmed expires
within a day. Once its task has ended, it is kept for late notifications, and no longer.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from gateway.a2a.dialect import Version
from gateway.a2a.fault import StateUnavailable
from gateway.a2a.push_config import PushConfig
from gateway.tasks.store import Note, Owner, Store

KIND: Final = "hook"
PENDING: Final = 86_400
"""Seconds for which a pending subscription is kept: longer than any send takes."""
CONFIRMED: Final = 90 * 86_400
"""Seconds for which a confirmed one is kept after its last notification."""
ENDED: Final = 2 * 86_400
"""Seconds for which one is kept after its task has ended: as long as a notification may be on its way."""
MOST: Final = 1000
"""Most subscriptions of one task that are read; more than the quota, because some may be pending."""


class Subscription(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    # The names in existing stores.
    rename={"context_prefix": "mark", "task_name": "name", "confirmed": "settled", "ended": "over"},
):
    """One webhook of one client.

    Attributes:
        key: The hash of its callback's id; names it in the store.
        proof: The hash of its callback's token.
        scope: The backend's key.
        config: The webhook as the client wrote it; its `task_id` is the agent's, and empty until it is known. Its `id`
            is the client's, or else the agent's name for it.
        version: The generation that the client reads.
        asked: The generation in which the agent was asked, or None where that is not known.
        context_prefix: Stands in the agent's ids before those of the client, and is removed; or empty.
        task_name: The task's id for a client of 0.1, where the agent has another one; or empty.
        session: Likewise for the context.
        made: Unix seconds.
        until: Unix seconds, when it expires.
        confirmed: Whether the agent has agreed to it.
        ended: Whether the task has ended.
    """

    key: str
    proof: str
    scope: str
    owner: Owner
    config: PushConfig
    version: Version
    asked: Version | None = None
    context_prefix: str = ""
    task_name: str = ""
    session: str = ""
    made: int = 0
    until: int = 0
    confirmed: bool = False
    ended: bool = False

    @property
    def task(self) -> str:
        """Return the agent's id of the task; empty where that is not known yet."""
        return self.config.task_id

    @property
    def client_task(self) -> str:
        """Return the client's id of the task; empty where that is not known yet."""
        return self.task_name or self.task.removeprefix(self.context_prefix)

    @property
    def agent(self) -> str:
        """Return the agent's name, for metrics."""
        return self.scope.partition("/")[0]

    def is_called(self, config_id: str) -> bool:
        """Return whether its configuration has that id: one without an id of its own has its task's."""
        return config_id == (self.config.id or self.task)

    def __repr__(self) -> str:
        """Leave out all members that allow a call of the callback or the webhook."""
        return f"Subscription(scope={self.scope!r}, task={self.task!r}, config={self.config.id!r})"


def digest(secret: str) -> str:
    """Return the hash of a secret: the secret has 256 bits, so no salt is needed."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


class SubscriptionUnreadable(StateUnavailable):
    """The store has a subscription that this gateway cannot read: of another version, or damaged."""


class Subscriptions:
    """The subscriptions in a store; every method may raise `StateUnavailable`.

    Args:
        dropped: Called with the tenant of each dropped subscription.
    """

    def __init__(self, store: Store, dropped: Callable[[str], None] = lambda _tenant: None) -> None:
        self._store = store
        self._dropped = dropped

    async def find(self, key: str) -> Subscription | None:
        """Return the subscription of a key.

        Raises:
            SubscriptionUnreadable: it cannot be read.
        """
        value = await self._store.note(KIND, key)
        return None if value is None else _read(value)

    async def of(self, scope: str, task: str) -> list[Subscription]:
        """Return the subscriptions to a task, the oldest first."""
        notes = await self._store.group(KIND, _group(scope, task), MOST)
        return sorted((_read(value) for _, value in notes), key=lambda each: each.made)

    async def write(self, subscription: Subscription) -> None:
        """Write a subscription, over one of the same key."""
        group = _group(subscription.scope, subscription.task) if subscription.task else ""
        tenant, until = subscription.owner.tenant, subscription.until
        await self._store.keep(Note(KIND, subscription.key, _encode(subscription), tenant, group, until=until))

    async def rewrite(self, subscription: Subscription) -> None:
        """Write a subscription, unless it was dropped meanwhile."""
        if await self._store.note(KIND, subscription.key) is not None:
            await self.write(subscription)

    async def confirm(self, subscription: Subscription, now: int, **changes: str) -> Subscription:
        """Record that the agent has accepted it, and drop the subscription that it replaces.

        The agent may name any task, so another tenant's subscription is never dropped.

        Args:
            changes: Of its configuration: `id`, `task_id`.
        """
        config = replace(subscription.config, **{name: value for name, value in changes.items() if value})
        until = subscription.until if subscription.ended else now + CONFIRMED
        confirmed = replace(subscription, config=config, confirmed=True, until=until)
        await self.rewrite(confirmed)
        if confirmed.task:
            tenant, config_id = confirmed.owner.tenant, config.id or config.task_id
            for other in await self.of(confirmed.scope, confirmed.task):
                is_other = other.key != confirmed.key and other.owner.tenant == tenant
                if is_other and other.confirmed and other.is_called(config_id):
                    await self.drop(other.key, tenant)
        return confirmed

    async def drop(self, key: str, tenant: str) -> None:
        """Delete a subscription of a tenant."""
        if await self._store.drop(KIND, key):
            self._dropped(tenant)


def _group(scope: str, task: str) -> str:
    # No scope has a space.
    return f"{scope} {task}"


def _read(value: bytes) -> Subscription:
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise SubscriptionUnreadable("the gateway cannot read a subscription of its store") from error


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Subscription)
