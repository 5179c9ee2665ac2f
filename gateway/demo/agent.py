"""An agent: its card, and the operations of A2A over one async generator that does the work.

The work outlives the request: a client that goes away cancels nothing, and finds the task again by its id.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from gateway.background import Background
from gateway.demo.task import TERMINAL, Answer, Status, Step, Task, Tree, say

KEPT = 1_000
"""Tasks that an agent remembers; the oldest go first."""

logger = logging.getLogger("gateway.demo")

_PAGE = 50
_LONGEST_PAGE = 100

Work = Callable[[Task, str], AsyncGenerator[Step, None]]
"""The work of an agent on a message: takes the task and the text of the message, yields steps."""

ERRORS = {
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (-32007, 400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
    "PARSE_ERROR": (-32700, 400, "INVALID_ARGUMENT"),
    "INVALID_REQUEST": (-32600, 400, "INVALID_ARGUMENT"),
    "METHOD_NOT_FOUND": (-32601, 404, "NOT_FOUND"),
    "INVALID_PARAMS": (-32602, 400, "INVALID_ARGUMENT"),
    "INTERNAL_ERROR": (-32603, 500, "INTERNAL"),
}
"""Reasons, each with its JSON-RPC code, HTTP status and gRPC status (1.0 §5.4)."""


class Refused(Exception):  # noqa: N818 - what happened to the call
    """The call is answered by an error; `reason` is a key of `ERRORS`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Profile:
    """The text of an agent's card."""

    name: str
    description: str
    skill: str
    tags: tuple[str, ...]
    example: str


