"""How the file of arrivals is laid out: a head with the epoch and the end, then lines of entries.

The head is written while others compare it in their memory. A file's first byte lies at the beginning of a page, and so
all digits of the head in one line of a processor's cache; those of the end that ever change, within eight bytes that
are copied at once. So nobody finds digits of two heads there and takes them for what it has read already. Only where an
epoch begins it may seem for a moment that nothing came in the one before; by then, all that did is in the tables.

The checksum of a line is of the epoch as well: one of another epoch, which lies where it was, is damaged.
"""

import zlib
from collections.abc import Sequence

import msgspec

from gateway.tasks.sqlite_young import Entry

LAYOUT = b"A2A gateway arrivals 2 %020d %020d\n"
"""A head; takes the epoch and the end."""
HEAD = len(LAYOUT % (0, 0))
"""Bytes of a head, and so of a file with nothing in it."""
GONE = b"A2A gateway arrivals, removed".ljust(HEAD)
"""In its place where whoever left has removed the file, or was about to."""
NONE = bytes(HEAD)
"""In its place where the file was made and not written yet, or lost its head in a power cut."""

_CHECKSUM = 8
# What a checksum may begin with.
_LOW = 0xFFFF_FFFF

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Entry]).decode


def read_head(head: bytes) -> tuple[int, int] | None:
    """The epoch and the end; None for what is no head of ours."""
    epoch, end = head[-42:-22], head[-21:-1]
    if not (epoch.isdigit() and end.isdigit()):
        return None
    found = int(epoch), int(end)
    return found if LAYOUT % found == head and found[1] >= HEAD else None


def line_of(entries: Sequence[Entry], epoch: int) -> bytes:
    """A line, with its end."""
    text = _encode(entries)
    return b"%08x%b\n" % (zlib.crc32(text, epoch & _LOW), text)


def entries_of(line: bytes, epoch: int) -> Sequence[Entry] | None:
    """What a line without its end says; None where it is damaged."""
    text = line[_CHECKSUM:]
    if line[:_CHECKSUM] != b"%08x" % zlib.crc32(text, epoch & _LOW):
        return None
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
