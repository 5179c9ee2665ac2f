"""Traps of what HTTP+JSON writes into a query (protocol §8.3), through the whole gateway: read, written and relayed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.translated import TASK_1_0, agent, call, complaint, plain, plays, result
from tests.table import for_each
from tests.translation.test_traps_dialect import MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

LIST = {"tasks": [TASK_1_0], "nextPageToken": "n+/=", "pageSize": 50, "totalSize": 1}

READ = [
    ("pageSize=5", {"pageSize": 5}),
    # a2a-java pads a digit with a space.
    ("pageSize=%205", {"pageSize": 5}),
    ("pageSize=+5", {"pageSize": 5}),
    ("historyLength=0", {"historyLength": 0}),
    ("historyLength=", {}),
    ("includeArtifacts=true", {"includeArtifacts": True}),
    ("includeArtifacts=True", {"includeArtifacts": True}),
    ("includeArtifacts=FALSE", {"includeArtifacts": False}),
    ("includeArtifacts=%20true%20", {"includeArtifacts": True}),
    ("statusTimestampAfter=2026-01-02T03%3A04%3A05.678Z", {"statusTimestampAfter": "2026-01-02T03:04:05.678Z"}),
    ("statusTimestampAfter=2026-01-02T03:04:05.678Z", {"statusTimestampAfter": "2026-01-02T03:04:05.678Z"}),
    ("statusTimestampAfter=2026-01-02T05:04:05%2B02:00", {"statusTimestampAfter": "2026-01-02T03:04:05Z"}),
    # A plus that nobody escaped is a space to whoever reads a form.
    ("statusTimestampAfter=2026-01-02T05:04:05+02:00", {"statusTimestampAfter": "2026-01-02T03:04:05Z"}),
    # a2a-go's client has another name for it than its server.
    ("lastUpdatedAfter=2026-01-02T03:04:05Z", {"statusTimestampAfter": "2026-01-02T03:04:05Z"}),
    ("status=TASK_STATE_WORKING", {"status": "TASK_STATE_WORKING"}),
    ("status=2", {"status": "TASK_STATE_WORKING"}),
    ("status=TASK_STATE_UNSPECIFIED", {}),
    ("contextId=c%201&page_size=7", {"contextId": "c 1", "pageSize": 7}),
    ("pageToken=a%2Bb%2Fc%3D%3D", {"pageToken": "a+b/c=="}),
    ("pageToken=a/b==", {"pageToken": "a/b=="}),
    ("unheard=1,2&contextId=c-1", {"contextId": "c-1"}),
]


@for_each(("query", "params"), READ)
async def test_a_query_becomes_parameters_of_their_types(query: str, params: dict[str, Any], tmp_path: Path) -> None:
    """Trap of §8.3: clients write numbers, truths and moments each in their way."""
    async with agent(plays(result(LIST)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks?" + query, headers=MODERN)
        [request] = gateway.backend.requests
    assert json.loads(request.body)["params"] == params
    assert answer.json() == LIST


REFUSED = [
    ("status=working", "status"), ("status=TASK_STATE_UNHEARD", "status"), ("status=99", "status"),
    ("pageSize=five", "pageSize"), ("pageSize=5.5", "pageSize"), ("pageSize=99999999999", "pageSize"),
    ("includeArtifacts=yes", "includeArtifacts"), ("includeArtifacts=1", "includeArtifacts"),
    ("statusTimestampAfter=2026-01-02T03:04:05Z&lastUpdatedAfter=2027-01-02T03:04:05Z", "lastUpdatedAfter"),
]  # fmt: skip


@for_each(("query", "field"), REFUSED)
async def test_a_filter_that_cannot_be_read_is_refused_and_never_dropped(
    query: str, field: str, tmp_path: Path
) -> None:
    """Trap of §8.3: a2a-python takes an unknown state for no filter, and shows everything."""
    async with agent(plays(result(LIST)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks?" + query, headers=MODERN)
        assert gateway.backend.requests == []
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    assert field in error["message"]


@for_each("state", ["TASK_STATE_CANCELLED", "TASK_STATE_CANCELED", "5"])
async def test_a_state_may_have_the_spelling_of_either_generation(state: str, tmp_path: Path) -> None:
    """Trap of §8.3: 0.3 has a letter more than 1.0, whose servers would know no such state."""
    async with agent(plays(result(LIST)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        await client.get(gateway.url + f"/v1/tasks?status={state}")
        await client.get(gateway.url + f"/tasks?status={state}", headers=MODERN)
        asked = [json.loads(request.body)["params"] for request in gateway.backend.requests]
    assert asked == [{"status": "TASK_STATE_CANCELED"}] * 2


@for_each("size", [0, 101])
async def test_a_page_size_out_of_range_is_refused_in_the_clients_dialect(size: int, tmp_path: Path) -> None:
    """Trap of §8.3: from 1 to 100 is 1.0's, and what the gateway does not know as wrong the agent refuses."""
    async with agent(plays(complaint(-32602, "pageSize: from 1 to 100")), tmp_path, "jsonrpc 1.0") as (gateway, client):
        modern = await client.get(gateway.url + f"/tasks?pageSize={size}", headers=MODERN)
        older = await client.get(gateway.url + f"/v1/tasks?pageSize={size}")
    assert modern.status_code == 400
    assert modern.json()["error"]["details"][0]["reason"] == "INVALID_PARAMS"
    assert older.json()["code"] == -32602
    assert "pageSize" in modern.json()["error"]["message"]


