"""Traps of what is inside messages and tasks, through the whole gateway.

Left out here: credentials in push configurations and the addresses of webhooks (trap 23), which the protection of push
notifications sees to.
"""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Scripted
from tests.support.scripted import Received, whole
from tests.support.translated import (
    MESSAGE_0_3,
    MESSAGE_1_0,
    TASK_0_3,
    TASK_1_0,
    Answer,
    agent,
    call,
    complaint,
    plain,
    plays,
    result,
)
from tests.table import for_each
from tests.translation.test_traps_dialect import HOOK, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

PROTO = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "Hello"}]}


def encoded(data: bytes, times: int = 1) -> str:
    for _ in range(times):
        data = b64encode(data)
    return data.decode()


def message_with(part: dict[str, Any]) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "content": [part]}


def answered(written: bytes, *, wrapped: bool) -> Answer:
    """An answer of exactly these bytes."""

    def answer(request: Received) -> bytes:
        if not wrapped:
            return whole(written)
        identity = json.dumps(json.loads(request.body)["id"]).encode()
        return whole(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (identity, written))

    return answer


@asynccontextmanager
async def telling(task: Any, folder: Path, speaks: str) -> AsyncIterator[tuple[Scripted, httpx.AsyncClient]]:
    """An agent that answers everything with a task."""
    async with agent(plays((plain if speaks.startswith("rest") else result)(task)), folder, speaks) as pair:
        yield pair


# ---- Files -----------------------------------------------------------------------------------------------------------

FILES = [b"hello world", b"\x89PNG\r\n\x1a\n\x00\xff", b"", "ä".encode()]


@for_each("data", FILES)
@for_each("times", [1, 2])
async def test_a_file_that_is_encoded_twice_or_once_is_the_same_file(data: bytes, times: int, tmp_path: Path) -> None:
    """Trap 15: over HTTP+JSON of 0.3 most SDKs put the text of base64 where bytes belong, and a2a-js the bytes."""
    part = {"file": {"fileWithBytes": encoded(data, times), "mimeType": "image/png", "name": "a.png"}}
    for speaks, told in (("jsonrpc 1.0", result({"task": TASK_1_0})), ("jsonrpc 0.3", result(TASK_0_3))):
        async with agent(plays(told), tmp_path, speaks) as (gateway, client):
            answer = await client.post(gateway.url + "/v1/message:send", json={"message": message_with(part)})
            [request] = gateway.backend.requests
        assert answer.status_code == 200
        [found] = json.loads(request.body)["params"]["message"]["parts"]
        if speaks == "jsonrpc 1.0":
            assert found == {"raw": encoded(data), "mediaType": "image/png", "filename": "a.png"}
        else:
            assert found["file"] == {"bytes": encoded(data), "mimeType": "image/png", "name": "a.png"}


@for_each("data", FILES)
@for_each("times", [1, 2])
async def test_a_file_in_an_answer_is_the_same_file_however_often_it_was_encoded(
    data: bytes, times: int, tmp_path: Path
) -> None:
    """Trap 15, on the way back."""
    file = {"fileWithBytes": encoded(data, times), "mimeType": "image/png"}
    artifact = {"artifactId": "a", "parts": [{"file": file}]}
    async with telling({**TASK_1_0, "artifacts": [artifact]}, tmp_path, "rest 0.3") as (gateway, client):
        modern = await call(client, gateway, "GetTask", {"id": "t-1"})
        older = await call(client, gateway, "tasks/get", {"id": "t-1"})
    assert modern["result"]["artifacts"][0]["parts"] == [{"raw": encoded(data), "mediaType": "image/png"}]
    assert older["result"]["artifacts"][0]["parts"][0]["file"] == {"bytes": encoded(data), "mimeType": "image/png"}


