"""An identity provider on loopback: serves what it is told to, counts who asks, and can be slow or broken."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.identity.issuance import KEYS, key_set_document

__all__ = ["KEYS", "Provider", "provider"]


@dataclass
class Provider:
    """A provider whose responses a test may change.

    Attributes:
        documents: Bodies by path; a path that is missing is answered with 404.
        heads: Raw heads by path, for answers that are not a plain 200.
        asked: The number of requests of each path.
        open: Cleared, every answer waits until it is set again.
    """

    url: str = ""
    documents: dict[str, bytes] = field(default_factory=dict)
    heads: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    knocked: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def publish(self, *keys: Mapping[str, object]) -> None:
        """Serve these keys."""
        self.documents[KEYS] = key_set_document(*keys)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            self.asked[path] += 1
            self.knocked.put_nowait(path)
            await self.open.wait()
            body = self.documents.get(path)
            plain = b"HTTP/1.1 404 Not Found\r\n" if body is None else b"HTTP/1.1 200 OK\r\n"
            writer.write(self.heads.get(path, plain) + b"Connection: close\r\n\r\n" + (body or b""))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the gateway left
        finally:
            writer.close()


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """One provider, with nothing to serve."""
    served = Provider()
    served.open.set()
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        served.open.set()
        server.close()
        await server.wait_closed()
