"""An agent that hands every task to whoever names it, as the SDKs' own stores do, and remembers what it was asked."""

import json
from typing import Any

from tests.support.gateway import card_of
from tests.support.scripted import SSE, Received, Script, Wire, chunk, whole

CARD = card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0")


class Trusting:
    """An agent of 1.0 over JSON-RPC: every send makes a task, unless it names one.

    Attributes:
        asked: The bodies of all calls, in order.
        tasks: By id.
        configs: Push configurations, by task and then by their own id.
        state: The state in which a send leaves its task.
        fixed: The context of every task that a send makes; None for one of each.
    """

    def __init__(self, state: str = "TASK_STATE_COMPLETED") -> None:
        self.asked: list[dict[str, Any]] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        self.configs: dict[str, dict[str, Any]] = {}
        self.state = state
        self.fixed: str | None = None
        self.made = 0

    @property
    def script(self) -> Script:
        async def play(wire: Wire) -> None:
            while True:
                request = await wire.request()
                if request.method == b"GET":
                    wire.backend.requests.pop()
                    await wire.send(whole(CARD))
                    continue
                call = json.loads(request.body)
                self.asked.append(call)
                await self._reply(wire, request, call)

        return play

    async def _reply(self, wire: Wire, request: Received, call: dict[str, Any]) -> None:
        if call["method"] == "SendStreamingMessage":
            await wire.send(SSE)
            for event in self._stream(call):
                await wire.send(chunk(b"data: " + json.dumps(event).encode() + b"\n\n"))
            await wire.send(b"0\r\n\r\n")
        else:
            await wire.send(whole(json.dumps(self._answer(call)).encode()))

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        outer = {"jsonrpc": "2.0", "id": call["id"]}
        params = call["params"]
        if call["method"] == "SendMessage":
            return {**outer, "result": {"task": self._sent(params["message"])}}
        if call["method"] == "ListTasks":
            found = [task for task in self.tasks.values() if params.get("contextId") in (None, "", task["contextId"])]
            start = int(params.get("pageToken") or 0)
            size = params.get("pageSize", 50)
            more = str(start + size) if start + size < len(found) else ""
            page = {"tasks": found[start : start + size], "nextPageToken": more, "pageSize": size}
            return {**outer, "result": {**page, "totalSize": len(found)}}
        if "PushNotificationConfig" in call["method"]:
            return {**outer, "result": self._configured(call["method"], params)}
        task = self.tasks.get(params.get("id") or params.get("taskId") or "")
        if task is None:
            return {**outer, "error": {"code": -32001, "message": "Task not found"}}
        return {**outer, "result": task}

    def _configured(self, method: str, params: dict[str, Any]) -> Any:
        configs = self.configs.setdefault(params["taskId"], {})
        if method.startswith("Create"):
            config = {**params, "id": params.get("id") or params["taskId"]}
            return configs.setdefault(config["id"], config)
        if method.startswith("List"):
            return {"configs": list(configs.values())}
        if method.startswith("Delete"):
            configs.pop(params["id"], None)
            return None
        return configs[params["id"]]

    def _stream(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        task = self._sent(call["params"]["message"])
        ids = {"taskId": task["id"], "contextId": task["contextId"]}
        results = [
            {"task": {**task, "status": {"state": "TASK_STATE_WORKING"}}},
            {"artifactUpdate": {**ids, "artifact": {"artifactId": "a", "parts": [{"text": ids["contextId"]}]}}},
            {"statusUpdate": {**ids, "status": {"state": self.state}}},
        ]
        return [{"jsonrpc": "2.0", "id": call["id"], "result": result} for result in results]

    def _sent(self, message: dict[str, Any]) -> dict[str, Any]:
        known = self.tasks.get(message.get("taskId") or "")
        if known is None:
            self.made += 1
            context = self.fixed or message.get("contextId") or f"context-{self.made}"
            known = {"id": f"task-{self.made}", "contextId": context, "history": []}
            self.tasks[known["id"]] = known
        known["history"].append({**message, "contextId": known["contextId"], "taskId": known["id"]})
        known["status"] = {"state": self.state}
        return known
