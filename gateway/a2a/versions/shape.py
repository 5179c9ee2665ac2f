"""Objects of ProtoJSON as tables, and one walk that brings a tree to the one spelling of its table.

ProtoJSON lets one thing be said in several ways (1.0 §5.5): names in camelCase or snake_case, enumerations by name or
by number, integers as strings, null for what is unset, base64 of either alphabet. What is read ends as the first of
each. A table has every name that a member may have, and is made at import. A tree is gone through once, along its known
members; others stay as they are.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gateway.a2a.json import Tree
from gateway.a2a.versions.reading import beneath
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.version import Memo, Misfit

Read = Callable[[Any, Memo], Any]
"""Gives what stands in the tree for a value of the expected type; None for nothing."""
Finish = Callable[[Tree, Memo], None]
"""Sees to an object when all its members are read."""


@dataclass(frozen=True, slots=True)
class Field:
    """What a member may hold.

    Attributes:
        type: What JSON calls it; `object` for anything, null included.
        words: What is told to whoever wrote something else.
        read: Checks or changes a value of that type; None where the type says it all.
        other: Makes the value of one of another type, or gives None for what cannot be read.
        name: What the member is called, where this is another name of it.
    """

    type: type
    words: str
    read: Read | None = None
    other: Callable[[object], object] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its fields under every name that each may have, and what is seen to in the end."""

    fields: Mapping[str, Field]
    finish: Finish | None = None


def shape(fields: Mapping[str, Field], finish: Finish | None = None, **aliases: str) -> Shape:
    """The shape with these fields, which may be called by their names in snake_case or by an alias as well."""
    every: dict[str, Field] = {}
    for alias, name in {**{name: name for name in fields}, **aliases}.items():
        for spelling in (alias, re.sub("[A-Z]", lambda upper: "_" + upper[0].lower(), alias)):
            every[spelling] = fields[name] if spelling == name else replace(fields[name], name=name)
    return Shape(every, finish)


def read(tree: Tree, shape: Shape, memo: Memo) -> Tree:
    """Bring an object to the one spelling of its shape, in place.

    Raises:
        Misfit: a member holds what its field may not, or stands under two names that say different things.
    """
    fields = shape.fields
    gone: list[str] = []
    renamed: list[tuple[str, str]] = []
    for name, value in tree.items():
        field = fields.get(name)
        if field is None:
            continue
        if field.read is not None or type(value) is not field.type:
            made = _made(name, value, field, memo)
            if made is None and field.type is not object:
                gone.append(name)
                continue
            if made is not value:
                # A key that is there already: the dictionary keeps its size, and the walk goes on.
                tree[name] = made
        if field.name is not None:
            renamed.append((name, field.name))
    for name in gone:
        del tree[name]
    if renamed:
        _rename(tree, renamed)
    if shape.finish is not None:
        shape.finish(tree, memo)
    return tree


def _made(name: str, value: object, field: Field, memo: Memo) -> object:
    """What stands in the tree for a value, or None for nothing."""
    if value is None or field.type is object:
        return value
    if type(value) is not field.type:
        value = None if field.other is None else field.other(value)
        if value is None:
            raise Misfit(name, field.words)
    if field.read is None:
        return value
    try:
        return field.read(value, memo)
    except Misfit as misfit:
        raise beneath(name, misfit) from None


def _rename(tree: Tree, renamed: list[tuple[str, str]]) -> None:
    for spoken, name in renamed:
        value = tree.pop(spoken)
        if tree.setdefault(name, value) != value:
            raise Misfit(spoken, f"is another name of {name}, which says something else")


