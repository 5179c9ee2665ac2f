"""Secrets that a file writes out, which `check --strict` refuses: a file is copied, committed and shown.

Hashes of keys and references (`${NAME}`, `${file:PATH}`) are not secrets; the default of a reference may be one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from gateway.config.model import Config, annotation_below, bare
from gateway.config.outside import is_variable
from gateway.config.problem import KeyPath, Problem
from gateway.config.secrets import REFERENCE
from gateway.config.yaml import Marks, Value

_REFERENCE = "\0"
"""Placeholder for the value of a reference."""
_REMEDY = "write ${NAME} and set it in the environment, or ${file:PATH} and keep it in a file of its own"
_COMMANDS = (("command",), ("stdio",))
_ARGUMENT = "a secret is written out in a command line, which every user of the machine can see"
_PASSWORD = re.compile(r"://[^/?#\s@:]*:(?P<value>[^/?#\s@]*)@")
_NAME = (
    r"(?![^=&]*[_-](?:file|path|dir|ur[li]|endpoint|name|id|ttl|limit|count|header|stdin)(?:=|&|\Z))"
    r"[\w.-]*(?:token(?!s|i[sz])|secret|passw|pwd|credential|api[_-]?key|private[_-]?key|signature|\bsig\b)[\w.-]*"
)
"""The name of a secret, and not of its location or length."""
_PARAMETER = re.compile(rf"[?&]{_NAME}=(?P<value>[^&#\s]*)", re.IGNORECASE)
_OPTION = re.compile(rf"--?{_NAME}(?:=(?P<value>.*))?", re.IGNORECASE | re.DOTALL)
_VARIABLE = re.compile(rf"{_NAME}|(?:.*_)?(?:KEY|AUTH|AUTHORIZATION|PASS|PAT|DSN|COOKIE)", re.IGNORECASE)


def literal_secrets(tree: Mapping[str, Value], marks: Marks) -> Iterator[Problem]:
    """Warn of each secret that is written out; no warning repeats any of it.

    Args:
        tree: The content of the files, references filled in.
    """
    for path, fact in _literals(dict(tree), Config, (), marks):
        if is_variable(marks.place(path)):
            continue
        yield Problem(marks.place(path), marks.find(path), fact, _REMEDY, "warning")


def _literals(value: Value, annotation: Any, path: KeyPath, marks: Marks) -> Iterator[tuple[KeyPath, str]]:  # noqa: ANN401 - type annotations have no type of their own
    if isinstance(value, dict):
        # A header may be written as { name: …, value: … }.
        named = value.keys() == {"name", "value"}
        for key, below in value.items():
            kind = None if named and key == "name" else annotation_below(annotation, key)
            yield from _literals(below, kind, (*path, key), marks)
    elif isinstance(value, list):
        # An agent may be written as the list of its replicas.
        annotation = annotation_below(annotation, "backend") or annotation
        for number, below in enumerate(value):
            yield from _literals(below, annotation_below(annotation, number), (*path, number), marks)
        if path[-1:] in _COMMANDS:
            words = [_without_references(word, (*path, number), marks) for number, word in enumerate(value)]
            yield from (((*path, number), _ARGUMENT) for number in _secret_arguments(words))
    elif value is not None:
        fact = _fact_about(_without_references(value, path, marks), bare(annotation), path)
        if fact:
            yield path, fact


def _fact_about(written: str, kind: object, path: KeyPath) -> str:
    """Return the fact about a secret in one value; empty for none."""
    if kind is SecretStr and _is_literal(written) and (path[-2:-1] != ("env",) or _VARIABLE.fullmatch(str(path[-1]))):
        return "a secret is written out"
    if any(_is_literal(found["value"]) for found in _PASSWORD.finditer(written)):
        return "the password in a URL is written out"
    if "://" in written and any(_is_literal(found["value"]) for found in _PARAMETER.finditer(written)):
        return "a secret in the query of a URL is written out"
    return ""


def _secret_arguments(words: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the secret words of a command line: `--token=VALUE`, or the `VALUE` behind `--token`."""
    for number, word in enumerate(words):
        option = _OPTION.fullmatch(word)
        if option is None:
            continue
        if option["value"] is not None:
            if _is_literal(option["value"]):
                yield number
        elif number + 1 < len(words) and _is_literal(words[number + 1]) and not words[number + 1].startswith("-"):
            yield number + 1


def _without_references(value: Value, path: KeyPath, marks: Marks) -> str:
    """Return the text in the file without its references; defaults of references stay."""
    return REFERENCE.sub(_default, marks.written.get(path, str(value)))


def _default(match: re.Match[str]) -> str:
    if match[0] == "$${":
        return "${"
    _, default, text = (match[1] or "").partition(":-")
    return text if default and text else _REFERENCE


def _is_literal(written: str) -> bool:
    return written != "" and _REFERENCE not in written
