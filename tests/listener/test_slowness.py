"""Slow clients: every wait for one has an end, and what waits for one is bounded (safety R23 to R25)."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooSlow
from gateway.listener import http1 as protocol
from gateway.listener import request_parser as incoming
from gateway.listener.http1 import ClientResponder
from tests.listener.front import TEXT, Front, echoes, fronting, limited, slow_socket
from tests.support.gateway import JSON, STREAM, Client, fronted, request
from tests.support.scripted import SSE, answers_and_hangs, chunk
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

GET = request("GET", "/", None)
BIG = 10 * 1024 * 1024


async def says_slowly(front: Front, head: Head, wire: ClientResponder) -> None:
    """Reads the body, and answers 408 where it does not come."""
    try:
        body = await wire.read(front.longest)
    except BodyTooSlow as fault:
        await wire.answer(fault.http_status, [TEXT], b"too slow")
    else:
        await wire.answer(200, [TEXT], body)


# ---- R24: requests that do not come --------------------------------------------------------------------------------


@for_each("begun", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
@undisturbed(0.1)
async def test_a_head_that_does_not_end_is_refused(begun: bytes) -> None:
    async with fronting(limits=limited(header_timeout=0.2)) as front:
        client = await front.client()
        await client.send(begun)
        assert (await client.ended()).startswith(b"HTTP/1.1 408 ")
        assert front.refused == [(408, "the headers took too long")]


@undisturbed(0.1)
async def test_a_head_that_drips_has_no_more_time_than_another() -> None:
    async with fronting(limits=limited(header_timeout=0.3)) as front:
        client = await front.client()
        started = asyncio.get_running_loop().time()
        client.writer.write(b"GET / HTTP/1.1\r\nA: ")
        reading = asyncio.ensure_future(client.ended())
        while not reading.done():
            client.writer.write(b"A")
            await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() - started < 2
        assert (await reading).startswith(b"HTTP/1.1 408 ")


@undisturbed(0.05)
async def test_a_connection_that_never_says_a_word_is_closed() -> None:
    async with fronting(limits=limited(header_timeout=0.1)) as front:
        silent, empty = await front.client(), await front.client()
        await empty.send(b"\r\n\r\n")
        assert await silent.ended() == b""
        assert await empty.ended() == b""
        assert front.refused == []


@for_each("framing", [b"Content-Length: 10\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
@for_each("begun", [b"", b"3\r\nabc\r\n"])
async def test_a_body_that_stops_is_waited_for_no_longer_than_said(framing: bytes, begun: bytes) -> None:
    async with fronting(says_slowly, limited(body_idle=0.1)) as front:
        client = await front.client()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + begun)
        answer = await client.answer()
        assert (answer.status, answer.header("connection")) == (408, "close")
        assert await client.ended() == b""


@undisturbed(0.5)
async def test_a_body_that_drips_is_refused_once_its_rate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "RATE_FROM", 0.2)
    async with fronting(says_slowly, limited(body_rate=1000)) as front:
        client = await front.client()
        await client.ask("POST", "/", None, [(b"Content-Length", b"100000")])
        reading = asyncio.ensure_future(client.answer())
        started = asyncio.get_running_loop().time()
        while not reading.done():
            await client.send(b"x")
            await asyncio.sleep(0.02)
        assert (await reading).status == 408
        assert 0.1 < asyncio.get_running_loop().time() - started < 2


@undisturbed(0.15)
async def test_a_body_that_comes_fast_enough_takes_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "RATE_FROM", 0.05)
    for rate in (100, 0):
        async with fronting(limits=limited(body_rate=rate, body_idle=0.3)) as front:
            client = await front.client()
            await client.ask("POST", "/", None, [(b"Content-Length", b"200")])
            for _ in range(20):
                await client.send(b"0123456789")
                await asyncio.sleep(0.02)
            assert (await client.answer()).body == b"0123456789" * 20


@undisturbed(0.1)
async def test_a_client_that_is_not_read_yet_is_not_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "RATE_FROM", 0.05)

    async def waits(front: Front, head: Head, wire: ClientResponder) -> None:
        await front.go.wait()
        await says_slowly(front, head, wire)

    body = b"x" * 3_000_000
    async with fronting(waits, limited(body_idle=0.2)) as front:
        client = await front.client()
        sending = asyncio.ensure_future(client.ask("POST", "/", body))
        await front.until(lambda: bool(front.wires) and front.wires[0].unread > 65536)
        await asyncio.sleep(0.4)
        # Unread bytes are not kept either.
        assert front.wires[0].unread < 600_000
        front.go.set()
        answer = await client.answer()
        assert answer.body == body
        await sending
        assert answer.header("connection") is None


# ---- R23: answers that nobody reads --------------------------------------------------------------------------------


@asynccontextmanager
async def slow_client(front: Front, data: bytes, window: int = 4096) -> AsyncIterator[socket.socket]:
    client = slow_socket(front.port, window=window)
    loop = asyncio.get_running_loop()
    try:
        await front.until(lambda: len(front.connections) == 1)
        await loop.sock_sendall(client, data)
        yield client
    finally:
        client.close()


def waiting(front: Front) -> int:
    """Bytes that wait for clients in the process, however many were written."""
    return sum(each.transport.get_write_buffer_size() for each in front.connections)


async def big(front: Front, head: Head, wire: ClientResponder) -> None:
    await wire.answer(200, [TEXT], b"x" * BIG)


async def long_stream(front: Front, head: Head, wire: ClientResponder) -> None:
    wire.open(200, [TEXT])
    while True:
        await wire.write(b"x" * 10_000)
        await asyncio.sleep(0)


async def nowait_stream(front: Front, head: Head, wire: ClientResponder) -> None:
    wire.open(200, [TEXT])
    while True:
        if not wire.write_nowait(b"x" * 10_000):
            await wire.drained()
        await asyncio.sleep(0)


async def large_pieces(front: Front, head: Head, wire: ClientResponder) -> None:
    wire.open(200, [TEXT])
    while True:
        await wire.write(b"x" * 1_000_000)


@for_each("serve", [big, long_stream, nowait_stream, large_pieces])
@undisturbed(0.2)
async def test_the_write_buffer_is_bounded_and_a_stalled_connection_ends(serve: Any) -> None:
    limits = limited(write_stall=0.5)
    async with fronting(serve, limits) as front:
        async with slow_client(front, GET):
            await front.until(lambda: bool(front.connections) and front.connection.paused)
            most = 0
            while front.connections:
                most = max(most, waiting(front))
                await asyncio.sleep(0.01)
            # One piece beside the buffer.
            assert 0 < most <= 3 * limits.write_buffer
        await front.until(lambda: not front.edge.tasks)
        assert (front.gone, front.cancelled) == (1, 1)


@undisturbed(0.2)
async def test_a_client_that_asks_on_and_reads_nothing_is_read_no_further_and_its_connection_ends() -> None:
    async def some(front: Front, head: Head, wire: ClientResponder) -> None:
        await wire.answer(200, [TEXT], b"x" * 12_000)

    # An answer that waits for the end of the turn fills the buffer.
    async with fronting(some, limited(write_buffer=8192, write_stall=0.5)) as front, slow_client(front, GET) as client:
        loop, asked = asyncio.get_running_loop(), 1
        while True:
            await front.until(lambda: len(front.heads) == asked and front.connection.state == "resting")  # noqa: B023 - asked at once
            if front.connection.paused:
                break
            await loop.sock_sendall(client, GET)
            asked += 1
        await loop.sock_sendall(client, GET)
        await front.until(lambda: not front.connections)
        assert len(front.heads) == asked


@undisturbed(0.2)
async def test_a_slow_reader_gets_all_of_it() -> None:
    async def some(front: Front, head: Head, wire: ClientResponder) -> None:
        await wire.answer(200, [TEXT], b"x" * 1_000_000)

    async with fronting(some, limited(write_stall=0.7)) as front, slow_client(front, GET, 100_000) as client:
        loop = asyncio.get_running_loop()
        received, started = 0, loop.time()
        while received < 1_000_000:
            part = await loop.sock_recv(client, 30_000)
            assert part
            received += len(part)
            await asyncio.sleep(0.03)
        assert loop.time() - started > 0.8


@undisturbed(0.2)
async def test_a_connection_whose_answer_was_read_late_goes_on() -> None:
    async def some(front: Front, head: Head, wire: ClientResponder) -> None:
        await wire.answer(200, [TEXT], b"x" * 150_000)

    async with fronting(some, limited(keep_alive=0.5)) as front, slow_client(front, GET) as client:
        loop = asyncio.get_running_loop()
        for turn in range(1, 4):
            await front.until(lambda: len(front.heads) == turn)  # noqa: B023 - asked at once
            received = 0
            while received < 150_000:
                received += len(await loop.sock_recv(client, 65536))
                await asyncio.sleep(0.002)
            await loop.sock_sendall(client, GET)


@undisturbed(0.1)
async def test_a_long_answer_before_the_end_of_the_request_arrives_whole_at_a_slow_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "DRAIN_TIME", 0.2)

    async def early(front: Front, head: Head, wire: ClientResponder) -> None:
        await wire.answer(401, [TEXT], b"x" * 500_000)

    async with fronting(early, limited(write_stall=1)) as front:
        asked = request("POST", "/", None, [(b"Content-Length", b"100")])
        async with slow_client(front, asked, 50_000) as client:
            loop = asyncio.get_running_loop()
            received = b""
            while part := await loop.sock_recv(client, 20_000):
                received += part
                await asyncio.sleep(0.01)
            assert received.endswith(b"\r\n\r\n" + b"x" * 500_000)
            # Told the end, it need not close for the gateway to be done.
            await front.until(lambda: not front.connections)


async def test_the_kernel_keeps_no_more_for_a_client_than_the_gateway_does() -> None:
    async with fronting(limits=limited(write_buffer=50_000, write_stall=7)) as front:
        client = await front.client()
        await client.send(GET)
        await client.answer()
        accepted = front.connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 50_000
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


# ---- The whole gateway ---------------------------------------------------------------------------------------------


async def test_no_heartbeat_lands_in_a_long_event_that_is_read_slowly() -> None:
    event = b'data: {"jsonrpc":"2.0","id":1,"result":{"x":"%b"}}\n\n' % (b"x" * 2_000_000)
    async with fronted(answers_and_hangs(SSE + chunk(event)), settings="heartbeat: 50ms") as (gateway, _):
        loop = asyncio.get_running_loop()
        slow = slow_socket(gateway.port)
        server = gateway.gateway.listeners.servers[0]
        await gateway.until(lambda: len(server.state.connections) == 1)
        await loop.sock_sendall(slow, request("POST", "/echo", STREAM, [JSON]))
        await gateway.until(lambda: next(iter(server.state.connections)).paused)
        await asyncio.sleep(0.3)
        client = Client(*await asyncio.open_connection(sock=slow, limit=4096))
        await client.head()
        received = b""
        while len(received) < len(event):
            received += await client.piece()
        assert event in received
        client.leave()


# ---- R25: idle connections -----------------------------------------------------------------------------------------


def memory() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - one line of the kernel's
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@undisturbed(0.5)
async def test_idle_connections_by_the_thousand_do_not_matter() -> None:
    async with fronting(echoes) as front:
        loop = asyncio.get_running_loop()
        first = await front.client()
        await first.send(GET)
        await first.answer()
        before = memory()
        sockets = []
        try:
            for _ in range(2000):
                idle = socket.socket()
                idle.setblocking(False)
                sockets.append(idle)
                await loop.sock_connect(idle, ("127.0.0.1", front.port))
                await loop.sock_sendall(idle, GET)
            await front.until(lambda: len(front.heads) == 2001)
            each = (memory() - before) / 2000
            started = time.perf_counter()
            client: Client = await front.client()
            await client.ask("POST", "/", b"good")
            assert (await client.answer()).body == b"good"
            assert time.perf_counter() - started < 1
            assert each < 20_000
        finally:
            for idle in sockets:
                idle.close()