def required(*names: str) -> Finish:
    """Sees to it that all these are there, and not empty."""

    def finish(tree: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
        for name in names:
            if not tree.get(name):
                raise Misfit(name, "is required")

    return finish


def choose(tree: Tree, *names: str) -> None:
    """See to it that exactly one of these is there.

    Raises:
        Misfit: none is, or several.
    """
    if len([name for name in names if name in tree]) != 1:
        raise Misfit("", f"must have exactly one of {', '.join(names[:-1])} and {names[-1]}")


# ---- Fields ----------------------------------------------------------------------------------------------------------


def within(inner: Shape) -> Field:
    """An object of a shape."""
    return Field(dict, "must be an object", lambda value, memo: read(value, inner, memo))


def each(inner: Shape) -> Field:
    """A list of objects of a shape."""

    def read_all(values: list[Any], memo: Memo) -> list[Any]:
        for index, value in enumerate(values):
            if type(value) is not dict:
                raise Misfit(f"[{index}]", "must be an object")
            try:
                read(value, inner, memo)
            except Misfit as misfit:
                raise beneath(f"[{index}]", misfit) from None
        return values

    return Field(list, "must be a list", read_all)


def among(numbers: range, words: str) -> Field:
    """An integer of some."""

    def read_number(value: int, memo: Memo) -> int:  # noqa: ARG001 - as every `Read`
        if value not in numbers:
            raise Misfit("", words)
        return value

    return Field(int, "must be an integer", read_number, _whole)


def or_unset(field: Field) -> Field:
    """The same field, where 0 is unset: it has no presence."""
    return replace(field, read=lambda value, memo: field.read(value, memo) if value and field.read else None)


def named(names: tuple[str, ...], words: str, others: Mapping[str, str | None] | None = None) -> Field:
    """An enumeration.

    Args:
        names: By number.
        others: What other spellings mean, or None for unset.
    """
    meant: dict[str, str | None] = {**{name: name for name in names}, **(others or {})}

    def read_name(value: str, memo: Memo) -> str | None:  # noqa: ARG001 - as every `Read`
        try:
            return meant[value]
        except KeyError:
            raise Misfit("", words) from None

    def of_number(value: object) -> str | None:
        return names[value] if type(value) is int and 0 <= value < len(names) else None

    return Field(str, words, read_name, of_number)


def _whole(value: object) -> int | None:
    """An integer that is written as a string, or with a point."""
    if type(value) is str and _NUMERAL.fullmatch(value) is not None:
        return int(value)
    # Compared, not made positive: that overflows where the exponent is beyond all bounds.
    if type(value) is Decimal and -_BEYOND < value < _BEYOND and value == int(value):
        return int(value)
    return None


def _texts(values: list[Any], memo: Memo) -> list[Any]:  # noqa: ARG001 - as every `Read`
    for index, value in enumerate(values):
        if type(value) is not str:
            raise Misfit(f"[{index}]", "must be a string")
    return values


def _moment(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every `Read`
    moment = to_utc(value)
    if moment is None:
        raise Misfit("", "must be a timestamp of ISO 8601, as 2026-01-31T12:00:00Z")
    return moment


def _base64(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every `Read`
    """Base64 in the standard alphabet and padded; it may be megabytes, so its letters are its reader's to check."""
    if len(value) % 4 == 0 and "-" not in value and "_" not in value:
        return value
    digits = value.rstrip("=").replace("-", "+").replace("_", "/")
    if len(digits) % 4 == 1:
        raise Misfit("", "must be base64")
    return digits + "=" * (-len(digits) % 4)


_NUMERAL = re.compile("-?[0-9]{1,10}")
_BEYOND = 2**32

ANY = Field(object, "")
TEXT = Field(str, "must be a string")
# ProtoJSON has no other way to say that a string without presence is unset, and some writers write it.
ID = replace(TEXT, read=lambda value, _: value or None)
BOOL = Field(bool, "must be true or false")
COUNT = among(range(-(2**31), 2**31), "must be an integer of 32 bits")
OBJECT = Field(dict, "must be an object")
TEXTS = Field(list, "must be a list of strings", _texts)
BYTES = Field(str, "must be a string of base64", _base64)
MOMENT = Field(str, "must be a timestamp", _moment)
