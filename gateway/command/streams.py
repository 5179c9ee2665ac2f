"""Standard streams that a shell closed, as in `a2a-gateway serve >&-`."""

import os
import sys
from typing import Literal

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
