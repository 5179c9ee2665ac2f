"""The client's side of an exchange whose answer may still become another one, until something is in it."""

from collections.abc import Callable

from gateway.a2a.headers import Pairs
from gateway.proxy.responder import Responder


class LateHead:
    """A wire whose head goes out with the first bytes behind it, or with the end.

    For clients whose dialect has no word in the middle of a stream for an agent's error: where it is the first thing
    that the agent says, it can be the answer, with a status of its own.

    Args:
        wire: The client's.
    """

    def __init__(self, wire: Responder) -> None:
        self._wire = wire
        self._head: tuple[int, Pairs] | None = None
        self.extra = wire.extra

    @property
    def opened(self) -> bool:
        """As `Responder.opened`."""
        return self._wire.opened

    def when_gone(self, callback: Callable[[], None]) -> None:
        """As `Responder.when_gone`."""
        self._wire.when_gone(callback)

    async def read(self, limit: int) -> bytes:
        """As `Responder.read`."""
        return await self._wire.read(limit)

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """As `Responder.answer`, whatever was to be opened."""
        self._head = None
        await self._wire.answer(status, headers, body)

    def open(self, status: int, headers: Pairs) -> None:
        """The head that goes out once something follows it."""
        self._head = (status, headers)

    async def write(self, data: bytes) -> None:
        """As `Responder.write`."""
        if data:
            self._begin()
        await self._wire.write(data)

    def write_nowait(self, data: bytes) -> bool:
        """As `Responder.write_nowait`."""
        if data:
            self._begin()
        return self._wire.write_nowait(data)

    async def drained(self) -> None:
        """As `Responder.drained`."""
        await self._wire.drained()

    async def close(self, trailers: Pairs | None = None) -> None:
        """As `Responder.close`."""
        self._begin()
        await self._wire.close(trailers)

    def cut(self) -> None:
        """As `Responder.cut`."""
        self._wire.cut()

    def _begin(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            self._wire.open(*head)
