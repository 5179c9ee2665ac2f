"""Short writes of one turn of the event loop, sent one right after the other.

A write to a socket wakes the process at the other end if it sleeps, which costs the writer more than all else in the
write. Where a turn serves several calls, that process takes the first message and sleeps again before the next one
is ready, and is woken for each. Sent together, the messages wake it once.
"""

import asyncio
from typing import Final

_SHORT: Final = 16 * 1024
"""Bytes of a write that may wait. For longer ones the wake counts for little."""


class WriteBatch:
    """Sends short writes at the end of the turn.

    A connection has one write that waits, and only while its transport holds nothing: waiting writes fill no buffers.
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
        """Send the waiting write now."""
        data = self._waiting.pop(transport, None)
        if data is not None and not transport.is_closing():
            transport.write(data)

    def _flush_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for transport, data in waiting.items():
            if not transport.is_closing():
                transport.write(data)
