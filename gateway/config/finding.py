"""Where checks write down what they find."""

from collections.abc import Collection, Iterable

from gateway.config.problem import KeyPath, Problem
from gateway.config.source import Marks
from gateway.config.wording import nearest


class Findings:
    """The problems that checks find, at the places of the file.

    A path that has a problem already gets no second one, which may be nothing but its consequence.

    Args:
        marks: Where everything is written.
        broken: Paths that have a problem already.
    """

    def __init__(self, marks: Marks, broken: Iterable[KeyPath]) -> None:
        self.marks = marks
        self.problems: list[Problem] = []
        self._exactly = set(broken)
        self._broken = {path[:length] for path in self._exactly for length in range(1, len(path) + 1)}

    def is_broken(self, *paths: KeyPath) -> bool:
        """Whether one of the paths, or something below it, has a problem already."""
        return any(path in self._broken for path in paths)

    def is_itself_broken(self, *paths: KeyPath) -> bool:
        """Whether one of exactly these paths has a problem already."""
        return any(path in self._exactly for path in paths)

    def error(self, path: KeyPath, fact: str, remedy: str) -> None:
        """Something about the value at a path keeps the configuration from being used."""
        self._add(Problem(self.marks.place(path), self.marks.find(path), fact, remedy), path)

    def error_at_key(self, path: KeyPath, fact: str, remedy: str) -> None:
        """As `error`, about the key."""
        self._add(Problem(self.marks.key(path), self.marks.find(path), fact, remedy), path)

    def warning(self, path: KeyPath, fact: str, remedy: str) -> None:
        """The operator should know something about the key at a path."""
        self._add(Problem(self.marks.key(path), self.marks.find(path), fact, remedy, "warning"), path)

    def known(self, path: KeyPath, name: str, names: Collection[str], what: str) -> bool:
        """Whether the name at a path is one of `names`; tells it where it is not.

        Args:
            what: What the names are, in the singular, such as `agent`.
        """
        if name in names:
            return True
        self.error(path, f"there is no {what} {name!r}", _instead(name, names, what))
        return False

    def known_key(self, path: KeyPath, name: str, names: Collection[str], what: str) -> bool:
        """As `known`, for a name that is the key at the path."""
        if name in names:
            return True
        self.error_at_key(path, f"there is no {what} {name!r}", _instead(name, names, what))
        return False

    def line(self, path: KeyPath) -> str:
        """Where something else is written, for a fact: `line 52`, or `other.yaml:52` for another file."""
        place = self.marks.key(path)
        return f"line {place.line}" if place.file == self.marks.start.file else str(place)

    def _add(self, problem: Problem, path: KeyPath) -> None:
        if path not in self._exactly and problem.path not in self._exactly:
            self.problems.append(problem)


def _instead(name: str, names: Collection[str], what: str) -> str:
    listed = ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "")
    return nearest(name, names) or (f"known are: {listed}" if names else f"the file has no {what} at all")
