"""The sample agents on the wire: envelopes, errors, versions and cards, as one could send them with curl."""

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from gateway.demo.fleet import serving
from tests.table import for_each

SAY = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
OLD = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with serving(pace=0.01) as url, httpx.Client(base_url=url, trust_env=False, verify=False) as client:
        yield client


def rpc(http: httpx.Client, agent: str, method: str, params: object, **headers: str) -> httpx.Response:
    frame = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return http.post(f"/{agent}", json=frame, headers=headers)


def events(answer: httpx.Response) -> list[dict[str, object]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [msgspec.json.decode(block.split("data: ", 1)[1]) for block in answer.text.split("\n\n") if block]


@for_each("name", ["agent-card.json", "agent.json"])
def test_the_card_is_at_both_well_known_names(http: httpx.Client, name: str) -> None:
    for agent in ("echo", "clock", "travel", "flaky"):
        card = http.get(f"/{agent}/.well-known/{name}").json()
        assert card["url"] == f"{str(http.base_url).rstrip('/')}/{agent}"
        assert http.head(f"/{agent}/.well-known/{name}").status_code == 200


@for_each(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]', -32600),
        (b'{"id":1,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"GetTask"}', -32600),
    ],
)
def test_what_is_no_request_is_refused_without_an_id(http: httpx.Client, body: bytes, code: int) -> None:
    answer = http.post("/echo", content=body)
    assert answer.status_code == 200
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, code)


@for_each(
    ("method", "params", "code"),
    [
        ("Nothing", {}, -32601),
        (None, {}, -32601),
        ("GetTask", [], -32602),
        ("SendMessage", {}, -32602),
        ("GetTask", {"id": "nothing"}, -32001),
        ("CancelTask", {"id": "nothing"}, -32001),
        ("SubscribeToTask", {"id": "nothing"}, -32001),
        ("CreateTaskPushNotificationConfig", {}, -32003),
        ("GetExtendedAgentCard", {}, -32007),
        ("tasks/get", {"id": "nothing"}, -32001),
        ("tasks/pushNotificationConfig/set", {}, -32003),
    ],
)
def test_errors_carry_their_code_and_the_id(http: httpx.Client, method: str, params: object, code: int) -> None:
    answer = rpc(http, "echo", method, params)
    assert answer.status_code == 200
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (7, code)
    assert answer.json()["error"]["data"][0]["domain"] == "a2a-protocol.org"


@for_each(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/echo/tasks/nothing", 404, "TASK_NOT_FOUND"),
        ("GET", "/echo/acme/tasks/nothing", 404, "TASK_NOT_FOUND"),
        ("POST", "/echo/tasks/a:b:cancel", 404, "TASK_NOT_FOUND"),
        ("GET", "/echo/tasks/nothing:subscribe", 404, "TASK_NOT_FOUND"),
        ("POST", "/echo/message:send", 400, "INVALID_PARAMS"),
        ("GET", "/echo/tasks?pageSize=1000", 400, "INVALID_PARAMS"),
        ("GET", "/echo/tasks/t/pushNotificationConfigs", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("DELETE", "/echo/tasks/t/pushNotificationConfigs/p", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("GET", "/echo/extendedAgentCard", 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
        ("GET", "/echo/nothing/at/all", 404, "METHOD_NOT_FOUND"),
        ("GET", "/echo", 404, "METHOD_NOT_FOUND"),
    ],
)
def test_http_json_errors_are_a_status_with_details(
    http: httpx.Client, method: str, path: str, status: int, reason: str
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status == answer.json()["error"]["code"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["details"][0]["reason"] == reason


def test_the_version_is_1_x_or_unsaid(http: httpx.Client) -> None:
    for version in ("1.0", "1.7", ""):
        assert "result" in rpc(http, "echo", "SendMessage", SAY, **{"A2A-Version": version}).json()
    for version in ("0.3", "2.0", "x"):
        error = rpc(http, "echo", "SendMessage", SAY, **{"A2A-Version": version}).json()["error"]
        assert error["code"] == -32009
    assert http.get("/echo/tasks?A2A-Version=2.0").json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


def test_http_json_answers_are_bare(http: httpx.Client) -> None:
    answer = http.post("/echo/message:send", json=SAY)
    assert answer.headers["content-type"] == "application/a2a+json"
    assert answer.json()["message"]["parts"] == [{"text": "hi"}]
    listed = http.get("/travel/tasks?pageSize=1&includeArtifacts=true").json()
    assert listed["pageSize"] == 1


def test_streams_are_server_sent_events(http: httpx.Client) -> None:
    [*_, last] = events(http.post("/clock/message:stream", json=SAY))
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"  # type: ignore[index]  # JSON
    framed = events(rpc(http, "clock", "SendStreamingMessage", SAY))
    assert {(event["jsonrpc"], event["id"]) for event in framed} == {("2.0", 7)}
    assert len(framed) == 13


def test_0_3_clients_are_answered_in_the_old_spelling(http: httpx.Client) -> None:
    assert rpc(http, "echo", "message/send", OLD).json()["result"]["kind"] == "message"
    streamed = [event["result"] for event in events(rpc(http, "clock", "message/stream", OLD))]
    kinds = [event["kind"] for event in streamed]  # type: ignore[index]  # JSON
    assert kinds == ["task", "status-update", *["artifact-update"] * 10, "status-update"]
    assert streamed[-1]["final"] is True  # type: ignore[index]  # JSON
    task_id = streamed[0]["id"]  # type: ignore[index]  # JSON
    assert rpc(http, "clock", "tasks/get", {"id": task_id}).json()["result"]["status"]["state"] == "completed"
