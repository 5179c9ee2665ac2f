"""The calls of one connection: begun within bounds, apart from each other, and gone when they are over."""

import asyncio

import pytest
from h2.settings import SettingCodes

from gateway.a2a.call import Head
from gateway.a2a.framing.grpc import frame
from gateway.listener import http2_session
from gateway.listener.grpc_wire import GrpcWire
from gateway.listener.http2_frames import Kind
from tests.listener.grpc_front import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    REFUSED_STREAM,
    REQUEST,
    STREAMING,
    GrpcFront,
    RawClient,
    bounded,
    echoes,
    grpc_fronting,
    patient,
    raw_frame,
    streams,
)
from tests.loops import both_loops

pytestmark = pytest.mark.anyio


anyio_backend = both_loops


def reset(client: RawClient, stream: int) -> None:
    client.h2.reset_stream(stream, CANCEL)
    client.flush()


# ---- What clients are told they may do -----------------------------------------------------------------------------


async def test_the_bounds_are_announced() -> None:
    async with grpc_fronting(bounds=bounded(streams=17, metadata=5000)) as front:
        client = await front.client()
        await client.answer(client.ask(body=frame(b"")))
        settings = client.h2.remote_settings
        assert (settings.max_concurrent_streams, settings.max_header_list_size) == (17, 5000)
        assert (settings.initial_window_size, settings.max_frame_size) == (65_535, 16_384)


async def test_calls_beyond_the_bound_are_to_be_made_again() -> None:
    async with grpc_fronting(streams, bounded(streams=2)) as front:
        client = await front.client()
        first = [client.ask(STREAMING, frame(b"")) for _ in range(3)]
        await client.until(lambda: first[2] in client.ended)
        assert client.ended == {first[2]: REFUSED_STREAM}
        assert len(front.heads) == 2
        # One that is over makes room.
        reset(client, first[0])
        later = client.ask(STREAMING, frame(b""))
        await client.until(lambda: later in client.body)


async def test_a_client_that_does_not_care_for_the_bound_is_asked_to_go() -> None:
    async with grpc_fronting(streams, bounded(streams=1, resets=5)) as front:
        client = await front.client()
        for _ in range(8):
            client.ask(STREAMING, frame(b""))
        await client.finished()
        assert client.goaway is not None
        assert client.goaway[0] == ENHANCE_YOUR_CALM
        assert front.refused == [(429, "too many calls are taken back at once")]


# ---- Heads ---------------------------------------------------------------------------------------------------------


async def test_the_same_headers_are_the_same_head_but_for_streams() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        for headers in (REQUEST, REQUEST, STREAMING, STREAMING, [*REQUEST, (b"a2a-version", b"1.0")]):
            assert (await client.answer(client.ask(headers, frame(b"x"))))[1] == b"0"
        one, again, stream, other, more = front.heads
        assert one is again
        assert stream is not other
        assert more is not one


async def test_few_heads_are_kept_and_none_for_long() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        for number in range(20):
            headers = [*REQUEST, (b"authorization", b"Bearer %d" % number)]
            assert (await client.answer(client.ask(headers, frame(b"x"))))[1] == b"0"
        await client.answer(client.ask([*REQUEST, (b"x-a", b"x" * 3000)], frame(b"x")))
        session = front.connection._session
        assert len(session._known) == 8
        assert all(len(dict(key).get(b"x-a", b"")) == 0 for key in session._known)
        await front.until(lambda: not session.knows)


# ---- Windows -------------------------------------------------------------------------------------------------------


async def test_bodies_that_nobody_reads_keep_no_other_call_waiting() -> None:
    async def serves(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await (patient if head.first(b"x-slow") else echoes)(front, head, wire)

    async with grpc_fronting(serves) as front:
        client = await front.client()
        for _ in range(40):
            stream = client.ask(end=False, more=[(b"x-slow", b"1")])
            for _ in range(3):
                await client.until(lambda: client.h2.outbound_flow_control_window >= 16_384)
                client.h2.send_data(stream, b"x" * 16_384)
                client.flush()
        # More than the connection may carry at once was sent, and is kept.
        assert (await client.answer(client.ask(body=frame(b"y" * 9000))))[1:] == (b"0", [b"y" * 9000])


async def test_a_client_that_grants_more_by_its_settings_is_sent_more() -> None:
    async def writes(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await wire.answer(200, [], frame(b"x" * 1000))

    async with grpc_fronting(writes) as front:
        client = await front.client()
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
        stream = client.ask(body=frame(b""))
        await client.until(lambda: len(client.body.get(stream, b"")) == 10)
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2000})
        client.flush()
        assert (await client.answer(stream))[1:] == (b"0", [b"x" * 1000])


