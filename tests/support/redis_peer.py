"""Answers of a Redis that a real one cannot be made to give: a server that answers each command as it is told to."""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import pytest

from gateway.tasks import redis_client
from gateway.tasks.redis_client import RedisClient

Words = Sequence[bytes]
Answer = Callable[[Words], bytes | None]

OK = b"+OK\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def friendly(words: Words) -> bytes:
    """Return the answer of a healthy Redis."""
    if words[0] == b"EVALSHA":
        return bulk(words[-1])
    if words[0] == b"PING":
        return b"+PONG\r\n"
    if words[0] == b"INFO":
        return bulk(b"# Memory\r\nmaxmemory_policy:noeviction\r\n")
    return OK


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be late: a machine that is busy is no fault."""
    for name in ("CONNECT", "PATIENCE", "LONGER"):
        monkeypatch.setattr(redis_client, name, 60.0)


async def until_up(client: RedisClient, *, up: bool = True) -> None:
    """Wait until a client is up, or is not."""
    async with asyncio.timeout(20.0):
        while client.up is not up:  # noqa: ASYNC110 - the line waits for no such event, so the client has none
            await asyncio.sleep(0)


class RedisPeer:
    """Listens on a port of the loopback interface that the system picks.

    Args:
        answer: Given the words of a command, the bytes of the answer; None for silence.

    Attributes:
        asked: The commands that have come.
        connections: The number of connections so far.
    """

    def __init__(self, answer: Answer = friendly) -> None:
        self.answer = answer
        self.asked: list[Words] = []
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.hang_up()
        await self.until(lambda: not self._writers)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def send(self, data: bytes) -> None:
        """Say something unasked, on every connection."""
        for writer in self._writers:
            writer.write(data)

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that depends on what has come."""
        async with asyncio.timeout(10.0):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                words = await _read(reader)
                self.asked.append(words)
                self._changed.set()
                said = self.answer(words)
                if said is not None:
                    writer.write(said)
        except (OSError, EOFError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._changed.set()


async def _read(reader: asyncio.StreamReader) -> Words:
    words = []
    for _ in range(int((await reader.readuntil(b"\r\n"))[1:])):
        size = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words
