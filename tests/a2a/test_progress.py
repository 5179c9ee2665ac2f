"""The progress that is read from frames."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import notification
from gateway.a2a.agent_frame import event_reader
from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.nested_ids import has_duplicates
from gateway.a2a.operation import Operation
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
def test_a_frame_that_is_no_object_tells_nothing(frame: bytes) -> None:
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
def test_several_results_with_the_same_ids_are_read(answer: object) -> None:
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
def test_a_frame_that_is_no_answer_is_refused(frame: bytes) -> None:
    assert read_progress(frame, void=True) is None


# ---- The events of one stream are read as each would be read by itself -----------------------------------------------

ENVELOPES = (
    b'{"jsonrpc":"2.0","id":"call-1","result":%b}',
    b'{"jsonrpc": "2.0", "id": "call-1", "result": %b}',
    b'{"result":%b,"id":1,"jsonrpc":"2.0"}',
    b"%b",
)
OBJECTS = (
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":%b}}',
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":%b,"append":true}}',
    b'{"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": %b, "lastChunk": true}}',
    b'{"artifactUpdate":{"artifact":%b,"taskId":"t","contextId":"c"}}',
    b'{"artifactUpdate":{"taskId":"other","contextId":"c","artifact":%b}}',
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{},"metadata":%b}}',
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","append":%b}}',
    b'{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"metadata":%b}}',
    b'{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":%b}',
    b'{"task":{"id":"t","contextId":"c","artifacts":[%b]}}',
)
ARTIFACTS = (
    b'{"artifactId":"a","parts":[{"text":"one"}]}', b'{"artifactId":"a","parts":[{"text":"two, \\"artifact\\":{"}]}',
    b"{}", b"null", b"1", b'"t"', b"true", b" {} ", b'{"x":"\xc3\xa4"}',
    # Paths that would leave the artifact, or values that are none.
    b"", b"{", b"{}}", b"{},", b'{},"taskId":"other"',
    b'{}}},"result":{"artifactUpdate":{"taskId":"other","artifact":{}',
    b'{"x":"\xff"}', b"NaN", b"{}{}", b'1,"contextId":"other","artifact":1', b"[" * 3000 + b"]" * 3000, b'"\\ud800"',
)  # fmt: skip
EVENTS = st.builds(
    lambda envelope, members, artifact: envelope % (members % artifact),
    st.sampled_from(ENVELOPES),
    st.sampled_from(OBJECTS),
    st.sampled_from(ARTIFACTS),
)


def call_over(binding: Binding) -> Call:
    dialect = Dialect(binding, Version.V1_0)
    return Call(Operation.SEND_STREAMING_MESSAGE, dialect, "", b"1", None, None, None, b"")


CUT = st.tuples(EVENTS, st.integers(0, 200), st.integers(0, 3)).map(
    lambda cut: cut[0][: cut[1]] + cut[0][cut[1] + cut[2] :]
)


@pytest.mark.parametrize(
    ("binding", "alone"), [(Binding.JSONRPC, read_progress), (Binding.REST, read_bare)], ids=["jsonrpc", "rest"]
)
@given(events=st.lists(EVENTS | CUT, min_size=2, max_size=12))
def test_an_event_is_read_as_if_alone(
    binding: Binding, alone: Callable[[bytes], Progress | None], events: list[bytes]
) -> None:
    read = event_reader(call_over(binding))
    assert [read(event) for event in events] == [alone(event) for event in events]


def test_a_repeated_event_is_not_read_again() -> None:
    read = event_reader(call_over(Binding.JSONRPC))
    event = ENVELOPES[0] % OBJECTS[1]
    first = read(event % ARTIFACTS[0])
    assert first is not None
    assert (first.task_id, first.context_id, first.event) == ("t", "c", "artifact")
    assert read(event % ARTIFACTS[1]) is first


# ---- An answer, an event or a notification in which a member stands twice where ids are looked for is none -----------

WORKING_STATE = {"state": "TASK_STATE_WORKING"}
WHOLE_MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "taskId": "t", "contextId": "c", "parts": [{"text": "hi"}]}
WHOLE_TASK = {
    "id": "t",
    "contextId": "c",
    "status": {**WORKING_STATE, "message": WHOLE_MESSAGE},
    "history": [WHOLE_MESSAGE, WHOLE_MESSAGE],
}
NEWS = {"taskId": "t", "contextId": "c", "status": {**WORKING_STATE, "message": WHOLE_MESSAGE}}
ARTIFACT = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "hi"}]}}
CONFIG = {"taskId": "t", "id": "p", "url": "https://example.com/"}

TOLD: dict[str, Any] = {
    "a task of 1.0": {"task": WHOLE_TASK},
    "a task of 0.3": {"kind": "task", **WHOLE_TASK},
    "a message of 1.0": {"message": WHOLE_MESSAGE},
    "a message of 0.3": {"kind": "message", **WHOLE_MESSAGE},
    "news of 1.0": {"statusUpdate": NEWS},
    "news as in the schema": {"status_update": {"task_id": "t", "status": WORKING_STATE}},
    "news of 0.3": {"kind": "status-update", **NEWS},
    "an artifact of 1.0": {"artifactUpdate": ARTIFACT},
    "an artifact of 0.3": {"kind": "artifact-update", **ARTIFACT},
    "a message as in the schema": {"msg": WHOLE_MESSAGE},
    "another case": {"Task": WHOLE_TASK},
    "a configuration of 1.0": CONFIG,
    "a configuration of 0.3": {"taskId": "t", "pushNotificationConfig": {"id": "p", "url": "https://example.com/"}},
    "configurations": {"configs": [CONFIG, CONFIG]},
}
FREE = frozenset({"parts", "artifact", "artifacts", "metadata"})
"""Members in which nobody looks for an id."""


def doubled(tree: Any) -> list[Any]:
    """The tree with each member of it in turn there twice, but in what is free; the twin's name ends in `~`."""
    if isinstance(tree, list):
        return [[*tree[:at], each, *tree[at + 1 :]] for at in range(len(tree)) for each in doubled(tree[at])]
    if not isinstance(tree, dict):
        return []
    found: list[Any] = []
    for name, value in tree.items():
        found += [{f"{name}~": value, **tree}, {**tree, f"{name}~": "other"}, {**tree, f"{name}~": None}]
        if name not in FREE:
            found += [{**tree, name: each} for each in doubled(value)]
    return found


