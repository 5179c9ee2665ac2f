"""The client's side of an exchange, as the line sees it; `listener/http1.py` has the one over HTTP."""

from collections.abc import Callable
from typing import Protocol

from gateway.a2a.headers import Pairs


class Wire(Protocol):
    """The client's side of an exchange: the body in, the answer out.

    Attributes:
        extra: Headers that every answer has beside its own.
    """

    extra: Pairs

    @property
    def opened(self) -> bool:
        """Whether the head of an answer has gone out."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete."""

    async def read(self, limit: int) -> bytes:
        """The whole request body; more than `limit` bytes raise BodyTooLarge."""

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """A whole answer."""

    def open(self, status: int, headers: Pairs) -> None:
        """The head of an answer whose body follows by `write`."""

    async def write(self, data: bytes) -> None:
        """Bytes of the body; waits while the client reads slowly."""

    def write_nowait(self, data: bytes) -> bool:
        """Bytes of the body, whether the client reads or not; False where no more should be written until `drained`."""

    async def drained(self) -> None:
        """Wait until the client has read most of what was written."""

    async def close(self, trailers: Pairs | None = None) -> None:
        """The clean end of the body.

        Args:
            trailers: What stands behind it; only gRPC has any.
        """

    def cut(self) -> None:
        """The end of the connection, without the clean end of the body."""
