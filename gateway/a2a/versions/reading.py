"""Typed reads of a tree's members, and walks down into them: wrong types end as `Misfit`, with the way to the member.

A read knows only its own member's name. The names above it are put before it on the way up, by the walks (`inside`,
`each`) that led down to it, so that the way is built when something is wrong and costs nothing when all is right.

A member that is null counts as absent: whoever reads it takes it out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.a2a.json import Tree
from gateway.a2a.versions.version import Misfit

Walk = Callable[[Tree], Tree]
"""Reads one object and returns what takes its place, which may be the same object."""

Members = Mapping[str, type]
"""Types of an object's known members, as JSON is decoded: `str`, `bool`, `dict` or `list`."""

_INT32 = range(-(2**31), 2**31)
# As models of Python accept them in JSON too, and parsers of ProtoJSON.
_CAMEL = {
    "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name): name
    for name in (
        "messageId", "contextId", "taskId", "referenceTaskIds", "mimeType", "mediaType", "artifactId", "lastChunk",
        "statusUpdate", "artifactUpdate", "acceptedOutputModes", "historyLength", "returnImmediately",
        "pushNotificationConfig", "taskPushNotificationConfig", "pushNotificationConfigId", "pageSize", "pageToken",
        "nextPageToken", "totalSize", "includeArtifacts", "statusTimestampAfter",
    )
}  # fmt: skip
_SNAKE = frozenset(_CAMEL)
_MUST_BE = {str: "must be a string", bool: "must be true or false", dict: "must be an object", list: "must be a list"}


def check(tree: Tree, members: Members) -> None:
    """Read all of an object's known members at once: what is there has its type, and what is null is taken out.

    Raises:
        Misfit: one of them is something else.
    """
    nulls = None
    for name, value in tree.items():
        wanted = members.get(name)
        if wanted is not None and type(value) is not wanted:
            if value is not None:
                raise Misfit(name, _MUST_BE[wanted])
            nulls = [name] if nulls is None else [*nulls, name]
    if nulls is not None:
        for name in nulls:
            del tree[name]


def read(tree: Tree, members: Members) -> None:
    """Check all known members of an object at once, and call those in snake_case by their proper names.

    Raises:
        Misfit: one of them is of a wrong type, or is there in both spellings and does not say the same.
    """
    if not _SNAKE.isdisjoint(tree):
        for name in _SNAKE.intersection(tree):
            value, proper = tree.pop(name), _CAMEL[name]
            if tree.get(proper) is None:
                tree[proper] = value
            elif value is not None and value != tree[proper]:
                raise Misfit(proper, f"is there as {name} too, and says something else")
    check(tree, members)


def expect_text(tree: Tree, name: str) -> str | None:
    """The string of that name, or None where there is none.

    Raises:
        Misfit: it is something else.
    """
    value = tree.get(name)
    if type(value) is str:
        return value
    if value is None:
        tree.pop(name, None)
        return None
    raise Misfit(name, "must be a string")


def expect_bool(tree: Tree, name: str) -> bool | None:
    """The boolean of that name, or None where there is none.

    Raises:
        Misfit: it is something else.
    """
    value = tree.get(name)
    if type(value) is bool:
        return value
    if value is None:
        tree.pop(name, None)
        return None
    raise Misfit(name, "must be true or false")


def expect_int(tree: Tree, name: str) -> int | None:
    """The integer of that name, or None where there is none; all of A2A's have 32 bits.

    Raises:
        Misfit: it is something else, or beyond 32 bits.
    """
    value = tree.get(name)
    if type(value) is int and value in _INT32:
        return value
    if value is None:
        tree.pop(name, None)
        return None
    raise Misfit(name, "must be an integer of 32 bits")


def expect_object(tree: Tree, name: str) -> Tree | None:
    """The object of that name, or None where there is none.

    Raises:
        Misfit: it is something else.
    """
    value = tree.get(name)
    if type(value) is dict:
        return value
    if value is None:
        tree.pop(name, None)
        return None
    raise Misfit(name, "must be an object")


def expect_list(tree: Tree, name: str) -> list[Any] | None:
    """The list of that name, or None where there is none.

    Raises:
        Misfit: it is something else.
    """
    value = tree.get(name)
    if type(value) is list:
        return value
    if value is None:
        tree.pop(name, None)
        return None
    raise Misfit(name, "must be a list")


def expect_texts(tree: Tree, name: str) -> list[str] | None:
    """The list of strings of that name, or None where there is none.

    Raises:
        Misfit: it is no list, or something else than a string is in it.
    """
    values = expect_list(tree, name)
    if values:
        for index, value in enumerate(values):
            if type(value) is not str:
                raise Misfit(f"{name}[{index}]", "must be a string")
    return values


def require_text(tree: Tree, name: str) -> str:
    """The string of that name, which must be there.

    Raises:
        Misfit: it is missing, or something else.
    """
    value = tree.get(name)
    if type(value) is str:
        return value
    raise Misfit(name, "is required" if value is None else "must be a string")


def require_id(tree: Tree, name: str) -> str:
    """The id of that name, which must be there: over HTTP an empty one would be another path.

    Raises:
        Misfit: it is missing or empty, or something else than a string.
    """
    value = require_text(tree, name)
    if not value:
        raise Misfit(name, "must not be empty")
    return value


def require_object(tree: Tree, name: str) -> Tree:
    """The object of that name, which must be there.

    Raises:
        Misfit: it is missing, or something else.
    """
    value = tree.get(name)
    if type(value) is dict:
        return value
    raise Misfit(name, "is required" if value is None else "must be an object")


def require_list(tree: Tree, name: str) -> list[Any]:
    """The list of that name, which must be there.

    Raises:
        Misfit: it is missing, or something else.
    """
    value = tree.get(name)
    if type(value) is list:
        return value
    raise Misfit(name, "is required" if value is None else "must be a list")


def inside(tree: Tree, name: str, walk: Walk) -> Tree | None:
    """Put what `walk` makes of the object of that name in its place; None where there is none.

    Raises:
        Misfit: it is something else, or the walk found something wrong in it.
    """
    value = expect_object(tree, name)
    if value is None:
        return None
    try:
        tree[name] = made = walk(value)
    except Misfit as misfit:
        raise beneath(name, misfit) from None
    return made


def each(tree: Tree, name: str, walk: Walk) -> list[Any] | None:
    """Put what `walk` makes of each object of that list in its place; None where there is no list.

    Raises:
        Misfit: it is no list, something else than an object is in it, or the walk found something wrong.
    """
    values = expect_list(tree, name)
    if values:
        every(values, name, walk)
    return values


def every(values: list[Any], name: str, walk: Walk) -> None:
    """Put what `walk` makes of each object of a list in its place.

    Args:
        name: What the list is called, for the way of what is wrong in it; empty where it has no name.

    Raises:
        Misfit: something else than an object is in it, or the walk found something wrong.
    """
    for index, value in enumerate(values):
        if type(value) is not dict:
            raise Misfit(f"{name}[{index}]", "must be an object")
        try:
            values[index] = walk(value)
        except Misfit as misfit:
            raise beneath(f"{name}[{index}]", misfit) from None


def beneath(way: str, misfit: Misfit) -> Misfit:
    """The same misfit as seen from further up, where `way` leads to what it was found in."""
    field = misfit.field
    if not field:
        return Misfit(way, misfit.words)
    return Misfit(f"{way}{field}" if field[0] == "[" else f"{way}.{field}", misfit.words)
