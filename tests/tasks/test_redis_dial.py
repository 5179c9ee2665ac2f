"""Dialling a Redis: names, clusters, TLS, sockets."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.tasks import redis_dial
from gateway.tasks.redis_address import read_address
from gateway.tasks.redis_connection import encoded
from gateway.tasks.redis_dial import RedisDial
from gateway.tasks.redis_greeting import TurnedAway
from gateway.tasks.redis_reply import Complaint
from tests.doubles.redis_peer import RedisPeer, Words, be_patient, friendly
from tests.doubles.redis_server import needs_redis, redis_server
from tests.loops import both_loops

pytestmark = pytest.mark.anyio
anyio_backend = both_loops


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


def dial(url: str) -> RedisDial:
    address = read_address(url)
    return RedisDial(address, (), address.open_tls())


async def reached(dialled: RedisDial) -> None:
    connection = await dialled.dial()
    try:
        assert await connection.ask(encoded((b"PING",))) in (b"PONG", b"OK")
    finally:
        connection.abort("Closed")


async def test_a_name_is_looked_up_and_each_of_its_addresses_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str, *_: Any, **__: Any) -> Any:
        assert name == "cache.example"
        return [(0, 0, 0, "", (place, 0)) for place in ("::1", "127.0.0.1", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with RedisPeer() as peer:
        await reached(dial(f"redis://cache.example:{peer.port}"))


async def test_nobody_there_is_an_error_of_the_system() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await dial(f"redis://127.0.0.1:{taken.getsockname()[1]}").dial()
    with pytest.raises(OSError, match="no name of a host"):
        await dial("redis://" + "x" * 100 + ".example").dial()


async def test_a_name_that_nobody_answers_for_keeps_one_thread_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_dial, "CONNECT", 0.02)
    answered, asked = threading.Event(), []

    def look_up(name: str, *_: Any, **__: Any) -> Any:
        asked.append(name)
        answered.wait(30.0)
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with RedisPeer() as peer:
        dialled = dial(f"redis://cache.example:{peer.port}")
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await dialled.dial()
        answered.set()
        monkeypatch.setattr(redis_dial, "CONNECT", 30.0)
        await reached(dialled)
    assert asked == ["cache.example"]


async def test_a_cluster_is_followed_to_the_shard_that_has_the_keys() -> None:
    async with RedisPeer() as shard, RedisPeer() as entrance:

        def elsewhere(words: Words) -> bytes:
            return b"-MOVED 15495 127.0.0.1:%d\r\n" % shard.port if words[0] == b"EVALSHA" else friendly(words)

        entrance.answer = elsewhere
        dialled = dial(entrance.url)
        await reached(dialled)
        await reached(dialled)
        assert (entrance.connections, shard.connections) == (1, 2)


async def test_a_shard_that_is_gone_is_asked_for_again() -> None:
    async with RedisPeer() as entrance:
        dialled = dial(entrance.url)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            gone = b"15495 127.0.0.1:%d" % taken.getsockname()[1]
            assert dialled.follow(Complaint(b"MOVED " + gone))
            with pytest.raises(ConnectionRefusedError):
                await dialled.dial()
        await reached(dialled)


@pytest.mark.parametrize("said", [b"MOVED", b"MOVED 1 h:x", b"MOVED 1 h:99999999", b"MOVED 1 ?:1", b"ASK 1 h:1"])
async def test_who_moved_nowhere_is_not_followed(said: bytes) -> None:
    async with RedisPeer(lambda words: b"-" + said + b"\r\n" if words[0] == b"EVALSHA" else friendly(words)) as peer:
        with pytest.raises(TurnedAway, match=said.split()[0].decode()):
            await dial(peer.url).dial()
        assert peer.connections == 1


async def test_a_greeting_that_fails_closes_its_connection() -> None:
    async with RedisPeer(lambda _: b"-LOADING Redis is loading the dataset in memory\r\n") as peer:
        with pytest.raises(TurnedAway, match="LOADING"):
            await dial(peer.url).dial()
        peer.answer = lambda _: None
        asking = asyncio.ensure_future(dial(peer.url).dial())
        await peer.until(lambda: peer.connections == 2)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@needs_redis
async def test_a_socket_in_the_file_system_is_dialled(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("r") / "s"
    with redis_server("--unixsocket", str(path)):
        await reached(dial(f"unix://{path}?db=3"))


@needs_redis
async def test_tls_is_spoken_and_the_server_verified(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for name, it in (("ca", authority), ("stranger", stranger)):
        it.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    own = authority.issue_cert("gateway.example")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    files = [f"--tls-{what}-file" for what in ("cert", "key", "ca-cert")]
    names = [str(tmp_path / name) for name in ("server.pem", "server.pem", "ca.pem")]
    options = [word for pair in zip(files, names, strict=True) for word in pair]
    with redis_server("--tls-port", str(port), *options):
        shown = f"ssl_certfile={tmp_path}/own.pem"
        await reached(dial(f"rediss://localhost:{port}?ssl_ca_certs={tmp_path}/ca.pem&{shown}"))
        for wrong in (f"ssl_ca_certs={tmp_path}/stranger.pem&{shown}", shown):
            with pytest.raises(OSError, match="certificate"):
                await dial(f"rediss://localhost:{port}?{wrong}").dial()
