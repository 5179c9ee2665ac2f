"""What frames tell."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.progress import NOTHING, Progress, read_bare, read_list
from gateway.a2a.task_state import STATES
from tests.a2a.sample import CONTEXT, TASK, VECTORS, vector
from tests.table import for_each

TASK_1_0 = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}


def rpc(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


@for_each(
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
    assert read_progress(rpc(frame)) == Progress(b"1", "t", "c", state, event)


def test_an_object_of_another_shape_over_http_json_tells_nothing() -> None:
    assert read_bare(b'{"status":1}') == read_bare(b"{}") == NOTHING


@for_each("number", range(9))
def test_a_state_may_be_told_by_its_number(number: int) -> None:
    name = ("unspecified", "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected",
            "auth-required")[number]  # fmt: skip
    for written in (number, float(number)):
        frame = {"task": {**TASK_1_0, "status": {"state": written}}}
        told = read_progress(rpc(frame))
        assert told == Progress(b"1", "t", "c", "unknown" if number == 0 else name, "task")
    assert read_bare(b'{"task":{"id":"t","status":{"state":99}}}') == Progress(
        task_id="t", state="unknown", event="task"
    )


IDS = {"task_id": "t", "context_id": "c"}


@for_each(
    ("frame", "event"),
    [
        ({"task": {"id": "t", "context_id": "c", "status": {"state": 2}}}, "task"),
        ({"id": "t", "context_id": "c", "status": {"state": 2}}, "task"),
        ({"status_update": {**IDS, "status": {"state": 2}}}, "status"),
        ({"statusUpdate": {**IDS, "status": {"state": 2}}}, "status"),
        ({"artifact_update": {**IDS, "artifact": {}}}, "artifact"),
        ({"message": {**IDS, "message_id": "m"}}, "message"),
        ({"kind": "status-update", **IDS, "status": {"state": "working"}}, "status"),
    ],
)
def test_names_may_be_those_of_the_schema(frame: dict[str, Any], event: str) -> None:
    state = "working" if event in ("task", "status") else None
    assert read_bare(json.dumps(frame).encode()) == Progress(task_id="t", context_id="c", event=event, state=state)
    assert read_progress(rpc(frame)) == Progress(b"1", "t", "c", state, event)


@for_each(
    "frame", [{"message": {"taskId": "t", "contextId": "c"}}, {"kind": "message", "taskId": "t", "contextId": "c"}]
)
def test_the_task_that_a_message_names_is_told(frame: dict[str, Any]) -> None:
    assert read_bare(json.dumps(frame).encode()) == Progress(task_id="t", context_id="c", event="message")


@for_each("odd", [{"status": "x"}, {"kind": 1}, {"sessionId": 5}, {"artifact": 1}, {"message": "x"}])
@for_each("wrapped", [True, False])
def test_a_member_of_another_type_hides_nothing(odd: dict[str, Any], *, wrapped: bool) -> None:
    task = {**TASK_1_0, **odd}
    frame = {"task": task} if wrapped else task
    for told in (read_bare(json.dumps(frame).encode()), read_progress(rpc(frame))):
        assert told is not None
        assert (told.task_id, told.context_id, told.legible) == ("t", "c", True)


@for_each(
    "frame",
    [
        {"task": "t"}, {"task": ["t"]}, {"statusUpdate": 1}, {"status_update": []}, {"artifactUpdate": "t"},
        {"task": {"id": 7, "status": {}}}, {"task": {**TASK_1_0, "contextId": 7}}, {"taskId": 7},
        {"message": {"taskId": {}}}, {"kind": "task", "id": ["t"]}, {"task_id": False}, {"id": 7, "status": {}},
    ],
)  # fmt: skip
def test_an_id_that_cannot_be_read_is_told_of(frame: dict[str, Any]) -> None:
    for told in (read_bare(json.dumps(frame).encode()), read_progress(rpc(frame))):
        assert told is not None
        assert not told.legible


def test_an_id_that_is_no_tasks_may_be_anything() -> None:
    assert read_bare(b'{"name":"an agent","id":7,"skills":[]}') == NOTHING


CONFIGS: list[tuple[Any, str]] = [
    ({"taskId": "t", "id": "c", "url": "https://x/"}, "1.0"),
    ({"task_id": "t", "id": "c", "url": "https://x/"}, "1.0, as its schema has it"),
    ({"taskId": "t", "pushNotificationConfig": {"url": "https://x/", "id": "c"}}, "0.3"),
    ({"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "https://x/"}}, "0.3, over HTTP"),
    ({"id": "t", "pushNotificationConfig": {"url": "https://x/"}}, "0.1"),
    ({"id": "t", "push_notification_config": {"url": "https://x/"}}, "0.1, as nobody has it"),
]


@for_each("config", [config for config, _ in CONFIGS])
def test_a_push_configuration_tells_its_task(config: dict[str, Any]) -> None:
    other = json.loads(json.dumps(config).replace('"t"', '"u"').replace("tasks/t/", "tasks/u/"))
    assert read_bare(json.dumps(config).encode()) == Progress(task_id="t")
    assert read_progress(rpc({"configs": [config, config]})) == Progress(b"1", "t")
    assert read_progress(rpc([config])) == Progress(b"1", "t")
    for several in ([config, other], {"configs": [config, other]}):
        assert read_progress(rpc(several)) == Progress(b"1", legible=False)


def test_a_list_of_nothing_tells_nothing_and_one_of_anything_cannot_be_told() -> None:
    nothing: list[Any] = [[], {"configs": []}, {"configs": {}}, [{}], [{"id": "c"}], None, 1, "t", True]
    for result in nothing:
        assert read_progress(rpc(result)) == Progress(b"1")
    anything: list[Any] = [[1], ["t"], [{"taskId": 1}], {"configs": [None]}]
    for result in anything:
        assert read_progress(rpc(result)) == Progress(b"1", legible=False)


def test_a_resource_name_holds_any_id_of_a_task() -> None:
    assert read_bare(b'{"name":"tasks/a/b/pushNotificationConfigs/c"}') == Progress(task_id="a/b")
    assert read_bare(b'{"name":"tasks/a"}') == read_bare(b'{"name":7}') == NOTHING


@for_each("path", sorted(VECTORS.glob("*Task*.json")) + sorted(VECTORS.glob("Send*.json")))
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
        told = read_progress(body) if "jsonrpc" in dialect else read_bare(body)
        assert told is not None
        assert told.task_id in (TASK, None)
        assert told.context_id in (CONTEXT, None)
        assert told.state in (*STATES, None)
        if told.event in ("task", "status"):
            assert (told.task_id, told.state is not None) == (TASK, True)


def test_an_error_is_told_by_its_code() -> None:
    told = read_progress(b'{"jsonrpc":"2.0","id":"a","error":{"message":"x","code":-32001}}')
    assert told == Progress(id=b'"a"', event="error", error=-32001)


def test_a_null_error_beside_a_result_is_none() -> None:
    told = read_progress(b'{"id":1,"error":null,"result":{"task":{"id":"t"}}}')
    assert told == Progress(id=b"1", task_id="t", event="task")


@for_each(
    "frame",
    [
        b"", b"[]", b"null", b"1", b"x", b"\xff", b'{"id":1', b"\xef\xbb\xbf{}", b"[" * 100_000, b"{}{}", b"{}\0",
        b'{"status":1,}', b'{"status":1,"x":NaN}', '{"id":1,"result":{}}'.encode("utf-16"),
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"jsonrpc":"2.0","id":1,"result":"\xff"}',
    ],
)  # fmt: skip
def test_what_is_no_object_is_no_answer_and_tells_nothing(frame: bytes) -> None:
    assert read_progress(frame) is None
    assert read_bare(frame) is None


@for_each(
    "members",
    [
        '"id":1,"id":2,"result":{}', '"id":1,"result":{},"result":[]', '"result":{},"error":{"code":1}',
        '"error":{"code":1},"error":null,"result":{}', '"id":1,"i\\u0064":1,"result":{}',
        '"id":1,"result":{},"\\ud800":1', '"x":1,"id":1,"x":2,"result":{}', '"id":12345,"id":1,"result":{}',
    ],
)  # fmt: skip
@for_each("opening", ['{"jsonrpc":"2.0",', "{", '{ "jsonrpc" : "2.0" , '])
def test_an_envelope_that_can_be_read_in_two_ways_is_no_answer(opening: str, members: str) -> None:
    assert read_progress(f"{opening}{members}}}".encode()) is None


def test_an_answer_without_a_result_answers_only_what_has_none() -> None:
    frame = b'{"jsonrpc":"2.0","id":7}'
    assert read_progress(frame) is None
    assert read_progress(frame, void=True) == Progress(id=b"7")
    assert read_progress(b"{}", void=True) is None


@given(
    names=st.lists(st.sampled_from(["jsonrpc", "id", "x", "yy"]), unique=True),
    twice=st.sampled_from(["jsonrpc", "id", "x", "result"]),
    value=st.sampled_from(["1", "12345678", "null", '""']),
    spaced=st.booleans(),
)
def test_no_member_that_stands_twice_is_overlooked(names: list[str], twice: str, value: str, *, spaced: bool) -> None:
    written = [f'"{name}":{json.dumps("2.0") if name == "jsonrpc" else 1}' for name in names] + ['"result":{}']
    between = ", " if spaced else ","
    assert read_progress(f"{{{between.join(written)}}}".encode()) is not None
    for place in range(len(written)):
        doubled = [*written[:place], f'"{twice}":{value}', f'"{twice}":{value}', *written[place:]]
        assert read_progress(f"{{{between.join(doubled)}}}".encode()) is None


MINE = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
THEIRS = {"id": "u", "contextId": "d", "status": {"state": "TASK_STATE_WORKING"}}
OF_THEIRS = {"taskId": "u", "contextId": "d", "status": {"state": "TASK_STATE_WORKING"}}


@for_each(
    "answer",
    [
        {"tasks": [THEIRS]},
        {"task": MINE, "tasks": [THEIRS]},
        {**MINE, "tasks": [THEIRS]},
        {"Task": THEIRS},
        {"STATUS_UPDATE": OF_THEIRS},
        {"TaskId": "u", "url": "https://x/"},
        {"task": MINE, "statusUpdate": OF_THEIRS},
        {"statusUpdate": OF_THEIRS, "status_update": {**OF_THEIRS, "taskId": "t"}},
        {"message": {"messageId": "m", "taskId": "t"}, "task": THEIRS},
        {"task": MINE, "artifactUpdate": {"taskId": "t", "contextId": "d"}},
        {"task": MINE, **THEIRS},
        {"task": MINE, "kind": "message", "taskId": "u"},
        {"message": {"messageId": "m", "taskId": "u"}, **MINE},
        {"task": {**MINE, "context_id": "d"}},
        {"statusUpdate": {"taskId": "t", "task_id": "u", "contextId": "c"}},
        {"statusUpdate": {"taskId": "t", "task_id": 7}},
        {"message": {"messageId": "m", "contextId": "c", "context_id": "d"}},
        {**MINE, "sessionId": "d"},
        {"task": {**MINE, "context_id": "d"}, "message": {"messageId": "m"}},
        {"message": {"messageId": "m", "taskId": "t"}, "task_id": "u"},
        {"task": MINE, "context_id": "d"},
        {"task": MINE, "Task": THEIRS},
        {"Task": THEIRS, "task": MINE},
        {"task": MINE, "StatusUpdate": OF_THEIRS},
        {"statusUpdate": {**OF_THEIRS, "taskId": "t"}, "StatusUpdate": OF_THEIRS},
        {"artifactUpdate": {"taskId": "t", "contextId": "d"}, "ArtifactUpdate": OF_THEIRS},
        {"message": {"messageId": "m", "taskId": "t"}, "Message": {"messageId": "m", "taskId": "u"}},
        {"task": MINE, "Task": [THEIRS]},
        {**MINE, "Task": THEIRS},
        {"task": {**MINE, "Id": "u"}},
        {"task": {**MINE, "ContextId": "d"}},
        {"statusUpdate": {**OF_THEIRS, "TaskId": "t"}},
        {"statusUpdate": {"contextId": "d", "TaskId": "u"}},
        {"artifactUpdate": {"taskId": "t", "context_id": "c", "ContextId": "d"}},
        {"message": {"messageId": "m", "taskId": "t", "TaskId": "u"}},
        {**MINE, "Id": "u", "status": {"state": 2}, "kind": 5},
        {"task": MINE, "statusUpdate": {"taskId": 7}},
        {"task": {"id": "t"}, "statusUpdate": "u"},
        [{"task": THEIRS}],
        [{"statusUpdate": OF_THEIRS}],
    ],
)
def test_an_answer_that_is_several_things_at_once_or_in_odd_letters_is_not_legible(answer: object) -> None:
    told = read_progress(rpc(answer))
    assert told is not None
    assert not told.legible


@for_each(
    "answer",
    [
        {"task": MINE, "statusUpdate": {"taskId": "t", "contextId": "c"}},
        {"task": {"id": "t"}, "message": {"messageId": "m", "contextId": "c"}},
        {"task": {"contextId": "c"}, "statusUpdate": {"taskId": "t"}},
        {"task": {**MINE, "context_id": "c", "sessionId": ""}},
        {"task": {**MINE, "Id": "t", "ContextId": "c", "TaskId": ""}},
        {"task": {**MINE, "Id": 5, "ContextId": ["c"]}},
        {"task": MINE, "tasks": []},
        {"task": MINE, "tasks": None},
        {"task": MINE, "Task": MINE, "Message": "noted"},
        {**MINE, "task": MINE},
    ],
)
def test_several_that_name_the_same_tell_what_they_name(answer: object) -> None:
    told = read_progress(rpc(answer))
    assert told is not None
    assert (told.event, told.task_id, told.context_id, told.legible) == ("task", "t", "c", True)


def test_a_list_over_http_json_tells_of_which_task_it_is() -> None:
    assert read_list(b'[{"taskId":"t"},{"task_id":"t"}]') == Progress(task_id="t")
    assert read_list(b' [{"taskId":"t"},{"taskId":"u"}]') == read_list(b"[7]") == Progress(legible=False)
    assert read_list(b"[]") == NOTHING
    assert read_list(b"{}") is read_list(b"") is read_list(b'["\xff"]') is None


NO_ANSWERS = [
    b"", b"nonsense", b'{"jsonrpc":"2.0","id":1,"result":', b"[]", b"1", b"null", b'{"jsonrpc":"2.0","result":"\xff"}',
    b"{}", b'{"id":1}', b'{"error":{"code":1}}', b'{"jsonrpc":"2.0","error":{"message":"m"}}',
    b'{"jsonrpc":"2.0","error":{"code":"1"}}', b'{"jsonrpc":"2.0","error":[]}', b'{"jsonrpc":"1.0","result":1}',
    b'{"jsonrpc":2,"result":1}', b'{"jsonrpc":"2.0","result":1,"error":{"code":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":1,"result":2}', b'{"jsonrpc":"2.0","id":1,"id":2,"result":1}',
    b'{"jsonrpc":"2.0","id":1,"result":1,"res\\u0075lt":2}', b'{"jsonrpc":"2.0","result":' + b"[" * 5000,
]  # fmt: skip


@for_each("frame", NO_ANSWERS)
def test_what_is_no_answer_is_refused(frame: bytes) -> None:
    assert read_progress(frame, void=True) is None
