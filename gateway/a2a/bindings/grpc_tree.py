"""Protobuf messages as trees, and trees as messages: ProtoJSON, as the forms of 1.0 and 0.3 take it and give it.

Protobuf's own `json_format` takes two to three times as long, and does not do it as a gateway needs it. Here the
numbers of a Struct, which are doubles, are integers where they are whole (`42`, not `42.0`) and keep their digits where
they are not; what cannot be said is told with the way to it; and a state that nobody knows becomes none without a word
only where that is wanted. What is written is held to the spelling of the forms: names in camelCase or as the definition
has them, enumerations by name or number, integers as integers, base64 of either alphabet.
"""

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any, Literal

import msgspec
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # protobuf has no types

from gateway.a2a.tree import Tree
from gateway.a2a.versions.reading import beneath
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.version import Misfit


def read(message: Message) -> Tree:
    """The tree that says what a message says; what is empty and has no presence is left out.

    Raises:
        Misfit: a number is none that JSON has.
    """
    return _read(_shape(message.DESCRIPTOR, strict=False), message)


def write(tree: object, kind: type[Message], *, strict: bool) -> bytes:
    """The message that says what a tree says; members that have no place in it are left out.

    Args:
        kind: The class of the message.
        strict: Whether a value of an enumeration that nobody knows is refused; else it is the one with number 0, which
            says nothing.

    Raises:
        Misfit: a member holds what its field cannot, stands under two names, or is one of several where one may be; or
            the whole is nested deeper than readers of protobuf go, which is 100 messages.
    """
    message = kind()
    try:
        _fill(_shape(kind.DESCRIPTOR, strict=strict), message, tree)
        written: bytes = message.SerializeToString()
        # Writers go as deep as they must; readers do not.
        kind.FromString(written)
    except (RecursionError, DecodeError) as error:
        raise Misfit("", "is nested too deeply for protobuf") from error
    return written


# ---- Shapes ----------------------------------------------------------------------------------------------------------

_Place = Literal["one", "list", "map"]
_Read = Callable[[Any], Any]


class _Field(msgspec.Struct, frozen=True):
    """One field of a message.

    Attributes:
        json: Its name in a tree.
        name: Its name in the definition, which is the attribute of the message.
        place: How many values it has, and whether they have names.
        inner: Whether these are messages.
        oneof: The choice that it is part of, or None.
        nullable: Whether a null is a value of it, and not nothing.
        read: Makes what stands in a tree of all that it holds; None where that is the same.
        write: Makes one value of what stands in a tree; or puts that into a message, which is given first.
    """

    number: int
    json: str
    name: str
    place: _Place
    inner: bool
    oneof: str | None
    nullable: bool
    read: _Read | None
    write: Callable[..., Any]


class _Shape(msgspec.Struct, frozen=True):
    """A message: its fields by number, and by every name that a tree may have for them."""

    numbers: dict[int, _Field]
    names: dict[str, _Field]


@cache
def _shape(descriptor: Message, *, strict: bool) -> _Shape:
    fields = [_field(each, strict=strict) for each in descriptor.fields]
    names = {name: field for field in fields for name in (field.name, field.json)}
    return _Shape({field.number: field for field in fields}, names)


def _field(descriptor: Message, *, strict: bool) -> _Field:
    held = descriptor
    place: _Place = "list" if descriptor.is_repeated else "one"
    if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
        held, place = descriptor.message_type.fields_by_name["value"], "map"
    read, write = _conversions(held, strict=strict)
    if place != "one":
        read = partial(_read_list if place == "list" else _read_map, read)
    oneof = descriptor.containing_oneof
    return _Field(
        number=descriptor.number,
        json=descriptor.json_name,
        name=descriptor.name,
        place=place,
        inner=held.message_type is not None,
        # A field with presence is in a choice of its own, which is none.
        oneof=None if oneof is None or len(oneof.fields) == 1 else oneof.name,
        nullable=write is _fill_value,
        read=read,
        write=write,
    )


