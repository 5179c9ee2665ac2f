"""One connection from its first byte to its last: greeted, bounded, drained, and never in the way of others."""

import socket
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest

from gateway.a2a.call import Head
from gateway.a2a.framing.grpc import frame
from gateway.listener import http2
from gateway.listener.grpc_wire import GrpcWire
from gateway.listener.http2_frames import ANY_STREAM, PREFACE, Kind
from tests.doubles.gateway import request
from tests.doubles.undisturbed import undisturbed
from tests.listener.front import limited
from tests.listener.grpc_front import (
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    REFUSED_STREAM,
    SEND,
    STREAM,
    STREAMING,
    GrpcFront,
    GrpcTls,
    bounded,
    echoes,
    grpc_fronting,
    ok,
    patient,
    raw_frame,
    streams,
)
from tests.loops import both_loops

pytestmark = pytest.mark.anyio


anyio_backend = both_loops


# ---- The beginning -------------------------------------------------------------------------------------------------


async def test_the_authority_is_what_the_client_says_it_is() -> None:
    async with grpc_fronting() as front, front.channel(default_authority="Acme.Example:443") as channel:
        assert await channel.unary_unary(SEND)(b"hi", metadata=(("x-a", "1"),), timeout=10) == b"hi"
        [head] = front.heads
        assert (head.host, head.peer, head.scheme, head.first(b"x-a")) == ("acme.example", "127.0.0.1", "http", b"1")


async def test_who_says_nothing_is_not_waited_for() -> None:
    async with grpc_fronting(bounds=bounded(deadline=0.2)) as front:
        silent = await front.stranger()
        half = await front.stranger()
        await half.send(PREFACE + b"\0")
        assert await silent.ended() == await half.ended() == b""
        await front.rested()


async def test_who_speaks_http_1_is_told_so_in_it() -> None:
    async with grpc_fronting() as front:
        client = await front.stranger()
        await client.send(request("GET", "/", None))
        said = await client.ended()
        assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"this is no HTTP/2, which gRPC needs (request " in said
        assert front.refused == [(400, "this is no HTTP/2")]


async def test_a_connection_too_many_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "_DRAIN_TIME", 0.2)
    async with grpc_fronting(limits=limited(connections=1)) as front:
        client = await front.client()
        await ok(client)
        other = await front.client()
        await other.finished()
        assert other.goaway == (ENHANCE_YOUR_CALM, 0)
        assert front.refused == [(503, "there are too many connections")]
        await ok(client)
        client.leave()
        await front.until(lambda: not front.connections)
        await ok(await front.client())


# ---- TLS -----------------------------------------------------------------------------------------------------------


async def test_calls_are_served_over_tls(tmp_path: Any) -> None:
    async with grpc_fronting(tls=GrpcTls(tmp_path)) as front, front.channel() as channel:
        message = b"x" * 3_000_000
        assert await channel.unary_unary(SEND)(message, timeout=10) == message
        assert front.heads[0].scheme == "https"
        front.serve = streams
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert await call.read() == b"first"
        front.server.wind_down()
        front.go.set()
        assert await call.read() is grpc.aio.EOF


async def test_who_does_not_agree_on_http_2_is_not_served(tmp_path: Any) -> None:
    tls = GrpcTls(tmp_path)
    async with grpc_fronting(tls=tls) as front:
        client = await front.client(ssl=tls.client, server_hostname="127.0.0.1")
        await client.finished()
        assert front.refused == [(400, "no HTTP/2 was agreed upon")]


# ---- Clients that do nothing ---------------------------------------------------------------------------------------


@undisturbed(0.1)
async def test_a_connection_without_calls_ends_after_a_while() -> None:
    async with grpc_fronting(bounds=bounded(idle=0.3)) as front:
        client = await front.client()
        await ok(client)
        await client.finished()
        assert client.goaway == (NO_ERROR, 1)
        assert front.refused == []


@undisturbed(0.1)
async def test_a_connection_with_a_call_is_not_idle() -> None:
    async with grpc_fronting(streams, bounded(idle=0.2, keepalive=0.1)) as front:
        client = await front.client()
        stream = client.ask(STREAMING, frame(b""))
        pinged = 0

        def silent() -> bool:
            nonlocal pinged
            pinged += 1
            return pinged > 6

        # The gateway's pings are all that comes.
        await client.until(silent)
        assert client.goaway is None
        front.go.set()
        assert (await client.answer(stream))[1] == b"0"
        await client.finished()
        assert client.goaway == (NO_ERROR, 1)


