"""0.1 and the hub: what comes back of a round trip, and whatever strangers send."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_1 import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.a2a.versions import ancient_trees as trees
from tests.support.ancient import PARAMS, Tree, insist

SEND = Operation.SEND_MESSAGE
STREAM = Operation.SEND_STREAMING_MESSAGE
GET = Operation.GET_TASK
CANCEL = Operation.CANCEL_TASK
SET_PUSH = Operation.CREATE_PUSH_CONFIG
GET_PUSH = Operation.GET_PUSH_CONFIG


def memo() -> Memo:
    return Memo(message_id="m-1", new_id="task-7")


def called() -> Memo:
    """The memo of a call about a task that is known."""
    return Memo(task_id="t", context_id="c", message_id="m-1", new_id="new")


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
def test_whatever_the_hub_streams_is_0_1_and_final_at_most_once_at_the_end(event: Tree, last: bool) -> None:  # noqa: FBT001 - drawn
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


@given(trees.ANYTHING.filter(lambda event: not isinstance(event, dict)))
def test_an_event_that_is_no_object_is_refused(event: Any) -> None:
    with pytest.raises(Misfit):
        FORM.lift_event(event, memo())


@given(_ANY_TREE | trees.spoilt(trees.SENDS), st.sampled_from(sorted(FORM.answers)))
def test_parameters_of_any_shape_are_lifted_or_a_misfit(params: Tree, operation: Operation) -> None:
    try:
        lifted = FORM.lift_params(operation, params, memo())
    except Misfit:
        return
    # What has been lifted is good enough to be said again.
    insist(_PARAMS_OF[operation], FORM.lower_params(operation, lifted, memo()))


@given(trees.ANYTHING | _ANY_TREE | trees.spoilt(trees.TASKS), st.sampled_from(sorted(FORM.answers)))
def test_results_of_any_shape_are_lifted_or_a_misfit(answer: object, operation: Operation) -> None:
    try:
        lifted = FORM.lift_result(operation, answer, memo())
    except Misfit:
        return
    FORM.lower_result(operation, lifted, memo())


@given(trees.spoilt(trees.TASKS))
def test_a_spoilt_task_is_a_misfit_or_0_1_when_said_again(task: Tree) -> None:
    try:
        lifted = FORM.lift_result(GET, task, memo())
    except Misfit:
        return
    insist("Task", FORM.lower_result(GET, lifted, memo()))


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
