"""One call: its message in, its answer out, and whoever leaves is noticed at once."""

import asyncio
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest

from gateway.a2a.call import Head
from gateway.a2a.fault import BadRequest, BodyTooLarge, BodyTooSlow, EncodedBody, Fault
from gateway.a2a.framing.grpc import frame
from gateway.listener.grpc_wire import FULL, GrpcWire
from tests.listener.front import limited
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


async def reads(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
    """Answers with the message, or with why there is none."""
    try:
        message = await wire.read(front.longest)
    except Fault as fault:
        front.faults.append(fault)
        wire.fail(fault.grpc_status, fault.message)
    else:
        await wire.answer(200, [], frame(message))


# ---- The message ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_530, 65_531, 5_000_000])
async def test_a_message_of_any_length_comes_and_goes_whole(size: int) -> None:
    async with grpc_fronting() as front, front.channel(max_send_message_length=-1) as channel:
        message = bytes(size % 251 for size in range(size))
        assert await channel.unary_unary(SEND)(message, timeout=10) == message


async def test_the_end_of_a_request_may_come_behind_its_message() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        stream = client.ask(body=frame(b"hi"), end=False)
        await front.until(lambda: bool(front.connection._session.reading))
        client.h2.end_stream(stream)
        client.flush()
        assert await client.answer(stream) == (200, b"0", [b"hi"])


async def test_a_message_may_come_in_pieces_with_padding_and_trailers() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        stream = client.ask(end=False)
        for byte in frame(b"hello"):
            client.h2.send_data(stream, bytes((byte,)), pad_length=200)
            client.flush()
            await asyncio.sleep(0)
        client.h2.send_headers(stream, [(b"authorization", b"Bearer late")], end_stream=True)
        client.flush()
        assert await client.answer(stream) == (200, b"0", [b"hello"])
        # Metadata behind the message would be a credential that nobody looked at.
        assert front.heads[0].headers == ()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (None, BadRequest, b"3"),
        (b"", BadRequest, b"3"),
        (frame(b"a")[:3], BadRequest, b"3"),
        (frame(b"abc")[:-1], BadRequest, b"3"),
        (frame(b"a") + frame(b"b"), BadRequest, b"3"),
        (frame(b"a") + b"x", BadRequest, b"3"),
        (b"\1" + frame(b"a")[1:], EncodedBody, b"3"),
        (frame(b"x" * 1001), BodyTooLarge, b"8"),
    ],
)
async def test_what_is_not_one_message_is_refused(body: bytes | None, kind: type[Fault], status: bytes) -> None:
    async with grpc_fronting(reads) as front:
        front.longest = 1000
        client = await front.client()
        assert (await client.answer(client.ask(body=body)))[:2] == (200, status)
        assert [type(fault) for fault in front.faults] == [kind]


async def test_a_second_message_is_refused_before_the_request_ends() -> None:
    async with grpc_fronting(reads) as front:
        client = await front.client()
        stream = client.ask(body=frame(b"a") + frame(b"b"), end=False)
        assert (await client.answer(stream))[1] == b"3"


async def test_a_message_that_is_too_long_is_refused_by_its_prefix_and_the_rest_disturbs_nobody() -> None:
    async with grpc_fronting(reads) as front:
        front.longest = 1000
        client = await front.client()
        stream = client.ask(body=frame(b"x" * 40_000)[:10_000], end=False)
        assert (await client.answer(stream))[:2] == (200, b"8")
        # What was on its way already.
        client.send(b"\x00\x27\x10\x00\x00\x00\x00\x00" + bytes((stream,)) + bytes(10_000))
        assert await client.answer(client.ask(body=frame(b"ok"))) == (200, b"0", [b"ok"])
        assert front.refused == []


async def test_a_real_client_is_told_that_its_message_is_too_long() -> None:
    async with grpc_fronting(reads) as front, front.channel(max_send_message_length=-1) as channel:
        front.longest = 100_000
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(SEND)(b"x" * 3_000_000, timeout=10)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await channel.unary_unary(SEND)(b"short", timeout=10) == b"short"


