"""The fields of a protobuf message as they stand on the wire, one level deep.

A parsed message cannot tell what a parser has passed over: it keeps the last of two fields, and skips a field of
another wire type. Where a field decides whose agent is called, every parser must find the same one. So a message is
refused here that has a tag that is longer than it need be, a group, or a wire type that does not exist.

A length may be longer than it need be: writers that do not know it beforehand write spare bytes, and all parsers agree.
"""

from collections.abc import Iterator
from typing import Any

from gateway.a2a.fault import BadRequest, DuplicateKey, ParseFailed

MOST_FIELDS = 1_000
"""Most fields of one level; requests have eight at most, but for what they list."""
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
                # A parser looks past it, or does not parse the message.
                raise BadRequest("a field of the message is not of its type")
            found.append(message[start:end])
    return found


def refuse_twins(message: bytes, name: str, *way: int) -> None:
    """Refuse a message that has a text twice in one place: parsers keep the last, a reader may stop at the first.

    Args:
        name: The name of the text.
        way: The numbers of the fields that lead to it. What stands twice on the way is merged, so all of it counts.

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
    """Refuse a message of so many fields, in all that it holds, that to parse it costs many times its length.

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
        BadRequest: a tag is longer than it need be or names no field, or a field is a group or of no wire type.
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
