"""The pool: how connections are reused, bounded, queued for and let go; TLS; what is sent twice and what never is."""

import asyncio
import gc
import random
import socket
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from gateway.a2a.fault import Draining, Fault, Overloaded, UpstreamConnect, UpstreamReset
from gateway.upstream.connections import ConnectionPool, Origin, PoolLimits, client_tls
from gateway.upstream.response import Response
from tests.doubles.pooled import ask, now, pooled, send
from tests.doubles.scripted import (
    Script,
    ScriptedBackend,
    Wire,
    answers,
    answers_and_closes,
    answers_and_hangs,
    chunk,
    chunked,
    head,
    in_turn,
    refused_port,
    resets_at_once,
    whole,
)

pytestmark = pytest.mark.anyio

OK = whole(b"ok")
STREAM = head(b"transfer-encoding: chunked") + chunk(b"1")


def start(pool: ConnectionPool, body: bytes = b"{}") -> "asyncio.Task[Response]":
    return asyncio.get_running_loop().create_task(send(pool, body))


async def echoes(wire: Wire) -> None:
    """Answers each request with its own body; one in three after a pause, one in three in chunks."""
    while True:
        received = await wire.request()
        match random.randrange(3):
            case 0:
                await asyncio.sleep(random.random() * 0.01)
                await wire.send(whole(received.body))
            case 1:
                await wire.send(chunked([received.body[:3], received.body[3:]]))
            case _:
                await wire.send(whole(received.body))


