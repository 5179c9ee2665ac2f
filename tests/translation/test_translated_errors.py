"""Errors of agents, and of calls, translated to a client of another dialect."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted import whole
from tests.support.translated import (
    MESSAGE_0_3,
    MESSAGE_1_0,
    TASK_0_3,
    TASK_1_0,
    agent,
    call,
    complaint,
    events,
    plain,
    plays,
    result,
)

pytestmark = pytest.mark.anyio

MODERN = {"a2a-version": "1.0"}

NOT_FOUND = {
    "jsonrpc 1.0": complaint(
        -32001,
        data=[
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "TASK_NOT_FOUND",
                "domain": "a2a-protocol.org",
            }
        ],
    ),
    "jsonrpc 0.3": complaint(-32001),
    "jsonrpc 0.1": complaint(-32001),
    "rest 1.0": plain(
        {"error": {"code": 404, "status": "NOT_FOUND", "message": "no", "details": []}}, b"404 Not Found"
    ),
    "rest 0.3": plain({"message": "no"}, b"404 Not Found"),
}


@pytest.mark.parametrize("speaks", NOT_FOUND)
async def test_a_missing_task_is_one_to_clients_of_every_dialect(speaks: str, tmp_path: Path) -> None:
    async with agent(plays(NOT_FOUND[speaks]), tmp_path, speaks) as (gateway, client):
        modern = await call(client, gateway, "GetTask", {"id": "t-1"})
        older = await call(client, gateway, "tasks/get", {"id": "t-1"})
        path = await client.get(gateway.url + "/tasks/t-1", headers={"a2a-version": "1.0"})
        older_path = await client.get(gateway.url + "/v1/tasks/t-1")
    assert modern["error"]["code"] == older["error"]["code"] == -32001
    assert (path.status_code, older_path.status_code) == (404, 404)
    if speaks != "jsonrpc 1.0":
        assert modern["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"
    assert path.json()["error"]["status"] == "NOT_FOUND"


@pytest.mark.parametrize("speaks", NOT_FOUND)
async def test_an_agent_that_takes_no_such_long_body_says_so_to_clients_of_every_dialect(
    speaks: str, tmp_path: Path
) -> None:
    script = plays(lambda _: whole(b"<h1>413 Request Entity Too Large</h1>", status=b"413 Content Too Large"))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        for method, message in (("SendMessage", MESSAGE_1_0), ("message/send", MESSAGE_0_3)):
            body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": message}}
            answer = await client.post(gateway.url, json=body)
            assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (413, 7, -31413)
        modern_path = await client.post(gateway.url + "/message:send", json={"message": MESSAGE_1_0}, headers=MODERN)
        older_path = await client.post(gateway.url + "/v1/message:send", json={"message": MESSAGE_0_3})
    assert (modern_path.status_code, older_path.status_code) == (413, 413)


async def test_an_error_before_the_first_event_is_an_event_to_clients_that_hear_nothing_else(tmp_path: Path) -> None:
    """SDKs of 0.3 take any other answer to a streaming call for a broken one."""
    body = {"jsonrpc": "2.0", "id": "a", "method": "tasks/resubscribe", "params": {"id": "t-1"}}
    async with agent(plays(NOT_FOUND["rest 1.0"]), tmp_path, "rest 1.0") as (gateway, client):
        answer = await client.post(gateway.url, json=body, headers={"accept": "text/event-stream"})
        refused = {**body, "method": "message/stream", "params": {"message": {"kind": "message"}}}
        wrong = await client.post(gateway.url, json=refused, headers={"accept": "text/event-stream"})
    for said, code in ((answer, -32001), (wrong, -32602)):
        assert (said.status_code, said.headers["content-type"]) == (200, "text/event-stream")
        [event] = events(said.content)
        assert (event["id"], event["error"]["code"]) == ("a", code)


WRONG = [
    ("rest 0.3", "SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}, "message.messageId"),
    ("rest 0.3", "SendMessage", {"message": {**MESSAGE_1_0, "parts": [{"text": 7}]}}, "message.parts[0].text"),
    ("rest 1.0", "message/send", {"message": {**MESSAGE_0_3, "parts": [{"kind": "text"}]}}, "message.parts[0].text"),
    ("rest 1.0", "message/send", {"message": {**MESSAGE_0_3, "role": "nobody"}}, "message.role"),
    ("rest 1.0", "tasks/send", {"id": "x", "message": {"role": "user", "parts": [{"text": "x"}]}}, "message.parts[0]"),
    ("rest 0.3", "GetTask", {"id": "t-1", "historyLength": "many"}, "historyLength"),
    # 1.0 is checked between its two bindings as well.
    ("rest 1.0", "SendMessage", {"message": {**MESSAGE_1_0, "parts": []}}, "message.parts"),
    ("rest 1.0", "SendMessage", {"message": {**MESSAGE_1_0, "role": "user"}}, "message.role"),
    ("rest 1.0", "SendMessage", {"message": MESSAGE_1_0, "configuration": {"historyLength": -1}}, "historyLength"),
]


@pytest.mark.parametrize(("speaks", "method", "params", "field"), WRONG)
async def test_a_message_that_is_wrong_in_its_own_dialect_is_refused_with_its_field_and_goes_nowhere(
    speaks: str, method: str, params: Any, field: str, tmp_path: Path
) -> None:
    async with agent(plays(plain({"task": TASK_1_0})), tmp_path, speaks) as (gateway, client):
        answer = await call(client, gateway, method, params)
        assert gateway.backend.requests == []
    assert answer["error"]["code"] == -32602
    assert field in answer["error"]["message"]


async def test_listing_the_tasks_of_an_agent_that_cannot_is_unsupported_and_never_a_guess(tmp_path: Path) -> None:
    async with agent(plays(result([])), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await call(client, gateway, "ListTasks", {})
        path = await client.get(gateway.url + "/tasks", headers={"a2a-version": "1.0"})
        assert gateway.backend.requests == []
    assert answer["error"]["code"] == -32004
    assert path.status_code == 400
    assert path.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


# ---- Agents that answer oddly ----------------------------------------------------------------------------------------

ODD = {
    "a task with tasks in it": {**TASK_0_3, "tasks": [7]},
    "a task with a history that is none": {**TASK_0_3, "history": 7},
    "a task that is nested too deeply": {**TASK_0_3, "metadata": json.loads('{"a":' * 900 + "1" + "}" * 900)},
    "a task with something else beside it": {**TASK_0_3, "statusUpdate": 7, "artifactUpdate": {}},
    "a context that is none": {**TASK_0_3, "contextId": ["c"]},
}


@pytest.mark.parametrize("told", ODD.values(), ids=ODD)
@pytest.mark.parametrize(("method", "params"), [("SendMessage", {"message": MESSAGE_1_0}), ("GetTask", {"id": "t-1"})])
async def test_an_odd_answer_is_understood_or_refused_and_never_an_error_of_the_gateways(
    told: Any, method: str, params: Any, tmp_path: Path
) -> None:
    params = (
        {**params, "configuration": {"historyLength": 1}} if method == "SendMessage" else {**params, "historyLength": 1}
    )
    async with agent(plays(result(told)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await call(client, gateway, method, params)
    assert answer.get("error", {}).get("code") in (None, -32006)


async def test_no_tenant_that_the_agent_was_told_comes_back(tmp_path: Path) -> None:
    """Push configurations echo it, and an agent may put it anywhere."""
    config = {"taskId": "t", "id": "c", "url": "https://hooks.example.net/", "tenant": "inside"}
    odd = {**config, "pushNotificationConfig": {"tenant": "inside"}, "configs": [{"tenant": "inside"}]}
    listed = {"configs": [config, odd], "tenant": "inside"}
    settings = {"upstream_tenant": "inside"}
    async with agent(plays(plain(listed), plain(odd)), tmp_path, "rest 1.0", **settings) as (gateway, client):
        many = await call(client, gateway, "ListTaskPushNotificationConfigs", {"taskId": "t"})
        one = await call(client, gateway, "GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"})
    assert "inside" not in json.dumps(many) + json.dumps(one)


async def test_a_task_without_a_push_configuration_has_none(tmp_path: Path) -> None:
    async with agent(plays(result({"configs": []})), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await call(client, gateway, "tasks/pushNotificationConfig/get", {"id": "t-1"})
    assert answer["error"]["code"] == -32001


async def test_an_agents_error_over_http_json_counts_as_one(tmp_path: Path) -> None:
    broken = plain({"error": {"code": 500, "status": "INTERNAL", "message": "no", "details": []}}, b"500 Oops")
    async with agent(plays(broken), tmp_path, "rest 1.0") as (gateway, client):
        await call(client, gateway, "GetTask", {"id": "t-1"})
        await gateway.stop()
    [line] = gateway.access
    assert (line["status"], line["rpc_code"], line["outcome"]) == (200, -32603, "upstream_error")


async def test_a_json_rpc_agent_that_does_not_know_a_method_of_http_is_asked_once(tmp_path: Path) -> None:
    script = plays(plain({"detail": "Method Not Allowed"}, b"405 Method Not Allowed"))
    async with agent(script, tmp_path, "jsonrpc 0.3") as (gateway, client):
        await client.post(
            gateway.url, json={"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "t"}}
        )
        assert len(gateway.backend.requests) == 1