def _conversions(descriptor: Message, *, strict: bool) -> tuple[_Read | None, Callable[..., Any]]:
    """How one value of a field is read, and how it is written."""
    if (message := descriptor.message_type) is not None:
        if (known := _WELL_KNOWN.get(message.full_name)) is not None:
            return known
        shape = _shape(message, strict=strict)
        return partial(_read, shape), partial(_fill, shape)
    if (enumeration := descriptor.enum_type) is not None:
        names = {value.number: value.name for value in enumeration.values}
        return partial(_read_name, names), partial(_number_of, names, strict=strict)
    return _SCALARS[descriptor.type]


# ---- Messages to trees -----------------------------------------------------------------------------------------------


def _read(shape: _Shape, message: Message) -> Tree:
    tree: Tree = {}
    numbers = shape.numbers
    for descriptor, value in message.ListFields():
        field = numbers[descriptor.number]
        tree[field.json] = value if field.read is None else field.read(value)
    return tree


def _read_list(read: _Read | None, values: Message) -> list[Any]:
    return list(values) if read is None else [read(value) for value in values]


def _read_map(read: _Read | None, values: Message) -> Tree:
    return {name: values[name] if read is None else read(values[name]) for name in values}


def _read_name(names: dict[int, str], number: int) -> str | int:
    return names.get(number, number)


