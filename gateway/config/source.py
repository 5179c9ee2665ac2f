"""The file as written: plain values, the place of every key and value, and what is wrong with it as YAML."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.config.problem import KeyPath, Problem
from gateway.config.scalar import Value
from gateway.config.secrets import Span
from gateway.routing.route import Place


@dataclass(frozen=True, slots=True)
class Marks:
    """Where everything is written.

    Attributes:
        keys: Places of keys (of a list's items: of the items), by path.
        values: Places of values, by path.
        written: How the file writes numbers, booleans and values that came by a reference, by path.
        start: The place of what is written nowhere.
    """

    keys: Mapping[KeyPath, Place] = field(default_factory=dict)
    values: Mapping[KeyPath, Place] = field(default_factory=dict)
    written: Mapping[KeyPath, str] = field(default_factory=dict)
    start: Place = field(default_factory=lambda: Place("<built in>", 1, 1))

    def find(self, path: KeyPath) -> KeyPath:
        """The nearest path that is written: short forms leave out an index 0 and the keys below a text."""
        if path in self.values:
            return path
        found: KeyPath = ()
        for step in path:
            if (*found, step) in self.values:
                found = (*found, step)
            elif isinstance(step, str) or step != 0:
                break
        return found

    def key(self, path: KeyPath) -> Place:
        """The place of the key, or of the nearest one above that is written."""
        return self.keys.get(self.find(path), self.start)

    def place(self, path: KeyPath) -> Place:
        """The place of the value, or of the nearest one above that is written."""
        return self.values.get(self.find(path), self.start)


@dataclass(frozen=True, slots=True)
class Source:
    """One file, read.

    Attributes:
        tree: The root mapping, or None where nothing could be used.
        lines: The text, for quotes.
        spans: What is secret in the lines.
        whole: Whether the text was read to its end; else `spans` is not complete.
        filled: What the file writes, by the value that it came to.
        secret: What may be shown, by the value of a secret.
        dropped: Paths whose value was refused, so that nobody calls them missing.
        data: The bytes of the file.
        stamp: What it said, as `stamp_of` gives it; None where it was not read to its end.
    """

    file: str
    tree: dict[str, Value] | None
    marks: Marks
    problems: tuple[Problem, ...]
    lines: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    whole: bool = False
    filled: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[KeyPath] = frozenset()
    data: bytes = b""
    stamp: bytes | None = None
