"""What is on its way to webhooks: kept in the store until each has taken it, in the order in which it came.

A notification is two notes: its *slip*, which is short and is taken up when it is due, and its body. It is gone from
the store when its webhook has taken it or never will, and not before, so that a restart loses nothing; a receiver may
get one twice then, under the same id.

For each hook they go out one after another: only the oldest slip of a hook is ever sent. The others stand behind it,
and whoever is done with the oldest makes the next one due; should nobody come back, they fall due by themselves, much
later. Of several gateways that share a store, one has each slip: it is *leased* for longer than an attempt takes, and
due again when that is over.

| a slip | becomes |
|---|---|
| new, none of its hook before it | due |
| new or due, not the oldest of its hook | due when the oldest is done |
| due, the oldest | sent: gone if it was taken, is refused or dead; else due again after a pause |
| sent too often, or too old | dead: gone, and counted |
| whose hook is gone | gone |

No tenant has more than half of the deliveries that are made at a time, and those that wait have them in turns.
"""

import asyncio
import hashlib
import heapq
import logging
import math
import random
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from gateway.a2a.fault import StateUnavailable
from gateway.push.delivery import Delivery, Outcome, Result
from gateway.push.hook import Hook, Hooks
from gateway.tasks.ledger import soon
from gateway.tasks.store import Note, Store

SLIP: Final = "outbox"
BODY: Final = "outbox-body"
TWIN: Final = "outbox-twin"
SAME_FOR: Final = 600
"""Seconds for which the same body for the same hook is the same notification, which an agent has sent twice."""
MOST_WAITING: Final = 100
"""Notifications of one hook that wait."""

_POLL: Final = 5.0
_GRACE: Final = 30.0
_DOWN: Final = 0.5
_PAGE: Final = 64
_MOST_PAGES: Final = 16
_MOST_HELD: Final = 128
# How long what is too old is left in the store, for the worker to find and count.
_MARGIN: Final = 3600

logger = logging.getLogger("gateway.push")


class Terms(msgspec.Struct, frozen=True):
    """How notifications are delivered.

    Attributes:
        attempts: How often each is tried.
        timeout: Seconds that an attempt may take.
        keep: Seconds for which one is worth delivering.
        first_pause: Seconds after the first attempt that failed, at least; up to twice as long.
        longest_pause: Seconds, at most.
        concurrency: Deliveries at a time.
    """

    attempts: int = 5
    timeout: float = 10.0
    keep: float = 86_400.0
    first_pause: float = 1.0
    longest_pause: float = 300.0
    concurrency: int = 16


class Queued(Enum):
    """What became of a notification that is to be delivered."""

    TAKEN = "taken"
    TWIN = "twin"
    """It is, or was a short while ago, on its way already."""
    FULL = "full"
    """So many wait for this webhook that no more are taken."""


class Slip(msgspec.Struct, frozen=True, omit_defaults=True):
    """One notification on its way.

    Attributes:
        hook: The key of its hook.
        task: The task, as the client knows it.
        made: When it came, in Unix seconds.
        tried: Attempts that failed.
    """

    hook: str
    agent: str
    tenant: str
    task: str
    content_type: str
    made: float
    tried: int = 0


class _Held(msgspec.Struct):
    """A slip that was taken up; its lease is over at `until`."""

    key: str
    slip: Slip
    until: float


