"""The command line, environment and folder of a backend that is a command."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.a2a.card import parse_card
from gateway.a2a.command import CommandLine, command_of
from gateway.a2a.json import Tree
from gateway.config.agent import Backend, Stdio

PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of the gateway's environment that every command gets; HOME not where it runs as another user."""


@dataclass(frozen=True, slots=True)
class Program:
    """The process of a backend.

    Attributes:
        folder: Where.
        card: The operator's card that names it, or None.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    card: Tree | None


def program(backend: Backend, file: str, environ: Mapping[str, str]) -> Program:
    """Return the process of a backend that is a command and was checked.

    Args:
        file: The file that it is written in.
        environ: The gateway's own environment.

    Raises:
        OSError, CardInvalid, NoCommand: the card has changed since it was checked.
    """
    here = Path(file).parent.absolute()
    stdio = Stdio() if backend.stdio is None else backend.stdio
    card, line = None, CommandLine(stdio.command)
    if backend.card is not None:
        card = parse_card((here / backend.card).read_bytes())
        line = command_of(card)
    passed = [name for name in PASSED if name != "HOME" or stdio.uid is None]
    environment = {name: environ[name] for name in (*passed, *stdio.env_from) if name in environ}
    environment |= dict(line.assignments)
    environment |= {name: value.get_secret_value() for name, value in stdio.env.items()}
    return Program(line.words, environment, here if stdio.cwd is None else here / stdio.cwd, card)
