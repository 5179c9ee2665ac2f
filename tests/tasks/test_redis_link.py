"""The way to a Redis: up, down, and what is said of it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import redis_dial, redis_link
from gateway.tasks.redis_address import read_address
from gateway.tasks.redis_greeting import Script
from gateway.tasks.redis_link import LOG_EVERY, RedisLink
from gateway.tasks.store import StoreBroken
from tests.doubles.redis_peer import RedisPeer, Words, be_patient, friendly, until_up
from tests.doubles.redis_server import needs_redis, redis_server
from tests.loops import both_loops

pytestmark = pytest.mark.anyio
anyio_backend = both_loops


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another at once."""
    monkeypatch.setattr(redis_link, "_PAUSES", (0.0, 0.001))


@asynccontextmanager
async def linked(url: str, *scripts: Script, clock: Clock | None = None) -> AsyncIterator[RedisLink]:
    link = RedisLink(read_address(url), scripts, clock=clock or Clock())
    await link.open()
    yield link
    await link.aclose()


def refused_at_once(link: RedisLink) -> StateUnavailable:
    """What a call is told that waits for nothing."""
    call = link.ask(b"PING")
    with pytest.raises(StateUnavailable) as refused:
        call.send(None)
    return refused.value


@needs_redis
async def test_scripts_and_commands_are_run() -> None:
    script = Script("return {KEYS[1], ARGV[1], ARGV[2]}")
    with redis_server() as server:
        async with linked(server.url, script) as link:
            assert link.up
            assert await link.run(script, (b"k",), (b"a", b"\0\r\n")) == [b"k", b"a", b"\0\r\n"]
            assert await link.ask(b"ECHO", b"x") == b"x"
            with pytest.raises(StateUnavailable):
                await link.ask(b"NONSENSE")
            assert link.up


@needs_redis
async def test_a_script_that_the_server_has_forgotten_is_told_again() -> None:
    script, other = Script("return 'known'"), Script("return 'never told'")
    with redis_server() as server:
        async with linked(server.url, script) as link:
            assert await link.run(other, ()) == b"never told"
            server.ask("SCRIPT", "FLUSH")
            assert await asyncio.gather(*(link.run(script, ()) for _ in range(10))) == [b"known"] * 10


async def test_a_script_that_cannot_be_told_again_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_link, "_LOAD", 0.05)
    script, forgotten = Script("return 1"), b"-NOSCRIPT no\r\n"
    async with RedisPeer() as peer, linked(peer.url) as link:
        peer.answer = lambda words: forgotten if words[0] == b"EVALSHA" else friendly(words)
        with pytest.raises(StateUnavailable) as refused:
            await link.run(script, ())
        assert refused.value.detail == "redis: NOSCRIPT"
        peer.answer = lambda words: forgotten if words[0] == b"EVALSHA" else None
        with pytest.raises(StateUnavailable) as refused:
            await link.run(script, ())
        assert refused.value.detail == "redis: TimeoutError"


async def test_where_nothing_answers_it_opens_all_the_same_and_calls_fail_at_once() -> None:
    async with RedisPeer() as peer:
        url = peer.url
    async with linked(url) as link:
        assert not link.up
        refused = refused_at_once(link)
        assert refused.retry_after == 1.0
        assert "127.0.0.1" not in refused.message + refused.detail


async def test_a_server_that_comes_up_is_found() -> None:
    said = [b"-LOADING Redis is loading the dataset in memory\r\n"]
    async with RedisPeer(lambda words: said[0] if said else friendly(words)) as peer, linked(peer.url) as link:
        refused_at_once(link)
        said.clear()
        await until_up(link)
        assert await link.ask(b"PING") == b"OK"


async def test_calls_wait_for_the_first_attempt_after_a_connection_was_lost() -> None:
    async with RedisPeer() as peer, linked(peer.url) as link:
        peer.hang_up()
        await until_up(link, up=False)
        assert await link.ask(b"PING") == b"OK"
        assert peer.connections == 2


async def test_nobody_waits_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_dial, "PATIENCE", 0.05)
    async with RedisPeer() as peer, linked(peer.url) as link:
        peer.answer = lambda _: None
        with pytest.raises(StateUnavailable) as refused:
            await link.ask(b"PING")
        assert refused.value.detail == "redis: TimeoutError"
        await until_up(link, up=False)
        refused_at_once(link)