@undisturbed(0.1)
async def test_a_client_that_is_not_there_any_more_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "PATIENCE", 0.2)
    async with grpc_fronting(streams, bounded(keepalive=0.2)) as front:
        client = await front.client()
        client.ask(STREAMING, frame(b""))
        # It hears nothing, and says nothing.
        await front.until(lambda: front.gone == 1)
        await front.until(lambda: not front.connections)


async def test_a_client_that_ends_its_side_has_left() -> None:
    async with grpc_fronting(streams) as front:
        client = await front.client()
        client.ask(STREAMING, frame(b""))
        await client.until(lambda: bool(client.body))
        client.writer.write_eof()
        await front.until(lambda: front.gone == 1)
        await client.finished()


# ---- The end -------------------------------------------------------------------------------------------------------


async def test_a_client_is_sent_elsewhere_while_its_call_goes_on() -> None:
    async with grpc_fronting(streams) as front:
        client = await front.client()
        stream = client.ask(STREAMING, frame(b""))
        await client.until(lambda: stream in client.body)
        front.server.wind_down()
        await client.until(lambda: client.goaway == (NO_ERROR, ANY_STREAM))
        # What it asks meanwhile is answered.
        other = client.ask(STREAMING, frame(b""))
        front.go.set()
        for each in (stream, other):
            assert await client.answer(each) == (200, b"0", [b"first"])


async def test_a_client_that_comes_while_others_leave_is_served_once() -> None:
    async with grpc_fronting(streams) as front:
        front.server.wind_down()
        client = await front.client()
        stream = client.ask(STREAMING, frame(b""))
        await client.until(lambda: client.goaway == (NO_ERROR, ANY_STREAM))
        front.go.set()
        assert await client.answer(stream) == (200, b"0", [b"first"])


async def test_a_call_of_a_real_client_ends_well_while_the_gateway_drains() -> None:
    async with grpc_fronting(streams) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert await call.read() == b"first"
        front.server.wind_down()
        front.server.stop_accepting()
        front.go.set()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        await front.until(lambda: not front.connections)
        assert front.gone == 0


async def test_calls_that_come_too_late_are_to_be_made_elsewhere() -> None:
    async with grpc_fronting(streams) as front:
        client = await front.client()
        stream = client.ask(STREAMING, frame(b""))
        await client.until(lambda: stream in client.body)
        front.server.stop_accepting()
        late = client.ask(STREAMING, frame(b""))
        await client.until(lambda: late in client.ended)
        assert (client.goaway, client.ended[late]) == ((NO_ERROR, stream), REFUSED_STREAM)
        assert len(front.heads) == 1
        front.go.set()
        assert (await client.answer(stream))[1] == b"0"
        await client.finished()


async def test_a_connection_without_calls_ends_when_the_server_stops() -> None:
    async with grpc_fronting() as front:
        client = await front.client()
        await ok(client)
        front.server.stop_accepting()
        await client.finished()
        assert client.goaway == (NO_ERROR, 1)


async def test_calls_that_are_open_at_the_end_may_be_made_elsewhere() -> None:
    async with grpc_fronting(streams) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"", timeout=10)
        assert await call.read() == b"first"
        await front.server.aclose(0.1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_whoever_waits_for_a_message_at_the_end_is_told() -> None:
    async with grpc_fronting(echoes) as front:
        client = await front.client()
        stream = client.ask(body=frame(b"hello")[:6], end=False)
        await front.until(lambda: bool(front.connection._session.reading))
        front.connection.end()
        assert await client.answer(stream) == (200, b"14", [])
        await front.until(lambda: front.cancelled == 1)


async def test_a_client_that_leaves_politely_gets_its_answer() -> None:
    async with grpc_fronting(patient) as front:
        client = await front.client()
        stream = client.ask(body=frame(b""))
        client.send(raw_frame(Kind.GOAWAY, 0, 0, bytes(8)))
        await front.until(lambda: front.open == 1)
        front.go.set()
        assert await client.answer(stream) == (200, b"0", [b"at last"])
        await client.finished()
        other = await front.client()
        other.send(raw_frame(Kind.GOAWAY, 0, 0, bytes(8)))
        await other.finished()


async def test_an_answer_that_cannot_be_made_is_an_error_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def raises(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        if head.first(b"x-raise"):
            raise ValueError
        await echoes(front, head, wire)

    async with grpc_fronting(raises) as front:
        client = await front.client()
        assert await client.answer(client.ask(body=frame(b""), more=[(b"x-raise", b"1")])) == (200, b"13", [])
        await ok(client)
        assert "a call could not be served" in caplog.text


async def test_sockets_are_tuned_as_those_of_http_1() -> None:
    async with grpc_fronting() as front:
        await ok(await front.client())
        option = front.connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert option
