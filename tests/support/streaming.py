"""Streams of an agent, piece by piece, and the client that reads them."""

import asyncio
import json
from typing import Any

from tests.support.gateway import STREAM, Client, Running
from tests.support.scripted import SSE, Wire

V1 = (b"A2A-Version", b"1.0")
V03 = (b"A2A-Version", b"0.3")


def frame(number: int, **more: Any) -> bytes:
    result = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, **more}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "n": number, "result": result}).encode()


class Held:
    """A stream whose pieces are sent when the test says so."""

    def __init__(self, opening: bytes = SSE) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._opening = opening

    async def __call__(self, wire: Wire) -> None:
        await wire.request()
        await wire.send(self._opening)
        while True:
            piece = asyncio.ensure_future(self.pieces.get())
            gone = asyncio.ensure_future(wire.hang())
            done, left = await asyncio.wait({piece, gone}, return_when=asyncio.FIRST_COMPLETED)
            for each in left:
                each.cancel()
            if gone in done or not piece.result():
                return
            await wire.send(piece.result())

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.pieces.put_nowait(piece)


async def opened(gateway: Running, target: str = "/echo", body: bytes | None = STREAM, *headers: Any) -> Client:
    client = await gateway.client()
    await client.ask("POST" if body is not None else "GET", target, body, headers)
    return client


def said(body: bytes) -> Any:
    """The data of the last event."""
    last = body.rstrip(b"\n").rpartition(b"\n\n")[2]
    return json.loads(b"\n".join(line[6:] for line in last.split(b"\n") if line.startswith(b"data: ")))


def reasons(details: list[dict[str, Any]]) -> list[str]:
    return [each["reason"] for each in details]
