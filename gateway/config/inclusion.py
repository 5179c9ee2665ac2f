"""Files that a pattern of `include:` matches.

As `glob` has it, but that a folder which cannot be read is an error: half of the agents would be gone without a word.
"""

import fnmatch
import glob
import stat
from collections.abc import Iterable
from pathlib import Path


def matching(pattern: str, folder: Path) -> list[Path]:
    """Those that are regular files, by name; none where there is nothing. A link that leads nowhere is an error, too.

    Args:
        pattern: Relative to `folder`, or absolute; `*`, `?` and `[…]` stand for parts of one name, and for the dot that
            it begins with only where that is written.

    Raises:
        OSError: whether there are any cannot be found out; it names the folder or the file.
        ValueError: no file can be called so.
    """
    written = Path(pattern)
    found = [folder]
    for part in written.parts:
        if glob.has_magic(part):
            found = [each / name for each in found for name in _names(each, part)]
        else:
            found = [each / part for each in found]
    return sorted((each for each in found if _is_file(each)), key=str)


def any_matches(patterns: Iterable[str], folder: Path) -> bool:
    """Whether one of these matches a file by now, and all that it matches can be found out."""
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
            # What it led to is gone, with a mount, say; what was taken away on purpose has no link any more.
            raise
        return False
