"""Clients and answers that do whatever they like, at once: in the end nothing is left of any of them."""

import asyncio
import logging
import random
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest
from h2.exceptions import H2Error

from gateway.a2a.call import Head
from gateway.a2a.fault import Fault
from gateway.a2a.framing.grpc import frame
from gateway.listener import http2
from gateway.listener.grpc_wire import GrpcWire
from gateway.listener.http2_frames import Kind
from tests.listener.front import limited
from tests.listener.grpc_front import (
    REQUEST,
    SEND,
    STREAM,
    GrpcFront,
    GrpcTls,
    RawClient,
    bounded,
    grpc_fronting,
    raw_frame,
)
from tests.loops import both_loops

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SECONDS = 10
BOUNDS = bounded(deadline=0.3, keepalive=0.3, idle=0.3, streams=30, resets=20)
LIMITS = limited(body_idle=0.2, write_stall=0.4, connections=60, tls_handshake=0.5, write_buffer=8192)


anyio_backend = both_loops


class Wild:
    """Draws what is sent and what is answered.

    Args:
        dice: Where every choice comes from.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def serve(self, front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        dice = self._dice
        turn = dice.randrange(8)
        if turn == 0:
            await wire.answer(200, [(b"grpc-status", b"16")], b"")
            return
        if turn == 1:
            await asyncio.sleep(dice.random() * 0.05)
        elif turn == 2 and self._now_and_then():
            raise ValueError
        try:
            await wire.read(dice.choice((100, 200_000, 10_000_000)))
        except Fault as fault:
            wire.fail(fault.grpc_status, "no")
            return
        if turn == 3:
            await self._stream(wire)
        else:
            await wire.answer(200, [], frame(b"w" * dice.choice((0, 5, 70_000, 1_000_000))))

    async def _stream(self, wire: GrpcWire) -> None:
        dice = self._dice
        wire.open(200, [])
        for _ in range(dice.randrange(20)):
            if dice.random() < 0.5:
                await wire.write(frame(b"y" * dice.choice((0, 1, 1000, 100_000))))
            elif not wire.write_nowait(frame(b"z" * 100)):
                await wire.drained()
            if self._now_and_then():
                await asyncio.sleep(0.005)
        end = dice.randrange(6)
        if end == 0:
            wire.cut()
        elif end == 1:
            raise ValueError
        elif end > 2:
            await wire.close()

    async def calls(self, front: GrpcFront) -> None:
        """One real client, until it has enough."""
        dice = self._dice
        async with front.channel(max_send_message_length=-1) as channel:
            for _ in range(dice.randrange(1, 10)):
                message = b"m" * dice.choice((0, 10, 70_000, 1_000_000))
                timeout = dice.choice((0.001, 0.05, 1.0))
                try:
                    if dice.random() < 0.5:
                        await channel.unary_unary(SEND)(message, timeout=timeout)
                        continue
                    call = channel.unary_stream(STREAM)(message, timeout=timeout)
                    async for _ in call:
                        if self._now_and_then():
                            call.cancel()
                except (grpc.aio.AioRpcError, asyncio.CancelledError):
                    pass

    async def frames(self, front: GrpcFront) -> None:
        """One client of bare frames, until it has enough."""
        dice = self._dice
        try:
            more = {} if front.tls is None else {"ssl": front.tls.client, "server_hostname": "127.0.0.1"}
            client = await front.client(**more)
        except OSError:
            return
        try:
            for _ in range(dice.randrange(1, 30)):
                self._say(client)
                if self._now_and_then():
                    await asyncio.sleep(dice.random() * 0.1)
            client.acknowledges = dice.random() < 0.7
            async with asyncio.timeout(dice.random()):
                await client.finished()
        except (OSError, H2Error, TimeoutError, RuntimeError, AssertionError):
            pass
        finally:
            client.leave()

    def _say(self, client: RawClient) -> None:
        dice = self._dice
        turn = dice.randrange(10)
        if turn < 6:
            body = frame(b"b" * dice.choice((0, 1, 1000, 16_000)))[: dice.choice((3, 50, 16_005))]
            stream = client.ask(dice.choice((REQUEST, REQUEST[:5])), body, end=dice.random() < 0.8)
            if self._now_and_then():
                client.h2.reset_stream(stream)
        elif turn < 9:
            client.send(raw_frame(dice.randrange(10), dice.choice((0, 1, 4)), dice.randrange(20), dice.randbytes(8)))
        elif self._now_and_then():
            client.send(raw_frame(Kind.HEADERS, 0, 101, b"\x83"))
        client.flush()

    def _now_and_then(self) -> bool:
        return self._dice.random() < 0.1


@pytest.mark.parametrize("secured", [False, True])
async def test_nothing_is_left_of_clients_that_do_whatever_they_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, secured: bool
) -> None:
    monkeypatch.setattr(http2, "_DRAIN_TIME", 0.3)
    monkeypatch.setattr(http2, "PATIENCE", 0.3)
    caplog.set_level(logging.CRITICAL)
    seed = random.randrange(2**32)
    wild = Wild(random.Random(seed))
    async with grpc_fronting(wild.serve, BOUNDS, LIMITS, tls=GrpcTls(tmp_path) if secured else None) as front:
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS
        while loop.time() < end:
            async with asyncio.TaskGroup() as group:
                for _ in range(20):
                    group.create_task(wild.frames(front))
                for _ in range(4):
                    group.create_task(wild.calls(front))
            front._clients.clear()
        await front.rested()
        assert front.heads, seed
        assert {type(fault) for fault in front.faults} <= {ValueError}, seed
