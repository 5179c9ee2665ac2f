"""Clients that say objects of 1.0 under the method names of 0.3: one generation in all of a conversation."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.tasks.sqlite import SqliteStore
from tests.support.gateway import Running, agent, bearer, card_of, fronted, keys, running
from tests.support.scripted import Received, ScriptedBackend
from tests.support.translated import MESSAGE_0_3, MESSAGE_1_0, TASK_0_3, TASK_1_0, Answer, document, plays
from tests.table import for_each

pytestmark = pytest.mark.anyio

HOOK = {"id": "c-1", "url": "https://hooks.example.net/a", "token": "t"}
FLAT = {"taskId": "t-1", **HOOK}
NESTED = {"taskId": "t-1", "pushNotificationConfig": HOOK}
MODERN = (b"a2a-version", b"1.0")
OLDER = (b"a2a-version", b"0.3")
CARD = json.loads(card_of("http://agent.internal/", "JSONRPC 1.0", "JSONRPC 0.3", name="Extended"))

RESULTS: dict[str, Any] = {
    "SendMessage": {"task": TASK_1_0},
    "GetTask": TASK_1_0,
    "ListTasks": {"tasks": [TASK_1_0], "totalSize": 1, "pageSize": 50, "nextPageToken": ""},
    "CancelTask": TASK_1_0,
    "SubscribeToTask": {"task": TASK_1_0},
    "CreateTaskPushNotificationConfig": FLAT,
    "GetTaskPushNotificationConfig": FLAT,
    "ListTaskPushNotificationConfigs": {"configs": [FLAT]},
    "DeleteTaskPushNotificationConfig": None,
    "GetExtendedAgentCard": CARD,
    "message/send": TASK_0_3,
    "tasks/get": TASK_0_3,
    "tasks/cancel": TASK_0_3,
    "tasks/resubscribe": TASK_0_3,
    "tasks/pushNotificationConfig/set": NESTED,
    "tasks/pushNotificationConfig/get": NESTED,
    "tasks/pushNotificationConfig/list": [NESTED],
    "tasks/pushNotificationConfig/delete": None,
    "agent/getAuthenticatedExtendedCard": CARD,
}
"""Answers of an agent, by method; each generation knows its own alone."""


def answer(generation: str) -> Answer:
    """An agent of one generation: it refuses the methods of the other."""

    def made(request: Received) -> bytes:
        call = json.loads(request.body)
        told = {"jsonrpc": "2.0", "id": call["id"]}
        if ("/" in call["method"]) is (generation == "1.0") or call["method"] not in RESULTS:
            return document({**told, "error": {"code": -32601, "message": "no such method"}})
        return document({**told, "result": RESULTS[call["method"]]})

    return made


GENERATIONS = ["1.0", "0.3"]


@asynccontextmanager
async def facing(generation: str) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """A gateway in front of an agent of one generation, without a ledger."""
    card = card_of("http://agent.internal/", f"JSONRPC {generation}", capabilities={"extendedAgentCard": True})
    async with fronted(plays(answer(generation)), card=card) as found:
        yield found


async def asked(gateway: Running, method: str, params: Any, *headers: tuple[bytes, bytes]) -> Any:
    """The result that a client gets; of a stream that of the first event."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    said = await gateway.post("/echo", body, headers)
    tree = json.loads(said.body.removeprefix(b"data: ").partition(b"\n\n")[0])
    assert "error" not in tree, tree
    return tree["result"]


def generation_of(task: Any) -> str:
    """Of a task, by its spelling."""
    if task["status"]["state"].startswith("TASK_STATE_") and "kind" not in task:
        return "1.0"
    return "0.3" if task["kind"] == "task" and task["status"]["state"] == "completed" else "neither"


MIXED = {"message": MESSAGE_1_0}
PURE = {"message": MESSAGE_0_3}
ABOUT_A_TASK = ["tasks/get", "tasks/cancel", "tasks/subscribe", "tasks/resubscribe"]


async def about(gateway: Running, method: str, *headers: tuple[bytes, bytes]) -> Any:
    result = await asked(gateway, method, {"id": "t-1"}, *headers)
    return result.get("task", result)


@for_each("speaks", GENERATIONS)
@for_each("method", ABOUT_A_TASK)
async def test_the_version_picks_the_generation_without_a_message(method: str, speaks: str) -> None:
    async with facing(speaks) as (gateway, _):
        assert generation_of(await about(gateway, method, MODERN)) == "1.0"
        assert generation_of(await about(gateway, method, OLDER)) == "0.3"
        assert generation_of(await about(gateway, method)) == "0.3"


@for_each("speaks", GENERATIONS)
@for_each("method", ABOUT_A_TASK)
async def test_the_generation_of_the_task_is_the_default(method: str, speaks: str) -> None:
    async with facing(speaks) as (gateway, _):
        assert generation_of((await asked(gateway, "message/send", MIXED))["task"]) == "1.0"
        assert generation_of(await about(gateway, method)) == "1.0"
        # A request with a version gets that one.
        assert generation_of(await about(gateway, method, OLDER)) == "0.3"


