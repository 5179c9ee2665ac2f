"""What agents post to webhooks, and what clients of another generation are told."""

import json
from typing import Any

import pytest

from gateway.a2a import notification
from gateway.a2a.dialect import Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.progress import Progress
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


@for_each(("payload", "version"), SPOKEN)
def test_what_an_agent_posts_tells_its_task_and_its_generation(payload: str, version: Version) -> None:
    body = written(CASES[payload][version])
    found = notification.read(body)
    assert found is not None
    assert (found.task_id, found.context_id) == ("task-7", "ctx-42")
    assert found.state == ("completed" if payload in ("task", "status_update") else None)
    assert notification.generation(CASES[payload][version]) is version


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
def test_what_is_no_notification_tells_nothing(body: bytes) -> None:
    assert notification.read(body) is None


def test_a_message_tells_the_task_that_it_is_of() -> None:
    bare = {"kind": "message", "messageId": "m", "taskId": "t", "role": "agent", "parts": []}
    assert notification.read(written(bare)) == Progress(task_id="t", event="message")
    assert notification.read(b'{"message":{"messageId":"m"}}') == Progress(event="message")
    assert notification.read(b'{"message":{"kind":1,"task_id":"t"}}') == Progress(task_id="t", event="message")


def test_one_that_may_be_anothers_is_none() -> None:
    assert notification.read(b'{"message":{"taskId":1}}') is None
    assert notification.read(b'{"task":{"id":["t"],"status":{"state":"TASK_STATE_WORKING"}}}') is None


@for_each(
    ("body", "event"),
    [
        ({"task": {"id": "t", "status": {"state": 3}}}, "task"),
        ({"status_update": {"task_id": "t", "status": {"state": 3}}}, "status"),
    ],
)
def test_enumerations_and_names_may_be_those_of_the_schema(body: Tree, event: str) -> None:
    assert notification.read(written(body)) == Progress(task_id="t", state="completed", event=event)
    assert notification.generation(body) is V1_0
    lowered = told(notification.translate(written(body), V0_3, task_id="t"))
    assert lowered["status"]["state"] == "completed"


@for_each(("payload", "version"), SPOKEN)
def test_a_notification_of_the_client_s_own_generation_stays_the_bytes_it_came_as(
    payload: str, version: Version
) -> None:
    body = json.dumps(CASES[payload][version], indent=3).encode()
    assert notification.translate(body, version, task_id="task-7") is body


@for_each("payload", CASES)
@for_each(("theirs", "ours"), [(V1_0, V0_3), (V0_3, V1_0)])
def test_1_0_and_0_3_say_the_same_in_the_words_of_each(payload: str, theirs: Version, ours: Version) -> None:
    bodies = CASES[payload]
    assert told(notification.translate(written(bodies[theirs]), ours)) == bodies[ours]


def test_a_task_of_0_1_is_one_of_every_later_generation() -> None:
    body = written(CASES["task"][V0_1])
    wrapped = told(notification.translate(body, V1_0))
    assert list(wrapped) == ["task"]
    for task in (wrapped["task"], told(notification.translate(body, V0_3))):
        assert (task["id"], task["contextId"]) == ("task-7", "ctx-42")
        assert task["artifacts"][0]["artifactId"] == "0"
        assert task["artifacts"][0]["parts"][0]["text"] == "3 x A-1, paid."


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


def test_numbers_keep_their_digits() -> None:
    body = b'{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"metadata":{"n":1.10}}}'
    lowered = notification.translate(body, V0_3)
    assert lowered is not None
    assert b'"n":1.10' in lowered


@for_each(
    "body",
    [
        b'{"task":{"id":"t"}}',
        b'{"task":{"id":"t","status":{"state":"TASK_STATE_NO"}}}',
        b'{"statusUpdate":{"taskId":"t"}}',
    ],
)
def test_what_is_not_of_its_generation_is_refused(body: bytes) -> None:
    with pytest.raises(UpstreamProtocol):
        notification.translate(body, V0_3)


def test_what_nobody_could_read_before_is_refused_too() -> None:
    with pytest.raises(UpstreamProtocol):
        notification.translate(DEEP, V1_0)


def test_every_generation_has_its_content_type() -> None:
    assert set(notification.CONTENT_TYPES) == set(Version)