async def test_a_message_that_stops_coming_is_given_up() -> None:
    async with grpc_fronting(reads, limits=limited(body_idle=0.2)) as front:
        client = await front.client()
        stream = client.ask(body=frame(b"hello")[:6], end=False)
        assert (await client.answer(stream))[:2] == (200, b"3")
        assert [type(fault) for fault in front.faults] == [BodyTooSlow]


async def test_a_message_that_comes_in_drips_is_given_up() -> None:
    wire = GrpcWire(Any, 1, whole=False, now=0.0)  # type: ignore[arg-type]
    for now, slow in ((9.0, False), (11.0, True)):
        wire.feed(b"x" * 100, 100, now)
        wire.look(now, limited(body_rate=1000))
        assert wire._slow is slow


async def test_what_nobody_reads_is_kept_within_a_window() -> None:
    async with grpc_fronting(patient) as front:
        client = await front.client()
        stream = client.ask(body=frame(b"x" * 200_000)[:16_384], end=False)
        for _ in range(2):
            client.h2.send_data(stream, b"x" * 16_384)
        client.flush()
        # The window of the connection is given back at once; that of the call is not.
        await front.until(lambda: bool(front.wires) and len(front.wires[0]._messages) == 3 * 16_384)
        await asyncio.sleep(0)
        assert client.h2.local_flow_control_window(stream) == 65_535 - 3 * 16_384


