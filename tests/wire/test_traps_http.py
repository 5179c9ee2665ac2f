"""Traps of paths, statuses, types and headers, through the whole gateway.

Left out here: the directory of agents (trap 38), which is the catalog's.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.scripted import Received, whole
from tests.support.translated import (
    MESSAGE_0_3,
    MESSAGE_1_0,
    STATUS_1_0,
    TASK_0_3,
    TASK_1_0,
    agent,
    call,
    complaint,
    document,
    events,
    plain,
    plays,
    result,
    rpc_event,
    stream,
)
from tests.table import for_each
from tests.translation.test_traps_dialect import CARD, HOOK, MODERN, described

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

DONE = {**STATUS_1_0, "status": {"state": "TASK_STATE_COMPLETED"}}


def card_at(path: str, binding: str = "JSONRPC", version: str = "1.0") -> dict[str, Any]:
    interface = {"url": "https://a.example" + path, "protocolBinding": binding, "protocolVersion": version}
    return {**CARD, "capabilities": {"extendedAgentCard": True}, "supportedInterfaces": [interface]}


# ---- Paths -----------------------------------------------------------------------------------------------------------


@for_each("slash", ["", "/"])
@for_each(("path", "verb"), [("/tasks/t-1", "GET"), ("/tasks/t-1:cancel", "POST"), ("/v1/tasks/t-1", "GET")])
async def test_a_client_may_end_a_path_with_a_slash(slash: str, path: str, verb: str, tmp_path: Path) -> None:
    """Trap 29: SDKs keep or add one, and servers know one of the two forms."""
    async with agent(plays(result(TASK_1_0)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.request(verb, gateway.url + path + slash)
        assert (answer.status_code, answer.json()["id"]) == (200, "t-1")
        assert gateway.backend.requests[0].target == b"/"


@for_each("slash", ["", "/"])
@for_each("speaks", ["jsonrpc 1.0", "rest 1.0"])
async def test_a_post_to_either_form_is_answered_and_not_redirected(slash: str, speaks: str, tmp_path: Path) -> None:
    """Trap 29: hardly any client follows a redirect of a POST."""
    script = plays(result(TASK_1_0) if speaks == "jsonrpc 1.0" else plain(TASK_1_0))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t-1"}}
        answer = await client.post(gateway.url + slash, json=body)
    assert (answer.status_code, answer.json()["result"]) == (200, TASK_1_0)


@for_each("id", ["a:b", "a:b:c", "t~1", "ä b", "cancel"])
async def test_an_id_may_hold_colons_and_what_else_a_path_can_carry(id: str, tmp_path: Path) -> None:  # noqa: A002 - A2A's word
    """Trap of §8.4: the verb stands behind the last colon, and langgraph's ids have some themselves."""
    async with agent(plays(result(TASK_1_0)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        await client.post(f"{gateway.url}/tasks/{quote(id)}:cancel", headers=MODERN)
        await client.post(f"{gateway.url}/tasks/{quote(id, safe=':')}:cancel", headers=MODERN)
        asked = [json.loads(request.body)["params"] for request in gateway.backend.requests]
    assert asked == [{"id": id}] * 2
    async with agent(plays(plain(TASK_1_0)), tmp_path, "rest 1.0") as (gateway, client):
        await call(client, gateway, "CancelTask", {"id": id})
        [request] = gateway.backend.requests
    assert request.target == b"/tasks/%b:cancel" % quote(id, safe=":~").encode()


@for_each("body", [None, b"", b"{}", b'{"id":"t-1"}', b'{"metadata":{"k":1}}'])
async def test_a_cancellation_may_have_a_body_or_none(body: bytes | None, tmp_path: Path) -> None:
    """Trap of §8.4: a2a-python repeats the id in it, and a2a-js has none."""
    async with agent(plays(result(TASK_1_0)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.post(gateway.url + "/tasks/t-1:cancel", content=body, headers=MODERN)
        [request] = gateway.backend.requests
    metadata = {"metadata": {"k": 1}} if body and b"metadata" in body else {}
    assert json.loads(request.body)["params"] == {"id": "t-1", **metadata}
    assert answer.json() == TASK_1_0


@for_each("path", ["/a2a", "/a2a/", "/", "/a2a/agents/x/"])
async def test_an_agent_is_asked_at_exactly_the_path_of_its_card(path: str, tmp_path: Path) -> None:
    """Trap 29: servers redirect the other form, and a redirect is no answer."""
    async with described(plays(result(TASK_1_0)), tmp_path, card_at(path)) as (gateway, client):
        await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        await call(client, gateway, "tasks/get", {"id": "t-1"})
        await call(client, gateway, "GetTask", {"id": "t-1"})
        targets = [request.target.decode() for request in gateway.backend.requests]
    assert targets == [path] * 3


@for_each("path", ["/a2a", "/a2a/"])
async def test_paths_below_an_interface_have_one_slash(path: str, tmp_path: Path) -> None:
    """Trap 29: SDKs strip the slash of an HTTP+JSON interface, so servers expect one and not two."""
    async with described(plays(plain(TASK_1_0)), tmp_path, card_at(path, "HTTP+JSON")) as (gateway, client):
        await call(client, gateway, "GetTask", {"id": "t-1"})
        [request] = gateway.backend.requests
    assert request.target == b"/a2a/tasks/t-1"


@for_each("path", ["/a2a/x", "/a2a/x/", "/"])
async def test_the_extended_card_of_0_2_stands_beside_the_interface(path: str, tmp_path: Path) -> None:
    """Trap 35: its path is resolved against the URL, so that the last segment goes."""
    script = plays(plain({**card_at("/"), "name": "extended"}))
    async with described(script, tmp_path, card_at(path, version="0.3")) as (gateway, client):
        answer = await client.get(gateway.url + "/agent/authenticatedExtendedCard")
        [request] = gateway.backend.requests
    above = path.rstrip("/").rpartition("/")[0]
    assert request.target.decode() == above + "/agent/authenticatedExtendedCard"
    assert answer.json()["name"] == "extended"


# ---- Statuses --------------------------------------------------------------------------------------------------------

GONE = b"HTTP/1.1 204 No Content\r\n\r\n"


@for_each(
    ("speaks", "raw"),
    [
        ("rest 1.0", GONE),
        ("rest 0.3", GONE),
        ("rest 1.0", whole(b"{}")),
        ("rest 0.3", whole(b"")),
        ("rest 1.0", whole(b"null")),
    ],
)
async def test_a_deletion_is_200_with_any_status_of_the_agent(speaks: str, raw: bytes, tmp_path: Path) -> None:
    """Trap 30: a2a-js and a2a-java say 204, at which the clients of a2a-python and a2a-go fail."""
    async with agent(plays(lambda _: raw), tmp_path, speaks) as (gateway, client):
        rpc = await call(client, gateway, "DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "c"})
        if speaks == "rest 1.0":
            path = await client.delete(gateway.url + "/v1/tasks/t/pushNotificationConfigs/c")
        else:
            path = await client.delete(gateway.url + "/tasks/t/pushNotificationConfigs/c", headers=MODERN)
    assert rpc["result"] is None
    assert (path.status_code, path.json()) == (200, {})
    assert path.headers["content-type"] == "application/json"


async def test_a_deletion_without_a_result_has_one_in_the_end(tmp_path: Path) -> None:
    """Trap 30 and §4.3: a2a-go leaves a null result out, which the client of a2a-python takes for no answer."""

    def answer(request: Received) -> bytes:
        return document({"jsonrpc": "2.0", "id": json.loads(request.body)["id"]})

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        params = {"id": "t", "pushNotificationConfigId": "c"}
        older = await call(client, gateway, "tasks/pushNotificationConfig/delete", params)
        path = await client.delete(gateway.url + "/tasks/t/pushNotificationConfigs/c", headers=MODERN)
    assert older == {"jsonrpc": "2.0", "id": 7, "result": None}
    assert (path.status_code, path.json()) == (200, {})


@for_each("status", [b"200 OK", b"201 Created", b"202 Accepted"])
async def test_creations_are_answered_with_200(status: bytes, tmp_path: Path) -> None:
    """Trap 30: a2a-js answers a creation, and in 0.3 a message, with 201, and a2a-go's client fails at it."""
    config = {"taskId": "t", "id": "c", "url": HOOK}
    async with agent(plays(plain(config, status)), tmp_path, "rest 1.0") as (gateway, client):
        rpc = await call(client, gateway, "CreateTaskPushNotificationConfig", config)
    assert rpc["result"] == config
    async with agent(plays(plain({"task": TASK_1_0}, status)), tmp_path, "rest 0.3") as (gateway, client):
        sent = await client.post(gateway.url + "/message:send", json={"message": MESSAGE_1_0}, headers=MODERN)
    assert (sent.status_code, sent.json()["task"]["id"]) == (200, "t-1")


async def test_a_relay_passes_the_statuses_of_the_agent(tmp_path: Path) -> None:
    """Trap 30: where both sides speak alike the client hears what it would hear without a gateway."""
    created = plain({"taskId": "t", "id": "c", "url": HOOK}, b"201 Created")
    async with agent(plays(created, lambda _: GONE), tmp_path, "rest 1.0") as (gateway, client):
        place = gateway.url + "/tasks/t/pushNotificationConfigs"
        made = await client.post(place, json={"id": "c", "url": HOOK}, headers=MODERN)
        gone = await client.delete(place + "/c", headers=MODERN)
    assert (made.status_code, gone.status_code, gone.content) == (201, 204, b"")


@for_each("speaks", ["jsonrpc 1.0", "jsonrpc 0.3"])
async def test_a_task_that_is_unknown_is_404_with_a_body(speaks: str, tmp_path: Path) -> None:
    """Trap 30: and its body is one of JSON in the words of the client's generation."""
    async with agent(plays(complaint(-32001, "no such task")), tmp_path, speaks) as (gateway, client):
        modern = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        older = await client.get(gateway.url + "/v1/tasks/t-1")
    for answer in (modern, older):
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
        assert answer.json()["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"
    assert (older.json()["code"], older.json()["type"]) == (-32001, "TaskNotFoundError")


# ---- Types -----------------------------------------------------------------------------------------------------------

TYPES = ["application/json", "application/json; charset=utf-8", "application/a2a+json", None]
TYPES += ["application/a2a+json; charset=utf-8", "Application/JSON;charset=UTF-8"]


@for_each("said", [kind for kind in TYPES[:-2] if kind])
@for_each("speaks", ["rest 1.0", "rest 0.3"])
async def test_an_answer_may_be_of_either_type_with_a_charset(said: str, speaks: str, tmp_path: Path) -> None:
    """Trap 31: servers of 1.0 differ on it as well."""
    async with agent(plays(lambda _: document(TASK_1_0, kind=said.encode())), tmp_path, speaks) as (gateway, client):
        answer = await call(client, gateway, "GetTask", {"id": "t-1"})
    assert answer["result"]["status"]["state"] == "TASK_STATE_COMPLETED"


@for_each("said", [b"text/event-stream", b"text/event-stream; charset=utf-8", b"Text/Event-Stream"])
async def test_a_stream_may_say_its_charset(said: bytes, tmp_path: Path) -> None:
    """Trap 31: a2a-python's does; a comparison of the whole text would miss it."""

    def answer(request: Received) -> bytes:
        return stream(rpc_event(request, {"statusUpdate": DONE})).replace(b"text/event-stream", said)

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        older = await client.post(gateway.url, json=body)
        relayed = await client.post(
            gateway.url, json={**body, "method": "SendStreamingMessage", "params": {"message": MESSAGE_1_0}}
        )
    for each in (older, relayed):
        assert each.headers["content-type"] == "text/event-stream"
        assert len(events(each.content)) == 1


@for_each("accept", [None, "*/*", "application/a2a+json", "text/html", "application/a2a+json, application/json"])
async def test_errors_are_of_the_type_that_every_client_parses(accept: str | None, tmp_path: Path) -> None:
    """Traps 32 and 33: the client of a2a-go reads an error only as application/json; and nothing is 406."""
    headers = MODERN if accept is None else {**MODERN, "accept": accept}
    async with agent(plays(complaint(-32001)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1", headers=headers)
        wrong = await client.get(gateway.url + "/tasks?pageSize=x", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
    assert (wrong.status_code, wrong.headers["content-type"]) == (400, "application/json")


# ---- Headers ---------------------------------------------------------------------------------------------------------


@for_each(
    ("speaks", "header", "other"),
    [
        ("jsonrpc 1.0", b"a2a-extensions", b"x-a2a-extensions"),
        ("rest 0.3", b"x-a2a-extensions", b"a2a-extensions"),
        ("jsonrpc 0.3", b"x-a2a-extensions", b"a2a-extensions"),
    ],
)
async def test_extensions_are_gathered_from_both_headers_and_named_once(
    speaks: str, header: bytes, other: bytes, tmp_path: Path
) -> None:
    """Trap 34: 1.0 renamed the header, and careful clients send both."""
    told = result(TASK_1_0) if speaks == "jsonrpc 1.0" else plain(TASK_1_0) if speaks[0] == "r" else result(TASK_0_3)
    headers = [
        ("a2a-version", "1.0"),
        ("a2a-extensions", "https://e.example/a, https://e.example/b"),
        ("x-a2a-extensions", "https://e.example/b,https://e.example/c"),
        ("a2a-extensions", "https://e.example/a"),
    ]
    async with agent(plays(told), tmp_path, speaks) as (gateway, client):
        await client.get(gateway.url + "/tasks/t-1", headers=headers)
        [request] = gateway.backend.requests
    assert request.header(header) == b"https://e.example/a, https://e.example/b, https://e.example/c"
    assert request.header(other) is None
    assert sum(name.lower() == header for name, _ in request.headers) == 1


async def test_activated_extensions_are_named_as_the_clients_generation_does(tmp_path: Path) -> None:
    """Trap 34, on the way back."""

    def answer(request: Received) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": TASK_1_0}).encode()
        fields = (b"x-a2a-extensions: https://e.example/a", b"a2a-extensions: https://e.example/a,https://e.example/b")
        return whole(body, *fields)

    async with agent(plays(answer), tmp_path, "jsonrpc 1.0") as (gateway, client):
        modern = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        older = await client.get(gateway.url + "/v1/tasks/t-1")
    assert modern.headers.get_list("a2a-extensions") == ["https://e.example/a, https://e.example/b"]
    assert older.headers.get_list("x-a2a-extensions") == ["https://e.example/a, https://e.example/b"]
    assert "x-a2a-extensions" not in modern.headers
    assert "a2a-extensions" not in older.headers


async def test_a_relay_passes_both_headers_as_they_are(tmp_path: Path) -> None:
    """Trap 34: where both sides speak alike each reads what it knows."""
    fields = (b"a2a-extensions: https://e.example/a", b"x-a2a-extensions: https://e.example/b")
    headers = {**MODERN, "a2a-extensions": "https://e.example/a,https://e.example/a", "x-a2a-extensions": "x:b"}
    script = plays(lambda _: whole(json.dumps(TASK_1_0).encode(), *fields))
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        answer = await client.get(gateway.url + "/tasks/t-1", headers=headers)
        [request] = gateway.backend.requests
    assert request.header(b"a2a-extensions") == b"https://e.example/a,https://e.example/a"
    assert request.header(b"x-a2a-extensions") == b"x:b"
    assert answer.headers["a2a-extensions"] == "https://e.example/a"
    assert answer.headers["x-a2a-extensions"] == "https://e.example/b"
