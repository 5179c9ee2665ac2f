"""0.1 and the hub: every vector both ways, and what nobody may send."""

from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_1 import ALL_HISTORY, FORM
from gateway.a2a.versions.version import Form, Memo, Misfit
from tests.support.ancient import Tree, insist
from tests.table import for_each

VECTORS = Path(__file__).parents[2] / "vectors"
DECODER = msgspec.json.Decoder(float_hook=Decimal)

SEND = Operation.SEND_MESSAGE
STREAM = Operation.SEND_STREAMING_MESSAGE
GET = Operation.GET_TASK
CANCEL = Operation.CANCEL_TASK
SUBSCRIBE = Operation.SUBSCRIBE_TO_TASK
SET_PUSH = Operation.CREATE_PUSH_CONFIG
GET_PUSH = Operation.GET_PUSH_CONFIG

TEXT = {"type": "text", "text": "hi"}
HELLO = {"role": "user", "parts": [TEXT]}
SAID = {"role": "ROLE_USER", "parts": [{"text": "hi"}]}
OVER = {"state": "completed"}


def vector(name: str) -> Tree:
    tree: Tree = DECODER.decode((VECTORS / f"{name}.json").read_bytes())
    return tree


def memo() -> Memo:
    return Memo(message_id="m-1", new_id="task-7")


def called() -> Memo:
    """The memo of a call about a task that is known."""
    return Memo(task_id="t", context_id="c", message_id="m-1", new_id="new")


def result(name: str, dialect: str) -> Tree:
    tree: Tree = vector(name)["response"][dialect]["http"]["body"]["result"]
    tree.pop("tenant", None)
    return tree


def events(name: str, dialect: str) -> list[Tree]:
    return [event[dialect]["sse_data"]["result"] for event in vector(name)["events"]]


def lift_event(event: Tree, remembered: Memo) -> Tree:
    # Trees are consumed, and these are not the test's alone.
    return FORM.lift_event(deepcopy(event), remembered)


def test_it_is_a_form() -> None:
    form: Form = FORM
    assert form.answers == {SEND, STREAM, GET, CANCEL, SUBSCRIBE, SET_PUSH, GET_PUSH}


# ---- Parameters ----------------------------------------------------------------------------------------------------


def test_a_task_begun_without_a_context_is_given_its_own_id_for_one() -> None:
    remembered = memo()
    lowered = FORM.lower_params(SEND, {"message": deepcopy(SAID)}, remembered)
    assert (lowered["id"], lowered["sessionId"]) == ("task-7", "task-7")
    # Events name no context; they tell the one that the task has.
    assert lift_event({"id": "task-7", "status": OVER}, remembered)["statusUpdate"]["contextId"] == "task-7"


@for_each(
    ("operation", "params", "length"),
    [
        (SEND, {"message": SAID}, ALL_HISTORY),
        (SEND, {"message": SAID, "configuration": {"historyLength": 0}}, 0),
        (STREAM, {"message": SAID}, None),
        (GET, {"id": "t"}, ALL_HISTORY),
        (GET, {"id": "t", "historyLength": 0}, 0),
    ],
)
def test_who_sets_no_bound_to_history_gets_all_of_it(operation: Operation, params: Tree, length: int | None) -> None:
    assert FORM.lower_params(operation, deepcopy(params), memo()).get("historyLength") == length


