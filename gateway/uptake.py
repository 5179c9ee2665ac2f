"""What each of several processes has made of its last reading of the configuration: told to whoever asked for it.

Each keeps a line of its own in a folder. Whoever had all of them read it again waits for the lines that are younger
than that; a process that is gone has none. Times are monotonic seconds, which are those of all processes of a machine.
"""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

STARTED = "started"
PATIENCE = 25.0
"""Seconds for which the others are waited for: files that do not answer, and cards that are read."""
_GLANCE = 0.02
_NEW = ".new"


class Word(msgspec.Struct, frozen=True):
    """What one process says.

    Attributes:
        began: When its last reading began; 0 of one that has read nothing since its start.
        result: What became of it, as `reload.Result`; `started` of that one.
        hash: Of the configuration that it read, good or bad.
    """

    began: float
    result: str
    hash: str
    error: str | None = None


class Uptake:
    """What the processes of one gateway say.

    Args:
        folder: Theirs alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tell(self, line: Word) -> None:
        """Say it of this process. A folder that is full or was cleaned keeps nothing, and hinders nobody."""
        path = self._folder / str(os.getpid())
        new = path.with_suffix(_NEW)
        with suppress(OSError):
            new.write_bytes(msgspec.json.encode(line))
            new.replace(path)

    def said(self) -> dict[int, Word]:
        """What each says that runs, by process id."""
        found: dict[int, Word] = {}
        with suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                if path.name.isdigit():
                    with suppress(OSError, msgspec.DecodeError):
                        found[int(path.name)] = _decoder.decode(path.read_bytes())
        return found

    def forget(self, pid: int) -> None:
        """That process is gone."""
        path = self._folder / str(pid)
        for each in (path, path.with_suffix(_NEW)):
            with suppress(OSError):
                each.unlink(missing_ok=True)

    def close(self) -> None:
        """Take it down."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)
            self._folder.rmdir()


def waited_for(said: dict[int, Word], since: float, text_hash: str = "") -> list[int]:
    """Who has not read it since then; one that was started with what has this hash has no need to."""
    return [
        pid for pid, line in said.items() if line.began < since and (line.result, line.hash) != (STARTED, text_hash)
    ]


async def gathered(uptake: Uptake, processes: int, since: float, text_hash: str) -> dict[str, Any]:
    """What all of them but this one have made of it, waited for: `workers`, and how many were not heard of.

    Args:
        processes: How many there are.
        since: When they were told.
        text_hash: Of what this one has read.
    """
    own, deadline = os.getpid(), time.monotonic() + PATIENCE
    while True:
        said = await asyncio.to_thread(uptake.said)
        said.pop(own, None)
        late = waited_for(said, since, text_hash)
        if (not late and len(said) >= processes - 1) or time.monotonic() > deadline:
            break
        await asyncio.sleep(_GLANCE)
    heard = [
        {"pid": pid, "result": line.result, "hash": line.hash, "error": line.error}
        for pid, line in said.items()
        if pid not in late
    ]
    return {"workers": heard, "unheard": max(processes - 1 - len(heard), 0)}


_decoder = msgspec.json.Decoder(Word)