async def test_a_file_goes_to_agents_as_most_of_them_read_it(tmp_path: Path) -> None:
    """Trap 15: a2a-python, a2a-go and a2a-java decode twice, and fail on a file's own bytes."""
    message = {**MESSAGE_1_0, "parts": [{"raw": encoded(b"\x00\xff")}]}
    async with telling({"task": TASK_1_0}, tmp_path, "rest 0.3") as (gateway, client):
        await call(client, gateway, "SendMessage", {"message": message})
        [request] = gateway.backend.requests
    [part] = json.loads(request.body)["message"]["content"]
    assert part["file"]["fileWithBytes"] == encoded(b"\x00\xff", 2)


# ---- Spellings -------------------------------------------------------------------------------------------------------

SPELLINGS = {
    "ProtoJSON": {"message": {**PROTO, "contextId": "c-1"}, "configuration": {"historyLength": 2, "blocking": True}},
    "its snake_case": {
        "request": {"message_id": "m-1", "context_id": "c-1", "role": "ROLE_USER", "content": [{"text": "Hello"}]},
        "configuration": {"history_length": 2, "blocking": True},
    },
    "JSON-RPC": {
        "message": {**MESSAGE_0_3, "contextId": "c-1"},
        "configuration": {"historyLength": 2, "blocking": True},
    },
}


