"""Messages of a client on their way in, each behind its prefix (gRPC over HTTP/2, Length-Prefixed-Message).

Nothing of a message is read that is too long, or compressed: both stand in its prefix.
"""

import struct

from gateway.a2a.fault import BodyTooLarge, EncodedBody

PREFIX = 5
"""Bytes in front of a message."""

_PREFIX = struct.Struct(">BI")


class Messages:
    """What has come of the messages of one call."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""

    def __len__(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> None:
        """Bytes of messages; their borders do not matter."""
        # Pieces of a few bytes, kept as they come, would take twenty times their size.
        if not self._data:
            self._data = data
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += data

    def clear(self) -> None:
        """Let go of what has come."""
        self._data = b""

    def needed(self, limit: int) -> int:
        """How many bytes must have come for the next step: to the end of the prefix, or of the message behind it.

        Raises:
            BodyTooLarge: the message is longer than `limit` bytes.
            EncodedBody: it is compressed.
        """
        if len(self._data) < PREFIX:
            return PREFIX
        flag, length = _PREFIX.unpack_from(self._data)
        if flag:
            raise EncodedBody("the message must not be compressed")
        if length > limit:
            raise BodyTooLarge(f"the message exceeds {limit} bytes")
        return PREFIX + int(length)

    def take(self, size: int) -> bytes:
        """The next message, which has come.

        Args:
            size: From `needed`, its prefix included.
        """
        data = self._data
        message = bytes(data[PREFIX:size])
        if len(data) == size:
            self._data = b""
        else:
            self._data = data[size:]
        return message
