"""What was written to a client and waits for it to read: whether it reads at all, and who waits for that."""

import asyncio
import socket
import struct
from contextlib import suppress

# On close(2): nothing is kept for the client, it is told by a reset.
_AT_ONCE = struct.pack("ii", 1, 0)


class Backlog:
    """What one client has not read yet; looked at now and then, for a client that reads slowly is no dead one."""

    __slots__ = ("_left", "_waiters")

    def __init__(self) -> None:
        self._left = 0
        self._waiters: list[asyncio.Future[None]] = []

    def look(self, transport: asyncio.Transport) -> bool:
        """Whether the client has read some of it since the last look, but not all."""
        left, before = transport.get_write_buffer_size(), self._left
        self._left = left
        return 0 < left < before

    async def moved(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until `wake`."""
        waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Tell whoever waits: the client has read, or is gone."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def end_writing(transport: asyncio.Transport) -> bool:
    """Say that nothing more will come, and go on reading; False where the client has reset the connection before."""
    if transport.can_write_eof() and not transport.is_closing():
        try:
            transport.write_eof()
        except OSError:
            # What it sent before is still unread.
            return False
    return True


def drop(transport: asyncio.Transport) -> None:
    """Close a connection by a reset, with all that waits for the client."""
    at_hand = transport.get_extra_info("socket")
    if at_hand is not None and at_hand.fileno() >= 0:
        with suppress(OSError):
            at_hand.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    # CPython 3.11.2 cannot abort a TLS transport whose connection is gone.
    with suppress(AttributeError):
        transport.abort()
