"""What the judgement of a credential may have to wait for."""

from collections.abc import Awaitable, Callable


class Pending(Exception):  # noqa: N818 - no error: a step that the async caller takes before it asks again
    """A credential that cannot be judged yet; what it waits for is under way already.

    Attributes:
        issuer: The configured name of the issuer whose keys are being read; empty where it waits for its turn.
    """

    def __init__(self, why: str, wait: Callable[[], Awaitable[None]], *, issuer: str = "") -> None:
        super().__init__(why)
        self.issuer = issuer
        self._wait = wait

    async def settled(self) -> None:
        """Wait for it; never longer than it allows."""
        await self._wait()
