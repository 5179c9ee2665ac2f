"""Traps of the texts that contradict each other, and of who speaks which dialect, through the whole gateway.

Left out here: how gRPC addresses are written (trap 9), which is gRPC's; that a push configuration must set up a webhook
(trap 8 in part), which is the agent's to do.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.sdk import open_http
from tests.support.gateway import Scripted, scripted
from tests.support.scripted import Script
from tests.support.translated import (
    MESSAGE_0_3,
    MESSAGE_1_0,
    STATUS_1_0,
    TASK_0_3,
    TASK_1_0,
    Answer,
    agent,
    call,
    events,
    plain,
    plays,
    result,
    rpc_event,
    stream,
)
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

MODERN = {"a2a-version": "1.0"}
WORKING_1_0 = {**TASK_1_0, "status": {"state": "TASK_STATE_WORKING"}}
HOOK = "https://hooks.example.net/"
CARD = {"name": "x", "description": "", "version": "1", "capabilities": {"streaming": True}}
CARD |= {"defaultInputModes": [], "defaultOutputModes": [], "skills": []}


def bare_event(tree: Any, name: bytes = b"") -> bytes:
    """An event of HTTP+JSON; `name` is the line before it."""
    return name + b"data: " + json.dumps(tree).encode() + b"\n\n"


def streamed(*trees: Any) -> Answer:
    """A stream of JSON-RPC."""
    return lambda request: stream(*(rpc_event(request, tree) for tree in trees))


def told(state: str, **members: Any) -> dict[str, Any]:
    return {"statusUpdate": {**STATUS_1_0, "status": {"state": state}, **members}}


@asynccontextmanager
async def described(
    script: Script, folder: Path, card: dict[str, Any], **settings: Any
) -> AsyncIterator[tuple[Scripted, httpx.AsyncClient]]:
    """An agent that speaks what its card says and nothing else tells."""
    (folder / "told.json").write_text(json.dumps({**CARD, **card}))
    async with scripted(script, folder, card="told.json", **settings) as gateway, open_http() as client:
        yield gateway, client


# ---- The texts against themselves ------------------------------------------------------------------------------------


@for_each("verb", ["GET", "POST"])
@for_each("path", ["/tasks/t-1:subscribe", "/tasks/t-1/subscribe", "/v1/tasks/t-1:subscribe"])
async def test_a_client_subscribes_by_either_verb(verb: str, path: str, tmp_path: Path) -> None:
    """Trap 1: the prose of the texts has POST and their protobuf GET."""
    async with agent(plays(streamed({"task": WORKING_1_0})), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.request(verb, gateway.url + path)
        [request] = gateway.backend.requests
    assert answer.headers["content-type"] == "text/event-stream"
    assert events(answer.content)[0]["task"]["id"] == "t-1"
    assert json.loads(request.body)["method"] == "SubscribeToTask"


@for_each(("speaks", "verb"), [("rest 1.0", b"POST"), ("rest 0.3", b"GET")])
async def test_an_agent_is_subscribed_to_by_the_verb_that_its_sdks_know(
    speaks: str, verb: bytes, tmp_path: Path
) -> None:
    """Trap 1: servers of 1.0 know POST, and that of a2a-python 0.3 GET alone; 404 tells it as well as 405."""
    known = plays(lambda _: stream(bare_event({"task": WORKING_1_0})))
    body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "t-1"}}
    async with agent(known, tmp_path, speaks) as (gateway, client):
        await client.post(gateway.url, json=body)
        assert [request.method for request in gateway.backend.requests] == [verb]
    for status in (b"404 Not Found", b"405 Method Not Allowed"):
        unknown = plays(plain({"detail": "no"}, status), lambda _: stream(bare_event({"task": WORKING_1_0})))
        async with agent(unknown, tmp_path, speaks) as (gateway, client):
            answer = await client.post(gateway.url, json=body)
            assert {request.method for request in gateway.backend.requests} == {b"GET", b"POST"}
        assert "result" in events(answer.content)[0]


@for_each("state", ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED", "TASK_STATE_COMPLETED"])
async def test_a_stream_ends_where_the_agent_ends_it_and_nowhere_before(state: str, tmp_path: Path) -> None:
    """Trap 2: one place of the text ends streams with the task alone, another also where the task waits."""
    script = plays(streamed(told(state), told("TASK_STATE_WORKING")))
    async with agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client):
        modern = await client.post(gateway.url + "/message:stream", json={"message": MESSAGE_1_0}, headers=MODERN)
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        older = await client.post(gateway.url, json=body)
    assert [event["statusUpdate"]["status"]["state"] for event in events(modern.content)] == [
        state,
        "TASK_STATE_WORKING",
    ]
    assert [event["result"]["final"] for event in events(older.content)] == [False, False]


@for_each("state", ["input-required", "auth-required", "completed"])
async def test_a_client_of_1_0_hears_of_no_final_event(state: str, tmp_path: Path) -> None:
    """Trap 2: 1.0 says the end of a stream by nothing but the end."""
    event = {"kind": "status-update", "taskId": "t-1", "contextId": "c-1", "status": {"state": state}, "final": True}
    async with agent(plays(streamed(event)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.post(gateway.url + "/message:stream", json={"message": MESSAGE_1_0}, headers=MODERN)
    task, told_so = events(answer.content)
    assert task["task"].keys() == {"id", "contextId", "status"}
    assert "final" not in told_so["statusUpdate"]
    assert "kind" not in told_so["statusUpdate"]


JAVA = [
    ("409 Conflict", "Task cannot be canceled", -32002, "TASK_NOT_CANCELABLE"),
    ("415 Unsupported Media Type", "no such type", -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
    ("422 Unprocessable Content", "no", -32602, "INVALID_PARAMS"),
    ("501 Not Implemented", "no", -32004, "UNSUPPORTED_OPERATION"),
    ("502 Bad Gateway", "no", -32006, "INVALID_AGENT_RESPONSE"),
]


@for_each(("status", "message", "code", "reason"), JAVA)
@for_each("named", [False, True])
async def test_statuses_of_1_0_0_keep_their_meaning(
    status: str, message: str, code: int, reason: str, *, named: bool, tmp_path: Path
) -> None:
    """Trap 3: 1.0.1 folded 409, 415, 422 and 502 into 400 and 500, and a2a-java still has them."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}
    error = {"code": int(status[:3]), "status": "UNKNOWN", "message": message, "details": [info] if named else []}
    async with agent(plays(plain({"error": error}, status.encode())), tmp_path, "rest 1.0") as (gateway, client):
        modern = await call(client, gateway, "CancelTask", {"id": "t-1"})
        older = await client.post(gateway.url + "/v1/tasks/t-1:cancel")
        same = await client.post(gateway.url + "/tasks/t-1:cancel", headers=MODERN)
    assert (modern["error"]["code"], modern["error"]["message"]) == (code, message)
    assert modern["error"]["data"][0]["reason"] == reason
    assert (older.status_code, older.json()["code"]) == (int(status[:3]), code)
    assert (same.status_code, same.json()) == (int(status[:3]), {"error": error})


