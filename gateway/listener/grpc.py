"""The listener for clients of gRPC: the line for A2A's services, health and reflection beside them, nothing else."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from gateway.a2a.bindings.grpc_method import SERVICES
from gateway.a2a.call import Head
from gateway.a2a.fault import ClientGone, Fault
from gateway.listener.grpc_health import CHECK, WATCH, Health
from gateway.listener.grpc_wire import GrpcWire
from gateway.proxy import Line

if TYPE_CHECKING:
    from gateway.listener.grpc_reflection import Reflection

_REFLECTION = (
    b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
_MOST_ASIDE = 1000
_LONGEST_PATH = 200

Answer = Callable[[GrpcWire], Coroutine[Any, Any, None]]


class GrpcListener:
    """What clients of gRPC talk to.

    Health and reflection ask for no credential: they tell nothing of agents or tenants, only whether the gateway takes
    calls, and the schema that A2A publishes. Strangers may keep such calls open, but for the question that balancers
    ask; so there is a bound to those.

    Args:
        ready: Whether the gateway takes new calls.
        scope_field: Number of `scope` in the requests of the scoped service.
    """

    def __init__(self, line: Line, ready: Callable[[], bool], *, scope_field: int) -> None:
        self._line = line
        self._health = Health(ready, SERVICES)
        self._scope_field = scope_field
        self._reflection: Reflection | None = None
        self._aside: Mapping[bytes, Answer] = {
            CHECK: self._health.check,
            WATCH: self._health.watch,
            **dict.fromkeys(_REFLECTION, self._reflect),
        }
        self._open = 0

    def __call__(self, head: Head, wire: GrpcWire) -> Coroutine[Any, Any, None]:
        """Serve one call."""
        if head.grpc is not None:
            # Not awaited here: each frame in between is gone through again whenever the call goes on.
            return self._line.serve(head, wire)
        answer = self._aside.get(head.path)
        if answer is None:
            return self._refuse(head, wire)
        if head.path == CHECK:
            return _tell(answer, wire)
        return self._keep(answer, wire)

    def changed(self) -> None:
        """The gateway became ready, or drains: whoever watches its health is told."""
        self._health.changed()

    async def _reflect(self, wire: GrpcWire) -> None:
        if self._reflection is None:
            self._reflection = await asyncio.to_thread(_load_reflection, self._scope_field)
        await self._reflection.answer(wire)

    async def _refuse(self, head: Head, wire: GrpcWire) -> None:
        request_id = secrets.token_hex(8)
        path = head.path[:_LONGEST_PATH].decode("latin-1")
        self._line.unreadable(head.peer, request_id, 404, f"there is no method {path}")
        # The words of gRPC's own servers, which some clients look for.
        wire.extra = [(b"x-request-id", request_id.encode("ascii"))]
        wire.fail("UNIMPLEMENTED", "Method not found!")

    async def _keep(self, answer: Answer, wire: GrpcWire) -> None:
        if self._open >= _MOST_ASIDE:
            wire.fail("RESOURCE_EXHAUSTED", "there are too many calls of this kind")
            return
        self._open += 1
        try:
            await _tell(answer, wire)
        finally:
            self._open -= 1


def _load_reflection(scope_field: int) -> "Reflection":
    from gateway.listener.grpc_reflection import Reflection  # noqa: PLC0415 - few ask, and it takes long

    return Reflection(scope_field)


async def _tell(answer: Answer, wire: GrpcWire) -> None:
    """Answer, until the client leaves."""
    wire.extra = [(b"x-request-id", secrets.token_hex(8).encode("ascii"))]
    try:
        await answer(wire)
    except ClientGone:
        return
    except Fault as fault:
        wire.fail(fault.grpc_status, fault.message)
