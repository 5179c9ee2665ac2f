"""What a command answers on standard output, to people or to programs."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from gateway.command.failure import CommandFailed


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
