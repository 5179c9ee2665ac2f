"""The second way to a Redis: for what is so large that everybody else would wait behind it.

A connection gives its replies in order. A hundred notifications of a megabyte are on their way for longer than a reply
may take, so on the one connection a tenant's agent could have the calls of all others refused. Here they wait for each
other alone, a few at a time, and who has waited too long is told `StateUnavailable`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.tasks.redis_address import RedisAddress
from gateway.tasks.redis_greeting import Script
from gateway.tasks.redis_link import RedisLink, unavailable
from gateway.tasks.redis_reply import Reply
from gateway.tasks.store import StoreBroken

LARGE: Final = 32 * 1024
"""Bytes of a value from which on it goes this way."""

_AT_ONCE: Final = 4
_PATIENCE: Final = 2.0
"""Seconds for a turn, and as many for a reply."""


class RedisBulk:
    """As `RedisLink`; the connection is made when there is something large for the first time.

    Args:
        patience: Seconds for a turn, and for a reply.
    """

    def __init__(self, address: RedisAddress, scripts: Sequence[Script], patience: float | None = None) -> None:
        self._patience = max(patience or 0.0, _PATIENCE)
        self._link = RedisLink(address, scripts, patience=self._patience)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._opening = asyncio.Lock()
        self._is_open = False

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes] = ()) -> Reply:
        """As `RedisLink.run`.

        Raises:
            StateUnavailable: likewise; or too much is on its way.
        """
        await self._turn()
        try:
            return await self._link.run(script, keys, args)
        finally:
            self._turns.release()

    async def ask(self, *words: bytes) -> Reply:
        """As `RedisLink.ask`.

        Raises:
            StateUnavailable: as `run`.
        """
        await self._turn()
        try:
            return await self._link.ask(*words)
        finally:
            self._turns.release()

    async def aclose(self) -> None:
        """As `RedisLink.aclose`."""
        async with self._opening:
            self._is_open = True
        await self._link.aclose()

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._turns.acquire()
        except TimeoutError:
            raise unavailable("Overloaded") from None
        try:
            await self._open()
        except BaseException:
            self._turns.release()
            raise

    async def _open(self) -> None:
        async with self._opening:
            if self._is_open:
                return
            try:
                await self._link.open()
            except StoreBroken:
                # The first connection was let in; what is told of that one, is.
                raise unavailable("StoreBroken") from None
            self._is_open = True