@for_each(
    "query",
    ["status=TASK_STATE_WORKING&status=TASK_STATE_COMPLETED", "contextId=a&contextId=b", "page_size=1&pageSize=2"],
)
async def test_a_parameter_that_stands_twice_is_refused(query: str, tmp_path: Path) -> None:
    """Trap of §8.3: none of these is a list, and servers differ on whether the first or the last one counts."""
    async with agent(plays(result(LIST)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks?" + query, headers=MODERN)
        assert gateway.backend.requests == []
    assert answer.status_code == 400


WRITTEN = [
    ({"contextId": "c 1/ä"}, b"contextId=c%201%2F%C3%A4"),
    ({"status": "TASK_STATE_WORKING"}, b"status=TASK_STATE_WORKING"),
    ({"status": 2}, b"status=TASK_STATE_WORKING"),
    ({"pageSize": 5, "pageToken": "a+b/c=="}, b"pageSize=5&pageToken=a%2Bb%2Fc%3D%3D"),
    ({"pageSize": "5"}, b"pageSize=5"),
    ({"page_size": 5.0}, b"pageSize=5"),
    ({"historyLength": 0, "includeArtifacts": False}, b"historyLength=0&includeArtifacts=false"),
    ({"includeArtifacts": True}, b"includeArtifacts=true"),
    ({"statusTimestampAfter": "2026-01-02T05:04:05+02:00"}, b"statusTimestampAfter=2026-01-02T03%3A04%3A05Z"),
    ({"contextId": "", "pageToken": None}, b""),
    ({}, b""),
]


@for_each(("params", "query"), WRITTEN)
async def test_parameters_become_a_query_that_every_server_reads(
    params: dict[str, Any], query: bytes, tmp_path: Path
) -> None:
    """Trap of §8.3: names in camelCase, truths in small letters, and every mark escaped."""
    async with agent(plays(plain(LIST)), tmp_path, "rest 1.0") as (gateway, client):
        answer = await call(client, gateway, "ListTasks", params)
        [request] = gateway.backend.requests
    assert request.method == b"GET"
    assert request.target == b"/tasks" + (b"?" + query if query else b"")
    assert request.body == b""
    assert answer["result"] == LIST


@for_each(
    ("params", "field"),
    [
        ({"status": "working"}, "status"), ({"status": 99}, "status"), ({"pageSize": "five"}, "pageSize"),
        ({"pageSize": 5.5}, "pageSize"), ({"includeArtifacts": "true"}, "includeArtifacts"),
        ({"contextId": ["c"]}, "contextId"), ({"contextId": "c\r\nX: y"}, "contextId"),
        ({"pageToken": "x" * 10_000}, "pageToken"),
    ],
)  # fmt: skip
async def test_params_that_no_query_can_hold_reach_no_agent(params: dict[str, Any], field: str, tmp_path: Path) -> None:
    """Trap of §8.3: a filter that got lost on the way would show more than was asked for."""
    async with agent(plays(plain(LIST)), tmp_path, "rest 1.0") as (gateway, client):
        answer = await call(client, gateway, "ListTasks", params)
        assert gateway.backend.requests == []
    assert answer["error"]["code"] == -32602
    assert field in answer["error"]["message"]


@for_each(
    "query",
    [
        "pageToken=a%2bb%2Fc==",
        "status=working&unheard=1,2,3",
        "historyLength=%202",
        "includeArtifacts=TRUE&statusTimestampAfter=2026-01-02T03:04:05.678Z",
        "lastUpdatedAfter=2026-01-02T03%3A04%3A05Z",
    ],
)
async def test_a_relayed_query_keeps_every_byte(query: str, tmp_path: Path) -> None:
    """Trap of §8.3: where both sides speak alike a value is the agent's to read, and page tokens must survive."""
    async with agent(plays(plain(LIST)), tmp_path, "rest 1.0") as (gateway, client):
        await client.get(gateway.url + "/tasks?" + query, headers=MODERN)
        [request] = gateway.backend.requests
    assert request.target == b"/tasks?" + query.encode()


@for_each(("length", "written"), [(0, b"?historyLength=0"), (2, b"?historyLength=2"), (None, b"")])
async def test_no_history_and_all_of_it_are_two_things_in_a_query(
    length: int | None, written: bytes, tmp_path: Path
) -> None:
    """Trap of §8.3: the zero is written, for it says something else than nothing does."""
    params = {"id": "t-1"} if length is None else {"id": "t-1", "historyLength": length}
    async with agent(plays(plain(TASK_1_0)), tmp_path, "rest 1.0") as (gateway, client):
        await call(client, gateway, "GetTask", params)
        await client.get(gateway.url + "/v1/tasks/t-1" + written.decode())
        modern, older = gateway.backend.requests
    assert modern.target == b"/tasks/t-1" + written
    # In 0.3 the zero is all of it, which 1.0 says by nothing.
    assert older.target == b"/tasks/t-1" + (b"" if length == 0 else written)


async def test_a_page_of_push_configurations_is_asked_for_in_the_query(tmp_path: Path) -> None:
    """Trap of §8.3: a2a-js drops the page there, and the gateway does not."""
    page = {"configs": [{"taskId": "t-1", "id": "c-1", "url": "https://hooks.example.net/"}], "nextPageToken": "n"}
    async with agent(plays(plain(page)), tmp_path, "rest 1.0") as (gateway, client):
        params = {"taskId": "t-1", "pageSize": 3, "pageToken": "a="}
        answer = await call(client, gateway, "ListTaskPushNotificationConfigs", params)
        [request] = gateway.backend.requests
    assert request.target == b"/tasks/t-1/pushNotificationConfigs?pageSize=3&pageToken=a%3D"
    assert answer["result"] == page
