"""0.1 and the hub: every vector both ways, and what nobody may send."""

from copy import deepcopy
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_1 import ALL_HISTORY, FORM, LOSSES
from gateway.a2a.versions.version import Form, Memo, Misfit
from tests.doubles.ancient import Tree, insist

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


def hub_params(name: str) -> Tree:
    params: Tree = vector(name)["request"]["v1.0-jsonrpc"]["http"]["body"]["params"]
    params.pop("tenant", None)
    return params


def old_params(name: str) -> Tree:
    params: Tree = vector(name)["request"]["v0.1-jsonrpc"]["http"]["body"]["params"]
    return params


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
    assert all(loss.what and loss.toward in ("0.1", "1.0") and loss.instead for loss in LOSSES)


# ---- Parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "name"),
    [(SEND, "SendMessage"), (STREAM, "SendStreamingMessage"), (STREAM, "SendStreamingMessage_input_required")],
)
def test_a_send_of_the_vectors_is_lifted(operation: Operation, name: str) -> None:
    expected = hub_params(name)
    expected["message"] |= {"messageId": "m-1", "taskId": "task-7"}
    configuration = expected.setdefault("configuration", {})
    # Without a word no history is wanted; the vector of 0.1 has neither modes nor the configuration's id.
    configuration.setdefault("historyLength", 0)
    configuration.pop("acceptedOutputModes", None)
    configuration.get("taskPushNotificationConfig", {}).pop("id", None)
    remembered = Memo(message_id="m-1")
    assert FORM.lift_params(operation, old_params(name), remembered) == expected
    assert (remembered.task_id, remembered.context_id) == ("task-7", "ctx-42")


@pytest.mark.parametrize(
    ("operation", "name"),
    [(SEND, "SendMessage"), (STREAM, "SendStreamingMessage"), (STREAM, "SendStreamingMessage_input_required")],
)
def test_a_send_of_the_vectors_is_lowered(operation: Operation, name: str) -> None:
    lowered = FORM.lower_params(operation, hub_params(name), memo())
    insist("TaskSendParams", lowered)
    assert lowered["message"].pop("metadata") == {"message_id_compat": "msg-0001"}
    lowered.pop("acceptedOutputModes", None)
    assert lowered == old_params(name)


@pytest.mark.parametrize(
    ("operation", "name", "added"),
    [
        (GET, "GetTask", {}),
        (CANCEL, "CancelTask", {}),
        (SUBSCRIBE, "SubscribeToTask", {}),
        (SET_PUSH, "CreateTaskPushNotificationConfig", {"id": "cfg-1"}),
        (GET_PUSH, "GetTaskPushNotificationConfig", {"id": "cfg-1"}),
    ],
)
def test_other_parameters_of_the_vectors_go_both_ways(operation: Operation, name: str, added: Tree) -> None:
    assert {**FORM.lift_params(operation, old_params(name), memo()), **added} == hub_params(name)
    lowered = FORM.lower_params(operation, hub_params(name), memo())
    assert lowered == old_params(name)


def test_modes_of_a_send_go_both_ways() -> None:
    lifted = FORM.lift_params(SEND, {"id": "t", "message": deepcopy(HELLO), "acceptedOutputModes": ["text"]}, memo())
    assert lifted["configuration"] == {"historyLength": 0, "acceptedOutputModes": ["text"]}
    assert FORM.lower_params(SEND, lifted, memo())["acceptedOutputModes"] == ["text"]


def test_a_task_begun_without_a_context_is_given_its_own_id_for_one() -> None:
    remembered = memo()
    lowered = FORM.lower_params(SEND, {"message": deepcopy(SAID)}, remembered)
    assert (lowered["id"], lowered["sessionId"]) == ("task-7", "task-7")
    # Events name no context; they tell the one that the task has.
    assert lift_event({"id": "task-7", "status": OVER}, remembered)["statusUpdate"]["contextId"] == "task-7"