async def test_several_messages_are_read_one_by_one() -> None:
    async def counts(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        wire.open(200, [])
        while (message := await wire.next(100_000)) is not None:
            await wire.write(frame(b"%d" % len(message)))
        await wire.close()

    async with grpc_fronting(counts) as front, front.channel() as channel:
        call = channel.stream_stream(STREAM)(iter([b"a", b"bb", b"x" * 90_000, b"x" * 90_000]), timeout=10)
        assert [each async for each in call] == [b"1", b"2", b"90000", b"90000"]


# ---- The answer ----------------------------------------------------------------------------------------------------


async def test_an_answer_has_its_headers_in_front_and_its_status_behind() -> None:
    async def answers(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        wire.extra = [(b"x-extra", b"1")]
        await wire.answer(200, [(b"content-type", b"text/plain"), (b"x-a", b"2"), (b"x-request-id", b"7")], frame(b"a"))
        await wire.answer(200, [], frame(b"again"))
        await wire.close()
        wire.cut()
        assert wire.opened

    async with grpc_fronting(answers) as front:
        client = await front.client()
        stream = client.ask(body=frame(b""))
        assert await client.answer(stream) == (200, b"0", [b"a"])
        assert client.headers[stream] == [
            (b":status", b"200"),
            (b"content-type", b"application/grpc"),
            (b"x-a", b"2"),
            (b"x-request-id", b"7"),
            (b"x-extra", b"1"),
        ]
        assert client.trailers[stream] == [(b"grpc-status", b"0")]


async def test_a_status_alone_is_an_answer_of_one_frame() -> None:
    async def refuses(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await wire.answer(200, [(b"grpc-status", b"5"), (b"x-request-id", b"7"), (b"grpc-message", b"no")], b"")

    async with grpc_fronting(refuses) as front, front.channel() as channel:
        client = await front.client()
        stream = client.ask(body=frame(b""))
        assert await client.answer(stream) == (200, b"5", [])
        assert client.trailers == {}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(SEND)(b"", timeout=10)
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "no")
        # A client that has not said all is told that it need not.
        assert (await client.answer(client.ask(end=False)))[1] == b"5"


@pytest.mark.parametrize("body", [b"", b"none of gRPC"])
async def test_a_client_of_something_else_is_answered_in_http(body: bytes) -> None:
    async def answers(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await wire.answer(404, [(b"content-type", b"text/plain")], body)

    async with grpc_fronting(answers) as front:
        client = await front.client()
        stream = client.ask(body=frame(b""))
        await client.until(lambda: stream in client.ended)
        assert client.headers[stream] == [(b":status", b"404"), (b"content-type", b"text/plain")]
        assert client.body.get(stream, b"") == body


async def test_messages_of_a_stream_come_as_they_are_written() -> None:
    async with grpc_fronting(streams) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert await call.read() == b"first"
        front.go.set()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_a_stream_may_end_with_a_status_of_its_own() -> None:
    async def fails(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        wire.open(200, [])
        await wire.write(frame(b"one"))
        await wire.close([(b"grpc-status", b"9"), (b"x-more", b"1")])

    async with grpc_fronting(fails) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert await call.read() == b"one"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert dict(caught.value.trailing_metadata()) == {"x-more": "1"}


@pytest.mark.parametrize("how", ["cut", "returns", "raises"])
@pytest.mark.parametrize("opened", [False, True])
async def test_an_answer_that_broke_off_is_no_success(how: str, *, opened: bool) -> None:
    async def breaks(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        if opened:
            wire.open(200, [])
            await wire.write(frame(b"one"))
        if how == "cut":
            wire.cut()
        elif how == "raises":
            raise ValueError

    async with grpc_fronting(breaks) as front:
        client = await front.client()
        said = await client.answer(client.ask(STREAMING, frame(b"")))
        status = b"13" if how == "raises" else b"14"
        assert said == (200, status, [b"one"] if opened else [])


async def test_a_header_that_http_cannot_have_never_leaves() -> None:
    async def answers(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await wire.answer(200, [(b"x-a", b"a\r\nb")], frame(b"a"))

    async with grpc_fronting(answers) as front:
        client = await front.client()
        assert await client.answer(client.ask(body=frame(b""))) == (200, b"13", [])


# ---- A client that takes its time ----------------------------------------------------------------------------------


async def test_a_client_that_takes_nothing_delays_no_other_and_holds_little() -> None:
    written = 0

    async def pours(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        nonlocal written
        if not head.grpc or not head.grpc.operation.streams:
            await echoes(front, head, wire)
            return
        wire.open(200, [])
        while True:
            await wire.write(frame(b"x" * 10_000))
            written += 10_000

    async with grpc_fronting(pours) as front:
        client = await front.client()
        client.acknowledges = False
        slow = client.ask(STREAMING, frame(b""))
        # All that the connection may carry until its client takes something.
        await client.until(lambda: len(client.body.get(slow, b"")) == 65_535)
        await front.until(lambda: written >= 65_535 + FULL)
        held = written
        assert held < 65_535 + FULL + 30_000
        client.h2.increment_flow_control_window(1_000_000)
        quick = [client.ask(body=frame(b"y" * 5000)) for _ in range(10)]
        for stream in quick:
            assert await client.answer(stream) == (200, b"0", [b"y" * 5000])
        assert written == held
        client.h2.increment_flow_control_window(100_000, slow)
        client.flush()
        await client.until(lambda: len(client.body[slow]) == 165_535)


async def test_writing_tells_when_it_is_enough_and_when_there_may_be_more() -> None:
    async def writes(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        wire.open(200, [])
        count = 0
        while wire.write_nowait(frame(b"x" * 1000)):
            count += 1
        front.longest = count
        await wire.drained()
        assert wire.write_nowait(frame(b"last"))
        await wire.close()

    async with grpc_fronting(writes) as front:
        client = await front.client()
        client.acknowledges = False
        stream = client.ask(STREAMING, frame(b""))
        await client.until(lambda: len(client.body.get(stream, b"")) == 65_535)
        assert front.longest < (65_535 + FULL) // 1000 + 1
        for name in (None, stream):
            client.h2.increment_flow_control_window(200_000, name)
        client.flush()
        assert (await client.answer(stream))[2][-1] == b"last"


async def test_a_client_that_takes_nothing_for_long_has_left() -> None:
    async with grpc_fronting(_pours, limits=limited(write_stall=0.3)) as front:
        client = await front.client()
        client.acknowledges = False
        stuck = client.ask(STREAMING, frame(b""))
        client.h2.increment_flow_control_window(1_000_000)
        client.flush()
        await client.until(lambda: stuck in client.ended)
        assert (client.ended[stuck], len(client.body[stuck])) == (8, 65_535)
        await front.until(lambda: front.gone == 1)
        front.serve = echoes
        assert await client.answer(client.ask(body=frame(b"ok"))) == (200, b"0", [b"ok"])


async def _pours(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
    await wire.answer(200, [], frame(b"x" * 1_000_000))
