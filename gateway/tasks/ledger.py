"""The ledger of this process: its store, its secret, and what is derived from both. A reload keeps it."""

import asyncio
import itertools
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.state_url import StateUrl
from gateway.tasks.store import AFFINITY, NAMES, Bounds, Note, Owner, Store, notes_of
from gateway.tasks.token_cipher import TokenCipher

_MOST_PREFIXES = 10_000
_TRY_EVERY = 0.5
RENEW_EVERY = 30.0
EXPIRE_AT_ONCE = 10_000
# Expiry reads all of a file. Rounds of `RENEW_EVERY` between two runs, here and for notes that nothing else bounds.
_EXPIRE_ROUNDS = 4
BOUND_ROUNDS = 120
# Notes that are dropped before other tasks of the event loop run.
_DROPPED_AT_ONCE = 500

logger = logging.getLogger("gateway.tasks")


class TaskLedger:
    """The owners of all tasks.

    Args:
        wall: Unix seconds.
        clock: Monotonic seconds.

    Attributes:
        pending: Calls that may make a task and have no answer yet, by tenant.
        known_cipher: As `cipher`; None if the store has not told the secret yet.
        refuses: Whether a new task could not be written, and none has been since.
        wall: As the argument.
        open_tasks: Tasks that have not ended, by tenant and scope, when they were counted last.
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
        self.open_tasks: Mapping[tuple[str, str], int] = {}
        self.known_cipher: TokenCipher | None = None
        self._prefixes: dict[tuple[str, str, str], str] = {}

    async def open(self) -> None:
        """Open the store; a network store that does not answer yet is opened when it is needed.

        Raises:
            StoreBroken: it can never work as it is configured.
        """
        await self.store.open()
        try:
            await self._load_secret()
        except StateUnavailable:
            logger.warning("the store of the ledger does not answer yet: %s", self.store.label)

    async def aclose(self) -> None:
        """Close the store."""
        await self.store.aclose()

    def now(self) -> int:
        """Return Unix seconds."""
        return int(self.wall())

    def refused(self) -> None:
        """Note that a new task could not be written: the disk or the memory is full, or a replica is read-only."""
        self.refuses = True
        self._asked_again = self._clock()

    def try_again(self) -> None:
        """Let one send every `_TRY_EVERY` seconds test whether tasks can be written again.

        Raises:
            StateUnavailable: another send tests it. No agent should begin a task that its client cannot learn of.
        """
        if (now := self._clock()) < self._asked_again + _TRY_EVERY:
            raise StateUnavailable("the state of the gateway cannot be written", detail="a new task was refused")
        self._asked_again = now

    async def cipher(self) -> TokenCipher:
        """Return the cipher of tokens and context prefixes.

        Raises:
            StateUnavailable: the store does not answer, and never has.
        """
        return await self._load_secret() if self.known_cipher is None else self.known_cipher

    def prefix(self, cipher: TokenCipher, scope: str, owner: Owner, *, by_principal: bool) -> str:
        """Return the prefix of an owner's own contexts at a backend."""
        key = (scope, owner.tenant, owner.principal if by_principal else "")
        prefix = self._prefixes.get(key)
        if prefix is None:
            if len(self._prefixes) >= _MOST_PREFIXES:
                self._prefixes.clear()
            prefix = self._prefixes[key] = f"gw-{cipher.name(*key)}-"
        return prefix

    async def run(self) -> None:
        """Delete expired entries, and entries beyond a tenant's bounds; never returns."""
        for number in itertools.count(1):
            with suppress(StateUnavailable):
                self.open_tasks = await self.store.open_by_scope()
            await asyncio.sleep(RENEW_EVERY)
            with suppress(StateUnavailable):
                await self.renew()
                if number % _EXPIRE_ROUNDS == 0:
                    await self._expire()
                if number % BOUND_ROUNDS == 0:
                    await trim_notes(self.store, NAMES, self.bounds.tasks)
                    await trim_notes(self.store, AFFINITY, self.bounds.contexts)

    async def renew(self) -> None:
        """Check that the store still has the secret, the one that all gateways use.

        A Redis that was restarted empty would give another one to the next gateway that starts.

        Raises:
            StateUnavailable: the store does not answer.
        """
        before = self._secret
        await self._load_secret(before)
        if before is not None and self._secret != before:
            logger.warning("the store has another secret now: context ids that clients chose stand for new contexts")
            self._prefixes.clear()

    async def _expire(self) -> None:
        forgotten = 1
        while forgotten:
            forgotten = await self.store.expire(self.now(), self.bounds, EXPIRE_AT_ONCE)
            # Other tasks of the event loop run between two batches.
            await asyncio.sleep(0)

    async def _load_secret(self, secret: bytes | None = None) -> TokenCipher:
        """Read the secret from the store, or write it.

        Args:
            secret: Written if the store has none; a new secret by default.
        """
        note = Note("secret", "ledger", secrets.token_bytes(32) if secret is None else secret)
        self._secret = await self.store.settle(note)
        if self.known_cipher is None or self._secret != secret:
            self.known_cipher = TokenCipher(self._secret)
        return self.known_cipher


def make_store(state: StateUrl, patience: float | None = None) -> Store:
    """Return the store that a configuration names, not opened yet; relative paths are those of the working directory.

    Args:
        patience: Seconds for a reply over a network; by default as few as a call has.

    Raises:
        StoreBroken: it can never work as it is configured.
    """
    if state.kind != "redis":
        return SqliteStore(state.path if state.kind == "sqlite" else None)
    # Imported only by a gateway that uses Redis.
    from gateway.tasks.redis import RedisStore  # noqa: PLC0415 - see above

    return RedisStore(state.url, patience=patience)


async def trim_notes(store: Store, kind: str, most: int) -> int:
    """Delete a tenant's notes of a kind beyond `most`, those that expire first; return their number.

    A store does not count notes, so all of them are read. Between two runs a tenant may have more.

    Raises:
        StateUnavailable: the store does not answer; some may have been deleted.
    """
    counts: Counter[str] = Counter()
    async for note in notes_of(store, kind):
        counts[note.tenant] += 1
    beyond = {tenant: count - most for tenant, count in counts.items() if count > most}
    if not beyond:
        return 0
    expiry: dict[str, list[tuple[int, str]]] = {tenant: [] for tenant in beyond}
    async for note in notes_of(store, kind):
        if note.tenant in expiry:
            expiry[note.tenant].append((note.until, note.key))
    dropped = 0
    for tenant, found in expiry.items():
        for _, key in sorted(found)[: beyond[tenant]]:
            dropped += await store.drop(kind, key)
            if dropped % _DROPPED_AT_ONCE == 0:
                await asyncio.sleep(0)
    return dropped
