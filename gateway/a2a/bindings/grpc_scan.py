"""Protobuf's wire format, looked at without a schema: the fields of one message, where they begin and where they end.

A parser merges what stands twice, keeps what it does not know and reads a tag in any length. Where a field decides
whose agent is called, all readers must find the same one, so what parsers could differ on is refused: tags longer than
they need be, groups, wire types that are none, and whatever ends before its end. A length may be written with spare
bytes, as some writers do who do not know it beforehand; every parser reads it alike.
"""

from collections.abc import Container, Mapping
from typing import TypeAlias

import msgspec

from gateway.a2a.fault import BadRequest, ParseFailed

Nesting: TypeAlias = Mapping[int, "Nesting"]
"""The fields of a message that hold messages, by number, each with those of its own."""

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types: how the value of a field is written."""

MOST_FIELDS = 1_000
"""Most fields of a message that is looked at; requests have eight at most, but for what they list."""


class Field(msgspec.Struct, frozen=True, gc=False):
    """One field, as it stands in a message.

    Attributes:
        number: As the schema counts it.
        wire_type: One of `VARINT`, `FIXED64`, `DELIMITED` and `FIXED32`.
        start: Where its tag begins.
        value: Where its value begins, behind the length if it has one.
        end: Behind its last byte.
    """

    number: int
    wire_type: int
    start: int
    value: int
    end: int


def find(message: bytes, numbers: Container[int], start: int = 0, end: int | None = None) -> list[Field]:
    """The fields of a message under some numbers, one level deep, in the order in which they stand.

    All the others are looked at as well.

    Args:
        start: Where the message begins within the bytes.
        end: Behind its last byte; None for the end of the bytes.

    Raises:
        BadRequest: a tag is none, or longer than it need be; a group; or there are more than `MOST_FIELDS`.
        ParseFailed: a field ends behind the end of the message.
    """
    return _scan(message, numbers, start, len(message) if end is None else end, MOST_FIELDS)[0]


def refuse_crowd(message: bytes, nesting: Nesting, most: int) -> None:
    """Refuse a message of so many fields, in all that it holds, that to read it costs many times its length.

    Args:
        nesting: Those of its fields that hold messages.

    Raises:
        BadRequest: there are more than `most`; or as `find`.
    """
    if len(message) // _SHORTEST <= most:
        return
    pending: list[tuple[int, int, Nesting]] = [(0, len(message), nesting)]
    while pending:
        start, end, inside = pending.pop()
        found, count = _scan(message, inside, start, end, most)
        most -= count
        pending += [(each.value, each.end, inside[each.number]) for each in found if each.wire_type == DELIMITED]


def _scan(message: bytes, numbers: Container[int], position: int, stop: int, most: int) -> tuple[list[Field], int]:
    """The fields of some numbers, and how many there are of all."""
    found: list[Field] = []
    count = 0
    while position < stop:
        count += 1
        if count > most:
            raise BadRequest("the message has too many fields")
        begin = position
        tag = message[begin]
        position += 1
        if tag > _LAST:
            tag, position = _long_tag(message, begin, stop)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < _NUMBERS:
            raise BadRequest("the message has a field without a proper number")
        value = position
        if wire_type == DELIMITED:
            length, value = _varint(message, position, stop, longest=_TAG)
            position = value + length
        elif wire_type == VARINT:
            position = _varint(message, position, stop, longest=_VALUE)[1]
        elif wire_type in _FIXED:
            position += _FIXED[wire_type]
        else:
            raise BadRequest("the message has a group, or a field of no wire type")
        if position > stop:
            raise ParseFailed("the message ends within a field")
        if number in numbers:
            found.append(Field(number, wire_type, begin, value, position))
    return found, count


def _long_tag(message: bytes, position: int, stop: int) -> tuple[int, int]:
    tag, end = _varint(message, position, stop, longest=_TAG)
    if message[end - 1] == 0:
        raise BadRequest("a tag of the message is longer than it need be")
    return tag, end


def text_field(number: int, text: str) -> bytes:
    """A field that holds a text, as it stands in a message."""
    value = text.encode()
    return _written(number << 3 | DELIMITED) + _written(len(value)) + value


def _varint(message: bytes, position: int, stop: int, *, longest: int) -> tuple[int, int]:
    """A number of up to `longest` bytes, and where it ends."""
    if position < stop and (byte := message[position]) <= _LAST:
        # Nearly all of them.
        return byte, position + 1
    found = shift = 0
    for index in range(position, min(stop, position + longest)):
        byte = message[index]
        found |= (byte & _LAST) << shift
        if byte <= _LAST:
            return found, index + 1
        shift += 7
    raise ParseFailed("the message has a number without an end")


def _written(number: int) -> bytes:
    found = bytearray()
    while number > _LAST:
        found.append(number & _LAST | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


# The largest byte that ends a number.
_LAST = 0x7F
# Bytes that a tag or a length may take, and a number of 64 bits.
_TAG, _VALUE = 5, 10
_NUMBERS = 2**29
_FIXED = {FIXED64: 8, FIXED32: 4}
# A tag and a length of nothing.
_SHORTEST = 2
