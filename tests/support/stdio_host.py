"""A host that starts an agent on stdio and talks to it by its pipes: an editor, or a gateway.

    async with hosting(sys.executable, "agent.py") as host:
        answer = await host.ask("GetTask", {"id": "t"})

It knows nothing of the gateway's own code, and takes the wire at its word: a frame has both header fields, each of its
lines ends with CRLF, and a line of JSON has LF at its end.
"""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

Tree = dict[str, Any]
WAIT = 60.0
"""Seconds after which what a test waits for will not happen any more; an agent may be a process that still starts."""
LONGEST = 64 * 1024 * 1024
"""Bytes of an answer."""
RESTING = ("COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED")


def message(text: str, *, task: str | None = None, older: bool = False) -> Tree:
    """Parameters of a send, in the spelling of 1.0 or of 0.3."""
    said: Tree = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}
    if older:
        said = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": text}]}
    if task is not None:
        said["taskId"] = task
    return {"message": said}


def frame(content: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A frame as language servers have it."""
    fields = {"Content-Length": str(len(content)), "Content-Type": "application/json", **(headers or {})}
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode() + b"\r\n" + content


def rests(answer: Tree) -> bool:
    """Whether an answer is the last of its stream, by what it says."""
    result = answer.get("result")
    if not isinstance(result, dict) or result.get("kind") == "message" or "message" in result:
        return True
    event = result.get("task") or result.get("statusUpdate") or result
    state = str((event.get("status") or {}).get("state", ""))
    return state.removeprefix("TASK_STATE_").upper().replace("-", "_") in RESTING


class Host:
    """The host of one agent, as long as it talks to it.

    Attributes:
        answers: All that it answered, in order.
        headers: The header fields of each of them, names in lower case.
        strays: Answers whose id nobody waits for.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framing: str) -> None:
        self.reader = reader
        self.writer = writer
        self.framing = framing
        self.answers: list[Tree] = []
        self.headers: list[dict[str, str]] = []
        self.strays: list[Tree] = []
        self._ids = itertools.count(1)
        self._open: dict[object, asyncio.Queue[Tree | None]] = {}

    async def write(self, data: bytes) -> None:
        """Raw bytes."""
        self.writer.write(data)
        async with asyncio.timeout(WAIT):
            await self.writer.drain()

    async def send(self, method: str, params: Tree | None = None, **headers: str) -> Any:
        """Send a request; where its answers will be."""
        number = next(self._ids)
        queue = self.expect(number)
        content = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}).encode()
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.write(content + b"\n" if self.framing == "ndjson" else frame(content, fields))
        return queue

    def expect(self, number: object) -> Any:
        """Return the queue of the answers to an id."""
        self._open[number] = asyncio.Queue()
        return self._open[number]

    def leave(self) -> None:
        """Say nothing more."""
        self.writer.close()

    async def answer(self, queue: Any) -> Tree:
        """The next answer to a request."""
        async with asyncio.timeout(WAIT):
            answer: Tree | None = await queue.get()
        assert answer is not None, "the agent has ended"
        return answer

    async def ask(self, method: str, params: Tree | None = None, **headers: str) -> Any:
        """Return the result of a call, or `{"error": …}`."""
        answer = await self.answer(await self.send(method, params, **headers))
        return answer["result"] if "result" in answer else {"error": answer["error"]}

    async def stream(self, method: str, params: Tree | None = None) -> list[Any]:
        """The results of a stream, up to the one that says that it is the last."""
        queue = await self.send(method, params)
        return await self.rest(queue)

    async def rest(self, queue: Any) -> list[Any]:
        """The results that are still to come on a stream."""
        results = []
        while True:
            answer = await self.answer(queue)
            results.append(answer["result"] if "result" in answer else {"error": answer["error"]})
            if rests(answer):
                return results

    async def read(self) -> None:
        """Read to the end of stdout."""
        try:
            while line := await self.reader.readline():
                headers: dict[str, str] = {}
                while self.framing == "lsp" and line != b"\r\n":
                    assert line.endswith(b"\r\n"), line
                    name, colon, value = line[:-2].decode("ascii").partition(": ")
                    assert colon, line
                    headers[name.lower()] = value
                    line = await self.reader.readline()
                if headers:
                    assert headers["content-type"] == "application/json"
                    line = await self.reader.readexactly(int(headers["content-length"]))
                self._take(json.loads(line), headers)
        finally:
            for queue in self._open.values():
                queue.put_nowait(None)

    def _take(self, answer: Tree, headers: dict[str, str]) -> None:
        self.answers.append(answer)
        self.headers.append(headers)
        queue = self._open.get(answer.get("id"))
        if queue is None:
            self.strays.append(answer)
        else:
            queue.put_nowait(answer)


@asynccontextmanager
async def over_pipes(hears: int, says: int, framing: str) -> AsyncIterator["PipeHost"]:
    """The host at the other ends of two pipes, which are closed with it; the agent ends its own before that."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    with os.fdopen(hears, "rb", 0) as source, os.fdopen(says, "wb", 0) as target:
        heard, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        # It reads nothing, but its end would be the end of a reader.
        idle = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        said, protocol = await loop.connect_write_pipe(lambda: idle, target)
        host = PipeHost(reader, asyncio.StreamWriter(said, protocol, None, loop), framing, heard)
        reading = asyncio.ensure_future(host.read())
        try:
            yield host
            async with asyncio.timeout(WAIT):
                await reading
        finally:
            reading.cancel()
            heard.close()
            said.close()


class PipeHost(Host):
    """The host of an agent within this process."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framing: str, heard: asyncio.ReadTransport
    ) -> None:
        super().__init__(reader, writer, framing)
        self._heard = heard

    def pause(self) -> None:
        """Read nothing."""
        self._heard.pause_reading()

    def resume(self) -> None:
        """Read again."""
        self._heard.resume_reading()


class ProcessHost(Host):
    """The host of an agent that is a process.

    Attributes:
        complaints: Its stderr, once it is gone.
    """

    def __init__(self, process: asyncio.subprocess.Process, framing: str) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        super().__init__(process.stdout, process.stdin, framing)
        self.process = process
        self.complaints = b""

    async def close(self) -> int:
        """End stdin; the exit code."""
        self.writer.close()
        return await self.ended()

    async def ended(self) -> int:
        """The exit code, once the agent is gone by itself."""
        async with asyncio.timeout(WAIT):
            return await self.process.wait()


@asynccontextmanager
async def hosting(
    *command: str, framing: str = "lsp", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[ProcessHost]:
    """Start an agent; it is killed in the end, if it is still there."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LONGEST,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    assert process.stderr is not None
    host = ProcessHost(process, framing)
    async with asyncio.TaskGroup() as reading:
        reading.create_task(host.read())
        complaints = reading.create_task(process.stderr.read())
        try:
            yield host
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()
            host.complaints = await complaints
