"""Clients and answers that do whatever they like, at once: in the end nothing is left of any of them."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.a2a.call import Head
from gateway.a2a.fault import Fault
from gateway.listener import http1 as protocol
from gateway.listener.http1 import ClientResponder
from tests.listener.front import TEXT, Front, Tls, fronting, limited
from tests.support.gateway import Client, request

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SECONDS = 10
LIMITS = limited(header_timeout=0.3, body_idle=0.2, keep_alive=0.3, write_stall=0.4, connections=60, tls_handshake=0.5)


class Wild:
    """Draws what is sent and what is answered.

    Args:
        dice: Where every choice comes from.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def serve(self, front: Front, head: Head, wire: ClientResponder) -> None:
        dice = self._dice
        turn = dice.randrange(8)
        if turn == 0:
            await wire.answer(401, [TEXT], b"x" * dice.choice((0, 10, 300_000)))
            return
        if turn == 1:
            await asyncio.sleep(dice.random() * 0.05)
        elif turn == 2 and self._now_and_then():
            raise ValueError
        try:
            await wire.read(dice.choice((100, 200_000, 10_000_000)))
        except Fault as fault:
            await wire.answer(fault.http_status, [TEXT], b"no")
            return
        if turn == 3:
            await self._stream(wire)
        else:
            await wire.answer(dice.choice((200, 204)), [TEXT], b"w" * dice.choice((0, 5, 70_000, 1_000_000)))

    async def _stream(self, wire: ClientResponder) -> None:
        dice = self._dice
        wire.open(200, [TEXT])
        for _ in range(dice.randrange(20)):
            if dice.random() < 0.5:
                await wire.write(b"y" * dice.choice((0, 1, 1000, 100_000)))
            elif not wire.write_nowait(b"z" * 100):
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

    async def asks(self, front: Front) -> None:
        """One client, until it has enough."""
        dice = self._dice
        async with _left(await front.client()) as client:
            for _ in range(dice.randrange(1, 6)):
                data, bodiless = self._request()
                size = dice.choice((1000, 65536, 10_000_000)) if len(data) < 50_000 else 65536
                for at in range(0, len(data), size):
                    client.writer.write(data[at : at + size])
                    if self._now_and_then():
                        await asyncio.sleep(0)
                whim = dice.randrange(20)
                if whim == 0:
                    return
                if whim == 1 and front.tls is None:
                    client.writer.write_eof()
                    return
                if whim == 2:
                    await asyncio.sleep(dice.random() * 0.3)
                async with asyncio.timeout(0.5):
                    await client.answer(bodiless=bodiless)
            if dice.random() < 0.5:
                client.writer.close()

    def _request(self) -> tuple[bytes, bool]:
        dice = self._dice
        method = dice.choice(("GET", "POST", "POST", "HEAD"))
        body = b"b" * dice.choice((0, 1, 1000, 100_000, 2_000_000))
        if dice.random() < 0.4:
            parts = [body[at : at + 5000] for at in range(0, len(body), 5000)]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
            data = request(method, "/", None, [(b"Transfer-Encoding", b"chunked")]) + chunks
        else:
            data = request(method, "/", body, [(b"Expect", b"100-continue")] if self._now_and_then() else [])
        if self._now_and_then():
            data = data.replace(b"HTTP/1.1", b"HTTP/1.0")
        if self._now_and_then():
            data += data
        if self._now_and_then():
            at = dice.randrange(len(data))
            data = data[:at] + dice.choice((b"\0", b"\r\n", b"zz")) + data[at:]
        if self._now_and_then():
            data = data[: dice.randrange(len(data))]
        return data, method == "HEAD"

    def _now_and_then(self) -> bool:
        return self._dice.random() < 0.1


@asynccontextmanager
async def _left(client: Client) -> AsyncIterator[Client]:
    """A client that leaves, however that comes; whatever it is told or not is right."""
    try:
        yield client
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, AssertionError, asyncio.LimitOverrunError):
        pass
    finally:
        client.leave()


@pytest.mark.parametrize("secured", [False, True])
async def test_nothing_is_left_of_clients_that_do_whatever_they_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, secured: bool
) -> None:
    monkeypatch.setattr(protocol, "DRAIN_TIME", 0.3)
    caplog.set_level(logging.CRITICAL)
    seed = random.randrange(2**32)
    wild = Wild(random.Random(seed))
    async with fronting(wild.serve, LIMITS, tls=Tls(tmp_path) if secured else None) as front:
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS
        while loop.time() < end:
            async with asyncio.TaskGroup() as group:
                for _ in range(50):
                    group.create_task(wild.asks(front))
            front.clients.clear()
        await front.rested()
        assert front.heads, seed