@for_each("speaks", ["rest 1.0", "jsonrpc 1.0"])
async def test_an_empty_list_is_a_list_though_the_agent_left_it_out(speaks: str, tmp_path: Path) -> None:
    """Trap 4: lists are required, and plain ProtoJSON omits them where they are empty."""
    script = plays(plain({}) if speaks == "rest 1.0" else result({}))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        tasks = await call(client, gateway, "tasks/list", {})
        path = await client.get(gateway.url + "/v1/tasks")
        older = await call(client, gateway, "tasks/pushNotificationConfig/list", {"id": "t-1"})
        place, headers = "/tasks/t-1/pushNotificationConfigs", MODERN
        if speaks == "rest 1.0":
            configs = (await call(client, gateway, "ListTaskPushNotificationConfigs", {"taskId": "t-1"}))["result"]
        else:
            configs = (await client.get(gateway.url + place, headers=headers)).json()
    assert tasks["result"]["tasks"] == path.json()["tasks"] == older["result"] == []
    assert configs == {"configs": []}


async def test_the_wrapper_of_a_candidate_of_1_0_is_left_to_agents_that_know_it(tmp_path: Path) -> None:
    """Trap 5: 1.0 itself has no such members, so it is relayed, and is no configuration to who translates."""
    body = {"configId": "c-1", "config": {"url": HOOK}}
    for speaks, status in (("rest 1.0", 200), ("jsonrpc 0.3", 400)):
        async with agent(plays(plain({"id": "c-1", "url": HOOK})), tmp_path, speaks) as (gateway, client):
            place = gateway.url + "/tasks/t-1/pushNotificationConfigs"
            answer = await client.post(place, json=body, headers=MODERN)
            asked = [json.loads(request.body) for request in gateway.backend.requests]
        assert answer.status_code == status
        assert asked == ([body] if status == 200 else [])


