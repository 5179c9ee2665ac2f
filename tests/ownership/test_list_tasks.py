"""Lists of tasks behind a gateway that shows each caller its own: what the agent's answers become."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.gateway import CALL, Answer, Running, agent, bearer, card_of, keys, running
from tests.support.replicated import replicated
from tests.support.replicated import task as made
from tests.support.scripted import Script, ScriptedBackend, Wire, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio


class Replies:
    """Answers to a list of tasks, in turn; the last one again and again."""

    def __init__(self, *bodies: Any, status: bytes = b"200 OK") -> None:
        self.bodies = list(bodies)
        self.status = status
        self.asked: list[Any] = []

    async def script(self, wire: Wire) -> None:
        while True:
            request = await wire.request()
            call = json.loads(request.body)
            if call["method"] == "SendMessage":
                made = {"id": f"task-{len(self.asked)}", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
                answer: Any = {"result": {"task": made}}
                status = b"200 OK"
            else:
                answer = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
                status = self.status
            self.asked.append(call)
            body = (
                answer
                if isinstance(answer, bytes)
                else json.dumps({"jsonrpc": "2.0", "id": call["id"], **answer}).encode()
            )
            await wire.send(whole(body, status=status))


@asynccontextmanager
async def listing(replies: Replies, more: str = "") -> AsyncIterator[Running]:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0")
    async with ScriptedBackend(agent(replies.script, card)) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents: {{ crm: {{ backend: "{backend.url}"{more} }} }}
"""
        async with running(text) as gateway:
            yield gateway


async def ask(gateway: Running, version: str = "1.0", **params: Any) -> Answer:
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": params}).encode()
    return await gateway.post("/crm", body, [bearer("acme"), (b"A2A-Version", version.encode())])


def task(number: int, **members: Any) -> dict[str, Any]:
    return {"id": f"task-{number}", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, **members}


def page(*tasks: dict[str, Any], token: str = "") -> dict[str, Any]:
    return {"result": {"tasks": list(tasks), "nextPageToken": token, "pageSize": 50, "totalSize": 99}}


async def test_an_agents_own_error_is_told_in_the_clients_words() -> None:
    replies = Replies({"error": {"code": -32004, "message": "no lists here"}})
    async with listing(replies) as gateway:
        answer = await ask(gateway)
        assert answer.status == 200
        assert answer.json["id"] == 7
        assert answer.json["error"]["code"] == -32004
        rest = await gateway.get("/crm/tasks", [bearer("acme"), (b"A2A-Version", b"1.0")])
        assert rest.status == 400


async def test_an_agents_own_error_names_a_context_in_its_clients_word() -> None:
    class Confused(Replies):
        async def script(self, wire: Wire) -> None:
            while True:
                call = json.loads((await wire.request()).body)
                self.asked.append(call)
                error = {"code": -32004, "message": f"no lists of {call['params']['contextId']}"}
                await wire.send(whole(json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error}).encode()))

    replies = Confused()
    async with listing(replies) as gateway:
        answer = await ask(gateway, contextId="chat-1")
        assert replies.asked[0]["params"]["contextId"].startswith("gw-")
        assert answer.json["error"]["message"] == "no lists of chat-1"


@for_each("body", [b"<html>no</html>", b"{}", b'{"jsonrpc":"2.0","id":"x"}'])
async def test_a_malformed_list_is_an_upstream_error(body: bytes) -> None:
    async with listing(Replies(body)) as gateway:
        answer = await ask(gateway)
        assert answer.json["error"]["code"] == -32006
        line = await gateway.line()
        assert (line["reason"], line["outcome"]) == ("upstream_protocol", "upstream_error")


async def test_a_page_that_is_too_long_is_asked_for_in_smaller_ones() -> None:
    long = task(9, artifacts=[{"artifactId": "a", "parts": [{"text": "x" * 3000}]}])
    replies = Replies(page(*[long] * 50), page(task(0)))
    async with listing(replies, ", connections: { event: 64KiB, kept: 64KiB }") as gateway:
        await gateway.post("/crm", CALL, [bearer("acme")])
        found = (await ask(gateway)).json["result"]
        assert [each["id"] for each in found["tasks"]] == ["task-0"]
        assert [call["params"]["pageSize"] for call in replies.asked[1:]] == [50, 25]


# ---- What goes wrong on the way --------------------------------------------------------------------------------------

EMPTY: Any = {"result": {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}}


@for_each("first", ["breaks off", "is busy"])
async def test_a_list_is_asked_for_again_as_other_reads_are(first: str) -> None:
    asked = 0

    async def play(wire: Wire) -> None:
        nonlocal asked
        while True:
            call = json.loads((await wire.request()).body)
            asked += 1
            good = whole(json.dumps({"jsonrpc": "2.0", "id": call["id"], **EMPTY}).encode())
            if asked > 1:
                await wire.send(good)
            elif first == "is busy":
                await wire.send(whole(b"{}", b"retry-after: 0", status=b"503 Service Unavailable"))
            else:
                await wire.send(good[:-5])
                wire.reset()
                return

    replies = Replies(EMPTY)
    replies.script = play  # type: ignore[method-assign]  # what it answers is no matter
    async with listing(replies) as gateway:
        assert (await ask(gateway)).json["result"]["tasks"] == []
        assert asked == 2


async def test_the_next_page_of_a_list_comes_from_the_same_replica() -> None:
    asked: list[str] = []

    def lists(name: str) -> Script:
        async def play(wire: Wire) -> None:
            while True:
                call = json.loads((await wire.request()).body)
                if call["method"] == "SendMessage":
                    await wire.send(whole(made("mine")))
                    continue
                asked.append(name)
                if call["params"].get("pageToken"):
                    wire.reset()
                    return
                page = {"tasks": [{"id": "foreign"}], "nextPageToken": "more", "pageSize": 1, "totalSize": 9}
                await wire.send(whole(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": page}).encode()))

        return agent(play)

    auth = keys(acme="acme", globex="globex") + "tenants: { acme: [echo], globex: [echo] }\n"
    async with replicated(lists("a"), lists("b"), auth=auth) as (gateway, _):
        await gateway.post("/echo", CALL, [bearer("acme")])
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": {"pageSize": 1}}).encode()
        answer = await gateway.post("/echo", body, [bearer("acme")])
        assert answer.reasons == ["UPSTREAM_RESET"]
        assert len(asked) == 3
        assert len(set(asked)) == 1
