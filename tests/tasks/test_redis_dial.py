"""Connections to a Redis: a socket, TLS, Sentinels, a cluster; each a real one."""

import asyncio
from pathlib import Path

import pytest
import trustme

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import Note, RecordedOwners, StoreBroken
from tests.support.redis_peer import until_up
from tests.support.redis_server import RedisServer, free_port, needs_redis, redis_server
from tests.tasks.asking import ACME, sighting
from tests.tasks.redis_stores import opened, used

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

LARGE = b"x" * 1_000_000


@needs_redis
async def test_a_socket_in_the_file_system_is_used(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("r") / "s"
    with redis_server("--unixsocket", str(path)):
        await used(f"unix://{path}?db=3")


@needs_redis
async def test_tls_is_spoken_and_the_server_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for name, it in (("ca", authority), ("stranger", stranger)):
        it.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    own = authority.issue_cert("gateway.example")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    # The gateway ignores the authorities of the environment.
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    files = [f"--tls-{what}-file" for what in ("cert", "key", "ca-cert")]
    names = [str(tmp_path / name) for name in ("server.pem", "server.pem", "ca.pem")]
    port = free_port()
    options = [word for pair in zip(files, names, strict=True) for word in pair]
    with redis_server("--tls-port", str(port), *options):
        shown = f"ssl_certfile={tmp_path}/own.pem"
        await used(f"rediss://localhost:{port}?ssl_ca_certs={tmp_path}/ca.pem&{shown}")
        for wrong in (f"ssl_ca_certs={tmp_path}/stranger.pem&{shown}", shown):
            caplog.clear()
            async with opened(f"rediss://localhost:{port}?{wrong}") as store:
                assert not store.client.up
            assert "(TLS: unknown authority); calls that need it are refused" in caplog.text


@needs_redis
async def test_sentinels_tell_the_master_and_the_one_that_takes_its_place(hurried: None) -> None:
    with (
        redis_server() as master,
        redis_server("--replicaof", "127.0.0.1", str(master.port)) as replica,
        redis_server(watched=master.port) as sentinel,
    ):
        url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/main"
        async with opened(url) as store:
            await until_said(replica, "master_link_status:up", "INFO", "replication")
            await until_said(sentinel, f"{replica.port}", "SENTINEL", "REPLICAS", "main")
            assert await store.record("crm", sighting(ACME, "t1")) == RecordedOwners(task=ACME)
            await until_said(replica, "{a2a}:tasks", "KEYS", "*")
            master.stop()
            with pytest.raises(StateUnavailable):
                await store.open_tasks("acme")
            await until_up(store.client)
            assert "role:master" in replica.ask("INFO", "replication")
            [known] = await store.tasks("crm", ["t1"])
            assert known is not None
            assert known.owner == ACME


@needs_redis
async def test_a_cluster_is_asked_where_the_keys_are() -> None:
    buses = [str(free_port()), str(free_port())]
    enabled = ("--cluster-enabled", "yes", "--cluster-port")
    with redis_server(*enabled, buses[0]) as one, redis_server(*enabled, buses[1]) as other:
        one.ask("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
        other.ask("CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
        other.ask("CLUSTER", "MEET", "127.0.0.1", str(one.port), buses[0])
        for each in (one, other):
            await until_said(each, "cluster_state:ok", "CLUSTER", "INFO")
        for server in (one, other):
            for prefix in ("a2a", "blue", "green", "red"):
                url = f"redis+cluster://127.0.0.1:{server.port},127.0.0.1:{free_port()}?prefix={prefix}"
                async with opened(url) as store:
                    assert await store.record("crm", sighting(ACME, "t1", "c1")) == RecordedOwners(ACME, ACME)
                    await store.keep(Note("body", "n", LARGE, "acme"))
                    assert await store.note("body", "n") == LARGE
        told = [each.ask("KEYS", "*:tasks").split() for each in (one, other)]
        assert all(told)
        assert sorted(told[0] + told[1]) == [f"{{{prefix}}}:tasks" for prefix in ("a2a", "blue", "green", "red")]
        # A client of one server is told what it should have been.
        refused = [await told_of(each.url) for each in (one, other)]
        assert sorted("redis+cluster://" in each for each in refused) == [False, True]


async def told_of(url: str) -> str:
    """Return the error of opening a store; empty if there is none."""
    try:
        await used(url)
    except StoreBroken as error:
        return str(error)
    return ""


async def until_said(server: RedisServer, words: str, *command: str) -> None:
    """Wait until a server's answer to a command has words; it tells nobody of itself."""
    async with asyncio.timeout(30.0):
        while words not in server.ask(*command):  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(0.02)
