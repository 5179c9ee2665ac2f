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
| that cannot be read, or whose hook cannot | dead |
| whose hook is gone | gone |
| whose hook's owner may not call the agent any more | refused: gone, and counted |

Whose turn it is, of those that were taken up, is in `turns.py`. No more are taken up of one tenant than wait there for
a moment: what is left of it in the store is *passed over* for a second or so, so that others are found behind it.
"""

import asyncio
import hashlib
import heapq
import logging
import math
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from gateway.a2a.fault import StateUnavailable
from gateway.push import slip as slips
from gateway.push.account import Account
from gateway.push.delivery import Delivery, Outcome, Result
from gateway.push.hook import Hook, Hooks, HookUnreadable
from gateway.push.slip import Slip
from gateway.push.turns import Held, Turns
from gateway.tasks.store import Note, Store
from gateway.telemetry.metrics import NO_AGENT

SLIP: Final = slips.KIND
# The first of all kinds: who lists slips, or hooks, does not have bodies with the last of them.
BODY: Final = "body"
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
# How long what is passed over is left alone; longer where that is more than can be looked at every second.
_PASSED: Final = 1.0
# How long a worker that is stopped gives back what it has.
_PARTING: Final = 2.0
# How long what is too old is left in the store, for the worker to find and count.
_MARGIN: Final = 3600

NOT_ENTITLED: Final = "its owner may not call the agent any more"

_RETRY_LOG_EVERY = 60.0
"""Seconds between two lines of the log about attempts that failed: clients pick the webhooks, and could fill it."""

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

    attempts: int = 1000
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
    """So many wait for this webhook, or for all of its tenant's, that no more are taken."""


