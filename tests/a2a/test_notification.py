"""Notifications: the bodies that agents post to webhooks, and those that clients of another generation get."""

import json
from typing import Any

import pytest

from gateway.a2a import notification
from gateway.a2a.dialect import Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.json import Tree
from tests.a2a.sample import vector
from tests.table import for_each

V0_1, V0_3, V1_0 = Version.V0_1, Version.V0_3, Version.V1_0
CASES: dict[str, dict[Version, Tree]] = {
    case["payload"]: {version: case[f"v{version}"]["body"] for version in Version if case.get(f"v{version}")}
    for case in vector("PushNotification")["cases"]
}
DEEP = (
    b'{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_002
)
SPOKEN = [(payload, version) for payload, bodies in CASES.items() for version in bodies]


def written(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def told(body: bytes | None) -> Any:
    assert body is not None
    return json.loads(body)


@for_each(
    ("body", "asked", "expected"),
    [
        ({"id": "t", "status": {"state": "working"}}, None, V0_3),
        ({"id": "t", "status": {"state": "working"}}, V0_1, V0_1),
        ({"id": "t", "status": {"state": "working"}}, V1_0, V0_3),
        ({"task": {"id": "t", "status": {"state": "working"}}}, V0_3, V1_0),
        ({"task": {"id": "t", "kind": "task", "status": {"state": "working"}}}, None, V0_3),
        ({"id": "t", "sessionId": "s", "status": {"state": "working"}}, V0_3, V0_1),
        ({"id": "t", "kind": 1}, V0_3, V0_3),
        ({"id": "t", "kind": 1}, None, V0_3),
    ],
)
def test_the_body_decides_and_what_the_agent_was_asked_in_where_it_does_not(
    body: Tree, asked: Version | None, expected: Version
) -> None:
    assert notification.generation(body, asked) is expected


@for_each("body", [b"", b"[]", b"null", b"{", b'"x"', b"{}", b'{"jsonrpc":"2.0"}', b"\xff", b"[" * 9999, DEEP])
def test_a_malformed_notification_tells_nothing(body: bytes) -> None:
    assert notification.read(body) is None


@for_each(("payload", "version"), SPOKEN)
def test_a_notification_of_the_client_s_own_generation_stays_the_bytes_it_came_as(
    payload: str, version: Version
) -> None:
    body = json.dumps(CASES[payload][version], indent=3).encode()
    assert notification.translate(body, version, task_id="task-7") is body


@for_each("theirs", [V0_3, V1_0])
def test_a_client_of_0_1_is_told_by_tasks(theirs: Version) -> None:
    assert told(notification.translate(written(CASES["task"][theirs]), V0_1)) == CASES["task"][V0_1]
    assert told(notification.translate(written(CASES["status_update"][theirs]), V0_1)) == {
        "id": "task-7",
        "sessionId": "ctx-42",
        "status": CASES["task"][V0_1]["status"],
    }
    answer = told(notification.translate(written(CASES["message"][theirs]), V0_1, task_id="task-7"))
    assert (answer["id"], answer["status"]["state"]) == ("task-7", "completed")
    assert answer["status"]["message"]["parts"][0]["text"] == "See parts."
    assert notification.translate(written(CASES["artifact_update"][theirs]), V0_1) is None


def test_a_bare_status_of_0_1_is_a_task_and_an_event_is_an_event() -> None:
    status = {"id": "t", "status": {"state": "working"}}
    assert "task" in told(notification.translate(written(status), V1_0, asked=V0_1))
    assert "statusUpdate" in told(notification.translate(written({**status, "final": False}), V1_0, asked=V0_1))
    artifact = {"id": "t", "artifact": {"index": 0, "parts": [{"type": "text", "text": "x"}]}}
    assert "artifactUpdate" in told(notification.translate(written(artifact), V1_0, asked=V0_1))


@for_each("payload", ["task", "status_update", "message"])
def test_a_client_of_0_1_reads_the_names_that_it_gave(payload: str) -> None:
    body = written(CASES[payload][V1_0])
    task = told(notification.translate(body, V0_1, task_id="task-7", name="mine", session="talk"))
    assert task["id"] == "mine"
    assert task["sessionId" if payload != "message" else "id"] in ("talk", "mine")
    assert "task-7" not in json.dumps(task)
    assert "ctx-42" not in json.dumps(task)


def test_a_notification_that_is_too_deep_is_refused() -> None:
    with pytest.raises(UpstreamProtocol):
        notification.translate(DEEP, V1_0)


def test_every_generation_has_its_content_type() -> None:
    assert set(notification.CONTENT_TYPES) == set(Version)
