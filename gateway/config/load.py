"""From files to a `Config`: syntax, then schema. Each pass reports all of its mistakes; the next one needs it clean.

The third pass, meaning, is `check.examine`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config.files import NOTHING, matching, stamp
from gateway.config.model import Config, description, model_at, removed
from gateway.config.outside import overlaid, unknown
from gateway.config.problem import KeyPath, Problem, in_order, nearest, spell_key
from gateway.config.secrets import LARGEST_VALUE, Interpolation, Masks, Span, guess, is_secret, quote
from gateway.config.template import expanded
from gateway.config.yaml import Marks, Position, Source, Value, read
from gateway.routing.route import Place
from gateway.telemetry.log_output import printable

_MOST_FILES = 1000
_MOST_ERRORS = 1000
"""Reported at once; the next run reports the rest."""
_INCLUDED = ("version", "agents")


@dataclass(frozen=True, slots=True)
class Examined:
    """A configuration with all that was found out about it.

    Attributes:
        config: The configuration, or None if there is an error.
        problems: Errors and warnings by place, secrets masked.
        marks: The places of the configuration.
        text_hash: SHA-256 over all files read, in hex; once stamped, over the files that it names, too.
        files: All files read, those of `${file:…}` too.
        stamps: The `stamp` of each file that was read to its end, and once stamped of each file that it names.
        unmatched: Patterns of `include:` that matched no file, or that could not be resolved.
        unavailable: Why the credential of a tenant's backend cannot be read, by the path of the backend.
        failed: Routing tests that failed, by place; `check` does not pass and `serve` does not start with one.
        tree: The merged content of the files, references filled in; none once the meaning was checked.
        sources: The files; none once the meaning was checked.
    """

    config: Config | None = None
    problems: tuple[Problem, ...] = ()
    marks: Marks = field(default_factory=Marks)
    text_hash: str = ""
    files: tuple[Path, ...] = ()
    stamps: Mapping[Path, bytes] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    unavailable: Mapping[KeyPath, str] = field(default_factory=dict)
    failed: tuple[Problem, ...] = ()
    tree: Mapping[str, Value] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems because of which the configuration cannot be used."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The other problems."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def load(path: Path, environ: Mapping[str, str], text: str | bytes | None = None) -> Examined:
    """Read a configuration; mistakes in it are problems of the result.

    Args:
        path: The main file.
        environ: The environment, for `${VAR}` and the settings of `outside`.
        text: The text of the main file, if it is not to be read. A `str`, which the program itself wrote, has no
            settings from outside.
    """
    interpolation = Interpolation(environ)
    main = read(path, interpolation, text)
    problems: list[Problem] = []
    unmatched: list[str] = []
    paths = [path, *_included(path, main, problems, unmatched)]
    sources = (main, *(read(included, interpolation) for included in paths[1:]))
    tree: dict[str, Value] = {} if main.tree is None else main.tree
    marks = _merged(tree, sources, problems)
    problems += [problem for source in sources for problem in source.problems]
    if not isinstance(text, str):
        marks = overlaid(tree, marks, environ)
        problems += unknown(environ, frozenset(interpolation.used))
    templates = expanded(tree, marks, interpolation)
    marks = templates.marks
    problems += templates.problems
    stamps = dict.fromkeys(interpolation.absent, NOTHING)
    stamps |= {file: stamp(data) for file, data in interpolation.files.items() if len(data) <= LARGEST_VALUE}
    stamps |= {file: own.stamp for file, own in zip(paths, sources, strict=True) if own.stamp is not None}
    config = None
    if not any(problem.severity == "error" for problem in problems):
        config, more = _validated(tree, marks)
        problems += more
    return Examined(
        config=config,
        marks=marks,
        problems=dress(problems, (*sources, templates.source)),
        text_hash=stamp(b"".join(map(stamp, (*(each.data for each in sources), *interpolation.files.values())))).hex(),
        files=(*paths, *interpolation.files),
        stamps=stamps,
        unmatched=tuple(unmatched),
        tree=tree,
        sources=(*sources, templates.source),
        unavailable=templates.unavailable,
    )


def dress(problems: Iterable[Problem], sources: Sequence[Source]) -> tuple[Problem, ...]:
    """Return the problems by place, each with its source line, secrets masked."""
    masks = Masks(
        {value: text for source in sources for value, text in source.filled.items()},
        {value: text for source in sources for value, text in source.secret.items()},
    )
    by_file = {source.file: source for source in sources}
    spans: dict[tuple[str, int], list[Span]] = {}
    for source in sources:
        for span in source.spans or ():
            spans.setdefault((source.file, span.line), []).append(span)
    dressed = (
        _dressed(
            problem, by_file.get(problem.place.file), masks, spans.get((problem.place.file, problem.place.line), [])
        )
        for problem in problems
    )
    return in_order(dressed, list(by_file))


def _dressed(problem: Problem, source: Source | None, masks: Masks, spans: Sequence[Span]) -> Problem:
    clean = replace(problem, fact=masks.clean(problem.fact), remedy=masks.clean(problem.remedy))
    line = problem.place.line
    if source is None or line > len(source.lines):
        return clean
    hidden = guess(source.lines, line) if source.spans is None else spans
    text, caret = quote(source.lines[line - 1], problem.place.column, hidden)
    return replace(clean, quote=text, caret=caret)


# ---- include -------------------------------------------------------------------------------------------------------


def _included(path: Path, main: Source, problems: list[Problem], unmatched: list[str]) -> list[Path]:
    """Return the files that `include:` names, in order, each once."""
    patterns = None if main.tree is None else main.tree.get("include")
    several = patterns if isinstance(patterns, list) else [patterns]
    refused = {problem.path for problem in main.problems}
    included: dict[Path, None] = {}
    for number, pattern in enumerate(several):
        at: KeyPath = ("include", number)
        place, where = main.marks.place(at), main.marks.find(at)
        if not isinstance(pattern, str) or where in refused:
            continue
        try:
            files = matching(pattern, path.parent)
        except OSError as error:
            fact = f"files of {pattern!r} cannot be read: {error.filename}: {error.strerror}"
            problems.append(Problem(place, where, fact, "let the gateway read that, or make the pattern more exact"))
            unmatched.append(pattern)
            continue
        except ValueError:
            files = []
        if not files:
            fact = f"{pattern!r} matches no file"
            problems.append(Problem(place, where, fact, f"correct it: it is relative to {path.parent}"))
            unmatched.append(pattern)
        if any(file.resolve() == path.resolve() for file in files):
            problems.append(Problem(place, where, f"{pattern!r} matches this file itself", "make it more exact"))
            files = [file for file in files if file.resolve() != path.resolve()]
        included |= dict.fromkeys(files)
        if len(included) > _MOST_FILES:
            problems.append(Problem(place, where, f"more than {_MOST_FILES} files match", "put agents together"))
            return []
    return list(included)


def _merged(tree: dict[str, Value], sources: Sequence[Source], problems: list[Problem]) -> Marks:
    """Put the agents of the included files into the tree, and return the places of all files."""
    main = sources[0].marks
    if len(sources) == 1:
        return main
    keys, values, written = dict(main.keys), dict(main.values), dict(main.written)
    agents = tree.setdefault("agents", {})
    for source in sources[1:]:
        problems += _check_has_agents_only(source)
        own = None if source.tree is None else source.tree.get("agents")
        if not isinstance(agents, dict) or not isinstance(own, dict):
            continue
        new = {name: agent for name, agent in own.items() if name not in agents}
        for name in own.keys() - new.keys():
            path: KeyPath = ("agents", name)
            fact = f"'{name}' is already an agent at {Place(*keys[path])}"
            problems.append(Problem(source.marks.key(path), path, fact, "give one of them another name"))
        agents.update(new)
        for into, own_marks in ((keys, source.marks.keys), (values, source.marks.values)):
            into.update(_places_of_agents(own_marks, new))
        written.update({path: text for path, text in source.marks.written.items() if path[1:2] and path[1] in new})
    return Marks(keys, values, written, main.start)


def _places_of_agents(places: Mapping[KeyPath, Position], names: Mapping[str, Value]) -> dict[KeyPath, Position]:
    return {path: place for path, place in places.items() if path[:1] == ("agents",) and path[1:2] and path[1] in names}


def _check_has_agents_only(source: Source) -> Iterator[Problem]:
    for key, value in ({} if source.tree is None else source.tree).items():
        path: KeyPath = (key,)
        place, at_key = source.marks.place(path), source.marks.key(path)
        if key == "include":
            remedy = "name all files in the main file's `include:`"
            yield Problem(at_key, path, "an included file includes no other", remedy)
        elif key not in _INCLUDED:
            remedy = "included files have `agents:` only; move it to the main file"
            yield Problem(at_key, path, f"`{key}` stands in an included file", remedy)
        elif key == "version" and (isinstance(value, bool | float) or value not in (1, "1")):
            yield Problem(place, path, "this version of the format is not known", "write version: 1")
        elif key == "agents" and not isinstance(value, dict):
            yield Problem(place, path, "the agents are no mapping", "write `name: URL` pairs below it")


# ---- schema --------------------------------------------------------------------------------------------------------


def _validated(tree: dict[str, Value], marks: Marks) -> tuple[Config | None, list[Problem]]:
    """Return the configuration, or every mistake that the models find."""
    problems = [
        Problem(marks.key(path), path, "there is no value", "write one, or remove the key")
        for path in _missing_values(tree, ())
    ]
    try:
        config = Config.model_validate(tree)
    except ValidationError as refused:
        paths = {problem.path for problem in problems}
        found = [_explained(error, marks) for error in refused.errors(include_url=False)[:_MOST_ERRORS]]
        problems += [problem for problem in found if problem.path not in paths]
        return None, problems
    return None if problems else config, problems


def _missing_values(value: Value, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of keys without a value, except those that may have none."""
    if isinstance(value, dict):
        for key, below in value.items():
            if below is None and not _may_have_no_value(path):
                yield (*path, key)
            elif (*path, key)[2:] != ("card", "set"):
                yield from _missing_values(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            if below is None:
                yield (*path, index)
            else:
                yield from _missing_values(below, (*path, index))


def _may_have_no_value(path: KeyPath) -> bool:
    """Return whether keys of the mapping may have no value.

    A tenant without one has no rights, and a header that names the caller is turned off. A card's own may be null, too.
    """
    own = path[2:] if path[:1] == ("agents",) else path[1:] if path[:1] == ("defaults",) else ()
    return path == ("tenants",) or own == ("identity_headers",)


# ---- errors of the models --------------------------------------------------------------------------------------------

_EXPECTED: Mapping[str, tuple[str, str]] = {
    "dict_type": ("is no mapping", "write `key: value` pairs below it"),
    "model_type": ("is no mapping", "write `key: value` pairs below it"),
    "model_attributes_type": ("is no mapping", "write `key: value` pairs below it"),
    "tuple_type": ("is no list", "write [one, two]"),
    "list_type": ("is no list", "write [one, two]"),
}
_NOT_VALID = ("is not valid here", "correct it")
_TEXT = frozenset({"string_type", "string_sub_type"})


def _explained(error: ErrorDetails, marks: Marks) -> Problem:
    """Return the problem for a validation error."""
    kind = error["type"]
    at_key = error["loc"][-1:] == ("[key]",)
    loc: KeyPath = error["loc"][:-1] if at_key else error["loc"]
    path = marks.find(loc)
    gone = removed(path) if kind == "extra_forbidden" else None
    if gone is not None:
        return Problem(marks.key(path), path, gone.fact, gone.remedy)
    if kind == "extra_forbidden":
        return Problem(marks.key(path), path, f"unknown key {spell_key(str(loc[-1]))!r}", _known_keys(loc))
    if kind == "missing":
        name = str(loc[-1])
        path = marks.find(loc[:-1])
        return Problem(
            marks.key(path),
            path,
            f"`{name}` is missing",
            "add `version: 1`" if name == "version" else f"add `{name}:`{_description_of(loc)}",
        )
    place = marks.key(path) if at_key else marks.place(path)
    shown = _value_as_written(error["input"], path, marks)
    if at_key:
        shown = f"'{spell_key(str(loc[-1]))}'" if loc else "the key"
    if kind in _EXPECTED:
        fact, remedy = _EXPECTED[kind]
        return Problem(place, path, f"{shown} {fact}", _expected_keys(loc) or remedy)
    if kind in _TEXT:
        return Problem(place, path, f"{shown} is no text", _text_remedy(error["input"], path, marks))
    if kind in ("literal_error", "enum"):
        choices = str(error.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
        if ", " not in choices:
            return Problem(place, path, f"{shown} is not {choices.lower()}", f"write {choices.lower()}")
        close = nearest(str(error["input"]), choices.split(", "))
        return Problem(place, path, f"{shown} is none of: {choices}", close or f"write one of: {choices}")
    if kind == "value_error":
        cause = error.get("ctx", {}).get("error")
        fact, remedy, *choices_of = cause.args if isinstance(cause, ValueError) and len(cause.args) > 1 else _NOT_VALID
        remedy = nearest(str(error["input"]), choices_of) or remedy
        subject = "this" if isinstance(error["input"], dict | list | tuple) else shown
        return Problem(place, path, f"{subject} {fact}", remedy)
    return Problem(place, path, f"{shown} is not valid here", _description_of(loc).strip(" ()") or "correct it")


def _value_as_written(value: object, path: KeyPath, marks: Marks) -> str:
    """Return a value as a message shows it: as it is written, and never a secret."""
    if is_secret(path, value if isinstance(value, str) else None) and not isinstance(value, dict | list | tuple):
        return "the value"
    written = marks.written.get(path)
    if written is not None:
        return f"'{printable(written)}'" if "${" in written else printable(written)
    if isinstance(value, str):
        return f"'{printable(value)}'" if value else "an empty text"
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else "the value"


def _text_remedy(value: object, path: KeyPath, marks: Marks) -> str:
    if isinstance(value, dict | list | tuple):
        return "write one text" + _description_of(path)
    written = marks.written.get(path)
    return "quote it" if written is None or is_secret(path) else f'quote it: "{written}"'


def _known_keys(loc: KeyPath) -> str:
    model = model_at(loc[:-1])
    if model is None:
        return "remove it"
    keys = list(model.model_fields)
    return nearest(str(loc[-1]), keys) or f"keys here are: {', '.join(keys)}"


def _expected_keys(loc: KeyPath) -> str:
    model = model_at(loc)
    return "" if model is None else f"write a mapping with the keys {', '.join(model.model_fields)}"


def _description_of(loc: KeyPath) -> str:
    """Return the description of a key, in brackets."""
    model = model_at(loc[:-1])
    text = "" if model is None else " ".join(description(model, str(loc[-1])).split())
    return f" ({text.rstrip('.')})" if text else ""
