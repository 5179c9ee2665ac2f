"""The form of log lines: JSON for programs, text for people, in colour on a terminal."""

import os
from collections.abc import Mapping
from typing import BinaryIO, Literal

Form = Literal["json", "text", "colour"]

RED, YELLOW, GREEN, GREY = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[90m"
_PLAIN = "\x1b[0m"


def form_of(written: Literal["json", "text"] | None, stream: BinaryIO, environ: Mapping[str, str] = os.environ) -> Form:
    """Return the form for a stream: as configured, else text on a terminal and JSON elsewhere.

    Text on a terminal is coloured, unless `NO_COLOR` is set (https://no-color.org) or the terminal is a dumb one.
    """
    on_terminal = stream.isatty()
    if written == "json" or (written is None and not on_terminal):
        return "json"
    is_plain = not on_terminal or environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
    return "text" if is_plain else "colour"


def coloured(text: str, colour: str) -> str:
    """Return the text between a colour and the end of it."""
    return f"{colour}{text}{_PLAIN}"
