"""Fixtures that the tests of the catalog share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.cards.fetch import open_client
from tests.support.grpc_agent import grpc_over

__all__ = ("client", "grpc_over")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client() as opened:
        yield opened
