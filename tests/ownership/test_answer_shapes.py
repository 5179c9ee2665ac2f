"""Ownership, however an agent writes what its answers name: as ProtoJSON may, or as nobody should."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.ownership.test_task_ownership import MESSAGE, Site
from tests.support.gateway import Answer, bearer, card_of, keys, running
from tests.support.scripted import ScriptedBackend, Wire, whole
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

ANCIENT = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}


class Outspoken(Trusting):
    """Answers sends with whatever it was told to answer, and streams with it as their one event."""

    def __init__(self) -> None:
        super().__init__()
        self.result: Any = None

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] == "SendMessage" or "Config" in call["method"]:
            return {"jsonrpc": "2.0", "id": call["id"], "result": self.result}
        return super()._answer(call)

    def _stream(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"jsonrpc": "2.0", "id": call["id"], "result": self.result}]

    def has(self, task: str) -> None:
        self.tasks[task] = {"id": task, "contextId": f"of-{task}", "status": {"state": "TASK_STATE_WORKING"}}


class Spoken(Site):
    agent: Outspoken

    async def ask(self, who: str, method: str, version: str, **params: Any) -> Answer:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return await self.gateway.post("/crm", body, [bearer(who), (b"A2A-Version", version.encode())])

    async def finds(self, who: str, task: str) -> bool:
        return "result" in (await self.ask(who, "GetTask", "1.0", id=task)).json

    async def says(self, result: Any, who: str = "acme") -> Answer:
        self.agent.result = result
        return await self.ask(who, "SendMessage", "1.0", message=MESSAGE)


@asynccontextmanager
async def outspoken(more: str = "", agent: Outspoken | None = None) -> AsyncIterator[Spoken]:
    agent = Outspoken() if agent is None else agent
    async with ScriptedBackend(agent.script) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants:
  acme: {{ agents: [crm], limits: {{ open_tasks: 2 }} }}
  globex: [crm]
agents:
  crm: {{ backend: "{backend.url}"{more} }}
"""
        async with running(text) as gateway:
            yield Spoken(gateway, agent)


def task(name: str, **members: Any) -> dict[str, Any]:
    return {"task": {"id": name, "contextId": f"of-{name}", "status": {"state": "TASK_STATE_WORKING"}, **members}}


SHAPES: dict[str, Any] = {
    "a state by its number": task("T", status={"state": 2}),
    "a context as its schema has it": {"task": {"id": "T", "context_id": "of-T", "status": {"state": 2}}},
    "an update as its schema has it": {"status_update": {"task_id": "T", "context_id": "of-T", "status": {"state": 2}}},
    "a status that is none": task("T", status="working"),
    "a kind that is none": task("T", kind=1),
    "a session that is none": task("T", sessionId=5),
    "a message": {"message": {"messageId": "x", "role": "ROLE_AGENT", "parts": [], "taskId": "T", "contextId": "of-T"}},
    "a message as its schema has it": {"message": {"message_id": "x", "role": 2, "parts": [], "task_id": "T"}},
}


@for_each("shape", SHAPES)
async def test_every_id_in_an_answer_belongs_to_its_receiver_in_any_shape(shape: str) -> None:
    async with outspoken() as site:
        site.agent.has("T")
        assert "result" in (await site.says(SHAPES[shape])).json
        assert await site.finds("acme", "T")
        assert not await site.finds("globex", "T")


@for_each("shape", SHAPES)
async def test_answers_with_anothers_ids_are_withheld_in_any_shape(shape: str) -> None:
    async with outspoken() as site:
        await site.says(task("T"))
        answer = await site.says(SHAPES[shape], "globex")
        assert answer.json["error"]["code"] == -32006
        streamed = await site.ask("globex", "SendStreamingMessage", "1.0", message=MESSAGE)
        assert b'"T"' not in answer.body + streamed.body
        assert b"error" in streamed.body


@for_each(
    "result",
    [
        {"tasks": [task("T")["task"]]},
        {"Task": task("T")["task"]},
        {**task("mine"), "statusUpdate": {"taskId": "T"}},
        {**task("mine"), "tasks": [task("T")["task"]]},
    ],
)
async def test_anothers_task_is_withheld_in_unexpected_members(result: Any) -> None:
    async with outspoken() as site:
        await site.says(task("T"))
        assert (await site.says(result, "globex")).json["error"]["code"] == -32006
        streamed = await site.ask("globex", "SendStreamingMessage", "1.0", message=MESSAGE)
        assert b'"T"' not in streamed.body


