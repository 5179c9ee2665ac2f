"""The PROXY protocol in front of HTTP and TLS: listed peers have to send version 2, and no other may."""

import asyncio
import ipaddress
import ssl
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.listener.handshake import HeaderRefused, client_of, rest_of
from tests.listener.front import Front, Tls, fronting, limited
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
PROXY = ["127.0.0.1"]


def header(
    client: str = "192.0.2.7", *, command: int = 0x21, family: int | None = None, extensions: bytes = b"", cut: int = 0
) -> bytes:
    address = ipaddress.ip_address(client)
    server = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    body = address.packed + server.packed + struct.pack("!HH", 40000, 443)
    rest = body[: len(body) - cut] + extensions
    known = 0x11 if address.version == 4 else 0x21
    return SIGNATURE + bytes((command, known if family is None else family)) + struct.pack("!H", len(rest)) + rest


def read(data: bytes) -> str | None:
    rest = rest_of(data[:16])
    assert len(data) == 16 + rest
    return client_of(data[:16], data[16:])


async def said(front: Front, *pieces: bytes) -> bytes:
    """Return the answer on a new connection to these pieces, until it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    answer = b""
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(WAIT):
            answer = await reader.read()
    writer.close()
    return answer


async def test_a_listed_peer_tells_the_client_and_anything_but_version_2_is_closed() -> None:
    tlv = b"\x04\0\x03abc"
    taken = [
        (header(), "192.0.2.7"),
        (header("2001:db8::7"), "2001:db8::7"),
        (header("::ffff:192.0.2.7"), "192.0.2.7"),
        (header(extensions=tlv * 20), "192.0.2.7"),
        (header(command=0x20), "127.0.0.1"),
        (header(command=0x20, family=0, cut=12), "127.0.0.1"),
        (header(family=0), "127.0.0.1"),
    ]
    refused = [
        b"",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 443\r\n",
        header(command=0x11),
        header(command=0x22),
        header(family=0x12),
        header(cut=1),
        header(extensions=bytes(5000)),
    ]
    async with fronting(limits=limited(header_timeout=0.3), proxies=PROXY) as front:
        for sent, peer in taken:
            assert b"GET /" in await said(front, sent + GET), sent
            assert front.heads[-1].peer == peer
        assert b"GET /" in await said(front, *(header()[at : at + 1] for at in range(28)), GET)
        assert len(front.heads) == len(taken) + 1
        for sent in refused:
            assert await said(front, sent + GET) == b"", sent
        # A part of a header has a deadline.
        assert await said(front, header()[:20]) == b""
        assert len(front.heads) == len(taken) + 1
        assert [status for status, _ in front.refused] == [400] * (len(refused) + 1)


async def test_a_peer_that_is_not_listed_is_refused_with_a_header_and_served_without_one() -> None:
    async with fronting(proxies=["192.0.2.0/24"]) as front:
        assert b" 400 " in await said(front, header() + GET)
        assert b"GET /" in await said(front, GET)
        assert [head.peer for head in front.heads] == ["127.0.0.1"]


async def test_limits_count_the_client_and_not_the_proxy() -> None:
    async with fronting(limits=limited(connections_per_peer=1), proxies=PROXY) as front:
        first = await front.client()
        first.writer.write(header("192.0.2.1"))
        await front.until(lambda: "192.0.2.1" in front.edge.connection_limit.networks)
        assert b"GET /" in await said(front, header("192.0.2.2") + GET)
        assert await said(front, header("192.0.2.1") + GET) == b""
        assert front.refused == [(503, "there are too many connections")]


async def test_tls_follows_the_header(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    async with fronting(tls=tls, proxies=PROXY) as front:
        assert front.tls is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(header("2001:db8::9", extensions=b"\x01\0\x02h2"))
        await writer.start_tls(front.tls, server_hostname="127.0.0.1")
        writer.write(GET)
        async with asyncio.timeout(WAIT):
            assert b"GET /" in await reader.read()
        writer.close()
        assert [(head.peer, head.scheme) for head in front.heads] == [("2001:db8::9", "https")]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", front.port, ssl=front.tls, server_hostname="127.0.0.1")


@given(st.ip_addresses(), st.binary(max_size=300))
def test_any_client_is_read_back_and_extensions_change_nothing(
    client: ipaddress.IPv4Address | ipaddress.IPv6Address, extensions: bytes
) -> None:
    mapped = client.ipv4_mapped if isinstance(client, ipaddress.IPv6Address) else None
    assert read(header(str(client), extensions=extensions)) == str(mapped or client)


@given(st.binary(max_size=8), st.binary(min_size=4, max_size=80))
def test_bytes_are_an_address_or_refused(start: bytes, rest: bytes) -> None:
    fixed = (SIGNATURE + start + rest)[:16]
    try:
        length = rest_of(fixed)
        found = client_of(fixed, rest[:length])
    except HeaderRefused:
        return
    if found is not None:
        ipaddress.ip_address(found)
