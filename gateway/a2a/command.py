"""Agents that are commands (A2A issue 1074): read the command line that an operator's card names.

The proposal writes the command line into the `url` of an interface called `stdio`. It is text for a shell; here it is
only split as a shell would: variables, pipes, redirections and chains are not interpreted. Only a card in a file of the
operator may name a command; in a fetched card it is ignored.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.a2a.card import spoken
from gateway.a2a.dialect import Binding, Version, parse_version
from gateway.a2a.json import Tree

URL = "stdio:"
"""The URL of an agent on stdio in a card; it is never dialled."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHELL = re.compile(r"[|&;<>`]|\$[({A-Za-z_]")
_LONGEST = 8192


class NoCommand(ValueError):  # noqa: N818 - named after what is missing
    """A card names no command that can be run; the text says why."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command as its words, with its environment.

    Attributes:
        assignments: `NAME=value` words in front, which become its environment.
        shell: Whether it has shell syntax, which is not interpreted.
    """

    words: tuple[str, ...]
    assignments: tuple[tuple[str, str], ...] = ()
    shell: bool = False


def split_command(text: str) -> CommandLine:
    """Split a command line as a shell would, without any other interpretation.

    Raises:
        NoCommand: there is none in it.
    """
    if len(text) > _LONGEST or "\0" in text:
        raise NoCommand("the command line is too long, or has a character that no command has")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise NoCommand(f"the command line cannot be split: {error}") from error
    assignments: list[tuple[str, str]] = []
    while words and (found := _ASSIGNMENT.fullmatch(words[0])) is not None:
        assignments.append((found[1], found[2]))
        del words[0]
    if not words or not words[0]:
        raise NoCommand("the command line names no program")
    return CommandLine(tuple(words), tuple(assignments), shell=_SHELL.search(text) is not None)


def command_of(card: Tree) -> CommandLine:
    """Return the command that an operator's card names as its `stdio` interface.

    Raises:
        NoCommand: there is no such interface, or no command in it.
    """
    for url, _version in _on_stdio(card):
        return split_command(url)
    raise NoCommand("the card has no interface called `stdio`")


def generations(card: Tree) -> tuple[Version, ...]:
    """Return the versions of an agent on stdio, in the order of its card; empty where it states none.

    Those of its `stdio` interfaces count, else those of JSON-RPC, because many agents show their card for HTTP.
    """
    versions = [parse_version(text) for _url, text in _on_stdio(card)]
    if not any(versions):
        versions = [each.dialect.version for each in spoken(card) if each.dialect.binding is Binding.JSONRPC]
    return tuple(dict.fromkeys(version for version in versions if version is not None))


def behind_pipe(card: Tree, versions: tuple[Version, ...]) -> Tree:
    """Return the card with the pipe as its only interface, in these versions, without the command.

    The card says JSON-RPC, which is what the pipe carries.
    """
    kept = {name: value for name, value in card.items() if name not in _PLACES}
    interfaces = [
        {"url": URL, "protocolBinding": Binding.JSONRPC.value, "protocolVersion": version.value} for version in versions
    ]
    return {**kept, "supportedInterfaces": interfaces}


def _on_stdio(card: Tree) -> Iterator[tuple[str, str]]:
    """Yield the command line and the version of each interface on stdio."""
    legacy = card.get("protocolVersion") or Version.V0_3.value
    entries = [
        (entry, entry.get("protocolBinding"), entry.get("protocolVersion") or Version.V1_0.value)
        for entry in _objects(card.get("supportedInterfaces"))
    ]
    entries.append(({"url": card.get("url")}, card.get("preferredTransport"), legacy))
    entries += [(entry, entry.get("transport"), legacy) for entry in _objects(card.get("additionalInterfaces"))]
    for entry, name, version in entries:
        url = entry.get("url")
        if _is_stdio(name) and isinstance(url, str) and isinstance(version, str):
            yield url, version


def _objects(value: object) -> list[Tree]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_stdio(name: object) -> bool:
    """Return whether a transport is named `stdio`; 1.0 §5.8 would have a custom one be a URI."""
    if not isinstance(name, str):
        return False
    word = name.strip().lower()
    return word == "stdio" or (":" in word and re.split(r"[/:#]", word)[-1] == "stdio")


_PLACES = frozenset(
    {
        "url", "preferredTransport", "additionalInterfaces", "supportedInterfaces", "protocolVersion",
        "transportOptions", "signatures",
    }
)  # fmt: skip