def test_a_message_for_a_task_goes_there_in_the_context_of_the_call() -> None:
    params = {"message": {**deepcopy(SAID), "taskId": "t-1"}}
    lowered = FORM.lower_params(SEND, params, Memo(context_id="c-1", new_id="new"))
    assert (lowered["id"], lowered["sessionId"]) == ("t-1", "c-1")


@pytest.mark.parametrize(
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


def test_who_asks_for_no_history_gets_none() -> None:
    assert FORM.lift_params(GET, {"id": "t", "historyLength": None}, memo()) == {"id": "t", "historyLength": 0}


def test_metadata_of_a_cancellation_goes_both_ways() -> None:
    params = {"id": "t", "metadata": {"why": "late"}}
    assert FORM.lift_params(CANCEL, deepcopy(params), memo()) == params
    assert FORM.lower_params(CANCEL, deepcopy(params), memo()) == params


@pytest.mark.parametrize(
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
        (GET, {"id": "t", "historyLength": "1"}, "historyLength"),
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


def test_members_of_later_generations_get_no_meaning_on_the_way_up() -> None:
    message = {**deepcopy(HELLO), "task_id": "x", "context_id": "x", "contextId": "x", "referenceTaskIds": 1, "more": 2}
    lifted = FORM.lift_params(SEND, {"id": "t", "message": message, "configuration": {"blocking": 1}, "x": 3}, memo())
    assert lifted == {
        "message": {**SAID, "messageId": "m-1", "taskId": "t", "more": 2},
        "configuration": {"historyLength": 0},
        "x": 3,
    }


def test_members_of_0_1_get_no_meaning_on_the_way_down() -> None:
    unread = {"id": "x", "sessionId": "x", "pushNotification": {"url": "https://inside"}, "historyLength": 9}
    lowered = FORM.lower_params(STREAM, {"message": deepcopy(SAID), **unread}, memo())
    assert lowered == {"id": "task-7", "sessionId": "task-7", "message": HELLO}


# ---- Results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "name"), [(SEND, "SendMessage"), (GET, "GetTask"), (CANCEL, "CancelTask")])
def test_a_task_of_the_vectors_is_lifted(operation: Operation, name: str) -> None:
    expected = result(name, "v1.0-jsonrpc")
    task = expected.get("task", expected)
    lifted = FORM.lift_result(operation, result(name, "v0.1-jsonrpc"), memo())
    for artifact in task.get("artifacts", ()):
        artifact["artifactId"] = "0"
    for heard, expected_message in zip(
        lifted.get("task", lifted).get("history", ()), task.get("history", ()), strict=True
    ):
        expected_message["messageId"] = heard["messageId"]
        assert len(heard["messageId"]) == 32
    assert lifted == expected


@pytest.mark.parametrize(("operation", "name"), [(SEND, "SendMessage"), (GET, "GetTask"), (CANCEL, "CancelTask")])
def test_a_task_of_the_vectors_is_lowered(operation: Operation, name: str) -> None:
    assert FORM.lower_result(operation, result(name, "v1.0-jsonrpc"), memo()) == result(name, "v0.1-jsonrpc")


@pytest.mark.parametrize(
    ("operation", "name"),
    [(SET_PUSH, "CreateTaskPushNotificationConfig"), (GET_PUSH, "GetTaskPushNotificationConfig")],
)
def test_a_push_configuration_of_the_vectors_goes_both_ways(operation: Operation, name: str) -> None:
    lifted = FORM.lift_result(operation, result(name, "v0.1-jsonrpc"), memo())
    # 0.1 has one configuration for a task, and no id for it.
    assert lifted == {**result(name, "v1.0-jsonrpc"), "id": "task-7"}
    assert FORM.lower_result(operation, result(name, "v1.0-jsonrpc"), memo()) == result(name, "v0.1-jsonrpc")


def test_a_push_payload_of_the_vectors_is_a_task() -> None:
    body = vector("PushNotification")["cases"][0]["v0.1"]["body"]
    assert FORM.lower_result(GET, FORM.lift_result(GET, deepcopy(body), memo()), memo()) == body


def test_a_message_for_an_answer_is_a_completed_task() -> None:
    answer = result("SendMessage_direct_message", "v1.0-jsonrpc")
    task = FORM.lower_result(SEND, answer, Memo(task_id="mine", context_id="c-1"))
    insist("Task", task)
    assert (task["id"], task["sessionId"], task["status"]["state"]) == ("mine", "ctx-42", "completed")
    assert [part["type"] for part in task["status"]["message"]["parts"]] == ["text", "file", "file", "data"]


def test_a_message_that_names_nothing_is_a_task_of_the_call() -> None:
    assert FORM.lower_result(SEND, {"message": deepcopy(SAID)}, memo()) == {
        "id": "task-7",
        "status": {"state": "completed", "message": HELLO},
    }


@pytest.mark.parametrize("answer", [None, [], "", 0])
def test_a_result_that_is_no_object_is_refused(answer: object) -> None:
    for operation in FORM.answers:
        with pytest.raises(Misfit):
            FORM.lift_result(operation, answer, memo())


def test_an_operation_that_0_1_does_not_have_is_refused() -> None:
    with pytest.raises(Misfit):
        FORM.lift_result(Operation.LIST_TASKS, {}, memo())


# ---- Events --------------------------------------------------------------------------------------------------------

STREAMS = ["SendStreamingMessage", "SendStreamingMessage_input_required", "SubscribeToTask"]


@pytest.mark.parametrize("name", STREAMS)
def test_events_of_the_vectors_are_lifted(name: str) -> None:
    remembered = Memo(context_id="ctx-42")
    expected = events(name, "v1.0-jsonrpc")
    # What 1.0 tells by a Task, 0.1 has told by its status.
    task = expected[0]["task"]
    expected[0] = {"statusUpdate": {"taskId": task["id"], "contextId": task["contextId"], "status": task["status"]}}
    lifted = [FORM.lift_event(event, remembered) for event in events(name, "v0.1-jsonrpc")]
    for event, wanted in zip(lifted, expected, strict=True):
        if "artifactUpdate" in wanted:
            wanted["artifactUpdate"]["artifact"]["artifactId"] = "0"
        message = wanted.get("statusUpdate", {}).get("status", {}).get("message")
        if message is not None:
            message["messageId"] = event["statusUpdate"]["status"]["message"]["messageId"]
    assert lifted == expected


@pytest.mark.parametrize("name", STREAMS)
def test_events_of_the_vectors_are_lowered(name: str) -> None:
    remembered = memo()
    hub = events(name, "v1.0-jsonrpc")
    lowered = [FORM.lower_event(event, remembered, last=event is hub[-1]) for event in hub]
    assert [event for several in lowered for event in several] == events(name, "v0.1-jsonrpc")


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


def test_a_stream_that_ends_with_an_artifact_has_no_final_event() -> None:
    event = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}}}
    (lowered,) = FORM.lower_event(event, called(), last=True)
    assert "final" not in lowered


def test_a_task_in_an_agents_stream_is_understood() -> None:
    assert lift_event({"id": "t", "sessionId": "s", "status": OVER}, memo()) == {
        "task": {"id": "t", "contextId": "s", "status": {"state": "TASK_STATE_COMPLETED"}}
    }


def test_events_are_in_the_context_that_a_task_told_before() -> None:
    remembered = memo()
    FORM.lift_result(GET, deepcopy({"id": "t", "sessionId": "s", "status": OVER}), remembered)
    assert lift_event({"id": "t", "status": OVER}, remembered)["statusUpdate"]["contextId"] == "s"
    assert lift_event({"id": "t", "status": OVER}, memo())["statusUpdate"]["contextId"] == "t"


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({}, "id"),
        ({"id": "t"}, "status"),
        ({"status": OVER}, "id"),
        ({"id": "t", "status": OVER, "final": "true"}, "final"),
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
