"""Ids in messages nested within a frame."""

import json
from typing import Any

import msgspec
import pytest

from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.nested_ids import (
    LONGEST_ERROR,
    MOST_NESTED_CONTEXTS,
    MOST_NESTED_TASKS,
    Ambiguous,
    NestedIds,
    nested_ids,
    nested_in_body,
    nested_in_details,
    nested_in_error,
    nested_in_tree,
)
from gateway.a2a.progress import read_bare
from tests.table import for_each

WORKING = {"state": "TASK_STATE_WORKING"}


def said(**members: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "of T and its context"}], **members}


def told(frame: Any) -> NestedIds | None:
    """Return the nested ids of a frame over HTTP+JSON, after checking that JSON-RPC gives the same."""
    body = json.dumps(frame).encode()
    bare, wrapped = read_bare(body), read_progress(b'{"jsonrpc":"2.0","id":1,"result":%b}' % body)
    assert bare is not None
    assert wrapped is not None
    assert bare.others == wrapped.others
    return bare.others


def of_task(*history: Any, message: Any = None, **members: Any) -> dict[str, Any]:
    status = WORKING if message is None else {**WORKING, "message": message}
    return {"id": "t", "contextId": "c", "status": status, "history": list(history), **members}


OWN = said(taskId="t", contextId="c", referenceTaskIds=["t"])
FRAMES: dict[str, Any] = {
    "in 1.0": lambda task: {"task": task},
    "bare, as in 0.3": lambda task: {**task, "kind": "task"},
    "with a member that is none": lambda task: {"task": task, "statusUpdate": "none"},
}
every_frame = pytest.mark.parametrize("frame", FRAMES)


@every_frame
@pytest.mark.parametrize(
    "task",
    [
        of_task(),
        of_task(OWN, OWN, message=OWN),
        of_task(said(taskId="", contextId=None)),
        of_task(said(taskId=5, contextId=["d"], referenceTaskIds="x"), message="none"),
        of_task(said(metadata={"taskId": "x"}, parts=[{"data": {"taskId": "x"}}])),
        {**of_task(), "history": "none"},
    ],
    ids=["nothing", "its own", "empty", "no ids", "free words", "no history"],
)
def test_the_frames_own_ids_and_malformed_ids_are_not_nested_ids(frame: str, task: Any) -> None:
    assert told(FRAMES[frame](task)) is None


@every_frame
@pytest.mark.parametrize(
    ("task", "tasks", "contexts"),
    [
        (of_task(OWN, said(taskId="x"), said(taskId="x", contextId="d")), ("x",), ("d",)),
        (of_task(said(task_id="x", context_id="d")), ("x",), ("d",)),
        (of_task(said(taskId="t", TaskId="x", ContextId="d", ReferenceTaskIds=["y"])), ("x", "y"), ("d",)),
        (of_task(said(taskId=5, TaskId="x", ReferenceTaskIds=["y", 5])), ("x", "y"), ()),
        (of_task(said(referenceTaskIds=["t", "x", "y"])), ("x", "y"), ()),
        (of_task(said(reference_task_ids=["x"], referenceTaskIds=["y"])), ("y", "x"), ()),
        (of_task(OWN, message=said(taskId="t", contextId="d")), (), ("d",)),
        (of_task(said(taskId=5), said(taskId="x"), said(referenceTaskIds=["y", 5])), ("x", "y"), ()),
        (of_task(message={"taskId": "x", "contextId": 5}), ("x",), ()),
    ],
    ids=[
        "a task",
        "as its schema has it",
        "capitals",
        "capitals beside no id",
        "a reference",
        "both",
        "in its status",
        "beside no ids",
        "no context",
    ],
)
def test_other_ids_in_messages_are_nested_ids(
    frame: str, task: Any, tasks: tuple[str, ...], contexts: tuple[str, ...]
) -> None:
    assert told(FRAMES[frame](task)) == NestedIds(tasks, contexts)


def test_news_of_a_status_has_a_message_and_a_message_has_references() -> None:
    news = {"taskId": "t", "contextId": "c", "status": {**WORKING, "message": said(taskId="x")}}
    assert told({"statusUpdate": news}) == told({**news, "kind": "status-update"}) == NestedIds(("x",), ())
    mine = said(taskId="t", contextId="c", referenceTaskIds=["x", "t"])
    assert told({"message": mine}) == told({**mine, "kind": "message"}) == NestedIds(("x",), ())
    assert told({"message": said(taskId="t", referenceTaskIds=[])}) is None
    # Two at once: each client reads another one.
    assert told({"task": of_task(said(taskId="x")), "message": mine}) == NestedIds(("x",), ())


