"""Streams on their way to a client of another dialect: what happens to the event that may be the last."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.scripted import Received, Wire, chunk, head
from tests.support.translated import MESSAGE_0_3, MESSAGE_1_0, STATUS_1_0, agent, events, plays, rpc_event, stream

pytestmark = pytest.mark.anyio

OLD_STREAM = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
PROTO = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}}


def status(state: str) -> dict[str, Any]:
    return {"statusUpdate": {**STATUS_1_0, "status": {"state": f"TASK_STATE_{state}"}}}


ARTIFACT = {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": {"artifactId": "a", "parts": []}}}


async def told(folder: Path, *trees: Any, whole: bool = True) -> list[dict[str, Any]]:
    """Return the events that a client of 0.3 gets of these events of an agent of 1.0."""

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(stream(*(rpc_event(request, tree) for tree in trees), whole=whole))

    async with agent(script, folder, "jsonrpc 1.0") as (gateway, client):
        answer = await client.post(gateway.url, json=OLD_STREAM)
    return events(answer.content)


@pytest.mark.parametrize(("state", "final"), [("INPUT_REQUIRED", False), ("COMPLETED", True)], ids=["waits", "is over"])
async def test_an_event_is_not_held_back_for_ever_where_the_agent_keeps_its_stream_open(
    state: str, *, final: bool, tmp_path: Path
) -> None:
    """Agents of 1.0 may leave a subscription open while the task waits for its client, who has to hear of it."""
    heard = asyncio.Event()

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(stream(rpc_event(request, status(state)), whole=False))
        await heard.wait()

    async with (
        agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client),
        client.stream("POST", gateway.url, json=OLD_STREAM) as answer,
    ):
        line = await anext(answer.aiter_lines())
        heard.set()
    assert json.loads(line[6:])["result"]["final"] is final


@pytest.mark.parametrize(
    ("after", "whole"),
    [
        (b"data: garbage\n\n", True),
        (b'data: {"jsonrpc":"2.0","id":"another","result":{}}\n\n', True),
        (b"data: ERROR\n\n", True),
        (b"", False),
    ],
    ids=["garbage", "another's", "an error", "the stream breaks off"],
)
async def test_a_held_back_event_is_sent_before_an_error(after: bytes, *, whole: bool, tmp_path: Path) -> None:
    async def script(wire: Wire) -> None:
        request = await wire.request()
        error = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": {"code": -32603, "message": "broken"}}
        behind = after.replace(b"ERROR", json.dumps(error).encode())
        await wire.send(stream(rpc_event(request, status("COMPLETED")), *([behind] if after else []), whole=whole))

    async with agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client):
        held, wrong = events((await client.post(gateway.url, json=OLD_STREAM)).content)
    # Nothing is the last behind an error of the agent.
    assert (held["result"]["status"]["state"], held["result"]["final"]) == ("completed", b"ERROR" not in after)
    assert wrong["error"]["code"] == -32603


async def test_a_held_back_event_is_sent_when_the_gateway_stops(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(
            stream(rpc_event(request, status("WORKING")), rpc_event(request, status("COMPLETED")), whole=False)
        )
        begun.set()
        await wire.hang()

    async with (
        agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client),
        client.stream("POST", gateway.url, json=OLD_STREAM) as answer,
    ):
        lines = answer.aiter_lines()
        await anext(lines)
        await begun.wait()
        await gateway.stop()
        rest = [json.loads(line[6:]) for line in [line async for line in lines] if line]
    assert rest[0]["result"]["status"]["state"] == "completed"
    assert "error" in rest[1]


async def test_events_before_an_error_reach_a_client_that_has_no_event_for_errors(tmp_path: Path) -> None:
    def answer(request: Received) -> bytes:
        error = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": {"code": -32603, "message": "broken"}}
        last = b"data: " + json.dumps(error).encode() + b"\n\n"
        return stream(rpc_event(request, status("WORKING")) + rpc_event(request, ARTIFACT) + last)

    received = bytearray()

    async def read(said: httpx.Response) -> None:
        async for part in said.aiter_bytes():
            received.extend(part)

    async with (
        agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client),
        client.stream("POST", gateway.url + "/v1/message:stream", json=PROTO) as said,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await read(said)
    assert received.count(b"data: ") == 2


async def test_an_error_that_is_all_of_a_stream_is_the_answer_to_a_client_that_has_no_event_for_errors(
    tmp_path: Path,
) -> None:
    def answer(request: Received) -> bytes:
        error = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": {"code": -32001, "message": "none"}}
        return stream(b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n")

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        said = await client.post(gateway.url + "/v1/message:stream", json=PROTO)
        await gateway.stop()
    assert (said.status_code, said.headers["content-type"]) == (404, "application/json")
    assert (said.json()["code"], said.json()["type"]) == (-32001, "TaskNotFoundError")
    [line] = gateway.access
    assert (line["status"], line["rpc_code"], line["outcome"]) == (404, -32001, "client_error")


async def test_a_stream_that_breaks_off_before_its_first_event_is_an_answer_to_such_a_client(tmp_path: Path) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(stream(whole=False))
        wire.close()

    async with agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client):
        said = await client.post(gateway.url + "/v1/message:stream", json=PROTO)
    assert (said.status_code, said.headers["content-type"]) == (502, "application/json")


async def test_such_a_client_is_told_of_a_stream_once_there_is_anything_in_it(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(stream(b": soon\n\n", whole=False))
        await heard.wait()
        error = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": {"code": -32001, "message": "none"}}
        await wire.send(chunk(b"data: " + json.dumps(error).encode() + b"\n\n"))

    async with (
        agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client),
        client.stream("POST", gateway.url + "/v1/message:stream", json=PROTO) as said,
    ):
        parts = said.aiter_bytes()
        assert (said.status_code, await anext(parts)) == (200, b": keep-alive\n\n")
        heard.set()
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(parts)


async def test_a_stream_without_events_is_one_to_such_a_client(tmp_path: Path) -> None:
    async with agent(plays(lambda _: stream()), tmp_path, "jsonrpc 1.0") as (gateway, client):
        said = await client.post(gateway.url + "/v1/message:stream", json=PROTO)
    assert (said.status_code, said.headers["content-type"], said.content) == (200, "text/event-stream", b"")


async def test_the_last_event_says_that_it_is_the_last_also_where_an_artifact_came_behind(tmp_path: Path) -> None:
    heard = await told(tmp_path, status("COMPLETED"), ARTIFACT)
    kinds = [(event["result"]["kind"], event["result"].get("final")) for event in heard]
    assert kinds == [("status-update", False), ("artifact-update", None), ("status-update", True)]
    assert heard[2]["result"]["status"] == {"state": "completed"}


async def test_a_long_event_keeps_its_place_and_nobody_else_waits_for_it(tmp_path: Path) -> None:
    long = {"artifactUpdate": {**ARTIFACT["artifactUpdate"], "metadata": {"long": "x" * 300_000}}}
    heard = await told(tmp_path, status("WORKING"), long, status("WORKING"), long, status("COMPLETED"))
    assert [event["result"]["kind"] for event in heard] == [
        "status-update",
        "artifact-update",
        "status-update",
        "artifact-update",
        "status-update",
    ]
    assert heard[-1]["result"]["final"] is True


async def test_a_long_event_that_nobody_ended_is_brought_too(tmp_path: Path) -> None:
    long = {"artifactUpdate": {**ARTIFACT["artifactUpdate"], "metadata": {"long": "x" * 300_000}}}

    def answer(request: Received) -> bytes:
        return stream(rpc_event(request, status("WORKING")), rpc_event(request, long).rstrip(b"\n"))

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        heard = events((await client.post(gateway.url, json=OLD_STREAM)).content)
    assert [event["result"]["kind"] for event in heard] == ["status-update", "artifact-update"]


async def test_an_error_in_a_stream_over_http_json_counts_as_one(tmp_path: Path) -> None:
    event = b"data: " + json.dumps(status("WORKING")).encode() + b"\n\n"
    error = b'event: error\ndata: {"error":{"code":500,"status":"INTERNAL","message":"broken","details":[]}}\n\n'
    opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
    script = plays(lambda _: opening + chunk(event) + chunk(error) + chunk(b""))
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        said = events((await client.post(gateway.url, json=OLD_STREAM)).content)
        await gateway.stop()
    assert said[1]["error"]["code"] == -32603
    [line] = gateway.access
    assert (line["rpc_code"], line["outcome"]) == (-32603, "upstream_error")


async def test_no_line_that_ends_in_cr_alone_swallows_the_event_behind_it(tmp_path: Path) -> None:
    """A bare CR ends a line (WHATWG), and clients of JavaScript do not know it; nor does splitting at LF."""

    async def script(wire: Wire) -> None:
        request = await wire.request()
        parts = (
            b": one\r\r",
            b": two\r\n\r\n",
            rpc_event(request, status("WORKING")).replace(b"\n", b"\r"),
            b": three\r\r",
        )
        await wire.send(stream(*parts, rpc_event(request, status("COMPLETED")).replace(b"\n", b"\r")))

    async with agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.post(gateway.url, json=OLD_STREAM)
    assert [event["result"]["status"]["state"] for event in events(answer.content)] == ["working", "completed"]
    assert b"\r" not in answer.content.replace(b"\r\n", b"")


async def test_no_character_of_a_text_ends_a_line_to_the_clients_of_python(tmp_path: Path) -> None:
    """httpx, and with it a2a-sdk, reads lines as `str.splitlines` does; agents in Python escape what is not ASCII."""
    text = "one\u2028two\u2029three\x85four \u201cfive\u201d \\\u2028"
    message = {"message": {**MESSAGE_1_0, "role": "ROLE_AGENT", "parts": [{"text": text}]}}

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(stream(rpc_event(request, message)))

    async with (
        agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client),
        client.stream("POST", gateway.url, json=OLD_STREAM) as answer,
    ):
        lines = [line async for line in answer.aiter_lines()]
    assert json.loads(lines[0].removeprefix("data: "))["result"]["parts"][0]["text"] == text
    assert lines[1:] == [""]


OF_0_3 = {"taskId": "t-1", "contextId": "c-1"}
MOVED = {**OF_0_3, "kind": "status-update", "status": {"state": "working"}, "final": False}
WROTE = {**OF_0_3, "kind": "artifact-update", "artifact": {"artifactId": "a", "parts": []}}
OVER = {**OF_0_3, "kind": "status-update", "status": {"state": "completed"}, "final": True}
OF_0_1 = {"id": "t-1", "status": {"state": "working"}, "final": False}
WROTE_0_1 = {"id": "t-1", "artifact": {"index": 0, "parts": [{"type": "text", "text": "x"}]}}
SENT_1_0 = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": MESSAGE_1_0}}
ASKED_1_0 = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "t-1"}}
ASKED_0_3 = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": "t-1"}}
REST_1_0 = {"message": MESSAGE_1_0}


async def heard(folder: Path, speaks: str, path: str, body: Any, *trees: Any) -> list[dict[str, Any]]:
    """The objects that a client hears, in the words of its generation, where an agent streams these events."""

    def answer(request: Received) -> bytes:
        if speaks.startswith("rest"):
            return stream(*(b"data: " + json.dumps(tree).encode() + b"\n\n" for tree in trees))
        return stream(*(rpc_event(request, tree) for tree in trees))

    async with agent(plays(answer), folder, speaks) as (gateway, client):
        said = events((await client.post(gateway.url + path, json=body)).content)
    return [event.get("result", event) for event in said]


@pytest.mark.parametrize(
    ("speaks", "first"),
    [("jsonrpc 0.1", OF_0_1), ("jsonrpc 0.1", WROTE_0_1), ("jsonrpc 0.3", MOVED), ("jsonrpc 0.3", WROTE)],
    ids=["0.1 status", "0.1 artifact", "0.3 status", "0.3 artifact"],
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", SENT_1_0), ("", ASKED_1_0), ("/message:stream", REST_1_0), ("/tasks/t-1:subscribe", None),
        ("/v1/message:stream", PROTO), ("/v1/tasks/t-1:subscribe", None),
    ],
    ids=["1.0 send", "1.0 subscribe", "1.0 REST send", "1.0 REST subscribe", "0.3 REST send", "0.3 REST subscribe"],
)  # fmt: skip
async def test_the_first_event_of_a_stream_about_a_task_is_the_task(
    speaks: str, first: Any, path: str, body: Any, tmp_path: Path
) -> None:
    """1.0 §3.1.2 and §3.1.6; agents of older generations begin with an update."""
    begun, *rest = await heard(tmp_path, speaks, path, body, first)
    task = begun["task"]
    assert task["id"] == "t-1"
    assert task["contextId"]
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert [list(each) for each in rest] == ([["artifactUpdate"]] if "artifact" in first else [])


@pytest.mark.parametrize(
    ("speaks", "body", "first"),
    [
        ("jsonrpc 0.1", OLD_STREAM, OF_0_1),
        ("jsonrpc 0.1", OLD_STREAM, WROTE_0_1),
        ("rest 0.3", OLD_STREAM, {"statusUpdate": STATUS_1_0}),
        ("rest 0.3", ASKED_0_3, ARTIFACT),
    ],
)
async def test_so_it_is_for_clients_of_0_3(speaks: str, body: Any, first: Any, tmp_path: Path) -> None:
    begun, *rest = await heard(tmp_path, speaks, "", body, first)
    assert (begun["kind"], begun["id"], begun["status"]["state"]) == ("task", "t-1", "working")
    assert [each["kind"] for each in rest] == (["artifact-update"] if "rtifact" in str(first) else [])


async def test_an_end_that_comes_first_is_said_behind_the_task(tmp_path: Path) -> None:
    modern = await heard(tmp_path, "jsonrpc 0.3", "", SENT_1_0, OVER)
    assert [list(each) for each in modern] == [["task"], ["statusUpdate"]]
    task, last = await heard(tmp_path, "rest 0.3", "", OLD_STREAM, status("COMPLETED"))
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert (last["kind"], last["final"]) == ("status-update", True)


async def test_a_stream_that_begins_with_a_message_or_is_relayed_is_left_as_it_is(tmp_path: Path) -> None:
    message = {**MESSAGE_0_3, "role": "agent"}
    [said] = await heard(tmp_path, "jsonrpc 0.3", "", SENT_1_0, message)
    assert list(said) == ["message"]
    assert await heard(tmp_path, "jsonrpc 0.3", "", ASKED_0_3, MOVED, OVER) == [MOVED, OVER]
