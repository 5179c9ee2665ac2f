"""One call over gRPC: what is read of it, what its client is told, and what becomes of clients that leave or wait."""

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest

from gateway.a2a.bindings.grpc_status import Status, trailers
from gateway.a2a.call import Head
from gateway.a2a.fault import BadRequest, BodyTooLarge, BodyTooSlow
from gateway.a2a.framing.grpc import frame
from gateway.listener.grpc import GrpcResponder
from tests.listener.grpc_front import LONGEST, Front, fronting, patient, streams
from tests.support.http2_client import REQUEST, SEND, STREAM
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

STREAMING = [(name, STREAM.encode() if name == b":path" else value) for name, value in REQUEST]
NOT_FOUND = trailers(Status(5, "nö, 100 % gone", b"\x08\x05details"))


# ---- Its message ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 100_000, LONGEST])
async def test_a_message_of_any_length_comes_and_goes_whole(size: int) -> None:
    async with fronting() as front, front.channel() as channel:
        message = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert await channel.unary_unary(SEND)(message, timeout=30) == message


async def test_a_message_that_is_too_long_is_refused_and_the_connection_goes_on() -> None:
    async with fronting() as front, front.channel() as channel:
        front.longest = 1000
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(SEND)(b"x" * 1001, timeout=10)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert [type(fault) for fault in front.faults] == [BodyTooLarge]
        assert await channel.unary_unary(SEND)(b"x" * 1000, timeout=10) == b"x" * 1000


async def test_a_call_without_a_message_is_refused() -> None:
    async with fronting() as front:
        client = await front.client()
        assert (await client.answer(client.ask()))[1] == b"3"
        assert [type(fault) for fault in front.faults] == [BadRequest]


async def test_a_message_that_stops_coming_is_given_up() -> None:
    async with fronting(http={"body_idle": "100ms", "body_rate": "100MiB"}) as front:
        client = await front.client()
        assert (await client.answer(client.ask(body=frame(b"hello")[:6], end=False)))[1] == b"3"
        assert [type(fault) for fault in front.faults] == [BodyTooSlow]


# ---- Its answer ----------------------------------------------------------------------------------------------------


async def _extra(front: Front, head: Head, wire: GrpcResponder) -> None:
    wire.extra = [(b"ratelimit", b"r")]
    await wire.answer(200, [(b"content-type", b"application/grpc"), (b"x-request-id", b"1")], frame(b"hi"))


async def test_an_answer_of_one_message_has_its_metadata_behind_it() -> None:
    async with fronting(_extra) as front, front.channel() as channel:
        call = channel.unary_unary(SEND)(b"", timeout=10)
        assert await call == b"hi"
        assert tuple(await call.trailing_metadata()) == (("x-request-id", "1"), ("ratelimit", "r"))
        assert await call.code() is grpc.StatusCode.OK


async def _status_alone(front: Front, head: Head, wire: GrpcResponder) -> None:
    await wire.answer(200, [(b"x-request-id", b"1"), *NOT_FOUND], b"")


@for_each("path", [SEND, STREAM])
async def test_a_status_alone_has_its_words_and_details(path: str) -> None:
    async with fronting(_status_alone) as front, front.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_stream(path)(b"", timeout=10).read()
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "nö, 100 % gone")
        told = dict(caught.value.trailing_metadata())
        assert (told["grpc-status-details-bin"], told["x-request-id"]) == (b"\x08\x05details", "1")


async def _three(front: Front, head: Head, wire: GrpcResponder) -> None:
    wire.open(200, [(b"x-request-id", b"1")])
    await wire.write(frame(b"one") + frame(b""))
    wire.write_nowait(frame(b"three"))
    await wire.close(NOT_FOUND)
    wire.write_nowait(frame(b"too late"))