@for_each("speaks", ["rest 0.3", "rest 1.0", "jsonrpc 0.3"])
async def test_the_path_of_push_configurations_may_be_in_the_singular(speaks: str, tmp_path: Path) -> None:
    """Trap 6: so the protobuf definition of 0.3.0 had it, and agents built on its later ones do not know it."""
    answers = {
        "rest 0.3": plain({"name": "tasks/t-1/pushNotificationConfigs/c-1", "pushNotificationConfig": {"url": HOOK}}),
        "rest 1.0": plain({"taskId": "t-1", "id": "c-1", "url": HOOK}),
        "jsonrpc 0.3": result({"taskId": "t-1", "pushNotificationConfig": {"id": "c-1", "url": HOOK}}),
    }
    config = {"config": {"pushNotificationConfig": {"id": "c-1", "url": HOOK}}}
    async with agent(plays(answers[speaks]), tmp_path, speaks) as (gateway, client):
        answer = await client.post(gateway.url + "/v1/task/t-1/pushNotificationConfigs", json=config)
        [request] = gateway.backend.requests
        unprefixed = await client.post(gateway.url + "/task/t-1/pushNotificationConfigs", json=config, headers=MODERN)
    assert answer.json()["name"] == "tasks/t-1/pushNotificationConfigs/c-1"
    assert b"/task/" not in request.target
    assert unprefixed.status_code == 404


@for_each("speaks", ["rest 1.0", "jsonrpc 1.0", "jsonrpc 0.3"])
@for_each("body", [{"pushNotificationConfig": {"url": HOOK}}, {"config": {"pushNotificationConfig": {"url": HOOK}}}])
async def test_the_id_of_a_push_configuration_of_0_3_may_stand_in_the_query(
    speaks: str, body: dict[str, Any], tmp_path: Path
) -> None:
    """Trap 18: its protobuf definition has the configuration alone as the body, and the id beside it."""
    flat = {"taskId": "t-1", "id": "c-9", "url": HOOK}
    nested = {"taskId": "t-1", "pushNotificationConfig": {"id": "c-9", "url": HOOK}}
    script = plays(plain(flat) if speaks == "rest 1.0" else result(nested if speaks.endswith("0.3") else flat))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        target = gateway.url + "/v1/tasks/t-1/pushNotificationConfigs?configId=c-9"
        answer = await client.post(target, json=body)
        [request] = gateway.backend.requests
    assert answer.json()["name"] == "tasks/t-1/pushNotificationConfigs/c-9"
    asked = json.loads(request.body)
    asked = asked.get("params", asked)
    assert asked.get("pushNotificationConfig", asked)["id"] == "c-9"


