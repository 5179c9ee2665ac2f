"""Differences of two configurations, key by key without secrets, and settings that need a restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any, TypeGuard, TypeVar

import msgspec
from pydantic_core import to_jsonable_python

from gateway.config.agent import Backend, replica_name
from gateway.config.model import Config
from gateway.config.problem import KeyPath, place_as_json, spell
from gateway.config.secrets import MASK
from gateway.config.values import Part
from gateway.config.yaml import Marks
from gateway.routing.route import Place
from gateway.tasks.state_url import StateUrl
from gateway.telemetry.log_output import printable

# ---- differences -----------------------------------------------------------------------------------------------------

P = TypeVar("P", bound=Part)

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
        old, new: The visible parts of the two values, as JSON; empty if the path says enough, or if they are secret and
            so look alike.
    """

    sort: Sort
    path: KeyPath
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        sign = {Sort.ADDED: "+", Sort.REMOVED: "-", Sort.CHANGED: "~"}[self.sort]
        values = " → ".join(each for each in (self.old, self.new) if each or self.sort is Sort.CHANGED)
        return f"{sign} {spell(self.path)}" + (f": {values}" if self.old or self.new else "")

    def as_json(self) -> dict[str, str]:
        """For programs."""
        return {"change": self.sort.value, "path": spell(self.path), "old": self.old, "new": self.new}


def changes(old: Config, new: Config) -> tuple[Change, ...]:
    """Return the differences in meaning of two configurations, in the order of the format."""
    return tuple(_between(old, new, ()))


def _between(old: object, new: object, path: KeyPath) -> Iterator[Change]:
    # The values themselves are compared, and not their masked forms: another secret is a change.
    if isinstance(old, Part | Mapping) and isinstance(new, Part | Mapping):
        before, after = _by_key(old), _by_key(new)
        for key in dict.fromkeys((*before, *after)):
            at = (*path, key)
            if key not in before:
                yield Change(Sort.ADDED, at)
            elif key not in after:
                yield Change(Sort.REMOVED, at)
            else:
                yield from _between(before[key], after[key], at)
    elif _is_tuple_of(old, Backend) and _is_tuple_of(new, Backend):
        yield from _between_replicas(old, new, path)
    elif _is_tuple_of(old, Part) and _is_tuple_of(new, Part):
        yield from _between_lists(old, new, path)
    elif old != new:
        whole = isinstance(old, Part | Mapping) or isinstance(new, Part | Mapping)
        words = ("", "") if whole else _cut_alike(_text(old, path), _text(new, path))
        if old is None:
            yield Change(Sort.ADDED, path, new=words[1])
        elif new is None:
            yield Change(Sort.REMOVED, path, old=words[0])
        else:
            yield Change(Sort.CHANGED, path, *words)


def _between_replicas(old: tuple[Backend, ...], new: tuple[Backend, ...], path: KeyPath) -> Iterator[Change]:
    """Yield the differences of the replicas of a backend, matched by name."""
    if len(old) == len(new) == 1:
        yield from _between(old[0], new[0], path)
        return
    before = {replica_name(one): number for number, one in enumerate(old)}
    for number, one in enumerate(new):
        at = (*path, number)
        was = before.pop(replica_name(one), None)
        if was is None:
            yield Change(Sort.ADDED, at, new=_short(_text(replica_name(one), at)))
        else:
            yield from _between(old[was], one, at)
    for name, number in before.items():
        yield Change(Sort.REMOVED, (*path, number), old=_short(_text(name, path)))


def _between_lists(old: tuple[Part, ...], new: tuple[Part, ...], path: KeyPath) -> Iterator[Change]:
    """Yield the differences of two lists, such as matches and tests, by position in the new one."""
    before, after = ([repr(each) for each in one] for one in (old, new))
    for _, was, end, number, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        # Items between the same neighbours are one item that has changed.
        pairs = min(end - was, last - number)
        for step in range(pairs):
            yield from _between(old[was + step], new[number + step], (*path, number + step))
        for gone in range(was + pairs, end):
            yield Change(Sort.REMOVED, (*path, gone), old=_short(_text(old[gone], path)))
        for come in range(number + pairs, last):
            yield Change(Sort.ADDED, (*path, come), new=_short(_text(new[come], path)))


