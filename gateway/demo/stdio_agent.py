"""A sample agent on stdio, in one file without dependencies: copy it, and put what your agent does into `Counter.work`.

It speaks the JSON-RPC binding of A2A 1.0 over its standard streams; the gateway translates for clients of 0.3. Requests
come in on stdin, many at a time; answers go out on stdout, told apart by their ids; logs go to stderr.

    $ python stdio_agent.py --framing ndjson
    {"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","parts":[{"text":"count 3"}]}}}

Two framings, of which either is read and the one asked for is written: that of the Language Server Protocol (`lsp`),
where header fields tell how long a message is, and one message a line (`ndjson`).

    Content-Length: 72
    Content-Type: application/json
    A2A-Version: 1.0

    {"jsonrpc":"2.0","id":"g-1","method":"GetTask","params":{"id":"task-7"}}

A stream is several answers with the same id. The last one is a message, an error, or the news that the task rests.
At the end of stdin the calls that came before it are answered, and that is all. A signal ends it at once, and so does
a host that reads no more.
"""

import argparse
import asyncio
import copy
import json
import logging
import os
import re
import shlex
import signal
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO

logger = logging.getLogger("stdio_agent")

Tree = dict[str, Any]
"""A JSON object."""


# ---- What this agent does: the part to replace -----------------------------------------------------------------------

CARD: Tree = {
    "name": "Counter",
    "description": "Counts as far as you like, one event a number. Repeats what else you say.",
    "version": "1.0.0",
    "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {
            "id": "count",
            "name": "Counting",
            "description": "Counts to a number.",
            "tags": ["numbers", "streaming"],
            "examples": ["count 10"],
        }
    ],
}


class Counter:
    """The work of the agent: `work` is called with every message, and either answers or goes on with the task.

    Args:
        pace: Seconds between two numbers.
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace

    async def work(self, task: "Task", text: str) -> str | None:
        """Do what a message asks for: return an answer in words, or change the task by `say` and `add`."""
        number = re.fullmatch(r"(?:count\s+)?([0-9]{1,6})", text.strip())
        if number is not None:
            task.say("working", "Counting.")
            last = int(number[1])
            for count in range(1, last + 1):
                await asyncio.sleep(self._pace)
                task.add(f"{count}\n", last=count == last)
            task.say("completed", f"That was {last}.")
        elif task.waits or text.strip() == "count":
            task.say("input-required", "How far?")
        else:
            return text
        return None


# ---- Tasks -----------------------------------------------------------------------------------------------------------

OVER = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
KEPT = 10_000
"""Tasks that are remembered; the oldest go first."""


class Task:
    """A piece of work: what clients see of it, and those who watch (1.0 §4.1.1)."""

    def __init__(self, context_id: str) -> None:
        self.id = str(uuid.uuid4())
        self.context_id = context_id
        self.status: Tree = {}
        self.history: list[Tree] = []
        self.chunks: list[Tree] = []
        self.running: asyncio.Task[None] | None = None
        self._watchers: list[asyncio.Queue[Tree | Refused | None]] = []
        self.waits = False
        self._introduced = False

    @property
    def over(self) -> bool:
        """Whether nothing changes any more."""
        return str(self.status["state"]) in OVER

    def snapshot(self, history_length: int | None = None) -> Tree:
        """Return the task as it is now, with so many of its latest messages; None for all of them."""
        tree: Tree = {"id": self.id, "contextId": self.context_id, "status": self.status}
        if self.chunks:
            tree["artifacts"] = [{"artifactId": "result", "name": "result", "parts": self.chunks}]
        if self.history and history_length != 0:
            tree["history"] = self.history[-(history_length or 0) :]
        return copy.deepcopy(tree)

    def say(self, state: str, text: str | None = None) -> None:
        """Set the state: `working`, `input-required`, `completed`, `failed`, `rejected` or `canceled`."""
        self._introduce()
        about = {"taskId": self.id, "contextId": self.context_id}
        self._file()
        self.status = {"state": "TASK_STATE_" + state.upper().replace("-", "_"), "timestamp": now()}
        if text is not None:
            self.status["message"] = agent_message(text, **about)
        self.tell({"statusUpdate": {**about, "status": self.status}})

    def add(self, text: str, *, last: bool = False) -> None:
        """Add a piece to the result."""
        self._introduce()
        artifact = {"artifactId": "result", "name": "result", "parts": [{"text": text}]}
        update = {"taskId": self.id, "contextId": self.context_id, "artifact": artifact}
        self.tell({"artifactUpdate": {**update, "append": bool(self.chunks), "lastChunk": last}})
        self.chunks.append({"text": text})

    def hear(self, message: Tree) -> None:
        """Take in a message of the user's; `waits` tells whether it answers a question, which is history then."""
        self._file()
        self.waits = self.status.get("state") == "TASK_STATE_INPUT_REQUIRED"
        self.status = {"state": "TASK_STATE_SUBMITTED", "timestamp": now()}
        self._introduced = False
        self.history.append({**message, "taskId": self.id, "contextId": self.context_id})

    def _file(self) -> None:
        if "message" in self.status:
            self.history.append(self.status["message"])

    def _introduce(self) -> None:
        # The first event of a stream is the task (1.0 §3.1.2).
        if not self._introduced:
            self._introduced = True
            self.tell({"task": self.snapshot()})

    def tell(self, event: "Tree | Refused | None") -> None:
        """Give an event, or a final error, to all watchers; None ends the turn."""
        for queue in self._watchers:
            queue.put_nowait(event)

    @contextmanager
    def watched(self) -> Iterator[AsyncIterator[Tree]]:
        """Yield the events from now on, to the end of the turn."""
        queue: asyncio.Queue[Tree | Refused | None] = asyncio.Queue()

        async def events() -> AsyncIterator[Tree]:
            while (event := await queue.get()) is not None:
                if isinstance(event, Refused):
                    raise event
                yield event

        self._watchers.append(queue)
        try:
            yield events()
        finally:
            self._watchers.remove(queue)


