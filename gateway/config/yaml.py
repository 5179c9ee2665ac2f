"""One YAML file: plain values, the place of every key and value, and its YAML errors.

PyYAML's composer builds nodes from libyaml's events. Values are built here, because PyYAML builds YAML 1.1 and keeps
the last of duplicate keys. Anchors, aliases, merge keys and tags are refused: nothing of the format needs them
(safety B6).
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from gateway.config.files import NOTHING, stamp
from gateway.config.problem import KeyPath, Problem, is_odd, spell_key
from gateway.config.secrets import MASK, Interpolation, Span, is_reference, is_secret, is_unknown
from gateway.routing.route import Place
from gateway.telemetry.log_output import printable

LARGEST_FILE = 4 * 1024 * 1024
DEEPEST = 32

Scalar = str | int | float | bool | None
Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
"""The values that a file can contain."""

Position = tuple[str, int, int]
"""File, line and column of a `Place`, as a plain tuple: the garbage collector need not visit these."""

_SLICE = 65_536
"""Characters that are searched in one go."""
# YAML counts U+0085, U+2028 and U+2029 as line ends and editors do not, so places would be wrong.
_UNPRINTABLE = re.compile(
    "[^\\t\\n\\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_START = "start with `version: 1` and `agents:`"


@dataclass(frozen=True, slots=True)
class Marks:
    """Places in the files.

    Attributes:
        keys: Places of keys (of a list's items: of the items), by path.
        values: Places of values, by path.
        written: The text of numbers, booleans and values with references, by path.
        start: The place of everything that is not in the files.
    """

    keys: Mapping[KeyPath, Position] = field(default_factory=dict)
    values: Mapping[KeyPath, Position] = field(default_factory=dict)
    written: Mapping[KeyPath, str] = field(default_factory=dict)
    start: Place = field(default_factory=lambda: Place("<built in>", 1, 1))

    def find(self, path: KeyPath) -> KeyPath:
        """Return the nearest path in the file: short forms omit an index 0 and the keys below a text."""
        if path in self.values:
            return path
        nearest: KeyPath = ()
        for step in path:
            if (*nearest, step) in self.values:
                nearest = (*nearest, step)
            elif isinstance(step, str) or step != 0:
                break
        return nearest

    def key(self, path: KeyPath) -> Place:
        """Return the place of the key, or of the nearest one above that is in the file."""
        position = self.keys.get(self.find(path))
        return self.start if position is None else Place(*position)

    def place(self, path: KeyPath) -> Place:
        """Return the place of the value, or of the nearest one above that is in the file."""
        position = self.values.get(self.find(path))
        return self.start if position is None else Place(*position)

    def folder(self, path: KeyPath) -> Path:
        """Return the folder of the file with the value; paths in the value are relative to it."""
        return Path(self.place(path).file).parent


@dataclass(frozen=True, slots=True)
class Source:
    """One file after reading.

    Attributes:
        tree: The root mapping, or None if the file is not a mapping or not YAML.
        lines: The text, for quotes.
        spans: Secret parts of the lines; None if the text is not YAML, so that they are unknown.
        filled: The text in the file, by the value that its references gave.
        secret: The text that may be shown, by the value of a secret.
        data: The bytes of the file.
        stamp: The file's `stamp`; None if it was not read to its end.
    """

    file: str
    tree: dict[str, Value] | None
    marks: Marks
    problems: tuple[Problem, ...]
    lines: tuple[str, ...] = ()
    spans: tuple[Span, ...] | None = None
    filled: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict)
    data: bytes = b""
    stamp: bytes | None = None


def read(path: Path, interpolation: Interpolation, text: str | bytes | None = None) -> Source:
    """Read one file; mistakes in it are problems of the result.

    Args:
        path: The file; places show it as it is given.
        interpolation: Fills references in; paths of `${file:…}` are relative to the file's folder.
        text: The text of the file, if it is not to be read.
    """
    source = Source(str(path), None, Marks(start=Place(str(path), 1, 1)), (), stamp=NOTHING)
    try:
        if isinstance(text, str):
            data, is_regular = text.encode("utf-8", "replace"), True
        else:
            data, is_regular = _read_bytes(path) if text is None else (text, False)
        if len(data) > LARGEST_FILE:
            source = replace(source, stamp=None)
            fact = f"the file is larger than {LARGEST_FILE // 1024**2} MiB"
            raise _Refused(1, 1, fact, "split it with `include:`")  # noqa: TRY301 - as what it calls does
        source = replace(source, data=data, stamp=stamp(data) if is_regular else NOTHING)
        decoded = text if isinstance(text, str) else _decode(data)
        lines = tuple(_LINE_BREAK.split(decoded))
        source = replace(source, lines=lines)
        root = _compose(decoded, lines)
    except _Refused as refused:
        line, column, fact, remedy = refused.args
        return replace(source, problems=(Problem(Place(source.file, line, column), (), fact, remedy),))
    reader = _Reader(source.file, lines, path.parent, interpolation)
    tree = reader.value(root, ())
    return replace(
        source,
        tree=tree if isinstance(tree, dict) else None,
        marks=Marks(reader.keys, reader.values, reader.written, source.marks.start),
        problems=tuple(reader.problems),
        spans=tuple(reader.spans),
        filled=reader.filled,
        secret=reader.secret,
    )


class _Refused(Exception):  # noqa: N818 - it becomes a problem
    """The whole text is refused because of one place: line and column from 1, fact, remedy."""


def _read_bytes(path: Path) -> tuple[bytes, bool]:
    """Return the contents of a file, one byte beyond the bound at most, and whether it is a regular file."""
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1), stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError) as error:
        raise _Refused(1, 1, *_unreadable(error)) from error


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        raise _Refused(line, column, "this byte is not UTF-8", "save the file as UTF-8") from error


def _unreadable(error: Exception) -> tuple[str, str]:
    """Return the fact and the remedy."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "correct its name; `a2a-gateway init URL -o FILE` writes a first one"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a file", "name the file in it"
    reason = getattr(error, "strerror", None) or "its name is malformed"
    return f"the file cannot be read: {reason}", "name a file that the gateway's user can read"


# ---- nodes ---------------------------------------------------------------------------------------------------------


class _Loader(Composer, yaml.CSafeLoader):
    """Composes nodes; `tag` has their anchor, tag or alias as written: `&anchor`, `!tag`, `*alias`, or nothing."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = 0

    def compose_node(self, _parent: yaml.Node | None, _index: object) -> yaml.Node:
        """Compose the next node; an alias is not followed."""
        event: Any = self.peek_event()
        no_anchor: Any = None
        if self.check_event(yaml.AliasEvent):
            self.get_event()
            return _place_node(yaml.ScalarNode(f"*{event.anchor}", "", event.start_mark, event.end_mark))
        words = [] if event.anchor is None else [f"&{event.anchor}"]
        words += [] if event.tag is None else [_spell_tag(event.tag)]
        node: yaml.Node
        if isinstance(event, yaml.ScalarEvent):
            node = self.compose_scalar_node(no_anchor)
        else:
            # libyaml has no bound, and a deep text would exhaust the stack.
            if self._depth == DEEPEST:
                fact = f"mappings and lists nest deeper than {DEEPEST} levels"
                raise _Refused(*_position(event.start_mark), fact, "nothing of the format is that deep: flatten it")
            self._depth += 1
            is_list = isinstance(event, yaml.SequenceStartEvent)
            node = self.compose_sequence_node(no_anchor) if is_list else self.compose_mapping_node(no_anchor)
            self._depth -= 1
        node.tag = " ".join(words)
        return _place_node(node)

    def resolve(self, *_: object) -> str:
        """Resolve no tag: scalars are read by `plain`."""
        return ""


def _place_node(node: yaml.Node) -> yaml.Node:
    """Replace the marks of a node by line and column, which the garbage collector need not visit."""
    marks: Any = node
    marks.start_mark, marks.end_mark = _position(node.start_mark), _position(node.end_mark)
    return node


def _spell_tag(tag: str) -> str:
    """Return a tag as one word that starts with `!`; verbatim and percent-encoded tags can have any characters."""
    short = "".join(tag.replace("tag:yaml.org,2002:", "!!").split())
    return short if short.startswith("!") else f"!<{short}>"


def _compose(text: str, lines: Sequence[str]) -> yaml.MappingNode:
    """Return the root mapping.

    Raises:
        _Refused: The text is not one YAML mapping.
    """
    bad = _unprintable(text)
    if bad is not None:
        before = _LINE_BREAK.split(text[: bad.start()])
        fact = f"the character U+{ord(bad[0]):04X} cannot stand in the file"
        raise _Refused(len(before), len(before[-1]) + 1, fact, "remove it")
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _Refused(*_explain(error, lines)) from error
    except yaml.YAMLError as error:
        raise _Refused(1, 1, "this is no YAML", "save the file as UTF-8 text") from error
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value and not root.style):
        raise _Refused(1, 1, "the file is empty", _START)
    if not isinstance(root, yaml.MappingNode):
        raise _Refused(*_lines_of(root)[0], "the file is no mapping", _START)
    return root


def _unprintable(text: str) -> re.Match[str] | None:
    searched = (_UNPRINTABLE.search(text, start, start + _SLICE) for start in range(0, len(text), _SLICE))
    return next((found for found in searched if found is not None), None)


def _lines_of(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:  # noqa: ANN401 - its marks were replaced
    """Return line and column of the start and of the end of a placed node, from 1."""
    return node.start_mark, node.end_mark


def _position(mark: Any) -> tuple[int, int]:  # noqa: ANN401 - libyaml and PyYAML have a class each
    """Return line and column of a mark, from 1."""
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


@dataclass(slots=True)
class _Reader:
    """Turns the nodes of one text into values, places and problems."""

    file: str
    lines: Sequence[str]
    folder: Path
    interpolation: Interpolation
    keys: dict[KeyPath, Position] = field(default_factory=dict)
    values: dict[KeyPath, Position] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    filled: dict[str, str] = field(default_factory=dict)
    secret: dict[str, str] = field(default_factory=dict)

    def value(self, node: yaml.Node, path: KeyPath) -> Value:
        """Return the value of a node, and note its place and problems."""
        place = self._at(node)
        self.values[path] = place
        self.keys.setdefault(path, place)
        if node.tag:
            self._refuse_decoration(node, path)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, number)) for number, item in enumerate(node.value)]
        return self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Value]:
        mapping: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path, mapping)
            value = self.value(value_node, (*path, key))
            mapping.setdefault(key, value)
        return mapping

    def _key(self, node: yaml.Node, above: KeyPath, before: Mapping[str, Value]) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag.startswith("*"):
            what = "an alias" if isinstance(node, yaml.ScalarNode) else "a list or a mapping"
            self._problem(node, above, f"a key is {what}", "keys are text")
            return ""
        key: str = node.value
        path = (*above, key)
        if is_odd(key):
            self._hide_node(node)
        if node.tag:
            self._refuse_decoration(node, path)
        if not node.style and key == "<<":
            self._problem(node, path, "<< is a merge key", "write the keys out: merge keys are not used in this format")
        elif not node.style and not isinstance(plain(key), str):
            shown = spell_key(key) or "nothing"
            self._problem(node, path, f"the key {shown} is not text", f'keys are text; quote it: "{key}"')
        elif not node.style:
            self._refuse_surprise(node, path)
        if "${" in key:
            self._problem(node, path, "references are not filled in in keys", "write the key out")
        if key in before:
            where = f" (line {self.keys[path][1]})"
            self._problem(node, path, f"{spell_key(key)!r} is already written{where}", "keep one of the two")
        else:
            self.keys[path] = self._at(node)
        return key

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Scalar:
        text: str = node.value
        value: Scalar = text
        if "${" in text:
            value = self._filled_in(node, text, path)
        elif not node.style:
            value = plain(text)
            if isinstance(value, str):
                self._refuse_surprise(node, path)
            elif value is not None:
                self.written[path] = text
        if value is not None:
            self._hide_secret(node, text, str(value), path)
        return value

    def _filled_in(self, node: yaml.Node, text: str, path: KeyPath) -> str:
        if path[:1] == ("agents",) and path[2:4] == ("by_tenant", "*"):
            # It is filled in for each tenant (`template`).
            self.written[path] = text
            return text
        value, faults = self.interpolation.fill(text, self.folder)
        for fact, remedy in faults:
            self._problem(node, path, fact, remedy)
        self.written[path] = text
        self.filled.setdefault(value, text)
        return value

    def _hide_secret(self, node: yaml.Node, text: str, value: str, path: KeyPath) -> None:
        secret = is_secret(path, value)
        if not secret and not is_unknown(path):
            return
        shown = text if is_reference(text) else MASK
        if secret:
            self.secret[value] = shown
        if shown is not text:
            self._hide_node(node)

    def _hide_node(self, node: yaml.Node) -> None:
        """Hide a scalar in the source lines that messages quote."""
        (first, first_column), (last, last_column) = _lines_of(node)
        for line in range(first, min(last, len(self.lines)) + 1):
            start = first_column if line == first else 1
            end = last_column if line == last else len(self.lines[line - 1]) + 1
            if end > start:
                self.spans.append(Span(line, start, end))

    def _refuse_decoration(self, node: yaml.Node, path: KeyPath) -> None:
        """Refuse an anchor, a tag or an alias; a secret that starts with `&`, `!` or `*` looks like one."""
        hidden = is_secret(path) or is_unknown(path)
        if hidden:
            self._hide_node(node)
        for word in node.tag.split():
            what, remedy = _DECORATIONS[word[0]]
            self._problem(node, path, f"{'this' if hidden else printable(word)} is {what}", remedy)

    def _refuse_surprise(self, node: yaml.Node, path: KeyPath) -> None:
        found = surprise(node.value)
        if found is None:
            return
        meaning, remedy = found
        fact = f"{printable(node.value)!r} is text here and {meaning} to other YAML tools"
        self._problem(node, path, fact, remedy)

    def _problem(self, node: yaml.Node, path: KeyPath, fact: str, remedy: str) -> None:
        self.problems.append(Problem(Place(*self._at(node)), path, fact, remedy))

    def _at(self, node: yaml.Node) -> Position:
        return (self.file, *_lines_of(node)[0])


_DECORATIONS = {
    "&": ("an anchor", "remove it: anchors are not used in this format"),
    "!": ("a tag", "remove it: tags are not used in this format"),
    "*": ("an alias", "write the value out: aliases are not used in this format"),
}


# ---- scalars -------------------------------------------------------------------------------------------------------
# YAML 1.1, YAML 1.2 and the tools in use do not agree on plain words: `no` is false to some, `010` is eight, `12:30` is
# 750. Only true, false, null and decimal numbers are read; `surprise` finds the rest, so that one file means one thing.

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
_TOO_LONG = re.compile(r"[-+]?[1-9][0-9]{18,}")
_TRUE = frozenset({"y", "yes", "on", "true"})
_FALSE = frozenset({"n", "no", "off", "false"})
_NUMBER = re.compile(
    r"""
    [-+]?(?:
        0b[01_]+
      | 0o[0-7_]+
      | 0x[0-9a-fA-F_]+
      | (?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?
      | \.(?:inf|Inf|INF)
    )
    | \.(?:nan|NaN|NAN)
    """,
    re.VERBOSE,
)
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


def plain(text: str) -> Scalar:
    """Return the value of a word without quotes."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] in "+-0123456789":
        if _INT.fullmatch(text) is not None:
            return int(text)
        if _FLOAT.fullmatch(text) is not None:
            return float(text)
    return text


def surprise(text: str) -> tuple[str, str] | None:
    """Return the meaning of a plain text to other YAML tools and the remedy; None if all read it as text."""
    lower = text.lower()
    if lower in _TRUE:
        return "true", f'quote it: "{text}", or write true where that is meant'
    if lower in _FALSE:
        return "false", f'quote it: "{text}", or write false where that is meant'
    if lower == "null":
        return "no value at all", f'quote it: "{text}"'
    if text == "=":
        return "a sign of its own", f'quote it: "{text}"'
    if text[:1] in set("+-.0123456789"):
        if _TOO_LONG.fullmatch(text) is not None:
            return "a number", f'quote it: "{text}", or write a number of at most 18 digits'
        if _NUMBER.fullmatch(text) is not None:
            return "a number", f'quote it: "{text}", or write the number in plain decimal digits'
        if _BASE_60.fullmatch(text) is not None:
            return "a number of base 60", f'quote it: "{text}"'
    return None


# ---- syntax errors -------------------------------------------------------------------------------------------------

_ALIKE = "indent the keys of one mapping alike; quote values that end early"
_SYNTAX_ERRORS = (
    (
        "but found another document",
        "a second document starts here",
        "keep one document; more agents go to other files with `include:`",
    ),
    (
        "mapping values are not allowed",
        "a ': ' stands where no key can",
        "quote the value if the ': ' belongs to it; else look at the indentation",
    ),
    ("could not find expected ':'", "a key without a ':' is here", "write `key: value`, with a space behind the colon"),
    ("expected ',' or '}'", "the { of this mapping has no }", "close it, and put commas between its keys"),
    ("expected ',' or ']'", "the [ of this list has no ]", "close it, and put commas between its items"),
    (
        "did not find expected '-' indicator",
        "a list ends here in the middle",
        "start each item with '- ', all at one indentation",
    ),
    ("did not find expected key", "no key is here where one must be", _ALIKE),
    ("unexpected end of stream", "a quoted text never ends", "close the quote"),
    ("unknown escape character", "this backslash escape does not exist", "double it, or use 'single quotes'"),
    ("incompatible YAML document", "the %YAML line asks for another YAML", "remove the line"),
    ("tag", "tags are not used in this format", "remove the tag, or quote the value"),
    ("anchor", "anchors and aliases are not used in this format", "write the value out, or quote it"),
    ("alias", "anchors and aliases are not used in this format", "write the value out, or quote it"),
    ("did not find expected node content", "a value is missing here", "write one, or remove what stands before it"),
    ("block sequence entries are not allowed", "a list cannot start here", "put it on its own line, below its key"),
)
"""Parts of the messages of libyaml, with a fact and a remedy; the first that is found counts."""


def _explain(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[int, int, str, str]:
    """Return line and column (from 1), fact and remedy of a syntax error."""
    line, column = _position(error.problem_mark or error.context_mark)
    line = min(line, len(lines))
    problem = error.problem or ""
    if "cannot start any token" in problem:
        return line, column, *_odd_start(lines[line - 1][column - 1 : column])
    fact, remedy = next(
        ((fact, remedy) for part, fact, remedy in _SYNTAX_ERRORS if part in problem),
        ("this is no YAML", "look at this line and the one above"),
    )
    # In { } and [ ] a brace ends a plain word, so that ${VAR} falls apart.
    above = lines[max(line - 2, 0) : line]
    if any("${" in one and ("{" in one.replace("${", "") or "[" in one) for one in above):
        remedy = 'inside { } and [ ] a reference needs quotes: "${VAR}"'
    elif "unexpected end of stream" in problem and error.context_mark is not None:
        line, column = _position(error.context_mark)
        line, fact = min(line, len(lines)), "the quote that opens here never closes"
    return line, column, fact, remedy


def _odd_start(character: str) -> tuple[str, str]:
    if character == "\t":
        return "the line is indented with a tab", "indent with spaces"
    return f"a plain value cannot start with {character!r}", "quote the value"
