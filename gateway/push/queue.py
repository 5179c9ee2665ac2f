"""The durable queue of notifications: in order for each webhook, fair between tenants, retried with back-off.

A notification is two notes in the store: an *entry*, which is short and is leased when it is due, and its body. Both
are deleted only when the webhook has accepted the notification, or it is given up. So a restart loses nothing, and a
webhook may get a notification twice, under the same id.

Only the oldest entry of a webhook is ever sent. The next one is due when it is done, or much later if the process that
has to mark it due is killed. Of several gateways that share a store one leases each entry, for longer than an attempt
takes.

| an entry | then |
|---|---|
| leased, and not the oldest of its webhook | is due when the oldest is done |
| taken, dead or refused by the webhook (`delivery.py`) | is deleted, and counted |
| failed for now | is due again after a pause |
| failed too often, or is too old | is dead |
| cannot be read, or its subscription cannot | is dead |
| has lost its subscription | is deleted |
| is for an owner that may not call the agent any more | is refused |
"""

import asyncio
import hashlib
import logging
import math
import random
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from gateway.a2a.fault import StateUnavailable
from gateway.push.delivery import DeliveryResult, DeliveryRetryPolicy, Outcome, WebhookDelivery, backoff
from gateway.push.subscription import KIND, Subscription, Subscriptions, SubscriptionUnreadable
from gateway.tasks.store import Note, Store, notes_of
from gateway.telemetry.metrics import NO_AGENT

ENTRY: Final = "outbox"
"""The kind of the notes that are entries of the queue; the word stays, because stores have it."""
BODY: Final = "body"
"""The kind of their bodies; the first of all kinds, so that no page of the others ends with bodies."""
DUPLICATE: Final = "outbox-twin"
DUPLICATE_FOR: Final = 600
"""Seconds within which an equal body for the same webhook counts as a duplicate."""
MOST_WAITING: Final = 100
"""Most waiting notifications of one webhook."""
MOST_LEASED: Final = 2000
"""Entries of one tenant that wait in memory, of first attempts and of retries; others wait until their lease ends."""

# Other gateways of the store may have written or postponed entries.
_POLL: Final = 5.0
_STORE_AWAY: Final = 0.5
_PAGE: Final = 100
# Seconds by which a lease is longer than an attempt.
_GRACE: Final = 30.0
# Timeout of a stopping gateway for ending its leases.
_STOPPING: Final = 2.0
# Seconds for which an expired entry stays in the store, to be found and counted.
_MARGIN: Final = 3600
# Seconds between recounts: of everything, and of the entries alone.
_COUNT_EVERY: Final = 3600.0
_COUNT_ENTRIES_EVERY: Final = 30.0
_LOG_EVERY: Final = 60.0
"""Seconds between two lines about failed attempts: clients pick the webhooks, and could fill the log."""

NOT_ENTITLED: Final = "its owner may not call the agent any more"

logger = logging.getLogger("gateway.push")


class Enqueued(Enum):
    """Result of `DeliveryQueue.enqueue`."""

    TAKEN = "taken"
    DUPLICATE = "duplicate"
    """The same notification is in the queue, or was there recently."""
    FULL = "full"
    """Too many notifications wait for this webhook, or for all webhooks of its tenant."""


class QueueEntry(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    # The names in existing stores.
    rename={"subscription": "hook", "failed": "tried"},
):
    """One notification in the queue.

    Attributes:
        subscription: The key of its subscription.
        task: The client's id of the task.
        made: Unix seconds.
        failed: Attempts that failed.
        size: Bytes of its body.
    """

    subscription: str
    agent: str
    tenant: str
    task: str
    content_type: str
    made: float
    failed: int = 0
    size: int = 0

    def encode(self) -> bytes:
        """Return the value of its note."""
        return msgspec.json.encode(self)


def read_entry(value: bytes) -> QueueEntry | None:
    """Return the entry in a note; None if it is unreadable: of another version, or damaged."""
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError:
        return None


_decoder = msgspec.json.Decoder(QueueEntry)


# ---- Quotas ----------------------------------------------------------------------------------------------------------


class NotificationQuota(msgspec.Struct, frozen=True):
    """The most that one tenant may have: subscriptions, notifications that wait, and bytes of their bodies."""

    subscriptions: int = 20_000
    waiting: int = 10_000
    waiting_bytes: int = 256 * 1024 * 1024


