"""The way to a Redis: one connection that is always being kept up, and scripts that are run over it.

States:

    trying   the first attempt after the start, or after a connection was closed. Calls wait for it, 0.05 s at most.
    up       calls are sent.
    down     an attempt failed, or a reply was late. Calls fail at once; attempts go on, 0.1 to 0.25 s apart, until one
             succeeds.

Whatever goes wrong is `StateUnavailable`: no connection, a reply that is late, an error that the server tells. A call
takes half a second at most. Nothing is sent twice but a script that the server has forgotten: it did nothing then.

Whose replies say that the server itself is of no use (`_USELESS`) is left: behind its name there may be another now.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from gateway.a2a.fault import StateUnavailable
from gateway.background import Background
from gateway.tasks.redis_address import RedisAddress
from gateway.tasks.redis_connection import LATE, ConnectionLost, RedisConnection, encoded
from gateway.tasks.redis_dial import RedisDial
from gateway.tasks.redis_greeting import Script, TurnedAway
from gateway.tasks.redis_reply import Complaint, Reply
from gateway.tasks.store import StoreBroken
from gateway.tls_failure import kind

LOG_EVERY: Final = 10.0
"""Seconds between two lines that say that it is down."""

_WAIT: Final = 0.05
_LOAD: Final = 0.1
_PAUSES: Final = (0.1, 0.25)
_USELESS: Final = frozenset({"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "NOAUTH"})

logger = logging.getLogger("gateway.tasks")


class RedisLink:
    """Runs commands and scripts; opened and used in one event loop.

    Args:
        scripts: Those that will be run, to have them there beforehand.
        clock: Monotonic seconds.
        patience: As `RedisDial`.
    """

    def __init__(
        self,
        address: RedisAddress,
        scripts: Sequence[Script] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float | None = None,
    ) -> None:
        self.address = address
        self._scripts = scripts
        self._clock = clock
        self._patience = patience
        self._background = Background()
        self._connection: RedisConnection | None = None
        self._attempt: asyncio.Future[StoreBroken | None] | None = None
        self._down_since = 0.0
        self._told_at = -LOG_EVERY
        self._was_told = False
        # Why it was down the last time.
        self._why = ""

    @property
    def up(self) -> bool:
        """Whether calls are sent."""
        return self._connection is not None

    async def open(self) -> None:
        """Try once, for half a second; where nothing answers, go on trying.

        Raises:
            StoreBroken: it answers, and can never work as it is written.
        """
        dial = RedisDial(self.address, self._scripts, self.address.open_tls(), self._patience)
        self._down_since = self._clock()
        attempt = self._attempt = asyncio.get_running_loop().create_future()
        self._background.start("redis", lambda: self._stay(dial))
        try:
            broken = await asyncio.shield(attempt)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if broken is not None:
            await self.aclose()
            raise broken

    async def aclose(self) -> None:
        """Close the connection; whoever still waits gets `StateUnavailable`."""
        await self._background.aclose()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort("Closed")
        self._attempted(None)

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes] = ()) -> Reply:
        """Run a script; what it returns.

        Cancelling is safe, and does not undo it.

        Raises:
            StateUnavailable: nobody knows whether it was run. While the link is down this is told without waiting for
                anything, so whoever tries again and again must let the loop go on in between.
        """
        command = script.command(keys, args)
        reply = await self._send(command)
        if type(reply) is Complaint and reply.word == "NOSCRIPT":
            reply = await self._load(script, command)
        if type(reply) is Complaint:
            raise self._refused(reply)
        return reply

    async def ask(self, *words: bytes) -> Reply:
        """Run one command; as `run`."""
        reply = await self._send(encoded(words))
        if type(reply) is Complaint:
            raise self._refused(reply)
        return reply

    async def _send(self, command: bytes) -> Reply:
        connection = self._connection
        if connection is None:
            connection = await self._tried()
        try:
            return await connection.ask(command)
        except ConnectionLost as lost:
            raise unavailable(str(lost)) from None

    async def _load(self, script: Script, command: bytes) -> Reply:
        # Somebody told the server to forget all scripts; a server that starts is told them before it is up.
        try:
            async with asyncio.timeout(_LOAD):
                await self._send(script.loading)
                return await self._send(command)
        except TimeoutError:
            raise unavailable("TimeoutError") from None

    async def _tried(self) -> RedisConnection:
        if self._attempt is not None:
            await asyncio.wait((self._attempt,), timeout=_WAIT)
        if self._connection is None:
            raise unavailable(f"Down, {self._why}" if self._why else "Down")
        return self._connection

    def _refused(self, complaint: Complaint) -> StateUnavailable:
        connection = self._connection
        is_down = complaint.word in _USELESS
        if is_down and connection is not None:
            connection.abort(complaint.word)
        self._tell(complaint.word, is_down=is_down)
        return unavailable(complaint.word)

    # ---- Keeping it up -----------------------------------------------------------------------------------------------

    async def _stay(self, dial: RedisDial) -> None:
        while True:
            try:
                connection = await dial.dial()
            except (OSError, ConnectionLost, TurnedAway, StoreBroken) as error:
                self._failed(error)
                await asyncio.sleep(random.uniform(*_PAUSES))  # noqa: S311 - jitter
                continue
            self._succeeded(connection)
            why = await asyncio.shield(connection.lost)
            self._connection = None
            self._down_since = self._clock()
            if why != LATE:
                self._attempt = asyncio.get_running_loop().create_future()
            if not connection.unused:
                self._tell(why, is_down=True)

    def _succeeded(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._attempted(None)
        if self._was_told:
            self._was_told = False
            logger.warning("%s answers again, after %.1f s", self.address.label, self._clock() - self._down_since)

    def _failed(self, error: Exception) -> None:
        broken = error if isinstance(error, StoreBroken) else None
        self._attempted(broken)
        # The text of a system's error may hold an address, and that of the others is a word of ours or the server's.
        why = kind(error, connecting=self.address.tls) if isinstance(error, OSError) else str(error)
        self._tell(why, is_down=True)

    def _attempted(self, broken: StoreBroken | None) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None and not attempt.done():
            attempt.set_result(broken)

    def _tell(self, why: str, *, is_down: bool) -> None:
        if is_down:
            self._why = why
        now = self._clock()
        if now - self._told_at < LOG_EVERY:
            return
        self._told_at = now
        self._was_told = self._was_told or is_down
        logger.warning("%s cannot be used: %s; what needs it is refused", self.address.label, why)


def unavailable(word: str) -> StateUnavailable:
    """What callers are told, and a word for the log."""
    message = "it cannot be told now whose task this is; try again"
    return StateUnavailable(message, detail=f"redis: {word}", retry_after=1.0)
