"""Health of the gateway by gRPC's health checking protocol (grpc.health.v1).

The package's own servicer holds a lock while it writes to one that watches: a stranger that reads nothing would keep
the others from being told. So its messages are used here, and not its servicer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types of its own
from grpc_health.v1.health_pb2 import (  # type: ignore[import-untyped]  # as above
    HealthCheckRequest,
    HealthCheckResponse,
)

from gateway.upstream.grpc_library import aio, grpc

Answer = Callable[[aio.ServicerContext], Coroutine[Any, Any, None]]
"""Answers one call."""

_PATIENCE = 10.0
"""Seconds for a question to come."""


class Health:
    """Whether the gateway takes calls: as a whole, and for each service, which is the same.

    Args:
        ready: Whether it does.
        services: The names of the services.

    Attributes:
        methods: The handlers by the path of the method.
    """

    def __init__(self, ready: Callable[[], bool], services: Iterable[str]) -> None:
        self._ready = ready
        self._services = frozenset(("", *services))
        self._changed = asyncio.Event()
        self.methods: Mapping[str, Answer] = {
            "/grpc.health.v1.Health/Check": self.check,
            "/grpc.health.v1.Health/Watch": self._watch,
        }

    def changed(self) -> None:
        """Have those that watch look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def check(self, context: aio.ServicerContext) -> None:
        """Answer once."""
        state = self._state(await _asked(context))
        if state == HealthCheckResponse.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        await context.write(HealthCheckResponse(status=state).SerializeToString())

    async def _watch(self, context: aio.ServicerContext) -> None:
        service = await _asked(context)
        last = None
        while True:
            changed, state = self._changed, self._state(service)
            if state != last:
                last = state
                await context.write(HealthCheckResponse(status=state).SerializeToString())
            await changed.wait()

    def _state(self, service: str) -> int:
        if service not in self._services:
            return int(HealthCheckResponse.SERVICE_UNKNOWN)
        return int(HealthCheckResponse.SERVING if self._ready() else HealthCheckResponse.NOT_SERVING)


async def _asked(context: aio.ServicerContext) -> str:
    """Return the service that a client asks for; empty for the whole."""
    try:
        async with asyncio.timeout(_PATIENCE):
            message = await context.read()
    except TimeoutError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message came too slowly")
        raise
    try:
        return str(HealthCheckRequest.FromString(b"" if message is aio.EOF else message).service)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is not a health check request")
        raise
