"""What a file said when it was read, so that it is known whether it says something else by now."""

import hashlib
from pathlib import Path

NOTHING = b""
"""Of what cannot be read, or is no regular file: a pipe says a thing once."""


def stamp(data: bytes) -> bytes:
    """That of these bytes: their SHA-256."""
    return hashlib.sha256(data).digest()


def stamp_of(path: Path) -> bytes:
    """That of a file as it is now."""
    try:
        return stamp(path.read_bytes()) if path.is_file() else NOTHING
    except (OSError, ValueError):
        return NOTHING
