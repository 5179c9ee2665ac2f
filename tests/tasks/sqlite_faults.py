"""What befalls several stores on one file that are driven in one process: others act where they could, disks fill.

Wherever a process waits for nothing but the interpreter, or is about to hold the arrivals, another one may go on.
"""

import errno
import fcntl
import os
import sqlite3
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_file import step
from gateway.tasks.sqlite_seen import Seen
from gateway.tasks.sqlite_young import Name

_OF_SEEN = frozenset({"_last", "_turn", "_filled", "_filling", "_done", "_asked", "_filters"})
_OF_ARRIVALS = frozenset({"young", "joined", "end", "epoch", "identity"})
# How often somebody else goes on where an attribute is read or written.
_OFTEN = 0.1


class Others(Protocol):
    """Whoever acts meanwhile."""

    def others(self) -> None:
        """Have some of them go on."""

    def happens(self, chance: float) -> bool:
        """Whether something does that is this likely."""

    def fault(self, *, most: int) -> int | None:
        """How much of so many bytes is written before the disk is full; None for all of it. It may kill a process."""


class Faults:
    """Stands in for what the stores use of the system."""

    def __init__(self, world: Callable[[], Others | None]) -> None:
        self._world = world
        # Descriptors of arrivals that are held.
        self._held: set[int] = set()

    def seen(self) -> type[Seen]:
        """A filter whose thread is interrupted anywhere, and which finds no memory now and then."""
        faults = self

        class Interleaved(Seen):
            def fill(self, db: sqlite3.Connection, pause: Callable[[], object]) -> None:
                object.__setattr__(self, "filling", True)
                try:
                    super().fill(db, lambda: others(self))
                finally:
                    object.__setattr__(self, "filling", False)

            def add(self, name: Name) -> None:
                listens = self._last is not None
                super().add(name)
                faults._memory(listens=listens)

            def __getattribute__(self, name: str) -> Any:
                if name in _OF_SEEN:
                    interrupt(self)
                return super().__getattribute__(name)

            def __setattr__(self, name: str, value: object) -> None:
                if name in _OF_SEEN:
                    interrupt(self)
                super().__setattr__(name, value)

        def interrupt(seen: Seen) -> None:
            if seen.__dict__.get("filling"):
                others(seen, _OFTEN)

        def others(seen: Seen, often: float = 1.0) -> None:
            object.__setattr__(seen, "filling", False)
            faults._others(often)
            object.__setattr__(seen, "filling", True)

        return Interleaved

    def arrivals(self) -> type[Arrivals]:
        """Arrivals that are interrupted anywhere while they are not held."""
        faults = self

        class Interleaved(Arrivals):
            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name in _OF_ARRIVALS and self.__dict__.get("_file", -1) not in faults._held:
                    faults._others(_OFTEN)

            def _read(self, end: int) -> None:
                if self._file not in faults._held:
                    faults._others()
                super()._read(end)

        return Interleaved

    def locks(self) -> types.SimpleNamespace:
        """What `fcntl` has: before somebody holds the arrivals, others may."""

        def flock(file: int, how: int) -> None:
            if how == fcntl.LOCK_UN:
                self._held.discard(file)
            elif file not in self._held:
                self._others(_OFTEN)
            fcntl.flock(file, how)
            if how != fcntl.LOCK_UN:
                self._held.add(file)

        return types.SimpleNamespace(**{**vars(fcntl), "flock": flock})

    def system(self) -> types.SimpleNamespace:
        """What `os` has, where disks may be full. Nobody pulls the plug."""

        def pwrite(file: int, data: bytes, at: int) -> int:
            room = self._fault(len(data))
            # A head is in one page, of which either all of it is written or nothing.
            return os.pwrite(file, data[:room] if at or room is None else b"", at)

        def posix_fallocate(file: int, at: int, length: int) -> None:
            if self._fault(0) is not None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.posix_fallocate(file, at, length)

        def close(file: int) -> None:
            self._held.discard(file)
            os.close(file)

        changed = {"pwrite": pwrite, "posix_fallocate": posix_fallocate, "fdatasync": lambda _: None, "close": close}
        return types.SimpleNamespace(**{**vars(os), **changed})

    @contextmanager
    def step(self, db: sqlite3.Connection) -> Iterator[None]:
        """As in `sqlite_file.py`; at its end others may hold the database, or a process is killed, then or after."""
        with step(db):
            yield
            if self._fault(0) is not None:
                busy = sqlite3.OperationalError("database is locked")
                busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise busy
        self._fault(0)

    def unlink(self) -> Callable[..., None]:
        """As `Path.unlink`."""
        unlink = Path.unlink

        def unlinked(path: Path, *, missing_ok: bool = False) -> None:
            if self._fault(0) is not None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            unlink(path, missing_ok=missing_ok)

        return unlinked

    def _others(self, often: float = 1.0) -> None:
        world = self._world()
        if world is not None and (often >= 1.0 or world.happens(often)):
            world.others()

    def _memory(self, *, listens: bool) -> None:
        world = self._world()
        if listens and world is not None and world.happens(0.001):
            raise MemoryError

    def _fault(self, most: int) -> int | None:
        world = self._world()
        return None if world is None else world.fault(most=most)
