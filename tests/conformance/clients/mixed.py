"""A driver of a double that says objects of 1.0 under the method names of 0.3, as some runtimes in Go do.

It sends no A2A-Version, and takes nothing but objects of 1.0: anything spelled as in 0.3 fails the operation.
"""

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from driving import HOOK, NOTHING, Asked, Driver, Item, Said, drive, encoded, uuid

HEADERS = {"Accept": "application/json, text/event-stream"}
EVENTS = {"task": "task", "message": "message", "statusUpdate": "status", "artifactUpdate": "artifact"}


class Failed(Exception):  # noqa: N818 - what happened to the call
    """The agent answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotModern(Exception):  # noqa: N818 - what is so
    """The answer is not made of objects of 1.0."""


class Double(Driver):
    """The client."""

    spelling = "1.0"

    async def open(self, asked: Asked) -> Item:
        self._http = httpx.AsyncClient(trust_env=False, timeout=20, headers=HEADERS)
        self._url = asked.url
        self._numbers = itertools.count(1)
        answer = await self._http.get(asked.url + ".well-known/agent-card.json")
        return self.item("card", answer.raise_for_status().json())

    async def send(self, parts: list[Any], how: str, said: Said = NOTHING) -> AsyncIterator[Item]:
        message: dict[str, Any] = {"messageId": f"m-{uuid.uuid4()}", "role": "ROLE_USER", "parts": parts}
        message |= {"metadata": {"sent": "by the client"}}
        message |= {"taskId": said.task} if said.task else {}
        message |= {"contextId": said.context} if said.context else {}
        configuration: dict[str, Any] = {} if said.history is None else {"historyLength": said.history}
        configuration |= {"taskPushNotificationConfig": HOOK} if said.hook else {}
        configuration |= {"returnImmediately": True} if how == "polling" else {}
        params = {"message": message, "configuration": configuration}
        if how == "streaming":
            async for event in self._follow("message/stream", params):
                yield self._event(event)
        else:
            yield self._event(await self._ask("message/send", params))

    async def get(self, task: str, history: int | None = None) -> Item:
        return self._task(await self._ask("tasks/get", {"id": task, **_given(historyLength=history)}))

    async def list_tasks(self, context: str, size: int, token: str = "") -> Item:
        params = {"contextId": context, "pageSize": size, **_given(pageToken=token or None)}
        page = await self._ask("tasks/list", params)
        for task in page["tasks"]:
            self._task(task)
        return self.item("tasks", page)

    async def cancel(self, task: str) -> Item:
        return self._task(await self._ask("tasks/cancel", {"id": task}))

    async def subscribe(self, task: str) -> AsyncIterator[Item]:
        async for event in self._follow("tasks/subscribe", {"id": task}):
            yield self._event(event)

    async def push_set(self, task: str) -> Item:
        return self._push(await self._ask("tasks/pushNotificationConfig/set", {"taskId": task, **HOOK}))

    async def push_get(self, task: str) -> Item:
        return self._push(await self._ask("tasks/pushNotificationConfig/get", {"taskId": task, "id": HOOK["id"]}))

    async def push_list(self, task: str) -> Item:
        found = await self._ask("tasks/pushNotificationConfig/list", {"taskId": task})
        _require(isinstance(found, dict), "a list of configurations is no object")
        return self.item("pushes", found)

    async def push_delete(self, task: str) -> Item:
        await self._ask("tasks/pushNotificationConfig/delete", {"taskId": task, "id": HOOK["id"]})
        return self.item("nothing", None)

    async def extended(self) -> Item:
        card = await self._ask("agent/getAuthenticatedExtendedCard", {})
        _require(bool(card.get("supportedInterfaces")), "the card has no supportedInterfaces")
        return self.item("card", card)

    def text(self, text: str) -> Any:
        return {"text": text}

    def data(self, data: dict[str, Any]) -> Any:
        return {"data": data}

    def file(self, raw: bytes, name: str, media_type: str) -> Any:
        return {"raw": encoded(raw), "filename": name, "mediaType": media_type}

    def failure(self, error: BaseException) -> dict[str, Any]:
        return {"code": error.code if isinstance(error, Failed) else None, "status": None}

    async def close(self) -> None:
        await self._http.aclose()

    # ---- What is told --------------------------------------------------------------------------------------------

    def _event(self, event: dict[str, Any]) -> Item:
        kinds = [kind for kind in EVENTS if kind in event]
        _require(len(kinds) == 1, "the event is not one of those of 1.0")
        told = event[kinds[0]]
        if kinds[0] in ("task", "statusUpdate"):
            _require(told["status"]["state"].startswith("TASK_STATE_"), "the state is not spelled as in 1.0")
        _require("kind" not in told and "final" not in told, "the event is one of 0.3")
        return self.item(EVENTS[kinds[0]], told)

    def _task(self, task: dict[str, Any]) -> Item:
        return self._event({"task": task})

    def _push(self, config: dict[str, Any]) -> Item:
        _require("pushNotificationConfig" not in config and bool(config.get("taskId")), "it is one of 0.3")
        return self.item("push", config)

    # ---- The wire ------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        answer = await self._http.post(self._url, json=self._call(method, params))
        return _result(answer.json())

    async def _follow(self, method: str, params: dict[str, Any]) -> AsyncIterator[Any]:
        async with self._http.stream("POST", self._url, json=self._call(method, params)) as answer:
            if not answer.headers["content-type"].startswith("text/event-stream"):
                yield _result(json.loads(await answer.aread()))
                return
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    yield _result(json.loads(line.removeprefix("data:")))

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}


def _result(frame: dict[str, Any]) -> Any:
    if "error" in frame:
        raise Failed(frame["error"]["code"], frame["error"]["message"])
    return frame["result"]


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _require(held: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not held:
        raise NotModern(otherwise)


if __name__ == "__main__":
    drive(Double())