@for_each("spelling", SPELLINGS)
async def test_a_message_of_0_3_over_http_json_is_read_in_each_of_its_spellings(spelling: str, tmp_path: Path) -> None:
    """Trap 16: servers refuse the spelling that is not theirs, or lose its parts without a word."""
    async with telling({"task": TASK_1_0}, tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.post(gateway.url + "/v1/message:send", json=SPELLINGS[spelling])
        [request] = gateway.backend.requests
    params = json.loads(request.body)["params"]
    assert params["message"] == {**MESSAGE_1_0, "contextId": "c-1"}
    assert params["configuration"]["historyLength"] == 2
    assert answer.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_strict_agent_of_0_3_gets_nothing_that_its_protobuf_does_not_know(tmp_path: Path) -> None:
    """Trap 17: that of a2a-python 0.3 answers one member too many with status 500."""
    message = {
        **MESSAGE_1_0,
        "contextId": "c-1",
        "referenceTaskIds": ["t-0"],
        "unheard": 1,
        "parts": [{"text": "x", "unheard": 2}, {"data": {"kept": 3}, "mediaType": "application/json"}],
    }
    params = {"message": message, "configuration": {"returnImmediately": True, "unheard": 4}, "unheard": 5}
    async with telling({"task": TASK_1_0}, tmp_path, "rest 0.3") as (gateway, client):
        await call(client, gateway, "SendMessage", params)
        [request] = gateway.backend.requests
    body = json.loads(request.body)
    assert set(body) <= {"message", "configuration", "metadata"}
    assert set(body["message"]) <= {
        "messageId", "contextId", "taskId", "role", "content", "metadata", "extensions",
    }  # fmt: skip
    assert body["configuration"] == {} or set(body["configuration"]) <= {
        "acceptedOutputModes", "pushNotification", "historyLength", "blocking",
    }  # fmt: skip
    assert [set(part) for part in body["message"]["content"]] == [{"text"}, {"data", "metadata"}]
    assert body["message"]["content"][1]["data"] == {"data": {"kept": 3}}
    assert b"unheard" not in request.body


async def test_an_agent_without_kinds_is_understood(tmp_path: Path) -> None:
    """Trap 17a: a2a-python 0.3 takes parts and messages without their kind, so some agents write none."""
    message = {"messageId": "m", "role": "agent", "parts": [{"text": "x"}, {"file": {"uri": "https://f.example/"}}]}
    task = {"id": "t-1", "contextId": "c-1", "status": {"state": "completed", "message": message}}
    async with telling(task, tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
    assert answer.json()["status"]["message"]["parts"] == [{"text": "x"}, {"url": "https://f.example/"}]


async def test_findings_without_a_type_are_kept_in_one(tmp_path: Path) -> None:
    """Trap 17a: the errors of a2a-python 0.3 hold what pydantic found, and no id; their client gets its own back."""
    found = [{"type": "missing", "loc": ["params", name], "msg": "Field required"} for name in ("message", "id")]
    script = plays(complaint(-32602, "Invalid params", found, named=False))
    async with agent(script, tmp_path, "jsonrpc 0.3") as (gateway, client):
        modern = await call(client, gateway, "GetTask", {"id": "t-1"}, identity="a")
        path = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        body = {"jsonrpc": "2.0", "id": 7, "method": "tasks/get", "params": {"id": "t-1"}}
        relayed = (await client.post(gateway.url, json=body)).json()
    assert modern["error"]["code"] == -32602
    info, findings = modern["error"]["data"]
    assert info["reason"] == "INVALID_PARAMS"
    assert findings == {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"value": found}}
    assert path.status_code == 400
    assert path.json()["error"]["details"][1] == findings
    error = {"code": -32602, "message": "Invalid params", "data": found}
    assert relayed == {"jsonrpc": "2.0", "id": 7, "error": error}


CREATIONS = [
    {"parent": "tasks/t-1", "configId": "c-1", "config": {"pushNotificationConfig": {"url": HOOK}}},
    {"parent": "tasks/t-1", "config_id": "c-1", "config": {"push_notification_config": {"url": HOOK}}},
    {"name": "tasks/t-1/pushNotificationConfigs/c-1", "pushNotificationConfig": {"url": HOOK}},
    {"pushNotificationConfig": {"id": "c-1", "url": HOOK}},
]


@for_each("body", CREATIONS)
async def test_a_push_configuration_of_0_3_is_created_from_each_form(body: dict[str, Any], tmp_path: Path) -> None:
    """Trap 18: a2a-python sends the request, a2a-js the bare resource; and a name that is empty fails a client."""
    async with telling({"id": "c-1", "url": HOOK}, tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.post(gateway.url + "/v1/tasks/t-1/pushNotificationConfigs", json=body)
        [request] = gateway.backend.requests
    assert json.loads(request.body)["params"] == {"taskId": "t-1", "id": "c-1", "url": HOOK}
    assert answer.json()["name"] == "tasks/t-1/pushNotificationConfigs/c-1"


# ---- Numbers and moments ---------------------------------------------------------------------------------------------

NUMBERS = b'"whole":42.0,"int":42,"big":9007199254740993123,"fine":0.1000000000000000055511151231257827'
PAIRS = [
    ("GetTask", "jsonrpc 0.3"),
    ("GetTask", "rest 0.3"),
    ("GetTask", "rest 1.0"),
    ("tasks/get", "jsonrpc 1.0"),
    ("tasks/get", "rest 1.0"),
    ("tasks/get", "rest 0.3"),
]


@for_each(("method", "speaks"), PAIRS)
async def test_numbers_of_an_answer_stay_as_they_are_written(method: str, speaks: str, tmp_path: Path) -> None:
    """Trap 19: through protobuf integers become floats, and large ones lose digits; not here."""
    task = json.dumps(TASK_1_0 if speaks.endswith("1.0") else TASK_0_3).encode()
    written = task[:-1] + b',"metadata":{' + NUMBERS + b"}}"
    script = plays(answered(written, wrapped=speaks.startswith("jsonrpc")))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "t-1"}}
        answer = await client.post(gateway.url, json=body)
    assert NUMBERS in answer.content


@for_each("speaks", ["jsonrpc 0.3", "rest 0.3", "rest 1.0", "jsonrpc 1.0"])
async def test_numbers_of_a_message_stay_as_they_are_written(speaks: str, tmp_path: Path) -> None:
    """Trap 19, on the way there, in metadata and in data."""
    written = b'{"messageId":"m","role":"%b","parts":[{%b"data":{%b}}],"metadata":{%b}}'
    modern = written % (b"ROLE_USER", b"", NUMBERS, NUMBERS)
    older = written % (b"user", b'"kind":"data",', NUMBERS, NUMBERS)
    told = plain({"task": TASK_1_0}) if speaks.startswith("rest") else result({"task": TASK_1_0})
    async with agent(plays(told), tmp_path, speaks) as (gateway, client):
        for method, message in ((b"SendMessage", modern), (b"message/send", older)):
            body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"message":%b}}' % (method, message)
            await client.post(gateway.url, content=body)
        for request in gateway.backend.requests:
            assert request.body.count(NUMBERS) == 2


