"""Sockets that are listened on, and a server that starts and stops without signals of its own."""

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.background import Background
from gateway.listener.server import HttpServer, ListenFailed, address_of, bind, server_tls

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0", "0.0.0.0:0", ":0"])
def test_an_address_is_listened_on_at_a_port_of_the_systems_choice(address: str) -> None:
    try:
        listener = bind(address)
    except ListenFailed:
        assert address == "[::1]:0", "only IPv6 may be missing"
        return
    host, _, port = address_of(listener).rpartition(":")
    assert int(port) > 0
    assert host.startswith("[") == (listener.family == socket.AF_INET6)
    listener.close()


def test_an_address_that_is_taken_is_told() -> None:
    first = bind("127.0.0.1:0")
    try:
        with pytest.raises(ListenFailed, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"):
            bind(address_of(first))
    finally:
        first.close()


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:x", "192.0.2.1:0", "no.such.host.invalid:0"])
def test_an_address_that_is_none_of_ours_is_told(address: str) -> None:
    with pytest.raises(ListenFailed, match="cannot listen on"):
        bind(address)


class App:
    """Answers each request when it is told to."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.scopes: list[dict[str, Any]] = []
        self.cancelled = 0
        if at_once:
            self.go.set()

    async def __call__(self, scope: dict[str, Any], _receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(app: App, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[HttpServer, int]]:
    listener = bind("127.0.0.1:0")
    port = listener.getsockname()[1]
    server, background = HttpServer(listener, app, tls=tls), Background()
    await server.start(background, "test")
    try:
        yield server, port
    finally:
        await server.aclose(0.05)
        await background.aclose()


async def connect(port: int, **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, **more)


async def test_a_server_serves_and_leaves_signals_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    app = App()
    async with serving(app) as (_, port):
        reader, writer = await connect(port)
        writer.write(GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
        assert app.scopes[0]["type"] == "http"
        writer.close()


async def test_forwarded_headers_change_nothing_by_themselves() -> None:
    app = App()
    async with serving(app) as (_, port):
        reader, writer = await connect(port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n\r\n")
        await reader.readuntil(b"ok")
        assert (app.scopes[0]["client"][0], app.scopes[0]["scheme"]) == ("127.0.0.1", "http")
        writer.close()


async def test_stopping_closes_what_rests_and_lets_the_rest_end() -> None:
    app = App(at_once=False)
    async with serving(app) as (server, port):
        resting, resting_writer = await connect(port)
        reader, writer = await connect(port)
        writer.write(GET)
        await app.asked.wait()
        server.stop_accepting()
        server.stop_accepting()
        async with asyncio.timeout(2):
            assert await resting.read() == b""
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await (await connect(port))[0].readexactly(1)
        app.go.set()
        async with asyncio.timeout(2):
            answer = await reader.read()
        assert answer.endswith(b"ok")
        assert b"connection: close" in answer
        writer.close()
        resting_writer.close()


async def test_closing_waits_a_little_and_then_no_longer() -> None:
    app = App(at_once=False)
    async with serving(app) as (server, port):
        reader, writer = await connect(port)
        writer.write(GET)
        await app.asked.wait()
        async with asyncio.timeout(2):
            await server.aclose(0.05)
            assert b"ok" not in await reader.read()
        assert app.cancelled == 1
        writer.close()


async def test_closing_closes_on_a_client_that_does_not_read() -> None:
    class Floods(App):
        async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            self.asked.set()
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    app = Floods()
    async with serving(app) as (server, port):
        _, writer = await connect(port, limit=1)
        writer.write(GET)
        await app.asked.wait()
        async with asyncio.timeout(2):
            await server.aclose(0.05)
        state = server._server.server_state
        assert (len(state.connections), len(state.tasks)) == (0, 0)
        writer.close()


async def test_tls_is_1_2_or_later_and_speaks_http_1_1(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    app = App()
    async with serving(app, server_tls(chain, key)) as (_, port):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        context.set_alpn_protocols(["h2", "http/1.1"])
        reader, writer = await connect(port, ssl=context, server_hostname="127.0.0.1")
        secured = writer.get_extra_info("ssl_object")
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
        assert secured.selected_alpn_protocol() == "http/1.1"
        writer.write(GET)
        await reader.readuntil(b"ok")
        assert app.scopes[0]["scheme"] == "https"
        writer.close()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(old)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        reader, writer = await connect(port, ssl=old, server_hostname="127.0.0.1")
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        writer.close()
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(port, ssl=old, server_hostname="127.0.0.1")
        assert len(app.scopes) == 1


class Files:
    """PEM files of two certificates and their keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        one, other = trustme.CA().issue_cert("127.0.0.1"), trustme.CA().issue_cert("127.0.0.1")
        self.chain = self.write("chain.pem", b"".join(blob.bytes() for blob in one.cert_chain_pems))
        self.key = self.write("key.pem", one.private_key_pem.bytes())
        self.other_key = self.write("other.pem", other.private_key_pem.bytes())
        self.text = self.write("text.pem", b"nothing of the kind\n")
        self.missing = folder / "missing.pem"

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@pytest.mark.parametrize(
    ("chain", "key", "why"),
    [
        ("chain", "other_key", "the private key is not that of the certificate"),
        ("key", "chain", "the first must be a certificate chain and the second its private key, both PEM"),
        ("text", "key", "the first must be a certificate chain"),
        ("chain", "text", "the first must be a certificate chain"),
        ("chain", "missing", "No such file or directory"),
        ("folder", "key", ""),
    ],
)
def test_a_certificate_that_cannot_be_used_is_told_with_its_files(
    tmp_path: Path, chain: str, key: str, why: str
) -> None:
    files = Files(tmp_path)
    with pytest.raises(ListenFailed) as caught:
        server_tls(getattr(files, chain), getattr(files, key))
    assert str(caught.value).startswith(f"cannot serve TLS with {getattr(files, chain)} and {getattr(files, key)}: ")
    assert why in str(caught.value)
    assert "_ssl.c" not in str(caught.value)


def test_a_key_under_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    files = Files(tmp_path)
    key = load_pem_private_key(files.key.read_bytes(), None)
    locked = files.write(
        "locked.pem", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame"))
    )
    with pytest.raises(ListenFailed, match="the private key is under a passphrase"):
        server_tls(files.chain, locked)


async def test_a_server_that_never_started_closes_its_socket() -> None:
    listener = bind("127.0.0.1:0")
    await HttpServer(listener, App()).aclose()
    assert listener.fileno() == -1
