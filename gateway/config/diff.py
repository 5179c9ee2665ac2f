"""Differences of two configurations, key by key without secrets, and settings that need a restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cached_property, reduce
from typing import Any, TypeGuard

import msgspec

from gateway.config.agent import Backend, replica_name
from gateway.config.effective import shown
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable, spell
from gateway.config.values import Part
from gateway.config.yaml import Marks
from gateway.routing.route import Place

# ---- differences -----------------------------------------------------------------------------------------------------

_WIDEST = 60
_BEFORE = 20


class Sort(StrEnum):
    """The kind of a change."""

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
    """Return the differences in meaning of two configurations, in the order of the format."""
    return tuple(_Comparison(old, new).between(old, new, (), ((), ())))


class _Comparison:
    """Compares two configurations; what may be shown of them is worked out only where it is told."""

    def __init__(self, old: Config, new: Config) -> None:
        self._configs = old, new

    def between(self, old: object, new: object, path: KeyPath, places: tuple[KeyPath, KeyPath]) -> Iterator[Change]:
        """Yield the differences of two values.

        Args:
            path: Where they are, for people.
            places: Where each of them is in what may be shown.
        """
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
                    yield from self.between(before[key], after[key], at, _below(places, key, key))
        elif _are_replicas(old) and _are_replicas(new):
            yield from self._among(old, new, path, places)
        elif _are_parts(old) and _are_parts(new):
            yield from self._along(old, new, path, places)
        elif old != new:
            whole = isinstance(old, Part | Mapping) or isinstance(new, Part | Mapping)
            words = ("", "") if whole else self._words(places)
            if old is None:
                yield Change(Sort.ADDED, path, new=words[1])
            elif new is None:
                yield Change(Sort.REMOVED, path, old=words[0])
            else:
                yield Change(Sort.CHANGED, path, *words)

    def _among(
        self,
        old: tuple[Backend, ...],
        new: tuple[Backend, ...],
        path: KeyPath,
        places: tuple[KeyPath, KeyPath],
    ) -> Iterator[Change]:
        """Yield the differences of the replicas of a backend; replicas are matched by name, not by position."""
        if len(old) == len(new) == 1:
            yield from self.between(old[0], new[0], path, _below(places, 0, 0))
            return
        before = {replica_name(one): number for number, one in enumerate(old)}
        for number, one in enumerate(new):
            at = (*path, number)
            was = before.pop(replica_name(one), None)
            if was is None:
                yield Change(Sort.ADDED, at, new=_word(replica_name(one)))
            else:
                yield from self.between(old[was], one, at, _below(places, was, number))
        for name, number in before.items():
            yield Change(Sort.REMOVED, (*path, number), old=_word(name))

    def _along(
        self, old: tuple[Part, ...], new: tuple[Part, ...], path: KeyPath, places: tuple[KeyPath, KeyPath]
    ) -> Iterator[Change]:
        """Yield the differences of two lists, such as matches and tests, by position in the new one."""
        before, after = ([repr(each) for each in one] for one in (old, new))
        for _, was, end, number, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            # What stands between the same neighbours is taken for the same, changed.
            pairs = min(end - was, last - number)
            for step in range(pairs):
                at = _below(places, was + step, number + step)
                yield from self.between(old[was + step], new[number + step], (*path, number + step), at)
            for gone in range(was + pairs, end):
                yield Change(Sort.REMOVED, (*path, gone), old=self._word((*places[0], gone), 0))
            for come in range(number + pairs, last):
                yield Change(Sort.ADDED, (*path, come), new=self._word((*places[1], come), 1))

    @cached_property
    def _shown(self) -> tuple[dict[str, Any], dict[str, Any]]:
        old, new = self._configs
        return shown(old), shown(new)

    def _words(self, places: tuple[KeyPath, KeyPath]) -> tuple[str, str]:
        old, new = (self._text(place, number) for number, place in enumerate(places))
        return ("", "") if old == new else _apart(old, new)

    def _word(self, place: KeyPath, number: int) -> str:
        return _short(self._text(place, number))

    def _text(self, place: KeyPath, number: int) -> str:
        """Return the masked value at a place of the old configuration (0) or of the new one (1), whole."""
        tree: object = self._shown[number]
        found = reduce(_at, place, tree)
        if isinstance(found, dict):
            # What is not written there says nothing.
            found = {key: value for key, value in found.items() if value not in (None, {}, [])}
        return msgspec.json.encode(found).decode()


def _are_replicas(value: object) -> TypeGuard[tuple[Backend, ...]]:
    return isinstance(value, tuple) and value != () and all(isinstance(each, Backend) for each in value)


def _are_parts(value: object) -> TypeGuard[tuple[Part, ...]]:
    return isinstance(value, tuple) and value != () and all(isinstance(each, Part) for each in value)


def _members(value: Part | Mapping[str, object]) -> Mapping[str, object]:
    if isinstance(value, Part):
        return {field.alias or name: getattr(value, name) for name, field in type(value).model_fields.items()}
    return value


def _below(places: tuple[KeyPath, KeyPath], old: str | int, new: str | int) -> tuple[KeyPath, KeyPath]:
    return (*places[0], old), (*places[1], new)


def _at(tree: object, key: object) -> object:
    if isinstance(tree, list) and isinstance(key, int):
        return tree[key] if key < len(tree) else None
    return tree.get(key) if isinstance(tree, Mapping) else None


def _word(name: str) -> str:
    return _short(msgspec.json.encode(name).decode())


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two texts that differ, cut to where they do."""
    shortest = min(len(old), len(new))
    same = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    # With a little of what stands before it, so that the place is found again.
    skipped = max(same - _BEFORE, 0) if max(len(old), len(new)) > _WIDEST and same >= _WIDEST - _BEFORE else 0
    return _short(old, skipped), _short(new, skipped)


