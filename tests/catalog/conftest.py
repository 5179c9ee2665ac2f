"""What the tests of the catalog share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.catalog.cards import open_client


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client() as opened:
        yield opened
