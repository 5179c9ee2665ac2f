"""Sockets that are listened on, and a server that starts and stops without signals of its own."""

import asyncio
import resource
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.listener.server import (
    ListenFailed,
    address_of,
    allowed_connections,
    bind,
    raise_file_limit,
    reserve,
    server_tls,
)
from tests.listener.front import Tls, fronting, patient, starved
from tests.loops import FAST
from tests.support.scripted import WAIT
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@for_each("address", ["127.0.0.1:0", "localhost:0", "[::1]:0", "0.0.0.0:0", ":0"])
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


@for_each("shares", [0, 1])
def test_a_port_is_reserved_where_connections_linger_and_not_where_another_program_listens(shares: int) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shares)
        other.bind(("127.0.0.1", 0))
        address = address_of(other)
        reserve(address).close()
        other.listen()
        with pytest.raises(ListenFailed, match="Address already in use"):
            reserve(address)


@for_each("address", ["127.0.0.1:99999", "127.0.0.1:x", "192.0.2.1:0", "no.such.host.invalid:0"])
def test_an_address_that_is_none_of_ours_is_told(address: str) -> None:
    with pytest.raises(ListenFailed, match="cannot listen on"):
        bind(address)


async def test_a_server_leaves_signals_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with fronting() as front:
        assert front.server.address == f"127.0.0.1:{front.port}"
        client = await front.client()
        await client.send(GET)
        assert (await client.answer()).status == 200
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


async def test_closing_waits_a_little_and_then_no_longer() -> None:
    async with fronting(patient) as front:
        client = await front.client()
        await client.send(GET)
        await front.until(lambda: len(front.heads) == 1)
        async with asyncio.timeout(WAIT):
            await front.server.aclose(0.05)
        assert await client.ended() == b""
        assert front.cancelled == 1


async def test_tls_is_1_2_or_later_and_speaks_http_1_1(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    async with fronting(tls=tls) as front:
        tls.client.set_alpn_protocols(["h2", "http/1.1"])
        client = await front.client()
        secured = client.writer.get_extra_info("ssl_object")
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
        assert secured.selected_alpn_protocol() == "http/1.1"
        await client.send(GET)
        assert (await client.answer()).status == 200
        assert front.heads[0].scheme == "https"
        old = tls.client
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await front.client()).writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await front.client()
        assert len(front.heads) == 1


# ---- What the file and the system allow ----------------------------------------------------------------------------


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_there_are_no_more_connections_than_files(few_files: None) -> None:
    assert allowed_connections(20_000) == 900
    assert allowed_connections(5) == 5


def test_two_listeners_have_no_more_connections_together_than_there_are_files(few_files: None) -> None:
    for most, beside, allowed in ((20_000, 10_000, 450), (20_000, 100, 800), (5, 10_000, 5), (10_000, 5, 895)):
        assert allowed_connections(most, beside) == allowed


def test_a_process_takes_the_files_that_it_may_have(few_files: None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 1_048_576), hard)
    raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 1_048_576)
    assert allowed_connections(20_000) == min(int(min(hard, 1_048_576) * 0.9), 20_000)


def test_a_system_without_a_limit_is_asked_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))
    for found in ((resource.RLIM_INFINITY,) * 2, (1024, resource.RLIM_INFINITY), (2_000_000, 2_000_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, pair=found: pair)
        raise_file_limit()
    assert asked == [(1_048_576, resource.RLIM_INFINITY)]
    assert allowed_connections(20_000) == 20_000
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert allowed_connections(20_000) == 20_000


@pytest.mark.parametrize("anyio_backend", [FAST])
@undisturbed(0.5)
async def test_a_server_that_has_no_file_left_serves_again_when_it_has(anyio_backend: object) -> None:
    async with fronting() as front:
        loop = asyncio.get_running_loop()
        with socket.socket() as waiting:
            waiting.setblocking(False)
            with starved():
                await loop.sock_connect(waiting, ("127.0.0.1", front.port))
                await asyncio.sleep(0.1)
        started = loop.time()
        client = await front.client()
        await client.send(GET)
        assert (await client.answer()).status == 200
        assert loop.time() - started < 1


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
        ("chain", "other_key", "other.pem is not the private key of the certificate"),
        ("key", "chain", "key.pem has no certificate"),
        ("text", "key", "text.pem has no certificate"),
        ("chain", "text", "text.pem has no private key"),
        ("chain", "missing", "No such file or directory"),
        ("folder", "key", "is a folder, not a file"),
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
    with pytest.raises(ListenFailed, match=r"locked\.pem is under a passphrase"):
        server_tls(files.chain, locked)
