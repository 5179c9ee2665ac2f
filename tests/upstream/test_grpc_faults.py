"""Faults of real gRPC servers, and the gateway's reading of them."""

import asyncio
import gzip
import socket
from collections.abc import Awaitable, Callable

import pytest
from h2.errors import ErrorCodes

from gateway.a2a.fault import (
    Fault,
    UpstreamConnect,
    UpstreamIdle,
    UpstreamProtocol,
    UpstreamReset,
    UpstreamTimeout,
)
from gateway.a2a.framing.grpc import frame
from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel
from gateway.upstream.grpc_reply import GrpcReply
from gateway.upstream.outlier_detection import Away, DeadlinePassed, NotAccepted
from tests.support.http2_server import OK, Http2Server, Script, Turn, http2_server
from tests.support.scripted import WAIT
from tests.support.taking import Taking
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]

PATH = "/lf.a2a.v1.A2AService/GetTask"
BOUNDS = GrpcBounds(request=1000, answer=1000, metadata=16 * 1024)


async def unary(channel: GrpcChannel) -> GrpcReply:
    return await channel.unary(PATH, b"q", (), timeout=20)


async def stream(channel: GrpcChannel, *, idle: float = 20, limit: float | None = None) -> GrpcReply:
    """The whole of it."""
    answer = await channel.stream(PATH, b"q", (), first=20, timeout=limit)
    client = Taking()
    await answer.flow(client.take, client.settle, idle)
    return answer


KINDS = pytest.mark.parametrize("ask", [unary, stream])


Ask = Callable[[GrpcChannel], Awaitable[GrpcReply]]


async def fault_of(url: str, ask: Ask, *, connect: float = 5) -> Fault:
    channel = GrpcChannel(url, BOUNDS, connect=connect)
    fault: Fault | None = None
    try:
        await ask(channel)
    except Fault as raised:
        fault = raised
    finally:
        await channel.aclose()
    assert fault is not None
    # A reference to a call, as in the frames of an exception, keeps its connection.
    fault.__cause__ = fault.__context__ = None
    return fault.with_traceback(None)


def refuse_inside(fault: Fault, *addresses: str) -> None:
    """Nothing of gRPC's and nothing of the agent's own is for the client."""
    for word in ("127.0.0.1", "localhost", "ipv4", "stream", "RST", "GOAWAY", "Socket", "http2", "html", *addresses):
        assert word.lower() not in fault.message.lower(), fault.message


