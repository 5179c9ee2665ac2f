"""Reads a file of the configuration: from text to a `Source`, whatever is wrong with it.

PyYAML's parser gives events; values are built here, because PyYAML builds YAML 1.1 and keeps the last of duplicate
keys. Anchors, aliases, merge keys and tags are refused: nothing of the format needs them (safety B6).

The reader is in one of three states: in a mapping before a key, in a mapping before a value, in a list. A value that
cannot be used (of a duplicate key, an alias) is read to its end and dropped, so that what follows is looked at too.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import yaml

from gateway.config.problem import KeyPath, Problem, is_odd, printable, spell_key
from gateway.config.scalar import Value, plain, surprise
from gateway.config.secrets import MASK, Interpolation, Span, is_reference, is_secret, is_unknown
from gateway.config.source import Marks, Source
from gateway.config.stamp import NOTHING, stamp
from gateway.config.syntax import explain
from gateway.routing.route import Place

LARGEST_FILE = 4 * 1024 * 1024
DEEPEST = 32
_SLICE = 65_536
"""Characters that are searched in one go."""

_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# YAML counts U+0085, U+2028 and U+2029 as line ends and editors do not: places would not be where they are said to be.
_UNPRINTABLE = re.compile(
    "[^\\t\\n\\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def read(path: Path, interpolation: Interpolation, text: str | bytes | None = None) -> Source:
    """Read one file; whatever is wrong with it is a problem of the result.

    Args:
        path: The file; places show it as it is given.
        interpolation: Fills references in; paths of `${file:…}` are relative to the file's folder.
        text: What the file says, where it is not to be read.
    """
    file = str(path)
    if isinstance(text, str):
        data = text.encode("utf-8", "replace")
        return replace(_Reader(file, text, path.parent, interpolation).source(data), stamp=stamp(data))
    try:
        data, regular = (text, False) if text is not None else _bytes(path)
    except (OSError, ValueError) as error:
        return replace(_unread(Place(file, 1, 1), *_why(error)), stamp=NOTHING)
    if len(data) > LARGEST_FILE:
        remedy = "split it with `include:`"
        return _unread(Place(file, 1, 1), f"the file is larger than {LARGEST_FILE // 1024**2} MiB", remedy)
    try:
        decoded = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        source = _unread(Place(file, line, column), "this byte is not UTF-8", "save the file as UTF-8", data)
    else:
        source = _Reader(file, decoded, path.parent, interpolation).source(data)
    return replace(source, stamp=stamp(data) if regular else NOTHING)


def _bytes(path: Path) -> tuple[bytes, bool]:
    """What a file says, one byte beyond the bound at most, and whether it is a regular one."""
    with path.open("rb") as stream:
        return stream.read(LARGEST_FILE + 1), stat.S_ISREG(os.fstat(stream.fileno()).st_mode)


def _unread(place: Place, fact: str, remedy: str, data: bytes = b"") -> Source:
    start = Place(place.file, 1, 1)
    return Source(place.file, None, Marks(start=start), (Problem(place, (), fact, remedy),), data=data)


def _why(error: Exception) -> tuple[str, str]:
    """The fact and the remedy."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "correct its name; `a2a-gateway init URL -o FILE` writes a first one"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a file", "name the file in it"
    reason = getattr(error, "strerror", None) or "its name is malformed"
    return f"the file cannot be read: {reason}", "name a file that the gateway's user can read"


class _Mark(Protocol):
    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class _Unreadable(Exception):  # noqa: N818 - it ends the reading and is told as a problem
    """Nothing behind this place can be read."""

    def __init__(self, place: Place, fact: str, remedy: str) -> None:
        super().__init__(fact)
        self.problem = Problem(place, (), fact, remedy)


@dataclass(slots=True)
class _Frame:
    """A mapping or a list that is being read.

    Attributes:
        key: The key whose value comes next, or None before a key.
        drop: Whether nothing of it is kept.
        drop_next: Whether the next value is not kept.
    """

    value: dict[str, Value] | list[Value]
    path: KeyPath
    drop: bool
    key: str | None = None
    drop_next: bool = False


