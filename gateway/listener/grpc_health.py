"""Health of the gateway, as gRPC's health checking protocol has it (grpc.health.v1)."""

import asyncio
from collections.abc import Callable, Iterable

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types of its own
from grpc_health.v1.health_pb2 import (  # type: ignore[import-untyped]  # as above
    HealthCheckRequest,
    HealthCheckResponse,
)

from gateway.a2a.bindings.grpc_status import CODES, Status, trailers
from gateway.a2a.fault import BadRequest
from gateway.a2a.framing.grpc import frame
from gateway.listener.grpc_wire import GrpcWire

CHECK = b"/grpc.health.v1.Health/Check"
WATCH = b"/grpc.health.v1.Health/Watch"

_LONGEST = 4096
_SERVING: int = HealthCheckResponse.SERVING
_NOT_SERVING: int = HealthCheckResponse.NOT_SERVING
_SERVICE_UNKNOWN: int = HealthCheckResponse.SERVICE_UNKNOWN


class Health:
    """Whether the gateway takes calls: as a whole, and for each service, which is the same.

    Args:
        ready: Whether it does.
        services: The names of the services.
    """

    def __init__(self, ready: Callable[[], bool], services: Iterable[str]) -> None:
        self._ready = ready
        self._services = frozenset(("", *services))
        self._watching: set[asyncio.Event] = set()

    def changed(self) -> None:
        """Have whoever watches look again."""
        for told in self._watching:
            told.set()

    async def check(self, wire: GrpcWire) -> None:
        """Answer once.

        Raises:
            Fault: the question cannot be read.
        """
        state = self._state(await _asked(wire))
        if state == _SERVICE_UNKNOWN:
            await wire.answer(200, trailers(Status(CODES["NOT_FOUND"], "there is no such service")), b"")
        else:
            await wire.answer(200, [], _answer(state))

    async def watch(self, wire: GrpcWire) -> None:
        """Answer now, and whenever it changes, until the client leaves.

        Raises:
            Fault: as `check`.
        """
        service = await _asked(wire)
        told, gone = asyncio.Event(), False

        def leave() -> None:
            nonlocal gone
            gone = True
            told.set()

        wire.when_gone(leave)
        wire.open(200, [])
        self._watching.add(told)
        try:
            last = 0
            while not gone:
                told.clear()
                state = self._state(service)
                if state != last:
                    last = state
                    await wire.write(_answer(state))
                await told.wait()
        finally:
            self._watching.discard(told)

    def _state(self, service: str) -> int:
        if service not in self._services:
            return _SERVICE_UNKNOWN
        return _SERVING if self._ready() else _NOT_SERVING


async def _asked(wire: GrpcWire) -> str:
    """The service that a client asks for; empty for the whole."""
    message = await wire.read(_LONGEST)
    try:
        return str(HealthCheckRequest.FromString(message).service)
    except DecodeError as error:
        raise BadRequest("the message is no question of health") from error


def _answer(state: int) -> bytes:
    return frame(HealthCheckResponse(status=state).SerializeToString())
