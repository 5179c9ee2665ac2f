"""Files on disk: patterns of `include:`, and stamps that tell whether a file has changed since it was read."""

import fnmatch
import glob
import hashlib
import stat
from collections.abc import Iterable
from pathlib import Path

NOTHING = b""
"""The stamp of a missing or unreadable file, and of one that is not a regular file: a pipe can be read only once."""


def stamp(data: bytes) -> bytes:
    """Return the stamp of these contents: their SHA-256."""
    return hashlib.sha256(data).digest()


def stamp_of(path: Path) -> bytes:
    """Return the stamp of a file as it is now."""
    try:
        return stamp(path.read_bytes()) if path.is_file() else NOTHING
    except (OSError, ValueError):
        return NOTHING


def matching(pattern: str, folder: Path) -> list[Path]:
    """Return the regular files that a pattern matches, by name.

    As `glob` does, but an unreadable folder and a dangling link are errors, because agents would silently be missing.

    Args:
        pattern: Relative to `folder`, or absolute; `*`, `?` and `[…]` stand for parts of one name, and match a leading
            dot only if the pattern has it.

    Raises:
        OSError: A folder or file on the way cannot be read; the error names it.
        ValueError: No file can have this name.
    """
    paths = [folder]
    for part in Path(pattern).parts:
        if glob.has_magic(part):
            paths = [each / name for each in paths for name in _names(each, part)]
        else:
            paths = [each / part for each in paths]
    return sorted((each for each in paths if _is_file(each)), key=str)


def any_matches(patterns: Iterable[str], folder: Path) -> bool:
    """Return whether one of the patterns matches a file now, without an error."""
    for pattern in patterns:
        try:
            if matching(pattern, folder):
                return True
        except (OSError, ValueError):
            continue
    return False


def _names(folder: Path, pattern: str) -> list[str]:
    try:
        names = [each.name for each in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [each for each in fnmatch.filter(names, pattern) if pattern.startswith(".") or not each.startswith(".")]


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            # Its target is missing, such as an unmounted volume; a file that was removed on purpose leaves no link.
            raise
        return False
