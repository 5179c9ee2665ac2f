"""Notices that files have changed: told by the system where it can, and by looking at them from time to time.

What the system tells of is folders, not files: editors and ConfigMaps put another file, or another link to a folder,
in the place of the old one, which whoever watches the file would never hear of. Network file systems, and some mounts
of containers, tell nothing; there only looking helps. Either way it is the contents that count: a file that was written
once more with what it said before has not changed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from gateway.aside import aside
from gateway.config.stamp import NOTHING, stamp_of
from gateway.inotify import Inotify
from gateway.pacing import unhurried

_QUIET = 0.1
"""Seconds without news after which a change is over: a file is written in several steps."""
_LONGEST = 1.0
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
        due: Asked in a thread with each look that finds no change: whether they are to be read again all the same, for
            what kept them from being read whole seems to be over. No more often, for it may not be.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        changed: Callable[[Notice], Awaitable[None]],
        *,
        every: Callable[[], float],
        listens: Callable[[], bool] = lambda: True,
        read: Callable[[], Mapping[Path, bytes]] | None = None,
        due: Callable[[], bool] = lambda: False,
    ) -> None:
        self._files = files
        self._changed = changed
        self._every = every
        self._listens = listens
        self._read = read
        self._due = due
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
            if every and not await self._compare(Notice.POLL) and await aside(self._due):
                async with self._one:
                    await self._changed(Notice.POLL)

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
        """Listen to the files and folders of now, until others count."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def told() -> None:
            if inotify.read():
                news.set()

        inotify = await aside(_listening, self._files)
        try:
            loop.add_reader(inotify.fileno(), told)
            self.listening.set()
            # What changed before there was anybody to hear of it.
            moved = await self._compare(Notice.WATCH)
            while not moved and self._listens():
                await _settled(news)
                moved = await self._compare(Notice.WATCH)
        finally:
            self.listening.clear()
            loop.remove_reader(inotify.fileno())
            inotify.close()

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


async def _settled(news: asyncio.Event) -> None:
    """Wait until there is news, and then until there is none for a moment."""
    await news.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST):
            while news.is_set():
                news.clear()
                await asyncio.sleep(_QUIET)
    news.clear()


def _said(files: Callable[[], Iterable[Path]]) -> dict[Path, bytes]:
    return {file: stamp_of(file) for file in unhurried(files())}


def _listening(files: Callable[[], Iterable[Path]]) -> Inotify:
    """What tells of these files."""
    found = tuple(files())
    inotify = Inotify()
    try:
        inotify.watch(_folders(found), unhurried(found))
    except BaseException:
        inotify.close()
        raise
    return inotify


def _folders(files: Iterable[Path]) -> tuple[Path, ...]:
    """Where the files are, and where the links lead that they are reached by."""
    found: dict[Path, None] = {}
    for file in unhurried(files):
        for folder in (file.parent, file.resolve().parent):
            if folder.is_dir():
                found[folder.absolute()] = None
    return tuple(found)