class NotificationUsage:
    """Counts of subscriptions and notifications in the store by tenant, so that none can fill it.

    Both are counted where they are written and deleted. Expired notes, and those that another gateway writes, are not
    reported. So all are recounted each hour, and within a minute after a refusal; the entries each half minute, also
    for the metrics.

    Attributes:
        quota: Replaced when the configuration is reloaded.
        waiting: Notifications in the queue, by agent, when they were counted last.
        oldest: When the oldest of them was enqueued, in Unix seconds; None where there is none.
    """

    def __init__(self, store: Store, quota: NotificationQuota | None = None) -> None:
        self.quota = NotificationQuota() if quota is None else quota
        self._store = store
        self._subscriptions: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._has_refused = False
        self.waiting: Mapping[str, int] = {}
        self.oldest: float | None = None

    def has_room(self, tenant: str) -> bool:
        """Return whether a tenant may have one more subscription."""
        return self._answer(fits=self._subscriptions[tenant] < self.quota.subscriptions)

    def has_room_for(self, tenant: str, size: int) -> bool:
        """Return whether a tenant may have one more notification, of so many bytes."""
        quota = self.quota
        fits = self._waiting[tenant] < quota.waiting and self._bytes[tenant] + size <= quota.waiting_bytes
        return self._answer(fits=fits)

    def subscribed(self, tenant: str, change: int = 1) -> None:
        """Count one subscription more (1) or fewer (-1)."""
        _change(self._subscriptions, tenant, change)

    def queued(self, tenant: str, size: int, change: int = 1) -> None:
        """Count one notification more (1) or fewer (-1)."""
        _change(self._waiting, tenant, change)
        _change(self._bytes, tenant, change * size)

    async def run(self) -> None:
        """Count the entries each half minute, and the whole store now, each hour and after a refusal; never returns."""
        counted = -math.inf
        while True:
            with suppress(StateUnavailable):
                if self._has_refused or time.monotonic() >= counted + _COUNT_EVERY:
                    counted = time.monotonic()
                    await self.count()
                else:
                    await self.count_entries()
            await asyncio.sleep(_COUNT_ENTRIES_EVERY)

    async def count(self) -> None:
        """Recount the store.

        Raises:
            StateUnavailable: it does not answer; the counts stay as they are.
        """
        self._has_refused = False
        self._subscriptions = Counter([note.tenant async for note in notes_of(self._store, KIND)])
        await self.count_entries()

    async def count_entries(self) -> None:
        """Recount the notifications in the queue.

        Raises:
            StateUnavailable: as `count`.
        """
        waiting, sizes, agents = Counter[str](), Counter[str](), Counter[str]()
        oldest: float | None = None
        async for note in notes_of(self._store, ENTRY):
            entry = read_entry(note.value)
            waiting[note.tenant] += 1
            sizes[note.tenant] += 0 if entry is None else entry.size
            agents[NO_AGENT if entry is None else entry.agent] += 1
            made = math.inf if entry is None else entry.made
            oldest = made if oldest is None else min(oldest, made)
        self._waiting, self._bytes, self.waiting, self.oldest = waiting, sizes, agents, oldest

    def _answer(self, *, fits: bool) -> bool:
        if not fits:
            self._has_refused = True
        return fits


def _change(counts: Counter[str], tenant: str, change: int) -> None:
    counts[tenant] += change
    if counts[tenant] <= 0:
        del counts[tenant]


# ---- Whose turn it is ------------------------------------------------------------------------------------------------


class Leased(msgspec.Struct, eq=False):
    """An entry that this process has leased until then, in Unix seconds."""

    key: str
    entry: QueueEntry
    until: float