class Agent:
    """One agent and the tasks it remembers.

    Args:
        grpc: `host:port` where it answers over gRPC too, for the tenant that is its skill; None without gRPC.
    """

    def __init__(self, profile: Profile, work: Work, background: Background, grpc: str | None = None) -> None:
        self.profile = profile
        self._grpc = grpc
        self._work = work
        self._background = background
        self._tasks: dict[str, Task] = {}

    def card(self, url: str) -> Tree:
        """The card of 1.0, with the fields beside it that a 0.3 client reads."""
        profile = self.profile
        bindings = (("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"))
        interfaces = [
            {"url": url, "protocolBinding": binding, "protocolVersion": version} for binding, version in bindings
        ]
        if self._grpc is not None:
            over_grpc = {"url": self._grpc, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
            interfaces.append({**over_grpc, "tenant": profile.skill})
        return {
            "name": profile.name,
            "description": profile.description,
            "version": "1.0.0",
            "supportedInterfaces": interfaces,
            "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [
                {
                    "id": profile.skill,
                    "name": profile.name,
                    "description": profile.description,
                    "tags": list(profile.tags),
                    "examples": [profile.example],
                }
            ],
            "url": url,
            "preferredTransport": "JSONRPC",
            "protocolVersion": "0.3.0",
        }

    async def call(self, operation: str, params: Tree) -> Tree:
        """Answer a unary operation, by its 1.0 name.

        Raises:
            Refused: the call is answered by an error.
        """
        if operation == "SendMessage":
            return await self._send(params)
        if operation == "GetTask":
            return self._find(params).snapshot(_whole(params, "historyLength"))
        if operation == "ListTasks":
            return self._list(params)
        if operation == "CancelTask":
            return self._cancel(params)
        if operation == "GetExtendedAgentCard":
            raise Refused("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "this agent has no extended card")
        raise Refused("PUSH_NOTIFICATION_NOT_SUPPORTED", "this agent sends no push notifications")

    async def stream(self, operation: str, params: Tree) -> AsyncGenerator[Tree, None]:
        """Answer `SendStreamingMessage` or `SubscribeToTask`; the first event is the task as of now, or a message.

        Raises:
            Refused: before the first event, the call is answered by an error; after it, the stream is.
        """
        if operation == "SubscribeToTask":
            task = self._find(params)
            if task.state in TERMINAL:
                raise Refused("UNSUPPORTED_OPERATION", "the task is over; get it instead")
            queue = task.watch()
            event: Tree | None = {"task": task.snapshot()}
        else:
            task, queue = self._begin(params)
            event = None
        try:
            event = event or await _first(queue)
            while event is not None:
                yield event
                event = await _next(queue)
        finally:
            task.unwatch(queue)

    async def _send(self, params: Tree) -> Tree:
        configuration = params.get("configuration") or {}
        length = _whole(configuration, "historyLength")
        task, queue = self._begin(params)
        try:
            event: Tree | None = await _first(queue)
            if event and "message" in event:
                return event
            # 1.0 §3.2.2: a send blocks until the task rests, unless it asks for an answer at once.
            while event is not None and configuration.get("returnImmediately") is not True:
                event = await _next(queue)
        finally:
            task.unwatch(queue)
        return {"task": task.snapshot(length)}

    def _begin(self, params: Tree) -> tuple[Task, asyncio.Queue[Tree | Exception | None]]:
        message = params.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("messageId"), str):
            raise Refused("INVALID_PARAMS", "params.message with a messageId is required")
        parts = message.get("parts")
        if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
            raise Refused("INVALID_PARAMS", "params.message.parts must be a list of at least one part")
        text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        if message.get("taskId"):
            task = self._find({"id": message["taskId"]})
            if task.state in TERMINAL or task.running is not None:
                raise Refused("UNSUPPORTED_OPERATION", "the task does not wait for a message")
            if message.get("contextId") not in (None, "", task.context_id):
                raise Refused("INVALID_PARAMS", "the task belongs to another context")
        else:
            task = Task(str(message.get("contextId") or uuid.uuid4()))
        task.hear(message)
        queue = task.watch()
        task.running = self._background.start(f"demo {self.profile.skill}", lambda: self._run(task, text))
        return task, queue

    async def _run(self, task: Task, text: str) -> None:
        announced = False
        try:
            async with aclosing(self._work(task, text)) as steps:
                async for step in steps:
                    if isinstance(step, Answer):
                        task.tell({"message": say(step.text, contextId=task.context_id)})
                        break
                    if not announced:
                        announced = True
                        self._remember(task)
                        task.tell({"task": task.snapshot()})
                    task.tell(task.take(step))
                    if task.state in TERMINAL or task.state == "TASK_STATE_INPUT_REQUIRED":
                        break
        except Refused as refusal:
            task.tell(refusal)
        except Exception:
            logger.exception("agent %s failed", self.profile.skill)
            task.tell(Refused("INTERNAL_ERROR", "the agent failed"))
        finally:
            task.running = None
            task.tell(None)

    def _remember(self, task: Task) -> None:
        self._tasks[task.id] = task
        if len(self._tasks) > KEPT:
            del self._tasks[next(iter(self._tasks))]

    def _find(self, params: Tree) -> Task:
        task = self._tasks.get(str(params.get("id")))
        if task is None:
            raise Refused("TASK_NOT_FOUND", "no such task")
        return task

    def _cancel(self, params: Tree) -> Tree:
        task = self._find(params)
        if task.state in TERMINAL:
            raise Refused("TASK_NOT_CANCELABLE", "the task is over")
        if task.running is not None:
            task.running.cancel()
        task.tell(task.take(Status("canceled")))
        task.tell(None)
        return task.snapshot()

    def _list(self, params: Tree) -> Tree:
        size = _PAGE if params.get("pageSize") in (None, 0) else _whole(params, "pageSize") or 0
        token = str(params.get("pageToken") or "0")
        if not 1 <= size <= _LONGEST_PAGE or not token.isdecimal():
            raise Refused("INVALID_PARAMS", f"pageSize is 1 to {_LONGEST_PAGE}, pageToken one that this agent gave")
        wanted = {"contextId": params.get("contextId"), "state": params.get("status")}
        found = [
            task
            for task in self._tasks.values()
            if wanted["contextId"] in (None, "", task.context_id) and wanted["state"] in (None, "", task.state)
        ]
        # 1.0 §3.1.4: newest status first.
        found.sort(key=lambda task: str(task.tree["status"]["timestamp"]), reverse=True)
        start = int(token)
        page = found[start : start + size]
        length = _whole(params, "historyLength")
        return {
            "tasks": [task.snapshot(length, artifacts=params.get("includeArtifacts") is True) for task in page],
            "nextPageToken": str(start + size) if start + size < len(found) else "",
            "pageSize": size,
            "totalSize": len(found),
        }


async def _first(queue: asyncio.Queue[Tree | Exception | None]) -> Tree:
    event = await _next(queue)
    if event is None:
        raise Refused("INTERNAL_ERROR", "the agent had nothing to say")
    return event


async def _next(queue: asyncio.Queue[Tree | Exception | None]) -> Tree | None:
    event = await queue.get()
    if isinstance(event, Exception):
        raise event
    return event


def _whole(params: Tree, name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused("INVALID_PARAMS", f"{name} is a whole number")
    return value
