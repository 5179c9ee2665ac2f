"""Notices that files have changed: told by the system where it can, and by looking at them from time to time.

What the system tells of is folders, not files alone: editors and ConfigMaps put another file, or another link to a
folder, in the place of the old one, which whoever watches the file would never hear of. So all folders with a link on
the way to a file are listened to, and after each piece of news those that the way leads through by then. Network file
systems, and some mounts of containers, tell nothing; there only looking helps. Either way it is the contents that
count: a file that was written once more with what it said before has not changed.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
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
_MOST_LINKS = 40
"""Links on the way to a file beyond which Linux opens none."""
_MOST_ATTEMPTS = 10

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
        self._news = asyncio.Event()
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
            if not every:
                continue
            found = await self._compare(Notice.POLL)
            if not found and await aside(self._due):
                async with self._one:
                    await self._changed(Notice.POLL)
                found = True
            if found:
                # Other files may count by now, and nobody may have told of it.
                self._news.set()

    async def _listen(self) -> None:
        fault = ""
        while True:
            if not self._listens():
                await asyncio.sleep(_AGAIN)
                continue
            try:
                await self._hear()
                fault = ""
            except (OSError, RuntimeError) as error:
                # Once: a system that has no such thing will never have one.
                if fault != str(error):
                    fault = str(error)
                    logger.warning("changes of the configuration are not told by the system: %s", fault)
                await asyncio.sleep(_AGAIN)

    async def _hear(self) -> None:
        """Compare the files of now, and listen to them and their folders until there is news.

        What it is about the next one finds out, which listens by then to what lies there by then: a folder may be
        another one, though all files say the same, and may have been read already because somebody asked for it.
        """
        loop = asyncio.get_running_loop()
        self._news.clear()

        def told() -> None:
            if inotify.read():
                self._news.set()

        inotify = await aside(_listening, self._files)
        try:
            loop.add_reader(inotify.fileno(), told)
            self.listening.set()
            if not await self._compare(Notice.WATCH):
                await _settled(self._news)
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
        watched: tuple[Path, ...] = ()
        for attempt in range(_MOST_ATTEMPTS):
            # What is made or moved before its folder is watched is not told.
            folders = _folders(found)
            if folders == watched:
                break
            try:
                inotify.watch(folders, unhurried(found))
                watched = folders
            except (FileNotFoundError, NotADirectoryError):
                # It was removed since.
                if attempt == _MOST_ATTEMPTS - 1:
                    raise
    except BaseException:
        inotify.close()
        raise
    return inotify


def _folders(files: Iterable[Path]) -> tuple[Path, ...]:
    """Those in which it is decided what the files are."""
    return tuple(dict.fromkeys(folder for file in unhurried(files) for folder in _deciding(file)))


def _deciding(file: Path) -> Iterator[Path]:
    """The folders with a link on the way to a file, and the one that it is in; or where the way ends, if it does."""
    at, *rest = file.absolute().parts
    folder, left, links = Path(at), rest[::-1], 0
    while left:
        part = left.pop()
        if part == "..":
            folder = folder.parent
            continue
        try:
            link = (folder / part).readlink()
        except (OSError, ValueError):
            if left and os.path.isdir(folder / part):  # noqa: PTH112 - of what may not be looked at it says no
                folder /= part
                continue
            yield folder
            return
        links += 1
        if not left or links > _MOST_LINKS or os.access(folder, os.R_OK):
            yield folder
        if links > _MOST_LINKS:
            return
        if link.is_absolute():
            folder = Path(link.anchor)
        left += [part for part in link.parts if part != link.anchor][::-1]