async def test_a_list_is_in_the_generation_of_the_version_or_of_what_the_caller_sent_last() -> None:
    async with facing("1.0") as (gateway, backend):

        async def listed(*headers: tuple[bytes, bytes]) -> str:
            page = await asked(gateway, "tasks/list", {"contextId": "c-1", "pageSize": 1}, *headers)
            return generation_of(page["tasks"][0])

        assert await listed(MODERN) == "1.0"
        assert await listed() == "0.3"
        await asked(gateway, "message/send", MIXED)
        assert (await listed(), await listed(OLDER)) == ("1.0", "0.3")
        await asked(gateway, "message/send", PURE)
        assert await listed() == "0.3"
        assert {json.loads(each.body)["method"] for each in backend.requests} == {"ListTasks", "SendMessage"}


@for_each("speaks", GENERATIONS)
@for_each("headers", [(), (MODERN,), (OLDER,)])
async def test_parameters_of_push_configurations_are_read_by_their_members(
    headers: tuple[tuple[bytes, bytes], ...], speaks: str
) -> None:
    about, name = "tasks/pushNotificationConfig/", {"taskId": "t-1", "id": "c-1"}
    old_name = {"id": "t-1", "pushNotificationConfigId": "c-1"}
    async with facing(speaks) as (gateway, backend):
        assert await asked(gateway, about + "set", FLAT, *headers) == FLAT
        assert await asked(gateway, about + "get", name, *headers) == FLAT
        assert await asked(gateway, about + "list", {"taskId": "t-1"}, *headers) == {"configs": [FLAT]}
        assert await asked(gateway, about + "delete", name, *headers) is None
        assert await asked(gateway, about + "set", NESTED, *headers) == NESTED
        assert await asked(gateway, about + "get", old_name, *headers) == NESTED
        assert await asked(gateway, about + "delete", old_name, *headers) is None
        named = [json.loads(each.body)["params"] for each in backend.requests]
    task, config = ("taskId", "id") if speaks == "1.0" else ("id", "pushNotificationConfigId")
    for each in (named[1], named[3], named[5], named[6]):
        assert (each[task], each[config]) == ("t-1", "c-1")


@for_each("speaks", GENERATIONS)
async def test_an_extended_card_has_what_a_client_of_1_0_looks_for(speaks: str) -> None:
    method = "agent/getAuthenticatedExtendedCard"
    async with facing(speaks) as (gateway, _):
        modern, older, either = [await asked(gateway, method, {}, *said) for said in ((MODERN,), (OLDER,), ())]
    assert modern["supportedInterfaces"]
    assert "preferredTransport" not in modern
    assert "supportedInterfaces" not in older
    assert older["preferredTransport"] == "JSONRPC"
    assert either["supportedInterfaces"]
    assert either["preferredTransport"] == "JSONRPC"


async def test_mixed_generations_of_one_caller_do_not_affect_another() -> None:
    card = card_of("http://agent.internal/", "JSONRPC 1.0")
    async with ScriptedBackend(agent(plays(answer("1.0")), card)) as backend:
        text = f"""\
{keys(ada="acme", ben="acme", cleo="globex")}
tenants: {{ acme: [echo], globex: [echo] }}
agents: {{ echo: "{backend.url}" }}
"""
        async with running(text) as gateway:
            await asked(gateway, "message/send", MIXED, bearer("ada"))
            assert generation_of(await about(gateway, "tasks/get", bearer("ada"))) == "1.0"
            body = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t-1"}}'
            page = await asked(gateway, "tasks/list", {}, bearer("ada"))
            assert [generation_of(task) for task in page["tasks"]] == ["1.0"]
            # One of the same tenant may have it, in its own generation; nobody else may.
            assert generation_of(await about(gateway, "tasks/get", bearer("ben"))) == "0.3"
            refused = await gateway.post("/echo", body, [bearer("cleo")])
            assert json.loads(refused.body)["error"]["code"] == -32001


async def test_the_generation_of_a_task_is_known_to_another_process() -> None:
    store = SqliteStore(None)
    card = card_of("http://agent.internal/", "JSONRPC 1.0")
    async with ScriptedBackend(agent(plays(answer("1.0")), card)) as backend:
        text = f"{keys(ada='acme')}\ntenants: {{ acme: [echo] }}\nagents: {{ echo: {backend.url} }}\n"
        async with running(text, store=store) as first, running(text, store=store) as second:
            await asked(first, "message/send", MIXED, bearer("ada"))
            for gateway in (first, second):
                assert generation_of(await about(gateway, "tasks/subscribe", bearer("ada"))) == "1.0"
