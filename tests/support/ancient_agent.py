"""An agent of A2A 0.1 on a port of its own, which refuses whatever is not 0.1 by the letter.

What it does with a message is told by the first word of its first text:

    ask     asks back (input-required); the next message of the task is the answer, and completes it
    wait    works until the task is cancelled
    fail    fails
    count   gives an artifact in three pieces, and completes
    (else)  gives the parts back as an artifact, and completes

A send answers as soon as there is nothing more to do: 0.1 leaves it to the agent how long that takes.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.e2e.agents.server import Server
from tests.support.ancient import PARAMS, TERMINAL, NotAncient, Tree, insist

WELL_KNOWN = "/.well-known/agent.json"
STREAMED = ("tasks/sendSubscribe", "tasks/resubscribe")


class Refused(Exception):  # noqa: N818 - what happened to the call
    """The call is answered by an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AncientAgent:
    """The agent, while it is served by `ancient_agent`.

    Attributes:
        received: Every JSON-RPC request with a method of 0.1, as it came.
        headers: The headers of each, names in lower case.
    """

    def __init__(self, url: str, *, untidy: bool, pushes: bool) -> None:
        self.url = url
        self.received: list[Tree] = []
        self.headers: list[dict[str, str]] = []
        self.tasks: dict[str, Tree] = {}
        self.push: dict[str, Tree] = {}
        self._untidy = untidy
        self._pushes = pushes
        self._watchers: dict[str, set[asyncio.Queue[Tree]]] = {}
        self.app = Starlette(
            routes=[Route("/", self._call, methods=["POST"]), Route(WELL_KNOWN, self._card, methods=["GET"])]
        )

    @property
    def streams(self) -> int:
        """Return the number of open streams."""
        return sum(map(len, self._watchers.values()))

    def card(self) -> Tree:
        return {
            "name": "Ancient",
            "description": "Gives back what it is told.",
            "url": self.url,
            "provider": {"organization": "Example", "url": "https://example.net"},
            "version": "0.0.1",
            "capabilities": {"streaming": True, "pushNotifications": self._pushes, "stateTransitionHistory": False},
            "authentication": {"schemes": ["Bearer"]},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "echo", "name": "Echo", "description": "Gives back what it is told.", "tags": ["text"]}],
        }

    # ---- The wire

    async def _card(self, _request: Request) -> Response:
        return JSONResponse(self.card())

    async def _call(self, request: Request) -> Response:
        frame: Tree = {}
        try:
            frame = _frame(await request.body())
            self.received.append(frame)
            self.headers.append(dict(request.headers))
            method, params = frame["method"], frame["params"]
            try:
                insist(PARAMS[method], params)
            except NotAncient as error:
                raise Refused(-32602, str(error)) from error
            if method in STREAMED:
                queue = self._begin(params) if method == "tasks/sendSubscribe" else self._again(params)
                return StreamingResponse(self._stream(frame["id"], params["id"], queue), media_type="text/event-stream")
            return JSONResponse({"jsonrpc": "2.0", "id": frame["id"], "result": self._answers()[method](params)})
        except Refused as refusal:
            told = {"code": refusal.code, "message": refusal.message}
            return JSONResponse({"jsonrpc": "2.0", "id": frame.get("id"), "error": told})

    def _answers(self) -> dict[str, Callable[[Tree], Tree]]:
        return {
            "tasks/send": self._send,
            "tasks/get": self._get,
            "tasks/cancel": self._cancel,
            "tasks/pushNotification/set": self._set_push,
            "tasks/pushNotification/get": self._get_push,
        }

    async def _stream(self, call_id: Any, task_id: str, queue: asyncio.Queue[Tree]) -> AsyncIterator[bytes]:
        try:
            final = False
            while not final:
                event = await queue.get()
                final = event.get("final") is True
                frame = {"jsonrpc": "2.0", "id": call_id, "result": event}
                yield b"data: " + msgspec.json.encode(frame) + b"\n\n"
        finally:
            self._watchers[task_id].discard(queue)

    # ---- The operations

    def _send(self, params: Tree) -> Tree:
        task = self._hear(params)
        for event in self._work(task, params["message"]):
            self._tell(task, event)
        return self._shown(task, params.get("historyLength"))

    def _begin(self, params: Tree) -> asyncio.Queue[Tree]:
        task = self._hear(params)
        queue = self._watch(task)
        for event in self._work(task, params["message"]):
            self._tell(task, event)
        return queue

    def _again(self, params: Tree) -> asyncio.Queue[Tree]:
        task = self._find(params)
        queue = self._watch(task)
        queue.put_nowait(
            {
                "id": task["id"],
                "status": task["status"],
                "final": task["status"]["state"] in (*TERMINAL, "input-required"),
            }
        )
        return queue

    def _get(self, params: Tree) -> Tree:
        return self._shown(self._find(params), params.get("historyLength"))

    def _cancel(self, params: Tree) -> Tree:
        task = self._find(params)
        if task["status"]["state"] in TERMINAL:
            raise Refused(-32002, "Task cannot be canceled")
        self._tell(task, self._status("canceled"))
        return self._shown(task, None)

    def _set_push(self, params: Tree) -> Tree:
        self._find(params)
        if not self._pushes:
            raise Refused(-32003, "Push Notification is not supported")
        self.push[params["id"]] = params["pushNotificationConfig"]
        return params

    def _get_push(self, params: Tree) -> Tree:
        self._find(params)
        if params["id"] not in self.push:
            # The answer of that time's samples.
            raise Refused(-32603, "An error occurred while getting push notification info")
        return {"id": params["id"], "pushNotificationConfig": self.push[params["id"]]}

    # ---- Tasks

    def _find(self, params: Tree) -> Tree:
        if params["id"] not in self.tasks:
            raise Refused(-32001, "Task not found")
        return self.tasks[params["id"]]

    def _hear(self, params: Tree) -> Tree:
        task = self.tasks.setdefault(
            params["id"],
            {
                "id": params["id"],
                "sessionId": params.get("sessionId") or uuid.uuid4().hex,
                "status": {"state": "submitted", "timestamp": self._now()},
                "history": [],
            },
        )
        if task["status"]["state"] in TERMINAL:
            # InvalidTaskState, in the prose of 0.1.
            raise Refused(-32009, "the task is over")
        if "pushNotification" in params:
            self.push[params["id"]] = params["pushNotification"]
        _file(task)
        task["history"].append(params["message"])
        return task

    def _work(self, task: Tree, message: Tree) -> Iterator[Tree]:
        asked = task["status"]["state"] == "input-required"
        text = next((part["text"] for part in message["parts"] if part["type"] == "text"), "")
        word = "" if asked else text.split(" ")[0]
        yield self._status("working")
        if word == "ask":
            yield self._status("input-required", "Which one?")
        elif word == "fail":
            yield self._status("failed", "It cannot be done.")
        elif word == "count":
            for number in range(3):
                yield self._artifact([_text(str(number + 1))], append=number > 0, lastChunk=number == 2)
            yield self._status("completed")
        elif word != "wait":
            yield self._artifact(message["parts"], append=False, lastChunk=True)
            yield self._status("completed", text or None)

    def _status(self, state: str, text: str | None = None) -> Tree:
        status: Tree = {"state": state, "timestamp": self._now()}
        if text is not None:
            status["message"] = {"role": "agent", "parts": [_text(text)]}
        elif self._untidy:
            status["message"] = None
        return {"status": status, "final": state in (*TERMINAL, "input-required")}

    def _artifact(self, parts: list[Tree], **flags: bool) -> Tree:
        artifact = {"name": "result", "parts": parts, "index": 0, **flags}
        return {"artifact": {**artifact, "description": None, "metadata": None} if self._untidy else artifact}

    def _tell(self, task: Tree, event: Tree) -> None:
        """Change the task as the event says, and tell whoever watches it."""
        if "status" in event:
            _file(task)
            task["status"] = event["status"]
        else:
            artifacts = task.setdefault("artifacts", [])
            told = {name: value for name, value in event["artifact"].items() if name not in ("append", "lastChunk")}
            if event["artifact"]["append"]:
                artifacts[0] = {**artifacts[0], "parts": [*artifacts[0]["parts"], *told["parts"]]}
            else:
                artifacts[:] = [told]
        for queue in self._watchers.get(task["id"], ()):
            queue.put_nowait({"id": task["id"], **event})

    def _watch(self, task: Tree) -> asyncio.Queue[Tree]:
        queue: asyncio.Queue[Tree] = asyncio.Queue()
        self._watchers.setdefault(task["id"], set()).add(queue)
        return queue

    def _shown(self, task: Tree, history: int | None) -> Tree:
        shown = {name: value for name, value in task.items() if name != "history"}
        if history:
            shown["history"] = task["history"][-history:]
        return {**shown, "metadata": None} if self._untidy else shown

    def _now(self) -> str:
        if self._untidy:
            return datetime.now().isoformat()  # noqa: DTZ005 - as the samples of the time, which name no zone
        return datetime.now(tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@asynccontextmanager
async def ancient_agent(*, untidy: bool = False, pushes: bool = True) -> AsyncIterator[AncientAgent]:
    """Serve an agent, at its `url`.

    Args:
        untidy: Whether it writes as samples of the time do: nulls for what is not there, and moments without a zone.
        pushes: Whether it keeps push configurations. It sends nothing to anybody.
    """
    server = Server()
    agent = AncientAgent(f"http://127.0.0.1:{server.port}/", untidy=untidy, pushes=pushes)
    async with server.serving(agent.app):
        yield agent


def _frame(body: bytes) -> Tree:
    try:
        frame = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Refused(-32700, "Invalid JSON payload") from error
    if not isinstance(frame, dict) or frame.get("jsonrpc") != "2.0" or not isinstance(frame.get("id"), str | int):
        raise Refused(-32600, "Request payload validation error")
    if frame.get("method") not in PARAMS:
        raise Refused(-32601, "Method not found")
    return {"params": None, **frame}


def _file(task: Tree) -> None:
    """Make the message of the status a part of the history."""
    said = task["status"].get("message")
    if said is not None:
        task["history"].append(said)
        task["status"] = {name: value for name, value in task["status"].items() if name != "message"}


def _text(text: str) -> Tree:
    return {"type": "text", "text": text}
