"""An answer before the end of the request arrives, whatever the client is still sending, and ends the connection."""

import asyncio
import contextlib
import socket
import threading
from typing import Any

import pytest

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge
from gateway.listener import http1 as protocol
from gateway.listener.http1 import ClientResponder
from tests.listener.front import TEXT, Front, fronting, refuses
from tests.support.gateway import request
from tests.support.scripted import WAIT
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
LONG = 5 * MIB
READ = protocol.MOST_DRAINED + 32 * 1024
"""Bytes that a stubborn client sends: those that the gateway does not read must fit the smallest socket buffers."""


@pytest.fixture(autouse=True)
def long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a long drain time: connections that end before it end for another reason."""
    assert protocol.DRAIN_TIME <= 2
    monkeypatch.setattr(protocol, "DRAIN_TIME", 60.0)


async def too_large(front: Front, head: Head, wire: ClientResponder) -> None:
    try:
        await wire.read(1000)
    except BodyTooLarge as fault:
        await wire.answer(fault.http_status, [TEXT], b"too large")


class Stubborn(threading.Thread):
    """A client that sends all of its request before it reads a byte of the answer."""

    def __init__(self, port: int, data: bytes) -> None:
        super().__init__()
        self.port = port
        self.data = data
        self.said = b""
        self.start()

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(self.data)
            with contextlib.suppress(ConnectionError):
                while part := client.recv(65536):
                    self.said += part

    async def done(self) -> bytes:
        await asyncio.to_thread(self.join)
        return self.said


def framed(size: int, *, chunked: bool) -> bytes:
    if not chunked:
        return request("POST", "/", b"x" * size)
    opening = request("POST", "/", None, [(b"Transfer-Encoding", b"chunked")])
    return opening + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (size // 65536) + b"0\r\n\r\n"


@for_each("chunked", [True, False])
@for_each(("serve", "status"), [(refuses, b"401"), (too_large, b"413")])
async def test_a_refusal_arrives_although_the_client_sends_megabytes(
    serve: Any, status: bytes, *, chunked: bool
) -> None:
    async with fronting(serve) as front:
        said = await Stubborn(front.port, framed(READ, chunked=chunked)).done()
        assert said[9:12] == status
        assert said.endswith((b"who are you?", b"too large"))
        assert len(front.heads) == 1


async def test_a_client_that_waits_is_told_the_end_at_once() -> None:
    async with fronting(refuses) as front:
        client = await front.client()
        await client.ask("POST", "/", None, [(b"Content-Length", b"100")])
        assert (await client.answer()).status == 401
        assert await client.ended() == b""


@undisturbed(0.5)
async def test_a_refused_client_that_goes_on_sending_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "DRAIN_TIME", 0.5)
    async with fronting(refuses) as front:
        client = await front.client()
        started = asyncio.get_running_loop().time()
        client.writer.write(framed(64 * MIB, chunked=False))
        assert (await client.answer()).status == 401
        await front.until(lambda: not front.connections)
        assert 0.4 < asyncio.get_running_loop().time() - started < 10


async def test_only_so_many_bytes_of_a_refused_client_are_read() -> None:
    async with fronting(refuses) as front:
        client = await front.client()
        client.writer.write(framed(64 * MIB, chunked=False))
        assert (await client.answer()).status == 401
        connection = front.connection
        await front.until(lambda: connection.dropped > protocol.MOST_DRAINED)
        assert not connection.transport.is_reading()
        assert connection.dropped < protocol.MOST_DRAINED + MIB


async def test_a_client_that_left_while_nobody_read_it_is_let_go_of() -> None:
    async def later(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.when_gone(lambda: None)
        await front.go.wait()
        await wire.answer(401, [TEXT], b"who are you?")

    async with fronting(later) as front:
        client = await front.client()
        client.writer.write(framed(LONG, chunked=False))
        await front.until(lambda: bool(front.wires) and front.wires[0].unread > 65536)
        client.leave()
        await asyncio.sleep(0.05)
        front.go.set()
        await front.rested()


async def test_a_refusal_arrives_while_the_client_still_sends() -> None:
    async with fronting() as front:
        said = await Stubborn(front.port, b"GET /\r\n" + b"x" * READ).done()
        assert said.startswith(b"HTTP/1.1 400 ")


# ---- Expect: 100-continue ------------------------------------------------------------------------------------------


EXPECTS = (b"Expect", b"100-continue")


async def test_a_body_that_is_held_back_is_asked_for_when_it_is_wanted() -> None:
    async with fronting() as front:
        client = await front.client()
        for turn in range(2):
            await client.ask("POST", "/", None, [EXPECTS, (b"Content-Length", b"5")])
            async with asyncio.timeout(WAIT):
                assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n", turn
            await client.send(b"hello")
            answer = await client.answer()
            assert (answer.body, answer.header("connection")) == (b"hello", None)


@for_each(("serve", "length"), [(refuses, b"5"), (too_large, b"5000")])
async def test_a_body_that_is_not_wanted_is_not_asked_for(serve: Any, length: bytes) -> None:
    async with fronting(serve) as front:
        client = await front.client()
        await client.ask("POST", "/", None, [EXPECTS, (b"Content-Length", length)])
        said = await client.ended()
        assert said[9:12] in (b"401", b"413")
        assert b"100 Continue" not in said
        assert b"connection: close" in said


async def test_http_1_0_expects_nothing_and_nobody_expects_anything_else() -> None:
    async with fronting() as front:
        said = await front.says(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok")
        assert said.startswith(b"HTTP/1.1 200 ")
        assert b"100 Continue" not in said
        said = await front.says(request("POST", "/", b"ok", [(b"Expect", b"200-maybe")]))
        assert said.startswith(b"HTTP/1.1 417 ")
