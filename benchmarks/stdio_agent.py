"""One agent over two wires: HTTP on a port, or frames on its standard streams. What it does for a call is the same.

    python -m benchmarks.stdio_agent [PORT] [--events 400] [--every 0.005]

Without a port it is on stdio. It reads each call as JSON, and answers with a completed task of its own; a stream is so
many events, one every so many seconds.
"""

import argparse
import asyncio
import itertools
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import uvloop

from benchmarks.edge.workload import answer

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Agent:
    """The agent's answers, on any wire."""

    def __init__(self, events: int, every: float) -> None:
        self._events = events
        self._every = every
        self._task: dict[str, Any] = json.loads(answer())["result"]["task"]
        self._number = itertools.count()

    def answer(self, content: bytes, say: Callable[[bytes, bool], None], begin: Callable[[], None]) -> None:
        """Answer a call.

        Args:
            say: Is given each frame, and whether it is the last.
            begin: Called before the first one of a stream.
        """
        call = json.loads(content)
        task = {**self._task, "id": f"t{next(self._number):035}"}
        if call["method"] != "SendStreamingMessage":
            say(_frame(call, {"task": task}), True)
            return
        begin()
        asyncio.get_running_loop().call_soon(self._tick, call, task["id"], self._events, say)

    def _tick(self, call: dict[str, Any], task: str, left: int, say: Callable[[bytes, bool], None]) -> None:
        state = "TASK_STATE_COMPLETED" if left == 1 else "TASK_STATE_WORKING"
        status = {"taskId": task, "contextId": "c", "status": {"state": state}, "metadata": {"filler": "x" * 200}}
        say(_frame(call, {"statusUpdate": status}), left == 1)
        if left > 1:
            asyncio.get_running_loop().call_later(self._every, self._tick, call, task, left - 1, say)


class Wire(asyncio.Protocol):
    """Reads heads and bodies, which requests of HTTP and frames have alike."""

    def __init__(self, agent: Agent, output: asyncio.WriteTransport | None = None) -> None:
        self._agent = agent
        self._piped = output is not None
        self._output = output
        self._buffer = bytearray()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._piped:
            self._output = transport  # type: ignore[assignment]  # uvloop's are not registered

    def connection_lost(self, _: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._buffer, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            body = bytes(self._buffer[end + 4 : whole])
            del self._buffer[:whole]
            if self._piped:
                self._agent.answer(body, self._say_framed, lambda: None)
            elif body:
                self._over_http(body)
            else:
                self._write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    def _over_http(self, body: bytes) -> None:
        streams = False

        def begin() -> None:
            nonlocal streams
            streams = True
            self._write(_OPEN)

        def say(frame: bytes, last: bool) -> None:  # noqa: FBT001 - by its place
            if streams:
                event = b"data: %b\n\n" % frame
                self._write(b"%x\r\n%b\r\n%b" % (len(event), event, b"0\r\n\r\n" if last else b""))
            else:
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(frame)
                self._write(head + frame)

        self._agent.answer(body, say, begin)

    def _say_framed(self, frame: bytes, _last: bool) -> None:  # noqa: FBT001 - by its place
        self._write(b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n%b" % (len(frame), frame))

    def _write(self, data: bytes) -> None:
        if self._output is not None and not self._output.is_closing():
            self._output.write(data)


def _frame(call: dict[str, Any], result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}, separators=(",", ":")).encode()


async def serve(agent: Agent, port: int | None) -> None:
    """Answer until nobody is there any more."""
    loop = asyncio.get_running_loop()
    if port is not None:
        server = await loop.create_server(lambda: Wire(agent), "127.0.0.1", port)
        await server.serve_forever()
    output, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
    wire = Wire(agent, output)
    await loop.connect_read_pipe(lambda: wire, sys.stdin.buffer)
    await wire.lost


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--every", type=float, default=0.005)
    chosen = parser.parse_args()
    uvloop.run(serve(Agent(chosen.events, chosen.every), chosen.port))


if __name__ == "__main__":
    main()
