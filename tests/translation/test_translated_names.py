"""Clients and agents of 0.1, through the whole gateway: whose ids are seen where."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted import Received
from tests.support.translated import (
    MESSAGE_0_1,
    MESSAGE_0_3,
    MESSAGE_1_0,
    TASK_0_3,
    agent,
    call,
    complaint,
    document,
    plays,
    result,
)

pytestmark = pytest.mark.anyio


async def test_a_client_of_0_1_keeps_its_own_task_id_and_session(tmp_path: Path) -> None:
    def told(state: str) -> dict[str, Any]:
        return {"id": "t-1", "contextId": "c-1", "status": {"state": state}}

    script = plays(
        result({"task": told("TASK_STATE_INPUT_REQUIRED")}),
        result({"task": told("TASK_STATE_WORKING")}),
        result(told("TASK_STATE_WORKING")),
        result(told("TASK_STATE_CANCELED")),
    )
    async with agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client):
        params = {"id": "mine", "sessionId": "s-1", "message": MESSAGE_0_1}
        answers = [
            await call(client, gateway, "tasks/send", params),
            await call(client, gateway, "tasks/send", params, identity=8),
            await call(client, gateway, "tasks/get", {"id": "mine"}),
            await call(client, gateway, "tasks/cancel", {"id": "mine"}),
        ]
        asked = [json.loads(request.body) for request in gateway.backend.requests]
    assert [answer["result"]["id"] for answer in answers] == ["mine"] * 4
    assert [answer["result"]["sessionId"] for answer in answers] == ["s-1"] * 4
    assert [answer["result"]["status"]["state"] for answer in answers] == [
        "input-required",
        "working",
        "working",
        "canceled",
    ]
    first, second = asked[0]["params"]["message"], asked[1]["params"]["message"]
    assert "taskId" not in first
    assert (second["taskId"], second["contextId"]) == ("t-1", "c-1")
    assert [each["method"] for each in asked] == ["SendMessage", "SendMessage", "GetTask", "CancelTask"]
    assert asked[2]["params"]["id"] == asked[3]["params"]["id"] == "t-1"


async def test_a_message_that_answers_directly_is_a_completed_task_to_a_client_of_0_1(tmp_path: Path) -> None:
    said = {"messageId": "m-2", "contextId": "c-9", "role": "ROLE_AGENT", "parts": [{"text": "Hi"}]}
    async with agent(plays(result({"message": said})), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await call(client, gateway, "tasks/send", {"id": "mine", "message": MESSAGE_0_1})
    assert answer["result"]["id"] == "mine"
    assert answer["result"]["status"]["state"] == "completed"
    assert answer["result"]["status"]["message"]["parts"] == [{"type": "text", "text": "Hi"}]


async def test_an_agent_of_0_1_gets_a_task_id_that_its_client_sees_and_may_use(tmp_path: Path) -> None:
    def answer(request: Received) -> bytes:
        body = json.loads(request.body)
        task = {"id": body["params"]["id"], "status": {"state": "working"}}
        return document({"jsonrpc": "2.0", "id": body["id"], "result": task})

    async with agent(plays(answer), tmp_path, "jsonrpc 0.1") as (gateway, client):
        sent = await call(client, gateway, "SendMessage", {"message": {**MESSAGE_1_0, "contextId": "c-1"}})
        task = sent["result"]["task"]
        got = await call(client, gateway, "GetTask", {"id": task["id"]})
        older = await call(client, gateway, "message/send", {"message": MESSAGE_0_3})
        again = await call(client, gateway, "tasks/get", {"id": older["result"]["id"]})
        first, *_ = (json.loads(request.body) for request in gateway.backend.requests)
    assert first["method"] == "tasks/send"
    assert first["params"]["sessionId"] == "c-1"
    assert task["id"] == first["params"]["id"] == got["result"]["id"]
    assert task["contextId"] == "c-1"
    assert got["result"]["status"]["state"] == "TASK_STATE_WORKING"
    # The names of 0.1 and 0.3 are the same here: who got the task in 0.3 is answered so.
    assert again["result"]["kind"] == "task"


async def test_a_client_of_0_1_that_wants_no_history_gets_none(tmp_path: Path) -> None:
    task = {**TASK_0_3, "history": [MESSAGE_0_3, MESSAGE_0_3]}
    async with agent(plays(result(task)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        none = await call(client, gateway, "tasks/send", {"id": "mine", "message": MESSAGE_0_1})
        one = await call(client, gateway, "tasks/get", {"id": "mine", "historyLength": 1})
    assert not none["result"].get("history")
    assert len(one["result"]["history"]) == 1


def told(task: str, state: str) -> Any:
    return result({"task": {"id": task, "contextId": "c-1", "status": {"state": f"TASK_STATE_{state}"}}})


async def test_an_answer_without_a_task_is_the_clients_own_task_in_every_turn(tmp_path: Path) -> None:
    said = {"messageId": "m-2", "taskId": "t-1", "contextId": "c-1", "role": "ROLE_AGENT", "parts": [{"text": "Hi"}]}
    async with agent(plays(told("t-1", "WORKING"), result({"message": said})), tmp_path, "jsonrpc 1.0") as (
        gateway,
        client,
    ):
        params = {"id": "mine", "message": MESSAGE_0_1}
        answers = [await call(client, gateway, "tasks/send", params) for _ in range(2)]
    assert [answer["result"]["id"] for answer in answers] == ["mine"] * 2


@pytest.mark.parametrize(
    ("method", "first", "code"),
    [
        ("tasks/send", told("t-1", "COMPLETED"), -32009),
        ("tasks/sendSubscribe", complaint(-32004), -32006),
        ("tasks/send", complaint(-32004), -32004),
    ],
    ids=["InvalidTaskState", "StreamingNotSupported", "OperationNotSupported"],
)
async def test_unsupported_sends_get_errors_of_0_1(method: str, first: Any, code: int, tmp_path: Path) -> None:
    async with agent(plays(first, complaint(-32004)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        params = {"id": "mine", "message": MESSAGE_0_1}
        if code == -32009:
            await call(client, gateway, "tasks/send", params)
        answer = await call(client, gateway, method, params)
    assert answer["error"]["code"] == code


async def test_a_client_of_0_1_gets_no_history_that_it_did_not_ask_for(tmp_path: Path) -> None:
    task = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_CANCELED"}, "history": [MESSAGE_1_0]}
    async with agent(plays(told("t-1", "WORKING"), result(task)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        await call(client, gateway, "tasks/send", {"id": "mine", "message": MESSAGE_0_1})
        cancelled = await call(client, gateway, "tasks/cancel", {"id": "mine"})
    assert not cancelled["result"].get("history")


async def test_a_name_is_its_owners(tmp_path: Path) -> None:
    """Ids that clients make are easily guessed; behind another A2A tenant there is somebody else."""
    settings = {"upstream_tenant": "keep"}
    script = plays(told("t-1", "WORKING"), told("t-2", "WORKING"), complaint(-32001))
    async with agent(script, tmp_path, "jsonrpc 1.0", **settings) as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"id": "1", "message": MESSAGE_0_1}}
        for tenant in ("acme", "globex"):
            await client.post(f"{gateway.url}/{tenant}", json=body)
        got = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "1"}}
        await client.post(f"{gateway.url}/initech", json=got)
        first, second, third = (json.loads(request.body)["params"] for request in gateway.backend.requests)
    assert (first["tenant"], second["tenant"]) == ("acme", "globex")
    assert "taskId" not in second["message"]
    assert first["message"]["messageId"] != second["message"]["messageId"]
    assert third["id"] == "1"


@pytest.mark.parametrize("params", [{"id": "x" * 600}, {"id": "x", "sessionId": "s" * 600}], ids=["id", "sessionId"])
async def test_an_id_that_is_too_long_to_be_remembered_is_refused(params: dict[str, Any], tmp_path: Path) -> None:
    async with agent(plays(told("t-1", "WORKING")), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await call(client, gateway, "tasks/send", {**params, "message": MESSAGE_0_1})
        assert gateway.backend.requests == []
    assert answer["error"]["code"] == -32602
    assert list(params)[-1] in answer["error"]["message"]


async def test_0_1_may_be_said_under_any_version_header(tmp_path: Path) -> None:
    async with agent(plays(told("t-1", "WORKING")), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"id": "mine", "message": MESSAGE_0_1}}
        for version in ("1.0", "0.3", "0.1"):
            answer = await client.post(gateway.url, json=body, headers={"a2a-version": version})
            assert answer.json()["result"]["id"] == "mine"
