"""The tenant in the messages of gRPC: how it is read, and how it is changed.

Requests of 1.0 have a `tenant`, whose number is not the same in all (protocol §2.1), and sends may bring a push
configuration with another. Requests of 0.3 have none; that of a call of the scoped service (protocol §3) is its scope,
a field that the official classes do not know.
"""

from collections.abc import Mapping
from functools import cache

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # protobuf has no types

from gateway.a2a.bindings.grpc_field import refuse_twins, values
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod
from gateway.a2a.bindings.grpc_schema import request_class, scope_class
from gateway.a2a.fault import BadParams, ParseFailed
from gateway.a2a.operation import Operation


def read_tenants(method: GrpcMethod, message: bytes, request: Message) -> tuple[str | None, str | None]:
    """Return the tenant of a request of 1.0, and that of the push configuration of a send; None where it is empty.

    Args:
        request: The message as it was parsed.

    Raises:
        DuplicateKey: one of them stands twice in its place.
        BadRequest: something else stands under its number; or as `grpc_field.values`.
    """
    outer, inner = _ways(method.path)
    if not _is_canonical(message, request):
        refuse_twins(message, "tenant", *outer)
        if inner:
            refuse_twins(message, "tenant", *inner)
    if not inner:
        return request.tenant or None, None
    return request.tenant or None, request.configuration.task_push_notification_config.tenant or None


def with_tenant(method: GrpcMethod, message: bytes, tenant: str | None) -> bytes:
    """Return a request of 1.0 with another tenant, or none, in every place that has one, and in the outer one."""
    request = request_class(method).FromString(message)
    request.tenant = tenant or ""
    if method.operation.sends and request.configuration.task_push_notification_config.tenant:
        request.configuration.task_push_notification_config.tenant = tenant or ""
    written: bytes = request.SerializeToString()
    return written


def read_scope(method: GrpcMethod, message: bytes, number: int) -> str | None:
    """Return the scope of a request of 0.3, or None for one of the plain service.

    Raises:
        DuplicateKey: it stands twice.
        ParseFailed: it is no UTF-8.
        BadParams: it is missing or empty; or it is there, or a tenant of another generation is, where an agent might
            follow what nobody has looked at.
        BadRequest: as `read_tenants`.
    """
    other = _CANDIDATES[method.operation]
    if other != number and values(message, other):
        raise BadParams("A2A 0.3 has no tenant: this field is of a release candidate of 1.0", field="tenant")
    if not method.scoped:
        if values(message, number):
            raise BadParams("a scope is for the scoped service alone", field="scope")
        return None
    refuse_twins(message, "scope", number)
    try:
        scope: str = scope_class(number).FromString(message).scope
    except DecodeError as error:
        raise ParseFailed("the scope is not UTF-8") from error
    if not scope:
        raise BadParams("scope is missing or empty", field="scope")
    return scope


def with_scope(message: bytes, number: int, scope: str | None) -> bytes:
    """Return a request of 0.3 with another scope, or none; every other field stays as it is."""
    scoped = scope_class(number).FromString(message)
    scoped.scope = scope or ""
    written: bytes = scoped.SerializeToString()
    return written


def _is_canonical(message: bytes, request: Message) -> bool:
    """Return whether the message is what its fields are written as: nothing stands twice then, or is unknown."""
    known = type(request)()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    written: bytes = known.SerializeToString()
    return written == message


@cache
def _ways(path: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the fields that lead to the tenant of a request, and to that of its push configuration."""
    method = BY_PATH[path]
    message = request_class(method).DESCRIPTOR
    outer = (message.fields_by_name["tenant"].number,)
    inner: list[int] = []
    for name in ("configuration", "task_push_notification_config", "tenant") if method.operation.sends else ():
        field = message.fields_by_name[name]
        inner.append(field.number)
        message = field.message_type
    return outer, tuple(inner)


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