# ---- Nobody there ----------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("word", [None, b"", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"])
async def test_a_server_without_http_2_cannot_be_reached(word: bytes | None, ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"grpc://127.0.0.1:{listening.getsockname()[1]}"
        asked = asyncio.ensure_future(fault_of(url, ask, connect=0.3))
        connection, _ = await asyncio.get_running_loop().sock_accept(listening)
        with connection:
            if word is None:
                connection.close()
            elif word:
                connection.send(word)
            fault = await asked
    assert type(fault) is UpstreamConnect
    refuse_inside(fault)


# ---- What breaks off -------------------------------------------------------------------------------------------------


BREAKS: dict[str, Script] = {
    "connection closed": Turn.hang_up,
    "connection reset": Turn.abort,
    "connection closed in the middle": lambda turn: turn.head().data(frame(b"one")).hang_up(),
    "going away, without this call": lambda turn: turn.goaway(last=0),
    "going away for reasons of its own": lambda turn: turn.goaway(b"moved to 10.0.0.7").hang_up(),
    "going away in the middle": lambda turn: turn.head().data(frame(b"one")).goaway(b"Socket 10.0.0.7").hang_up(),
    **{
        f"stream reset: {code.name}": lambda turn, code=code: turn.reset(code)  # type: ignore[misc]
        for code in ErrorCodes
    },
    "stream reset in the middle": lambda turn: turn.head().data(frame(b"one")).reset(ErrorCodes.CANCEL),
}


@KINDS
@pytest.mark.parametrize("name", BREAKS)
async def test_a_broken_off_answer_is_a_reset(name: str, ask: Ask) -> None:
    async with http2_server(BREAKS[name]) as server:
        fault = await fault_of(server.url, ask)
    assert type(fault) is UpstreamReset
    assert fault.message == "the agent closed the connection before its answer was complete"
    refuse_inside(fault, "10.0.0.7")


# ---- What is no gRPC -------------------------------------------------------------------------------------------------


def page(status: bytes, content_type: bytes = b"text/html") -> Script:
    def script(turn: Turn) -> None:
        turn.head((b"content-type", content_type), status=status).data(b"<html>at 10.0.0.7</html>", end=True)

    return script


def message(data: bytes, *headers: tuple[bytes, bytes]) -> Script:
    return lambda turn: turn.head(*headers).data(data).trailers(OK)


NO_GRPC: dict[str, Script] = {
    "a page": page(b"200"),
    "an error page": page(b"502"),
    "a JSON document": page(b"200", b"application/json"),
    "gRPC for browsers": page(b"200", b"application/grpc-web"),
    "no status": lambda turn: turn.head().data(frame(b"one")).trailers((b"x-other", b"1")),
    "no end": lambda turn: turn.head().data(frame(b"one"), end=True),
    "a status that is no number": lambda turn: turn.head().trailers((b"grpc-status", b"fine")),
    "details that are no base64": lambda turn: turn.head().trailers(
        (b"grpc-status", b"13"), (b"grpc-status-details-bin", b"!!!")
    ),
    "a header in capitals": lambda turn: turn.head((b"X-Up", b"1")).data(frame(b"one")).trailers(OK),
    "compressed without a word": message(b"\x01" + frame(b"one")[1:]),
    "compressed in a way nobody knows": message(b"\x01" + frame(b"one")[1:], (b"grpc-encoding", b"br")),
    "compressed badly": message(b"\x01" + frame(b"one")[1:], (b"grpc-encoding", b"gzip")),
    "HTTP/1.1": lambda turn: turn.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "too long": message(frame(b"x" * 1001)),
    "too long once it is decompressed": message(
        b"\x01" + frame(gzip.compress(b"x" * 100_000))[1:], (b"grpc-encoding", b"gzip")
    ),
    "headers that are too long": lambda turn: turn.head(*[(b"x-long", b"x" * 9000)] * 3).trailers(OK),
    "trailers that are too long": lambda turn: turn.head().trailers(
        (b"grpc-status", b"5"), (b"grpc-message", b"x" * 20_000)
    ),
}


@KINDS
@pytest.mark.parametrize("name", NO_GRPC)
async def test_answers_that_are_no_grpc_are_refused(name: str, ask: Ask) -> None:
    async with http2_server(NO_GRPC[name]) as server:
        fault = await fault_of(server.url, ask)
    # In a stream a page that comes in one piece hides its status.
    told = {"an error page": {Away} if ask is unary else {Away, UpstreamProtocol}}.get(name, {UpstreamProtocol})
    assert type(fault) in told
    assert fault.message.startswith("the agent")
    assert ("too long" in fault.message) == ("too long" in name)
    refuse_inside(fault, "10.0.0.7")


@for_each(
    ("status", "words"),
    [
        (b"302", "the agent answered with HTTP status 302"),
        (b"404", "the agent answered with HTTP status 404"),
        (b"403", "the agent answered with HTTP status 403"),
        (b"401", "the agent does not accept the gateway"),
        (b"407", "the agent does not accept the gateway"),
        (b"429", "the agent answered with HTTP status 429"),
        (b"503", "the agent answered with HTTP status 503"),
    ],
)
async def test_a_page_of_a_proxy_is_no_answer(status: bytes, words: str) -> None:
    def script(turn: Turn) -> None:
        turn.head((b"content-type", b"text/html"), status=status).trailers((b"x-other", b"1"))

    async with http2_server(script) as server:
        fault = await fault_of(server.url, unary)
    kinds = {b"503": Away, b"401": NotAccepted, b"407": NotAccepted}
    assert (type(fault), fault.message) == (kinds.get(status, UpstreamProtocol), words)


@KINDS
@pytest.mark.parametrize(
    "words", [b"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.7:1", b"errors resolving x:1"]
)
async def test_an_agent_that_could_not_reach_another_and_hangs_up_was_reached(ask: Ask, words: bytes) -> None:
    def says_so(turn: Turn) -> None:
        turn.head((b"grpc-status", b"14"), (b"grpc-message", words), end=True).hang_up()

    for _ in range(10):
        async with http2_server(says_so) as server:
            # It would do the same again.
            assert isinstance(await fault_of(server.url, ask), UpstreamReset)


# ---- What does not come ----------------------------------------------------------------------------------------------


async def was_reset(server: Http2Server) -> None:
    """See that the server was told that nobody waits."""
    async with asyncio.timeout(WAIT):
        await server.reset.wait()


SILENT: dict[str, Script] = {
    "nothing": lambda _turn: None,
    "headers and nothing more": lambda turn: turn.head(),
    "half a message": lambda turn: turn.head().data(frame(b"x" * 100)[:50]),
}


@for_each("name", SILENT)
@undisturbed(0.1)
async def test_a_late_agent_is_a_timeout_and_its_call_is_cancelled(name: str) -> None:
    for kind, ask in (
        (UpstreamTimeout, lambda channel: channel.unary(PATH, b"q", (), timeout=0.2)),
        (UpstreamTimeout, lambda channel: channel.stream(PATH, b"q", (), first=0.2, timeout=None)),
        # The time of a stream as a whole is its client's.
        (DeadlinePassed, lambda channel: channel.stream(PATH, b"q", (), first=20, timeout=0.2)),
    ):
        async with http2_server(SILENT[name]) as server:
            fault = await fault_of(server.url, ask)
            await was_reset(server)
        assert (type(fault), fault.message) == (kind, "the agent did not answer in time")


ONE_AND_NO_MORE: Script = lambda turn: turn.head().data(frame(b"one"))  # noqa: E731 - as those above


@undisturbed(0.1)
async def test_a_stream_that_falls_silent_is_ended() -> None:
    async with http2_server(ONE_AND_NO_MORE) as server:
        fault = await fault_of(server.url, lambda channel: stream(channel, idle=0.2))
        await was_reset(server)
    assert (type(fault), fault.message) == (UpstreamIdle, "the agent's stream sent nothing for too long")
