"""Encodes and decodes the ledger's entries in Redis; `redis_scripts.py` says where they are."""

from collections.abc import Iterator
from typing import Final, TypeAlias, TypeVar, cast

import msgspec

from gateway.tasks.redis_client import Reply, unavailable
from gateway.tasks.store import LONGEST_ID, Decision, Note, Owner, Row, Task

T = TypeVar("T")

DIGITS: Final = 12
"""Of the time at which a note is to be forgotten, in front of its value."""

_LATEST: Final = 10**DIGITS - 1
_LATEST_MICROS: Final = 2**53


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    tenant: str
    principal: str
    context: str
    state: str
    replica: str
    dialect: str
    made: int
    seen: int


_task = msgspec.msgpack.Decoder(_Kept)
_context = msgspec.msgpack.Decoder(tuple[str, str, int])
_meta = msgspec.msgpack.Decoder(tuple[str, str, int, int])
_owners = msgspec.msgpack.Decoder(tuple[tuple[str, str] | bool, tuple[str, str] | bool])


# ---- Words ---------------------------------------------------------------------------------------------------------


def closed(word: str) -> str:
    """A word that another may follow."""
    if "\0" in word or "\1" in word:
        word = word.replace("\1", "\1\2").replace("\0", "\1\1")
    return word + "\0"


def opened(word: str) -> str:
    """The word that was closed."""
    return word[:-1].replace("\1\1", "\0").replace("\1\2", "\1")


def named(word: str, rest: str) -> str:
    """Two words, such as a scope and an id, as one name."""
    return closed(word) + rest


def split(name: str) -> tuple[str, str]:
    """The words of a name."""
    border = name.index("\0") + 1
    return opened(name[:border]), name[border:]


def short(id_: str) -> str:
    """The id, or nothing where it is too long to be kept."""
    return id_ if len(id_) <= LONGEST_ID else ""


def micros(seconds: float) -> int:
    """Microseconds, as far as Lua counts without a gap."""
    return min(round(seconds * 1e6), _LATEST_MICROS)


# ---- Tasks and contexts --------------------------------------------------------------------------------------------


def read_task(reply: Reply) -> Task:
    """Return the task that a hash holds."""
    kept = _decoded(_task, reply)
    owner = Owner(kept.tenant, kept.principal)
    return Task(owner, kept.context, kept.state, kept.replica, kept.dialect, kept.made, kept.seen)


def read_context(reply: Reply) -> tuple[Owner, int]:
    """Return the context that a hash holds: its owner, and when it was seen."""
    tenant, principal, seen = _decoded(_context, reply)
    return Owner(tenant, principal), seen


def read_decision(reply: Reply) -> Decision:
    """Return the decision that `RECORD` replied: an owner for each id, or false, which is Lua's nil."""
    task, context = _decoded(_owners, reply)
    return Decision(
        None if isinstance(task, bool) else Owner(*task), None if isinstance(context, bool) else Owner(*context)
    )


def read_row(name: str, reply: Reply) -> Row:
    """A row by its name among the rows."""
    scope, id_ = split(name[1:])
    if name[0] == "t":
        task = read_task(reply)
        return Row(scope, id_, task=task, seen=task.seen)
    owner, seen = read_context(reply)
    return Row(scope, id_, context=owner, seen=seen)


Told: TypeAlias = tuple[str, str, bool, tuple[object, ...]]
"""The arguments of `PUT_ROWS` for a row: its scope and id, whether it is a task, and the fields of its hash."""


def told_row(row: Row) -> tuple[str, Told] | None:
    """The tenant of a row, and what is told of it; None for one that cannot be kept."""
    task, owner = row.task, row.context
    if not short(row.id):
        return None
    if task is not None:
        owner = task.owner
        details = (short(task.context), task.state, task.replica, task.dialect, task.made, task.seen)
        return owner.tenant, (closed(row.scope), row.id, True, (owner.tenant, owner.principal, *details))
    if owner is not None:
        return owner.tenant, (closed(row.scope), row.id, False, (owner.tenant, owner.principal, row.seen))
    return None


# ---- Notes ---------------------------------------------------------------------------------------------------------


def told_note(note: Note) -> tuple[str, str, int, int]:
    """The meta of a note."""
    due = max(1, micros(note.due)) if note.due > 0 else 0
    return note.tenant, note.group, due, min(max(note.until, 0), _LATEST)


def tenant_of(meta: bytes) -> str:
    """The tenant of a note, by its meta."""
    return _decoded(_meta, meta)[0]


def read_note(name: str, value: bytes, meta: bytes) -> Note:
    """A note by its name."""
    kind, key = split(name)
    tenant, group, due, until = _decoded(_meta, meta)
    return Note(kind, key, value, tenant, group, due / 1e6, until)


# ---- Replies -------------------------------------------------------------------------------------------------------


def as_bytes(reply: Reply) -> bytes:
    """A reply that is a string.

    Raises:
        StateUnavailable: it is none; so do those below.
    """
    if not isinstance(reply, bytes):
        raise unavailable("Unreadable")
    return reply


def as_number(reply: Reply) -> int:
    """A reply that is a number."""
    if not isinstance(reply, int):
        raise unavailable("Unreadable")
    return reply


def as_list(reply: Reply) -> list[Reply]:
    """A reply that is a list."""
    if not isinstance(reply, list):
        raise unavailable("Unreadable")
    return reply


def by(size: int, reply: Reply) -> Iterator[tuple[bytes, ...]]:
    """Yield a list of strings in groups of a size."""
    words = cast("list[bytes]", as_list(reply))  # our own scripts answer with strings
    return zip(*(words[at::size] for at in range(size)), strict=True)


def slices(items: list[T], size: int) -> Iterator[list[T]]:
    """A list in pieces."""
    return (items[at : at + size] for at in range(0, len(items), size))


def _decoded(decoder: msgspec.msgpack.Decoder[T], reply: Reply) -> T:
    try:
        return decoder.decode(as_bytes(reply))
    except msgspec.MsgspecError as error:
        raise unavailable("Unreadable") from error
