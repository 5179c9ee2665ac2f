"""The message classes of gRPC, which a2a-sdk brings: which one a method takes, and which one it gives.

They are imported with the first call over gRPC and not before: that costs a tenth of a second and 20 MiB (protocol
§9.3), which nobody pays who does without.
"""

from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]  # protobuf has no types of its own
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]  # as above
from google.protobuf.message import Message  # type: ignore[import-untyped]  # as above
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation


def request_class(method: GrpcMethod) -> type[Message]:
    """The class of a method's request.

    That of a scoped method is the same as without: to it, the scope is a field that it does not know (protocol §3).
    """
    return _request_class(method.path)


@cache
def result_class(operation: Operation, version: Version) -> type[Message]:
    """The class of an operation's answer; where the answer is a stream, of each event.

    Raises:
        KeyError: the generation has no such operation.
    """
    return _class(_method(method_of(operation, version)).output_type)


def event_class(version: Version) -> type[Message]:
    """The class of each event of a stream."""
    return result_class(Operation.SEND_STREAMING_MESSAGE, version)


@cache
def scope_class(number: int) -> type[Message]:
    """The class of a message that has a `scope` under a number; every other field stays in it as it came."""
    file = FileDescriptorProto(name="scope.proto", syntax="proto3")
    file.message_type.add(name="Scoped").field.add(
        name="scope",
        number=number,
        type=FieldDescriptorProto.TYPE_STRING,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    pool = DescriptorPool()
    pool.Add(file)
    return _class(pool.FindMessageTypeByName("Scoped"))


# By the path, which knows its hash.
@cache
def _request_class(path: str) -> type[Message]:
    return _class(_method(BY_PATH[path]).input_type)


def _class(descriptor: Any) -> type[Message]:  # noqa: ANN401 - protobuf has no types of its own
    found: type[Message] = GetMessageClass(descriptor)
    return found


def _method(method: GrpcMethod) -> Any:  # noqa: ANN401 - as above
    return _service(method.version).methods_by_name[method.path.rpartition("/")[2]]


@cache
def _service(version: Version) -> Any:  # noqa: ANN401 - as above
    if version is Version.V1_0:
        from a2a.types import a2a_pb2  # noqa: PLC0415 - only where gRPC is used

        return a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
    from a2a.compat.v0_3 import a2a_v0_3_pb2  # noqa: PLC0415 - as above

    return a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"]
