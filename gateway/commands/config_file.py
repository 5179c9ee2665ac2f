"""The configuration file of a command."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.commands.output import CommandFailed

if TYPE_CHECKING:
    from gateway.config.check import Examined

DEFAULT_FILES = (Path("gateway.yaml"), Path("config/gateway.yaml"))
STANDARD_INPUT = Path("-")
"""Standard input of `check`; its paths are relative to the working directory."""

ConfigOption = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="The configuration; gateway.yaml or config/gateway.yaml if left out."),
]


def find_file(given: Path | None, *, needed: bool = True) -> Path:
    """Return the file to read; with `needed=False` a missing one is left to be reported as a problem."""
    if given is not None:
        return given
    for path in DEFAULT_FILES:
        if os.path.lexists(path):
            return path
    if not needed:
        return DEFAULT_FILES[0]
    raise CommandFailed(
        f"There is no gateway.yaml here and no config/gateway.yaml.\n"
        f"  {program()} init URL -o gateway.yaml   writes one for an agent\n"
        f"  {program()} demo                       needs none"
    )


def examine_own(text: str, command: str, environ: Mapping[str, str]) -> "Examined":
    """Check a configuration that a command generated; messages quote no line of it.

    Raises:
        CommandFailed: The arguments make no valid configuration.
    """
    from gateway.config.check import examine  # noqa: PLC0415 - half a second that most commands do not need

    examined = examine(Path(f"({command})"), environ, text=text)
    if examined.config is None:
        raise CommandFailed("\n".join(f"{error.fact}\n  → {error.remedy}" for error in examined.errors), code=2)
    return examined


def program() -> str:
    """Return the command that starts this program."""
    named = os.environ.get("A2A_GATEWAY_PROGRAM")
    if named:
        return shlex.quote(named)
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m gateway"
    return "a2a-gateway"