@for_each("length", ["2", "2.0", '"2"', "2e0"])
async def test_an_integer_is_one_however_it_is_written(length: str, tmp_path: Path) -> None:
    """Trap 19: ProtoJSON lets it be a text or a float, and what comes out is a number."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t-1","historyLength":%b}}' % length.encode()
    async with telling(TASK_0_3, tmp_path, "jsonrpc 0.3") as (gateway, client):
        await client.post(gateway.url, content=body)
        [request] = gateway.backend.requests
    assert b'"historyLength":2}' in request.body


MOMENTS = [
    ("2026-01-02T03:04:05.249570Z", "2026-01-02T03:04:05.249570Z"),
    ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456789Z"),
    ("2026-01-02T05:04:05.5+02:00", "2026-01-02T03:04:05.5Z"),
    ("2026-01-01T22:04:05-0500", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05.678901", "2026-01-02T03:04:05.678901Z"),
    ("2026-01-02 03:04:05", "2026-01-02T03:04:05Z"),
]


@for_each(("written", "moment"), MOMENTS)
@for_each("speaks", ["jsonrpc 0.3", "rest 0.3", "jsonrpc 0.1"])
async def test_timestamps_are_translated_to_utc(written: str, moment: str, speaks: str, tmp_path: Path) -> None:
    """Trap 20: peers of older generations write offsets or no zone, which readers of 1.0 refuse."""
    state = "TASK_STATE_WORKING" if speaks == "rest 0.3" else "working"
    task = {"id": "t-1", "contextId": "c-1", "status": {"state": state, "timestamp": written}}
    async with telling(task, tmp_path, speaks) as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
    assert answer.json()["status"] == {"state": "TASK_STATE_WORKING", "timestamp": moment}


async def test_a_malformed_timestamp_of_a_status_is_left_out(tmp_path: Path) -> None:
    """Trap 20: an agent that cannot tell the time has told the rest."""
    for speaks in ("jsonrpc 0.3", "rest 0.3"):
        status = {"state": "TASK_STATE_WORKING", "timestamp": "yesterday"}
        async with telling({"id": "t-1", "contextId": "c-1", "status": status}, tmp_path, speaks) as (gateway, client):
            answer = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        assert answer.json()["status"] == {"state": "TASK_STATE_WORKING"}


@for_each("written", [written for written, _ in MOMENTS])
async def test_a_relay_mends_no_moment(written: str, tmp_path: Path) -> None:
    """Trap 20: within one generation the client gets what the agent wrote, over whichever binding."""
    task = {**TASK_1_0, "status": {"state": "TASK_STATE_WORKING", "timestamp": written}}
    async with telling(task, tmp_path, "jsonrpc 1.0") as (gateway, client):
        same = await call(client, gateway, "GetTask", {"id": "t-1"})
        path = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
    assert same["result"] == path.json() == task


# ---- Nothing in many guises ------------------------------------------------------------------------------------------

HOLLOW: dict[str, Any] = {"id": "t-1", "contextId": "", "artifacts": [], "history": [], "metadata": None}
HOLLOW_STATUS = {"message": None, "timestamp": None}


@for_each(
    ("method", "speaks"), [*PAIRS, ("tasks/get", "jsonrpc 0.3"), ("GetTask", "jsonrpc 1.0"), ("GetTask", "jsonrpc 0.1")]
)
async def test_an_answer_may_say_nothing_by_lists_nulls_and_empty_ids(method: str, speaks: str, tmp_path: Path) -> None:
    """Trap 21: some leave out what is empty, some write `[]`, some write null, some write an empty text."""
    state = {"jsonrpc 0.3": "completed", "jsonrpc 0.1": "completed"}.get(speaks, "TASK_STATE_COMPLETED")
    task = {**HOLLOW, "status": {**HOLLOW_STATUS, "state": state}}
    async with telling(task, tmp_path, speaks) as (gateway, client):
        answer = (await call(client, gateway, method, {"id": "t-1"}))["result"]
    assert answer["id"] == "t-1"
    assert answer["status"]["state"].lower().endswith("completed")
    assert not answer.get("artifacts")
    assert not answer.get("history")
    if (method, speaks) in {("tasks/get", "jsonrpc 0.3"), ("GetTask", "jsonrpc 1.0")}:
        # Relayed.
        assert answer == task


@for_each("configuration", [{}, None, {"acceptedOutputModes": [], "historyLength": None}])
@for_each("speaks", ["jsonrpc 0.3", "rest 0.3", "rest 1.0", "jsonrpc 0.1"])
async def test_a_request_may_say_nothing_by_objects_nulls_and_empty_ids(
    configuration: Any, speaks: str, tmp_path: Path
) -> None:
    """Trap 21: a2a-js always sends an empty configuration."""
    message: dict[str, Any] = {**MESSAGE_1_0, "contextId": "", "taskId": None, "extensions": [], "metadata": {}}
    params = {"message": message, "configuration": configuration, "metadata": None}
    told = {"task": TASK_1_0} if speaks.startswith("rest") else TASK_0_3
    async with telling(told, tmp_path, speaks) as (gateway, client):
        answer = await call(client, gateway, "SendMessage", params)
        [request] = gateway.backend.requests
    assert answer["result"]["task"]["id"]
    if speaks != "rest 1.0":
        asked = json.loads(request.body)
        assert "contextId" not in asked.get("params", asked)["message"]
        assert "null" not in request.body.decode()


@for_each("members", [{"contextId": ""}, {"contextId": None}, {"taskId": ""}])
async def test_a_message_of_0_3_may_have_empty_ids(members: dict[str, Any], tmp_path: Path) -> None:
    """Trap 21: an empty id is none, and never one that an agent looks up."""
    async with telling({"task": TASK_1_0}, tmp_path, "rest 1.0") as (gateway, client):
        await call(client, gateway, "message/send", {"message": {**MESSAGE_0_3, **members}})
        await client.post(gateway.url + "/v1/message:send", json={"message": {**PROTO, **members}})
        for request in gateway.backend.requests:
            assert json.loads(request.body)["message"] == MESSAGE_1_0


@for_each("speaks", ["jsonrpc 0.3", "rest 0.3", "rest 1.0", "jsonrpc 1.0"])
async def test_a_null_is_data_where_a_part_has_nothing_else(speaks: str, tmp_path: Path) -> None:
    """Trap 22: a2a-js drops such a part."""
    message = {**MESSAGE_1_0, "parts": [{"data": None}, {"text": "x"}]}
    script = plays((plain if speaks.startswith("rest") else result)({"task": TASK_1_0}))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        await call(client, gateway, "SendMessage", {"message": message})
        [request] = gateway.backend.requests
    asked = json.loads(request.body)
    sent = asked.get("params", asked)["message"]
    first = (sent.get("content") or sent["parts"])[0]
    if speaks.endswith("1.0"):
        assert first == {"data": None}
    else:
        data = first["data"]["data"] if speaks == "rest 0.3" else first["data"]
        assert (data, first["metadata"]) == ({"value": None}, {"data_part_compat": True})


async def test_a_null_comes_back_as_the_null_it_was(tmp_path: Path) -> None:
    """Trap 22, on the way back; and a part whose writer forgot its null is still a part."""
    part = {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True}}
    task = {**TASK_0_3, "artifacts": [{"artifactId": "a", "parts": [part]}]}
    async with telling(task, tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
    assert answer.json()["artifacts"][0]["parts"] == [{"data": None}]
    task = {**TASK_1_0, "artifacts": [{"artifactId": "a", "parts": [{"metadata": {"k": 1}}]}]}
    async with telling(task, tmp_path, "jsonrpc 1.0") as (gateway, client):
        older = await call(client, gateway, "tasks/get", {"id": "t-1"})
    [found] = older["result"]["artifacts"][0]["parts"]
    assert found["metadata"] == {"k": 1}
    assert found["kind"] in ("text", "data")