async def test_a_call_that_was_sent_is_not_sent_again() -> None:
    async with RedisPeer() as peer, linked(peer.url) as link:
        peer.answer = lambda words: None if words[0] == b"ECHO" else friendly(words)
        call = asyncio.ensure_future(link.ask(b"ECHO", b"x"))
        await peer.until(lambda: peer.asked[-1][0] == b"ECHO")
        peer.hang_up()
        with pytest.raises(StateUnavailable):
            await call
        await until_up(link)
        assert sum(words[0] == b"ECHO" for words in peer.asked) == 1


@pytest.mark.parametrize("word", ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH"])
async def test_a_server_that_is_of_no_use_any_more_is_left(word: str) -> None:
    async with RedisPeer() as peer, linked(peer.url) as link:
        peer.answer = lambda words: f"-{word} no\r\n".encode() if words[0] == b"ECHO" else friendly(words)
        with pytest.raises(StateUnavailable) as refused:
            await link.ask(b"ECHO", b"x")
        assert refused.value.detail == f"redis: {word}"
        await peer.until(lambda: peer.connections == 2)
        await until_up(link)


@pytest.mark.parametrize("word", ["OOM", "MISCONF", "NOREPLICAS", "BUSY", "ERR", "WRONGTYPE"])
async def test_one_that_cannot_do_one_thing_may_do_others(word: str) -> None:
    async with RedisPeer() as peer, linked(peer.url) as link:
        peer.answer = lambda words: f"-{word} no\r\n".encode() if words[0] == b"ECHO" else friendly(words)
        with pytest.raises(StateUnavailable) as refused:
            await link.ask(b"ECHO", b"x")
        assert refused.value.detail == f"redis: {word}"
        assert await link.ask(b"PING") == b"OK"
        assert peer.connections == 1


async def test_what_can_never_work_is_told_when_it_opens_and_leaves_nothing() -> None:
    async with RedisPeer(lambda _: b"-WRONGPASS invalid username-password pair\r\n") as peer:
        link = RedisLink(read_address(f"redis://:s3cret@127.0.0.1:{peer.port}"))
        with pytest.raises(StoreBroken, match="password"):
            await link.open()
        refused_at_once(link)
        assert peer.connections == 1


async def test_a_password_that_was_changed_does_not_end_it(hurried: None) -> None:
    async with RedisPeer() as peer, linked(f"redis://:s3cret@127.0.0.1:{peer.port}") as link:

        def changed(words: Words) -> bytes:
            return b"-WRONGPASS no\r\n" if words[0] == b"AUTH" else friendly(words)

        peer.answer = changed
        peer.hang_up()
        await peer.until(lambda: peer.connections == 3)
        peer.answer = friendly
        await until_up(link)


async def test_it_is_said_every_ten_seconds_that_it_is_down_and_once_that_it_is_back(
    hurried: None, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    said = [b"-LOADING Redis is loading the dataset in memory\r\n"]
    with caplog.at_level(logging.WARNING, "gateway.tasks"):
        async with (
            RedisPeer(lambda words: said[0] if said else friendly(words)) as peer,
            linked(f"redis://:s3cret@127.0.0.1:{peer.port}", clock=clock) as link,
        ):
            for at in (0.0, LOG_EVERY - 0.1, LOG_EVERY, LOG_EVERY * 2):
                clock.now = at
                tried = peer.connections
                await peer.until(lambda tried=tried: peer.connections >= tried + 2)  # type: ignore[misc]  # the loop's own
            said.clear()
            await until_up(link)
            peer.hang_up()
            await until_up(link, up=False)
            await until_up(link)
    down, back = [
        f"127.0.0.1:{peer.port} {what}" for what in ("cannot be used: LOADING", "answers again, after 20.0 s")
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert [any(wanted in line for wanted in (down, back)) for line in lines] == [True] * 4
    assert [back in line for line in lines] == [False, False, False, True]
    assert "s3cret" not in caplog.text


async def test_once_it_is_closed_nobody_is_kept_waiting() -> None:
    async with RedisPeer() as peer:
        async with linked(peer.url) as link:
            peer.answer = lambda _: None
            call = asyncio.ensure_future(link.ask(b"PING"))
            await peer.until(lambda: peer.asked[-1] == [b"PING"])
        with pytest.raises(StateUnavailable):
            await call
        refused_at_once(link)


async def test_opening_may_be_cancelled() -> None:
    async with RedisPeer(lambda _: None) as peer:
        link = RedisLink(read_address(peer.url))
        opening = asyncio.ensure_future(link.open())
        await peer.until(lambda: peer.connections == 1)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        refused_at_once(link)
