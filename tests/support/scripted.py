"""An agent on a raw socket that does what a script says, however wrong, and remembers what it saw.

A `Script` plays one connection on its `Wire`. `ScriptedBackend` runs one for every connection; `in_turn` gives each
connection its own. The scripts below are the faults of safety.md, R1 to R8 and B4; a test can write its own.
"""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

WAIT = 9.0
"""Seconds after which what a test waits for will not happen any more; the gateway gives clients ten."""

CRLF2 = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came: `connection` counts from 0 in the order of their arrival."""

    connection: int
    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for known, value in self.headers if known.lower() == name), None)


class Wire(asyncio.Protocol):
    """The agent's end of one connection."""

    def __init__(self, backend: "ScriptedBackend") -> None:
        self.backend = backend
        self.number = -1
        self.sent = 0
        self.ended = False
        """Whether nothing more is to be sent."""
        self.buffer = bytearray()
        self.left_at: float | None = None
        """Time of the loop at which the gateway closed, or None."""
        self.transport: asyncio.Transport
        self.stuck = False
        """Whether the gateway does not take what was sent."""

    @property
    def gone(self) -> bool:
        return self.left_at is not None

    async def request(self) -> Received:
        """The next request, whole.

        Raises:
            ConnectionError: the gateway closed instead.
        """
        await self._until(lambda: CRLF2 in self.buffer)
        head, _, _ = bytes(self.buffer).partition(CRLF2)
        first, *lines = head.split(b"\r\n")
        method, target, _ = first.split(b" ")
        headers = tuple(cast("tuple[bytes, bytes]", tuple(line.split(b": ", 1))) for line in lines)  # lines have ": "
        length = int(next((value for name, value in headers if name.lower() == b"content-length"), b"0"))
        size = len(head) + 4 + length
        await self._until(lambda: len(self.buffer) >= size)
        received = Received(self.number, method, target, headers, bytes(self.buffer[size - length : size]))
        del self.buffer[:size]
        self.backend.requests.append(received)
        self.backend.changed()
        return received

    async def received(self, size: int) -> None:
        """Wait until so many bytes have come."""
        await self._until(lambda: len(self.buffer) >= size)

    async def send(self, data: bytes) -> None:
        """Send, as fast as the gateway reads.

        Raises:
            ConnectionError: the gateway closed.
        """
        if self.gone or self.ended:
            raise ConnectionResetError
        self.transport.write(data)
        self.sent += len(data)
        if self.stuck:
            await self._until(lambda: not self.stuck)

    async def hang(self) -> None:
        """Do nothing until the gateway closes."""
        with contextlib.suppress(ConnectionError):
            await self._until(lambda: False)

    def close(self) -> None:
        """Close cleanly, after what was sent."""
        self.transport.close()

    def reset(self) -> None:
        """Close with a reset."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def _until(self, true: Callable[[], bool]) -> None:
        await self.backend.until(lambda: true() or self.gone, for_ever=True)
        if not true():
            raise ConnectionResetError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from asyncio's
        self.backend.joined(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.backend.changed()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.left_at is None:
            self.left_at = asyncio.get_running_loop().time()
        self.backend.changed()

    def eof_received(self) -> None:
        self.left_at = asyncio.get_running_loop().time()
        self.backend.changed()

    def pause_writing(self) -> None:
        self.stuck = True
        self.backend.changed()

    def resume_writing(self) -> None:
        self.stuck = False
        self.backend.changed()


Script = Callable[[Wire], Awaitable[None]]


class ScriptedBackend:
    """Listens, on a port of the system's choice unless one is named, while it is entered.

    Attributes:
        wires: Every connection there was, in order.
        requests: Every whole request there was, in order.
    """

    def __init__(
        self, script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.script = script
        self.host = host
        self.port = port
        self.wires: list[Wire] = []
        self.requests: list[Received] = []
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{self.host}:{self.port}"

    @property
    def open(self) -> int:
        """Connections that the gateway has not closed."""
        return sum(not wire.gone for wire in self.wires)

    async def until(self, true: Callable[[], bool], *, for_ever: bool = False) -> None:
        """Wait until something holds; asked again after every event on any connection."""
        async with asyncio.timeout(None if for_ever else WAIT):
            while not true():
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter

    async def all_gone(self) -> None:
        """Wait until the gateway has closed every connection."""
        await self.until(lambda: self.open == 0)

    async def all_ended(self) -> None:
        """Wait until what is played on each connection has ended, too, a moment after it was closed."""
        await self.until(lambda: not self._tasks)

    async def plays(self, script: Script) -> None:
        """End all connections, forget what was seen, and play another script from the next connection on."""
        for wire in self.wires:
            if not wire.gone and not wire.transport.is_closing():
                wire.ended = True
                wire.transport.write_eof()
        await self.all_gone()
        await self.all_ended()
        self.wires.clear()
        self.requests.clear()
        self.script = script

    def deafen(self) -> None:
        """Take no more connections, as who stops does first; those that there are go on."""
        assert self._server is not None
        self._server.close()

    def changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def joined(self, wire: Wire) -> None:
        wire.number = len(self.wires)
        self.wires.append(wire)
        self.changed()
        task = asyncio.get_running_loop().create_task(self._play(wire))
        self._tasks.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.changed()

    async def _play(self, wire: Wire) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                await self.script(wire)
        finally:
            wire.close()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Wire(self), self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for wire in self.wires:
            # CPython 3.11.2 cannot abort a TLS transport twice.
            if not wire.transport.is_closing():
                wire.transport.abort()
        await self.until(lambda: self.open == 0)
        await self._server.wait_closed()
        for end in ends:
            if isinstance(end, Exception) and error is None:
                raise end


def refused_port() -> int:
    """A port that nobody listens on, and nobody will while the tests run: it stays taken."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    port = int(taken.getsockname()[1])
    taken.detach()
    return port