async def test_a_stream_may_end_with_a_status_of_its_own() -> None:
    async with fronting(_three) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert [await call.read() for _ in range(3)] == [b"one", b"", b"three"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert dict(await call.initial_metadata()) == {"x-request-id": "1"}


async def _breaks(front: Front, head: Head, wire: GrpcResponder) -> None:
    wire.open(200, [])
    await wire.write(frame(b"first"))


@for_each("path", [SEND, STREAM])
async def test_an_answer_that_broke_off_is_no_success(path: str) -> None:
    async with fronting(_breaks) as front, front.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [each async for each in channel.unary_stream(path)(b"", timeout=10)]
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def _bad_header(front: Front, head: Head, wire: GrpcResponder) -> None:
    for value in (b"a\r\nb", b"\xff", b"\0"):
        with pytest.raises(ValueError, match="x-a"):
            await wire.answer(200, [(b"x-a", value)], b"")
    await wire.answer(200, [], frame(b"ok"))


async def test_a_header_that_grpc_cannot_have_never_leaves() -> None:
    async with fronting(_bad_header) as front, front.channel() as channel:
        assert await channel.unary_unary(SEND)(b"", timeout=10) == b"ok"


# ---- Clients that read slowly ----------------------------------------------------------------------------------------


async def _pours(front: Front, head: Head, wire: GrpcResponder) -> None:
    wire.open(200, [])
    while True:
        await wire.write(frame(b"x" * 50_000))


async def test_a_client_that_takes_nothing_delays_no_other_and_its_agent_waits() -> None:
    written = 0

    async def pours(front: Front, head: Head, wire: GrpcResponder) -> None:
        nonlocal written
        if head.first(b"x-slow") is None:
            await wire.answer(200, [], frame(b"ok"))
            return
        wire.open(200, [])
        while True:
            await wire.write(frame(b"x" * 50_000))
            written += 1

    async with fronting(pours) as front, front.channel() as channel:
        client = await front.client()
        client.acknowledges = False
        stream = client.ask(STREAMING, frame(b""), more=[(b"x-slow", b"1")])
        await client.until(lambda: len(client.body.get(stream, b"")) > 65_000)
        for _ in range(10):
            assert await channel.unary_unary(SEND)(b"", timeout=10) == b"ok"
        # Not to wait, it would have written hundreds meanwhile.
        assert written < 20


async def test_a_client_that_takes_nothing_for_long_has_left() -> None:
    async with fronting(_pours, http={"write_stall": "100ms"}) as front:
        client = await front.client()
        client.acknowledges = False
        stream = client.ask(STREAMING, frame(b""))
        await client.until(lambda: stream in client.headers)
        await front.until(lambda: (front.gone, front.open) == (1, 0))
        # grpc.aio cannot reset a stream, so the status stands behind what was not read.
        client.acknowledges = True
        client.h2.acknowledge_received_data(len(client.body[stream]), stream)
        client.flush()
        assert (await client.answer(stream))[1] == b"14"


# ---- Clients that leave ----------------------------------------------------------------------------------------------


async def test_a_connection_that_is_lost_tells_every_call() -> None:
    async with fronting(streams) as front:
        client = await front.client()
        for _ in range(100):
            client.ask(STREAMING, frame(b""))
        await front.until(lambda: len(front.wires) == 100 and all(wire.opened for wire in front.wires))
        client.leave()
        await front.until(lambda: (front.gone, front.open) == (100, 0))


async def test_a_late_callback_learns_that_the_client_has_left() -> None:
    told: list[bool] = []
    async with fronting(patient) as front:
        client = await front.client()
        client.ask(body=frame(b""))
        await front.until(lambda: bool(front.wires))
        client.leave()
        await front.until(lambda: front.gone == 1)
        front.wires[0].when_gone(lambda: told.append(True))
        assert told == [True]


@for_each("serve", [patient, streams])
@undisturbed(0.1)
async def test_a_deadline_ends_the_call(serve: object) -> None:
    async with fronting(serve) as front, front.channel() as channel:  # type: ignore[arg-type] # one of the two
        await channel.channel_ready()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [each async for each in channel.unary_stream(STREAM)(b"", timeout=0.3)]
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await front.until(lambda: (front.gone, front.open) == (1, 0))
