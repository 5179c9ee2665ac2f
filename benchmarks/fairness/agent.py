"""An agent for loads: who calls is answered at once, late, never or without end. What it costs counts for nobody.

    python -m benchmarks.fairness.agent PORT

The path says how:

    /prompt      at once
    /slow/50     after so many milliseconds
    /hangs       never
    /hangs/acme  never where the tenant `acme` calls, as the gateway tells; at once where it is another
    /endless     with a stream, as fast as it is read

Every send is answered with a completed task of its own, in a context of its own; `GetTask` with the task that it names.
"""

import argparse
import asyncio
import itertools
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from benchmarks.edge.process import Process, started
from benchmarks.edge.workload import answer, call

ANSWERED = '"artifactId":"a-1"'
"""Stands in each of its answers, and in no error."""

_TASK, _CONTEXT = "t" * 36, "c" * 36
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TENANT = re.compile(rb"\r\nx-a2a-tenant: *([^\r]*)", re.IGNORECASE)
_NAMED = re.compile(rb'"id" *: *"t([^"]{35})"')
_NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_EVENT_SIZE = 4096
_AT_A_TIME = 16


@contextmanager
def running(folder: Path, root: Path, port: int, *, name: str = "agent") -> Iterator[Process]:
    """Start it as a process.

    Args:
        root: The project's folder.
    """
    command = [sys.executable, "-m", "benchmarks.fairness.agent", str(port)]
    with started(name, command, folder=folder, ports=[port], environ={"PYTHONPATH": str(root)}) as process:
        yield process


def send(method: str = "SendMessage", *, size: int = 512, members: int = 0) -> bytes:
    """A JSON-RPC send for a new task.

    Args:
        size: Bytes.
        members: The number of members of its objects together; 0 for as few as it takes.
    """
    tree = json.loads(call(method=method, size=0))
    message = tree["params"]["message"]
    if members:
        # The request has four, its params one, the message four with its metadata, and its part one.
        message["metadata"] = {f"key-{number:05}": number for number in range(members - 10)}
    message["parts"][0]["text"] = "x" * max(0, size - len(_compact(tree)))
    return _compact(tree)


def get(task: str) -> bytes:
    """A JSON-RPC `GetTask`."""
    return _compact({"jsonrpc": "2.0", "id": "call-1", "method": "GetTask", "params": {"id": task}})


def task_of(told: bytes) -> str:
    """The id of the task in an answer."""
    found = _NAMED.search(told)
    assert found is not None, told
    return "t" + found[1].decode()


class Answers:
    """An agent's answers, each about another task."""

    def __init__(self) -> None:
        tree = json.loads(answer())
        task = tree["result"]["task"]
        task["id"], task["contextId"] = _TASK, _CONTEXT
        self._sent = _compact(tree).decode()
        self._got = _compact({**tree, "result": task}).decode()
        artifact = {"artifactId": "a-1", "parts": [{"text": "x" * _EVENT_SIZE}]}
        begun = {**task, "status": {"state": "TASK_STATE_WORKING"}}
        self._begun = _compact({**tree, "result": {"task": begun}}).decode()
        more = {"taskId": _TASK, "contextId": _CONTEXT, "artifact": artifact, "append": True}
        self._more = _compact({**tree, "result": {"artifactUpdate": more}}).decode()
        self._number = itertools.count()

    def to(self, body: bytes) -> bytes:
        """The answer to a send, or to a `GetTask`."""
        named = _NAMED.search(body) if b'"GetTask"' in body else None
        told = _filled(self._sent, self._new()) if named is None else _filled(self._got, named[1].decode())
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told)

    def stream(self) -> tuple[bytes, bytes]:
        """Return the beginning of a stream, and the event that is repeated in it."""
        id = self._new()  # noqa: A001 - the word
        return _STREAM + _chunk(_filled(self._begun, id)), _chunk(_filled(self._more, id))

    def _new(self) -> str:
        return f"{next(self._number):035}"


class Answering(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._buffer = bytearray()
        self._whole = 0
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._event = b""
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as subclasses.
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._whole:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head = bytes(self._buffer[:end])
            length = _LENGTH.search(self._head)
            self._whole = end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < self._whole:
            return
        body = bytes(self._buffer[len(self._head) + 4 : self._whole])
        del self._buffer[: self._whole]
        self._whole = 0
        self._asked(body)

    def _asked(self, body: bytes) -> None:
        if not self._head.startswith(b"POST /"):
            self._write(_NOTHING)
            return
        how, _, more = self._head.split(b" ", 2)[1].strip(b"/").partition(b"/")
        if how == b"hangs":
            tenant = _TENANT.search(self._head)
            if more and (tenant is None or tenant[1] != more):
                self._write(self._answers.to(body))
        elif how == b"slow":
            asyncio.get_running_loop().call_later(int(more) / 1000, self._write, self._answers.to(body))
        elif how == b"endless":
            begins, self._event = self._answers.stream()
            self._write(begins)
            self._pour()
        else:
            self._write(self._answers.to(body))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _pour(self) -> None:
        for _ in range(_AT_A_TIME):
            if self._paused or self._transport is None:
                return
            self._transport.write(self._event)
        asyncio.get_running_loop().call_soon(self._pour)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pour()


def _compact(tree: object) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _filled(template: str, number: str) -> bytes:
    return template.replace(_TASK, "t" + number).replace(_CONTEXT, "c" + number).encode()


def _chunk(told: bytes) -> bytes:
    event = b"data: " + told + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


async def serve(port: int) -> None:
    """Serve until the process is stopped."""
    answers = Answers()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(answers), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
