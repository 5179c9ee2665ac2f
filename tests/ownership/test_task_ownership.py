"""Ownership of tasks and contexts: ids that a caller may name, answers that it gets, and calls that no agent sees."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.tasks.store import Store
from tests.support.gateway import Answer, Running, bearer, keys, running
from tests.support.mark import shows_mark
from tests.support.scripted import ScriptedBackend
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


class Site:
    """A gateway in front of one agent that acme and globex share."""

    def __init__(self, gateway: Running, agent: Trusting) -> None:
        self.gateway = gateway
        self.agent = agent

    async def call(self, who: str, method: str, params: Mapping[str, Any]) -> Answer:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return await self.gateway.post("/crm", body, [bearer(who), (b"A2A-Version", b"1.0")])

    async def send(self, who: str, method: str = "SendMessage", **members: Any) -> Any:
        answer = await self.call(who, method, {"message": {**MESSAGE, **members}})
        return answer.json["result"]["task"] if method == "SendMessage" else events(answer)


def events(answer: Answer) -> list[Any]:
    return [json.loads(line[6:])["result"] for line in answer.body.split(b"\n") if line.startswith(b"data: ")]


@asynccontextmanager
async def shared(
    more: str = "", limits: str = "", state: str = "TASK_STATE_COMPLETED", store: Store | None = None
) -> AsyncIterator[Site]:
    trusting = Trusting(state)
    async with ScriptedBackend(trusting.script) as backend:
        text = f"""\
{keys(acme="acme", bob="acme", globex="globex")}
tenants:
  acme: {{ agents: [crm]{limits} }}
  globex: [crm]
agents:
  crm: {{ backend: "{backend.url}"{more} }}
