"""Whoever breaks the rules, or does too much of anything, is asked to go, and nobody else notices."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.call import Head
from gateway.a2a.framing.grpc import frame
from gateway.listener.edge import Edge
from gateway.listener.grpc_wire import GrpcWire
from gateway.listener.http2 import Http2Connection
from gateway.listener.http2_frames import PREFACE, Kind
from tests.doubles.undisturbed import undisturbed
from tests.listener.front import limited, slow_socket
from tests.listener.grpc_front import (
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    PROTOCOL_ERROR,
    REQUEST,
    SEND,
    STREAM,
    STREAMING,
    GrpcFront,
    bounded,
    grpc_fronting,
    ok,
    patient,
    raw_frame,
    streams,
)
from tests.loops import both_loops

pytestmark = pytest.mark.anyio


anyio_backend = both_loops


# ---- What breaks the rules -----------------------------------------------------------------------------------------

BROKEN = {
    "a frame of data without a stream": raw_frame(Kind.DATA, 0, 0, b"x"),
    "a stream of the server's": raw_frame(Kind.HEADERS, 5, 2, b"\x83"),
    "no header block": raw_frame(Kind.HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff"),
    "a push": raw_frame(Kind.PUSH_PROMISE, 4, 1, bytes(5)),
    "padding beyond the frame": raw_frame(Kind.DATA, 8, 1, b"\xff"),
    "a ping of nine bytes": raw_frame(Kind.PING, 0, 0, bytes(9)),
    "a grant of nothing": raw_frame(Kind.WINDOW_UPDATE, 0, 0, bytes(4)),
    "a window beyond all bounds": raw_frame(Kind.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
    "a setting that is none": raw_frame(Kind.SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"),
    "a frame that is too long": (20_000).to_bytes(3, "big") + bytes(6),
    "a block that is broken off": raw_frame(Kind.HEADERS, 0, 1, b"\x83") + raw_frame(Kind.PING, 0, 0, bytes(8)),
    "data before its stream": raw_frame(Kind.DATA, 1, 77, b"x"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_breaks_the_rules_ends_the_connection_and_nobody_elses(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with grpc_fronting() as front:
        other = await front.client()
        await ok(other)
        client = await front.client()
        client.send(BROKEN[name])
        await client.finished()
        assert client.goaway is not None
        assert client.goaway[0] != NO_ERROR
        assert [status for status, _ in front.refused] == [400]
        await ok(other)
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []


async def test_calls_end_with_the_connection_that_broke_the_rules() -> None:
    async with grpc_fronting(streams) as front:
        client = await front.client()
        for _ in range(3):
            client.ask(STREAMING, frame(b""))
        await client.until(lambda: len(client.body) == 3)
        client.send(BROKEN["a grant of nothing"])
        await front.until(lambda: front.gone == 3)


@pytest.mark.parametrize(
    ("what", "most"),
    [
        (raw_frame(Kind.PING, 0, 0, bytes(8)), 1000),
        (raw_frame(Kind.SETTINGS), 50),
        (raw_frame(Kind.SETTINGS, 0, 0, b"\0\4\0\0\1\0"), 50),
        (raw_frame(Kind.PRIORITY, 0, 1, bytes(5)), 1000),
        (raw_frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), 1000),
        (raw_frame(Kind.DATA, 0, 1), 1000),
        (raw_frame(Kind.DATA, 0, 1, b"x"), 1000),
        (raw_frame(0x33, 0, 0, b"x"), 1000),
        (raw_frame(Kind.RST_STREAM, 0, 99, bytes(4)), 1000),
    ],
)
async def test_a_flood_of_what_brings_no_call_forward_is_cut(what: bytes, most: int) -> None:
    async with grpc_fronting(patient) as front:
        client = await front.client()
        client.ask(end=False)
        client.send(what * (most + 200))
        await client.finished()
        assert client.goaway is not None
        assert client.goaway[0] in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)
        assert [status for status, _ in front.refused] in ([429], [400])
        assert client.pongs <= most + 10


async def test_pings_of_a_client_are_answered_and_no_offence() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        for number in range(100):
            client.h2.ping(b"%08d" % number)
            await ok(client)
        await client.until(lambda: client.pongs == 100)


async def test_a_real_client_may_ping_often() -> None:
    async with (
        grpc_fronting(streams) as front,
        front.channel(
            keepalive_time_ms=10, keepalive_timeout_ms=5000, **{"http2.max_pings_without_data": 0}
        ) as channel,
    ):
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert await call.read() == b"first"
        await asyncio.sleep(0.3)
        front.go.set()
        assert await call.read() is grpc.aio.EOF
        assert front.refused == []


# ---- Headers without end -------------------------------------------------------------------------------------------


async def test_metadata_beyond_its_bound_refuses_the_call_alone() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        refused = client.ask(body=frame(b""), more=[(b"x-a", b"x" * 40 * 1024)])
        assert await client.answer(refused) == (200, b"8", [])
        assert front.refused == [(431, "the metadata exceeds 32768 bytes")]
        await ok(client)
        # What the headers of the refused call meant is known to those that follow.
        await ok(client)


async def test_a_real_client_is_told_of_the_bound_of_metadata() -> None:
    async with grpc_fronting() as front, front.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(SEND)(b"", metadata=(("x-a", "x" * 40 * 1024),), timeout=10)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await channel.unary_unary(SEND)(b"ok", metadata=(("x-a", "x" * 20 * 1024),), timeout=10) == b"ok"


async def test_more_headers_than_a_call_may_have_refuse_it_alone() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        refused = client.ask(body=frame(b""), more=[(b"x-%d" % number, b"") for number in range(120)])
        assert await client.answer(refused) == (200, b"8", [])
        await ok(client)


async def test_metadata_without_measure_ends_the_connection() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        client.h2.remote_settings.max_header_list_size = 1 << 20
        client.ask(body=frame(b""), more=[(b"x-a", b"x" * 80 * 1024)])
        await client.finished()
        assert client.goaway == (ENHANCE_YOUR_CALM, 0)
        assert front.heads == []


async def test_a_block_that_unfolds_into_very_much_ends_the_connection() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        encoder = Encoder()
        first = encoder.encode([*REQUEST, (b"x-a", b"x" * 3000)])
        pointing = encoder.encode([(b"x-a", b"x" * 3000)])
        client.send(raw_frame(Kind.HEADERS, 5, 1, first))
        client.send(raw_frame(Kind.HEADERS, 5, 3, pointing * 10_000))
        await client.finished()
        assert client.goaway is not None
        assert client.goaway[0] in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)


@undisturbed(0.1)
async def test_headers_that_never_end_are_given_up() -> None:
    async with grpc_fronting(bounds=bounded(deadline=0.3)) as front:
        client = await front.client()
        await ok(client)
        client.send(raw_frame(Kind.HEADERS, 0, 3, b"\x83"))
        await client.finished()
        assert client.goaway == (ENHANCE_YOUR_CALM, 1)
        assert front.refused == [(408, "the headers took too long")]


async def test_continuations_without_end_are_refused() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        client.send(raw_frame(Kind.HEADERS, 0, 1, b"\x83") + raw_frame(Kind.CONTINUATION, 0, 1, b"") * 5000)
        await client.finished()
        assert client.goaway is not None
        assert front.heads == []


async def test_a_client_that_reads_nothing_is_read_no_more_and_cut() -> None:
    refused = PREFACE + raw_frame(Kind.SETTINGS)
    block = Encoder().encode([pair for pair in REQUEST if pair[0] != b"content-type"])
    limits = limited(write_buffer=4096, write_stall=1.0)
    async with grpc_fronting(limits=limits) as front:
        client, sent = slow_socket(front.port), 0
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, refused)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(4.5):
                for number in range(200_000):
                    # Each is refused by an answer that is longer than itself.
                    await loop.sock_sendall(client, raw_frame(Kind.HEADERS, 5, 2 * number + 1, block))
                    sent += 1
                    if front.connections:
                        transport = front.connections[0].transport
                        assert transport.get_write_buffer_size() < 4 * 4096 + 65_536
        await front.until(lambda: not front.connections)
        assert sent < 200_000
        client.close()


# ---- Whatever comes ------------------------------------------------------------------------------------------------


class Pipe(asyncio.Transport):
    """The other end of a connection that nobody hears."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.ended = False

    def write(self, data: Any) -> None:
        assert not self.ended

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def _nothing(self, *args: Any, **more: Any) -> None:
        pass

    close = abort = pause_reading = resume_reading = set_write_buffer_limits = _nothing


