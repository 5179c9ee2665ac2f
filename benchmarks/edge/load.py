"""Load: one call after the other on each of some kept connections, by `wrk` where there is one, else by ourselves."""

import asyncio
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httptools

_TIMEOUT = 10.0


class LoadFailed(Exception):  # noqa: N818 - what happened
    """Not every call was answered with 200, so the figure would be of something else."""


def calls(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    expected: bytes,
    *,
    connections: int,
    seconds: int,
    folder: Path,
) -> int:
    """Call for `seconds`; how many calls were answered.

    Raises:
        LoadFailed: an answer was no 200 or not the one expected, or a connection broke.
    """
    if shutil.which("wrk") is None:
        return asyncio.run(_ours(url, request(url, headers, body), expected, connections=connections, seconds=seconds))
    script = folder / "call.lua"
    fields = "".join(f"wrk.headers[ {_lua(name)} ] = {_lua(value)}\n" for name, value in headers.items())
    script.write_text(f'wrk.method = "POST"\nwrk.body = {_lua(body.decode())}\n{fields}')
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60.0)
    answered = re.search(r"(\d+) requests in", done.stdout)
    if done.returncode or done.stderr or answered is None or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise LoadFailed(f"{url}: {done.stdout[-500:]}{done.stderr[-500:]}")
    # wrk does not compare bodies, but an error over JSON-RPC, which may come with 200, is shorter than the answer.
    if _bytes_read(done.stdout) < int(answered[1]) * len(expected):
        raise LoadFailed(f"{url}: answers other than the agent's")
    return int(answered[1])


def request(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A POST as bytes."""
    parts = urlsplit(url)
    fields = {"Host": parts.netloc, **headers, "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {parts.path or '/'} HTTP/1.1\r\n{lines}\r\n".encode() + body


def address(url: str) -> tuple[str, int]:
    """Return the host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


async def once(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """One call on a connection of its own; the answer's body.

    Raises:
        LoadFailed: it was no 200.
    """
    async with asyncio.timeout(_TIMEOUT):
        caller = await _Caller.opened(url, request(url, headers, body), 0.0)
        await caller.done
    return caller.body


async def _ours(url: str, raw: bytes, expected: bytes, *, connections: int, seconds: float) -> int:
    until = time.monotonic() + seconds
    callers = [await _Caller.opened(url, raw, until) for _ in range(connections)]
    async with asyncio.timeout(seconds + _TIMEOUT):
        await asyncio.gather(*(caller.done for caller in callers))
    if any(caller.body != expected for caller in callers):
        raise LoadFailed(f"{url}: answers other than the agent's")
    return sum(caller.answered for caller in callers)


def _bytes_read(said: str) -> float:
    found = re.search(r"([\d.]+)([KMG]?)B read", said)
    assert found is not None
    return float(found[1]) * {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[found[2]]


class _Caller(asyncio.Protocol):
    """One connection that calls again as soon as it was answered, until the time is up; at least once."""

    def __init__(self, raw: bytes, until: float) -> None:
        self._raw = raw
        self._until = until
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answered = 0
        self.body = b""

    @classmethod
    async def opened(cls, url: str, raw: bytes, until: float) -> Self:
        loop = asyncio.get_running_loop()
        _, caller = await loop.create_connection(lambda: cls(raw, until), *address(url))
        return caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._raw)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(str(error))

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        assert self._transport is not None
        if self._parser.get_status_code() != 200:
            self._fail(f"{self._parser.get_status_code()} {self.body[:500]!r}")
            return
        self.answered += 1
        if time.monotonic() < self._until:
            self._parser = httptools.HttpResponseParser(self)
            self._transport.write(self._raw)
            return
        self._transport.close()
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was closed: {exc}")

    def _fail(self, fact: str) -> None:
        self._end(LoadFailed(fact))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: LoadFailed | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def _lua(text: str) -> str:
    assert "]==]" not in text
    return f"[==[{text}]==]"
