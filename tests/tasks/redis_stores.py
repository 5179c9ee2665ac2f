"""Stores in a Redis that are open for a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.tasks.redis import RedisStore
from gateway.tasks.store import RecordedOwners
from tests.tasks.asking import ACME, sighting


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    """Open the store at a URL until the end of the block."""
    store = RedisStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


async def used(url: str) -> None:
    """Check that the store at a URL records a task."""
    async with opened(url) as store:
        assert await store.record("crm", sighting(ACME, "t1")) == RecordedOwners(task=ACME)
