"""Whatever an SDK spells, the same thing is the same in normal form, and what is not the same is not."""

import base64

import pytest

from tests.conformance.normal import Tree, normal, reduced, same_error, without_quirks

BYTES = base64.b64encode(b"\x00\xff").decode()
PARTS = {
    "1.0": [{"text": "a"}, {"data": {"b": 1}}, {"raw": BYTES, "filename": "c", "mediaType": "x/y"}],
    "0.3": [
        {"kind": "text", "text": "a"},
        {"kind": "data", "data": {"b": 1}},
        {"kind": "file", "file": {"bytes": BYTES, "name": "c", "mimeType": "x/y"}},
    ],
    "0.1": [
        {"type": "text", "text": "a"},
        {"type": "data", "data": {"b": 1}},
        {"type": "file", "file": {"bytes": BYTES, "name": "c", "mimeType": "x/y"}},
    ],
}


def task(spelling: str, state: str = "completed", **more: object) -> Tree:
    """A task with an artifact of every kind of part."""
    spelled = f"TASK_STATE_{state.upper()}" if spelling == "1.0" else state
    context = {"sessionId" if spelling == "0.1" else "contextId": "context"}
    artifact = {"name": "made", "parts": PARTS[spelling]} | ({"index": 0} if spelling == "0.1" else {"artifactId": "x"})
    value = {"id": "task", **context, "status": {"state": spelled}, "artifacts": [artifact], **more}
    return {"spelling": spelling, "kind": "task", "value": value}


def final(*flags: bool | None) -> Tree:
    """What came of a stream of 0.3 whose events are final or not."""
    event = {"taskId": "task", "contextId": "context", "status": {"state": "working"}}
    items = [event if flag is None else {**event, "final": flag} for flag in flags]
    return normal("stream_task", {"items": [{"spelling": "0.3", "kind": "status", "value": each} for each in items]})


def test_a_task_is_the_same_in_every_generation() -> None:
    results = [normal("send_task", {"items": [task(spelling)]}) for spelling in PARTS]
    assert results[0] == results[1] == results[2]
    assert results[0]["events"][0]["task"]["artifacts"][0]["parts"] == [
        {"text": "a"},
        {"data": {"b": 1}},
        {"file": BYTES, "name": "c", "type": "x/y"},
    ]


def test_ids_do_not_show_but_how_many_there_were() -> None:
    other = task("1.0")
    other["value"]["id"] = "another"
    assert normal("turns", {"items": [task("1.0"), other]}) | {"events": None} == {
        "events": None,
        "tasks": 2,
        "contexts": 1,
    }


@pytest.mark.parametrize(
    ("failed", "name"),
    [
        ({"type": "TaskNotFoundError", "text": "", "code": -32001, "status": None}, "TaskNotFound"),
        ({"type": "TaskNotFoundError", "text": "", "code": None, "status": None}, "TaskNotFound"),
        (
            {"type": "Error", "text": "it said: no (Code: -32004) Data: {}", "code": None, "status": None},
            "UnsupportedOperation",
        ),
        ({"type": "A2AClientHTTPError", "text": "", "code": None, "status": 501}, "HTTP 501"),
        ({"type": "A2AClientError", "text": "", "code": None, "status": None, "grpc": "UNKNOWN"}, "gRPC UNKNOWN"),
        ({"type": "TaskNotFoundError", "text": "", "code": None, "status": None, "grpc": "NOT_FOUND"}, "TaskNotFound"),
        ({"type": "TypeError", "text": "", "code": None, "status": None}, "the SDK's own TypeError"),
    ],
)
def test_an_error_has_one_name_however_the_sdk_shows_it(failed: Tree, name: str) -> None:
    assert normal("error_get_unknown", {"failed": {"spelling": "1.0", **failed}}) == {"error": name}


def test_the_upper_codes_mean_something_else_in_0_1() -> None:
    failed = {"spelling": "0.1", "type": "Failed", "text": "", "code": -32009, "status": None}
    assert normal("error_send_to_completed", {"failed": failed}) == {"error": "InvalidTaskState"}


def test_only_the_last_event_of_a_stream_is_final() -> None:
    assert "ending" not in final(None, False, True)
    assert final(None, None)["ending"] == "no final event"
    assert final(True, True)["ending"] == "a final event that was not the last"


def test_0_1_cannot_tell_a_message_from_a_task() -> None:
    message = {"events": [{"message": {"role": "agent", "parts": [{"text": "a"}]}}], "tasks": 0, "contexts": 0}
    dressed = {"events": [{"task": {"state": "completed", "said": [{"text": "a"}]}}], "tasks": 1, "contexts": 1}
    assert reduced("send_message", message, "0.3") == message
    told = [reduced("send_message", each, "0.1")["events"][0]["task"] for each in (message, dressed)]
    assert [(each["state"], each["said"]) for each in told] == [("completed", [{"text": "a"}])] * 2


def test_0_1_has_no_task_in_a_stream() -> None:
    begun = {"task": {"state": "submitted", "history": [["user", {"text": "a"}]]}}
    ended = {"status": {"state": "rejected", "said": [{"text": "no"}]}}
    assert reduced("stream_task", {"events": [begun, ended]}, "0.1") == {
        "events": [{"status": {"state": "failed", "said": [{"text": "no"}]}}]
    }


def test_a_status_of_0_3_stands_for_its_errors() -> None:
    assert same_error("HTTP 409", "TaskNotCancelable", "0.3")
    assert same_error("TaskNotFound", "HTTP 404", "0.3")
    assert not same_error("HTTP 404", "TaskNotCancelable", "0.3")


def test_a_status_of_grpc_stands_for_its_errors_to_clients_of_0_3_alone() -> None:
    assert same_error("gRPC NOT_FOUND", "TaskNotFound", "0.3")
    assert same_error("TaskNotCancelable", "gRPC UNIMPLEMENTED", "0.3")
    assert not same_error("gRPC NOT_FOUND", "TaskNotCancelable", "0.3")
    assert not same_error("gRPC NOT_FOUND", "TaskNotFound", "1.0")


def test_base64_of_base64_is_found() -> None:
    twice = base64.b64encode(BYTES.encode()).decode()
    once = {"file": BYTES, "name": None}
    assert without_quirks({"file": twice}) == without_quirks({"file": BYTES, "name": "a"}) == once
