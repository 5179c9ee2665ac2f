"""Answers on their way to a client of another dialect: what the line does beside saying the same in other words."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.scripted import Received, Script, Wire, chunk, head
from tests.e2e.running import Running, running
from tests.e2e.sdk import open_http

pytestmark = pytest.mark.anyio

STATUS_1_0 = {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}
TASK_1_0 = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
TASK_0_3 = {"id": "t-1", "contextId": "c-1", "kind": "task", "status": {"state": "completed"}}
MESSAGE_1_0 = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
MESSAGE_0_3 = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]}
MESSAGE_0_1 = {"role": "user", "parts": [{"type": "text", "text": "Hello"}]}

Answer = Callable[[Received], bytes]


def plays(*turns: Answer) -> Script:
    """Answers request after request with what each turn makes of it; the last one is kept for all that follow."""

    async def script(wire: Wire) -> None:
        turn = 0
        while True:
            request = await wire.request()
            await wire.send(turns[min(turn, len(turns) - 1)](request))
            turn += 1

    return script


def document(body: Any, status: bytes = b"200 OK", kind: bytes = b"application/json") -> bytes:
    written = b"" if body is None else json.dumps(body).encode()
    return head(b"content-length: %d" % len(written), status=status, content_type=kind) + written


def result(tree: Any) -> Answer:
    return lambda request: document({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": tree})


def complaint(code: int, message: str = "no", data: Any = None, *, named: bool = True) -> Answer:
    def answer(request: Received) -> bytes:
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        identity = {"id": json.loads(request.body)["id"]} if named else {}
        return document({"jsonrpc": "2.0", **identity, "error": error})

    return answer


def plain(body: Any, status: bytes = b"200 OK") -> Answer:
    return lambda _: document(body, status)


def stream(*events: bytes, whole: bool = True) -> bytes:
    opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
    return opening + b"".join(chunk(event) for event in events) + (chunk(b"") if whole else b"")


def rpc_event(request: Received, tree: Any) -> bytes:
    return (
        b"data: "
        + json.dumps({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": tree}).encode()
        + b"\n\n"
    )


@asynccontextmanager
async def agent(
    script: Script, folder: Path, speaks: str, **settings: Any
) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    binding, _, version = speaks.partition(" ")
    async with running(script, folder, speaks=(binding, version), **settings) as gateway, open_http() as client:
        yield gateway, client


async def call(
    client: httpx.AsyncClient, gateway: Running, method: str, params: Any, identity: Any = 7
) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    answer = await client.post(gateway.url, json=body)
    assert answer.status_code == 200, answer.text
    found = dict(answer.json())
    assert found["id"] == identity
    return found


def events(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n") if line.startswith(b"data: ")]


# ---- Errors ----------------------------------------------------------------------------------------------------------

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


async def test_an_error_without_an_id_is_the_answer_to_the_call_all_the_same(tmp_path: Path) -> None:
    """a2a-sdk 0.3.26 drops the null id of errors (protocol trap 17a)."""
    async with agent(plays(complaint(-32602, named=False)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await call(client, gateway, "GetTask", {"id": "t-1"}, identity="a")
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["SendStreamingMessage", "message/stream"])
async def test_an_error_before_the_first_event_is_a_plain_answer(method: str, tmp_path: Path) -> None:
    script = plays(
        plain(
            {
                "error": {
                    "code": 400,
                    "status": "FAILED_PRECONDITION",
                    "message": "no",
                    "details": [
                        {
                            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                            "reason": "UNSUPPORTED_OPERATION",
                            "domain": "a2a-protocol.org",
                        }
                    ],
                }
            },
            b"400 Bad Request",
        )
    )
    message = MESSAGE_1_0 if method[0] == "S" else MESSAGE_0_3
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        answer = await call(client, gateway, method, {"message": message})
    assert answer["error"]["code"] == -32004


async def test_a_page_of_the_agents_is_no_answer_in_any_dialect(tmp_path: Path) -> None:
    def page(_: Received) -> bytes:
        return head(b"content-length: 6", status=b"500 Oops", content_type=b"text/html") + b"<html>"

    async with agent(plays(page), tmp_path, "rest 0.3") as (gateway, client):
        answer = await call(client, gateway, "GetTask", {"id": "t-1"})
    assert answer["error"]["code"] == -32006
    assert "html" not in json.dumps(answer)


async def test_an_agent_challenges_nobody_through_the_gateway(tmp_path: Path) -> None:
    """-32007 is AuthenticationRequired in 0.1, and what the agent does not accept is what the gateway showed."""
    async with agent(plays(complaint(-32007, "who are you")), tmp_path, "jsonrpc 0.1") as (gateway, client):
        answer = await call(client, gateway, "GetTask", {"id": "t-1"})
    assert answer["error"]["code"] == -32006


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}, "message.messageId"),
        ("SendMessage", {"message": {**MESSAGE_1_0, "parts": [{"text": 7}]}}, "message.parts[0].text"),
        ("message/send", {"message": {**MESSAGE_0_3, "parts": [{"kind": "text"}]}}, "message.parts[0].text"),
        ("message/send", {"message": {**MESSAGE_0_3, "role": "nobody"}}, "message.role"),
        ("tasks/send", {"id": "x", "message": {"role": "user", "parts": [{"text": "x"}]}}, "message.parts[0]"),
        ("GetTask", {"id": "t-1", "historyLength": "many"}, "historyLength"),
    ],
)
async def test_a_message_that_is_wrong_in_its_own_dialect_is_refused_with_its_field_and_goes_nowhere(
    method: str, params: Any, field: str, tmp_path: Path
) -> None:
    speaks = "rest 0.3" if method[0].isupper() else "rest 1.0"
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


# ---- Statuses, types, headers ----------------------------------------------------------------------------------------


async def test_a_deletion_that_answers_204_is_a_null_result(tmp_path: Path) -> None:
    script = plays(lambda _: head(status=b"204 No Content", content_type=b"application/json"))
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        modern = await call(client, gateway, "DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "c"})
        older = await call(
            client, gateway, "tasks/pushNotificationConfig/delete", {"id": "t", "pushNotificationConfigId": "c"}
        )
        path = await client.delete(gateway.url + "/v1/tasks/t/pushNotificationConfigs/c")
    assert modern["result"] is older["result"] is None
    assert (path.status_code, path.json()) == (200, {})


async def test_a_creation_that_answers_201_is_200_to_the_client(tmp_path: Path) -> None:
    config = {"taskId": "t", "id": "c", "url": "https://hooks.example.net/"}
    async with agent(plays(plain(config, b"201 Created")), tmp_path, "rest 1.0") as (gateway, client):
        body = {"config": {"pushNotificationConfig": {"url": "https://hooks.example.net/"}}}
        answer = await client.post(gateway.url + "/v1/tasks/t/pushNotificationConfigs", json=body)
    assert answer.status_code == 200
    assert answer.json()["name"] == "tasks/t/pushNotificationConfigs/c"


@pytest.mark.parametrize("speaks", ["rest 1.0", "rest 0.3"])
async def test_a_subscription_goes_by_the_other_verb_where_the_agent_does_not_know_the_first(
    speaks: str, tmp_path: Path
) -> None:
    """Texts name both POST and GET, and servers serve one of them (protocol trap 1)."""
    event = {"task": {**TASK_1_0, "status": {"state": "TASK_STATE_WORKING"}}}
    script = plays(
        lambda _: document({"detail": "Method Not Allowed"}, b"405 Method Not Allowed"),
        lambda _: stream(b"data: " + json.dumps(event).encode() + b"\n\n"),
    )
    async with agent(script, tmp_path, speaks) as (gateway, client):
        answer = await client.post(
            gateway.url, json={"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "t-1"}}
        )
        verbs = [request.method for request in gateway.backend.requests]
    assert sorted(verbs) == [b"GET", b"POST"]
    assert events(answer.content)[0]["result"]["task"]["id"] == "t-1"


async def test_extensions_are_named_as_each_side_calls_the_header(tmp_path: Path) -> None:
    def answer(request: Received) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": TASK_0_3}).encode()
        return head(b"content-length: %d" % len(body), b"x-a2a-extensions: https://e.example/a") + body

    async with agent(plays(answer), tmp_path, "jsonrpc 0.3") as (gateway, client):
        headers = {"a2a-version": "1.0", "a2a-extensions": "https://e.example/a, https://e.example/b"}
        said = await client.get(gateway.url + "/tasks/t-1", headers=headers)
        [request] = gateway.backend.requests
    assert request.header(b"x-a2a-extensions") == b"https://e.example/a, https://e.example/b"
    assert request.header(b"a2a-extensions") is None
    assert request.header(b"a2a-version") == b"0.3"
    assert said.headers["a2a-extensions"] == "https://e.example/a"
    assert "x-a2a-extensions" not in said.headers


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


async def test_numbers_keep_every_digit_on_the_way(tmp_path: Path) -> None:
    numbers = '{"big": 123456789012345678901234567890, "whole": 1.0, "small": 1e-7, "int": 3}'

    def answer(request: Received) -> bytes:
        task = json.dumps(TASK_0_3)[:-1] + ', "metadata": ' + numbers + "}"
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
            json.dumps(json.loads(request.body)["id"]).encode(),
            task.encode(),
        )
        return head(b"content-length: %d" % len(body)) + body

    async with agent(plays(answer), tmp_path, "jsonrpc 0.3") as (gateway, client):
        said = await client.get(gateway.url + "/tasks/t", headers={"a2a-version": "1.0"})
    assert b'"big":123456789012345678901234567890' in said.content
    assert b'"whole":1.0,' in said.content
    assert b'"int":3}' in said.content


async def test_an_answer_that_is_too_long_to_be_translated_is_refused(tmp_path: Path) -> None:
    task = {**TASK_0_3, "metadata": {"long": "x" * 5_000_000}}
    async with agent(plays(result(task)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await call(client, gateway, "GetTask", {"id": "t-1"})
    assert answer["error"]["code"] == -32006


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


async def test_the_last_status_is_told_also_where_the_stream_breaks_off_behind_it(tmp_path: Path) -> None:
    done = {**STATUS_1_0, "status": {"state": "TASK_STATE_COMPLETED"}}

    async def script(wire: Wire) -> None:
        request = await wire.request()
        await wire.send(stream(rpc_event(request, {"statusUpdate": done}), whole=False))

    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
    async with agent(script, tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.post(gateway.url, json=body)
    told, broken = events(answer.content)
    assert told["result"]["status"]["state"] == "completed"
    assert broken["error"]["code"] == -32603


@pytest.mark.parametrize("named", [b"", b"event: error\n"])
async def test_an_error_in_the_middle_of_a_stream_is_its_last_event(named: bytes, tmp_path: Path) -> None:
    def answer(request: Received) -> bytes:
        error = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": {"code": -32603, "message": "broken"}}
        return stream(
            rpc_event(request, {"statusUpdate": STATUS_1_0}), named + b"data: " + json.dumps(error).encode() + b"\n\n"
        )

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        older = await client.post(gateway.url, json=body)
        headers = {"a2a-version": "1.0"}
        path = await client.post(gateway.url + "/message:stream", json={"message": MESSAGE_1_0}, headers=headers)
    assert events(older.content)[1]["error"]["message"] == "broken"
    assert events(path.content)[1]["error"]["message"] == "broken"
    assert b"event: error\n" in path.content


async def test_where_the_dialect_has_no_event_for_an_error_the_stream_breaks_off(tmp_path: Path) -> None:
    def answer(request: Received) -> bytes:
        error = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": {"code": -32603, "message": "broken"}}
        return stream(
            rpc_event(request, {"statusUpdate": STATUS_1_0}), b"data: " + json.dumps(error).encode() + b"\n\n"
        )

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}}
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(gateway.url + "/v1/message:stream", json=body)


async def test_an_agent_that_answers_a_streaming_call_with_one_frame_has_one_event(tmp_path: Path) -> None:
    async with agent(plays(result({"task": TASK_1_0})), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        answer = await client.post(gateway.url, json=body)
    assert answer.headers["content-type"] == "text/event-stream"
    assert events(answer.content)[0]["result"]["kind"] == "task"


# ---- 0.1 -------------------------------------------------------------------------------------------------------------


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


async def test_objects_of_1_0_under_a_method_name_of_0_3_are_answered_in_1_0(tmp_path: Path) -> None:
    """Some runtimes speak so (protocol trap 14)."""
    for speaks, told in (("jsonrpc 1.0", {"task": TASK_1_0}), ("jsonrpc 0.3", TASK_0_3)):
        async with agent(plays(result(told)), tmp_path, speaks) as (gateway, client):
            answer = await call(client, gateway, "message/send", {"message": MESSAGE_1_0})
            [asked] = [json.loads(request.body) for request in gateway.backend.requests]
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert asked["method"] == ("SendMessage" if speaks == "jsonrpc 1.0" else "message/send")
