"""An agent's card server of one's own on loopback, scripted byte by byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.a2a.json import Tree

ECHO: Tree = {
    "name": "Echo",
    "version": "1",
    "capabilities": {},
    "skills": [],
    "supportedInterfaces": [{"url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Agent:
    """A server of one's own on loopback, that answers as it is told and remembers what it was asked."""

    answer: Answer
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            asked = Asked(head[0].split()[1], headers)
            self.asked.append(asked)
            await self.answer(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.over.set()


@asynccontextmanager
async def agent(answer: Answer) -> AsyncIterator[Agent]:
    double = Agent(answer)
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    double.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield double
    finally:
        server.close()


def reply(body: object, *headers: str, status: int = 200) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(raw)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + raw


def always(raw: bytes) -> Answer:
    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    return answer


def choose(pick: Callable[[Asked], bytes]) -> Answer:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(pick(asked))

    return answer
