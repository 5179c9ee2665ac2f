"""0.1 and the hub: every vector both ways, and what nobody may send."""

from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_1 import ALL_HISTORY, FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.a2a.versions import ancient_trees as trees
from tests.support.ancient import PARAMS, Tree, insist
from tests.table import for_each

VECTORS = Path(__file__).parents[2] / "vectors"
DECODER = msgspec.json.Decoder(float_hook=Decimal)

SEND = Operation.SEND_MESSAGE
STREAM = Operation.SEND_STREAMING_MESSAGE
GET = Operation.GET_TASK
CANCEL = Operation.CANCEL_TASK
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


def lift_event(event: Tree, remembered: Memo) -> Tree:
    # Trees are consumed, and these are not the test's alone.
    return FORM.lift_event(deepcopy(event), remembered)


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
def test_history_without_a_bound_is_whole(operation: Operation, params: Tree, length: int | None) -> None:
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
def test_a_forbidden_param_is_named_by_its_place(operation: Operation, params: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        FORM.lift_params(operation, deepcopy(params), memo())
    assert caught.value.field == field


def test_members_of_0_1_get_no_meaning_on_the_way_down() -> None:
    unread = {"id": "x", "sessionId": "x", "pushNotification": {"url": "https://inside"}, "historyLength": 9}
    lowered = FORM.lower_params(STREAM, {"message": deepcopy(SAID), **unread}, memo())
    kept = {"message_id_compat": "m-1"}
    assert lowered == {"id": "task-7", "sessionId": "task-7", "message": {**HELLO, "metadata": kept}}


# ---- Events --------------------------------------------------------------------------------------------------------


def told(state: str, *, last: bool) -> list[object]:
    """Return the translation of a Task with two artifacts: `final` of each status, the index of each artifact."""
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


# ---- Parts and messages --------------------------------------------------------------------------------------------


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


def test_members_unknown_to_0_1_return_from_metadata() -> None:
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


def test_kept_members_that_do_not_fit_stay_in_metadata() -> None:
    metadata = {"message_id_compat": 1, "extensions_compat": [1], "reference_task_ids_compat": "t"}
    heard = hear(metadata=metadata)
    assert heard["metadata"] == {"extensions_compat": [1], "reference_task_ids_compat": "t"}
    assert len(heard["messageId"]) == 32
    assert "extensions" not in heard


def test_a_message_has_the_same_id_in_every_place() -> None:
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


def test_the_memory_of_artifacts_is_bounded() -> None:
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


# ---- Wrong shapes, told by their place -------------------------------------------------------------------------------

WRONG_PARTS: list[tuple[Tree, str]] = [
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
]
WRONG_MESSAGES: list[tuple[Tree, str]] = [
    ({"parts": []}, "role"),
    ({"role": "system", "parts": []}, "role"),
    ({"role": "user"}, "parts"),
    ({"role": "user", "parts": {}}, "parts"),
    ({"role": "user", "parts": ["hi"]}, "parts[0]"),
    ({"role": "user", "parts": [], "metadata": []}, "metadata"),
]
WRONG_TASKS: list[tuple[Tree, str]] = [
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
]
WRONG_ARTIFACTS: list[tuple[Tree, str]] = [
    ({"parts": None}, "parts"),
    ({"index": True}, "index"),
    ({"index": 2**31}, "index"),
    ({"name": 1}, "name"),
    ({"description": []}, "description"),
    ({"append": "yes"}, "append"),
    ({"lastChunk": 1}, "lastChunk"),
    ({"metadata": "x"}, "metadata"),
]
WRONG_EVENTS: list[tuple[Tree, str]] = [
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
]


@for_each(
    ("lift", "wrong", "field"),
    [
        *[(lift_sent_part, part, f"message.parts[0].{field}") for part, field in WRONG_PARTS],
        *[(lift_sent_message, message, f"message.{field}") for message, field in WRONG_MESSAGES],
        *[(lift_task, task(**wrong), field) for wrong, field in WRONG_TASKS],
        *[
            (lift_task, task(artifacts=[{"parts": [], **wrong}]), f"artifacts[0].{field}")
            for wrong, field in WRONG_ARTIFACTS
        ],
        *[(lift_event, event, field) for event, field in WRONG_EVENTS],
        (lift_event, [], ""),
    ],
)
def test_a_wrong_shape_is_told_by_its_place(lift: Callable[..., Tree], wrong: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift(deepcopy(wrong), *([memo()] if lift in (lift_task, lift_event) else []))
    assert caught.value.field == field


# ---- There and back ------------------------------------------------------------------------------------------------


@given(trees.SENDS, st.sampled_from((SEND, STREAM)))
def test_a_send_of_0_1_survives_the_hub(params: Tree, operation: Operation) -> None:
    lowered = FORM.lower_params(operation, FORM.lift_params(operation, deepcopy(params), memo()), memo())
    metadata = lowered["message"]["metadata"]
    assert metadata.pop("message_id_compat") == "m-1"
    if not metadata:
        del lowered["message"]["metadata"]
    assert lowered == params


@given(trees.TASKS, st.sampled_from((SEND, GET, CANCEL)))
def test_a_task_of_0_1_survives_the_hub(task: Tree, operation: Operation) -> None:
    assert FORM.lower_result(operation, FORM.lift_result(operation, deepcopy(task), memo()), memo()) == task


@given(trees.STATUS_EVENTS | trees.ARTIFACT_EVENTS)
def test_an_event_of_0_1_survives_the_hub(event: Tree) -> None:
    lifted = FORM.lift_event(deepcopy(event), memo())
    assert FORM.lower_event(lifted, memo(), last=event.get("final", False)) == (event,)


@given(trees.TASK_PUSHES)
def test_a_push_configuration_of_0_1_survives_the_hub(push: Tree) -> None:
    assert FORM.lower_params(SET_PUSH, FORM.lift_params(SET_PUSH, deepcopy(push), memo()), memo()) == push
    assert FORM.lower_result(GET_PUSH, FORM.lift_result(GET_PUSH, deepcopy(push), memo()), memo()) == push


def without_ids(tree: Any) -> Any:
    """A tree of the hub without the ids of messages, which 0.1 does not tell."""
    if isinstance(tree, list):
        return [without_ids(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    left_out = {"messageId"} if "parts" in tree and "role" in tree else set()
    return {name: without_ids(value) for name, value in tree.items() if name not in left_out}


@given(trees.HUB_TASKS)
def test_a_task_of_the_hub_survives_0_1_but_for_ids_of_messages(task: Tree) -> None:
    lowered = FORM.lower_result(GET, deepcopy(task), called())
    insist("Task", lowered)
    assert without_ids(FORM.lift_result(GET, lowered, called())) == without_ids(task)


@given(trees.HUB_SENDS, st.sampled_from((SEND, STREAM)))
def test_a_message_of_the_hub_survives_0_1(params: Tree, operation: Operation) -> None:
    lowered = FORM.lower_params(operation, deepcopy(params), called())
    insist("TaskSendParams", lowered)
    lifted = FORM.lift_params(operation, lowered, called())
    assert lifted["message"] == params["message"]
    assert lifted.get("metadata") == params.get("metadata")


@given(trees.HUB_EVENTS, st.booleans())
def test_streams_in_0_1_are_valid_and_final_only_at_the_end(event: Tree, last: bool) -> None:  # noqa: FBT001 - drawn
    lowered = FORM.lower_event(deepcopy(event), called(), last=last)
    for told_event in lowered:
        insist("Event", told_event)
    assert not any(told_event.get("final") for told_event in lowered[:-1])
    lifted = [FORM.lift_event(told_event, called()) for told_event in lowered]
    if "statusUpdate" in event or "artifactUpdate" in event:
        assert without_ids(lifted) == without_ids([event])


# ---- Strangers -----------------------------------------------------------------------------------------------------

_ANY_TREE = st.dictionaries(
    st.sampled_from(("id", "message", "status", "artifact", "sessionId", "parts", "pushNotificationConfig", "final")),
    trees.ANYTHING,
    max_size=4,
)


@given(_ANY_TREE | trees.spoilt(trees.SENDS), st.sampled_from(sorted(FORM.answers)))
def test_parameters_of_any_shape_are_lifted_or_a_misfit(params: Tree, operation: Operation) -> None:
    try:
        lifted = FORM.lift_params(operation, params, memo())
    except Misfit:
        return
    # A lifted object can be lowered again.
    insist(_PARAMS_OF[operation], FORM.lower_params(operation, lifted, memo()))


@given(trees.ANYTHING | _ANY_TREE | trees.spoilt(trees.TASKS), st.sampled_from(sorted(FORM.answers)))
def test_results_of_any_shape_are_lifted_or_a_misfit(answer: object, operation: Operation) -> None:
    try:
        lifted = FORM.lift_result(operation, answer, memo())
    except Misfit:
        return
    FORM.lower_result(operation, lifted, memo())


@given(trees.spoilt(trees.STATUS_EVENTS) | trees.spoilt(trees.ARTIFACT_EVENTS))
def test_a_spoilt_event_is_a_misfit_or_0_1_when_said_again(event: Tree) -> None:
    try:
        lifted = FORM.lift_event(event, memo())
    except Misfit:
        return
    for lowered in FORM.lower_event(lifted, memo(), last=False):
        insist("Event", lowered)


_PARAMS_OF = {
    SEND: PARAMS["tasks/send"],
    STREAM: PARAMS["tasks/sendSubscribe"],
    GET: PARAMS["tasks/get"],
    CANCEL: PARAMS["tasks/cancel"],
    Operation.SUBSCRIBE_TO_TASK: PARAMS["tasks/resubscribe"],
    SET_PUSH: PARAMS["tasks/pushNotification/set"],
    GET_PUSH: PARAMS["tasks/pushNotification/get"],
}
