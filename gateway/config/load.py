"""From files to a `Config`: read, merge, take out what is not built, validate; every problem in one pass.

Theory. One broken value must not hide what is wrong elsewhere. So when the models refuse something, it is cut out of
the tree and the rest is validated again, until something is left that stands: the *draft*. The draft is only ever
looked at for more problems; a configuration with an error is never used.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from gateway.config.inclusion import matching
from gateway.config.model import Config
from gateway.config.problem import KeyPath, Problem, in_order
from gateway.config.reader import read
from gateway.config.scalar import Value
from gateway.config.secrets import LARGEST_VALUE, Interpolation, Masks, Span, guess, quote
from gateway.config.source import Marks, Source
from gateway.config.stamp import NOTHING, stamp
from gateway.config.unbuilt import take_out
from gateway.config.wording import explain
from gateway.routing.route import Place

_MOST_FILES = 1000
_MOST_ROUNDS = 25
_MOST_ERRORS = 1000
"""Told at once; the next run tells the rest."""
_INCLUDED = ("version", "agents")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the files say.

    Attributes:
        config: The configuration, or None where there is an error.
        draft: What stands of it, for further checks only; None where nothing does.
        problems: By place; secrets masked.
        text_hash: SHA-256 over all files read, in hex.
        files: All files read, those of `${file:…}` too.
        stamps: What they said, as `stamp_of` gives it; not of those that were not read to their end.
        unmatched: Patterns of `include:` that match no file, or of which that cannot be found out.
        written: The tree as the files write it, references filled in.
        broken: Written paths that a problem is about.
    """

    config: Config | None
    draft: Config | None
    marks: Marks
    problems: tuple[Problem, ...]
    text_hash: str
    files: tuple[Path, ...]
    stamps: Mapping[Path, bytes]
    unmatched: tuple[str, ...]
    written: Mapping[str, Value]
    broken: frozenset[KeyPath]
    sources: tuple[Source, ...]