def _short(text: str, skipped: int = 0) -> str:
    text = "…" + text[skipped + 1 :] if skipped else text
    text = printable(text[: _WIDEST + 1])
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


# ---- settings that need a restart ------------------------------------------------------------------------------------


UNTIL_RESTART: Mapping[KeyPath, str] = {
    ("gateway", "listen"): "the socket is bound",
    ("gateway", "listen_grpc"): "the socket is bound",
    ("gateway", "admin"): "the socket is bound, and guarded",
    ("gateway", "http"): "the bounds are those of the socket",
    ("gateway", "grpc"): "the bounds are those of the socket",
    ("gateway", "state"): "the store is open",
    ("gateway", "ledger"): "the store is open",
    ("observe", "log"): "the log is open",
    ("observe", "audit"): "the log is open",
}
"""Settings that need a restart, and why; certificates do not, they are read again."""
_STORE: tuple[KeyPath, ...] = (("gateway", "state"), ("gateway", "ledger"))
_TLS: KeyPath = ("gateway", "tls")
_PUBLIC: KeyPath = ("gateway", "public_url")
_PUSH: tuple[KeyPath, ...] = (("push", "mode"), ("push", "sign"))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A setting that is written and waits for a restart.

    Attributes:
        why: What cannot be changed.
    """

    place: Place
    path: KeyPath
    why: str

    def __str__(self) -> str:
        place = self.place
        told = f"{spell(self.path)} takes effect with the next start: {self.why}"
        return f"{place.file}:{place.line}:{place.column}  {told}"

    def as_json(self) -> dict[str, str | int]:
        """For programs."""
        place = self.place
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "path": spell(self.path),
            "why": self.why,
        }


def until_restart(
    running: Config, written: Config, marks: Marks, *, has_store: bool = True
) -> tuple[Config, tuple[Waiting, ...]]:
    """Return the new configuration with those settings kept that need a restart, and the list of these.

    Args:
        marks: Of what is written.
        has_store: Whether a store is open; else it will be opened where the file says by then.
    """
    stay = {path: why for path, why in UNTIL_RESTART.items() if has_store or path not in _STORE}
    if (running.gateway.tls is None) != (written.gateway.tls is None):
        stay[_TLS] = "the socket is in use"
    if "relay" in (running.push.mode, written.push.mode):
        # Agents have the URLs of callbacks, and receivers the URL of the keys.
        stay |= dict.fromkeys(_PUSH, "notifications are on their way")
        stay[_PUBLIC] = "agents have been given URLs below it, for notifications"
    merged, waiting = written, []
    for path, why in stay.items():
        kept = _value(running, path)
        if kept != _value(written, path):
            merged = _with(merged, path, kept)
            waiting.append(Waiting(marks.place(path), path, why))
    return merged, tuple(waiting)


def _value(part: Part, path: KeyPath) -> object:
    value: object = part
    for step in path:
        value = getattr(value, str(step))
    return value


def _with(part: Any, path: KeyPath, value: object) -> Any:  # noqa: ANN401 - whichever part has the key
    name, *rest = path
    new = _with(getattr(part, str(name)), tuple(rest), value) if rest else value
    return part.model_copy(update={str(name): new})