@for_each(
    ("operation", "params", "field"),
    [
        (SEND, {"message": HELLO}, "id"),
        (SEND, {"id": "", "message": HELLO}, "id"),
        (SEND, {"id": 1, "message": HELLO}, "id"),
        (SEND, {"id": "t"}, "message"),
        (SEND, {"id": "t", "sessionId": 1, "message": HELLO}, "sessionId"),
        (SEND, {"id": "t", "message": HELLO, "historyLength": -1}, "historyLength"),
        (SEND, {"id": "t", "message": HELLO, "historyLength": True}, "historyLength"),
        (SEND, {"id": "t", "message": HELLO, "acceptedOutputModes": [1]}, "acceptedOutputModes[0]"),
        (SEND, {"id": "t", "message": HELLO, "pushNotification": {}}, "pushNotification.url"),
        (SEND, {"id": "t", "message": HELLO, "metadata": []}, "metadata"),
        (SEND, {"id": "t", "message": {"role": "user", "parts": [{"text": "hi"}]}}, "message.parts[0].type"),
        (SEND, {"id": "t", "message": {"role": "ROLE_USER", "parts": [TEXT]}}, "message.role"),
        (GET, {}, "id"),
        (CANCEL, {"id": "t", "metadata": 1}, "metadata"),
        (SET_PUSH, {"id": "t"}, "pushNotificationConfig"),
        (SET_PUSH, {"id": "t", "pushNotificationConfig": {"url": 1}}, "pushNotificationConfig.url"),
        (GET_PUSH, {"taskId": "t"}, "id"),
        (Operation.LIST_TASKS, {}, ""),
    ],
)
def test_what_a_client_must_not_send_is_told_by_its_place(operation: Operation, params: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        FORM.lift_params(operation, deepcopy(params), memo())
    assert caught.value.field == field


def test_members_of_0_1_get_no_meaning_on_the_way_down() -> None:
    unread = {"id": "x", "sessionId": "x", "pushNotification": {"url": "https://inside"}, "historyLength": 9}
    lowered = FORM.lower_params(STREAM, {"message": deepcopy(SAID), **unread}, memo())
    kept = {"message_id_compat": "m-1"}
    assert lowered == {"id": "task-7", "sessionId": "task-7", "message": {**HELLO, "metadata": kept}}


# ---- Results -------------------------------------------------------------------------------------------------------


def test_a_message_for_an_answer_is_a_completed_task() -> None:
    answer = result("SendMessage_direct_message", "v1.0-jsonrpc")
    task = FORM.lower_result(SEND, answer, Memo(task_id="mine", context_id="c-1"))
    insist("Task", task)
    assert (task["id"], task["sessionId"], task["status"]["state"]) == ("mine", "ctx-42", "completed")
    assert [part["type"] for part in task["status"]["message"]["parts"]] == ["text", "file", "file", "data"]


# ---- Events --------------------------------------------------------------------------------------------------------


def test_a_message_alone_is_a_final_event() -> None:
    (event,) = events("SendStreamingMessage_message_only", "v1.0-jsonrpc")
    (lowered,) = FORM.lower_event(event, Memo(task_id="mine"), last=True)
    insist("Event", lowered)
    assert (lowered["id"], lowered["status"]["state"], lowered["final"]) == ("mine", "completed", True)


def told(state: str, *, last: bool) -> list[object]:
    """What a Task with two artifacts becomes: whether it is final of a status, the index of an artifact."""
    artifacts = [{"artifactId": name, "parts": []} for name in "ab"]
    task = {"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts, "metadata": {"a": 1}}
    lowered = FORM.lower_event({"task": task}, called(), last=last)
    for event in lowered:
        insist("Event", event)
        assert event["id"] == "t"
    assert [event["metadata"] for event in lowered if "status" in event] == [{"a": 1}]
    return [event["final"] if "status" in event else event["artifact"]["index"] for event in lowered]


def test_a_task_in_a_stream_is_a_status_and_its_artifacts_and_the_final_status_comes_last() -> None:
    assert told("TASK_STATE_WORKING", last=False) == [False, 0, 1]
    assert told("TASK_STATE_WORKING", last=True) == [False, 0, 1]
    assert told("TASK_STATE_COMPLETED", last=False) == [False, 0, 1]
    assert told("TASK_STATE_COMPLETED", last=True) == [0, 1, True]
    assert told("TASK_STATE_AUTH_REQUIRED", last=True) == [0, 1, True]


@for_each(
    ("event", "field"),
    [
        ({}, "id"),
        ({"id": "t"}, "status"),
        ({"status": OVER}, "id"),
        ({"id": "t", "status": OVER, "artifact": {"parts": []}}, ""),
        ({"id": "t", "status": {"state": "done"}}, "status.state"),
        ({"id": "t", "artifact": {}}, "artifact.parts"),
        ({"id": "t", "artifact": {"parts": [], "append": 1}}, "artifact.append"),
        ({"id": "t", "artifact": {"parts": [], "index": "0"}}, "artifact.index"),
        ({"id": "t", "artifact": {"parts": [{}]}}, "artifact.parts[0].type"),
        ({"id": "t", "artifact": []}, "artifact"),
    ],
)
def test_what_an_agent_must_not_stream_is_told_by_its_place(event: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        FORM.lift_event(deepcopy(event), memo())
    assert caught.value.field == field


# ---- Parts and messages --------------------------------------------------------------------------------------------

CASES = vector("parts")["cases"]
NAMES = [case["case"] for case in CASES]


def case(name: str) -> tuple[Tree, Tree]:
    """A part in the hub and in 0.1."""
    found = deepcopy(CASES[NAMES.index(name)])
    return found["v1.0"], found["v0.1"]


def lift_sent_message(message: Tree) -> Tree:
    return dict(FORM.lift_params(SEND, {"id": "t", "message": message}, memo())["message"])


def lift_heard_message(message: Tree, task_id: str, context_id: str) -> Tree:
    task = {"id": task_id, "sessionId": context_id, "status": {"state": "working", "message": message}}
    return dict(FORM.lift_result(GET, task, Memo())["status"]["message"])


def lift_sent_part(part: Tree) -> Tree:
    return dict(lift_sent_message({"role": "user", "parts": [part]})["parts"][0])


def lift_heard_part(part: Tree) -> Tree:
    return dict(lift_heard_message({"role": "agent", "parts": [part]}, "t", "c")["parts"][0])


def lower_part(part: Tree) -> Tree:
    return dict(FORM.lower_result(SEND, {"message": {"parts": [part]}}, memo())["status"]["message"]["parts"][0])


def hear(**more: Any) -> Tree:
    return lift_heard_message({"role": "agent", "parts": [{"type": "text", "text": "hi"}], **more}, "t", "c")


def test_an_agents_part_may_leave_its_type_out_and_a_clients_may_not() -> None:
    assert lift_heard_part({"text": "hi", "metadata": None}) == {"text": "hi"}
    assert lift_heard_part({"file": {"uri": "u", "bytes": None}}) == {"url": "u"}
    assert lift_heard_part({"data": {"a": 1}}) == {"data": {"a": 1}}
    parts: list[Tree] = [{"text": "hi"}, {"file": {"uri": "u"}}, {"data": {}}]
    for part in parts:
        with pytest.raises(Misfit) as caught:
            lift_sent_part(part)
        assert caught.value.field == "message.parts[0].type"


@for_each(
    ("part", "field"),
    [
        ({}, "type"),
        ({"type": "image", "image": "x"}, "type"),
        ({"type": 1, "text": "x"}, "type"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": 1}, "text"),
        ({"type": "text", "text": "x", "metadata": "x"}, "metadata"),
        ({"type": "file"}, "file"),
        ({"type": "file", "file": {}}, "file"),
        ({"type": "file", "file": {"bytes": "AA==", "uri": "u"}}, "file"),
        ({"type": "file", "file": {"bytes": 1}}, "file.bytes"),
        ({"type": "file", "file": {"uri": "u", "mimeType": 1}}, "file.mimeType"),
        ({"type": "file", "file": {"uri": "u"}, "metadata": 1}, "metadata"),
        ({"type": "data"}, "data"),
        ({"type": "data", "data": [1]}, "data"),
        ({"type": "data", "data": {}, "metadata": 1}, "metadata"),
    ],
)
def test_a_part_of_a_wrong_shape_is_told_by_its_place(part: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_sent_part(deepcopy(part))
    assert caught.value.field == f"message.parts[0].{field}"
    with pytest.raises(Misfit):
        lift_heard_part(deepcopy(part))


def test_a_part_never_becomes_two_things() -> None:
    everything = {"text": "x", "raw": "AA==", "url": "u", "data": {"a": 1}, "file": {"uri": "v"}, "mediaType": 1}
    assert lift_sent_part({**everything, "type": "text"}) == {"text": "x"}
    assert lift_sent_part({**everything, "type": "file"}) == {"url": "v"}
    assert lift_sent_part({**everything, "type": "data"}) == {"data": {"a": 1}}
    for hub in ({"text": "x"}, {"raw": "AA=="}, {"url": "u"}, {"data": 1}):
        insist("Part", lower_part({**hub, "kind": "text", "file": {"uri": "v"}, "type": "x"}))


def test_empty_content_of_a_file_gives_way_to_what_is_there() -> None:
    assert lift_sent_part({"type": "file", "file": {"bytes": "", "uri": "u", "name": ""}}) == {"url": "u"}
    assert lift_sent_part({"type": "file", "file": {"bytes": "AA==", "uri": ""}}) == {"raw": "AA=="}
    assert lift_sent_part({"type": "file", "file": {"bytes": ""}}) == {"raw": ""}
    assert lift_sent_part({"type": "file", "file": {"uri": ""}}) == {"url": ""}


def test_what_0_1_has_no_word_for_comes_back_from_metadata() -> None:
    hub = {
        "messageId": "m", "taskId": "t", "contextId": "c", "role": "ROLE_USER", "parts": [{"text": "hi"}],
        "extensions": ["https://e"], "referenceTaskIds": ["t-0"], "metadata": {"a": 1},
    }  # fmt: skip
    lowered = FORM.lower_params(STREAM, {"message": deepcopy(hub)}, memo())["message"]
    insist("Message", lowered)
    assert lowered["metadata"] == {
        "a": 1, "message_id_compat": "m", "extensions_compat": ["https://e"], "reference_task_ids_compat": ["t-0"],
    }  # fmt: skip
    assert lift_heard_message(lowered, "t", "c") == hub


def test_what_has_been_kept_and_no_longer_fits_is_left_in_metadata() -> None:
    metadata = {"message_id_compat": 1, "extensions_compat": [1], "reference_task_ids_compat": "t"}
    heard = hear(metadata=metadata)
    assert heard["metadata"] == {"extensions_compat": [1], "reference_task_ids_compat": "t"}
    assert len(heard["messageId"]) == 32
    assert "extensions" not in heard


def test_a_message_has_the_same_id_wherever_an_agent_says_it() -> None:
    again = lift_heard_message({"parts": [{"kind": "text", "text": "hi"}], "role": "agent"}, "t", "other")
    assert hear()["messageId"] == again["messageId"]
    assert hear()["messageId"] != hear(role="user")["messageId"]
    assert (
        hear()["messageId"] != lift_heard_message({"role": "agent", "parts": [{"text": "hi"}]}, "u", "c")["messageId"]
    )
    assert hear(messageId="own")["messageId"] == "own"


def test_ids_of_task_and_context_are_those_of_the_task() -> None:
    heard = hear(taskId="x", contextId=1, task_id="y", metadata={"taskId": "z"})
    assert (heard["taskId"], heard["contextId"]) == ("t", "c")
    assert "task_id" not in heard


@for_each(
    ("message", "field"),
    [
        ({"parts": []}, "role"),
        ({"role": "system", "parts": []}, "role"),
        ({"role": "user"}, "parts"),
        ({"role": "user", "parts": {}}, "parts"),
        ({"role": "user", "parts": ["hi"]}, "parts[0]"),
        ({"role": "user", "parts": [], "metadata": []}, "metadata"),
    ],
)
def test_a_message_of_a_wrong_shape_is_told_by_its_place(message: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_sent_message(message)
    assert caught.value.field == f"message.{field}"


# ---- Tasks, artifacts and push configurations ----------------------------------------------------------------------


def task(**more: Any) -> Tree:
    return {"id": "t", "status": {"state": "working"}, **more}


def text(said: str) -> Tree:
    return {"type": "text", "text": said}


def lift_task(told: Tree, remembered: Memo) -> Tree:
    return FORM.lift_result(GET, told, remembered)


def lower_task(told: Tree, remembered: Memo) -> Tree:
    return dict(FORM.lower_result(GET, told, remembered))


def lower_artifact(artifact: Tree, remembered: Memo) -> Tree:
    (event,) = FORM.lower_event({"artifactUpdate": {"taskId": "t", "artifact": artifact}}, remembered, last=False)
    return dict(event["artifact"])


def test_artifacts_and_messages_of_the_same_name_are_told_apart() -> None:
    said = {"role": "user", "parts": [text("yes")]}
    lifted = lift_task(
        task(
            artifacts=[{"parts": [text("a")]}, {"parts": [], "index": 1}, {"parts": [text("b")], "index": 0}],
            history=[dict(said), {"role": "agent", "parts": []}, {"role": "user", "parts": [text("yes")]}],
        ),
        Memo(),
    )
    assert [artifact["artifactId"] for artifact in lifted["artifacts"]] == ["0", "1", "0-2"]
    first, second, third = (message["messageId"] for message in lifted["history"])
    assert third == f"{first}-2"
    assert second != first


def test_to_tell_many_apart_takes_no_longer_than_to_read_them() -> None:
    given = [f"m-{number}" for number in range(2, 2_000)]
    history = [{"role": "user", "parts": [], "messageId": name} for name in [*given, *["m"] * 2_000]]
    lifted = lift_task(task(history=history), Memo())
    assert len({message["messageId"] for message in lifted["history"]}) == 3_998


@for_each(
    ("state", "lowered"),
    [
        ("TASK_STATE_REJECTED", "failed"),
        ("TASK_STATE_AUTH_REQUIRED", "input-required"),
        ("TASK_STATE_UNSPECIFIED", "unknown"),
        ("TASK_STATE_OF_TOMORROW", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_state_that_0_1_does_not_have_is_the_next_it_has(state: str | None, lowered: str) -> None:
    assert lower_task({"id": "t", "status": {"state": state}}, memo())["status"]["state"] == lowered


@for_each(
    ("wrong", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": None}, "id"),
        ({"sessionId": 1}, "sessionId"),
        ({"status": None}, "status"),
        ({"status": "working"}, "status"),
        ({"status": {"state": "TASK_STATE_WORKING"}}, "status.state"),
        ({"status": {"state": "working", "message": {"role": "agent"}}}, "status.message.parts"),
        ({"artifacts": {}}, "artifacts"),
        ({"artifacts": [{"parts": [{"type": "text"}]}]}, "artifacts[0].parts[0].text"),
        ({"history": ["hi"]}, "history[0]"),
        ({"metadata": 1}, "metadata"),
    ],
)
def test_a_task_of_a_wrong_shape_is_told_by_its_place(wrong: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_task(task(**wrong), Memo())
    assert caught.value.field == field


def test_what_is_remembered_of_artifacts_has_a_bound() -> None:
    memo = Memo()
    long = "a" * 1_000_000
    indexes = [lower_artifact({"artifactId": name}, memo)["index"] for name in (long, "b", long)]
    assert indexes == [0, 1, 0]
    assert all(len(name) <= 64 for name in memo.artifacts)
    for number in range(10_010):
        lower_artifact({"artifactId": f"n-{number}"}, memo)
    assert len(memo.artifacts) == 10_000
    assert lower_artifact({"artifactId": "b"}, memo)["index"] == 1
    assert lower_artifact({"artifactId": "beyond"}, memo)["index"] == 10_000


@for_each(
    ("wrong", "field"),
    [
        ({"parts": None}, "parts"),
        ({"index": True}, "index"),
        ({"index": 2**31}, "index"),
        ({"name": 1}, "name"),
        ({"description": []}, "description"),
        ({"append": "yes"}, "append"),
        ({"lastChunk": 1}, "lastChunk"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_an_artifact_of_a_wrong_shape_is_told_by_its_place(wrong: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_task(task(artifacts=[{"parts": [], **wrong}]), Memo())
    assert caught.value.field == f"artifacts[0].{field}"
