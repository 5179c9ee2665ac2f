"""Writes of one turn: what waits, what goes at once, and that nothing is lost or overtaken."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from gateway.listener.write_batch import WriteBatch
from tests.loops import FAST

pytestmark = pytest.mark.anyio

LONG = b"x" * (16 * 1024 + 1)


class Line(asyncio.Protocol):
    """A connection whose other end is read without a loop."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.transport: asyncio.Transport
        self.lost = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)

    @property
    def arrived(self) -> bytes:
        """Return the bytes that the peer can read now."""
        try:
            return self.peer.recv(1024 * 1024)
        except BlockingIOError:
            return b""

    async def rest(self) -> bytes:
        """Return the bytes that the peer reads until the connection ends."""
        parts = []
        while part := await asyncio.get_running_loop().sock_recv(self.peer, 1024 * 1024):
            parts.append(part)
        return b"".join(parts)


@asynccontextmanager
async def line() -> AsyncIterator[Line]:
    own, peer = socket.socketpair()
    for end in (own, peer):
        end.setblocking(False)
    with peer:
        transport, made = await asyncio.get_running_loop().create_connection(lambda: Line(peer), sock=own)
        made.transport = transport
        try:
            yield made
        finally:
            if not made.lost.done():
                transport.abort()
            await made.lost


async def turn() -> None:
    """Let the turn end, and the one in which the batch is sent."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_the_short_writes_of_a_turn_go_out_at_its_end() -> None:
    batch = WriteBatch()
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(line()) for _ in range(3)]
        for each in lines:
            batch.write(each.transport, b"answer")
        assert [each.arrived for each in lines] == [b""] * 3
        await turn()
        assert [each.arrived for each in lines] == [b"answer"] * 3
        batch.write(lines[0].transport, b"again")
        await turn()
        assert lines[0].arrived == b"again"


async def test_a_second_write_goes_at_once_behind_the_first() -> None:
    batch = WriteBatch()
    async with line() as one:
        batch.write(one.transport, b"1")
        batch.write(one.transport, memoryview(b"2"))
        assert one.arrived == b"12"
        batch.write(one.transport, b"3")
        assert one.arrived == b""
        await turn()
        assert one.arrived == b"3"


async def test_a_long_write_goes_at_once() -> None:
    batch = WriteBatch()
    async with line() as one:
        batch.write(one.transport, LONG[1:])
        assert one.arrived == b""
        batch.flush(one.transport)
        assert one.arrived == LONG[1:]
        batch.write(one.transport, LONG)
        assert one.arrived == LONG


async def test_a_write_does_not_wait_where_the_peer_reads_slowly() -> None:
    # The transport itself has to pause its protocol in time.
    batch = WriteBatch()
    async with line() as one:
        flood = b"x" * 8 * 1024 * 1024
        one.transport.write(flood)
        before = one.transport.get_write_buffer_size()
        assert before
        batch.write(one.transport, b"end")
        assert one.transport.get_write_buffer_size() == before + 3
        one.transport.close()
        assert await one.rest() == flood + b"end"


async def test_flushed_bytes_arrive_before_the_close() -> None:
    batch = WriteBatch()
    async with line() as one:
        batch.write(one.transport, b"bye")
        batch.flush(one.transport)
        one.transport.close()
        await turn()
        assert await one.rest() == b"bye"


# uvloop refuses to write to a handle that is closed.
@pytest.mark.parametrize("anyio_backend", [FAST])
async def test_a_connection_that_is_gone_keeps_no_other_from_its_write(anyio_backend: object) -> None:
    batch = WriteBatch()
    async with line() as one, line() as two, line() as three:
        two.transport.abort()
        for each in (two, one, three):
            batch.write(each.transport, b"answer")
        await two.lost
        await turn()
        assert (one.arrived, three.arrived) == (b"answer", b"answer")
        assert await two.rest() == b""
