"""The tenant in the messages of gRPC: where it stands, and how it is changed there.

Requests of 1.0 have it under a number that is not the same in all (protocol §2.1), and sends may bring a push
configuration with another. Requests of 0.3 have none; that of a call of the scoped service (protocol §3) is its scope,
a field that the classes do not know, so it is looked for, put in and cut out byte by byte.
"""

from collections.abc import Mapping
from functools import cache

import msgspec
from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf has no types of its own

from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod
from gateway.a2a.bindings.grpc_scan import DELIMITED, Field, find, text_field
from gateway.a2a.bindings.grpc_schema import request_class
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.operation import Operation


class Places(msgspec.Struct, frozen=True, gc=False):
    """The places of a request of 1.0 for a tenant.

    Attributes:
        said: What each that is there holds, the outer one first; None for an empty one.
        outer: Whether the outer one is there.
        inner: Whether that in the push configuration of a send is.
    """

    said: tuple[str | None, ...]
    outer: bool
    inner: bool

    def tell(self, tenant: str | None) -> bool:
        """Whether they tell a reader this tenant: the outer one and no other differs; for None, whether none is."""
        if tenant is None:
            return not self.said
        return self.outer and all(said == tenant for said in self.said)


def read_places(method: GrpcMethod, message: bytes, request: Message) -> Places:
    """The places of a request.

    Args:
        request: The message as it was parsed.

    Raises:
        DuplicateKey: one of them stands twice: a parser keeps the last, where a reader may stop at the first.
        BadRequest: something else stands under the number of one; or as `grpc_scan.find`.
    """
    numbers = _numbers(method.path)
    here = _all(message, numbers.here)
    outer = _stands("tenant", [each for each in here if each.number == numbers.tenant])
    said: list[str | None] = [request.tenant or None] if outer else []
    # What stands twice on the way is merged, so that all of it counts.
    held = [each for each in here if each.number != numbers.tenant]
    for number in numbers.inner:
        held = [found for each in held for found in _all(message, (number,), each.value, each.end)]
    inner = _stands("tenant", held)
    if inner:
        said.append(request.configuration.task_push_notification_config.tenant or None)
    return Places(tuple(said), outer, inner)


def read_scope(method: GrpcMethod, message: bytes, number: int) -> str | None:
    """The scope of a request of 0.3, or None for one of the plain service.

    Raises:
        DuplicateKey: it stands twice.
        ParseFailed: it is no UTF-8.
        BadParams: it is missing or empty; or it is there, or a tenant of another generation is, where an agent might
            follow what nobody has looked at.
        BadRequest: as `read_places`.
    """
    other = _CANDIDATES[method.operation]
    found = find(message, (number, other))
    if other != number and any(each.number == other and each.wire_type == DELIMITED for each in found):
        raise BadParams("0.3 has no tenant; what says one here is of a candidate of 1.0", field="tenant")
    there = _delimited([each for each in found if each.number == number])
    if not method.scoped:
        if there:
            raise BadParams("a scope is for the scoped service alone", field="scope")
        return None
    if not _stands("scope", there):
        raise BadParams("scope is missing", field="scope")
    try:
        scope = message[there[0].value : there[0].end].decode()
    except UnicodeDecodeError as error:
        raise ParseFailed("the scope is not UTF-8") from error
    if not scope:
        raise BadParams("scope is empty", field="scope")
    return scope


def with_outer(method: GrpcMethod, message: bytes, tenant: str | None) -> bytes:
    """A request of 1.0 with this tenant, or none, in its outer place; every other byte stays as it is."""
    return with_text(message, _numbers(method.path).tenant, tenant)


def with_text(message: bytes, number: int, text: str | None) -> bytes:
    """The message with this text, or none, under a number of its top level; every other byte stays as it is."""
    kept = bytearray() if text is None else bytearray(text_field(number, text))
    position = 0
    for field in _all(message, (number,)):
        kept += message[position : field.start]
        position = field.end
    return bytes(kept + message[position:])


class _Numbers(msgspec.Struct, frozen=True):
    """The numbers by which a tenant is found in the requests of a method.

    Attributes:
        tenant: That of the outer place.
        here: Those that matter at the top level: that, and the first on the way to the inner place.
        inner: Those further down, the last of which is the inner place's own.
    """

    tenant: int
    here: tuple[int, ...]
    inner: tuple[int, ...]


@cache
def _numbers(path: str) -> _Numbers:
    method = BY_PATH[path]
    message = request_class(method).DESCRIPTOR
    tenant: int = message.fields_by_name["tenant"].number
    way: list[int] = []
    if method.operation.sends:
        for name in ("configuration", "task_push_notification_config", "tenant"):
            way.append(message.fields_by_name[name].number)
            message = message.fields_by_name[name].message_type
    return _Numbers(tenant, (tenant, *way[:1]), tuple(way[1:]))


def _stands(name: str, there: list[Field]) -> bool:
    if len(there) > 1:
        raise DuplicateKey(f"the {name} stands twice in one place of the message")
    return bool(there)


def _all(message: bytes, numbers: tuple[int, ...], start: int = 0, end: int | None = None) -> list[Field]:
    """The fields of some numbers, all of which have a length."""
    return _delimited(find(message, numbers, start, end))


def _delimited(there: list[Field]) -> list[Field]:
    for each in there:
        if each.wire_type != DELIMITED:
            # A parser looks past it, or does not parse the message.
            raise BadRequest("a field of the message is not of its type")
    return there


_CANDIDATES: Mapping[Operation, int] = {
    Operation.SEND_MESSAGE: 4,
    Operation.SEND_STREAMING_MESSAGE: 4,
    Operation.GET_TASK: 3,
    Operation.CANCEL_TASK: 2,
    Operation.SUBSCRIBE_TO_TASK: 2,
    Operation.CREATE_PUSH_CONFIG: 4,
    Operation.GET_PUSH_CONFIG: 2,
    Operation.LIST_PUSH_CONFIGS: 4,
    Operation.DELETE_PUSH_CONFIG: 2,
    Operation.GET_EXTENDED_CARD: 1,
}
"""The number of the tenant in requests of the candidates of 1.0, which have the paths of 0.3 (protocol §2.1, trap 24).

Their agents would follow it, and the gateway has routed by something else.
"""