def load(path: Path, environ: Mapping[str, str], text: str | bytes | None = None) -> Loaded:
    """Read a configuration; nothing that is wrong with it is raised.

    Args:
        path: The main file.
        environ: What `${VAR}` is filled in from.
        text: What the main file says, where it is not to be read.
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
    written = {key: _copied(value) for key, value in tree.items()}
    draft, broken = None, frozenset[KeyPath]()
    if main.tree is not None:
        cutter = _Cutter(tree, marks, problems, {path for source in sources for path in source.dropped})
        draft, broken = cutter.draft(), frozenset(cutter.broken)
    return Loaded(
        config=None if any(problem.severity == "error" for problem in problems) else draft,
        draft=draft,
        marks=marks,
        problems=dress(problems, sources),
        text_hash=_hash([*(source.data for source in sources), *interpolation.files.values()]),
        files=(*paths, *interpolation.files),
        stamps=_stamps(paths, sources, interpolation),
        unmatched=tuple(unmatched),
        written=written,
        broken=broken,
        sources=sources,
    )


def dress(problems: Iterable[Problem], sources: Sequence[Source]) -> tuple[Problem, ...]:
    """The problems by place, each with its source line, secrets masked."""
    masks = Masks(
        {value: text for source in sources for value, text in source.filled.items()},
        {value: text for source in sources for value, text in source.secret.items()},
    )
    by_file = {source.file: source for source in sources}
    spans: dict[tuple[str, int], list[Span]] = {}
    for source in sources:
        for span in source.spans:
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
    text, caret = quote(
        source.lines[line - 1], problem.place.column, spans if source.whole else guess(source.lines, line)
    )
    return replace(clean, quote=text, caret=caret)


def _copied(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _copied(below) for key, below in value.items()}
    return [_copied(below) for below in value] if isinstance(value, list) else value


def _hash(files: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for data in files:
        whole.update(hashlib.sha256(data).digest())
    return whole.hexdigest()


def _stamps(paths: Sequence[Path], sources: Sequence[Source], interpolation: Interpolation) -> dict[Path, bytes]:
    own = {path: source.stamp for path, source in zip(paths, sources, strict=True) if source.stamp is not None}
    read = {path: stamp(data) for path, data in interpolation.files.items() if len(data) <= LARGEST_VALUE}
    return dict.fromkeys(interpolation.absent, NOTHING) | read | own


# ---- include -------------------------------------------------------------------------------------------------------


def _included(path: Path, main: Source, problems: list[Problem], unmatched: list[str]) -> list[Path]:
    """The files that `include:` names, in order, each once."""
    patterns = None if main.tree is None else main.tree.get("include")
    several = patterns if isinstance(patterns, list) else [patterns]
    found: dict[Path, None] = {}
    for number, pattern in enumerate(several):
        at: KeyPath = ("include", number)
        if not isinstance(pattern, str) or main.marks.find(at) in main.dropped:
            continue
        place, where = main.marks.place(at), main.marks.find(at)
        try:
            files = matching(pattern, path.parent)
        except OSError as error:
            fact = f"what {pattern!r} matches cannot be read: {error.filename}: {error.strerror}"
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
        found |= dict.fromkeys(files)
        if len(found) > _MOST_FILES:
            problems.append(Problem(place, where, f"more than {_MOST_FILES} files match", "put agents together"))
            return []
    return list(found)


def _merged(tree: dict[str, Value], sources: Sequence[Source], problems: list[Problem]) -> Marks:
    """Put the agents of the included files into the tree, and their places beside the others."""
    main = sources[0].marks
    if len(sources) == 1:
        return main
    keys, values, written = dict(main.keys), dict(main.values), dict(main.written)
    agents = tree.setdefault("agents", {})
    for source in sources[1:]:
        problems += _only_agents(source)
        own = None if source.tree is None else source.tree.get("agents")
        if not isinstance(agents, dict) or not isinstance(own, dict):
            continue
        new = {name: agent for name, agent in own.items() if name not in agents}
        for name in own.keys() - new.keys():
            path: KeyPath = ("agents", name)
            fact = f"'{name}' is already an agent at {keys.get(path, main.start)}"
            problems.append(Problem(source.marks.key(path), path, fact, "give one of them another name"))
        agents.update(new)
        for into, own_marks in ((keys, source.marks.keys), (values, source.marks.values)):
            into.update(_of_agents(own_marks, new))
        written.update({path: text for path, text in source.marks.written.items() if path[1:2] and path[1] in new})
    return Marks(keys, values, written, main.start)


def _of_agents(places: Mapping[KeyPath, Place], names: Mapping[str, Value]) -> dict[KeyPath, Place]:
    return {path: place for path, place in places.items() if path[:1] == ("agents",) and path[1:2] and path[1] in names}


def _only_agents(source: Source) -> Iterator[Problem]:
    for key, value in ({} if source.tree is None else source.tree).items():
        path: KeyPath = (key,)
        if key == "include":
            remedy = "name all files in the main file's `include:`"
            yield Problem(source.marks.key(path), path, "an included file includes no other", remedy)
        elif key not in _INCLUDED:
            fact = f"`{key}` stands in an included file"
            yield Problem(
                source.marks.key(path), path, fact, "included files have `agents:` only; move it to the main file"
            )
        elif key == "version" and (isinstance(value, bool | float) or value not in (1, "1")):
            yield Problem(source.marks.place(path), path, "this version of the format is not known", "write version: 1")
        elif key == "agents" and not isinstance(value, dict):
            yield Problem(
                source.marks.place(path), path, "the agents are no mapping", "write `name: URL` pairs below it"
            )


# ---- validate ------------------------------------------------------------------------------------------------------


class _Cutter:
    """Validates a tree, and cuts out what is refused until the rest stands.

    Attributes:
        broken: Paths that a problem is about.
    """

    def __init__(self, tree: dict[str, Value], marks: Marks, problems: list[Problem], dropped: set[KeyPath]) -> None:
        self._tree = tree
        self._marks = marks
        self._problems = problems
        # With all that stands above it, so that one look-up tells whether a part of something was taken out.
        self._gone: set[KeyPath] = set()
        for path in dropped:
            self._take(path)
        self._told = {problem.path for problem in problems if problem.path}
        self.broken = {problem.path for problem in problems if problem.path} | dropped

    def draft(self) -> Config | None:
        """What stands of the tree, or None where nothing does."""
        for unbuilt in take_out(self._tree):
            path = self._marks.find(unbuilt.path)
            self._problem(Problem(self._marks.key(path), path, unbuilt.fact, unbuilt.remedy))
            self._take(unbuilt.path)
        for path in list(_nothings(self._tree, ())):
            self._problem(Problem(self._marks.key(path), path, "there is no value", "write one, or remove the key"))
            self._cut(path)
        for _ in range(_MOST_ROUNDS):
            try:
                return Config.model_validate(self._tree)
            except ValidationError as refused:
                for error in refused.errors(include_url=False)[:_MOST_ERRORS]:
                    problem = explain(error, self._marks)
                    name = (str(error["loc"][-1]),) if error["type"] == "missing" else ()
                    # What YAML already made wrong is not told again as a wrong value.
                    if not self._is_gone((*problem.path, *name)) and (name or problem.path not in self._told):
                        self._problem(problem)
                    if not self._cut(problem.path):
                        self._tree["version"] = 1
        return None

    def _problem(self, problem: Problem) -> None:
        self._problems.append(problem)
        if problem.path:
            self.broken.add(problem.path)

    def _take(self, path: KeyPath) -> None:
        self._gone.update(path[:length] for length in range(1, len(path) + 1))

    def _is_gone(self, path: KeyPath) -> bool:
        """Whether this, or a part of it, was taken out: what is said of the rest would mislead."""
        return path in self._gone

    def _cut(self, path: KeyPath) -> bool:
        """Remove what stands at a path, or the list it stands in; False for the root."""
        nodes: list[Value] = [self._tree]
        for step in path:
            node = nodes[-1]
            if isinstance(node, dict):
                nodes.append(node.get(str(step)))
            elif isinstance(node, list) and isinstance(step, int) and step < len(node):
                nodes.append(node[step])
        for depth in range(len(path) - 1, -1, -1):
            node = nodes[depth] if depth < len(nodes) else None
            if isinstance(node, dict):
                node.pop(str(path[depth]), None)
                self._take(path[: depth + 1])
                return True
        return False


def _nothings(value: Value, path: KeyPath) -> Iterator[KeyPath]:
    """Paths of keys without a value, but for those that may have none."""
    if isinstance(value, dict):
        for key, below in value.items():
            if below is None and not _may_be_nothing(path):
                yield (*path, key)
            elif (*path, key)[2:] != ("card", "set"):
                yield from _nothings(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            if below is None:
                yield (*path, index)
            else:
                yield from _nothings(below, (*path, index))


def _may_be_nothing(path: KeyPath) -> bool:
    """Whether the keys of a mapping may have no value.

    A tenant without one has no rights, and a header that tells who calls is turned off. A card's own may be null, too.
    """
    own = path[2:] if path[:1] == ("agents",) else path[1:] if path[:1] == ("defaults",) else ()
    return path == ("tenants",) or own == ("identity_headers",)