def written(tree: Any, *, spaced: bool = False, escaped: bool = False) -> bytes:
    text = json.dumps(tree, separators=None if spaced else (",", ":"))
    return text.replace('~"', '"').replace('"taskId"', '"t\\u0061skId"' if escaped else '"taskId"').encode()


def answered(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}"


@for_each("spaced", [False, True])
@for_each("escaped", [False, True])
@for_each("told", TOLD)
def test_no_member_stands_twice_where_ids_are_looked_for(told: str, *, spaced: bool, escaped: bool) -> None:
    good = written(TOLD[told], spaced=spaced, escaped=escaped)
    assert read_progress(answered(good)) is not None
    assert read_bare(good) is not None
    cases = doubled(TOLD[told])
    assert len(cases) > 2
    for case in cases:
        frame = written(case, spaced=spaced, escaped=escaped)
        assert read_progress(answered(frame)) is None, frame
        assert read_bare(frame) is None, frame
        assert notification.read(frame) is None, frame


def test_a_list_of_configurations_is_looked_through() -> None:
    assert read_list(b"[" + written(CONFIG) + b"]") is not None
    for case in doubled([CONFIG, CONFIG]):
        assert read_list(written(case)) is None
        assert read_progress(answered(written(case))) is None


@for_each(
    "free",
    [
        {"task": {**WHOLE_TASK, "metadata": {"a": 1, "a~": 2}}},
        {"task": {**WHOLE_TASK, "artifacts": [{"parts": [{"data": {"taskId": "t", "taskId~": "u"}}]}]}},
        {"message": {**WHOLE_MESSAGE, "parts": [{"text": "a", "text~": "b"}]}},
        {"artifactUpdate": {**ARTIFACT, "artifact": {"name": "a", "name~": "b"}}},
        {"task": WHOLE_TASK, "x": {"task": WHOLE_TASK, "task~": WHOLE_TASK}},
    ],
)
def test_free_members_are_not_searched(free: Any) -> None:
    assert read_progress(answered(written(free))) is not None
    assert read_bare(written(free)) is not None


@for_each("raw", [b"5", b'"x"', b"null", b"[]", b"[5,[{}],null]", b"{}", b' { "a" : 1 } '])
def test_a_value_without_members_has_no_duplicates(raw: bytes) -> None:
    assert not has_duplicates(raw)
    assert not has_duplicates(msgspec.Raw(raw.strip()))


@for_each("raw", [b"", b"{", b"[1", b'{"a\xff":1}', b'{"\\ud800":1,"a":1}', b'{"a":' * 5000])
def test_a_malformed_value_may_have_duplicates(raw: bytes) -> None:
    assert has_duplicates(raw)


def test_how_deep_something_is_told_costs_no_more_than_its_length() -> None:
    deep = b'{"status":' * 500 + b'{"a":1,"a":2}' + b"}" * 500
    assert not has_duplicates(deep)


# ---- Errors ----------------------------------------------------------------------------------------------------------

ERROR = {"code": -32001, "message": "no", "data": [{"@type": "x", "metadata": {"taskId": "t"}}]}


def test_no_member_of_an_error_stands_twice() -> None:
    for case in doubled({**ERROR, "data": {"free": ERROR["data"]}}):
        raw = written(case)
        if b'"code":"other"' in raw or b'"code":null' in raw:
            continue
        assert read_progress(b'{"jsonrpc":"2.0","id":1,"error":' + raw + b"}") is None, raw
        assert read_bare(b'{"error":' + raw + b"}") is None, raw
    raw = b'{"code":1,"message":"a","data":{"metadata":{"taskId":"t","taskId":"u"}}}'
    assert read_progress(b'{"jsonrpc":"2.0","id":1,"error":' + raw + b"}") is None
    assert read_bare(b'{"error":' + raw + b"}") is None
    for beside in (b'"x":1', b'"contextId":5'):
        result = b"{" + beside + b',"error":' + raw + b"}"
        assert read_progress(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}") is None
        assert read_bare(result) is None
