"""The ledger of this process: its store, its secret, and what is worked out from the two.

It lives as long as the process: a reload of the configuration keeps it.
"""

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.seal import Seal
from gateway.tasks.store import HOMES, NAMES, Bounds, Note, Owner, Store
from gateway.tasks.surplus import drop_surplus

_MOST_MARKS = 10_000
_TRY_EVERY = 0.5
_RENEW_EVERY = 30.0
_EXPIRE_AT_ONCE = 10_000
# Expiry reads all of a file. Rounds of `_RENEW_EVERY` between two runs, here and for notes that nothing else bounds.
_EXPIRE_ROUNDS = 4
_BOUND_ROUNDS = 120

logger = logging.getLogger("gateway.tasks")


class Ledger:
    """Whose every task is.

    Args:
        wall: Unix seconds.
        clock: Monotonic seconds.

    Attributes:
        pending: By tenant, calls on their way that may make a task.
        known_seal: As `seal`; None where the store has not told it yet.
        refuses: Whether a new task could not be written down, and none has been since.
        wall: As the argument.
    """

    def __init__(
        self,
        store: Store,
        bounds: Bounds | None = None,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - entries outlive the process
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.bounds = Bounds() if bounds is None else bounds
        self.pending: dict[str, int] = {}
        self.refuses = False
        self._asked_again = 0.0
        self.wall = wall
        self._clock = clock
        self._secret: bytes | None = None
        self.known_seal: Seal | None = None
        self._marks: dict[tuple[str, str, str], str] = {}

    async def open(self) -> None:
        """Get ready; a store over a network that does not answer yet is asked again when it is needed.

        Raises:
            StoreBroken: it can never work as it is written.
        """
        await self.store.open()
        try:
            await self._unseal()
        except StateUnavailable:
            logger.warning("the store of the ledger does not answer yet: %s", self.store.label)

    async def aclose(self) -> None:
        """Write what is left."""
        await self.store.aclose()

    def now(self) -> int:
        """Unix seconds."""
        return int(self.wall())

    def refused(self) -> None:
        """A new task could not be written down: a disk or a memory is full, or a replica takes no writes."""
        self.refuses = True
        self._asked_again = self._clock()

    def try_again(self) -> None:
        """Let one send in every `_TRY_EVERY` seconds find out whether tasks are taken again.

        Raises:
            StateUnavailable: another one does. No agent is to begin what nobody could be told of.
        """
        if (now := self._clock()) < self._asked_again + _TRY_EVERY:
            raise StateUnavailable("the state of the gateway cannot be written", detail="a new task was refused")
        self._asked_again = now

    async def seal(self) -> Seal:
        """Return what closes tokens and makes context prefixes.

        Raises:
            StateUnavailable: the store does not answer, and was never asked.
        """
        return await self._unseal() if self.known_seal is None else self.known_seal

    def mark(self, seal: Seal, scope: str, owner: Owner, *, by_principal: bool) -> str:
        """What stands before the names that an owner gives its contexts at a backend that others reach too."""
        key = (scope, owner.tenant, owner.principal if by_principal else "")
        mark = self._marks.get(key)
        if mark is None:
            if len(self._marks) >= _MOST_MARKS:
                self._marks.clear()
            mark = self._marks[key] = f"gw-{seal.mark(*key)}-"
        return mark

    async def run(self) -> None:
        """Forget what is past its time, and what a tenant has too much of, for ever."""
        for number in itertools.count(1):
            await asyncio.sleep(_RENEW_EVERY)
            with suppress(StateUnavailable):
                await self.renew()
                if number % _EXPIRE_ROUNDS == 0:
                    await self._expire()
                if number % _BOUND_ROUNDS == 0:
                    await drop_surplus(self.store, NAMES, self.bounds.tasks)
                    await drop_surplus(self.store, HOMES, self.bounds.contexts)

    async def renew(self) -> None:
        """See to it that the store has the secret still, and that it is the one that all others use.

        A Redis that was started empty would give another one to the next gateway that comes.

        Raises:
            StateUnavailable: the store does not answer.
        """
        before = self._secret
        await self._unseal(before)
        if before is not None and self._secret != before:
            logger.warning("the store has another secret now: contexts that clients have named begin anew")
            self._marks.clear()

    async def _expire(self) -> None:
        forgotten = 1
        while forgotten:
            forgotten = await self.store.expire(self.now(), self.bounds, _EXPIRE_AT_ONCE)
            # Other tasks of the event loop run between two batches.
            await asyncio.sleep(0)

    async def _unseal(self, secret: bytes | None = None) -> Seal:
        """Settle on a secret.

        Args:
            secret: The one to be kept where the store has none; a new one where it is left out.
        """
        note = Note("secret", "ledger", secrets.token_bytes(32) if secret is None else secret)
        self._secret = await self.store.settle(note)
        if self.known_seal is None or self._secret != secret:
            self.known_seal = Seal(self._secret)
        return self.known_seal
