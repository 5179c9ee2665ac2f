"""Where the members of an object stand in the bytes it was read from, and how one of them is changed there.

A parser tells what an object's members are, not where; this finds them again without parsing a second time. Of an
object without space and without escapes in its names the lengths tell; any other is walked through. Both rest on the
object being valid and having been read as exactly these members.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

Edit: TypeAlias = tuple[int, int, bytes]
"""From where to where, and what stands there instead."""


class Place(NamedTuple):
    """Where a member stands: the brace or comma before it, its name, its value, and the byte after that."""

    delimiter: int
    name: int
    value: int
    end: int


def is_compact(members: Mapping[str, msgspec.Raw], size: int) -> bool:
    """Whether an object of `size` bytes is written as these members, in this order, and not a byte more.

    It takes two braces, a comma between members, a colon and two quotes each. An object that is that short has no
    space, no escape and nothing beyond ASCII in a name, and no member that was dropped because its name stands twice:
    each of these makes it longer than its members tell.
    """
    return len("".join(members)) + sum(map(len, members.values())) + 4 * len(members) + 1 == size


def is_whole(raw: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object is written as these members in this order, with nothing but space between them.

    The parser keeps the place of the first of two equal names and the value of the last. The object is valid, so where
    a name is expected stands a name, and a value that is found there is the whole value or the start of a number.
    """
    if not members or (len(raw) <= _SHORT and raw == _spaced(members)):
        return True
    position = 0
    for key, value in members.items():
        name = _NAME.match(raw, position)
        if name is None:
            return False
        written, position = name[2], name.end()
        if written[1:-1] != key.encode() and _string.decode(written) != key:
            return False
        if not raw.startswith(value, position):
            return False
        position += len(value)
    return _END.fullmatch(raw, position) is not None


def locate(body: bytes, span: tuple[int, int], members: Mapping[str, msgspec.Raw], name: str) -> Place:
    """Where a member of an object stands.

    Args:
        span: Where the object starts and ends in the body; space may stand around it.
        members: All that it has, in their order.

    Raises:
        KeyError: it has no such member.
    """
    start, end = span
    if is_compact(members, end - start):
        for key, value in members.items():
            place = start + len(key) + 4
            if key == name:
                return Place(start, start + 1, place, place + len(value))
            start = place + len(value)
        raise KeyError(name)
    for key, value in members.items():
        found = _NAME.match(body, start)
        if found is None:
            break
        start = found.end() + len(value)
        if key == name:
            return Place(found.start(1), found.start(2), found.end(), start)
    raise KeyError(name)


def cut(body: bytes, place: Place) -> Edit:
    """The edit that takes a member out, with one comma."""
    if body[place.delimiter] == _COMMA:
        return place.delimiter, place.end, b""
    follower = _NAME.match(body, place.end)
    return place.name, place.end if follower is None else follower.start(2), b""


def insert(body: bytes, start: int, member: bytes, *, alone: bool) -> Edit:
    """The edit that puts a member before all others of the object that starts at `start`, or behind space there.

    Args:
        alone: Whether there are no others.
    """
    place = body.index(b"{", start) + 1
    return place, place, member if alone else member + b","


def edited(body: bytes, edits: Iterable[Edit]) -> bytes:
    """The body with its edits made, which do not overlap."""
    pieces: list[bytes] = []
    position = 0
    for start, end, instead in sorted(edits):
        pieces += (body[position:start], instead)
        position = end
    pieces.append(body[position:])
    return b"".join(pieces)


def _spaced(members: Mapping[str, msgspec.Raw]) -> bytes:
    """The object with one space behind each comma and colon, as Python writes it unless told otherwise."""
    return b"{%b}" % b", ".join([b'"%b": %b' % (key.encode(), value) for key, value in members.items()])


_NAME = re.compile(rb'[ \t\r\n]*([{,])[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*')
_END = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")
_COMMA = ord(",")
# Longer ones are not written again only to be compared.
_SHORT = 16 * 1024
_string = msgspec.json.Decoder(str)
