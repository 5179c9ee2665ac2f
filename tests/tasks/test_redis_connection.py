"""One connection that many calls share: each reply is for whoever asked for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.tasks import redis_connection
from gateway.tasks.redis_connection import ConnectionLost, RedisConnection, encoded
from tests.doubles.redis_peer import Answer, RedisPeer, Words, bulk, friendly
from tests.loops import both_loops

pytestmark = pytest.mark.anyio
anyio_backend = both_loops

LONG = 60.0


@asynccontextmanager
async def connected(
    answer: Answer = friendly, patience: float = LONG
) -> AsyncIterator[tuple[RedisPeer, RedisConnection]]:
    loop = asyncio.get_running_loop()
    async with RedisPeer(answer) as peer:
        _, connection = await loop.create_connection(lambda: RedisConnection(loop, patience), "127.0.0.1", peer.port)
        yield peer, connection
        connection.abort("Closed")


def echo(words: Words) -> bytes:
    return bulk(words[1])


def silent(_: Words) -> None:
    return None


async def lost(connection: RedisConnection) -> str:
    async with asyncio.timeout(LONG):
        return await connection.lost


async def test_each_reply_is_for_whoever_asked() -> None:
    async with connected(echo) as (_, connection):
        asked = [connection.ask(encoded((b"ECHO", b"%d" % number))) for number in range(100)]
        assert await asyncio.gather(*asked) == [b"%d" % number for number in range(100)]


async def test_the_reply_to_whoever_has_left_is_nobodys() -> None:
    async with connected(silent) as (peer, connection):
        asked = [connection.ask(encoded((b"ECHO", b"%d" % number))) for number in range(4)]
        await peer.until(lambda: len(peer.asked) == 4)
        asked[0].cancel()
        asked[2].cancel()
        peer.send(b":0\r\n:1\r\n:2\r\n:3\r\n")
        assert [await asked[1], await asked[3]] == [1, 3]
        peer.answer = echo
        assert await connection.ask(encoded((b"ECHO", b"x"))) == b"x"
        assert not connection.lost.done()


async def test_a_reply_that_is_late_ends_it_for_all_who_wait() -> None:
    async with connected(silent, patience=0.01) as (_, connection):
        asked = [connection.ask(encoded((b"PING",))) for _ in range(3)]
        assert await lost(connection) == "TimeoutError"
        for each in asked:
            with pytest.raises(ConnectionLost, match="TimeoutError"):
                await each
        assert not connection.unused


async def test_a_reply_that_lies_there_already_is_not_late() -> None:
    async with connected(echo, patience=0.0) as (_, connection):
        for number in range(50):
            assert await connection.ask(encoded((b"ECHO", b"%d" % number))) == b"%d" % number


async def test_whoever_waits_is_told_that_no_reply_will_come() -> None:
    def nonsense(peer: RedisPeer) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\n")

    for does, why in ((nonsense, "NoReply"), (RedisPeer.hang_up, "")):
        async with connected(silent) as (peer, connection):
            asked = connection.ask(encoded((b"PING",)))
            await peer.until(lambda peer=peer: len(peer.asked) == 1)  # type: ignore[misc]  # the loop's own
            does(peer)
            assert why in await lost(connection)
            with pytest.raises(ConnectionLost):
                await asked
            with pytest.raises(ConnectionLost, match="Closed"):
                connection.ask(encoded((b"PING",)))


async def test_a_reply_that_nobody_asked_for_ends_it() -> None:
    async with connected(silent) as (peer, connection):
        asked = connection.ask(encoded((b"PING",)))
        await peer.until(lambda: len(peer.asked) == 1)
        peer.send(b":1\r\n:2\r\n")
        assert await asked == 1
        assert await lost(connection) == "Unasked"


async def test_one_that_is_lost_while_nobody_waits_was_unused() -> None:
    async with connected() as (peer, connection):
        await connection.ask(encoded((b"PING",)))
        peer.hang_up()
        await lost(connection)
        assert connection.unused


async def test_no_more_may_wait_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_connection, "MOST_WAITING", 3)
    async with connected(silent) as (_, connection):
        asked = [connection.ask(encoded((b"PING",))) for _ in range(3)]
        with pytest.raises(ConnectionLost, match="Overloaded"):
            connection.ask(encoded((b"PING",)))
        assert not connection.lost.done()
        for each in asked:
            each.cancel()


async def test_one_that_nobody_uses_is_asked_whether_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_IDLE", 0.05), ("_QUIET", 0.02), ("_BUSY", 0.01)):
        monkeypatch.setattr(redis_connection, name, seconds)
    async with connected(patience=0.2) as (peer, connection):
        await peer.until(lambda: peer.asked.count([b"PING"]) >= 2)
        assert not connection.lost.done()
        peer.answer = silent
        assert await lost(connection) == "TimeoutError"
