"""Notices that files have changed: told by the system where it can, and by looking at them from time to time.

What the system tells of is folders, not files: editors and ConfigMaps put another file, or another link to a folder,
in the place of the old one, which whoever watches the file would never hear of. Network file systems, and some mounts
of containers, tell nothing; there only looking helps. Either way it is the contents that count: a file that was written
once more with what it said before has not changed.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from watchfiles._rust_notify import RustNotify  # its documented lower level: it says when it has begun to listen

from gateway.aside import aside
from gateway.config.stamp import NOTHING, stamp_of
from gateway.pacing import unhurried

_QUIET = 100
"""Milliseconds without news after which a change is over: a file is written in several steps."""
_LONGEST = 1_000
_AGAIN = 60.0
"""Seconds after which a system that would not watch is asked again."""

logger = logging.getLogger("gateway.watch")


class Notice(StrEnum):
    """How a change was noticed."""

    WATCH = "watch"
    """The system told."""
    POLL = "poll"
    """They were looked at."""


class Watch:
    """Looks after some files.

    Args:
        files: Gives those that count now; asked again after each change, in a thread.
        changed: Told that they say something else than before, and how that was noticed.
        every: Gives the seconds between two looks; 0 for none.
        listens: Gives whether the system is to tell of changes.
        read: Gives what was read of them last, as `stamp_of` gives it. What says something else by now has changed,
            and so has what was not read; None where what they say at first is what was read.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        changed: Callable[[Notice], Awaitable[None]],
        *,
        every: Callable[[], float],
        listens: Callable[[], bool] = lambda: True,
        read: Callable[[], Mapping[Path, bytes]] | None = None,
    ) -> None:
        self._files = files
        self._changed = changed
        self._every = every
        self._listens = listens
        self._read = read
        self._known: dict[Path, bytes] = {}
        self._one = asyncio.Lock()
        self.listening = asyncio.Event()
        """Set while the system tells."""

    async def run(self) -> None:
        """Look after them, until cancelled."""
        if self._read is None:
            self._known = await self._look()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll(), name="looking at the configuration")
            group.create_task(self._listen(), name="listening for the configuration")

    async def _poll(self) -> None:
        while True:
            every = self._every()
            await asyncio.sleep(every or _AGAIN)
            if every:
                await self._compare(Notice.POLL)

    async def _listen(self) -> None:
        while True:
            if not self._listens():
                await asyncio.sleep(_AGAIN)
                continue
            try:
                await self._hear()
            except (OSError, RuntimeError) as error:
                logger.warning("changes of the configuration are not told by the system: %s", error)
                await asyncio.sleep(_AGAIN)

    async def _hear(self) -> None:
        """Listen to the folders of now, until others count."""
        over = threading.Event()
        folders = await aside(_folders, self._files)
        news = RustNotify([str(folder) for folder in folders], False, False, 0, False, False)
        try:
            self.listening.set()
            # What changed before there was anybody to hear of it.
            moved = await self._compare(Notice.WATCH)
            while not moved and self._listens():
                await asyncio.to_thread(news.watch, _LONGEST, _QUIET, 0, over)
                moved = await self._compare(Notice.WATCH)
        finally:
            self.listening.clear()
            over.set()
            news.close()

    async def _compare(self, how: Notice) -> bool:
        async with self._one:
            found = await self._look()
            self._compare_with(found)
            if found == self._known:
                return False
            while found != self._known:
                self._known = found
                await self._changed(how)
                # What was read may name other files; those that it was read from may have changed since, and before.
                found = await self._look()
                self._compare_with(found)
            return True

    def _compare_with(self, found: Mapping[Path, bytes]) -> None:
        """Know of these files what was read of them; else what was found the last time."""
        if self._read is None:
            known = {**found, **self._known}
        else:
            known = {**dict.fromkeys(found, NOTHING), **self._known, **self._read()}
        self._known = {file: known[file] for file in found}

    async def _look(self) -> dict[Path, bytes]:
        return await aside(_said, self._files)


def _said(files: Callable[[], Iterable[Path]]) -> dict[Path, bytes]:
    return {file: stamp_of(file) for file in unhurried(files())}


def _folders(files: Callable[[], Iterable[Path]]) -> tuple[Path, ...]:
    """Where the files are, and where the links lead that they are reached by."""
    found: dict[Path, None] = {}
    for file in unhurried(files()):
        for folder in (file.parent, file.resolve().parent):
            if folder.is_dir():
                found[folder.absolute()] = None
    return tuple(found)
