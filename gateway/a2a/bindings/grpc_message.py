"""The messages of gRPC: their classes, which a2a-sdk brings, their ProtoJSON, and their fields as bytes.

The classes are imported with the first call over gRPC and not before: that costs a tenth of a second and 20 MiB
(protocol §9.3), which a gateway without gRPC never pays.

Trees are read and written by protobuf's own `json_format`. Two things are done beside it. The numbers of a Struct are
doubles: whole ones become integers (`42`, not `42.0`). And protobuf accepts no `Decimal`, which the gateway's JSON
reader returns for numbers with a point.

A parsed message does not show the fields that its parser dropped: the parser keeps the last of two fields, and skips a
field of another wire type. If a field decides which agent is called, every parser must find the same value. So a
message with an overlong tag, a group, or an unknown wire type is refused. A length may be overlong: writers that do not
know it in advance write spare bytes, and all parsers agree on the value.
"""

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]  # protobuf has no types of its own
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]  # as above
from google.protobuf.json_format import (  # type: ignore[import-untyped]  # protobuf has no types
    MessageToDict,
    ParseDict,
    ParseError,
    SerializeToJsonError,
)
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # as above
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.version import Misfit


def request_class(method: GrpcMethod) -> type[Message]:
    """Return the class of a method's request.

    A scoped method has the class of the plain method, to which the scope is an unknown field (protocol §3).
    """
    return _request_class(method.path)


@cache
def result_class(operation: Operation, version: Version) -> type[Message]:
    """Return the class of an operation's answer; of a stream, that of each event.

    Raises:
        KeyError: the generation has no such operation.
    """
    return _class(_method(method_of(operation, version)).output_type)


def event_class(version: Version) -> type[Message]:
    """Return the class of each event of a stream."""
    return result_class(Operation.SEND_STREAMING_MESSAGE, version)


@cache
def scope_class(number: int) -> type[Message]:
    """Return the class of a message with a `scope` under a number; every other field stays as it came."""
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


# ---- Messages as trees -----------------------------------------------------------------------------------------------

# Beyond it doubles cannot hold every integer, so the original value is unknown.
_EXACT = 2**53
# Deeper than protobuf readers go; they check their own limit afterwards.
_DEEPEST = 1_000
_FIELD = re.compile(r"Failed to parse (\w+) field: ")


def to_tree(message: Message) -> Tree:
    """Return a message as a tree; empty fields without presence are left out.

    Raises:
        Misfit: JSON has no form for a number or a timestamp.
    """
    try:
        tree: Tree = MessageToDict(message)
    except SerializeToJsonError as error:
        words = "holds a number that JSON has not, or a timestamp outside of the years 1 to 9999"
        raise Misfit("", words) from error
    _to_integers(tree)
    return tree


def from_tree(tree: object, kind: type[Message]) -> bytes:
    """Return a tree as a message of a class; the tree is consumed.

    Members that the class does not know are left out. An unknown name of an enumeration becomes 0, the unspecified
    value.

    Raises:
        Misfit: a member does not fit its field, has two names, or is one of several in a `oneof`; or the tree is nested
            deeper than readers of protobuf go, which is 100 messages.
    """
    if type(tree) is not dict:
        raise Misfit("", "must be an object")
    try:
        _to_doubles(tree)
        message = ParseDict(tree, kind(), ignore_unknown_fields=True, max_recursion_depth=_DEEPEST)
        written: bytes = message.SerializeToString()
        kind.FromString(written)
    except (RecursionError, DecodeError) as error:
        raise Misfit("", "is nested too deeply for protobuf") from error
    except ParseError as error:
        # Its text has values, which may be long or secret.
        raise Misfit(".".join(_FIELD.findall(str(error))), "is not what the schema says") from error
    except OverflowError as error:
        raise Misfit("", "holds a number that protobuf has not") from error
    return written


def _to_integers(tree: Any) -> None:  # noqa: ANN401 - any JSON
    for key, value in tree.items() if type(tree) is dict else enumerate(tree):
        if type(value) is float:
            if value.is_integer() and abs(value) <= _EXACT:
                tree[key] = int(value)
        elif type(value) in (dict, list):
            _to_integers(value)


