"""Members that stand twice in what an agent says, wherever an id is looked for in it.

Most parsers keep the last of two, some the first: one reader would see a task that the gateway has not asked the ledger
about. What is opened is what `progress` and `within` read: an answer, what 1.0 wraps in it, a status, a history and its
messages, push configurations. Parts, artifacts, `data` and `metadata` are free: nobody takes an id out of them.

An object is decoded and encoded again, both of which the library does: where that gives as many bytes, no member was
dropped. Spaces are taken out of the whole document first, and only names with escapes need a closer look.
"""

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.json import Members

_DEPTH = 4
"""Objects within each other: an answer, its task, the status of that, and its message."""
_OPENED = frozenset({
    "task", "message", "msg", "statusUpdate", "artifactUpdate", "status_update", "artifact_update",
    "Task", "Message", "StatusUpdate", "ArtifactUpdate",
    "status", "update", "history", "configs", "pushNotificationConfig", "push_notification_config",
})  # fmt: skip
_BRACE = ord("{")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_members = msgspec.json.Decoder(Members).decode
_wrapped = msgspec.json.Decoder(dict[str, Members]).decode
_rows = msgspec.json.Decoder(list[Members]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def has_twins(data: bytes | msgspec.Raw) -> bool:
    """Whether an object, or one of a list, has a member twice; also if a name in it is no text."""
    try:
        # Nearly all answers and events: something wrapped, without spaces.
        outer = _wrapped(data)
        if len(_encode(outer)) == len(data):
            for name, members in outer.items():
                if name in _OPENED and not _OPENED.isdisjoint(members) and _inside(members, _DEPTH - 2, spaced=False):
                    return True
            return False
    except msgspec.ValidationError:
        pass
    except _UNREADABLE:
        return True
    try:
        return _has_twins(data, _DEPTH, spaced=True)
    except _UNREADABLE:
        return True


def _inside(members: Members, depth: int, *, spaced: bool) -> bool:
    """As `has_twins`, of what is opened in an object."""
    return any(_has_twins(members[name], depth, spaced=spaced) for name in _OPENED.intersection(members))


def _has_twins(data: bytes | msgspec.Raw, depth: int, *, spaced: bool) -> bool:
    """As `has_twins`.

    Args:
        depth: How many objects within each other are looked at.
        spaced: Whether there may be spaces between members.
    """
    try:
        members = _members(data)
    except msgspec.ValidationError:
        return _any_has_twins(data, depth)
    if len(_encode(members)) != len(data):
        if spaced:
            return _has_twins(msgspec.json.format(bytes(data), indent=-1), depth, spaced=False)
        if strict_json.has_twins(bytes(data), members):
            return True
    return depth > 1 and not _OPENED.isdisjoint(members) and _inside(members, depth - 1, spaced=spaced)


def _any_has_twins(data: bytes | msgspec.Raw, depth: int) -> bool:
    """The same of the objects in a list; what is neither has no members."""
    try:
        rows = _rows(data)
        if len(_encode(rows)) == len(data) and all(map(_OPENED.isdisjoint, rows)):
            return False
    except msgspec.ValidationError:
        pass
    try:
        elements = _elements(data)
    except msgspec.ValidationError:
        return False
    return any(memoryview(each)[0] == _BRACE and _has_twins(each, depth, spaced=True) for each in elements)