class _Reader:
    """Turns the events of one text into values, places and problems."""

    def __init__(self, file: str, text: str, folder: Path, interpolation: Interpolation) -> None:
        self._file = file
        self._text = text
        self._folder = folder
        self._interpolation = interpolation
        self._lines = tuple(_lines_of(text))
        self._keys: dict[KeyPath, Place] = {}
        self._values: dict[KeyPath, Place] = {}
        self._written: dict[KeyPath, str] = {}
        self._problems: list[Problem] = []
        self._spans: list[Span] = []
        self._filled: dict[str, str] = {}
        self._secret: dict[str, str] = {}
        self._dropped: set[KeyPath] = set()
        self._stack: list[_Frame] = []
        self._root: Value = None

    def source(self, data: bytes) -> Source:
        """Read all of the text."""
        whole = False
        try:
            self._read()
            whole = True
        except _Unreadable as end:
            self._problems.append(end.problem)
        except yaml.MarkedYAMLError as error:
            line, column, fact, remedy = explain(error, self._lines)
            self._problem(Place(self._file, line, column), (), fact, remedy)
        except yaml.YAMLError:
            self._problem(Place(self._file, 1, 1), (), "this is no YAML", "save the file as UTF-8 text")
        return Source(
            file=self._file,
            tree=self._root if whole and isinstance(self._root, dict) else None,
            marks=Marks(self._keys, self._values, self._written, Place(self._file, 1, 1)),
            problems=tuple(self._problems),
            lines=self._lines,
            spans=tuple(self._spans),
            whole=whole,
            filled=self._filled,
            secret=self._secret,
            dropped=frozenset(self._dropped),
            data=data,
        )

    def _read(self) -> None:
        bad = _unprintable(self._text)
        if bad is not None:
            before = _LINE_BREAK.split(self._text[: bad.start()])
            place = Place(self._file, len(before), len(before[-1]) + 1)
            raise _Unreadable(place, f"the character U+{ord(bad[0]):04X} cannot stand in the file", "remove it")
        loader = _LOADER(self._text)
        try:
            self._follow(loader)
        finally:
            loader.dispose()
        if self._root is None:
            raise _Unreadable(Place(self._file, 1, 1), "the file is empty", "start with `version: 1` and `agents:`")
        if not isinstance(self._root, dict):
            raise _Unreadable(self._values[()], "the file is no mapping", "start with `version: 1` and `agents:`")

    def _follow(self, loader: yaml.SafeLoader) -> None:
        documents = 0
        events = _events(loader)
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._stack.pop()
            elif isinstance(event, yaml.CollectionStartEvent):
                if self._before_key():
                    self._odd_key(event, "a list or a mapping")
                    _skip(events)
                else:
                    self._open(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    remedy = "keep one document; more agents go to other files with `include:`"
                    raise _Unreadable(self._at(event), "a second document starts here", remedy)

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._stack) >= DEEPEST:
            fact = f"mappings and lists nest deeper than {DEEPEST} levels"
            raise _Unreadable(self._at(event), fact, "nothing of the format is that deep: flatten it")
        path, drop = self._next()
        self._plainly(event, event.tag, path)
        value: dict[str, Value] | list[Value] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._keep(path, event, value, drop=drop)
        self._stack.append(_Frame(value, path, drop))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._before_key():
            self._key(event)
            return
        path, drop = self._next()
        self._plainly(event, event.tag, path)
        text = event.value
        value: Value = text
        if "${" in text:
            value = self._filled_in(event, text, path)
        elif event.style is None or event.style == "":
            value = plain(text)
            if isinstance(value, str):
                self._surprise(event, text, path)
            elif value is not None:
                self._written[path] = text
        if value is not None:
            self._hide(event, text, str(value), path)
        self._keep(path, event, value, drop=drop)

    def _filled_in(self, event: yaml.ScalarEvent, text: str, path: KeyPath) -> str:
        value, faults = self._interpolation.fill(text, self._folder)
        for fact, remedy in faults:
            self._problem(self._at(event), path, fact, remedy)
        self._written[path] = text
        if faults:
            self._dropped.add(path)
        self._filled.setdefault(value, text)
        return value

    def _hide(self, event: yaml.ScalarEvent, text: str, value: str, path: KeyPath) -> None:
        secret = is_secret(path, value)
        if not secret and not is_unknown(path):
            return
        shown = text if is_reference(text) else MASK
        if secret:
            self._secret[value] = shown
        if shown is not text:
            self._cover(event)

    def _cover(self, event: yaml.NodeEvent) -> None:
        """Keep a scalar out of quotes."""
        (first, first_column), (last, last_column) = _position(event.start_mark), _position(event.end_mark)
        for line in range(first, min(last + 1, len(self._lines))):
            start = first_column if line == first else 0
            end = last_column if line == last else len(self._lines[line])
            if end > start:
                self._spans.append(Span(line + 1, start + 1, end + 1))

    def _alias(self, event: yaml.AliasEvent) -> None:
        if self._before_key():
            self._odd_key(event, "an alias")
            return
        path, _ = self._next()
        fact = f"{self._shown(event, path, f'*{event.anchor}')} is an alias"
        self._problem(self._at(event), path, fact, "write the value out: aliases are not used in this format")
        self._dropped.add(path)
        if self._stack:
            self._stack[-1].key = None
            if isinstance(self._stack[-1].value, list):
                self._dropped.add(self._stack[-1].path)

    # ---- keys --------------------------------------------------------------------------------------------------------

    def _before_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].key is None and isinstance(self._stack[-1].value, dict)

    def _key(self, event: yaml.ScalarEvent) -> None:
        frame = self._stack[-1]
        key = event.value
        path = (*frame.path, key)
        frame.key = key
        if is_odd(key):
            self._cover(event)
        self._plainly(event, event.tag, path)
        if not event.style:
            if key == "<<":
                remedy = "write the keys out: merge keys are not used in this format"
                self._problem(self._at(event), path, "<< is a merge key", remedy)
                frame.drop_next = True
                return
            if not isinstance(plain(key), str):
                shown = spell_key(key) or "nothing"
                self._problem(
                    self._at(event), path, f"the key {shown} is not text", f'keys are text; quote it: "{key}"'
                )
            else:
                self._surprise(event, key, path)
        if "${" in key:
            self._problem(self._at(event), path, "references are not filled in in keys", "write the key out")
        if isinstance(frame.value, dict) and key in frame.value:
            first = self._keys.get(path)
            where = "" if first is None else f" (line {first.line})"
            self._problem(self._at(event), path, f"{spell_key(key)!r} is already written{where}", "keep one of the two")
            frame.drop_next = True
        elif not frame.drop:
            self._keys[path] = self._at(event)

    def _odd_key(self, event: yaml.Event, what: str) -> None:
        frame = self._stack[-1]
        self._problem(self._at(event), frame.path, f"a key is {what}", "keys are text")
        frame.key, frame.drop_next = "", True

    # ---- what they share ---------------------------------------------------------------------------------------------

    def _next(self) -> tuple[KeyPath, bool]:
        """The path of the value that comes now, and whether it is dropped; the frame moves on."""
        if not self._stack:
            return (), False
        frame = self._stack[-1]
        drop = frame.drop or frame.drop_next
        frame.drop_next = False
        if isinstance(frame.value, list):
            return (*frame.path, len(frame.value)), drop
        return (*frame.path, frame.key or ""), drop

    def _keep(self, path: KeyPath, event: yaml.Event, value: Value, *, drop: bool) -> None:
        frame = self._stack[-1] if self._stack else None
        if not drop:
            place = self._at(event)
            self._values[path] = place
            self._keys.setdefault(path, place)
        if frame is None:
            self._root = value
        elif isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is not None and (frame.drop or not drop):
            frame.value[frame.key] = value
        if frame is not None:
            frame.key = None

    def _plainly(self, event: yaml.NodeEvent, tag: str | None, path: KeyPath) -> None:
        if event.anchor is not None:
            remedy = "remove it: anchors are not used in this format"
            fact = f"{self._shown(event, path, f'&{event.anchor}')} is an anchor"
            self._problem(self._at(event), path, fact, remedy)
        if tag is not None:
            fact = f"{self._shown(event, path, tag.replace('tag:yaml.org,2002:', '!!'))} is a tag"
            self._problem(self._at(event), path, fact, "remove it: tags are not used in this format")

    def _shown(self, event: yaml.NodeEvent, path: KeyPath, text: str) -> str:
        """A decoration as a message shows it; a secret that starts with `&`, `*` or `!` looks like one."""
        if is_secret(path) or is_unknown(path):
            self._cover(event)
            return "this"
        return printable(text)

    def _surprise(self, event: yaml.ScalarEvent, text: str, path: KeyPath) -> None:
        told = surprise(text)
        if told is not None:
            fact = f"{printable(text)!r} is text here and {told[0]} to other YAML tools"
            self._problem(self._at(event), path, fact, told[1])

    def _problem(self, place: Place, path: KeyPath, fact: str, remedy: str) -> None:
        self._problems.append(Problem(place, path, fact, remedy))

    def _at(self, event: yaml.Event) -> Place:
        line, column = _position(event.start_mark)
        return Place(self._file, line + 1, column + 1)


def _lines_of(text: str) -> Iterator[str]:
    start = 0
    for found in _LINE_BREAK.finditer(text):
        yield text[start : found.start()]
        start = found.end()
    yield text[start:]


def _unprintable(text: str) -> re.Match[str] | None:
    searched = (_UNPRINTABLE.search(text, start, start + _SLICE) for start in range(0, len(text), _SLICE))
    return next((found for found in searched if found is not None), None)


def _events(loader: yaml.SafeLoader) -> Iterator[yaml.Event]:
    while loader.check_event():
        yield loader.get_event()  # type: ignore[no-untyped-call]  # PyYAML's stubs give it no type


def _skip(events: Iterator[yaml.Event]) -> None:
    """Read to the end of the list or mapping that has just started."""
    depth = 1
    while depth:
        event = next(events)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _position(mark: _Mark | None) -> tuple[int, int]:
    """Line and column of a mark, from 0."""
    return (0, 0) if mark is None else (mark.line, mark.column)