def reads_and_closes(first: bytes = OK) -> Script:
    """Answers the first request, reads the second one and closes without a byte."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(first)
        await wire.request()

    return script


# ---- Reuse -----------------------------------------------------------------------------------------------------------


async def test_calls_in_a_row_share_one_connection() -> None:
    async with pooled(answers(OK, chunked([b"o", b"k"]), whole(b"", status=b"204 No Content"))) as (backend, pool):
        assert [await ask(pool) for _ in range(4)] == [b"ok", b"ok", b"", b""]
        assert len(backend.wires) == 1
        assert (pool.active, pool.idle) == (0, 1)


async def test_the_newest_connection_is_used_first() -> None:
    async with pooled(answers(OK)) as (backend, pool):
        await asyncio.gather(*(ask(pool) for _ in range(3)))
        assert (len(backend.wires), pool.idle) == (3, 3)
        newest = next(reversed(pool._resting))
        for _ in range(5):
            await ask(pool)
        assert next(reversed(pool._resting)) is newest
        assert len({received.connection for received in backend.requests[3:]}) == 1


async def test_a_connection_is_free_as_soon_as_its_answer_is_there() -> None:
    async with pooled(answers(OK), PoolLimits(connections=1)) as (_, pool):
        unread = await send(pool)
        assert await ask(pool) == b"ok"
        assert await unread.read(10, 1.0) == b"ok"


async def test_an_idle_connection_is_closed_after_its_time_and_not_before() -> None:
    async with pooled(answers(OK), PoolLimits(idle=0.2)) as (backend, pool):
        await ask(pool)
        await asyncio.sleep(0.12)  # less than the limit
        await ask(pool)
        rested = now()
        await backend.all_gone()
        assert 0.19 <= now() - rested <= 0.5
        assert len(backend.wires) == 1
        assert pool.idle == 0


async def test_an_idle_connection_that_hears_anything_is_dropped_at_once() -> None:
    for noise in (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", b"\r\n", b"x"):
        async with pooled(in_turn(answers(OK), answers(whole(b"mine")))) as (backend, pool):
            await ask(pool)
            await backend.wires[0].send(noise)
            await backend.all_gone()
            assert pool.idle == 0
            assert await ask(pool) == b"mine"


async def test_an_idle_connection_that_the_agent_closes_is_dropped_at_once() -> None:
    async with pooled(in_turn(answers(OK), answers(whole(b"mine")))) as (backend, pool):
        await ask(pool)
        backend.wires[0].close()
        async with asyncio.timeout(2.0):
            while pool.idle:  # noqa: ASYNC110 - the pool tells nobody
                await asyncio.sleep(0.001)
        assert await ask(pool) == b"mine"


@pytest.mark.parametrize("farewell", [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", b""], ids=["byte", "close"])
async def test_what_waits_in_the_kernel_is_seen_before_reuse(farewell: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool = ConnectionPool(Origin("http", "127.0.0.1", listener.getsockname()[1]))
        first = start(pool)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        agent, _ = await asyncio.get_running_loop().run_in_executor(None, listener.accept)
        with agent:
            agent.sendall(OK)
            assert await (await first).read(10, 1.0) == b"ok"
            assert pool.idle == 1
            # Between these two lines the loop does not come round.
            agent.sendall(farewell) if farewell else agent.shutdown(socket.SHUT_WR)
            second = start(pool)
            other, _ = await asyncio.get_running_loop().run_in_executor(None, listener.accept)
            with other:
                other.sendall(whole(b"mine"))
                assert await (await second).read(10, 1.0) == b"mine"
                await pool.aclose()


async def test_answers_never_cross_however_calls_are_cancelled() -> None:
    async with pooled(echoes, PoolLimits(connections=8, queue=400, queue_timeout=5.0)) as (backend, pool):

        async def call(marker: bytes) -> int:
            response = await send(pool, marker, repeatable=True)
            assert await response.read(100, 2.0) == marker
            return 1

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(call(b"marker %d" % number)) for number in range(400)]
        for number, task in enumerate(tasks):
            if number % 5 == 0:
                loop.call_later(random.random() * 0.1, task.cancel)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [end for end in ends if not isinstance(end, int | asyncio.CancelledError)]
        assert ends.count(1) >= 320
        assert (pool.active, pool.waiting) == (0, 0)
        assert pool.idle <= 8
        await backend.until(lambda: backend.open == pool.idle)


# ---- Bounds and the queue --------------------------------------------------------------------------------------------


async def test_there_are_never_more_connections_than_the_limit() -> None:
    async with pooled(echoes, PoolLimits(connections=3, queue=100, queue_timeout=5.0)) as (backend, pool):
        bodies = [b"%d" % number for number in range(60)]
        assert await asyncio.gather(*(ask(pool, body) for body in bodies)) == bodies
        assert len(backend.wires) == 3
        assert (pool.active, pool.idle) == (0, 3)


async def test_who_queues_first_is_served_first() -> None:
    async with pooled(answers(OK), PoolLimits(connections=1, queue_timeout=5.0)) as (backend, pool):
        await asyncio.gather(*(ask(pool, b"%d" % number) for number in range(20)))
        assert [received.body for received in backend.requests] == [b"%d" % number for number in range(20)]


async def test_a_newcomer_does_not_overtake_the_queue() -> None:
    async with pooled(in_turn(answers_and_hangs(STREAM), answers(OK)), PoolLimits(connections=1)) as (backend, pool):
        response = await send(pool)
        queued = start(pool, b"queued")
        await asyncio.sleep(0)
        response.close()
        late = start(pool, b"late")
        await asyncio.gather(queued, late)
        assert [received.body for received in backend.requests] == [b"{}", b"queued", b"late"]


async def test_a_full_queue_refuses_at_once() -> None:
    async with pooled(answers_and_hangs(), PoolLimits(connections=1, queue=2)) as (backend, pool):
        tasks = [start(pool) for _ in range(3)]
        await backend.until(lambda: len(backend.requests) == 1)
        assert (pool.active, pool.waiting) == (1, 2)
        began = now()
        with pytest.raises(Overloaded) as refused:
            await send(pool)
        assert now() - began < 0.1
        assert refused.value.retry_after == 1.0
        assert "127.0.0.1" not in refused.value.message
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (pool.active, pool.waiting) == (0, 0)


async def test_nobody_queues_longer_than_the_deadline() -> None:
    async with pooled(answers_and_hangs(STREAM), PoolLimits(connections=1, queue_timeout=0.2)) as (backend, pool):
        stream = await send(pool)
        began = now()
        with pytest.raises(Overloaded):
            await send(pool)
        assert 0.19 <= now() - began <= 0.5
        assert (pool.active, pool.waiting) == (1, 0)
        assert len(backend.wires) == 1
        stream.close()


async def test_a_slot_that_fails_goes_to_the_next_in_the_queue() -> None:
    limits = PoolLimits(connections=1, queue_timeout=5.0)
    async with pooled(in_turn(resets_at_once, answers_and_closes(), answers(OK)), limits) as (backend, pool):
        ends = await asyncio.gather(*(ask(pool) for _ in range(4)), return_exceptions=True)
        assert [type(end) for end in ends] == [UpstreamReset, UpstreamReset, bytes, bytes]
        assert (pool.active, pool.idle) == (0, 1)
        assert len(backend.wires) == 3


async def test_leaving_the_queue_leaves_nothing_behind() -> None:
    async with pooled(answers_and_hangs(STREAM), PoolLimits(connections=1)) as (_, pool):
        stream = await send(pool)
        queued = start(pool)
        await asyncio.sleep(0)
        assert pool.waiting == 1
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        assert pool.waiting == 0
        stream.close()
        assert pool.active == 0


async def test_a_slot_given_to_a_call_that_is_cancelled_goes_on() -> None:
    script = in_turn(answers_and_hangs(STREAM), answers(OK))
    async with pooled(script, PoolLimits(connections=1, queue_timeout=5.0)) as (_, pool):
        stream = await send(pool)
        first, second = start(pool), start(pool)
        await asyncio.sleep(0)
        stream.close()  # the slot is the first one's now, who has not woken yet
        first.cancel()
        assert await (await second).read(10, 1.0) == b"ok"
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (pool.active, pool.idle) == (0, 1)


async def test_a_connection_that_dies_while_it_is_handed_over_is_replaced() -> None:
    async with pooled(answers(OK), PoolLimits(connections=1, queue_timeout=5.0)) as (backend, pool):
        stream = await send(pool)
        await stream.read(10, 1.0)
        connection = pool._newest()
        assert connection is not None
        queued = start(pool)
        await asyncio.sleep(0)
        pool.settled(connection, reusable=True)  # handed to who waits
        connection.data_received(b"an answer nobody asked for")
        assert await (await queued).read(10, 1.0) == b"ok"
        assert len(backend.wires) == 2
        assert (pool.active, pool.idle) == (0, 1)


async def test_200_cancelled_calls_leave_no_socket_and_no_slot() -> None:
    limits = PoolLimits(connections=100, queue=200, queue_timeout=5.0)
    async with pooled(answers_and_hangs(STREAM), limits) as (backend, pool):

        async def call(number: int) -> None:
            response = await send(pool)
            if number % 2:
                await response.read(10_000, 60.0)
            else:
                while await response.chunk(60.0):
                    pass

        tasks = [asyncio.get_running_loop().create_task(call(number)) for number in range(200)]
        await backend.until(lambda: len(backend.requests) == 100)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        assert (pool.active, pool.idle, pool.waiting) == (0, 0, 0)
        began = now()
        await backend.all_gone()
        assert now() - began < 2.0
        assert not pool._open


# ---- Connecting ------------------------------------------------------------------------------------------------------


async def test_a_refusal_is_told_at_once_and_only_the_log_knows_where() -> None:
    pool = ConnectionPool(Origin("http", "127.0.0.1", refused_port()))
    began = now()
    with pytest.raises(UpstreamConnect) as refused:
        await send(pool)
    assert now() - began < 0.3
    assert type(refused.value) is UpstreamConnect
    assert refused.value.message == "the agent could not be reached"
    assert "127.0.0.1" in refused.value.detail
    assert pool.active == 0
    await pool.aclose()


async def test_a_name_that_cannot_be_resolved_is_a_failed_connect() -> None:
    pool = ConnectionPool(Origin("http", "x" * 64 + ".invalid", 80))
    with pytest.raises(UpstreamConnect):
        await send(pool)
    assert pool.active == 0


async def test_connecting_has_a_deadline_and_a_cancelled_one_leaves_nothing(authority: trustme.CA) -> None:
    async def silent(wire: Wire) -> None:
        await wire.hang()

    async with ScriptedBackend(silent) as backend:  # takes the connection, never shakes hands
        pool = ConnectionPool(Origin("https", "localhost", backend.port), tls=trusting(authority))
        began = now()
        with pytest.raises(UpstreamConnect) as failed:
            await send(pool, connect=0.2)
        assert 0.19 <= now() - began <= 0.5
        assert "0.2 s" in failed.value.detail
        assert pool.active == 0
        await backend.all_gone()

        task = asyncio.get_running_loop().create_task(send(pool, connect=60.0))
        await backend.until(lambda: backend.open == 1)
        assert pool.active == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pool.active == 0
        await backend.all_gone()


async def test_a_failed_connect_frees_its_slot_for_who_waits() -> None:
    pool = ConnectionPool(Origin("http", "127.0.0.1", refused_port()), PoolLimits(connections=1))
    ends = await asyncio.gather(*(send(pool) for _ in range(20)), return_exceptions=True)
    assert {type(end) for end in ends} == {UpstreamConnect}
    assert (pool.active, pool.waiting) == (0, 0)


# ---- Once or twice ---------------------------------------------------------------------------------------------------


async def test_a_repeatable_call_on_a_stale_connection_is_sent_once_more() -> None:
    async with pooled(in_turn(reads_and_closes(), answers(whole(b"second")))) as (backend, pool):
        await ask(pool)
        assert await ask(pool, b"again", repeatable=True) == b"second"
        assert [(received.connection, received.body) for received in backend.requests[1:]] == [
            (0, b"again"),
            (1, b"again"),
        ]
        assert (pool.active, pool.idle) == (0, 1)


async def test_a_call_that_may_not_be_repeated_is_sent_once() -> None:
    async with pooled(in_turn(reads_and_closes(), answers(whole(b"second")))) as (backend, pool):
        await ask(pool)
        with pytest.raises(UpstreamReset):
            await ask(pool, b"send")
        assert len(backend.requests) == 2
        assert (pool.active, pool.idle) == (0, 0)


async def test_a_call_is_sent_twice_at_most() -> None:
    async with pooled(reads_and_closes()) as (backend, pool):
        await asyncio.gather(ask(pool), ask(pool))
        assert pool.idle == 2
        # The second try is on a new connection, however many old ones rest.
        assert await ask(pool, repeatable=True) == b"ok"
        assert [received.connection for received in backend.requests[2:]] == [1, 2]

    async with pooled(in_turn(reads_and_closes(), answers_and_closes())) as (backend, pool):
        await ask(pool)
        with pytest.raises(UpstreamReset):
            await ask(pool, repeatable=True)
        assert len(backend.requests) == 3


async def test_a_second_try_finds_room_in_a_full_pool() -> None:
    limits = PoolLimits(connections=2)
    async with pooled(reads_and_closes(), limits) as (backend, pool):
        await asyncio.gather(ask(pool), ask(pool))
        assert await ask(pool, repeatable=True) == b"ok"
        assert (pool.active, pool.idle) == (0, 2)
        # The slot of the stale connection was free again, so the other old one may stay.
        assert backend.open == 2


async def test_a_call_that_was_answered_in_part_is_not_repeated() -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.send(b"H")

    async with pooled(script) as (backend, pool):
        await ask(pool)
        with pytest.raises(UpstreamReset):
            await ask(pool, repeatable=True)
        assert len(backend.requests) == 2


async def test_a_new_connection_that_closes_is_not_tried_again() -> None:
    async with pooled(answers_and_closes()) as (backend, pool):
        with pytest.raises(UpstreamReset):
            await ask(pool, repeatable=True)
        assert len(backend.requests) == 1


# ---- The end ---------------------------------------------------------------------------------------------------------


async def test_closing_the_pool_closes_everything_and_says_so() -> None:
    limits = PoolLimits(connections=2, queue_timeout=5.0)

    async def answers_once(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.hang()

    async with pooled(in_turn(answers_once, answers_and_hangs(STREAM)), limits) as (backend, pool):
        await ask(pool)
        resting = pool._newest()
        assert resting is not None
        streams = [await send(pool)]
        pool.settled(resting, reusable=True)
        assert (pool.active, pool.idle) == (1, 1)
        busy, queued = start(pool, b"busy"), start(pool, b"queued")
        await backend.until(lambda: backend.requests[-1].body == b"busy")
        assert pool.waiting == 1
        await asyncio.gather(pool.aclose(), pool.aclose())
        assert (pool.active, pool.idle, pool.waiting) == (0, 0, 0)
        await backend.all_gone()
        for task in (busy, queued):
            with pytest.raises(Draining):
                await task
        with pytest.raises(Draining):
            await send(pool)
        assert await streams[0].chunk(1.0) == b"1"
        with pytest.raises(Draining):
            await streams[0].chunk(1.0)


async def test_nothing_is_left_for_the_garbage_collector_to_close() -> None:
    # Unclosed transports warn when they are collected, and warnings are errors.
    async with pooled(echoes) as (_, pool):
        await asyncio.gather(*(ask(pool, b"%d" % number) for number in range(20)))
    gc.collect()


# ---- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = client_tls()
    authority.configure_trust(context)
    return context


def serving(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert(name).configure_cert(context)
    return context


class Tls(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext


async def test_agents_are_called_over_tls_and_connections_reused(authority: trustme.CA) -> None:
    pair = Tls(serving(authority), trusting(authority))
    async with pooled(
        answers(whole(b"x" * 100_000), chunked([b"y" * 100_000])), server_tls=pair.server, client_tls=pair.client
    ) as (backend, pool):
        for _ in range(5):
            assert len(await ask(pool, b"z" * 300_000)) == 100_000
        assert len(backend.wires) == 1
        secured = backend.wires[0].transport.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "http/1.1"
        assert secured.version() == "TLSv1.3"
        stream_closed_at = now()
    await backend.all_gone()
    assert now() - stream_closed_at < 1.0


async def test_a_certificate_of_somebody_else_is_a_failed_connect(authority: trustme.CA) -> None:
    stranger = trustme.CA()
    for server_tls in (serving(stranger), serving(authority, "other.example")):
        pair = Tls(server_tls, trusting(authority))
        async with pooled(answers(OK), server_tls=pair.server, client_tls=pair.client) as (backend, pool):
            with pytest.raises(UpstreamConnect) as failed:
                await send(pool)
            assert "certificate" in failed.value.detail
            assert "certificate" not in failed.value.message
            assert pool.active == 0
            assert backend.requests == []


async def test_an_agent_that_speaks_no_tls_is_a_failed_connect(authority: trustme.CA) -> None:
    async def talks(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await wire.hang()

    async with ScriptedBackend(talks) as backend:
        pool = ConnectionPool(Origin("https", "localhost", backend.port), tls=trusting(authority))
        with pytest.raises(UpstreamConnect):
            await send(pool)
        assert pool.active == 0
        await backend.all_gone()


async def test_streams_and_cuts_over_tls_are_as_without(authority: trustme.CA) -> None:
    pair = Tls(serving(authority), trusting(authority))
    async with pooled(answers_and_hangs(STREAM), server_tls=pair.server, client_tls=pair.client) as (backend, pool):
        response = await send(pool)
        assert await response.chunk(1.0) == b"1"
        began = now()
        response.close()
        await backend.all_gone()
        assert now() - began < 0.2
        assert pool.active == 0

    async with pooled(answers_and_closes(STREAM), server_tls=pair.server, client_tls=pair.client) as (_, pool):
        response = await send(pool)
        assert await response.chunk(1.0) == b"1"
        with pytest.raises(UpstreamReset):
            await response.chunk(1.0)


async def test_a_cut_below_tls_does_not_end_an_answer_without_a_length(authority: trustme.CA) -> None:
    async def cuts(wire: Wire) -> None:
        await wire.request()
        await wire.send(head() + b"half")
        await asyncio.sleep(0.05)
        wire.transport.abort()  # no farewell

    pair = Tls(serving(authority), trusting(authority))
    async with pooled(cuts, server_tls=pair.server, client_tls=pair.client) as (_, pool):
        with pytest.raises(UpstreamReset):
            await ask(pool)


async def test_a_farewell_over_tls_ends_an_answer_without_a_length(authority: trustme.CA) -> None:
    pair = Tls(serving(authority), trusting(authority))
    script = answers_and_closes(head() + b"all of it")
    async with pooled(script, server_tls=pair.server, client_tls=pair.client) as (_, pool):
        assert await ask(pool) == b"all of it"
        assert (pool.active, pool.idle) == (0, 0)


async def test_a_held_back_answer_over_tls_arrives_whole(authority: trustme.CA) -> None:
    size = 4 << 20
    pair = Tls(serving(authority), trusting(authority))
    async with pooled(answers(whole(b"x" * size)), server_tls=pair.server, client_tls=pair.client) as (backend, pool):
        response = await send(pool)
        await backend.until(lambda: response.reader.held > 64 * 1024)
        assert len(await response.read(size, 5.0)) == size
        assert pool.idle == 1


async def test_the_environment_adds_no_trust(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(pem))
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    context = client_tls()
    async with pooled(answers(OK), server_tls=serving(authority), client_tls=context) as (_, pool):
        with pytest.raises(UpstreamConnect):
            await send(pool)
    assert not (tmp_path / "keys").exists()
    async with pooled(answers(OK), server_tls=serving(authority), client_tls=client_tls(str(pem))) as (_, pool):
        assert await ask(pool) == b"ok"


def test_agents_are_verified_by_name_with_a_current_tls() -> None:
    context = client_tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("origin", "authority_of"),
    [
        (Origin("http", "agent", 80), "agent"),
        (Origin("https", "agent", 443), "agent"),
        (Origin("http", "agent", 443), "agent:443"),
        (Origin("https", "::1", 8443), "[::1]:8443"),
    ],
)
def test_the_host_header_names_the_port_where_it_is_not_the_usual_one(origin: Origin, authority_of: str) -> None:
    assert origin.authority == authority_of


async def test_whatever_fails_is_a_fault_of_the_closed_list() -> None:
    for script in (resets_at_once, answers_and_closes(), answers_and_hangs(b"garbage\r\n"), answers_and_hangs()):
        async with pooled(script) as (_, pool):
            with pytest.raises(Fault) as failed:
                await send(pool, first_byte=0.05)
            assert failed.value.outcome == "upstream_error"
