"""The stores: in a process, in a file, and on another machine."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.tasks.redis import RedisStore
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store
from tests.support.redis_server import needs_redis, redis_server


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=needs_redis)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    with ExitStack() as servers:
        made: Store
        if request.param == "redis":
            made = RedisStore(servers.enter_context(redis_server()).url)
        else:
            made = SqliteStore(None if request.param == "memory" else tmp_path / "state.db")
        await made.open()
        yield made
        await made.aclose()