Work = Callable[[Task, str], Awaitable[str | None]]
"""Work on a message, as `Counter.work`."""


def agent_message(text: str, **about: str) -> Tree:
    """Return a message of the agent."""
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": [{"text": text}], **about}


def now() -> str:
    """Return the time, as A2A writes it."""
    return datetime.now(tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---- Operations ------------------------------------------------------------------------------------------------------

ERRORS = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "VERSION_NOT_SUPPORTED": -32009,
    "PARSE_ERROR": -32700,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
}
"""Why a call may be refused, with the codes of JSON-RPC (1.0 §5.4)."""


class Refused(Exception):  # noqa: N818 - what happened to the call
    """A call is answered by an error; `reason` is one of `ERRORS`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Agent:
    """The operations of A2A over one function that does the work.

    The work outlives the call that began it: a client may leave, and come back for the task.

    Args:
        works: Does the work.
    """

    def __init__(self, work: Work, works: asyncio.TaskGroup, card: Tree) -> None:
        self.card = card
        self._work = work
        self._works = works
        self._tasks: dict[str, Task] = {}

    async def answers(self, operation: str, params: Tree) -> AsyncGenerator[Tree, None]:
        """Yield the answers to a call: one, or those of a stream.

        Raises:
            Refused: the next answer is an error.
        """
        if operation == "SendStreamingMessage":
            task, text = self._take_up(params)
            with task.watched() as events:
                self._begin(task, text)
                async for event in events:
                    yield event
        elif operation == "SubscribeToTask":
            task = self._find(params)
            if task.over:
                raise Refused("UNSUPPORTED_OPERATION", "the task is over; get it instead")
            with task.watched() as events:
                yield {"task": task.snapshot()}
                async for event in events:
                    yield event
        else:
            yield await self._answer(operation, params)

    def stop(self) -> None:
        """Cancel the work without a waiting client."""
        for task in self._tasks.values():
            if task.running is not None:
                task.running.cancel()

    async def _answer(self, operation: str, params: Tree) -> Tree:
        match operation:
            case "SendMessage":
                return await self._send(params)
            case "GetTask":
                return self._find(params).snapshot(params.get("historyLength"))
            case "ListTasks":
                found = [
                    task.snapshot(0)
                    for task in self._tasks.values()
                    if params.get("contextId") in (None, "", task.context_id)
                    and params.get("status") in (None, "", task.status["state"])
                ]
                return {"tasks": found, "nextPageToken": "", "pageSize": len(found), "totalSize": len(found)}
            case "CancelTask":
                return self._cancel(self._find(params))
            case "GetExtendedAgentCard":
                return self.card
        raise Refused("PUSH_NOTIFICATION_NOT_SUPPORTED", "this agent sends no push notifications")

    async def _send(self, params: Tree) -> Tree:
        configuration = params.get("configuration") or {}
        task, text = self._take_up(params)
        with task.watched() as events:
            self._begin(task, text)
            async for event in events:
                # 1.0 §3.2.2: a send waits until the task rests, unless it asks for an answer at once.
                if "message" in event or configuration.get("returnImmediately") is True:
                    break
        return event if "message" in event else {"task": task.snapshot(configuration.get("historyLength"))}

    def _take_up(self, params: Tree) -> tuple[Task, str]:
        """Return the task that a message begins or continues, and the text of the message."""
        message = params.get("message")
        parts = message.get("parts") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(parts, list) or not parts:
            raise Refused("INVALID_PARAMS", "params.message with at least one part is required")
        if message.get("taskId"):
            task = self._find({"id": message["taskId"]})
            if task.over or task.running is not None:
                raise Refused("UNSUPPORTED_OPERATION", "the task does not wait for a message")
        else:
            task = Task(str(message.get("contextId") or uuid.uuid4()))
        task.hear(message)
        return task, "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))

    def _begin(self, task: Task, text: str) -> None:
        self._tasks[task.id] = task
        if len(self._tasks) > KEPT:
            oldest = self._tasks.pop(next(iter(self._tasks)))
            if oldest.running is not None:
                oldest.running.cancel()
        task.running = self._works.create_task(self._run(task, text))

    async def _run(self, task: Task, text: str) -> None:
        try:
            answer = await self._work(task, text)
            if answer is not None:
                # It was no task after all.
                self._tasks.pop(task.id, None)
                task.tell({"message": agent_message(answer, contextId=task.context_id)})
        except Refused as refusal:
            self._tasks.pop(task.id, None)
            task.tell(refusal)
        except Exception:
            logger.exception("the work failed")
            task.say("failed", "The agent failed.")
        finally:
            task.running = None
            task.tell(None)

    def _find(self, params: Tree) -> Task:
        task = self._tasks.get(str(params.get("id")))
        if task is None:
            raise Refused("TASK_NOT_FOUND", "no such task")
        return task

    def _cancel(self, task: Task) -> Tree:
        if task.over:
            raise Refused("TASK_NOT_CANCELABLE", "the task is over")
        if task.running is not None:
            task.running.cancel()
        task.say("canceled")
        task.tell(None)
        return task.snapshot()


def card() -> Tree:
    """Return the card, with the command that starts this agent as its address."""
    command = shlex.join(sys.orig_argv)
    return {**CARD, "supportedInterfaces": [{"url": command, "protocolBinding": "stdio", "protocolVersion": "1.0"}]}


# ---- JSON-RPC --------------------------------------------------------------------------------------------------------

_PUSH = "TaskPushNotificationConfig"
OPERATIONS = {
    *("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"),
    *("GetExtendedAgentCard", f"Create{_PUSH}", f"Get{_PUSH}", f"List{_PUSH}s", f"Delete{_PUSH}"),
}
"""The methods of 1.0, and so its operations."""


async def serve(agent: Agent, headers: dict[str, str], body: bytes, write: Callable[[Tree], None]) -> None:
    """Answer what one frame asks for."""
    call_id = None
    try:
        request = decoded(body)
        if "id" not in request:
            return  # A notification, which must not be answered; A2A has none.
        call_id = request["id"]
        operation, params = understood(request, headers)
        async with aclosing(agent.answers(operation, params)) as answers:
            async for answer in answers:
                write({"jsonrpc": "2.0", "id": call_id, "result": answer})
    except Refused as refusal:
        write(failed(call_id, refusal))
    except Exception:
        logger.exception("a call failed")
        write(failed(call_id, Refused("INTERNAL_ERROR", "the agent failed")))


def decoded(body: bytes) -> Tree:
    """Decode a JSON-RPC request."""
    try:
        request = json.loads(body)  # noqa: TID251 - no dependencies
    except ValueError as error:
        raise Refused("PARSE_ERROR", "this is no JSON") from error
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        raise Refused("INVALID_REQUEST", "this is no request of JSON-RPC")
    return request


def understood(request: Tree, headers: Mapping[str, str]) -> tuple[str, Tree]:
    """Return the operation and its parameters."""
    method: str = request["method"]
    params = request.get("params") or {}
    if not isinstance(params, dict):
        raise Refused("INVALID_PARAMS", "params is an object")
    if method not in OPERATIONS:
        raise Refused("METHOD_NOT_FOUND", "no such method")
    if headers.get("a2a-version", "1.0").split(".")[0] != "1":
        raise Refused("VERSION_NOT_SUPPORTED", "this is a method of 1.0")
    return method, params


def failed(call_id: object, refusal: Refused) -> Tree:
    """Return an error; 1.0 tells errors apart by their details (§9.5)."""
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    details = [{"@type": kind, "reason": refusal.reason, "domain": "a2a-protocol.org"}]
    error = {"code": ERRORS[refusal.reason], "message": refusal.message, "data": details}
    return {"jsonrpc": "2.0", "id": call_id, "error": error}


# ---- Frames ----------------------------------------------------------------------------------------------------------

LONGEST = 4 * 1024 * 1024
"""Bytes of a message."""


class Broken(Exception):  # noqa: N818 - what happened to the stream
    """The start of the next frame is unknown."""


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[dict[str, str], bytes]]:
    """Yield the frames of a stream to its end: header fields, names in lower case, and the message.

    Raises:
        Broken: the stream ends within a frame, or its bytes are not a frame.
    """
    try:
        while line := await reader.readline():
            if line.startswith((b"{", b"[")):
                yield {}, line
            elif line.strip():
                headers = await _headers(reader, line)
                length = headers.get("content-length", "")
                if not re.fullmatch("[0-9]{1,7}", length) or int(length) > LONGEST:
                    raise Broken(f"{length!r} is no Content-Length of a message")
                yield headers, await reader.readexactly(int(length))
    except (ValueError, EOFError) as error:
        raise Broken(str(error)) from error


async def _headers(reader: asyncio.StreamReader, line: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line.strip():
        name, colon, value = line.decode("ascii").partition(":")
        if not colon:
            raise Broken(f"{name!r} is no header field")
        headers[name.strip().lower()] = value.strip()
        line = await reader.readline()
    return headers


def writing(out: BinaryIO, framing: str) -> Callable[[Tree], None]:
    """Return a function that writes a message: whole, or the frames of two calls would be mixed up."""

    def write(message: Tree) -> None:
        body = json.dumps(message, separators=(",", ":")).encode()
        head = b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n" % len(body)
        out.write(body + b"\n" if framing == "ndjson" else head + body)
        out.flush()

    return write


# ---- The process -----------------------------------------------------------------------------------------------------


async def run(counter: Counter, out: BinaryIO, framing: str) -> int:
    """Answer every frame of stdin until it ends; the exit code."""
    reader = asyncio.StreamReader(limit=LONGEST)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    write, code = writing(out, framing), 0
    async with asyncio.TaskGroup() as works:
        agent = Agent(counter.work, works, card())
        async with asyncio.TaskGroup() as calls:
            try:
                async for headers, body in frames(reader):
                    calls.create_task(serve(agent, headers, body, write))
            except Broken as broken:
                logger.error("broken frame: %s", broken)  # noqa: TRY400 - it is not this program that is wrong
                code = 1
        agent.stop()
    transport.close()
    return code


def main() -> None:
    """Be an agent."""
    parser = argparse.ArgumentParser(description="A sample A2A agent on stdio.")
    parser.add_argument("--framing", choices=("lsp", "ndjson"), default="lsp", help="what to write (default: lsp)")
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS", help="between two numbers (default: 0)")
    options = parser.parse_args()
    logging.basicConfig(format="%(levelname)s %(message)s")
    # If the host no longer reads, the work is done; Ctrl-C needs no message.
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    # Standard output belongs to the frames. From now on prints of libraries go to the log.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.exit(asyncio.run(run(Counter(options.pace), out, options.framing)))


if __name__ == "__main__":
    main()