class Outbox:
    """Keeps notifications, and delivers them while `run` runs.

    Args:
        deliver: Makes one attempt.
        count: Told the agent and what came of each attempt: `delivered`, `retried`, `dead` or `refused`.
        wall: Unix seconds.
        chance: 0 to 1, for pauses.

    Attributes:
        terms: How; whoever reads the configuration again sets them.
    """

    def __init__(
        self,
        store: Store,
        deliver: Callable[[Delivery], Awaitable[Outcome]],
        *,
        terms: Terms | None = None,
        count: Callable[[str, str], None] = lambda _agent, _result: None,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notifications outlive the process
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.terms = Terms() if terms is None else terms
        self._store = store
        self._hooks = Hooks(store)
        self._deliver = deliver
        self._count = count
        self._wall = wall
        self._chance = chance
        self._wake = asyncio.Event()
        # When slips fall due that this process has put off.
        self._dues: list[float] = []
        # Slips that were taken up, by tenant in the order of their turns, and how many deliveries each tenant has.
        self._waiting: dict[str, deque[_Held]] = {}
        self._sending: Counter[str] = Counter()
        self._held: dict[str, _Held] = {}
        self._is_down = False

    # ---- In --------------------------------------------------------------------------------------------------------

    async def enqueue(self, hook: Hook, body: bytes, *, task: str, content_type: str) -> Queued:
        """Keep a notification until it is delivered; it is in the store when this returns.

        Args:
            task: The task, as the client knows it.

        Raises:
            StateUnavailable: it could not be kept.
        """
        store, now = self._store, self._wall()
        same = f"{hook.key}:{hashlib.sha256(body).hexdigest()}"
        if await soon(store.note(TWIN, same)) is not None:
            return Queued.TWIN
        before = await soon(store.group(SLIP, hook.key, MOST_WAITING))
        if len(before) >= MOST_WAITING:
            return Queued.FULL
        key = _key(int(now * 1e9), before[-1][0] if before else "")
        tenant = hook.owner.tenant
        slip = Slip(hook.key, hook.agent, tenant, task, content_type, now)
        # The body first: a slip without one would be nothing.
        await soon(store.keep(Note(BODY, key, body, tenant, until=self._until(slip))))
        if before:
            await self._put_behind(key, slip)
        else:
            await soon(store.keep(self._note(key, slip, due=now)))
        twin = Note(TWIN, same, key.encode("ascii"), tenant, until=math.ceil(now) + SAME_FOR)
        if await soon(store.settle(twin)) != twin.value:
            # Two came at a time, and the other one was quicker.
            await self._drop(key)
            return Queued.TWIN
        self._wake.set()
        return Queued.TAKEN

    def wake(self) -> None:
        """Look what is due, now."""
        self._wake.set()

    # ---- Out -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver, for ever; cancel it to stop. What is on its way then is tried again by whoever runs next."""
        self._waiting.clear()
        self._sending.clear()
        self._held.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                # Before looking: what comes meanwhile is looked for again.
                self._wake.clear()
                more = await self._take()
                self._begin(group)
                with suppress(TimeoutError):
                    async with asyncio.timeout(0 if more else self._pause()):
                        await self._wake.wait()

    async def _take(self) -> bool:
        """Take up what is due, while there is anybody to send it; whether there is more."""
        now = self._wall()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
        lease = self.terms.timeout + _GRACE
        for _ in range(_MOST_PAGES):
            if self._sending.total() >= self.terms.concurrency:
                return False
            try:
                notes = await soon(self._store.due(SLIP, now, _PAGE, lease))
            except StateUnavailable:
                self._tell_down()
                return False
            self._is_down = False
            for key, value in notes:
                self._hold(_Held(key, _decoder.decode(value), now + lease))
            if len(notes) < _PAGE:
                return False
        return True

    def _hold(self, held: _Held) -> None:
        known = self._held.get(held.key)
        if known is not None:
            # The store has given it out once more, and it is here still.
            known.until = held.until
            return
        waiting = self._waiting.setdefault(held.slip.tenant, deque())
        # What a tenant has too much of comes again when its lease is over, so that others are found behind it.
        if len(waiting) < _MOST_HELD:
            self._held[held.key] = held
            waiting.append(held)

    def _begin(self, group: asyncio.TaskGroup) -> None:
        """Send what waits, the tenants in turns, while there is anybody to send it."""
        concurrency = self.terms.concurrency
        share = (concurrency + 1) // 2
        latest = self._wall() + self.terms.timeout
        moved = True
        while moved and self._waiting:
            moved = False
            for tenant in tuple(self._waiting):
                if self._sending.total() >= concurrency:
                    return
                if self._sending[tenant] >= share:
                    continue
                # Whoever had a turn is the last one to have the next.
                waiting = self._waiting.pop(tenant)
                held = waiting.popleft()
                if waiting:
                    self._waiting[tenant] = waiting
                moved = True
                if held.until < latest:
                    # The lease might not last; the store gives the slip out again.
                    del self._held[held.key]
                    continue
                self._sending[tenant] += 1
                group.create_task(self._send(held), name="webhook")

    def _pause(self) -> float:
        """Seconds until something may be due; others that share the store may have put something off."""
        if self._is_down:
            return _DOWN
        if self._dues and self._sending.total() < self.terms.concurrency:
            return min(max(self._dues[0] - self._wall(), 0.0), _POLL)
        return _POLL

    async def _send(self, held: _Held) -> None:
        tenant = held.slip.tenant
        try:
            await self._attempt(held.key, held.slip)
        except StateUnavailable:
            # The lease ends, and it is tried again: twice, if it was taken.
            self._tell_down()
        finally:
            del self._held[held.key]
            self._sending[tenant] -= 1
            if self._sending[tenant] <= 0:
                del self._sending[tenant]
            self._wake.set()

    async def _attempt(self, key: str, slip: Slip) -> None:
        store = self._store
        first = await soon(store.group(SLIP, slip.hook, 1))
        if not first or first[0][0] != key:
            await self._put_behind(key, slip)
            return
        hook = await self._hooks.find(slip.hook)
        body = await soon(store.note(BODY, key))
        if hook is None or body is None:
            # The client has deleted it, or its tenant was erased.
            await self._finish(key, slip)
            return
        tried = slip.tried + 1
        if self._wall() > slip.made + self.terms.keep:
            outcome = Outcome(Result.DEAD, "it was not delivered in time")
        else:
            outcome = await self._try(hook, Delivery(_id(key), hook.config, slip.task, slip.content_type, body, tried))
        if outcome.result is Result.RETRIED and tried >= self.terms.attempts:
            outcome = replace(outcome, result=Result.DEAD)
        if outcome.result is Result.RETRIED:
            await self._put_off(key, replace(slip, tried=tried), outcome.pause)
        else:
            await self._finish(key, slip)
        self._count(slip.agent, outcome.result.value)
        if outcome.result in (Result.DEAD, Result.REFUSED):
            logger.warning(
                "a notification of tenant %s, task %s of agent %s, is given up after %d attempts: %s",
                slip.tenant, slip.task[:64], slip.agent, tried, outcome.words,
            )  # fmt: skip

    async def _try(self, hook: Hook, delivery: Delivery) -> Outcome:
        try:
            return await self._deliver(delivery)
        except Exception:  # a defect that one notification hits must not keep the others from being sent
            logger.exception("delivering a notification of agent %s failed", hook.agent)
            return Outcome(Result.RETRIED, "the gateway failed")

    async def _put_off(self, key: str, slip: Slip, asked: float | None) -> None:
        terms, now = self.terms, self._wall()
        pause = pause_after(slip.tried, self._chance(), terms)
        if asked is not None:
            pause = max(pause, min(asked, terms.longest_pause))
        await soon(self._store.keep(self._note(key, slip, due=now + pause)))
        heapq.heappush(self._dues, now + pause)

    async def _finish(self, key: str, slip: Slip) -> None:
        """Forget a notification, and make the next one of its hook due."""
        await self._drop(key)
        following = await soon(self._store.group(SLIP, slip.hook, 1))
        for after, value in following:
            await soon(self._store.keep(self._note(after, _decoder.decode(value), due=self._wall())))

    async def _put_behind(self, key: str, slip: Slip) -> None:
        """Let a slip stand behind an older one of its hook, unless that is done by now."""
        terms, store = self.terms, self._store
        later = self._wall() + terms.longest_pause + terms.timeout + _GRACE
        await soon(store.keep(self._note(key, slip, due=later)))
        # Who was done with the older one in between did not know of this one.
        first = await soon(store.group(SLIP, slip.hook, 1))
        if first and first[0][0] == key:
            await soon(store.keep(self._note(key, slip, due=self._wall())))

    async def _drop(self, key: str) -> None:
        # The slip first: a body without one is forgotten in time.
        await soon(self._store.drop(SLIP, key))
        await soon(self._store.drop(BODY, key))

    def _note(self, key: str, slip: Slip, *, due: float) -> Note:
        return Note(SLIP, key, _encode(slip), slip.tenant, slip.hook, due, self._until(slip))

    def _until(self, slip: Slip) -> int:
        return math.ceil(slip.made + self.terms.keep + self.terms.longest_pause + _MARGIN)

    def _tell_down(self) -> None:
        if not self._is_down:
            self._is_down = True
            logger.warning("notifications wait: the store does not answer: %s", self._store.label)


def pause_after(tried: int, chance: float, terms: Terms) -> float:
    """Seconds until the next attempt: anything between the first pause and twice as much for each that failed.

    Args:
        tried: Attempts that failed, from 1.
        chance: 0 to 1; spreads what failed at one moment.
    """
    longest = min(terms.longest_pause, terms.first_pause * 2.0 ** min(tried, 32))
    first = min(terms.first_pause, longest)
    return first + chance * (longest - first)


def _key(moment: int, before: str) -> str:
    """The key of a slip: greater than that of the one before it, whatever the clock says, and nobody else's."""
    if before:
        moment = max(moment, int(before.partition("-")[0], 16) + 1)
    return f"{moment:016x}-{secrets.token_hex(16)}"


def _id(key: str) -> str:
    """What a receiver knows a notification by; the rest of the key tells when it came."""
    return key.partition("-")[2]


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Slip)
