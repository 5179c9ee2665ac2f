"""What is another in one configuration than in another, key by key; nothing secret is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

import msgspec

from gateway.config.agent import Backend
from gateway.config.display import shown
from gateway.config.model import Config
from gateway.config.part import Part
from gateway.config.problem import KeyPath, printable, spell
from gateway.config.replication import replica_name

_WIDEST = 60


class Sort(StrEnum):
    """What became of a key."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs.

    Attributes:
        old, new: What may be shown of the two values, as JSON; empty where they are told by the path alone, or where
            they look alike because they are secret.
    """

    sort: Sort
    path: KeyPath
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        sign = {Sort.ADDED: "+", Sort.REMOVED: "-", Sort.CHANGED: "~"}[self.sort]
        told = " → ".join(each for each in (self.old, self.new) if each or self.sort is Sort.CHANGED)
        told = f": {told}" if self.old or self.new else ""
        return f"{sign} {spell(self.path)}{told}"

    def as_json(self) -> dict[str, str]:
        """For programs."""
        return {"change": self.sort.value, "path": spell(self.path), "old": self.old, "new": self.new}


def changes(old: Config, new: Config) -> tuple[Change, ...]:
    """What differs between two configurations, in the order of the format; nothing for what means the same."""
    return tuple(_between(old, new, (), (shown(old), shown(new))))


def _between(old: object, new: object, path: KeyPath, told: tuple[object, object]) -> Iterator[Change]:
    # The values themselves are compared, not what may be shown of them: a secret that is another is a change.
    if isinstance(old, Part | Mapping) and isinstance(new, Part | Mapping):
        before, after = _members(old), _members(new)
        for key in dict.fromkeys((*before, *after)):
            at = (*path, key)
            if key not in before:
                yield Change(Sort.ADDED, at)
            elif key not in after:
                yield Change(Sort.REMOVED, at)
            else:
                yield from _between(before[key], after[key], at, (_below(told[0], key), _below(told[1], key)))
    elif _are_replicas(old) and _are_replicas(new):
        yield from _among(old, new, path, told)
    elif old != new:
        whole = isinstance(old, Part | Mapping) or isinstance(new, Part | Mapping)
        words = ("", "") if whole else _words(told)
        if old is None or new is None:
            yield Change(Sort.ADDED if old is None else Sort.REMOVED, path, *words)
        else:
            yield Change(Sort.CHANGED, path, *words)


def _are_replicas(value: object) -> TypeGuard[tuple[Backend, ...]]:
    return isinstance(value, tuple) and value != () and all(isinstance(each, Backend) for each in value)


def _among(
    old: tuple[Backend, ...], new: tuple[Backend, ...], path: KeyPath, told: tuple[object, object]
) -> Iterator[Change]:
    """What differs between the replicas of a backend: they are told apart by their names, wherever they stand."""
    if len(old) == len(new) == 1:
        yield from _between(old[0], new[0], path, (_below(told[0], 0), _below(told[1], 0)))
        return
    before = {replica_name(one): number for number, one in enumerate(old)}
    for number, one in enumerate(new):
        at = (*path, number)
        was = before.pop(replica_name(one), None)
        if was is None:
            yield Change(Sort.ADDED, at, new=_word(replica_name(one)))
        else:
            yield from _between(old[was], one, at, (_below(told[0], was), _below(told[1], number)))
    for name, number in before.items():
        yield Change(Sort.REMOVED, (*path, number), old=_word(name))


def _members(value: Part | Mapping[str, object]) -> Mapping[str, object]:
    if isinstance(value, Part):
        return {field.alias or name: getattr(value, name) for name, field in type(value).model_fields.items()}
    return value


def _below(tree: object, key: object) -> object:
    if isinstance(tree, list) and isinstance(key, int):
        return tree[key] if key < len(tree) else None
    return tree.get(key) if isinstance(tree, Mapping) else None


def _words(told: tuple[object, object]) -> tuple[str, str]:
    old, new = (printable(msgspec.json.encode(each).decode()) for each in told)
    if old == new:
        return "", ""
    return _short(old), _short(new)


def _word(name: str) -> str:
    return _short(printable(msgspec.json.encode(name).decode()))


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
