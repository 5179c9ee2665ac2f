"""The problems that the checks of meaning find."""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TypeVar

from gateway.config.certificate import CertificateUnusable, check_authorities, server_context
from gateway.config.problem import KeyPath, Problem, nearest, printable
from gateway.config.values import SYSTEM
from gateway.config.yaml import Marks
from gateway.routing.route import Place

T = TypeVar("T")


class Findings:
    """The problems that checks find, at the places of the file.

    Args:
        marks: The places of the configuration.
    """

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.problems: list[Problem] = []
        # Many agents may name one file.
        self._authorities: dict[Path, CertificateUnusable | None] = {}

    def error(self, path: KeyPath, fact: str, remedy: str) -> None:
        """Add a mistake in the value at a path: the configuration cannot be used."""
        self.problems.append(Problem(self.marks.place(path), self.marks.find(path), fact, remedy))

    def error_at_key(self, path: KeyPath, fact: str, remedy: str) -> None:
        """Add a mistake in the key at a path."""
        self.problems.append(Problem(self.marks.key(path), self.marks.find(path), fact, remedy))

    def warning(self, path: KeyPath, fact: str, remedy: str) -> None:
        """Add a fact that the operator should know about the key at a path."""
        self.problems.append(Problem(self.marks.key(path), self.marks.find(path), fact, remedy, "warning"))

    def read(self, path: KeyPath, text: str, read: Callable[[str], T], *, subject: str = "") -> T | None:
        """Return `read(text)`; where it raises `ValueError(fact, remedy)`, add an error and return None.

        Args:
            subject: The beginning of the fact; the text itself by default.
        """
        try:
            return read(text)
        except ValueError as error:
            fact, remedy = error.args
            self.error(path, f"{subject or repr(printable(text))} {fact}", remedy)
            return None

    def known(self, path: KeyPath, name: str, names: Collection[str], what: str, *, at_key: bool = False) -> bool:
        """Return whether the name at a path is one of `names`; add an error if not.

        Args:
            what: The kind of name, in the singular, such as `agent`.
            at_key: Whether the name is the key at the path, and not its value.
        """
        if name not in names:
            add = self.error_at_key if at_key else self.error
            add(path, f"there is no {what} {name!r}", _instead(name, names, what))
        return name in names

    def authorities(self, path: KeyPath, ca: str) -> None:
        """Check that a file of authorities can be used; `system` always can."""
        file = self.marks.folder(path) / ca
        if ca != SYSTEM and file not in self._authorities:
            self._authorities[file] = _unusable(partial(check_authorities, file))
        error = self._authorities.get(file)
        if error is not None:
            self.unusable(path, ca, error)

    def certificate(self, path: KeyPath, cert: str, key: str) -> None:
        """Check that the certificate and the private key that `cert` and `key` below a path name can be used."""
        folder = self.marks.folder(path)
        error = _unusable(partial(server_context, folder / cert, folder / key))
        if error is not None:
            self.unusable((*path, error.key), cert if error.key == "cert" else key, error)

    def unusable(self, path: KeyPath, file: str, error: CertificateUnusable) -> None:
        """Add the reason why a file of certificates or keys cannot be used; the file is written at the path."""
        remedy = f"{error.remedy}; it is relative to {self.marks.folder(path)}"
        self.error(path, f"{printable(file)!r} {error.fact}", remedy)

    def line(self, path: KeyPath) -> str:
        """Return the place of another key for a fact: `line 52`, or `other.yaml:52` for another file."""
        return self.line_of(self.marks.key(path))

    def line_of(self, place: Place) -> str:
        """Return a place for a fact: `line 52`, or `other.yaml:52` for another file."""
        return f"line {place.line}" if place.file == self.marks.start.file else str(place)


def _unusable(read: Callable[[], object]) -> CertificateUnusable | None:
    try:
        read()
    except CertificateUnusable as error:
        return error
    return None


def _instead(name: str, names: Collection[str], what: str) -> str:
    listed = ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "")
    return nearest(name, names) or (f"known are: {listed}" if names else f"the file has no {what} at all")
