"""The client's side of a request, as the pipeline sees it; each listener has its own implementation."""

from collections.abc import Callable
from typing import Protocol

from gateway.a2a.headers import Pairs


class Responder(Protocol):
    """Reads the body of a request, and sends the answer.

    Attributes:
        extra: Headers that the answer has beside its own.
    """

    extra: Pairs

    @property
    def opened(self) -> bool:
        """Return whether the head of an answer has gone out."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete."""

    async def read(self, limit: int) -> bytes:
        """Return the whole request body; more than `limit` bytes raise BodyTooLarge."""

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer."""

    def open(self, status: int, headers: Pairs) -> None:
        """Send the head of an answer whose body follows by `write`."""

    async def write(self, data: bytes) -> None:
        """Send bytes of the body; waits while the client reads slowly."""

    def write_nowait(self, data: bytes) -> bool:
        """Send bytes of the body without waiting; return False if no more should be written until `drained`."""

    async def drained(self) -> None:
        """Wait until the client has read most of what was written."""

    async def close(self, trailers: Pairs | None = None) -> None:
        """End the body cleanly.

        Args:
            trailers: Headers after it; gRPC only.
        """

    def cut(self) -> None:
        """End the connection without the clean end of the body."""
