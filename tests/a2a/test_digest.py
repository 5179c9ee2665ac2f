"""What is known of an answer while it is read: never less than its ids, and never another's task."""

import json
from typing import Any

import pytest

from gateway.a2a.digest import ANSWER, ENVELOPE, Opened, meaning
from gateway.a2a.progress import Progress, read_bare


def opened(tree: dict[str, Any], *, ended: bool = True) -> Opened:
    """An answer of which all of these members were read, and those of objects in their turn."""
    found = Opened(ANSWER)
    for name, value in tree.items():
        inner = isinstance(value, dict)
        found.members[name.encode()] = opened(value, ended=ended) if inner else json.dumps(value).encode()
    found.ended = ended
    return found


TASK = {"id": "t", "contextId": "c", "status": {"state": "working"}}


@pytest.mark.parametrize(
    "tree",
    [
        {}, TASK, {"task": TASK}, {**TASK, "kind": "task"}, {"kind": "message", "taskId": "t", "contextId": "c"},
        {"statusUpdate": {"taskId": "t", "status": {}}}, {"id": "x", "taskId": "t"}, {"id": "x"}, {"id": 7},
        {"task": 1}, {"artifact": 1, "id": "t", "status": None}, {"kind": "artifact-update", "taskId": "t"},
        {"message": None}, {"status_update": {"task_id": "t", "context_id": "c", "status": {"state": 3}}},
        {"artifact_update": {"task_id": "t"}}, {"name": "tasks/t/pushNotificationConfigs/c"},
        {"message": {"task_id": "t"}},
    ],
)  # fmt: skip
def test_all_of_an_answer_means_what_the_answer_means(tree: dict[str, Any]) -> None:
    assert meaning(opened(tree)) == read_bare(json.dumps(tree).encode())


def test_of_a_message_that_is_wrapped_its_ids_are_told() -> None:
    message = opened({"message": {"contextId": "c", "taskId": "t"}})
    assert meaning(message) == Progress(task_id="t", context_id="c", event="message")
    assert meaning(opened({"message": {"contextId": 1}})) == Progress(event="message", legible=False)


def test_an_id_is_a_tasks_as_long_as_nothing_says_otherwise() -> None:
    assert meaning(opened({"id": "t"}, ended=False)) == Progress(task_id="t", event="task")
    assert meaning(opened({"id": "t"})) == Progress()
    assert meaning(opened({"id": "x", "kind": "message"}, ended=False)) == Progress(event="message")


@pytest.mark.parametrize("name", ["taskId", "task_id"])
def test_a_task_id_is_told_at_once(name: str) -> None:
    beside: list[dict[str, Any]] = [
        {}, {"contextId": "c"}, {"kind": "status-update"}, {"status": {}}, {"artifact": 1}, {"kind": "message"},
        {"id": "x"},
    ]  # fmt: skip
    for members in beside:
        for ended in (True, False):
            told = meaning(opened({name: "t", **members}, ended=ended))
            assert told is not None
            assert (told.task_id, told.legible) == ("t", True)


def test_whose_the_configurations_of_a_list_are_is_not_told() -> None:
    members = opened({})
    members.members[b"configs"] = b"[]"
    assert meaning(members) == Progress(legible=False)


def test_what_is_no_json_tells_nothing() -> None:
    broken = Opened(ANSWER)
    broken.members[b"id"] = b'"\\x"'
    assert meaning(broken) is None
    assert meaning(opened({"message": {}})) is not None
    inner = opened({"message": {}})
    message = inner.members[b"message"]
    assert isinstance(message, Opened)
    message.members[b"contextId"] = b'"\xff"'
    assert meaning(inner) is None


def test_what_is_read_is_what_decides() -> None:
    assert all(map(ENVELOPE.reads, (b"jsonrpc", b"id", b"result", b"error")))
    assert all(map(ANSWER.reads, (b"id", b"status", b"artifact")))
    assert not ANSWER.reads(b"artifacts")
    assert not ANSWER.opened[b"task"].reads(b"task")
