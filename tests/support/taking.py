"""A client that takes the pieces of a stream as they come, and keeps them."""

import asyncio
from dataclasses import dataclass, field


@dataclass
class Taking:
    """A reader that takes everything, or `slowly`: nothing more before `released` is set.

    Attributes:
        full: Set when it has taken more than it can for now.
    """

    slowly: bool = False
    taken: list[bytes] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, chunk: bytes) -> bool:
        self.taken.append(chunk)
        return not self.slowly

    async def settle(self) -> None:
        self.full.set()
        await self.released.wait()
