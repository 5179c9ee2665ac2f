"""A connection pool in front of a scripted agent, and the shortest way to call it and see what is left of it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from gateway.upstream.connection_pool import DEFAULT_LIMITS, ConnectionPool, Origin, PoolLimits
from gateway.upstream.request_head import request_head
from gateway.upstream.response import Response
from tests.support.scripted import WAIT, Script, ScriptedBackend, answers, head, whole

CHUNKS = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
"""The head of a stream."""


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def pooled(
    script: Script,
    limits: PoolLimits = DEFAULT_LIMITS,
    *,
    server_tls: ssl.SSLContext | None = None,
    client_tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[ScriptedBackend, ConnectionPool]]:
    """An agent that plays `script`, and a pool that connects to it."""
    async with ScriptedBackend(script, tls=server_tls) as backend:
        scheme, host = ("https", "localhost") if client_tls is not None else ("http", "127.0.0.1")
        pool = ConnectionPool(Origin(scheme, host, backend.port), limits, tls=client_tls)
        try:
            yield backend, pool
        finally:
            async with asyncio.timeout(WAIT):
                await pool.aclose()


async def send(
    pool: ConnectionPool,
    body: bytes = b"{}",
    *,
    connect: float = WAIT,
    first_byte: float = WAIT,
    fresh: bool = False,
    **whose: Any,
) -> Response:
    """Post `body`.

    Args:
        whose: `tenant`, `weight` and `streams`.
    """
    head = request_head(b"POST", b"/rpc", pool.origin.authority.encode(), [], len(body))
    return await pool.request(head, body, connect=connect, first_byte=first_byte, fresh=fresh, **whose)


async def flow(response: Response, taken: list[bytes], most: int) -> None:
    """Push the body to a list until it has so many pieces."""

    def take(data: bytes) -> bool:
        taken.append(data)
        if len(taken) == most:
            raise _EnoughError
        return True

    async def settle() -> None:
        raise AssertionError("everything is taken")

    with suppress(_EnoughError):
        await response.flow(take, settle, WAIT)


class _EnoughError(Exception):
    pass


async def ask(pool: ConnectionPool, body: bytes = b"{}") -> bytes:
    """Post `body` and read the whole answer."""
    response = await send(pool, body)
    return await response.read(1 << 20, WAIT)


async def assert_dropped(backend: ScriptedBackend, pool: ConnectionPool) -> None:
    """The slot is free, the agent saw the close, and the next call gets another connection."""
    assert (pool.active, pool.idle) == (0, 0)
    await backend.all_gone()
    used = len(backend.wires)
    backend.script = answers(whole(b"next"))
    assert await ask(pool) == b"next"
    assert backend.requests[-1].connection == used
