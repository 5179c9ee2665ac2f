"""The problems that the checks of meaning find."""

from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from gateway.config.problem import KeyPath, Problem, nearest
from gateway.config.values import SYSTEM
from gateway.config.yaml import Marks
from gateway.network.certificate import CertificateUnusable, check_authorities, server_context
from gateway.routing.route import Place
from gateway.telemetry.log_output import printable

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
        self._check_authorities = cache(check_authorities)

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

    def check_known(self, path: KeyPath, name: str, names: Collection[str], what: str, *, at_key: bool = False) -> bool:
        """Return whether the name at a path is one of `names`; add an error if not.

        Args:
            what: The kind of name, in the singular, such as `agent`.
            at_key: Whether the name is the key at the path, and not its value.
        """
        if name not in names:
            add = self.error_at_key if at_key else self.error
            others = f"known are: {listed(sorted(names), 8)}" if names else f"the file has no {what} at all"
            add(path, f"there is no {what} {name!r}", nearest(name, names) or others)
        return name in names

    def check_authorities(self, path: KeyPath, ca: str) -> None:
        """Check that a file of authorities can be used; `system` always can."""
        if ca != SYSTEM:
            self.read_file(path, ca, self._check_authorities)

    def check_certificate(self, path: KeyPath, cert: str, key: str) -> None:
        """Check that the certificate and the private key that `cert` and `key` below a path name can be used."""
        folder = self.marks.folder(path)
        try:
            server_context(folder / cert, folder / key)
        except CertificateUnusable as error:
            self._add_unusable((*path, error.key), cert if error.key == "cert" else key, error)

    def read_file(self, path: KeyPath, file: str, read: Callable[[Path], T]) -> T | None:
        """Return `read(file)`; where it raises `CertificateUnusable`, add an error and return None."""
        try:
            return read(self.marks.folder(path) / file)
        except CertificateUnusable as error:
            self._add_unusable(path, file, error)
            return None

    def _add_unusable(self, path: KeyPath, file: str, error: CertificateUnusable) -> None:
        remedy = f"{error.remedy}; it is relative to {self.marks.folder(path)}"
        self.error(path, f"{printable(file)!r} {error.fact}", remedy)

    def line(self, path: KeyPath) -> str:
        """Return the place of another key for a fact: `line 52`, or `other.yaml:52` for another file."""
        return self.line_of(self.marks.key(path))

    def line_of(self, place: Place) -> str:
        """Return a place for a fact: `line 52`, or `other.yaml:52` for another file."""
        return f"line {place.line}" if place.file == self.marks.start.file else str(place)


def listed(names: Iterable[str], most: int) -> str:
    """Return the first names for a message, with commas between them."""
    names = list(names)
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