def _read_bytes(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _read_moment(moment: Message) -> str:
    try:
        return str(moment.ToJsonString())
    except ValueError:
        # Outside years 1 to 9999: what comes of a moment that is none, its form knows.
        return "no moment"


def _read_struct(struct: Message) -> Tree:
    values = struct.fields
    return {name: _read_value(values[name]) for name in values}


def _read_value(value: Message) -> Any:  # noqa: ANN401 - any JSON
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "struct_value":
        return _read_struct(value.struct_value)
    if kind == "list_value":
        return [_read_value(each) for each in value.list_value.values]
    # One of no kind is a null, too.
    return value.bool_value if kind == "bool_value" else None


def _number(double: float) -> int | Decimal:
    # As an integer, the zero below zero would lose its sign.
    if double.is_integer() and -_EXACT <= double <= _EXACT and (double or math.copysign(1, double) > 0):
        return int(double)
    number = Decimal(repr(double))
    if not number.is_finite():
        raise Misfit("", "holds a number that JSON has not")
    return number


# Beyond it doubles leave integers out, and nobody knows which one was meant.
_EXACT = 2**53

# ---- Trees to messages -----------------------------------------------------------------------------------------------


def _fill(shape: _Shape, message: Message, tree: object) -> None:
    names, met = shape.names, set()
    for name, value in _object(tree).items():
        field = names.get(name)
        if field is None or (value is None and not field.nullable):
            continue
        if field.number in met:
            raise Misfit(name, f"is another name of {field.json}")
        met.add(field.number)
        if field.oneof is not None and message.WhichOneof(field.oneof) is not None:
            raise Misfit(name, "must not stand beside another member in its place")
        try:
            _put(field, message, value)
        except Misfit as misfit:
            raise beneath(name, misfit) from None


def _put(field: _Field, message: Message, value: object) -> None:
    if field.place == "list":
        _put_all(field, getattr(message, field.name), value)
    elif field.place == "map":
        _put_named(field, getattr(message, field.name), value)
    elif field.inner:
        inner = getattr(message, field.name)
        # An empty one is there all the same.
        inner.SetInParent()
        field.write(inner, value)
    else:
        setattr(message, field.name, field.write(value))


def _put_all(field: _Field, values: Message, value: object) -> None:
    for index, each in enumerate(_list(value)):
        try:
            if field.inner:
                field.write(values.add(), each)
            else:
                values.append(field.write(each))
        except Misfit as misfit:
            raise beneath(f"[{index}]", misfit) from None


def _put_named(field: _Field, values: Message, value: object) -> None:
    for name, each in _object(value).items():
        try:
            if field.inner:
                field.write(values[_text(name)], each)
            else:
                values[_text(name)] = field.write(each)
        except Misfit as misfit:
            raise beneath(f"[{name!r}]", misfit) from None


def _fill_moment(moment: Message, value: object) -> None:
    written = to_utc(_text(value))
    if written is None:
        raise Misfit("", "must be a timestamp, as 2026-01-31T12:00:00Z")
    since = datetime.fromisoformat(written[:_SECONDS]) - _EPOCH
    moment.seconds = since.days * 86_400 + since.seconds
    # Behind the point, and before the Z.
    moment.nanos = int(written[_SECONDS + 1 : -1].ljust(9, "0"))
    moment.SetInParent()


def _fill_struct(struct: Message, value: object) -> None:
    struct.SetInParent()
    values = struct.fields
    for name, each in _object(value).items():
        _fill_value(values[_text(name)], each)


def _fill_value(target: Message, value: object) -> None:
    kind = type(value)
    if kind is str:
        target.string_value = _text(value)
    elif kind is dict:
        _fill_struct(target.struct_value, value)
    elif kind is list:
        target.list_value.SetInParent()
        values = target.list_value.values
        for each in _list(value):
            _fill_value(values.add(), each)
    elif kind is bool:
        target.bool_value = value
    elif value is None:
        target.null_value = 0
    else:
        target.number_value = _double(value)


def _double(value: object) -> float:
    if not isinstance(value, int | float | Decimal):
        raise Misfit("", "holds what JSON has not")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        # An integer beyond all doubles, or a number that is none and must not be touched.
        number = math.inf
    if not math.isfinite(number):
        raise Misfit("", "holds a number that protobuf has not")
    return number


def _number_of(names: dict[int, str], value: object, *, strict: bool) -> int:
    for number, name in names.items():
        if value == name or (type(value) is int and value == number):
            return number
    if strict:
        raise Misfit("", f"must be one of {', '.join(names.values())}")
    return 0


def _text(value: object) -> str:
    if type(value) is not str:
        raise Misfit("", "must be a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Misfit("", "holds half a surrogate pair") from error
    return value


def _truth(value: object) -> bool:
    if type(value) is not bool:
        raise Misfit("", "must be true or false")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value not in _INT32:
        raise Misfit("", "must be an integer of 32 bits")
    return value


def _octets(value: object) -> bytes:
    text = _text(value)
    if "-" in text or "_" in text:
        text = text.translate(_URL_SAFE)
    digits = text.rstrip("=")
    padding = -len(digits) % 4
    try:
        octets = a2b_base64(digits + "=" * padding, strict_mode=True)
    except ValueError as error:
        raise Misfit("", "must be a string of base64") from error
    # Python's own strictness passes over an end that is longer than it need be.
    if len(text) - len(digits) not in (0, padding):
        raise Misfit("", "must be a string of base64")
    return octets


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise Misfit("", "must be a list")
    return value


def _object(value: object) -> Tree:
    if type(value) is not dict:
        raise Misfit("", "must be an object")
    return value


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what is counted from it is in UTC, as the forms write it
# Characters of a moment up to its seconds.
_SECONDS = 19
_URL_SAFE = str.maketrans("-_", "+/")
_INT32 = range(-(2**31), 2**31)
_WELL_KNOWN: dict[str, tuple[_Read, Callable[..., Any]]] = {
    "google.protobuf.Timestamp": (_read_moment, _fill_moment),
    "google.protobuf.Struct": (_read_struct, _fill_struct),
    "google.protobuf.Value": (_read_value, _fill_value),
}
# By the numbers that descriptors have for types: int32, bool, string, bytes. The schemas have no others.
_SCALARS: dict[int, tuple[_Read | None, Callable[..., Any]]] = {
    5: (None, _count),
    8: (None, _truth),
    9: (None, _text),
    12: (_read_bytes, _octets),
}
