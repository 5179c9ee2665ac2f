"""A turn of the loop begins a few requests; the others wait in line, and what is under way goes on in between."""

import asyncio
import itertools

import pytest

from gateway.listener.http1 import AT_A_TURN
from tests.listener.front import Front, fronting, streams


@pytest.mark.anyio
async def test_requests_that_come_at_once_are_all_answered_in_turns() -> None:
    async with fronting() as front:
        clients = [await front.client() for _ in range(5 * AT_A_TURN)]
        await front.until(lambda: len(front.connections) == len(clients))
        begun: list[int] = []
        counting = asyncio.ensure_future(_count(front, begun))
        # Read by nobody until the loop request_queue: all of them are there then.
        for client in clients:
            client.writer.write(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi")
        assert {(await client.answer()).body for client in clients} == {b"hi"}
        counting.cancel()
        assert max(later - earlier for earlier, later in itertools.pairwise(begun)) <= 2 * AT_A_TURN


async def _count(front: Front, begun: list[int]) -> None:
    while True:
        begun.append(len(front.heads))
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_a_client_that_leaves_the_line_is_not_served() -> None:
    async with fronting(streams) as front:
        client = await front.client()
        await front.until(lambda: len(front.connections) == 1)
        connection = front.connection
        request_queue = front.edge.request_queue
        while request_queue.take(asyncio.get_running_loop()):
            """Nobody else begins in this turn."""
        connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n")
        connection.data_received(b"\r\n")
        assert connection.state == "queued"
        connection.eof_received()
        assert await client.ended() == b""
        assert front.heads == []