async def test_a_bare_list_of_anothers_webhooks_is_withheld_over_http_json() -> None:
    """As 0.3 lists them there."""
    body = b""

    async def play(wire: Wire) -> None:
        while True:
            request = await wire.request()
            card = card_of("http://127.0.0.1/", "HTTP+JSON 0.3")
            await wire.send(whole(card if request.target.endswith(b".json") else body))

    async with ScriptedBackend(play) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents:
  crm: {{ backend: {{ url: "{backend.url}", protocol: rest, a2a_version: "0.3" }} }}
"""
        async with running(text) as gateway:
            for who, name in (("acme", "T"), ("globex", "U")):
                body = json.dumps(
                    {"kind": "task", "id": name, "contextId": name, "status": {"state": "working"}}
                ).encode()
                sent = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}}
                answer = await gateway.post("/crm/v1/message:send", json.dumps(sent).encode(), [bearer(who)])
                assert answer.status == 200, answer.body
            for task_id, status in (("T", 502), ("U", 200)):
                body = json.dumps([{"taskId": task_id, "pushNotificationConfig": {"url": "https://x/hook"}}]).encode()
                answer = await gateway.get("/crm/v1/tasks/U/pushNotificationConfigs", [bearer("globex")])
                assert (answer.status, b"hook" in answer.body) == (status, status == 200), answer.body


@for_each(
    "result",
    [{"task": {"id": 7, "status": {}}}, task("T", contextId=["of-T"]), {"statusUpdate": "T"}, [{"taskId": 1}]],
)
async def test_answers_with_unreadable_ids_are_withheld(result: Any) -> None:
    async with outspoken() as site:
        assert (await site.says(result)).json["error"]["code"] == -32006
        line = await site.gateway.line(of=1)
        assert (line["reason"], line["detail"]) == ("upstream_protocol", "its ids cannot be read")
    async with outspoken(", isolation: none") as site:
        assert (await site.says(result)).json["result"] == result


async def test_a_task_of_which_only_a_message_told_is_not_open() -> None:
    async with outspoken() as site:
        for number in range(5):
            message = {"messageId": "x", "role": "ROLE_AGENT", "parts": [], "taskId": f"made-up-{number}"}
            assert "result" in (await site.says({"message": message})).json
        await site.says(task("T"))
        await site.says({"message": {"messageId": "x", "role": "ROLE_AGENT", "parts": [], "taskId": "T"}})
        # It ends none either.
        await site.says(task("U"))
        assert (await site.says(task("V"))).reasons[-1] == "TASKS_LIMITED"


CONFIGS: dict[str, Any] = {
    "1.0": {"taskId": "T", "id": "c", "url": "https://example.com/"},
    "0.3": {"taskId": "T", "pushNotificationConfig": {"id": "c", "url": "https://example.com/"}},
    "a resource": {"name": "tasks/T/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "https://x/"}},
    "a list": {"configs": [{"taskId": "T", "id": "c", "url": "https://example.com/"}]},
    "a bare list": [{"taskId": "T", "pushNotificationConfig": {"url": "https://example.com/"}}],
    "a list of several tasks": {
        "configs": [{"taskId": "T", "url": "https://x/"}, {"taskId": "U", "url": "https://x/"}]
    },
}


@for_each("config", CONFIGS)
async def test_webhooks_of_anothers_task_are_withheld(config: str) -> None:
    async with outspoken() as site:
        await site.says(task("T"))
        await site.says(task("U"), "globex")
        site.agent.result = CONFIGS[config]
        method = "ListTaskPushNotificationConfigs" if "list" in config else "GetTaskPushNotificationConfig"
        asked = {} if "list" in config else {"id": "c"}
        theirs = await site.ask("globex", method, "1.0", taskId="U", **asked)
        assert theirs.json["error"]["code"] == -32006
        assert b"https://" not in theirs.body
        if "several" not in config:
            assert "result" in (await site.ask("acme", method, "1.0", taskId="T", **asked)).json
