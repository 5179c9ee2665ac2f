"""JSON-RPC over one pipe: whose answer a frame is, and which event of a stream is the last."""

import json
from typing import Any

from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.bindings.stdio import (
    Course,
    addressee,
    course,
    ends_stream,
    error_response,
    is_empty,
    read_message,
    with_id,
)
from gateway.a2a.dialect import Version
from tests.table import for_each


def result(value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "g-1", "result": value}).encode()


def status(state: str, **more: Any) -> dict[str, Any]:
    return {"taskId": "t", "contextId": "c", "status": {"state": state}, **more}


def going(frame: bytes, version: Version) -> Course:
    received = read_message(frame)
    assert received is not None
    return course(received.members, read_progress(frame), version)


@for_each(
    ("event", "expected"),
    [
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}, Course.GOES_ON),
        ({"statusUpdate": status("TASK_STATE_WORKING")}, Course.GOES_ON),
        ({"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a"}}}, Course.GOES_ON),
        ({"statusUpdate": status("TASK_STATE_COMPLETED")}, Course.ENDS),
        ({"statusUpdate": status("TASK_STATE_FAILED")}, Course.ENDS),
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_CANCELED"}}}, Course.ENDS),
        ({"statusUpdate": status("TASK_STATE_INPUT_REQUIRED")}, Course.MAY_END),
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_AUTH_REQUIRED"}}}, Course.MAY_END),
        ({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}, Course.ENDS),
        (None, Course.ENDS),
    ],
)
def test_a_stream_of_1_0_ends_with_its_task_or_a_message(event: Any, expected: Course) -> None:
    assert going(result(event), Version.V1_0) is expected


@for_each("version", [Version.V0_3, Version.V0_1])
@for_each(
    ("event", "expected"),
    [
        ({"kind": "status-update", **status("completed", final=True)}, Course.ENDS),
        ({"kind": "status-update", **status("input-required", final=True)}, Course.ENDS),
        ({"kind": "status-update", **status("canceled", final=False)}, Course.MAY_END),
        ({"kind": "status-update", **status("working", final="yes")}, Course.GOES_ON),
        ({"kind": "task", "id": "t", "status": {"state": "completed"}}, Course.MAY_END),
        ({"kind": "task", "id": "t", "status": {"state": "working"}}, Course.GOES_ON),
        ({"kind": "artifact-update", "taskId": "t", "artifact": {"artifactId": "a"}}, Course.GOES_ON),
        ({"kind": "message", "messageId": "m", "role": "agent", "parts": []}, Course.ENDS),
    ],
)
def test_a_stream_of_before_1_0_ends_where_it_says_so(event: Any, expected: Course, version: Version) -> None:
    assert going(result(event), version) is expected


def test_an_error_ends_a_stream_and_malformed_answers_pass() -> None:
    assert going(b'{"jsonrpc":"2.0","id":"g-1","error":{"code":-32603,"message":"x"}}', Version.V1_0) is Course.ENDS
    assert going(b'{"id":"g-1","nothing":1}', Version.V1_0) is Course.GOES_ON


def test_a_null_result_is_no_event() -> None:
    for frame, empty in ((result(None), True), (result({}), False), (b'{"result":null,"error":{}}', False)):
        received = read_message(frame)
        assert received is not None
        assert is_empty(received.members) is empty


def test_the_id_is_changed_and_nothing_else_and_the_message_is_one_line() -> None:
    received = read_message(b'{\n "jsonrpc": "2.0",\r\n "id": "g-7", "result": {"text": "a\\nb",\n "n": 1.50}}')
    assert received is not None
    assert received.id == b'"g-7"'
    assert with_id(received.members, b"42") == b'{"jsonrpc":"2.0","id":42,"result":{"text": "a\\nb",  "n": 1.50}}'


def test_a_member_that_stands_twice_is_there_once_in_what_goes_on() -> None:
    received = read_message(b'{"id":"g-1","id":"g-2","result":1,"result":2}')
    assert received is not None
    assert received.id == b'"g-2"'
    assert with_id(received.members, b'"x"') == b'{"id":"x","result":2}'


@for_each("content", [b"", b"[]", b"null", b"{", b'{"a":}', b"\xff", b"[" * 5000])
def test_a_message_that_is_no_object_is_ignored(content: bytes) -> None:
    assert read_message(content) is None


def test_a_request_of_the_agents_own_is_known_and_refused() -> None:
    received = read_message(b'{"jsonrpc":"2.0","id":"g-1","method":"sampling/create"}')
    assert received is not None
    assert received.method
    assert json.loads(error_response(b"7")) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32601, "message": "the client serves no methods"},
    }


def test_a_header_may_say_that_a_frame_is_the_last() -> None:
    assert ends_stream([(b"content-length", b"2"), (b"a2a-stream", b"End")])
    assert not ends_stream([(b"a2a-stream", b"open")])
    assert not ends_stream([])


@for_each(
    ("content", "expected"),
    [
        (b'{"id":"g-1","result":NaN}', b'"g-1"'),
        (b' {\n "jsonrpc": "2.0",\n "id": "g-1",\n "result": NaN\n}', b'"g-1"'),
        (b'{"jsonrpc":"2.0","result":NaN,"id":"g-1"}', b'"g-1"'),
        (b'{"result":NaN,"id":"g-1","jsonrpc":"2.0"}\r\n', b'"g-1"'),
        (b'{"result":{"id":"g-1","score":NaN}}', b""),
        (b'{"result":{"score":NaN,"id":"g-1"}}', b""),
        (b'{"result":NaN,"id":"g-1","more":1}', b""),
        (b'{"id":7,"result":NaN}', b""),
        (b'{"id":"\\u0067-1","result":NaN}', b""),
        (b'[{"id":"g-1","result":NaN}]', b""),
        (b"", b""),
    ],
)
def test_the_id_of_a_malformed_frame_is_read_at_its_ends(content: bytes, expected: bytes) -> None:
    assert addressee(content) == expected
