"""Output and failure of a command, for people or programs."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

COLOR = ("auto", "always", "never")
"""The values of `--color`; `auto` is colour on a terminal, unless NO_COLOR is set or TERM is dumb."""


class CommandFailed(Exception):  # noqa: N818 - what happened
    """The command failed.

    Attributes:
        message: The error and its remedy, in a few lines.
        code: The exit code: 1 problems found, 2 usage, 3 a route test failed.
    """

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


PlainOption = Annotated[Literal["text", "json"], typer.Option("--output", help="Output format.")]
"""The output format of `route`, `state`, `diff` and `send`."""


@contextmanager
def reporting(output: str) -> Iterator[Callable[[object, str], None]]:
    """Yield a function that prints a result: its first argument for programs, its second for people.

    With JSON output a failure is JSON, too, and standard error stays empty.
    """
    as_json = output == "json"
    # Without a handler, Python writes log lines to standard error.
    deaf, log = logging.NullHandler(), logging.getLogger("gateway")
    if as_json:
        log.addHandler(deaf)
    try:
        yield lambda value, text: show_json(value) if as_json else show(text)
    except CommandFailed as failed:
        if not as_json:
            raise
        show_json({"ok": False, "error": failed.message})
        raise typer.Exit(failed.code) from failed
    finally:
        log.removeHandler(deaf)


def read_input(path: Path) -> bytes:
    """Return the content of a file; `-` is standard input.

    Raises:
        CommandFailed: It cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}", code=2) from error


def write(text: str) -> None:
    """Print a text and flush.

    Raises:
        CommandFailed: Standard output cannot be written.
        BrokenPipeError: The reader has closed the pipe.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # The interpreter must not try again to write at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise CommandFailed(f"standard output cannot be written: {error.strerror}") from error


def show(text: str) -> None:
    """Print a text with a final line end."""
    write(text if text.endswith("\n") or not text else text + "\n")


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Return rows of cells as lines with aligned columns.

    Args:
        numbers: Whether all columns but the first have numbers.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [
            cell.rjust(width) if numbers and at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def show_json(value: object) -> None:
    """Print a value as JSON."""
    import msgspec  # noqa: PLC0415 - most commands print text

    show(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


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


def paint(text: str, color: str) -> str:
    """Return the text in a colour of the terminal's, if standard output is to have colour."""
    return typer.style(text, fg=color) if wants_color() else text


def open_closed() -> tuple[str, ...]:
    """Open closed standard streams on /dev/null, and return their names; called first in a process.

    Otherwise the next socket would get the descriptor of the stream, and its output would go to a client.
    """
    closed = []
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free descriptor is that of the stream, as nothing else was opened yet.
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(nothing, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for the whole process
            closed.append(name)
    return tuple(closed)