# ---- Answers as bytes ----------------------------------------------------------------------------------------------


def head(
    *fields: bytes, status: bytes = b"200 OK", content_type: bytes = b"application/json", version: bytes = b"1.1"
) -> bytes:
    """The head of an answer, without any framing that `fields` does not bring."""
    lines = [b"HTTP/" + version + b" " + status, b"content-type: " + content_type, *fields]
    return b"\r\n".join(lines) + CRLF2


SSE = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
"""The head of an answer that is a stream of events."""


def whole(body: bytes = b"{}", *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with its length."""
    return head(*fields, b"content-length: %d" % len(body), status=status) + body


def chunk(data: bytes) -> bytes:
    """One chunk of a body; `chunk(b"")` is the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(parts: Sequence[bytes], *fields: bytes, content_type: bytes = b"application/json") -> bytes:
    """A whole answer in chunks."""
    opening = head(*fields, b"transfer-encoding: chunked", content_type=content_type)
    return opening + b"".join(map(chunk, filter(None, parts))) + chunk(b"")


# ---- Scripts -------------------------------------------------------------------------------------------------------


def answers(*raw: bytes) -> Script:
    """Answers request after request, each with the next of `raw`; the last one is kept for all that follow."""

    async def script(wire: Wire) -> None:
        turn = 0
        while True:
            await wire.request()
            await wire.send(raw[min(turn, len(raw) - 1)])
            turn += 1

    return script


def answers_and_closes(raw: bytes = b"") -> Script:
    """Answers one request with `raw`, which may be nothing, and closes cleanly."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(raw)

    return script


def answers_and_resets(raw: bytes = b"") -> Script:
    """Answers one request with `raw`, waits until it has left, and resets."""

    async def script(wire: Wire) -> None:
        await wire.request()
        if raw:
            await wire.send(raw)
            # A reset overtakes what the kernel has not delivered.
            await asyncio.sleep(0.05)
        wire.reset()

    return script


async def resets_at_once(wire: Wire) -> None:
    """Accepts and resets, whatever comes."""
    wire.reset()


async def closes_at_once(wire: Wire) -> None:
    """Accepts and closes without a byte."""


def answers_and_hangs(raw: bytes = b"") -> Script:
    """Answers one request with `raw`, which may be nothing or half an answer, and does nothing more."""

    async def script(wire: Wire) -> None:
        await wire.request()
        if raw:
            await wire.send(raw)
        await wire.hang()

    return script


def drips(opening: bytes, dripped: bytes, interval: float = 0.01) -> Script:
    """Sends `opening`, then `dripped` byte by byte."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(opening)
        for byte in dripped:
            await asyncio.sleep(interval)
            await wire.send(bytes((byte,)))
        await wire.hang()

    return script


def endless(opening: bytes, piece: bytes) -> Script:
    """Sends `opening`, then `piece` for ever: a body, a line, comments, interim answers, headers."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(opening)
        while True:
            await wire.send(piece)
            await asyncio.sleep(0)

    return script


def events(frames: Iterable[bytes]) -> Script:
    """A stream of server-sent events in chunks, one `data:` line each, that ends cleanly."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream"))
        for frame in frames:
            await wire.send(chunk(b"data: " + frame + b"\n\n"))
        await wire.send(chunk(b""))
        await wire.hang()

    return script


async def echoes(wire: Wire) -> None:
    """Answers each request with its own body; one in three after a pause, one in three in chunks."""
    while True:
        received = await wire.request()
        match random.randrange(3):
            case 0:
                await asyncio.sleep(random.random() * 0.01)
                await wire.send(whole(received.body))
            case 1:
                await wire.send(chunked([received.body[:3], received.body[3:]]))
            case _:
                await wire.send(whole(received.body))


def in_turn(*scripts: Script) -> Script:
    """Each connection plays the next script; the last one is kept for all that follow."""

    async def script(wire: Wire) -> None:
        await scripts[min(wire.number, len(scripts) - 1)](wire)

    return script