def _text(value: object, path: KeyPath) -> str:
    """Return a value as JSON, without credentials and hashes of keys."""
    shown: Any
    if isinstance(value, StateUrl):
        shown = value.label
    elif isinstance(value, tuple) and path[-1:] == ("sha256",):
        shown = [MASK for _ in value]
    else:
        # The name of a header that is turned off is empty.
        shown = to_jsonable_python(value, by_alias=True) if value != "" else None
    if isinstance(shown, dict):
        shown = {key: each for key, each in shown.items() if each not in (None, {}, [])}
    return msgspec.json.encode(shown).decode()


def _is_tuple_of(value: object, kind: type[P]) -> TypeGuard[tuple[P, ...]]:
    return isinstance(value, tuple) and value != () and all(isinstance(each, kind) for each in value)


def _by_key(value: Part | Mapping[str, object]) -> Mapping[str, object]:
    if isinstance(value, Part):
        return {field.alias or name: getattr(value, name) for name, field in type(value).model_fields.items()}
    return value


def _cut_alike(old: str, new: str) -> tuple[str, str]:
    """Return two texts, cut to where they differ; empty texts if they look alike."""
    if old == new:
        return "", ""
    shortest = min(len(old), len(new))
    same = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    # A part of the common beginning stays, to show the place.
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
    ("gateway", "socket_mode"): "the socket is bound",
    ("gateway", "proxy_protocol"): "the socket is in use",
    ("gateway", "admin"): "the socket is bound, and guarded",
    ("gateway", "http"): "the bounds are those of the socket",
    ("gateway", "grpc"): "the bounds are those of the socket",
    ("gateway", "state"): "the store is open",
    ("gateway", "ledger"): "the store is open",
    ("observe", "log"): "the log is open",
    ("observe", "audit"): "the log is open",
    ("observe", "metrics", "buckets"): "histograms keep their buckets",
}
"""Settings that need a restart, and why; certificates are reloaded without one."""
_STORE: tuple[KeyPath, ...] = (("gateway", "state"), ("gateway", "ledger"))
_TLS: KeyPath = ("gateway", "tls")
_PUBLIC: KeyPath = ("gateway", "public_url")
_PUSH: tuple[KeyPath, ...] = (("push", "mode"), ("push", "sign"))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A setting that is written and waits for a restart.

    Attributes:
        why: The reason why it cannot be changed.
    """

    place: Place
    path: KeyPath
    why: str

    def __str__(self) -> str:
        return f"{self.place.exact}  {spell(self.path)} takes effect with the next start: {self.why}"

    def as_json(self) -> dict[str, str | int]:
        """For programs."""
        return {**place_as_json(self.place, self.path), "why": self.why}


def until_restart(
    running: Config, written: Config, marks: Marks, *, has_store: bool = True
) -> tuple[Config, tuple[Waiting, ...]]:
    """Return the new configuration with those settings kept that need a restart, and the list of these.

    Args:
        marks: Of what is written.
        has_store: Whether a store is open; otherwise a later configuration can still name another store.
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
        kept = _value_at(running, path)
        if kept != _value_at(written, path):
            merged = _replaced(merged, path, kept)
            waiting.append(Waiting(marks.place(path), path, why))
    return merged, tuple(waiting)


def _value_at(part: Part, path: KeyPath) -> object:
    value: object = part
    for step in path:
        value = getattr(value, str(step))
    return value


def _replaced(part: Any, path: KeyPath, value: object) -> Any:  # noqa: ANN401 - whichever part has the key
    name, *rest = path
    new = _replaced(getattr(part, str(name)), tuple(rest), value) if rest else value
    return part.model_copy(update={str(name): new})
