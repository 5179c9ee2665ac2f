"""An agent of our own: streams at a fixed pace, and answers plain calls where there is no nginx to do it.

    python -m benchmarks.edge.agent PORT --together 20 --events 2000 --every 0.005

It serves a card, as every agent does; without one the gateway would ask for it again and again. A stream begins with
its task. Once `together` streams are open, all of them get an event `every` so many seconds, each written for itself,
so that a proxy that keeps up reads every event alone. With `--events 0` streams stay silent.
"""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from benchmarks.edge.process import Process, started
from benchmarks.edge.workload import CONTEXT, TASK, answer

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_CARD = {
    "name": "agent",
    "description": "Answers.",
    "version": "1",
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "answer", "name": "Answer", "description": "Answers.", "tags": ["answer"]}],
}
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@contextmanager
def running(
    folder: Path, root: Path, port: int, *, together: int = 1, events: int = 0, every: float = 0.005
) -> Iterator[Process]:
    """Start it as a process.

    Args:
        root: The project's folder.
        events: Of a stream, its task and its end included; 0 for streams that never end.
        every: Seconds between two events of a stream.
    """
    options = ["--together", str(together), "--events", str(events), "--every", str(every)]
    command = [sys.executable, "-m", "benchmarks.edge.agent", str(port), *options]
    with started("our-agent", command, folder=folder, ports=[port], environ={"PYTHONPATH": str(root)}) as process:
        yield process


class Streams:
    """All that are open: they begin, tick and end together."""

    def __init__(self, together: int, events: int, every: float) -> None:
        self._together = together
        self._events = events
        self._every = every
        self._open: list[asyncio.Transport] = []

    def join(self, transport: asyncio.Transport) -> None:
        """Begin a stream."""
        transport.write(_STREAM + _chunk(_first()))
        if self._events == 0:
            return
        self._open.append(transport)
        if len(self._open) == self._together:
            joined, self._open = self._open, []
            loop = asyncio.get_running_loop()
            # The time in which whoever measures sees that all streams are open.
            begins = loop.time() + 100 * self._every
            loop.call_at(begins, self._tick, joined, begins, 1)

    def _tick(self, joined: list[asyncio.Transport], begins: float, number: int) -> None:
        last = number == self._events - 1
        event = _chunk(_last() if last else _more(number)) + (b"0\r\n\r\n" if last else b"")
        for transport in joined:
            transport.write(event)
        if not last:
            loop = asyncio.get_running_loop()
            loop.call_at(begins + number * self._every, self._tick, joined, begins, number + 1)


class Answering(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self, streams: Streams, plain: bytes) -> None:
        self._streams = streams
        self._plain = plain
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as subclasses.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._buffer, 0, head)
        end = head + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < end:
            return
        asked, self._buffer = self._buffer[:end], self._buffer[end:]
        if asked.startswith(b"GET /.well-known/agent-card.json "):
            self._transport.write(_whole(json.dumps(_CARD).encode()))
        elif not asked.startswith(b"POST "):
            self._transport.write(_NOTHING)
        elif b'"SendStreamingMessage"' in asked:
            self._streams.join(self._transport)
        else:
            self._transport.write(self._plain)


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _chunk(result: dict[str, object]) -> bytes:
    event = b"data: " + json.dumps({"jsonrpc": "2.0", "id": "call-1", "result": result}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def _first() -> dict[str, object]:
    return {"task": {"id": TASK, "contextId": CONTEXT, "status": {"state": "TASK_STATE_WORKING"}}}


def _more(number: int) -> dict[str, object]:
    artifact = {"artifactId": "a-1", "parts": [{"text": f"word {number} of what a model says "}]}
    return {"artifactUpdate": {"taskId": TASK, "contextId": CONTEXT, "artifact": artifact, "append": True}}


def _last() -> dict[str, object]:
    return {"statusUpdate": {"taskId": TASK, "contextId": CONTEXT, "status": {"state": "TASK_STATE_COMPLETED"}}}


async def serve(port: int, streams: Streams) -> None:
    """Serve until the process is stopped."""
    plain = _whole(answer())
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(streams, plain), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.005)
    chosen = parser.parse_args()
    uvloop.run(serve(chosen.port, Streams(chosen.together, chosen.events, chosen.every)))


if __name__ == "__main__":
    main()
