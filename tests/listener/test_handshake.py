"""TLS: strangers who do not shake hands count from the first byte, and nobody's end of it hangs."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.call import Head
from gateway.listener.http1 import ClientResponder
from tests.listener.front import TEXT, Front, Tls, fronting, limited, patient, starved, streams
from tests.support.gateway import request
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.anyio

GET = request("GET", "/", None)


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path)


def shaking(front: Front) -> int:
    """Connections that have not shaken hands yet, and those that have."""
    return front.edge.connection_limit.size


async def test_requests_are_served_over_tls_as_they_are_without(tls: Tls) -> None:
    async with fronting(tls=tls) as front:
        client = await front.client()
        for body in (b"one", b"x" * 1_000_000):
            await client.ask("POST", "/", body)
            assert (await client.answer()).body == body
        assert front.heads[0].scheme == "https"
        assert front.heads[0].peer == "127.0.0.1"
        assert front.connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@undisturbed(0.5)
async def test_a_handshake_that_does_not_end_is_cut(tls: Tls) -> None:
    async with fronting(limits=limited(tls_handshake=0.2), tls=tls) as front:
        silent, slow = await front.client(ssl=None), await front.client(ssl=None)
        await slow.send(b"\x16\x03\x01\x02\x00\x01")
        started = asyncio.get_running_loop().time()
        assert await silent.ended() == b""
        assert await slow.ended() == b""
        assert asyncio.get_running_loop().time() - started < 2
        await front.rested()


@pytest.mark.parametrize("data", [GET, b"\x00" * 100, b"\x16\x03\x01\x00\x05hello", b"\xff"])
@undisturbed(0.1)
async def test_a_malformed_handshake_is_closed_and_forgotten(tls: Tls, data: bytes) -> None:
    async with fronting(limits=limited(tls_handshake=0.3), tls=tls) as front:
        client = await front.client(ssl=None)
        await client.send(data)
        # At most an alert of TLS.
        assert len(await client.ended()) < 20
        await front.rested()
        assert front.heads == []
        client = await front.client()
        await client.send(GET)
        assert (await client.answer()).status == 200


async def test_a_client_that_leaves_in_its_handshake_is_forgotten(tls: Tls) -> None:
    async with fronting(tls=tls) as front:
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
            client = await front.client(ssl=None)
            if sent:
                await client.send(sent)
            await front.until(lambda: shaking(front) == 1)
            client.leave()
            await front.rested()


async def test_an_unfinished_handshake_counts_as_a_connection(tls: Tls) -> None:
    async with fronting(limits=limited(connections=3, tls_handshake=5), tls=tls) as front:
        silent = [await front.client(ssl=None) for _ in range(3)]
        await front.until(lambda: shaking(front) == 3)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await front.client()
        assert front.refused == [(503, "there are too many connections")]
        silent[0].leave()
        await front.until(lambda: shaking(front) == 2)
        client = await front.client()
        await client.send(GET)
        assert (await client.answer()).status == 200
        assert shaking(front) == 3


async def test_a_server_that_has_no_file_left_accepts_again_when_it_has(
    tls: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    async with fronting(tls=tls) as front:
        loop = asyncio.get_running_loop()
        with socket.socket() as waiting:
            waiting.setblocking(False)
            with starved():
                await loop.sock_connect(waiting, ("127.0.0.1", front.port))
                await front.until(lambda: "Too many open files" in caplog.text)
                await asyncio.sleep(0.2)
            # Said now and then, not in a busy loop.
            assert len(caplog.records) < 10
            await front.until(lambda: shaking(front) == 1)
        client = await front.client()
        await client.send(GET)
        assert (await client.answer()).status == 200


@pytest.mark.parametrize("serve", [patient, streams])
async def test_a_client_that_leaves_over_tls_ends_its_request(tls: Tls, serve: Any) -> None:
    for clean in (True, False):
        async with fronting(serve, tls=tls) as front:
            client = await front.client()
            await client.send(GET)
            await front.until(lambda: len(front.heads) == 1)
            if clean:
                client.writer.close()
            else:
                client.leave()
            await front.until(lambda: not front.edge.tasks)
            assert (front.gone, front.cancelled) == (1, 1)
            await front.rested()


@undisturbed(0.5)
async def test_a_client_that_does_not_say_goodbye_is_not_waited_for(tls: Tls) -> None:
    async with fronting(limits=limited(write_stall=0.3), tls=tls) as front:
        # A client that shakes hands and asks, and then does nothing at all, not even answer the end.
        inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
        secured = tls.client.wrap_bio(inside, outside, server_hostname="127.0.0.1")
        plain = await front.client(ssl=None)
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                await plain.send(outside.read())
                inside.write(await plain.reader.read(65536))
            else:
                break
        secured.write(GET[:-2] + b"Connection: close\r\n\r\n")
        await plain.send(outside.read())
        await front.until(lambda: len(front.heads) == 1)
        started = asyncio.get_running_loop().time()
        await front.rested()
        assert asyncio.get_running_loop().time() - started < 2


async def test_the_loss_of_a_stream_over_tls_is_no_clean_end(tls: Tls) -> None:
    async def breaks(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.open(200, [TEXT])
        await wire.write(b"first")
        await front.go.wait()
        wire.cut()

    async with fronting(breaks, tls=tls) as front:
        client = await front.client()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        await client.head()
        assert await client.reader.readexactly(5) == b"first"
        front.go.set()
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await client.reader.read()


async def test_a_server_stops_while_hands_are_shaken(tls: Tls) -> None:
    async with fronting(tls=tls) as front:
        silent = await front.client(ssl=None)
        resting = await front.client()
        await front.until(lambda: shaking(front) == 2)
        front.server.stop_accepting()
        assert await silent.ended() == b""
        assert await resting.ended() == b""
        with pytest.raises(ConnectionError):
            await front.client(ssl=None)
        await front.rested()
