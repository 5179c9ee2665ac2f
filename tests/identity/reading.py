"""A key set that reads from a provider, with a clock of its own."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any

from gateway.config.model import ALGORITHMS
from gateway.identity.authenticator import Credentials, Identity
from gateway.identity.jwks import KeySet, open_http
from gateway.identity.pending import Pending
from gateway.principal import Principal
from tests.identity.issuance import NOW
from tests.identity.provider import KEYS, Provider, provider


@dataclass
class Running:
    """A key set that reads from a provider, with a clock that stands still."""

    key_set: KeySet
    results: asyncio.Queue[bool]
    now: float = 1000.0
    names: list[str] = field(default_factory=list)

    async def read(self) -> bool:
        """Wait for the next reading; whether it was good."""
        async with asyncio.timeout(10):
            return await self.results.get()

    def ask(self) -> Pending | None:
        """Have the keys read at once, as a token with an unknown kid does eleven seconds later."""
        self.now += 11.0
        return self.key_set.pending("nobody")


@asynccontextmanager
async def reading(served: Provider, *, discover: bool = False, **settings: Any) -> AsyncIterator[Running]:
    results: asyncio.Queue[bool] = asyncio.Queue()

    def on_result(name: str, good: bool) -> None:  # noqa: FBT001 - the shape of the hook
        running.names.append(name)
        results.put_nowait(good)

    async with open_http(SSLContext(PROTOCOL_TLS_CLIENT)) as http:
        asked = {
            "issuer_url": served.url,
            "jwks_url": None if discover else served.url + KEYS,
            "algorithms": ALGORITHMS,
        }
        key_set = KeySet(
            "corp", **{**asked, **settings}, http=http, on_result=on_result, clock=lambda: running.now, wall=lambda: NOW
        )
        running = Running(key_set, results)
        task = asyncio.get_running_loop().create_task(key_set.run())
        try:
            yield running
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def identify(who: Identity, shown: Credentials) -> Principal | None:
    """As the line does it."""
    try:
        return who.identify(shown, NOW)
    except Pending as pending:
        return await who.prove(pending, shown, lambda: NOW, 0.0)


@asynccontextmanager
async def read(*keys: Mapping[str, object], **settings: Any) -> AsyncIterator[tuple[Provider, Running]]:
    """A provider of these keys, and a key set that has read them."""
    async with provider() as served:
        served.publish(*keys)
        async with reading(served, **settings) as running:
            assert await running.read()
            yield served, running
