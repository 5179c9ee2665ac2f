"""The parts of an answer over gRPC: messages, headers, and the status at its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from h2.connection import H2Connection
from h2.events import PingAckReceived, WindowUpdated

from gateway.a2a.framing.grpc import frame
from gateway.upstream.grpc_channel import GrpcChannel
from gateway.upstream.grpc_reply import GrpcReply
from tests.support.grpc_agent import Answer, GrpcAgent, grpc_agent, hangs, says
from tests.support.http2_server import Turn, http2_server
from tests.support.taking import Taking
from tests.support.undisturbed import undisturbed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]

PATH = "/lf.a2a.v1.A2AService/SubscribeToTask"


@asynccontextmanager
async def asked(answer: Answer) -> AsyncIterator[tuple[GrpcChannel, GrpcAgent]]:
    async with grpc_agent(answer) as agent:
        channel = GrpcChannel(agent.url, connect=5)
        try:
            yield channel, agent
        finally:
            await channel.aclose()


async def stream(channel: GrpcChannel) -> GrpcReply:
    return await channel.stream(PATH, b"q", (), first=20, timeout=None)


# ---- A stream --------------------------------------------------------------------------------------------------------


async def test_a_consumer_may_refuse_a_message_and_closing_cancels_the_call() -> None:
    async with asked(hangs(b"one", b"two")) as (channel, agent):
        answer = await stream(channel)

        def refuse(_chunk: bytes) -> bool:
            raise ValueError("no such event")

        with pytest.raises(ValueError, match="no such event"):
            await answer.flow(refuse, Taking().settle, 20)
        assert not agent.asked[0].cancelled.is_set()
        answer.close()
        answer.close()
        await agent.asked[0].cancelled.wait()
        assert channel.active == 0


async def test_a_reader_who_is_cancelled_cancels_the_call() -> None:
    async with asked(hangs(b"one")) as (channel, agent):
        answer = await stream(channel)
        client = Taking()
        reading = asyncio.ensure_future(answer.flow(client.take, client.settle, 20))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await agent.asked[0].cancelled.wait()


@undisturbed(0.3)
async def test_waiting_for_the_client_is_no_silence_of_the_agents() -> None:
    async with asked(says(b"one", b"two")) as (channel, _):
        answer = await stream(channel)
        client = Taking(slowly=True)
        # Silence is long: threads of gRPC's, which bring the message, are left without a processor, too.
        reading = asyncio.ensure_future(answer.flow(client.take, client.settle, 1.0))
        await client.full.wait()
        # Longer than the agent may be silent.
        asyncio.get_running_loop().call_later(1.2, client.released.set)
        await reading
        assert client.taken == [frame(b"one"), frame(b"two")]


class Endless:
    """Sends as much as it may, and knows how much that was."""

    def __init__(self) -> None:
        self.message = frame(b"x" * 1000)
        self.sent = 0
        self.stuck = asyncio.Event()

    def begin(self, turn: Turn) -> None:
        self.turn = turn
        turn.head()
        turn.on_event = self.on_event
        self.send()

    def send(self) -> None:
        h2: H2Connection = self.turn.h2
        while (room := min(h2.local_flow_control_window(self.turn.stream), 16_384)) > 0:
            at = self.sent % len(self.message)
            self.turn.data((self.message * 18)[at : at + room])
            self.sent += room
        h2.ping(b"12345678")

    def on_event(self, event: object) -> None:
        if isinstance(event, WindowUpdated):
            self.send()
        elif isinstance(event, PingAckReceived):
            self.stuck.set()


async def test_an_agent_is_read_no_faster_than_its_client_reads() -> None:
    endless = Endless()
    async with http2_server(endless.begin) as server:
        channel = GrpcChannel(server.url, connect=5)
        answer = await stream(channel)
        client = Taking(slowly=True)
        reading = asyncio.ensure_future(answer.flow(client.take, client.settle, 20))
        await client.full.wait()
        for _ in range(5):
            endless.stuck.clear()
            endless.turn.ping()
            await endless.stuck.wait()
        stuck_at = endless.sent
        assert 0 < stuck_at < 512 * 1024
        assert len(client.taken) == 1
        client.slowly = False
        client.released.set()
        # And goes on where it was.
        while endless.sent < 4 * stuck_at:
            endless.stuck.clear()
            endless.turn.ping()
            await endless.stuck.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        answer.close()
        del answer
        await channel.aclose()
