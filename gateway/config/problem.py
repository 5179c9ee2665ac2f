"""A problem of the configuration: a place, a fact and a remedy, and how people and machines read it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from gateway.routing.route import Place
from gateway.telemetry.log_output import printable

KeyPath = tuple[str | int, ...]
"""The keys and indexes that lead to a value, such as `("agents", "billing", "match", 0, "path")`."""

Severity = Literal["error", "warning"]

_WIDEST = 110
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the file that is wrong, or that the operator should know.

    Attributes:
        path: The key path in the document; empty for the file as a whole.
        fact: The fault.
        remedy: The way to mend it.
        severity: An `error` keeps the configuration from being used, a `warning` does not.
        quote: The source line, secrets masked; empty where there is none.
        caret: The problem's column in the quote.
    """

    place: Place
    path: KeyPath
    fact: str
    remedy: str
    severity: Severity = "error"
    quote: str = ""
    caret: int = 1

    def as_text(self) -> str:
        """Return the problem for people: place, path and fact; the source line with a caret; the remedy."""
        word = "" if self.severity == "error" else "warning: "
        name = f"{spell(self.path)}: " if self.path else ""
        lines = [f"{self.place.exact}  {word}{name}{self.fact}"]
        if self.quote.strip():
            quote, column = _window(self.quote, self.caret)
            lines += [f"    {quote}", "    " + " " * (column - 1) + "^"]
        if self.remedy:
            lines.append(f"    → {self.remedy}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, str | int]:
        """Return the problem for programs."""
        return {
            **place_as_json(self.place, self.path),
            "severity": self.severity,
            "message": self.fact,
            "remedy": self.remedy,
        }

    def as_github(self) -> str:
        """Return the problem as a workflow command, which GitHub shows beside the line."""
        name = f"{spell(self.path)}: " if self.path else ""
        text = f"{name}{self.fact}" + (f" → {self.remedy}" if self.remedy else "")
        if not self.place.line:
            return f"::{self.severity}::{_data(f'{self.place}  {text}')}"
        file = _data(self.place.file).replace(":", "%3A").replace(",", "%2C")
        where = f"file={file},line={self.place.line},col={self.place.column}"
        return f"::{self.severity} {where}::{_data(text)}"


def place_as_json(place: Place, path: KeyPath) -> dict[str, str | int]:
    """Return a place and its path for programs."""
    return {"file": place.file, "line": place.line, "column": place.column, "path": spell(path)}


def as_text(problems: Iterable[Problem]) -> str:
    """Render all problems for people, with an empty line between two."""
    return "\n\n".join(problem.as_text() for problem in problems)


def as_json(problems: Iterable[Problem]) -> list[dict[str, str | int]]:
    """Render all problems for programs."""
    return [problem.as_json() for problem in problems]


def as_github(problems: Iterable[Problem]) -> str:
    """Render all problems as workflow commands, one a line."""
    return "\n".join(problem.as_github() for problem in problems)


def in_order(problems: Iterable[Problem], files: Sequence[str]) -> tuple[Problem, ...]:
    """Return the problems by place: the files in the order they were read, then line and column; each is told once."""
    rank = {file: number for number, file in enumerate(files)}
    once = dict.fromkeys(problems)
    return tuple(
        sorted(once, key=lambda one: (rank.get(one.place.file, len(rank)), one.place.line, one.place.column, one.fact))
    )


def spell(path: KeyPath) -> str:
    """Spell a path as operators do: `agents.billing.match[0].path`; odd keys in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _BARE.fullmatch(step) is not None and not is_odd(step):
            text += f".{step}" if text else step
        else:
            text += ("." if text else "") + f'"{spell_key(step)}"'
    return text


def spell_key(key: str) -> str:
    """Spell a key for a message; one that cannot be a name is left out, for it may be a misplaced secret."""
    return "…" if is_odd(key) else printable(key)


def is_odd(key: str) -> bool:
    """Return whether a key is too long for what it is."""
    return len(key) > (64 if _BARE.fullmatch(key) is not None else 20)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?`, or an empty text if no known name is close."""
    by_lower = {one.lower(): str(one) for one in known}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]!r}?" if close else ""


def _window(line: str, column: int) -> tuple[str, int]:
    """Return the part of a line that is shown, and the caret's column in it; one character wide each."""
    flat = "".join(character if character.isprintable() else " " for character in line)
    column = min(max(column, 1), len(flat) + 1)
    kept = flat.lstrip(" ")
    indent = min(len(flat) - len(kept), column - 1)
    flat, column = flat[indent:].rstrip(), column - indent
    if len(flat) <= _WIDEST:
        return flat, column
    start = max(0, min(column - 1 - _WIDEST // 2, len(flat) - _WIDEST))
    head, tail = "…" if start else "", "…" if start + _WIDEST < len(flat) else ""
    return head + flat[start : start + _WIDEST] + tail, column - start + len(head)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
