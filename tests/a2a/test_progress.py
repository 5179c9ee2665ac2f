"""What frames tell."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.progress import NOTHING, STATES, Progress, answers, read_bare, read_jsonrpc
from tests.a2a.sample import CONTEXT, TASK, VECTORS, vector

TASK_1_0 = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}


def rpc(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


@pytest.mark.parametrize(
    ("frame", "event", "state"),
    [
        ({"task": TASK_1_0}, "task", "working"),
        (TASK_1_0, "task", "working"),
        ({**TASK_1_0, "kind": "task", "status": {"state": "input-required"}}, "task", "input-required"),
        ({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}}}, "status",
         "canceled"),
        ({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELLED"}}}, "status",
         "canceled"),
        ({"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "failed"}}, "status", "failed"),
        ({"id": "t", "sessionId": "c", "status": {"state": "unknown"}}, "task", "unknown"),
        ({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"parts": []}}}, "artifact", None),
        ({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": {}}, "artifact", None),
        ({"id": "t", "contextId": "c", "artifact": {"index": 0}}, "artifact", None),
        ({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_NEW"}}}, "task", "unknown"),
        ({"task": {"id": "t", "contextId": "c", "status": None}}, "task", None),
    ],
)  # fmt: skip
def test_a_frame_of_any_generation_is_understood(frame: dict[str, Any], event: str, state: str | None) -> None:
    expected = Progress(task_id="t", context_id="c", event=event, state=state)
    assert read_bare(json.dumps(frame).encode()) == expected
    assert read_jsonrpc(rpc(frame)) == Progress(b"1", "t", "c", state, event)


@pytest.mark.parametrize("frame", [{"message": {"messageId": "m"}}, {"kind": "message", "messageId": "m"}])
def test_a_message_is_known_as_one(frame: object) -> None:
    assert read_bare(json.dumps(frame).encode()).event == "message"


@pytest.mark.parametrize(
    "path", sorted(VECTORS.glob("*Task*.json")) + sorted(VECTORS.glob("Send*.json")), ids=lambda p: p.stem
)
def test_the_answers_and_events_of_the_vectors_name_their_task(path: Any) -> None:
    tree = vector(path.stem)
    frames = [
        (dialect, answer["http"]["body"]) for dialect, answer in tree.get("response", {}).items() if "http" in answer
    ]
    frames += [
        (dialect, frame) for event in tree.get("events", []) for dialect, frame in event.items() if "rest" in dialect
    ]
    for dialect, frame in frames:
        body = json.dumps(frame).encode()
        told = read_jsonrpc(body) if "jsonrpc" in dialect else read_bare(body)
        assert told is not None
        assert told.task_id in (TASK, None)
        assert told.context_id in (CONTEXT, None)
        assert told.state in (*STATES, None)
        if told.event in ("task", "status"):
            assert (told.task_id, told.state is not None) == (TASK, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [({"code": -32001, "message": "x"}, -32001), ({}, 0), ("boom", 0), ({"code": "x"}, 0), ({"code": 1.5}, 0), ([], 0)],
)
def test_an_error_is_one_whatever_it_is_made_of(error: object, code: int) -> None:
    told = read_jsonrpc(json.dumps({"id": "a", "error": error}).encode())
    assert told == Progress(id=b'"a"', event="error", error=code)


def test_a_null_error_beside_a_result_is_none() -> None:
    told = read_jsonrpc(b'{"id":1,"error":null,"result":{"task":{"id":"t"}}}')
    assert told == Progress(id=b"1", task_id="t", event="task")


@pytest.mark.parametrize(
    "frame", [b"", b"[]", b"null", b"1", b"x", b"\xff", b'{"id":1', b"\xef\xbb\xbf{}", b"[" * 100_000]
)
def test_what_is_no_object_is_no_answer_and_tells_nothing(frame: bytes) -> None:
    assert read_jsonrpc(frame) is None
    assert read_bare(frame) == NOTHING


@pytest.mark.parametrize("result", ["null", "[]", "1", '{"task":1}', '{"status":[]}', '{"id":{}}', "[[[[]]]]"])
def test_a_result_of_another_shape_is_an_answer_all_the_same(result: str) -> None:
    assert read_jsonrpc(f'{{"id":7,"result":{result}}}'.encode()) == Progress(id=b"7")
    assert read_jsonrpc(b'{"id":7}') == Progress(id=b"7")


@given(st.binary(max_size=60))
def test_no_frame_does_more_than_tell_nothing(frame: bytes) -> None:
    read_jsonrpc(frame)
    read_bare(frame)


BIG = b"9" * 400


@pytest.mark.parametrize(
    ("frame", "call"),
    [
        (b"1", b"1"), (b'"a"', b'"a"'), (b'"a"', b'"\\u0061"'), (b"", b"1"), (b"null", b'"a"'), (b"1.0", b"1"),
        (b"0", b"-0"), (b"9007199254740992", b"9007199254740993"), (b"9.007199254740992e15", b"9007199254740993"),
        (b"1" + b"0" * 400, BIG), (BIG, BIG), (b"null", b"0"), (b"null", b'""'),
    ],
)  # fmt: skip
def test_an_answer_is_known_by_its_id_as_servers_change_it(frame: bytes, call: bytes) -> None:
    assert answers(frame, call)


@pytest.mark.parametrize(
    ("frame", "call"),
    [
        (b"2", b"1"), (b'"1"', b"1"), (b"1", b'"1"'), (b"true", b"1"), (b"false", b"0"), (b"[]", b"1"), (b"{}", b'"a"'),
        (b'"b"', b'"a"'), (b"1.5", b"1"), (BIG, b"1"), (b"-" + BIG, BIG), (b"1e400", b"1"), (b"x", b"1"), (b"1", BIG),
        (b'"A"', b'"a"'), (b"9007199254740990", b"9007199254740993"),
    ],
)  # fmt: skip
def test_an_answer_to_another_call_is_known_too(frame: bytes, call: bytes) -> None:
    assert not answers(frame, call)


@given(st.text(st.characters(codec="utf-8"), max_size=8) | st.integers(), st.binary(max_size=12))
def test_every_id_answers_itself_and_no_bytes_break_the_comparison(identity: object, other: bytes) -> None:
    written, escaped = json.dumps(identity, ensure_ascii=False).encode(), json.dumps(identity).encode()
    assert answers(written, escaped)
    assert answers(escaped, written)
    answers(other, written)
