"""Whoever leaves, or has no more time, is noticed at once, and nothing is left of its calls."""

import time
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest

from gateway.a2a.call import Head
from gateway.a2a.framing.grpc import frame
from gateway.listener.grpc_wire import GrpcWire
from tests.doubles.undisturbed import undisturbed
from tests.listener.grpc_front import (
    SEND,
    STREAM,
    STREAMING,
    GrpcFront,
    echoes,
    grpc_fronting,
    patient,
    streams,
)
from tests.loops import both_loops

pytestmark = pytest.mark.anyio


anyio_backend = both_loops


@undisturbed(0.1)
async def test_a_call_that_is_taken_back_is_told_at_once() -> None:
    async with grpc_fronting(streams) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"")
        assert await call.read() == b"first"
        started = time.monotonic()
        call.cancel()
        await front.until(lambda: front.cancelled == 1)
        assert time.monotonic() - started < 0.2
        assert (front.gone, front.open) == (1, 0)


async def test_a_connection_that_is_lost_tells_every_call() -> None:
    async with grpc_fronting(streams) as front:
        client = await front.client()
        for _ in range(100):
            client.ask(STREAMING, frame(b""))
        await front.until(lambda: len(front.wires) == 100 and all(wire.opened for wire in front.wires))
        client.leave()
        await front.until(lambda: front.cancelled == 100)
        assert front.gone == 100


async def test_who_asks_too_late_is_told_that_the_client_has_left() -> None:
    told = 0

    def gone() -> None:
        nonlocal told
        told += 1

    async with grpc_fronting(patient) as front:
        client = await front.client()
        stream = client.ask(body=frame(b""))
        await front.until(lambda: bool(front.wires))
        client.h2.reset_stream(stream, 8)
        client.flush()
        await front.until(lambda: front.cancelled == 1)
        front.wires[0].when_gone(gone)
        assert told == 1


async def test_a_client_that_leaves_within_its_message_is_gone() -> None:
    async with grpc_fronting(echoes) as front:
        client = await front.client()
        client.ask(body=frame(b"hello")[:6], end=False)
        await front.until(lambda: bool(front.connection._session.reading))
        client.leave()
        await front.until(lambda: front.cancelled == 1)


@pytest.mark.parametrize("opened", [False, True])
@undisturbed(0.2)
async def test_a_deadline_ends_the_call_and_its_client_is_told(*, opened: bool) -> None:
    async with grpc_fronting(streams if opened else patient) as front:
        client = await front.client()
        stream = client.ask(STREAMING, frame(b""), more=[(b"grpc-timeout", b"500m")])
        said = await client.answer(stream)
        assert said == (200, b"4", [b"first"] if opened else [])
        await front.until(lambda: front.cancelled == 1)
        assert front.gone == 1


async def test_a_deadline_with_a_client_that_takes_nothing_breaks_off() -> None:
    async with grpc_fronting(_served_much) as front:
        client = await front.client()
        client.acknowledges = False
        stream = client.ask(STREAMING, frame(b""), more=[(b"grpc-timeout", b"500m")])
        await client.until(lambda: stream in client.ended)
        assert client.ended[stream] == 8
        assert front.gone == 1


async def _served_much(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
    wire.open(200, [])
    while True:
        await wire.write(frame(b"x" * 50_000))


@undisturbed(0.1)
async def test_a_real_client_sees_its_deadline() -> None:
    async with grpc_fronting(patient) as front, front.channel() as channel:
        await channel.channel_ready()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(SEND)(b"", timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await front.until(lambda: front.cancelled == 1)


async def test_an_answer_in_time_lets_go_of_the_deadline() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        assert (await client.answer(client.ask(body=frame(b""), more=[(b"grpc-timeout", b"5S")])))[1] == b"0"
        assert front.wires[0]._alarm is None


# ---- Many ----------------------------------------------------------------------------------------------------------


async def test_a_thousand_streams_of_one_client_leave_nothing() -> None:
    async with grpc_fronting(streams) as front:
        async with front.channel() as channel:
            calls = [channel.unary_stream(STREAM)(b"") for _ in range(1000)]
            assert [await call.read() for call in calls] == [b"first"] * 1000
            assert (front.open, len(front.state.tasks)) == (1000, 1000)
            assert await _cancelled(calls[:500]) == 500
            await front.until(lambda: (front.open, len(front.state.tasks)) == (500, 500))
            # Who gives up many streams has done nothing wrong.
            assert front.refused == []
            del calls
        await front.rested()
        assert front.gone == 1000


async def _cancelled(calls: list[Any]) -> int:
    return sum(call.cancel() for call in calls)
