"""Short writes of one turn of the event loop, sent one right after the other.

A write to a socket wakes a sleeping process at the other end, which is the largest cost of the write. If a turn serves
several calls, that process reads the first message and sleeps again before the next one is ready, so each write wakes
it. Writes that are sent together wake it once.
"""

import asyncio
from typing import Final

_SHORT: Final = 16 * 1024
"""Bytes of the longest write that may wait. In longer writes the wake-up is a small part of the cost."""


class WriteBatch:
    """Sends short writes at the end of the turn.

    A connection has at most one pending write, and only while its transport's buffer is empty.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Transport, bytes | memoryview] = {}

    def write(self, transport: asyncio.Transport, data: bytes | memoryview) -> None:
        """Send data behind earlier writes to this transport.

        Before any other use of the transport, such as to close it, call `flush`.
        """
        waiting = self._waiting
        if transport in waiting:
            self.flush(transport)
        elif len(data) <= _SHORT and not transport.get_write_buffer_size():
            if not waiting:
                asyncio.get_running_loop().call_soon(self._flush_all)
            waiting[transport] = data
            return
        transport.write(data)

    def flush(self, transport: asyncio.Transport) -> None:
        """Flush the pending write."""
        data = self._waiting.pop(transport, None)
        if data is not None and not transport.is_closing():
            transport.write(data)

    def _flush_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for transport, data in waiting.items():
            if not transport.is_closing():
                transport.write(data)