async def test_a_window_beyond_all_bounds_ends_its_call() -> None:
    async with grpc_fronting(streams) as front:
        client = await front.client()
        stream = client.ask(STREAMING, frame(b""))
        client.send(raw_frame(Kind.WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff"))
        await client.until(lambda: stream in client.ended)
        assert client.ended[stream] == 3
        await front.until(lambda: front.gone == 1)
        assert front.refused == []


# ---- Calls that are taken back -------------------------------------------------------------------------------------


async def test_calls_that_are_taken_back_at_once_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_session, "SHORT_LIVED", 60.0)
    async with grpc_fronting(patient, bounded(resets=20)) as front:
        client = await front.client()
        for _ in range(30):
            reset(client, client.ask(body=frame(b"")))
        await client.finished()
        assert client.goaway == (ENHANCE_YOUR_CALM, 41)
        assert front.refused == [(429, "too many calls are taken back at once")]
        await front.until(lambda: not front.state.tasks)
        assert len(front.heads) <= 21


async def test_calls_that_the_client_has_the_gateway_take_back_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_session, "SHORT_LIVED", 60.0)
    async with grpc_fronting(streams, bounded(resets=20)) as front:
        client = await front.client()
        for _ in range(25):
            stream = client.ask(STREAMING, frame(b""))
            await client.until(
                lambda: client.h2.get_next_available_stream_id() - 2 in client.body or bool(client.goaway)
            )
            client.send(raw_frame(Kind.WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff"))
        await client.finished()
        assert client.goaway is not None
        assert client.goaway[0] == ENHANCE_YOUR_CALM


async def test_calls_without_any_time_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_session, "SHORT_LIVED", 60.0)
    async with grpc_fronting(patient, bounded(resets=20)) as front:
        client = await front.client()
        for _ in range(25):
            client.ask(body=frame(b""), more=[(b"grpc-timeout", b"1n")])
        await client.finished()
        assert client.goaway is not None
        assert client.goaway[0] == ENHANCE_YOUR_CALM


async def test_calls_that_were_answered_or_lasted_may_be_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with grpc_fronting(streams, bounded(resets=5)) as front:
        client = await front.client()
        calls = [client.ask(STREAMING, frame(b"")) for _ in range(20)]
        await client.until(lambda: len(client.body) == 20)
        for stream in calls:
            reset(client, stream)
        await front.until(lambda: front.gone == 20)
        front.serve = patient
        monkeypatch.setattr(http2_session, "SHORT_LIVED", 0.0)
        for stream in [client.ask(body=frame(b"")) for _ in range(20)]:
            reset(client, stream)
        await front.until(lambda: front.gone == 40)
        assert front.refused == []


# ---- What is left --------------------------------------------------------------------------------------------------


async def test_nothing_is_left_of_calls_that_are_over() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        for _ in range(300):
            assert (await client.answer(client.ask(body=frame(b""))))[1] == b"0"
        session = front.connection._session
        assert (session.open, session.reading) == ({}, set())
        assert len(session._h2.streams) <= 64
        assert len(session._h2._closed_streams) <= 64


async def test_what_comes_late_for_a_call_that_is_over_disturbs_nobody() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        stream = client.ask(body=frame(b""))
        await client.answer(stream)
        for late in (
            raw_frame(Kind.WINDOW_UPDATE, 0, stream, b"\0\0\1\0"),
            raw_frame(Kind.RST_STREAM, 0, stream, b"\0\0\0\x08"),
            raw_frame(Kind.PRIORITY, 0, stream, bytes(5)),
            raw_frame(0xBE, 0, stream, b"grease"),
        ):
            client.send(late)
        assert (await client.answer(client.ask(body=frame(b"ok"))))[2] == [b"ok"]
        assert front.refused == []


async def test_calls_of_a_lost_connection_are_told_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_session, "_AT_ONCE", 2)
    async with grpc_fronting(streams) as front:
        client = await front.client()
        for _ in range(9):
            client.ask(STREAMING, frame(b""))
        await client.until(lambda: len(client.body) == 9)
        session = front.connection._session
        session.close()
        assert front.gone == 2
        # Whoever is told later can do no harm meanwhile.
        await asyncio.gather(*(wire.write(frame(b"x")) for wire in front.wires))
        await front.until(lambda: front.gone == 9)