class State:
    def __init__(self) -> None:
        self.default_headers: list[tuple[bytes, bytes]] = []
        self.connections: set[Any] = set()
        self.tasks: set[Any] = set()
        self.total_requests = 0


BLOCK = Encoder().encode(REQUEST)
ANY_FRAME = st.one_of(
    st.builds(
        raw_frame, st.integers(0, 11), st.sampled_from([0, 1, 4, 5, 8, 0x2D, 255]), st.integers(0, 7), st.binary()
    ),
    st.builds(
        lambda stream, flags: raw_frame(Kind.HEADERS, flags, stream, BLOCK), st.integers(0, 9), st.integers(0, 5)
    ),
    st.builds(
        lambda stream, size: raw_frame(Kind.DATA, 1, stream, frame(b"x" * size)), st.integers(0, 9), st.integers(0, 99)
    ),
    st.builds(
        lambda stream, size: raw_frame(Kind.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big")),
        st.integers(0, 9),
        st.sampled_from([0, 1, 70_000, 2**31 - 1]),
    ),
)


@given(st.lists(ANY_FRAME, max_size=20), st.integers(0, 200), st.sampled_from(["shutdown", "end", "wind_down", None]))
@settings(max_examples=150)
def test_whatever_comes_nothing_is_raised_and_nothing_left(said: list[bytes], torn: int, end: str | None) -> None:
    async def run() -> None:
        state = State()
        front = GrpcFront(_whatever)
        connection = Http2Connection(Edge(front.answer), server_state=state)
        connection.connection_made(Pipe())
        data = PREFACE + raw_frame(Kind.SETTINGS) + b"".join(said)
        data = data[: max(len(data) - torn, 0)]
        for at in range(0, len(data), 97):
            connection.data_received(data[at : at + 97])
            await asyncio.sleep(0)
        if end is not None:
            how: Callable[[], None] = getattr(connection, end)
            how()
        connection.connection_lost(None)
        async with asyncio.timeout(5):
            while state.tasks:  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0)
        assert (connection._session.open, connection._session.outflow._waiting) == ({}, {})

    asyncio.run(run())


async def _whatever(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
    with suppress(Exception):
        await wire.read(50)
    wire.open(200, [])
    await wire.write(frame(b"x" * 70_000))
    await wire.close()
