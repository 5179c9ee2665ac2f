"""The first words on a connection, and what a real server has to say to them."""

import asyncio
import logging

import pytest

from gateway.tasks.redis_address import read_address
from gateway.tasks.redis_connection import RedisConnection, encoded
from gateway.tasks.redis_greeting import SCHEMA, Script, TurnedAway, greet
from gateway.tasks.store import StoreBroken
from tests.doubles.redis_peer import RedisPeer, friendly
from tests.doubles.redis_server import needs_redis, redis_server

pytestmark = pytest.mark.anyio


async def greeted(url: str, *scripts: Script) -> RedisConnection:
    loop = asyncio.get_running_loop()
    address = read_address(url)
    _, connection = await loop.create_connection(lambda: RedisConnection(loop, 10.0), "127.0.0.1", address.port)
    try:
        await greet(connection, address, scripts)
    except BaseException:
        connection.abort("Closed")
        raise
    return connection


async def refused(url: str) -> str:
    with pytest.raises(StoreBroken) as broken:
        await greeted(url)
    assert "s3cret" not in str(broken.value)
    return str(broken.value)


@needs_redis
async def test_scripts_are_known_afterwards_and_the_schema_is_written() -> None:
    script = Script("return {KEYS[1], ARGV[1]}")
    with redis_server() as server:
        connection = await greeted(server.url, script)
        assert await connection.ask(script.command((b"k",), (b"a",))) == [b"k", b"a"]
        assert await connection.ask(encoded((b"CLIENT", b"GETNAME"))) == b"a2a-gateway"
        connection.abort("Closed")
        assert server.ask("GET", "{a2a}:schema") == str(SCHEMA)


@needs_redis
async def test_a_server_that_asks_for_a_password_is_shown_it() -> None:
    with redis_server("--requirepass", "s3cret") as server:
        (await greeted(f"redis://:s3cret@127.0.0.1:{server.port}/2")).abort("Closed")
        (await greeted(f"redis://default:s3cret@127.0.0.1:{server.port}")).abort("Closed")
        assert "does not know the user or the password" in await refused(f"redis://:s3cret2@127.0.0.1:{server.port}")
        assert "does not know the user or the password" in await refused(f"redis://ann:s3cret@127.0.0.1:{server.port}")
        assert "asks for a password" in await refused(server.url)


@needs_redis
async def test_what_can_never_work_says_what_to_write_instead() -> None:
    with redis_server() as server:
        assert "does not know the user or the password" in await refused(f"redis://:s3cret@127.0.0.1:{server.port}")
        assert "no such database" in await refused(f"{server.url}/9999")
        server.ask("SET", "{a2a}:schema", str(SCHEMA + 1))
        assert "a newer gateway" in await refused(server.url)
        assert server.ask("GET", "{a2a}:schema") == str(SCHEMA + 1)
        server.ask("SET", "{blue}:schema", "x")
        assert "another program" in await refused(f"{server.url}?prefix=blue")
        server.ask("SADD", "{green}:schema", "x")
        assert "another program" in await refused(f"{server.url}?prefix=green")


@needs_redis
async def test_a_user_needs_no_more_than_the_remedy_says() -> None:
    with redis_server() as server:
        server.ask("ACL", "SETUSER", "ann", "on", ">s3cret", "~{a2a}:*", "+@read")
        told = await refused(f"redis://ann:s3cret@127.0.0.1:{server.port}")
        assert "+@all -@dangerous on ~{a2a}:*" in told
        server.ask("ACL", "SETUSER", "ann", "+@all", "-@dangerous")
        (await greeted(f"redis://ann:s3cret@127.0.0.1:{server.port}")).abort("Closed")
        assert "let it do" in await refused(f"redis://ann:s3cret@127.0.0.1:{server.port}?prefix=blue")


@needs_redis
async def test_who_may_not_write_now_is_turned_away() -> None:
    with redis_server() as server:
        server.ask("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(TurnedAway, match="READONLY"):
            await greeted(server.url)


@needs_redis
async def test_what_is_full_may_still_be_read() -> None:
    with redis_server() as server:
        (await greeted(server.url)).abort("Closed")
        server.ask("CONFIG", "SET", "maxmemory", "1")
        (await greeted(server.url)).abort("Closed")


@needs_redis
async def test_a_server_that_evicts_keys_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with redis_server("--maxmemory-policy", "allkeys-lru") as server, caplog.at_level(logging.WARNING):
        (await greeted(server.url)).abort("Closed")
        server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        (await greeted(server.url)).abort("Closed")
    [line] = [record.getMessage() for record in caplog.records]
    assert "maxmemory-policy allkeys-lru" in line


@pytest.mark.parametrize(
    "said",
    [
        b"LOADING Redis is loading the dataset in memory",
        b"ERR max number of clients reached",
        b"MISCONF Redis is configured to save RDB snapshots",
        b"DENIED Redis is running in protected mode",
        b"CLUSTERDOWN Hash slot not served",
    ],
)
async def test_what_may_pass_is_no_reason_to_give_up(said: bytes) -> None:
    async with RedisPeer(lambda _: b"-" + said + b"\r\n") as peer:
        with pytest.raises(TurnedAway, match=said.split()[0].decode()):
            await greeted(peer.url)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"ERR Client sent AUTH, but no password is set", "password"),
        (b"ERR invalid password", "password"),
        (b"ERR SELECT is not allowed in cluster mode", "no such database"),
        (b"ERR unknown command 'EVALSHA', with args beginning with: 's3cret'", "EVALSHA"),
    ],
)
async def test_older_servers_and_others_say_it_in_words_of_their_own(said: bytes, told: str) -> None:
    async with RedisPeer(lambda _: b"-" + said + b"\r\n") as peer:
        assert told in await refused(peer.url)


async def test_what_is_only_good_to_have_may_be_refused() -> None:
    async with RedisPeer(
        lambda words: b"-NOPERM no\r\n" if words[0] in (b"CLIENT", b"INFO") else friendly(words)
    ) as peer:
        (await greeted(peer.url)).abort("Closed")