async def test_an_artifact_event_with_an_index_is_an_artifact_event(tmp_path: Path) -> None:
    """Trap 8: the announcement of 1.0 has a member of artifact events that its protobuf lacks."""
    artifact = {"artifactId": "a-1", "parts": [{"text": "x"}]}
    update = {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": artifact, "index": 3}}
    async with agent(plays(streamed(update)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        older = await client.post(gateway.url, json=body)
        content = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}
        path = await client.post(gateway.url + "/v1/message:stream", json={"message": content})
    assert events(older.content)[0]["result"]["artifact"]["artifactId"] == "a-1"
    assert events(path.content)[0]["artifactUpdate"]["artifact"]["artifactId"] == "a-1"
    assert "index" not in events(path.content)[0]["artifactUpdate"]


# ---- Version and dialect ---------------------------------------------------------------------------------------------


@for_each("said", [None, "1.0", "1.0.0"])
async def test_a_relayed_call_says_its_version_as_its_client_did(said: str | None, tmp_path: Path) -> None:
    """Traps 10 and 11: a relay adds no header and mends none."""
    headers = {} if said is None else {"a2a-version": said}
    async with agent(plays(result(TASK_1_0)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t-1"}}
        await client.post(gateway.url, json=body, headers=headers)
        [request] = gateway.backend.requests
    assert request.header(b"a2a-version") == (None if said is None else said.encode())


@for_each("said", ["1.0.0", "1.0", "1.0.3"])
@for_each("place", ["header", "query"])
async def test_an_agent_gets_exactly_its_version_for_any_patch_of_the_client(
    said: str, place: str, tmp_path: Path
) -> None:
    """Trap 11: a2a-js compares the whole text with its card."""
    headers, query = ({"a2a-version": said}, "") if place == "header" else ({}, f"?A2A-Version={said}")
    async with agent(plays(result(TASK_1_0)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1" + query, headers=headers)
        [request] = gateway.backend.requests
    assert answer.json() == TASK_1_0
    assert request.header(b"a2a-version") == b"1.0"
    assert b"?" not in request.target


@for_each(
    ("card", "method"),
    [
        ({"url": "https://a.example/", "protocolVersion": "0.3.0"}, "tasks/get"),
        ({"url": "https://a.example/", "protocolVersion": "0.2.5"}, "tasks/get"),
        ({"url": "https://a.example/", "protocolVersion": ""}, "tasks/get"),
        ({"url": "https://a.example/"}, "tasks/get"),
        ({"supportedInterfaces": [{"url": "https://a.example/", "protocolBinding": "JSONRPC"}]}, "GetTask"),
        (
            {
                "supportedInterfaces": [
                    {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.0"}
                ]
            },
            "GetTask",
        ),
        (
            {
                "supportedInterfaces": [
                    {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "0.2.6"}
                ]
            },
            "tasks/get",
        ),
    ],
)
async def test_a_card_names_its_generation_in_many_ways(card: dict[str, Any], method: str, tmp_path: Path) -> None:
    """Trap 12: with patch numbers, empty or not at all; and SDKs take 0.2 for 1.0."""
    script = plays(result(TASK_1_0 if method == "GetTask" else TASK_0_3))
    async with described(script, tmp_path, card) as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        [request] = gateway.backend.requests
    assert json.loads(request.body)["method"] == method
    assert request.header(b"a2a-version") == (b"1.0" if method == "GetTask" else b"0.3")
    assert answer.json()["status"]["state"] == "TASK_STATE_COMPLETED"


FASTA2A_TASK = {
    "id": "t-1",
    "contextId": "c-1",
    "status": {"state": "completed", "timestamp": "2026-01-02T03:04:05.678901"},
    "history": [{"role": "user", "parts": [{"text": "x"}], "messageId": "m-1"}],
}


@for_each("speaks", ["jsonrpc 0.3", "jsonrpc 1.0"])
async def test_objects_of_1_0_with_small_enumerations_are_read(speaks: str, tmp_path: Path) -> None:
    """Trap 13: fasta2a answers the old methods with the new shapes, but writes their enumerations as of old."""
    async with agent(plays(result({"task": FASTA2A_TASK})), tmp_path, speaks) as (gateway, client):
        if speaks == "jsonrpc 0.3":
            answer = await client.post(gateway.url + "/message:send", json={"message": MESSAGE_1_0}, headers=MODERN)
            found = answer.json()["task"]
            assert found["status"] == {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-02T03:04:05.678901Z"}
            assert found["history"][0]["role"] == "ROLE_USER"
        else:
            older = await call(client, gateway, "message/send", {"message": MESSAGE_0_3})
            assert older["result"]["kind"] == "task"
            assert older["result"]["status"]["state"] == "completed"
            assert older["result"]["history"][0]["role"] == "user"


@for_each("method", ["tasks/pushNotification/set", "tasks/pushNotificationConfig/set"])
async def test_the_push_methods_of_0_1_may_come_with_the_shapes_of_0_3(method: str, tmp_path: Path) -> None:
    """Trap 13: fasta2a kept their names."""
    flat = {"taskId": "t-1", "id": "c-1", "url": HOOK}
    async with agent(plays(plain(flat)), tmp_path, "rest 1.0") as (gateway, client):
        params = {"taskId": "t-1", "pushNotificationConfig": {"id": "c-1", "url": HOOK}}
        answer = await call(client, gateway, method, params)
        [request] = gateway.backend.requests
    assert json.loads(request.body) == flat
    assert answer["result"] == {"taskId": "t-1", "pushNotificationConfig": {"id": "c-1", "url": HOOK}}


@for_each("header", [None, "1.0", "0.3"])
async def test_objects_of_1_0_under_a_name_of_0_3_are_told_by_themselves(header: str | None, tmp_path: Path) -> None:
    """Trap 14: some runtimes speak so; name and header together outweigh the objects, which are read all the same."""
    headers = {} if header is None else {"a2a-version": header}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": MESSAGE_1_0}}
    async with agent(plays(plain({"task": TASK_1_0})), tmp_path, "rest 1.0") as (gateway, client):
        answer = (await client.post(gateway.url, json=body, headers=headers)).json()["result"]
        [request] = gateway.backend.requests
    assert json.loads(request.body) == {"message": MESSAGE_1_0}
    if header == "0.3":
        assert (answer["kind"], answer["status"]["state"]) == ("task", "completed")
    else:
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_agent_of_0_3_gets_objects_that_fit_the_name(tmp_path: Path) -> None:
    """Trap 14: what contradicts itself is never relayed, since no SDK of 0.3 reads it."""
    async with agent(plays(result(TASK_0_3)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await call(client, gateway, "message/send", {"message": MESSAGE_1_0})
        [request] = gateway.backend.requests
    asked = json.loads(request.body)
    assert asked["method"] == "message/send"
    assert asked["params"]["message"]["role"] == "user"
    assert answer["result"]["task"]["id"] == "t-1"
