"""Help of the commands: `-h`, examples at the end, colour on a terminal, plain text when piped."""

import os
import sys
from typing import Any, TextIO

import typer
from typer.core import TyperCommand

COLOR = ("auto", "always", "never")
"""The values of `--color`; `auto` is colour on a terminal, unless NO_COLOR is set or TERM is dumb."""

_SETTINGS = {"help_option_names": ["-h", "--help"]}


def group(name: str, help: str | None = None) -> typer.Typer:  # noqa: A002 - as Typer names it
    """Return an empty group of commands."""
    return typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
        # Typer's own options to install completion stand at the program, not at each of its groups.
        add_completion=help is None,
    )


def command(*examples: str) -> type[TyperCommand]:
    """Return the class of a command whose help ends with these examples, a line each, without the program's name."""

    class Command(TyperCommand):
        """A command with examples."""

        def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - classes that Typer keeps for itself
            """Write the help, and the examples in plain lines that can be pasted."""
            super().format_help(ctx, formatter)
            formatter.write("\nExamples:\n" + "".join(f"  a2a-gateway {example}\n" for example in examples))

    return Command


def choose_color(choice: str) -> None:
    """Apply `--color` for this process and those that it starts.

    Args:
        choice: One of `COLOR`.
    """
    if choice == "always":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR"] = "1"
    elif choice == "never":
        os.environ.pop("FORCE_COLOR", None)
        os.environ["NO_COLOR"] = "1"


def wants_color(stream: TextIO | None = None) -> bool:
    """Return whether a stream, standard output if left out, is to have colour (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (sys.stdout if stream is None else stream).isatty() and os.environ.get("TERM") != "dumb"
