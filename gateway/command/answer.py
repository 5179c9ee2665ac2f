"""The standard streams of a command: what it prints, for people or programs, and how it fails."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import typer


class CommandFailed(Exception):  # noqa: N818 - what happened
    """The command did not do what was asked.

    Attributes:
        message: What was wrong and what would be right, in one or a few lines.
        code: The exit code: 1 problems found, 2 usage, 3 a route test failed.
    """

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class PlainOutput(StrEnum):
    """How `route`, `state` and `diff` report."""

    TEXT = "text"
    JSON = "json"


PlainOption = Annotated[PlainOutput, typer.Option("--output", help="Who reads the result.")]


@contextmanager
def reporting(*, as_json: bool) -> Iterator[None]:
    """With JSON output, a failure is JSON too, and standard error stays empty."""
    # Python writes what nobody takes care of to standard error.
    deaf, log = logging.NullHandler(), logging.getLogger("gateway")
    if as_json:
        log.addHandler(deaf)
    try:
        yield
    except CommandFailed as failed:
        if not as_json:
            raise
        show_json({"ok": False, "error": failed.message})
        raise typer.Exit(failed.code) from failed
    finally:
        log.removeHandler(deaf)


def write(text: str) -> None:
    """Print a text as it is, at once.

    Raises:
        CommandFailed: standard output takes nothing.
        BrokenPipeError: who reads has enough.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # As `head` has.
        raise
    except OSError as error:
        # What was not written is not tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise CommandFailed(f"standard output cannot be written: {error.strerror}") from error


def show(text: str) -> None:
    """Print a text, and the end of its last line; as `write`."""
    write(text if text.endswith("\n") or not text else text + "\n")


def show_json(value: object) -> None:
    """Print a value for programs; as `write`."""
    show(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


_MODES: tuple[tuple[Literal["stdin", "stdout", "stderr"], Literal["r", "w"]], ...] = (
    ("stdin", "r"),
    ("stdout", "w"),
    ("stderr", "w"),
)


def open_closed() -> tuple[str, ...]:
    """Open the standard streams that are closed on nothing, and tell which; at the very start of a process.

    Else the next socket would take the number of such a stream, and whatever is written to it would go to a client.
    """
    closed = []
    for name, mode in _MODES:
        if getattr(sys, name) is None:
            # The lowest number that is free: as long as nothing else was opened, that of the stream itself.
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(nothing, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for the whole process
            closed.append(name)
    return tuple(closed)
