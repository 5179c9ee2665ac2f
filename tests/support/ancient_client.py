"""A client of A2A 0.1 that believes nothing: every answer must be 0.1 by the letter, and about what was asked."""

import itertools
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec

from tests.support.ancient import PARAMS, RESULTS, NotAncient, Tree, insist


class Failed(Exception):  # noqa: N818 - what happened to the call
    """The agent answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class AncientClient:
    """Calls one agent; what it sends is 0.1 by the letter as well."""

    def __init__(self, http: httpx.AsyncClient, url: str, *, headers: dict[str, str] | None = None) -> None:
        self._http = http
        self._url = url
        self._headers = headers or {}
        self._numbers = itertools.count(1)

    async def card(self) -> Tree:
        answer = await self._http.get(self._url.rstrip("/") + "/.well-known/agent.json", headers=self._headers)
        _require(answer.status_code == 200, f"the card has status {answer.status_code}")
        card: Tree = msgspec.json.decode(answer.content)
        insist("AgentCard", card)
        return card

    async def send(self, said: str | list[Tree], **more: Any) -> Tree:
        """Send a text, or parts; the Task that comes back.

        Args:
            more: Other parameters of the send; `id` to go on with a task.
        """
        return await self._ask("tasks/send", _send_params(said, more))

    def stream(self, said: str | list[Tree], **more: Any) -> AsyncIterator[Tree]:
        """Send, and follow the events up to the final one; see `send`."""
        return self._follow("tasks/sendSubscribe", _send_params(said, more))

    async def get(self, task_id: str, **more: Any) -> Tree:
        return await self._ask("tasks/get", {"id": task_id, **more})

    async def cancel(self, task_id: str) -> Tree:
        return await self._ask("tasks/cancel", {"id": task_id})

    def resubscribe(self, task_id: str) -> AsyncIterator[Tree]:
        return self._follow("tasks/resubscribe", {"id": task_id})

    async def set_push(self, task_id: str, config: Tree) -> Tree:
        return await self._ask("tasks/pushNotification/set", {"id": task_id, "pushNotificationConfig": config})

    async def get_push(self, task_id: str) -> Tree:
        return await self._ask("tasks/pushNotification/get", {"id": task_id})

    async def _ask(self, method: str, params: Tree) -> Tree:
        call = self._call(method, params)
        answer = await self._http.post(self._url, json=call, headers=self._headers)
        _require(answer.headers["content-type"].startswith("application/json"), "the answer is no JSON")
        result = _result(answer.content, call)
        if "sessionId" in params:
            _require(result.get("sessionId") == params["sessionId"], "the task is in another session")
        if method.startswith("tasks/push"):
            return result
        length = len(result.get("history", ()))
        _require(length <= params.get("historyLength", 0), f"{length} messages of history, more than were asked for")
        return result

    async def _follow(self, method: str, params: Tree) -> AsyncIterator[Tree]:
        call = self._call(method, params)
        headers = {"Accept": "text/event-stream", **self._headers}
        async with self._http.stream("POST", self._url, json=call, headers=headers) as answer:
            if not answer.headers["content-type"].startswith("text/event-stream"):
                _result(await answer.aread(), call)
                raise NotAncient("the answer is neither a stream nor an error")
            final = False
            async for data in _events(answer):
                _require(not final, "an event comes after the final one")
                event = _result(data, call)
                final = event.get("final") is True
                yield event
            _require(final, "the stream ends without a final event")

    def _call(self, method: str, params: Tree) -> Tree:
        insist(PARAMS[method], params)
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}


def _send_params(said: str | list[Tree], more: Tree) -> Tree:
    parts = [{"type": "text", "text": said}] if isinstance(said, str) else said
    return {"id": uuid.uuid4().hex, "message": {"role": "user", "parts": parts}, **more}


def _result(raw: bytes, call: Tree) -> Tree:
    """The result of an envelope, which is about the task that was asked for.

    Raises:
        Failed: it is an error.
        NotAncient: it is not 0.1, or an answer to something else.
    """
    frame = msgspec.json.decode(raw)
    _require(isinstance(frame, dict) and frame.get("jsonrpc") == "2.0", "the answer is no JSON-RPC")
    _require(frame.get("id") == call["id"], "the answer is to another call")
    _require(frame.keys() <= {"jsonrpc", "id", "result", "error"}, "the envelope has members of other names")
    _require(("result" in frame) != ("error" in frame), "neither result nor error, or both")
    if "error" in frame:
        insist("Error", frame["error"])
        raise Failed(frame["error"]["code"], frame["error"]["message"])
    result: Tree = frame["result"]
    insist(RESULTS[call["method"]], result)
    _require(result["id"] == call["params"]["id"], "the answer is about another task")
    return result


async def _events(answer: httpx.Response) -> AsyncIterator[bytes]:
    data: list[str] = []
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data).encode()
            data = []


def _require(held: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not held:
        raise NotAncient(otherwise)