def _to_doubles(tree: Any) -> None:  # noqa: ANN401 - any JSON
    for key, value in tree.items() if type(tree) is dict else enumerate(tree):
        if type(value) is Decimal:
            double = float(value)
            if not math.isfinite(double):
                raise OverflowError
            tree[key] = double
        elif type(value) in (dict, list):
            _to_doubles(value)


# ---- Fields as bytes, one level deep ---------------------------------------------------------------------------------

MOST_FIELDS = 1_000
"""Most fields of one level; requests have eight at most, apart from their lists."""
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types: how the value of a field is written."""
_SIZES = {FIXED64: 8, FIXED32: 4}
# Bytes that a tag or a length may take, and a number of 64 bits.
_TAG, _NUMBER = 5, 10
_FIELD_NUMBERS = 2**29
# A tag, and a length of nothing.
_SHORTEST_FIELD = 2


def values(message: bytes, number: int) -> list[bytes]:
    """Return the values of all fields of a number.

    Raises:
        BadRequest: one of them has no length, there are more than `MOST_FIELDS`, or as `_fields`.
        ParseFailed: as `_fields`.
    """
    found: list[bytes] = []
    for count, (other, wire_type, start, end) in enumerate(_fields(message)):
        if count == MOST_FIELDS:
            raise BadRequest("the message has too many fields")
        if other == number:
            if wire_type != DELIMITED:
                # Parsers skip it, or refuse the message.
                raise BadRequest("a field of the message is not of its type")
            found.append(message[start:end])
    return found


def refuse_twins(message: bytes, name: str, *way: int) -> None:
    """Refuse a message that has a text field twice: parsers keep the last value, other readers may take the first.

    Args:
        name: The name of the text.
        way: The numbers of the fields that lead to it. Duplicate fields on the way are merged, so all of them count.

    Raises:
        DuplicateKey: it does.
        BadRequest, ParseFailed: as `values`.
    """
    held = [message]
    for number in way:
        held = [value for each in held for value in values(each, number)]
    if len(held) > 1:
        raise DuplicateKey(f"the {name} stands twice in one place of the message")


def refuse_crowd(message: bytes, descriptor: Any, most: int) -> None:  # noqa: ANN401 - protobuf ships no types
    """Refuse a message with so many fields, nested ones included, that parsing it costs many times its length.

    A field of two bytes becomes a message of a hundred.

    Args:
        descriptor: The descriptor of the message.

    Raises:
        BadRequest: there are more than `most`; or as `_fields`.
        ParseFailed: as `_fields`.
    """
    if len(message) // _SHORTEST_FIELD <= most:
        return
    pending = [(message, descriptor)]
    while pending:
        inside, kind = pending.pop()
        known = kind.fields_by_number
        for number, wire_type, start, end in _fields(inside):
            most -= 1
            if most < 0:
                raise BadRequest("the message has too many fields")
            if wire_type == DELIMITED and number in known and known[number].message_type is not None:
                pending.append((inside[start:end], known[number].message_type))


def _fields(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield number and wire type of each field, and where its value begins and ends.

    Raises:
        BadRequest: a tag is overlong or names no field, or a field is a group or has an unknown wire type.
        ParseFailed: a field ends behind the end of the message.
    """
    position, end = 0, len(message)
    while position < end:
        tag, value = _varint(message, position, _TAG)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < _FIELD_NUMBERS or message[value - 1] == 0:
            raise BadRequest("a tag of the message is longer than it need be, or names no field")
        if wire_type == DELIMITED:
            length, value = _varint(message, value, _TAG)
            position = value + length
        elif wire_type == VARINT:
            position = _varint(message, value, _NUMBER)[1]
        elif wire_type in _SIZES:
            position = value + _SIZES[wire_type]
        else:
            raise BadRequest("the message has a group, or a field of no wire type")
        if position > end:
            raise ParseFailed("the message ends within a field")
        yield number, wire_type, value, position


def _varint(message: bytes, position: int, longest: int) -> tuple[int, int]:
    """Return a number of up to `longest` bytes, and where it ends."""
    if position < len(message) and message[position] < 0x80:
        # Nearly all of them.
        return message[position], position + 1
    found = 0
    for index, byte in enumerate(message[position : position + longest]):
        found |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return found, position + index + 1
    raise ParseFailed("the message has a number without an end")
