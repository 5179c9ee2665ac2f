"""The way to a Redis, as the store goes it: who is let in, what is told of failures, and nothing is sent twice."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import redis_client
from gateway.tasks.redis import RedisStore
from gateway.tasks.redis_client import LOG_EVERY, SCHEMA, RedisClient
from gateway.tasks.state_url import read_redis
from gateway.tasks.store import Note, StoreBroken
from tests.support.redis_peer import RedisPeer, friendly, until_up
from tests.support.redis_server import needs_redis, redis_server
from tests.table import for_each
from tests.tasks.asking import ACME, sighting
from tests.tasks.redis_stores import opened, used

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

LARGE = b"x" * 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def linked(url: str, clock: Clock | None = None) -> AsyncIterator[RedisClient]:
    client = RedisClient(read_redis(url), clock=clock or Clock())
    await client.open()
    try:
        yield client
    finally:
        await client.aclose()


async def broken(url: str) -> str:
    store = RedisStore(url)
    with pytest.raises(StoreBroken) as refused:
        await store.open()
    assert "s3cret" not in str(refused.value)
    return str(refused.value)


# ---- Who is let in ---------------------------------------------------------------------------------------------------


@needs_redis
async def test_a_server_that_asks_for_a_password_is_shown_it() -> None:
    with redis_server("--requirepass", "s3cret") as server:
        await used(f"redis://:s3cret@127.0.0.1:{server.port}/2")
        await used(f"redis://default:s3cret@127.0.0.1:{server.port}")
        assert "does not know the user or the password" in await broken(f"redis://:s3cret2@127.0.0.1:{server.port}")
        assert "does not know the user or the password" in await broken(f"redis://ann:s3cret@127.0.0.1:{server.port}")
        assert "asks for a password" in await broken(server.url)


@needs_redis
async def test_permanent_errors_tell_the_remedy() -> None:
    with redis_server() as server:
        assert "does not know the user or the password" in await broken(f"redis://:s3cret@127.0.0.1:{server.port}")
        assert "no such database" in await broken(f"{server.url}/9999")
        assert "no node of a cluster" in await broken(f"redis+cluster://127.0.0.1:{server.port}")
        assert "no Sentinel" in await broken(f"redis+sentinel://127.0.0.1:{server.port}/main")
        server.ask("SET", "{a2a}:schema", str(SCHEMA + 1))
        assert "a newer gateway" in await broken(server.url)
        assert server.ask("GET", "{a2a}:schema") == str(SCHEMA + 1)
        server.ask("SET", "{blue}:schema", "x")
        assert "another program" in await broken(f"{server.url}?prefix=blue")
        server.ask("SADD", "{green}:schema", "x")
        assert "another program" in await broken(f"{server.url}?prefix=green")


@needs_redis
async def test_a_user_needs_no_more_than_the_remedy_says() -> None:
    with redis_server() as server:
        server.ask("ACL", "SETUSER", "ann", "on", ">s3cret", "~{a2a}:*", "+@read")
        url = f"redis://ann:s3cret@127.0.0.1:{server.port}"
        assert "+@all -@dangerous on ~{a2a}:*" in await broken(url)
        server.ask("ACL", "SETUSER", "ann", "+@all", "-@dangerous")
        await used(url)
        assert "let it do" in await broken(f"{url}?prefix=blue")


@for_each(
    "said",
    [
        b"LOADING Redis is loading the dataset in memory",
        b"ERR max number of clients reached",
        b"MISCONF Redis is configured to save RDB snapshots",
        b"DENIED Redis is running in protected mode",
        b"CLUSTERDOWN Hash slot not served",
        b"READONLY You can't write against a read only replica.",
    ],
)
async def test_transient_errors_do_not_end_the_client(said: bytes) -> None:
    async with RedisPeer(lambda _: b"-" + said + b"\r\n") as peer, linked(peer.url) as client:
        assert not client.up
        with pytest.raises(StateUnavailable) as refused:
            await client.ask("PING")
        assert refused.value.detail == f"redis: Down, {said.split()[0].decode()}"
        assert refused.value.retry_after == 1.0
        peer.answer = friendly
        await until_up(client)


@for_each(
    ("said", "told"),
    [
        (b"ERR Client sent AUTH, but no password is set", "password"),
        (b"ERR invalid password", "password"),
        (b"ERR SELECT is not allowed in cluster mode", "no such database"),
        (b"ERR unknown command 'EVALSHA', with args beginning with: 's3cret'", "EVALSHA"),
        (b"MOVED 15495 127.0.0.1:6380", "redis+cluster://"),
    ],
)
async def test_servers_say_it_in_words_of_their_own(said: bytes, told: str) -> None:
    async with RedisPeer(lambda _: b"-" + said + b"\r\n") as peer:
        assert told in await broken(peer.url)


@needs_redis
async def test_a_server_that_evicts_keys_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with redis_server("--maxmemory-policy", "allkeys-lru") as server, caplog.at_level(logging.WARNING):
        await used(server.url)
        server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        await used(server.url)
    [line] = [record.getMessage() for record in caplog.records]
    assert "maxmemory-policy allkeys-lru" in line


# ---- Calls -----------------------------------------------------------------------------------------------------------


@needs_redis
async def test_a_script_that_the_server_has_forgotten_is_told_again() -> None:
    with redis_server() as server:
        async with linked(server.url) as client:
            assert await client.run("return {KEYS[1], ARGV[1]}", (b"k",), (b"\0\r\n",)) == [b"k", b"\0\r\n"]
            server.ask("SCRIPT", "FLUSH")
            calls = (client.run("return {KEYS[1]}", (b"k",)) for _ in range(10))
            assert await asyncio.gather(*calls) == [[b"k"]] * 10
            with pytest.raises(StateUnavailable) as refused:
                await client.ask("NONSENSE")
            assert refused.value.detail == "redis: ERR"
            assert client.up


async def test_an_unreachable_redis_can_be_opened_and_calls_fail_at_once() -> None:
    async with RedisPeer() as peer:
        url = peer.url
    async with linked(url) as client:
        call = client.ask("PING")
        with pytest.raises(StateUnavailable) as refused:
            call.send(None)
        assert refused.value.detail == "redis: Down, ConnectionRefusedError"
        assert "127.0.0.1" not in refused.value.message


async def test_a_connection_that_was_closed_while_nobody_used_it_is_nothing_to_callers() -> None:
    async with RedisPeer() as peer, linked(peer.url) as client:
        assert await client.ask("GET", b"k") == b"OK"
        peer.hang_up()
        # The loop hears of it in one of its next turns.
        for _ in range(20):
            await asyncio.sleep(0)
        assert await client.ask("GET", b"k") == b"OK"
        assert peer.connections == 2


async def test_a_call_that_was_sent_is_not_sent_again() -> None:
    async with RedisPeer() as peer, linked(peer.url) as client:
        peer.answer = lambda words: None if words[0] == b"ECHO" else friendly(words)
        call = asyncio.ensure_future(client.ask("ECHO", b"x"))
        await peer.until(lambda: peer.asked[-1][0] == b"ECHO")
        peer.hang_up()
        with pytest.raises(StateUnavailable):
            await call
        await until_up(client)
        assert sum(words[0] == b"ECHO" for words in peer.asked) == 1


@for_each("word", ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH"])
async def test_a_server_that_is_of_no_use_any_more_is_left(word: str) -> None:
    async with RedisPeer() as peer, linked(peer.url) as client:
        before = peer.connections
        peer.answer = lambda words: f"-{word} no\r\n".encode() if words[0] == b"ECHO" else friendly(words)
        with pytest.raises(StateUnavailable) as refused:
            await client.ask("ECHO", b"x")
        assert refused.value.detail == f"redis: {word}"
        await peer.until(lambda: peer.connections > before)
        await until_up(client)


@for_each("word", ["OOM", "MISCONF", "NOREPLICAS", "BUSY", "ERR", "WRONGTYPE"])
async def test_a_redis_that_refuses_one_command_serves_others(word: str) -> None:
    async with RedisPeer() as peer, linked(peer.url) as client:
        peer.answer = lambda words: f"-{word} no\r\n".encode() if words[0] == b"ECHO" else friendly(words)
        with pytest.raises(StateUnavailable) as refused:
            await client.ask("ECHO", b"x")
        assert refused.value.detail == f"redis: {word}"
        assert client.up
        assert await client.ask("GET", b"k") == b"OK"


@for_each("said", [b"nonsense\r\n", b"$x\r\n", b"-MOVED x\r\n", b"*1\r\n$-7\r\n"])
async def test_a_malformed_answer_is_a_failure(said: bytes) -> None:
    async with RedisPeer() as peer, linked(peer.url) as client:
        peer.answer = lambda words: said if words[0] == b"ECHO" else friendly(words)
        with pytest.raises(StateUnavailable):
            await client.ask("ECHO", b"x")
        await until_up(client)
        assert await client.ask("GET", b"k") == b"OK"


async def test_a_password_that_was_changed_does_not_end_it(hurried: None) -> None:
    async with RedisPeer() as peer, linked(f"redis://:s3cret@127.0.0.1:{peer.port}") as client:
        peer.answer = lambda words: b"-WRONGPASS no\r\n" if words[0] == b"AUTH" else friendly(words)
        peer.hang_up()
        while client.up:
            with pytest.raises(StateUnavailable):
                await client.ask("PING")
        tried = peer.connections
        await peer.until(lambda: peer.connections >= tried + 2)
        peer.answer = friendly
        await until_up(client)


async def test_an_outage_is_logged_every_ten_seconds_and_its_end_once(
    hurried: None, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    said = [b"-LOADING Redis is loading the dataset in memory\r\n"]
    async with (
        RedisPeer(lambda words: said[0] if said else friendly(words)) as peer,
        linked(f"redis://:s3cret@127.0.0.1:{peer.port}", clock) as client,
    ):
        for at in (0.0, LOG_EVERY - 0.1, LOG_EVERY, LOG_EVERY * 2):
            clock.now = at
            tried = peer.connections
            await peer.until(lambda tried=tried: peer.connections >= tried + 2)  # type: ignore[misc]  # the loop's own
        said.clear()
        await until_up(client)
    down, back = (
        f"redis://127.0.0.1:{peer.port} {what}" for what in ("cannot be used: LOADING", "answers again, after 20.0 s")
    )
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"{down}; calls that need it are refused"] * 3 + [back]


async def test_once_it_is_closed_nobody_is_kept_waiting() -> None:
    async with RedisPeer() as peer:
        async with linked(peer.url) as client:
            peer.answer = lambda _: None
            call = asyncio.ensure_future(client.ask("PING"))
            await peer.until(lambda: peer.asked[-1] == [b"PING"])
        with pytest.raises(StateUnavailable):
            await call
        with pytest.raises(StateUnavailable):
            await client.ask("PING")


def test_a_name_that_nobody_answers_for_keeps_one_thread_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_client, "CONNECT", 0.02)
    answered, asked = threading.Event(), []

    def look_up(name: str, *_: Any, **__: Any) -> Any:
        asked.append(name)
        answered.wait(30.0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def main() -> None:
        client = RedisClient(read_redis("redis://cache.example:1"))
        for _ in range(5):
            with pytest.raises(StateUnavailable) as refused:
                await client.enter()
            assert refused.value.detail == "redis: TimeoutError"
        answered.set()
        await client.aclose()

    asyncio.run(main())
    assert asked == ["cache.example"]


# ---- What is large ---------------------------------------------------------------------------------------------------


@needs_redis
async def test_small_calls_are_answered_while_large_ones_are_on_their_way() -> None:
    with redis_server() as server:
        async with opened(server.url) as store:
            writing = [
                asyncio.ensure_future(store.keep(Note("body", str(number), LARGE, "acme"))) for number in range(100)
            ]
            await asyncio.sleep(0)
            await store.record("crm", sighting(ACME, "t", "c"))
            assert sum(one.done() for one in writing) < len(writing) / 2
            await asyncio.gather(*writing)
            assert await store.note("body", "99") == LARGE
            await asyncio.gather(*(store.tasks("crm", ["t"]) for _ in range(500)))
            # Those for small calls, those for large ones, and the one that asks here.
            assert server.ask("CLIENT", "LIST").count(" fd=") <= 16 + 4 + 1 + 1


async def test_a_large_call_that_waits_for_its_turn_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_client, "LONGER", 0.2)
    async with RedisPeer() as peer, linked(peer.url) as client:
        peer.answer = lambda words: None if words[0] == b"ECHO" else friendly(words)
        calls = [client.ask("ECHO", LARGE, large=True) for _ in range(5)]
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(each.detail for each in told if isinstance(each, StateUnavailable)) == [
            "redis: Overloaded",
            *["redis: TimeoutError"] * 4,
        ]
        # A slow transfer is no reason to refuse all else.
        assert client.up
        assert await client.ask("GET", b"k") == b"OK"
