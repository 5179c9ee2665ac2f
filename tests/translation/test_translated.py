"""Answers on their way to a client of another dialect: what the line does beside saying the same in other words."""

import asyncio
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.gateway import Scripted
from tests.support.scripted import Wire, chunk, head
from tests.support.translated import (
    MESSAGE_0_3,
    MESSAGE_1_0,
    STATUS_1_0,
    TASK_0_3,
    TASK_1_0,
    agent,
    call,
    events,
    plain,
    plays,
    result,
    rpc_event,
    stream,
)

pytestmark = pytest.mark.anyio


# ---- Statuses, types, headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/a2a+json, application/json", "application/a2a+json"),
    ],
)
async def test_a_good_answer_of_1_0_is_of_a_type_that_its_client_reads(
    accept: str, expected: str, tmp_path: Path
) -> None:
    async with agent(plays(result(TASK_0_3)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t", headers={"a2a-version": "1.0", "accept": accept})
    assert answer.headers["content-type"] == expected


async def test_an_answer_that_is_too_long_to_be_translated_is_refused(tmp_path: Path) -> None:
    task = {**TASK_0_3, "metadata": {"long": "x" * 5_000_000}}
    for kept, good in (("8MiB", True), ("4MiB", False)):
        bounds = {"connections": {"kept": kept}}
        async with agent(plays(result(task)), tmp_path, "jsonrpc 0.3", **bounds) as (gateway, client):
            answer = await call(client, gateway, "GetTask", {"id": "t-1"})
        assert ("result" in answer) == good
        assert good or answer["error"]["code"] == -32006


# ---- Streams ---------------------------------------------------------------------------------------------------------


async def test_events_over_many_lines_reach_the_client_on_one(tmp_path: Path) -> None:
    """a2a-sdk 0.3.26 prints the events of HTTP+JSON over a dozen lines (protocol §5)."""
    pretty = json.dumps({"task": {**TASK_1_0, "status": {"state": "TASK_STATE_SUBMITTED"}}}, indent=2).splitlines()
    event = "".join(f"data: {line}\r\n" for line in pretty).encode() + b"\r\n"
    for method, message in (("SendStreamingMessage", MESSAGE_1_0), ("message/stream", MESSAGE_0_3)):
        async with agent(plays(lambda _: stream(event)), tmp_path, "rest 0.3") as (gateway, client):
            body = {"jsonrpc": "2.0", "id": "a", "method": method, "params": {"message": message}}
            answer = await client.post(gateway.url, json=body)
        assert answer.headers["content-type"] == "text/event-stream"
        [line, end] = answer.content.split(b"\n\n")
        assert end == b""
        assert json.loads(line.removeprefix(b"data: "))["id"] == "a"


async def test_only_an_event_that_may_be_the_last_waits_for_the_next(tmp_path: Path) -> None:
    goes_on = asyncio.Event()

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream"))
        await wire.send(chunk(rpc_event(request, {"statusUpdate": STATUS_1_0})))
        await goes_on.wait()
        waiting = {**STATUS_1_0, "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
        await wire.send(chunk(rpc_event(request, {"statusUpdate": waiting})))
        await wire.send(chunk(rpc_event(request, {"statusUpdate": STATUS_1_0})))
        done = {**STATUS_1_0, "status": {"state": "TASK_STATE_COMPLETED"}}
        await wire.send(chunk(rpc_event(request, {"statusUpdate": done})) + chunk(b""))

    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
    async with (
        agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client),
        client.stream("POST", gateway.url, json=body) as answer,
    ):
        lines = answer.aiter_lines()
        first = await anext(lines)
        assert '"final":false' in first
        assert '"working"' in first
        goes_on.set()
        rest = [line async for line in lines if line]
    assert [json.loads(line[6:])["result"]["status"]["state"] for line in rest] == [
        "input-required",
        "working",
        "completed",
    ]
    assert [json.loads(line[6:])["result"]["final"] for line in rest] == [False, False, True]


async def test_an_agent_that_answers_a_streaming_call_with_one_frame_has_one_event(tmp_path: Path) -> None:
    async with agent(plays(result({"task": TASK_1_0})), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        answer = await client.post(gateway.url, json=body)
    assert answer.headers["content-type"] == "text/event-stream"
    assert events(answer.content)[0]["result"]["kind"] == "task"


# ---- Metrics ---------------------------------------------------------------------------------------------------------


async def test_a_call_is_counted_by_both_dialects_where_it_is_translated_and_not_where_it_is_relayed(
    tmp_path: Path,
) -> None:
    async with agent(plays(plain(TASK_1_0)), tmp_path, "rest 1.0") as (gateway, client):
        await call(client, gateway, "tasks/get", {"id": "t-1"})
        await call(client, gateway, "tasks/get", {"id": "t-1"})
        await call(client, gateway, "GetTask", {"id": "t-1"})
        await call(client, gateway, "GetTask", {"id": ""})
        await client.get(gateway.url + "/tasks/t-1")
        counted = [(sample.labels, sample.value) for sample in translations(gateway)]
    assert counted == [
        ({"agent": "agent", "from": "jsonrpc/0.3", "to": "rest/1.0"}, 2),
        ({"agent": "agent", "from": "jsonrpc/1.0", "to": "rest/1.0"}, 1),
    ]


def translations(gateway: Scripted) -> list[Sample]:
    """The series of translated calls."""
    text = gateway.gateway.metrics.render().decode()
    [found] = [each for each in text_string_to_metric_families(text) if each.name == "a2a_gateway_translations"]
    return found.samples