"""
        async with running(text, store=store) as gateway:
            yield Site(gateway, trusting)


OPERATIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "GetTask": lambda task: {"id": task},
    "CancelTask": lambda task: {"id": task},
    "SubscribeToTask": lambda task: {"id": task},
    "GetTaskPushNotificationConfig": lambda task: {"taskId": task, "id": "c"},
    "ListTaskPushNotificationConfigs": lambda task: {"taskId": task},
    "DeleteTaskPushNotificationConfig": lambda task: {"taskId": task, "id": "c"},
    "CreateTaskPushNotificationConfig": lambda task: {"taskId": task, "url": "https://example.com/hook"},
    "SendMessage": lambda task: {"message": {**MESSAGE, "taskId": task}},
    "SendStreamingMessage": lambda task: {"message": {**MESSAGE, "task_id": task}},
    "SendMessage ": lambda task: {"message": {**MESSAGE, "referenceTaskIds": [task]}},
}


@for_each("operation", OPERATIONS)
async def test_anothers_task_and_none_look_alike_and_the_agent_is_not_asked(operation: str) -> None:
    async with shared() as site:
        task = await site.send("acme")
        asked = len(site.agent.asked)
        theirs = await site.call("globex", operation.strip(), OPERATIONS[operation](task["id"]))
        none = await site.call("globex", operation.strip(), OPERATIONS[operation]("task-9"))
        assert theirs.json["error"]["code"] == -32001
        assert theirs.anonymous == none.anonymous
        assert len(site.agent.asked) == asked


async def test_everybody_of_a_tenant_has_its_tasks_unless_principals_are_told_apart() -> None:
    async with shared() as site:
        task = await site.send("acme")
        assert (await site.call("bob", "GetTask", {"id": task["id"]})).json["result"]["id"] == task["id"]
    async with shared(", isolation: principal") as site:
        task = await site.send("acme")
        assert (await site.call("bob", "GetTask", {"id": task["id"]})).json["error"]["code"] == -32001
        assert (await site.call("acme", "GetTask", {"id": task["id"]})).json["result"]["id"] == task["id"]


async def test_two_tenants_that_hit_on_one_word_for_a_context_share_nothing_and_cannot_tell() -> None:
    async with shared() as site:
        ours = await site.send("acme", contextId="chat-1")
        theirs = await site.send("globex", contextId="chat-1")
        assert ours["contextId"] == theirs["contextId"] == "chat-1"
        assert ours["history"][0]["contextId"] == "chat-1"
        told = [call["params"]["message"]["contextId"] for call in site.agent.asked]
        assert len(set(told)) == 2
        assert all(word.endswith("-chat-1") and word.startswith("gw-") for word in told)
        again = await site.send("acme", contextId="chat-1", taskId=ours["id"])
        assert again["contextId"] == "chat-1"
        assert site.agent.asked[-1]["params"]["message"]["contextId"] == told[0]
        got = await site.call("globex", "GetTask", {"id": theirs["id"]})
        assert not shows_mark(got.body)
        assert (await site.gateway.line(of=4))["context_id"] == "chat-1"


@for_each("length", [1024, 1025, 3000])
async def test_a_context_goes_on_however_long_its_name_is(length: int) -> None:
    async with shared() as site:
        context = "c" * length
        begun = await site.send("acme", contextId=context)
        assert begun["contextId"] == context
        word = site.agent.asked[-1]["params"]["message"]["contextId"]
        assert word.startswith("gw-")
        # One of the agent's own, to its owner and to anybody else.
        site.agent.fixed = context
        ours = await site.send("acme")
        assert ours["contextId"] == context
        for task in ({}, {"taskId": ours["id"]}):
            await site.send("acme", contextId=context, **task)
            assert site.agent.asked[-1]["params"]["message"]["contextId"] == context
        site.agent.fixed = None
        theirs = await site.send("globex", contextId=context)
        assert theirs["contextId"] == context
        assert site.agent.asked[-1]["params"]["message"]["contextId"] not in (context, word)
        page = (await site.call("acme", "ListTasks", {"contextId": context})).json["result"]
        assert len(page["tasks"]) == page["totalSize"]


async def test_an_agent_with_one_context_for_everybody_answers_the_first_tenant_alone() -> None:
    async with shared() as site:
        site.agent.fixed = "default"
        assert (await site.send("acme"))["contextId"] == "default"
        refused = await site.call("globex", "SendMessage", {"message": MESSAGE})
        assert refused.json["error"]["code"] == -32006
        assert (await site.send("acme"))["contextId"] == "default"


async def test_events_of_a_stream_name_contexts_in_their_clients_words() -> None:
    async with shared() as site:
        told = await site.send("acme", "SendStreamingMessage", contextId="chat-1")
        assert [next(iter(each)) for each in told] == ["task", "artifactUpdate", "statusUpdate"]
        assert told[1]["artifactUpdate"]["artifact"]["parts"] == [{"text": "chat-1"}]
        assert not shows_mark(told)
        task = told[0]["task"]["id"]
        assert (await site.call("globex", "GetTask", {"id": task})).json["error"]["code"] == -32001
        assert (await site.call("acme", "GetTask", {"id": task})).json["result"]["contextId"] == "chat-1"


@for_each("other", ["globex", "bob"])
async def test_a_withheld_answer_gives_nobody_ownership(other: str) -> None:
    """An agent mixes two callers up: who is refused the answer does not take the task away from whose it is."""
    async with shared(", isolation: principal") as site:
        site.agent.fixed = "context-1"
        await site.send("acme")
        withheld = await site.call(other, "SendMessage", {"message": MESSAGE})
        assert withheld.reasons[-1] == "UPSTREAM_PROTOCOL"
        # It makes the same one again, for whom it should have been.
        site.agent.made = 1
        assert (await site.send("acme"))["id"] == "task-2"
        assert (await site.call("acme", "GetTask", {"id": "task-2"})).json["result"]["id"] == "task-2"
        assert (await site.call(other, "GetTask", {"id": "task-2"})).json["error"]["code"] == -32001


async def test_a_task_that_a_list_puts_into_anothers_context_is_left_out() -> None:
    async with shared() as site:
        theirs = await site.send("acme")
        mine, other = await site.send("globex"), await site.send("globex")
        site.agent.tasks[mine["id"]]["contextId"] = theirs["contextId"]
        listed = (await site.call("globex", "ListTasks", {})).json["result"]["tasks"]
        assert [task["id"] for task in listed] == [other["id"]]
        # One that nobody has met, or that is the caller's own, is as good.
        for context in ("new", other["contextId"]):
            site.agent.tasks[mine["id"]]["contextId"] = context
            assert len((await site.call("globex", "ListTasks", {})).json["result"]["tasks"]) == 2


async def test_a_list_has_the_callers_own_tasks_alone() -> None:
    async with shared() as site:
        for number in range(7):
            await site.send("acme" if number % 3 else "globex")
        page = (await site.call("acme", "ListTasks", {"pageSize": 3})).json["result"]
        assert [task["id"] for task in page["tasks"]] == ["task-2", "task-3", "task-5"]
        assert page["totalSize"] == 4
        foreign = await site.call("globex", "ListTasks", {"pageSize": 3, "pageToken": page["nextPageToken"]})
        assert foreign.json["error"]["code"] == -32602
        rest = (await site.call("acme", "ListTasks", {"pageSize": 3, "pageToken": page["nextPageToken"]})).json[
            "result"
        ]
        assert [task["id"] for task in rest["tasks"]] == ["task-6"]
        assert not rest.get("nextPageToken")


async def test_a_tenant_has_so_many_tasks_open_and_no_more() -> None:
    async with shared(limits=", limits: { open_tasks: 2 }", state="TASK_STATE_WORKING") as site:
        first = await site.send("acme")
        await site.send("acme")
        answer = await site.call("acme", "SendMessage", {"message": MESSAGE})
        assert answer.status == 429
        assert answer.reasons[-1] == "TASKS_LIMITED"
        assert answer.header("retry-after") is not None
        await site.send("globex")
        # Going on with one is no new one, and one that ends makes room.
        site.agent.state = "TASK_STATE_COMPLETED"
        await site.send("acme", taskId=first["id"])
        await site.send("acme")
        assert site.gateway.metric("limit_hits_total", limit="open_tasks", scope="tenant") == 1


async def test_denied_access_to_a_task_is_counted_and_audited(caplog: pytest.LogCaptureFixture) -> None:
    async with shared() as site:
        task = await site.send("acme")
        with caplog.at_level("INFO", "gateway.audit"):
            await site.call("globex", "GetTask", {"id": task["id"]})
            await site.gateway.line(of=2)
        (event,) = [record for record in caplog.records if record.name == "gateway.audit"]
        assert event.getMessage() == "task_denied"
        assert event.__dict__["audit_tenant"] == "globex"
        assert event.__dict__["audit_task_id"] == task["id"]
        assert event.__dict__["audit_detail"] == "it is another's"
        assert site.gateway.metric("task_access_denied_total", agent="crm", operation="GetTask") == 1
        assert site.gateway.metric("state_operations_total", operation="meet", result="ok") == 1
