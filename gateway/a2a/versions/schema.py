"""Objects as tables, and the one walk that translates a tree by its table.

A `Schema` lists an object's members under every name that each may have, with a `Field` for each: its type, the
conversion of its value, and its name in the result. The same walk reads (lifts to the hub) and writes (lowers to a
version). It visits each member once; unknown members stay, unless the schema is closed.

ProtoJSON allows several spellings (1.0 §5.5): names in camelCase or snake_case, enumerations by name or by number,
integers as strings, null for unset members, base64 of either alphabet. The result always has the first of each.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway.a2a.json import Tree
from gateway.a2a.versions.version import Memo, Misfit, Step

Finish = Callable[[Tree, Memo], None]
"""Completes an object in place when all its members are converted."""


@dataclass(frozen=True, slots=True)
class Field:
    """The rule for one member.

    Attributes:
        type: The Python type of its JSON value; `object` for any.
        words: The error text for another type.
        convert: Checks or converts a value of that type; None for nothing, which drops the member.
        other: Makes a value of `type` from one of another type, or returns None if it cannot be read.
        name: The name in the result, where it is not the same.
        required: Whether it must be there and not empty.
        nullable: Whether null is a value.
        sparse: Whether an empty value, 0 or false means that the member is unset.
    """

    type: type
    words: str
    convert: Step | None = None
    other: Callable[[object], object] | None = None
    name: str | None = None
    required: bool = False
    nullable: bool = False
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """The table of an object; call it to translate a tree in place.

    Attributes:
        fields: The rule of each member, by every name that it may have.
        required: Members of the result that must be there, each with its name in the error.
        finish: Completes the object in the end.
        closed: Whether unknown members are dropped.
    """

    fields: Mapping[str, Field]
    required: tuple[tuple[str, str], ...] = ()
    finish: Finish | None = None
    closed: bool = False

    def __call__(self, tree: Tree, memo: Memo) -> Tree:
        """Translate an object in place, and return it.

        Raises:
            Misfit: a member breaks its rule, is missing, or is there under two names with different values.
        """
        if type(tree) is not dict:
            raise Misfit("", "must be an object")
        find = self.fields.get
        dropped: list[str] = []
        renamed: list[tuple[str, str]] = []
        for name, value in tree.items():
            field = find(name)
            if field is None:
                if self.closed:
                    dropped.append(name)
                continue
            made = value
            if value is not None and (field.convert is not None or type(value) is not field.type):
                made = _converted(name, value, field, memo)
            if (made is None and not field.nullable) or (field.sparse and not made):
                dropped.append(name)
                continue
            if made is not value:
                # A key that is there already: the dictionary keeps its size, and the walk goes on.
                tree[name] = made
            if field.name is not None:
                renamed.append((name, field.name))
        self._complete(tree, memo, dropped, renamed)
        return tree

    def _complete(self, tree: Tree, memo: Memo, dropped: list[str], renamed: list[tuple[str, str]]) -> None:
        for name in dropped:
            del tree[name]
        if renamed:
            _rename(tree, renamed)
        for name, label in self.required:
            if name not in tree:
                raise Misfit(label, "is required")
        if self.finish is not None:
            self.finish(tree, memo)


def schema(
    fields: Mapping[str, Field],
    finish: Finish | None = None,
    *,
    closed: bool = False,
    aliases: Mapping[str, str] | None = None,
) -> Schema:
    """Return the schema of objects that are read: members may have their names in snake_case, or an alias, as well."""
    every: dict[str, Field] = {}
    for alias, name in {**{name: name for name in fields}, **(aliases or {})}.items():
        field = fields[name]
        result = field.name or name
        for spelling in (alias, snake(alias)):
            every[spelling] = replace(field, name=None if spelling == result else result)
    return exact(every, finish, closed=closed, required=fields)


def exact(
    fields: Mapping[str, Field],
    finish: Finish | None = None,
    *,
    closed: bool = False,
    required: Mapping[str, Field] | None = None,
) -> Schema:
    """Return the schema of objects whose members have one name each, as those that the gateway wrote."""
    needed = fields if required is None else required
    names = tuple((field.name or name, name) for name, field in needed.items() if field.required)
    return Schema(fields, names, finish, closed)


def snake(name: str) -> str:
    """Return a camelCase name in snake_case."""
    return re.sub("[A-Z]", lambda upper: "_" + upper[0].lower(), name)


def _converted(name: str, value: object, field: Field, memo: Memo) -> object:
    if field.type is not object and type(value) is not field.type:
        value = None if field.other is None else field.other(value)
        if value is None:
            raise Misfit(name, field.words)
    if field.convert is None or (field.sparse and not value):
        return value
    try:
        return field.convert(value, memo)
    except Misfit as misfit:
        raise misfit.beneath(name) from None


def _rename(tree: Tree, renamed: list[tuple[str, str]]) -> None:
    # Taken out first, all of them: one member's new name may be the old name of another.
    values = [tree.pop(old) for old, _ in renamed]
    for (old, name), value in zip(renamed, values, strict=True):
        if tree.setdefault(name, value) != value:
            raise Misfit(old, f"is another name of {name}, which says something else")


def choose(tree: Tree, *names: str) -> None:
    """Check that exactly one of these members is there.

    Raises:
        Misfit: none is, or several.
    """
    if len([name for name in names if name in tree]) != 1:
        raise Misfit("", f"must have exactly one of {', '.join(names[:-1])} and {names[-1]}")


def default(**members: Any) -> Finish:  # noqa: ANN401 - any JSON
    """Return a finish that sets members where they are missing; a list or an object is made anew for each tree."""

    def finish(tree: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
        for name, value in members.items():
            if name not in tree:
                tree[name] = value.copy() if isinstance(value, list | dict) else value

    return finish


# ---- Rules that are made of others -----------------------------------------------------------------------------------


def need(field: Field) -> Field:
    """Return the same rule for a member that must be there."""
    return replace(field, required=True)


def called(name: str, field: Field) -> Field:
    """Return the same rule for a member that has another name in the result."""
    return replace(field, name=name)


def unless_empty(field: Field) -> Field:
    """Return the same rule, where an empty value, 0 or false means that the member is unset."""
    return replace(field, sparse=True)


def within(step: Step) -> Field:
    """Return the rule of an object."""
    return Field(dict, "must be an object", step)


def each(step: Step) -> Field:
    """Return the rule of a list of objects."""

    def convert(values: list[Any], memo: Memo) -> list[Any]:
        for index, value in enumerate(values):
            if type(value) is not dict:
                raise Misfit(f"[{index}]", "must be an object")
            try:
                values[index] = step(value, memo)
            except Misfit as misfit:
                raise misfit.beneath(f"[{index}]") from None
        return values

    return Field(list, "must be a list", convert)


def among(numbers: range, words: str) -> Field:
    """Return the rule of an integer in a range."""

    def convert(value: int, memo: Memo) -> int:  # noqa: ARG001 - as every step
        if value not in numbers:
            raise Misfit("", words)
        return value

    return Field(int, "must be an integer of 32 bits", convert, _whole)


def named(words: str, meanings: Mapping[str, str | None], numbered: tuple[str, ...] = ()) -> Field:
    """Return the rule of an enumeration.

    Args:
        words: The error text for a word that is none of them.
        meanings: The hub's word for each word, or None for unset.
        numbered: Its words by number, where a number is understood.
    """

    def convert(value: str, memo: Memo) -> str | None:  # noqa: ARG001 - as every step
        try:
            return meanings[value]
        except KeyError:
            raise Misfit("", words) from None

    def of_number(value: object) -> str | None:
        return numbered[value] if type(value) is int and 0 <= value < len(numbered) else None

    return Field(str, words, convert, of_number)


def written(meanings: Mapping[str, str], otherwise: str) -> Field:
    """Return the rule that writes the hub's words in a version's own."""
    return Field(str, "", lambda value, _: meanings.get(value, otherwise))


def tag(kind: str) -> Field:
    """Return the rule of a member that repeats what the object is, and is dropped."""

    def convert(value: str, memo: Memo) -> None:  # noqa: ARG001 - as every step
        if value and value != kind:
            raise Misfit("", f"must be {kind}")

    return Field(str, f"must be {kind}", convert)


# ---- Rules of single values ------------------------------------------------------------------------------------------


def _whole(value: object) -> int | None:
    """Return an integer that is written as a string, or with a point."""
    if type(value) is str and _NUMERAL.fullmatch(value) is not None:
        return int(value)
    # Compared, not made positive: that overflows where the exponent is beyond all bounds.
    if type(value) is Decimal and -_BEYOND < value < _BEYOND and value == int(value):
        return int(value)
    return None


def _texts(values: list[Any], memo: Memo) -> list[Any]:  # noqa: ARG001 - as every step
    for index, value in enumerate(values):
        if type(value) is not str:
            raise Misfit(f"[{index}]", "must be a string")
    return values


def _moment(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every step
    moment = to_utc(value)
    if moment is None:
        raise Misfit("", "must be a timestamp of ISO 8601, as 2026-01-31T12:00:00Z")
    return moment


def _base64(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every step
    """Return base64 in the standard alphabet, padded. It may be megabytes: its reader checks the letters."""
    if len(value) % 4 == 0 and "-" not in value and "_" not in value:
        return value
    digits = value.rstrip("=").replace("-", "+").replace("_", "/")
    if len(digits) % 4 == 1:
        raise Misfit("", "must be base64")
    return digits + "=" * (-len(digits) % 4)


_NUMERAL = re.compile("-?[0-9]{1,10}")
_BEYOND = 2**32

ANY = Field(object, "", nullable=True)
DROP = Field(object, "", lambda _value, _memo: None)
"""Drops a name that is unknown in this version and known in the other."""
SOME = Field(object, "", sparse=True)
"""Keeps a value as it is unless it is empty, as ProtoJSON writes."""
TEXT = Field(str, "must be a string")
ID = unless_empty(TEXT)
BOOL = Field(bool, "must be true or false")
COUNT = among(range(-(2**31), 2**31), "must be an integer of 32 bits")
LENGTH = among(range(2**31), "must not be negative")
OBJECT = Field(dict, "must be an object")
TEXTS = Field(list, "must be a list of strings", _texts)
BYTES = Field(str, "must be a string of base64", _base64)
MOMENT = Field(str, "must be a timestamp", _moment)


def dropped(*names: str) -> dict[str, Field]:
    """Return rules that drop these names, in both spellings."""
    return dict.fromkeys((*names, *map(snake, names)), DROP)


# ---- Timestamps ------------------------------------------------------------------------------------------------------

_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:[.,]([0-9]{1,64}))?"
    r"(?:[Zz]|([+-][0-9]{2}):?([0-5][0-9]))?"
)
_WRITTEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z")
_DIGITS = 9


def to_utc(text: str) -> str | None:
    """Return a timestamp as the hub writes it (1.0 §5.6.1, RFC 3339): ISO 8601 in UTC with a `Z`.

    Older versions have a free string, so their peers write offsets or no zone, and a parser of
    `google.protobuf.Timestamp` refuses both. A timestamp without a zone is taken for UTC. Up to nine digits of a second
    are kept. Returns None for a text that is no timestamp, or one outside years 1 to 9999.
    """
    try:
        if _WRITTEN.fullmatch(text) is not None:
            datetime.fromisoformat(text[:19])
            return text
        found = _MOMENT.fullmatch(text)
        if found is None:
            return None
        day, minutes, seconds, digits, hours, rest = found.groups()
        # Without their digits: those of a second are the same in every zone.
        moment = datetime.fromisoformat(f"{day}T{minutes}{seconds or ':00'}{hours or '+00'}:{rest or '00'}")
        written = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError):
        return None
    return f"{written}.{digits[:_DIGITS]}Z" if digits else f"{written}Z"


# An answer with a bad timestamp is still an answer: the timestamp is dropped.
ANSWERED_MOMENT = Field(object, "", lambda value, _memo: to_utc(value) if type(value) is str else None)
