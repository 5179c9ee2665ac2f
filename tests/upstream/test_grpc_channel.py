"""One connection for all calls: made when it is needed, made again when it is lost, and to nobody else."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from gateway.a2a.fault import BodyTooLarge, Draining, Fault, UpstreamConnect, UpstreamReset
from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel
from gateway.upstream.grpc_library import grpc
from tests.support.grpc_agent import Asked, GrpcAgent, grpc_agent, hangs, says
from tests.support.http2_server import OK, http2_server
from tests.support.taking import Taking
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]

PATH = "/lf.a2a.v1.A2AService/GetTask"
ECHO = says(b"echo")


@asynccontextmanager
async def to(agent: GrpcAgent, **more: Any) -> AsyncIterator[GrpcChannel]:
    channel = GrpcChannel(agent.url, connect=5, **more)
    try:
        yield channel
    finally:
        await channel.aclose()


async def ask(channel: GrpcChannel, message: bytes = b"q") -> bytes | None:
    return (await channel.unary(PATH, message, (), timeout=20)).whole()


def peers(agent: GrpcAgent) -> set[str]:
    return {asked.peer for asked in agent.asked}


# ---- One connection --------------------------------------------------------------------------------------------------


async def test_a_channel_connects_with_the_first_call_and_shares_the_connection() -> None:
    async with http2_server(lambda turn: turn.head().data(b"\0\0\0\0\0").trailers(OK)) as server:
        channel = GrpcChannel(server.url, connect=5)
        assert server.connections == 0
        assert (channel.active, channel.idle) == (0, 0)
        answers = await asyncio.gather(*(ask(channel) for _ in range(50)))
        assert answers == [b""] * 50
        assert server.connections == 1
        assert (channel.active, channel.idle) == (0, 1)
        await channel.aclose()
        assert (channel.active, channel.idle) == (0, 0)


async def test_two_backends_at_one_address_share_nothing() -> None:
    async with grpc_agent(ECHO) as agent, to(agent) as one, to(agent) as other:
        await ask(one)
        await ask(other)
        assert len(peers(agent)) == 2


async def test_a_connection_that_was_lost_is_made_again() -> None:
    async with grpc_agent(ECHO) as agent, to(agent) as channel:
        assert await ask(channel) == b"echo"
        await agent.server.stop(0)
        failed: Fault | None = None
        while not isinstance(failed, UpstreamConnect):
            # Until gRPC has read that the connection is lost, calls are lost with it.
            try:
                await ask(channel)
            except (UpstreamConnect, UpstreamReset) as fault:
                failed = fault.with_traceback(None)
        async with grpc_agent(says(b"back"), port=agent.port):
            # At once, however long gRPC itself would wait.
            assert await ask(channel) == b"back"


async def test_a_stream_outlives_the_failure_to_connect_again() -> None:
    released = asyncio.Event()

    async def answer(asked: Asked) -> None:
        await asked.write(b"one")
        await released.wait()
        await asked.write(b"two")

    async with grpc_agent(answer) as agent, to(agent) as channel:
        streaming = await channel.stream(PATH, b"q", (), first=20, timeout=None)
        stopping = asyncio.ensure_future(agent.server.stop(20))
        # It takes no new calls, and finishes this one.
        failed: Fault | None = None
        while not isinstance(failed, UpstreamConnect):
            try:
                (await channel.stream(PATH, b"q", (), first=20, timeout=None)).close()
            except (UpstreamConnect, UpstreamReset) as fault:
                failed = fault.with_traceback(None)
        released.set()
        client = Taking()
        await streaming.flow(client.take, client.settle, 20)
        assert [chunk[5:] for chunk in client.taken] == [b"one", b"two"]
        await stopping


# ---- Whose word counts -----------------------------------------------------------------------------------------------


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    async with grpc_agent(ECHO) as agent, to(agent) as channel:
        assert await ask(channel) == b"echo"


async def test_requests_over_the_limit_are_not_sent() -> None:
    async with grpc_agent(ECHO) as agent, to(agent, bounds=GrpcBounds(request=10)) as channel:
        assert await ask(channel, b"x" * 10) == b"echo"
        with pytest.raises(BodyTooLarge, match="body exceeds 10 bytes"):
            await ask(channel, b"x" * 11)
        with pytest.raises(BodyTooLarge):
            await channel.stream(PATH, b"x" * 11, (), first=20, timeout=None)
        assert len(agent.asked) == 1


# ---- TLS -------------------------------------------------------------------------------------------------------------


def serving(authority: trustme.CA, name: str) -> Any:
    leaf = authority.issue_cert(name)
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    return grpc.ssl_server_credentials([(leaf.private_key_pem.bytes(), chain)])


async def test_an_agent_with_a_trusted_certificate_is_called_over_tls() -> None:
    authority = trustme.CA()
    roots = authority.cert_pem.bytes()
    async with grpc_agent(ECHO, tls=serving(authority, "localhost")) as agent, to(agent, roots=roots) as channel:
        assert await ask(channel) == b"echo"


@for_each("name", ["localhost", "other.example"])
async def test_an_untrusted_or_wrong_certificate_is_a_failed_connect(name: str) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    tls = serving(stranger if name == "localhost" else authority, name)
    async with grpc_agent(ECHO, tls=tls) as agent, to(agent, roots=authority.cert_pem.bytes()) as channel:
        with pytest.raises(UpstreamConnect) as failed:
            await ask(channel)
        assert failed.value.message == "the agent could not be reached"
        assert agent.asked == []


def test_a_channel_without_authorities_has_no_tls() -> None:
    for roots in (None, b""):
        with pytest.raises(ValueError, match="no authority"):
            GrpcChannel("grpcs://agent:1", connect=1, roots=roots)


def test_only_addresses_of_grpc_are_dialled() -> None:
    with pytest.raises(ValueError, match="no address"):
        GrpcChannel("https://agent:1", connect=1)


# ---- The end ---------------------------------------------------------------------------------------------------------


async def test_closing_a_channel_cuts_its_calls_and_sends_nothing_more() -> None:
    async with grpc_agent(hangs(b"one")) as agent:
        channel = GrpcChannel(agent.url, connect=5)
        answer = await channel.stream(PATH, b"q", (), first=20, timeout=None)
        client = Taking()
        flowing = asyncio.ensure_future(answer.flow(client.take, client.settle, 20))
        asking = asyncio.ensure_future(channel.unary("/other/Method", b"q", (), timeout=20))
        while len(agent.asked) < 2:
            await agent.next()
        await channel.aclose()
        for each in (flowing, asking):
            with pytest.raises(Draining):
                await each
        for asked in agent.asked:
            await asked.cancelled.wait()
        with pytest.raises(Draining):
            await ask(channel)
        assert channel.active == 0


def left_of_calls() -> list[Any]:
    """Tasks of ours, those of gRPC on this side, and its calls."""
    names = ("GrpcChannel.", "UnaryUnaryCall.", "UnaryStreamCall.", "_AioCall.")
    tasks = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "").startswith(names)]
    gc.collect()
    calls = [each for each in gc.get_objects() if type(each).__name__ in ("UnaryUnaryCall", "UnaryStreamCall")]
    return [*tasks, *calls]


@for_each("streams", [True, False])
async def test_a_cancelled_call_leaves_nothing_behind(streams: bool) -> None:  # noqa: FBT001 - a parameter of a test
    # A test that failed keeps its calls.
    known = left_of_calls()
    async with grpc_agent(hangs()) as agent, to(agent) as channel:
        for _ in range(3):
            call = channel.stream(PATH, b"q", (), first=20, timeout=None) if streams else ask(channel)
            asking = asyncio.ensure_future(call)
            asked = await agent.next()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asked.cancelled.wait()
            del asking, call
        assert channel.active == 0
        async with asyncio.timeout(30):
            # gRPC's own threads let go of a call when they get to it, and tell nobody.
            while any(all(each is not other for other in known) for each in left_of_calls()):  # noqa: ASYNC110 - as it says
                await asyncio.sleep(0.01)