class FairQueue:
    """The leased entries, those that are being sent included; the tenants take turns.

    A tenant has at most half of the deliveries at a time. First attempts and retries are lanes of their own, and
    retries have at most half of that: webhooks that never answer hold up the other ones of their tenant only once.
    """

    def __init__(self) -> None:
        self._leased: dict[str, Leased] = {}
        # By tenant and whether it is a retry, in the order of their turns.
        self._lanes: dict[tuple[str, bool], deque[Leased]] = {}
        self._sending: Counter[tuple[str, bool]] = Counter()

    @property
    def sending(self) -> int:
        """Return how many deliveries are being made."""
        return self._sending.total()

    def add(self, leased: Leased) -> None:
        """Add an entry, unless its tenant has too many entries here; then it waits in the store."""
        known = self._leased.get(leased.key)
        if known is not None:
            # The lease ended here, and was taken again.
            known.until = leased.until
            return
        lane = self._lanes.setdefault(_lane(leased), deque())
        if len(lane) < MOST_LEASED:
            self._leased[leased.key] = leased
            lane.append(leased)

    def take(self, concurrency: int) -> Leased | None:
        """Return the next entry, which is being sent until it is `done`; None if none may be sent."""
        if self.sending >= concurrency:
            return None
        half = (concurrency + 1) // 2
        for lane, waiting in self._lanes.items():
            tenant, is_retry = lane
            if self._sending[tenant, True] + self._sending[tenant, False] >= half:
                continue
            if is_retry and self._sending[lane] >= max(half // 2, 1):
                continue
            del self._lanes[lane]
            leased = waiting.popleft()
            if waiting:
                # The lane has its next turn after all others.
                self._lanes[lane] = waiting
            self._sending[lane] += 1
            return leased
        return None

    def done(self, leased: Leased) -> None:
        """Remove an entry that was taken."""
        del self._leased[leased.key]
        self._sending[_lane(leased)] -= 1
        # Without those that are 0.
        self._sending = +self._sending

    def __iter__(self) -> Iterator[Leased]:
        return iter(tuple(self._leased.values()))


def _lane(leased: Leased) -> tuple[str, bool]:
    return leased.entry.tenant, leased.entry.failed > 0


# ---- The queue -------------------------------------------------------------------------------------------------------


class DeliveryQueue:
    """Keeps notifications, and delivers them while `run` runs.

    Args:
        deliver: Makes one attempt.
        entitled: Returns whether the owner of a subscription may still call its agent; asked before each attempt.
        audit: Called for each refused notification, with the reason.
        count: Called with the agent and the result of each attempt (`delivery.Result`); an unreadable agent is `-`.
        wall: Unix seconds.
        chance: 0 to 1, for pauses.

    Attributes:
        policy: Replaced when the configuration is reloaded.
    """

    def __init__(
        self,
        store: Store,
        deliver: Callable[[WebhookDelivery], Awaitable[Outcome]],
        *,
        policy: DeliveryRetryPolicy | None = None,
        usage: NotificationUsage | None = None,
        entitled: Callable[[Subscription], bool] = lambda _subscription: True,
        count: Callable[[str, str], None] = lambda _agent, _result: None,
        audit: Callable[[Subscription, str], None] = lambda _subscription, _why: None,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notifications outlive the process
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.policy = DeliveryRetryPolicy() if policy is None else policy
        self._store = store
        self._subscriptions = Subscriptions(store)
        self._usage = NotificationUsage(store) if usage is None else usage
        self._entitled = entitled
        self._deliver = deliver
        self._count = count
        self._audit = audit
        self._wall = wall
        self._chance = chance
        self._wake = asyncio.Event()
        self._fair = FairQueue()
        self._is_away = False
        self._logged_at = -math.inf

    # ---- In --------------------------------------------------------------------------------------------------------

    async def enqueue(self, subscription: Subscription, body: bytes, *, task: str, content_type: str) -> Enqueued:
        """Store a notification until it is delivered; it is in the store when this returns.

        Args:
            task: The client's id of the task.

        Raises:
            StateUnavailable: it could not be kept.
        """
        store, now = self._store, self._wall()
        fingerprint = f"{subscription.key}:{hashlib.sha256(body).hexdigest()}"
        if await store.note(DUPLICATE, fingerprint) is not None:
            return Enqueued.DUPLICATE
        before = await store.group(ENTRY, subscription.key, MOST_WAITING)
        tenant = subscription.owner.tenant
        if len(before) >= MOST_WAITING or not self._usage.has_room_for(tenant, len(body)):
            return Enqueued.FULL
        # Greater than the number of the previous one, even if the clock goes back.
        moment = max(int(now * 1e9), int(before[-1][0].partition("-")[0], 16) + 1 if before else 0)
        key = f"{moment:016x}-{secrets.token_hex(16)}"
        entry = QueueEntry(subscription.key, subscription.agent, tenant, task, content_type, now, size=len(body))
        # The body first: an entry without a body would be useless.
        await store.keep(Note(BODY, key, body, tenant, until=self._expires(entry)))
        self._usage.queued(tenant, entry.size)
        if before:
            await self._put_behind(key, entry)
        else:
            await self._write(key, entry, due=now)
        mark = Note(DUPLICATE, fingerprint, key.encode("ascii"), tenant, until=math.ceil(now) + DUPLICATE_FOR)
        if await store.settle(mark) != mark.value:
            # The same notification came at the same time, and was stored first.
            await self._delete(key, entry)
            return Enqueued.DUPLICATE
        self._wake.set()
        return Enqueued.TAKEN

    def wake(self) -> None:
        """Look for due entries at once."""
        self._wake.set()

    # ---- Out -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver until cancelled; leased entries then become due at once, for the next process."""
        self._fair = FairQueue()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    # Cleared before the look-up, so that entries that come meanwhile are found.
                    self._wake.clear()
                    has_more = await self._lease()
                    self._start(group)
                    if has_more:
                        await asyncio.sleep(0)
                        continue
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_STORE_AWAY if self._is_away else _POLL):
                            await self._wake.wait()
        finally:
            await self._end_leases()

    async def _lease(self) -> bool:
        """Lease a page of entries that are due, while a delivery is free; return whether there may be more."""
        if self._fair.sending >= self.policy.concurrency:
            return False
        now, lease = self._wall(), self.policy.timeout + _GRACE
        try:
            page = await self._store.due(ENTRY, now, _PAGE, lease)
            for key, value in page:
                entry = read_entry(value)
                if entry is None:
                    await self._discard(key)
                else:
                    self._fair.add(Leased(key, entry, now + lease))
        except StateUnavailable:
            self._log_away()
            return False
        self._is_away = False
        return len(page) == _PAGE

    def _start(self, group: asyncio.TaskGroup) -> None:
        latest = self._wall() + self.policy.timeout
        while (leased := self._fair.take(self.policy.concurrency)) is not None:
            if leased.until < latest:
                # The lease might end too early; the store leases the entry again.
                self._fair.done(leased)
            else:
                group.create_task(self._send(leased), name="webhook")

    async def _end_leases(self) -> None:
        latest = asyncio.get_running_loop().time() + _STOPPING
        with suppress(StateUnavailable):
            for leased in self._fair:
                if asyncio.get_running_loop().time() > latest:
                    return
                if await self._store.note(ENTRY, leased.key) is not None:
                    await self._write(leased.key, leased.entry, due=self._wall())

    async def _send(self, leased: Leased) -> None:
        # A cancelled entry is not done: its lease is ended.
        try:
            await self._attempt(leased.key, leased.entry)
        except StateUnavailable:
            # It is tried again when the lease ends: a duplicate, if it was accepted.
            self._log_away()
        except Exception:  # as in `_deliver_once`; it is tried again when the lease ends
            logger.exception("delivering a notification of agent %s failed", leased.entry.agent)
        self._fair.done(leased)
        self._wake.set()

    async def _attempt(self, key: str, entry: QueueEntry) -> None:
        store = self._store
        if not await self._is_oldest(key, entry):
            await self._put_behind(key, entry)
            return
        try:
            subscription = await self._subscriptions.find(entry.subscription)
        except SubscriptionUnreadable:
            await self._finish(key, entry, Outcome(DeliveryResult.DEAD, "its subscription cannot be read"))
            return
        body = await store.note(BODY, key)
        if subscription is None or body is None:
            # The client has deleted it, or its tenant was erased.
            await self._finish(key, entry)
            return
        tried = replace(entry, failed=entry.failed + 1)
        if self._wall() > entry.made + self.policy.keep:
            outcome = Outcome(DeliveryResult.DEAD, "it was not delivered in time")
        elif not self._entitled(subscription):
            outcome = Outcome(DeliveryResult.REFUSED, NOT_ENTITLED)
        else:
            # The id for receivers; the rest of the key is its time.
            _, _, id_ = key.partition("-")
            delivery = WebhookDelivery(id_, subscription.config, entry.task, entry.content_type, body, tried.failed)
            outcome = await self._deliver_once(delivery, entry)
        if outcome.result is DeliveryResult.RETRIED and tried.failed < self.policy.attempts:
            await self._retry(key, tried, outcome)
            return
        if outcome.result is DeliveryResult.RETRIED:
            outcome = replace(outcome, result=DeliveryResult.DEAD)
        if outcome.result is DeliveryResult.REFUSED:
            self._audit(subscription, outcome.reason)
        await self._finish(key, tried, outcome)

    async def _deliver_once(self, delivery: WebhookDelivery, entry: QueueEntry) -> Outcome:
        try:
            return await self._deliver(delivery)
        except Exception:  # a defect that one notification hits must not keep the others from being sent
            logger.exception("delivering a notification of agent %s failed", entry.agent)
            return Outcome(DeliveryResult.RETRIED, "the gateway failed")

    async def _retry(self, key: str, entry: QueueEntry, outcome: Outcome) -> None:
        pause = backoff(entry.failed, self._chance(), self.policy)
        if outcome.retry_after is not None:
            pause = max(pause, min(outcome.retry_after, self.policy.longest_pause))
        now = self._wall()
        if not 0 <= now - self._logged_at < _LOG_EVERY:
            self._logged_at = now
            logger.warning(
                "a notification of tenant %s, task %s of agent %s, is not delivered yet, after %d attempts: %s",
                entry.tenant, entry.task[:64], entry.agent, entry.failed, outcome.reason,
            )  # fmt: skip
        await self._write(key, entry, due=now + pause)
        if pause < _POLL:
            asyncio.get_running_loop().call_later(pause, self._wake.set)
        self._count(entry.agent, outcome.result.value)

    async def _finish(self, key: str, entry: QueueEntry, outcome: Outcome | None = None) -> None:
        """Delete an entry, and make the next one of its webhook due.

        Args:
            outcome: The outcome that is counted; None if it is not counted.
        """
        await self._delete(key, entry)
        while following := await self._store.group(ENTRY, entry.subscription, 1):
            ((after, value),) = following
            behind = read_entry(value)
            if behind is not None:
                await self._write(after, behind, due=self._wall())
                break
            await self._discard(after)
        if outcome is None:
            return
        self._count(entry.agent, outcome.result.value)
        if outcome.result is not DeliveryResult.DELIVERED:
            logger.warning(
                "a notification of tenant %s, task %s of agent %s, is given up after %d attempts: %s",
                entry.tenant, entry.task[:64], entry.agent, entry.failed, outcome.reason,
            )  # fmt: skip

    async def _discard(self, key: str) -> None:
        """Delete an unreadable entry; later entries of its webhook become due by themselves."""
        logger.error("a notification is given up: its entry in the store cannot be read")
        await self._store.drop(ENTRY, key)
        await self._store.drop(BODY, key)
        self._count(NO_AGENT, DeliveryResult.DEAD.value)

    async def _put_behind(self, key: str, entry: QueueEntry) -> None:
        """Postpone an entry behind an older one of its webhook."""
        later = self._wall() + self.policy.longest_pause + self.policy.timeout + _GRACE
        await self._write(key, entry, due=later)
        # The older one may be done by now, and its process did not see this one.
        if await self._is_oldest(key, entry):
            await self._write(key, entry, due=self._wall())

    async def _is_oldest(self, key: str, entry: QueueEntry) -> bool:
        oldest = await self._store.group(ENTRY, entry.subscription, 1)
        return bool(oldest) and oldest[0][0] == key

    async def _delete(self, key: str, entry: QueueEntry) -> None:
        # The entry first: a body without one expires.
        if await self._store.drop(ENTRY, key):
            self._usage.queued(entry.tenant, entry.size, -1)
        await self._store.drop(BODY, key)

    async def _write(self, key: str, entry: QueueEntry, *, due: float) -> None:
        note = Note(ENTRY, key, entry.encode(), entry.tenant, entry.subscription, due, self._expires(entry))
        await self._store.keep(note)

    def _expires(self, entry: QueueEntry) -> int:
        return math.ceil(entry.made + self.policy.keep + self.policy.longest_pause + _MARGIN)

    def _log_away(self) -> None:
        if not self._is_away:
            self._is_away = True
            logger.warning("notifications wait: the store does not answer: %s", self._store.label)