class Outbox:
    """Keeps notifications, and delivers them while `run` runs.

    Args:
        deliver: Makes one attempt.
        account: How much tenants have.
        entitled: Whether the owner of a hook may still call its agent; asked before each attempt.
        audit: Told of each notification that is refused: its webhook may not be called any more, or not for its owner.
        count: Told the agent and what came of each attempt: `delivered`, `retried`, `dead` or `refused`; the agent is
            `-` where it cannot be read.
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
        account: Account | None = None,
        entitled: Callable[[Hook], bool] = lambda _hook: True,
        count: Callable[[str, str], None] = lambda _agent, _result: None,
        audit: Callable[[Hook, str], None] = lambda _hook, _words: None,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notifications outlive the process
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.terms = Terms() if terms is None else terms
        self._store = store
        self._hooks = Hooks(store)
        self._account = Account(store) if account is None else account
        self._entitled = entitled
        self._deliver = deliver
        self._count = count
        self._audit = audit
        self._wall = wall
        self._chance = chance
        self._wake = asyncio.Event()
        # When slips fall due that this process has put off.
        self._dues: list[float] = []
        self._turns = Turns()
        # Pages of slips that were passed over since there was an end of them.
        self._passed = 0
        self._is_down = False
        self._told_of_retry = -math.inf

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
        if await store.note(TWIN, same) is not None:
            return Queued.TWIN
        before = await store.group(SLIP, hook.key, MOST_WAITING)
        tenant = hook.owner.tenant
        if len(before) >= MOST_WAITING or not self._account.has_room_for(tenant, len(body)):
            return Queued.FULL
        key = _key(int(now * 1e9), before[-1][0] if before else "")
        slip = Slip(hook.key, hook.agent, tenant, task, content_type, now, size=len(body))
        # The body first: a slip without one would be nothing.
        await store.keep(Note(BODY, key, body, tenant, until=self._until(slip)))
        self._account.queued(tenant, slip.size)
        if before:
            await self._put_behind(key, slip)
        else:
            await store.keep(self._note(key, slip, due=now))
        twin = Note(TWIN, same, key.encode("ascii"), tenant, until=math.ceil(now) + SAME_FOR)
        if await store.settle(twin) != twin.value:
            # Two came at a time, and the other one was quicker.
            await self._drop(key, slip)
            return Queued.TWIN
        self._wake.set()
        return Queued.TAKEN

    def wake(self) -> None:
        """Look what is due, now."""
        self._wake.set()

    # ---- Out -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver, for ever; cancel it to stop. What it has then is due at once, for whoever runs next."""
        self._turns = Turns()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    # Before looking: what comes meanwhile is looked for again.
                    self._wake.clear()
                    more = await self._take()
                    self._begin(group)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0 if more else self._pause()):
                            await self._wake.wait()
        finally:
            await self._give_back()

    async def _take(self) -> bool:
        """Take up what is due, while there is anybody to send it; whether there is more."""
        now = self._wall()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
        lease = self.terms.timeout + _GRACE
        passing = 0.0
        for _ in range(_MOST_PAGES):
            if self._turns.sending >= self.terms.concurrency:
                return False
            try:
                notes = await self._store.due(SLIP, now, _PAGE, passing or lease)
                passing = await self._hold(notes, now + lease, passing)
            except StateUnavailable:
                self._tell_down()
                return False
            self._is_down = False
            if len(notes) < _PAGE:
                self._passed = 0
                return False
            # Others have their turn between two pages.
            await asyncio.sleep(0)
        return True

    async def _hold(self, notes: Sequence[tuple[str, bytes]], until: float, passing: float) -> float:
        """Let slips wait for their turns; those of tenants that have too many here are passed over.

        Args:
            until: When the lease of what is held is over.
            passing: The lease with which they were taken, where that was one to pass them over; or 0.

        Gives the lease with which the next ones should be taken, or 0.
        """
        passed = False
        for key, value in notes:
            slip = slips.read(value)
            if slip is None:
                await self._spoil(key)
                continue
            is_held = self._turns.hold(Held(key, slip, until))
            passed = passed or not is_held
            if is_held and passing:
                await self._store.keep(self._note(key, slip, due=until))
            elif not is_held and not passing:
                await self._store.keep(self._note(key, slip, due=self._wall() + _PASSED))
        if not passed:
            return passing
        pause = _PASSED * (1 + self._passed // _MOST_PAGES)
        self._passed += 1
        heapq.heappush(self._dues, self._wall() + (passing or _PASSED))
        return pause

    def _begin(self, group: asyncio.TaskGroup) -> None:
        """Send what waits, the tenants in turns, while there is anybody to send it."""
        latest = self._wall() + self.terms.timeout
        while (held := self._turns.next(self.terms.concurrency)) is not None:
            if held.until < latest:
                # The lease might not last; the store gives the slip out again.
                self._turns.done(held)
            else:
                group.create_task(self._send(held), name="webhook")

    async def _give_back(self) -> None:
        """Have all that was taken up be due at once, rather than when its lease is over."""
        latest = asyncio.get_running_loop().time() + _PARTING
        with suppress(StateUnavailable):
            for held in self._turns:
                if asyncio.get_running_loop().time() > latest:
                    return
                # What was dropped meanwhile stays so.
                if not held.settled and await self._store.note(SLIP, held.key) is not None:
                    await self._store.keep(self._note(held.key, held.slip, due=self._wall()))

    def _pause(self) -> float:
        """Seconds until something may be due; others that share the store may have put something off."""
        if self._is_down:
            return _DOWN
        if self._dues and self._turns.sending < self.terms.concurrency:
            return min(max(self._dues[0] - self._wall(), 0.0), _POLL)
        return _POLL

    async def _send(self, held: Held) -> None:
        try:
            await self._attempt(held)
        except StateUnavailable:
            # The lease ends, and it is tried again: twice, if it was taken.
            self._tell_down()
        except asyncio.CancelledError:
            # It stays held, to be given back.
            raise
        except BaseException:
            self._turns.done(held)
            raise
        self._turns.done(held)
        self._wake.set()

    async def _attempt(self, held: Held) -> None:
        store, key, slip = self._store, held.key, held.slip
        first = await store.group(SLIP, slip.hook, 1)
        if not first or first[0][0] != key:
            held.settled = True
            await self._put_behind(key, slip)
            return
        try:
            hook = await self._hooks.find(slip.hook)
        except HookUnreadable:
            held.settled = True
            await self._give_up(key, slip, Outcome(Result.DEAD, "what is kept of its webhook cannot be read"))
            return
        body = await store.note(BODY, key)
        if hook is None or body is None:
            # The client has deleted it, or its tenant was erased.
            held.settled = True
            await self._finish(key, slip)
            return
        tried = slip.tried + 1
        if self._wall() > slip.made + self.terms.keep:
            outcome = Outcome(Result.DEAD, "it was not delivered in time")
        elif not self._entitled(hook):
            outcome = Outcome(Result.REFUSED, NOT_ENTITLED)
        else:
            outcome = await self._try(hook, Delivery(_id(key), hook.config, slip.task, slip.content_type, body, tried))
        if outcome.result is Result.RETRIED and tried >= self.terms.attempts:
            outcome = replace(outcome, result=Result.DEAD)
        held.settled = True
        if outcome.result is Result.RETRIED:
            self._tell_of_retry(replace(slip, tried=tried), outcome)
            await self._put_off(key, replace(slip, tried=tried), outcome.pause)
            self._count(slip.agent, outcome.result.value)
            return
        if outcome.result is Result.REFUSED:
            self._audit(hook, outcome.words)
        await self._give_up(key, replace(slip, tried=tried), outcome)

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
        await self._store.keep(self._note(key, slip, due=now + pause))
        heapq.heappush(self._dues, now + pause)

    async def _give_up(self, key: str, slip: Slip, outcome: Outcome) -> None:
        """Forget a notification that its webhook has taken, or never will."""
        await self._finish(key, slip)
        self._count(slip.agent, outcome.result.value)
        if outcome.result is not Result.DELIVERED:
            logger.warning(
                "a notification of tenant %s, task %s of agent %s, is given up after %d attempts: %s",
                slip.tenant, slip.task[:64], slip.agent, slip.tried, outcome.words,
            )  # fmt: skip

    async def _finish(self, key: str, slip: Slip) -> None:
        """Forget a notification, and make the next one of its hook due."""
        await self._drop(key, slip)
        while following := await self._store.group(SLIP, slip.hook, 1):
            ((after, value),) = following
            behind = slips.read(value)
            if behind is not None:
                await self._store.keep(self._note(after, behind, due=self._wall()))
                return
            await self._spoil(after)

    async def _spoil(self, key: str) -> None:
        """Forget a slip that cannot be read; those behind it fall due by themselves."""
        logger.error("a notification is given up: what is kept of it cannot be read")
        await self._store.drop(SLIP, key)
        await self._store.drop(BODY, key)
        self._count(NO_AGENT, Result.DEAD.value)

    async def _put_behind(self, key: str, slip: Slip) -> None:
        """Let a slip stand behind an older one of its hook, unless that is done by now."""
        terms, store = self.terms, self._store
        later = self._wall() + terms.longest_pause + terms.timeout + _GRACE
        await store.keep(self._note(key, slip, due=later))
        # Who was done with the older one in between did not know of this one.
        first = await store.group(SLIP, slip.hook, 1)
        if first and first[0][0] == key:
            await store.keep(self._note(key, slip, due=self._wall()))

    async def _drop(self, key: str, slip: Slip) -> None:
        # The slip first: a body without one is forgotten in time.
        if await self._store.drop(SLIP, key):
            self._account.queued(slip.tenant, slip.size, -1)
        await self._store.drop(BODY, key)

    def _note(self, key: str, slip: Slip, *, due: float) -> Note:
        return Note(SLIP, key, slip.written(), slip.tenant, slip.hook, due, self._until(slip))

    def _until(self, slip: Slip) -> int:
        return math.ceil(slip.made + self.terms.keep + self.terms.longest_pause + _MARGIN)

    def _tell_of_retry(self, slip: Slip, outcome: Outcome) -> None:
        """Log why an attempt failed: not only after a day, when the notification is given up, and not every time."""
        now = self._wall()
        if 0 <= now - self._told_of_retry < _RETRY_LOG_EVERY:
            return
        self._told_of_retry = now
        logger.warning(
            "a notification of tenant %s, task %s of agent %s, is not delivered yet, after %d attempts: %s",
            slip.tenant, slip.task[:64], slip.agent, slip.tried, outcome.words,
        )  # fmt: skip

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