def test_more_than_anybody_can_look_at_is_a_crowd() -> None:
    many = told({"task": of_task(said(referenceTaskIds=[f"x{number}" for number in range(MOST_NESTED_TASKS + 1)]))})
    assert many is not None
    assert (len(many.tasks), many.crowded) == (MOST_NESTED_TASKS, True)
    contexts = told({"task": of_task(*(said(contextId=f"d{number}") for number in range(MOST_NESTED_CONTEXTS + 1)))})
    assert contexts is not None
    assert (len(contexts.contexts), contexts.crowded) == (MOST_NESTED_CONTEXTS, True)


def test_nested_ids_are_found_in_a_task_of_the_hub() -> None:
    assert nested_in_tree(of_task(OWN, message=OWN)) is None
    assert nested_in_tree({"id": "t"}) is None
    found = nested_in_tree(of_task(said(taskId="x"), 5, message=said(contextId="d", referenceTaskIds=["y", 5])))
    assert found == NestedIds(("x", "y"), ("d",))
    assert nested_in_tree({"id": "t", "history": "none", "status": []}) is None


# ---- Errors ----------------------------------------------------------------------------------------------------------


def test_the_details_of_an_error_have_places_for_ids() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "metadata": {"taskId": "x", "context_id": "d"}}
    assert nested_in_details([info, 5, {"metadata": 5}]) == NestedIds(("x",), ("d",))
    assert nested_in_details([{"metadata": {"note": "task x"}}]) is None
    error = {"code": -32001, "message": "no task x", "data": [info]}
    found = read_progress(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode())
    assert found is not None
    assert (
        found.others == nested_in_body(json.dumps({"error": {"details": [info]}}).encode()) == NestedIds(("x",), ("d",))
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"data": {"a": [{"b": {"taskId": "x"}}]}}, NestedIds(("x",))),
        ({"data": {"context_id": "d", "sessionId": "e"}}, NestedIds((), ("d", "e"))),
        ({"data": {"TaskID": "x", "reference_task_ids": ["y", 5]}}, NestedIds(("x", "y"))),
        ({"data": {"task": {"id": "x", "status": {"state": "failed"}, "history": [{"taskId": "y"}]}}},
         NestedIds(("x", "y"))),
        ({"data": {"id": "x", "contextId": "d"}}, NestedIds(("x",), ("d",))),
        ({"data": {"id": "of a request", "note": "x"}}, None),
        ({"data": [[[["taskId", "x"]]]]}, None),
        ({"data": None, "taskId": "x"}, NestedIds(("x",))),
        ({"details": [], "context": {"task_id": "x"}}, NestedIds(("x",))),
        ({"data": {"contextId": 5, "taskId": ["x"]}}, None),
        ({"data": {"note": "n" * LONGEST_ERROR}}, NestedIds(crowded=True)),
    ],
    ids=lambda each: str(each)[:60],
)  # fmt: skip
def test_free_members_of_an_error_are_searched(error: Any, expected: NestedIds | None) -> None:
    error = {"code": -32603, "message": "no", **error}
    found = read_progress(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode())
    assert found is not None
    assert found.others == expected
    assert nested_in_body(json.dumps({"error": error}).encode()) == expected


def test_an_error_that_nests_without_end_is_a_crowd() -> None:
    assert nested_in_error(b'{"a":' * 20_000 + b"1" + b"}" * 20_000) == NestedIds(crowded=True)


def test_an_error_with_a_member_twice_is_ambiguous() -> None:
    for raw in (b'{"data":{"x":[{"taskId":"t","taskId":"u"}]}}', b'{"taskId":"t","t\\u0061skId":"u"}'):
        with pytest.raises(Ambiguous):
            nested_in_error(raw)


@for_each("data", [b"", b"{", b"5", b'"x"', b"[[]]", b'{"taskId":5}', b'{"taskId":"\\ud800x"}'])
def test_other_members_of_an_error_name_nothing(data: bytes) -> None:
    assert nested_in_error(msgspec.Raw(data)) is None
    assert nested_in_body(data) is None


def test_a_message_of_any_bytes_is_read_or_names_nothing() -> None:
    for raw in (b"5", b'"x"', b"[5]", b"[[]]", b"null", b"true"):
        assert nested_ids((msgspec.Raw(raw), msgspec.Raw(raw)), (msgspec.Raw(raw),), None, None) is None
