"""Headers of HTTP/2 as they are on the wire (HPACK, RFC 7541): read by the library, written without its memory.

What a client sends is read once: it compresses the same headers to the same bytes, and as long as nothing was added to
the table that these point into, they mean the same.

What the gateway writes points into the fixed table alone. Its answers differ by an id and a few bytes more, and to keep
those in a table for the next answer, which has others, is work for both sides.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from hpack import Decoder, Encoder, HeaderTuple
from hpack.table import HeaderTable

Pair = tuple[bytes, bytes]

_NAME = re.compile(rb":?[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(rb"[^\0\r\n]*")

_LONGEST_BLOCK = 1024
_MOST_BLOCKS = 8
_MOST_KNOWN = 512
_LONGEST_KNOWN = 128

# RFC 7541 appendix A.
_NAMES = {b":status": 8, b"cache-control": 24, b"content-type": 31}
_STATUSES = {b"200": b"\x88", b"400": b"\x8c", b"404": b"\x8d", b"500": b"\x8e"}
# The table of what this side sends has no room, said once (RFC 7541 §4.2, §6.3); whatever its reader grants is more.
_NO_TABLE = b"\x20"


class HeaderReader(Decoder):
    """Reads header blocks.

    Args:
        longest: Most bytes of one when it is decompressed, each header counted with 32 more (RFC 9113 §6.5.2).
    """

    def __init__(self, longest: int) -> None:
        super().__init__(max_header_list_size=longest)
        self._known: dict[bytes, Iterable[HeaderTuple]] = {}

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:  # noqa: FBT001, FBT002 - as its parent
        """The headers of a block.

        Raises:
            HPACKError: it is none, or too long.
        """
        known = self._known.get(data)
        if known is not None:
            return known
        table = self.header_table
        room, count, first = table.maxsize, len(table.dynamic_entries), _first(table)
        headers = super().decode(data, raw)
        # Whatever is added stands in front, if only for a moment.
        if table.maxsize != room or len(table.dynamic_entries) != count or _first(table) is not first:
            self._known.clear()
        elif len(data) <= _LONGEST_BLOCK:
            if len(self._known) >= _MOST_BLOCKS:
                del self._known[next(iter(self._known))]
            self._known[data] = headers
        return headers

    def forget(self) -> None:
        """Let go of what was read."""
        self._known.clear()


def _first(table: HeaderTable) -> tuple[bytes, bytes] | None:
    return table.dynamic_entries[0] if table.dynamic_entries else None


class HeaderWriter(Encoder):
    """Writes header blocks that depend on none before; the library asks for what was written already."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._block = b""

    def write(self, headers: Iterable[Pair]) -> None:
        """Write the block of these headers; the library takes it next.

        Raises:
            ValueError: one holds what no header may, so that the client would close the connection; only a fault of the
                gateway's own can bring that about.
        """
        fields = [
            _known(pair) if pair[0] not in _EACH and len(pair[1]) <= _LONGEST_KNOWN else _field(pair)
            for pair in headers
        ]
        self._block = b"".join(fields)

    def encode(self, headers: Any, huffman: bool = False) -> bytes:  # noqa: ANN401, ARG002, FBT001, FBT002 - as its parent
        """The block that was written."""
        if self._begun:
            return self._block
        self._begun = True
        return _NO_TABLE + self._block


_EACH = frozenset({b"x-request-id", b"grpc-message"})
"""Other ones in every answer that has them."""


def _field(pair: Pair) -> bytes:
    name, value = pair
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError("a header of the answer holds a line end, or has no right name")
    if name == b":status" and value in _STATUSES:
        return _STATUSES[value]
    index = _NAMES.get(name)
    # A literal that is not added to the table (§6.2.2).
    return (b"\0" + _text(name) if index is None else _number(index, 4)) + _text(value)


_known = lru_cache(_MOST_KNOWN)(_field)


def _text(data: bytes) -> bytes:
    return _number(len(data), 7) + data


def _number(value: int, bits: int) -> bytes:
    """RFC 7541 §5.1, with zeros in front of the prefix."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    written = bytearray((most,))
    value -= most
    while value >= 128:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
