"""What Linux tells of changes to files and folders (inotify(7)), without what others do to files that they keep open.

A gateway that has its state, or a log, beside its configuration writes there with every call. Libraries that watch a
folder ask to be told of each such write, which costs more than the write does. So here a folder tells only that
something in it was made, put in another's place, removed, or closed by somebody who could write; and of the files
themselves that are looked after, every change is told.
"""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_ONLY_FOLDERS, _MASK_ADD = 0x0100_0000, 0x2000_0000

_OF_FOLDERS = (
    _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _ATTRIB | _ONLY_FOLDERS
)
# What is given as a file may be a folder that is watched already.
_OF_FILES = _MASK_ADD | _MODIFY | _ATTRIB | _CLOSE_WRITE | _DELETE_SELF | _MOVE_SELF
_READ = 1 << 16


class Inotify:
    """One queue of the kernel's, from construction until `close`.

    Raises:
        OSError: the system has no such thing, or grants no more.
    """

    def __init__(self) -> None:
        self._file = -1
        # What libc this process has is known: whoever looks for one starts a compiler.
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError("it has no inotify")
        self._file = self._told(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        """What can be read while something has changed."""
        return self._file

    def watch(self, folders: Iterable[Path], files: Iterable[Path]) -> None:
        """Tell of these from now on.

        Args:
            files: Those that are not there are passed over: it is their folders that tell of them.

        Raises:
            OSError: a folder cannot be watched, or the system watches no more.
        """
        for folder in folders:
            self._told(self._libc.inotify_add_watch(self._file, os.fsencode(folder), ctypes.c_uint32(_OF_FOLDERS)))
        for file in files:
            try:
                self._told(self._libc.inotify_add_watch(self._file, os.fsencode(file), ctypes.c_uint32(_OF_FILES)))
            except (FileNotFoundError, PermissionError, NotADirectoryError):
                continue

    def read(self) -> bool:
        """Take some of what has been told by now; whether there was anything."""
        try:
            return bool(os.read(self._file, _READ))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Let go of it."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        # It may have been made for somebody who has left.
        self.close()

    @staticmethod
    def _told(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            # `OSError` gives the class that belongs to the number.
            raise OSError(number, os.strerror(number))
        return result
