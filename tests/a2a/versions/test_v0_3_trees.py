"""Whatever can be said comes back as it was, and whatever outsiders send is lifted or refused, in linear time."""

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.versions import v1_0
from gateway.a2a.versions.v0_3 import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.a2a.versions.trees import ANYTHING, HUB, MORE, Hub, damaged
from tests.support.yardstick import growth

SPOKEN = sorted(CALLABLE, key=CALLABLE.index)[:-1]
NAMES = [
    "kind", "text", "data", "file", "bytes", "uri", "raw", "url", "metadata", "parts", "role", "status", "state",
    "message", "task", "statusUpdate", "artifact", "artifactUpdate", "messageId", "message_id", "taskId", "task_id",
    "contextId", "id", "history", "artifacts", "blocking", "returnImmediately", "pushNotificationConfig",
    "taskPushNotificationConfig", "push_notification_config", "authentication", "schemes", "timestamp", "configs",
    "data_part_compat", "media_type_compat", "value", "append", "tenant",
]  # fmt: skip


def memo() -> Memo:
    return Memo(message_id="made")


# ---- There and back --------------------------------------------------------------------------------------------------


@MORE
@given(st.sampled_from(SPOKEN), st.data())
def test_parameters_of_1_0_come_back_as_they_were(operation: Operation, data: st.DataObject) -> None:
    hub = data.draw(HUB.params[operation])
    lowered = FORM.lower_params(operation, deepcopy(hub), memo())
    if operation.sends:
        # Said outright where 1.0 need not.
        hub.setdefault("configuration", {})
    if hub.get("status") == "TASK_STATE_UNSPECIFIED":
        # No filter at all.
        del hub["status"]
    assert FORM.lift_params(operation, lowered, memo()) == hub


@MORE
@given(st.sampled_from([operation for operation in SPOKEN if operation in HUB.results]), st.data())
def test_results_of_1_0_come_back_as_they_were(operation: Operation, data: st.DataObject) -> None:
    hub = data.draw(HUB.results[operation])
    assert FORM.lift_result(operation, FORM.lower_result(operation, deepcopy(hub), memo()), memo()) == hub


@given(HUB.event, st.booleans())
def test_events_of_1_0_come_back_as_they_were(hub: Tree, last: bool) -> None:  # noqa: FBT001 - drawn
    (lowered,) = FORM.lower_event(deepcopy(hub), memo(), last=last)
    assert FORM.lift_event(lowered, memo()) == hub


UNKNOWN = Hub(marks="x-unknown")


@given(UNKNOWN.event)
def test_members_that_nobody_knows_survive(hub: Tree) -> None:
    (lowered,) = FORM.lower_event(deepcopy(hub), memo(), last=False)
    assert "x-unknown" in lowered
    assert FORM.lift_event(lowered, memo()) == hub


@given(UNKNOWN.params[Operation.SEND_MESSAGE], UNKNOWN.params[Operation.CREATE_PUSH_CONFIG])
def test_members_of_parameters_that_nobody_knows_survive(send: Tree, push: Tree) -> None:
    for operation, hub in ((Operation.SEND_MESSAGE, send), (Operation.CREATE_PUSH_CONFIG, push)):
        lowered = FORM.lower_params(operation, deepcopy(hub), memo())
        if operation.sends:
            hub.setdefault("configuration", {})
        assert FORM.lift_params(operation, lowered, memo()) == hub


# ---- Whatever outsiders send -----------------------------------------------------------------------------------------


def hub_reads(operation: Operation, lifted: Tree) -> Tree:
    """What the form of the hub makes of a result: it reads whatever an agent of 1.0 may say."""
    return v1_0.FORM.lift_result(operation, lifted, memo())


@MORE
@given(st.sampled_from(SPOKEN), st.data())
def test_parameters_are_lifted_or_a_misfit(operation: Operation, data: st.DataObject) -> None:
    sent = data.draw(HUB.params[operation])
    spoken = damaged(st.just(FORM.lower_params(operation, sent, memo())), NAMES)
    sent = data.draw(spoken | st.dictionaries(st.sampled_from(NAMES), ANYTHING))
    try:
        lifted = FORM.lift_params(operation, sent, memo())
    except Misfit:
        return
    again = FORM.lift_params(operation, FORM.lower_params(operation, deepcopy(lifted), memo()), memo())
    if operation.sends:
        lifted.setdefault("configuration", {})
        lifted["message"]["messageId"] = lifted["message"]["messageId"] or "made"
    assert settled(again) == settled(lifted)


@MORE
@given(st.sampled_from([operation for operation in SPOKEN if operation in HUB.results]), st.data())
def test_results_are_lifted_or_a_misfit(operation: Operation, data: st.DataObject) -> None:
    hub = data.draw(HUB.results[operation])
    answer: Any = {"it": FORM.lower_result(operation, hub, memo())}
    answer = data.draw(damaged(st.just(answer), NAMES).map(lambda tree: tree.get("it")) | ANYTHING)
    try:
        lifted = FORM.lift_result(operation, answer, memo())
    except Misfit:
        return
    assert settled(hub_reads(operation, deepcopy(lifted))) == settled(lifted)
    again = FORM.lift_result(operation, FORM.lower_result(operation, deepcopy(lifted), memo()), memo())
    if operation is Operation.LIST_PUSH_CONFIGS:
        # A list has no room for more.
        lifted = {"configs": lifted["configs"]}
    assert settled(again) == settled(lifted)


@given(st.data())
def test_events_are_lifted_or_a_misfit(data: st.DataObject) -> None:
    (event,) = FORM.lower_event(data.draw(HUB.event), memo(), last=True)
    event = data.draw(damaged(st.just(event), NAMES) | ANYTHING)
    try:
        lifted = FORM.lift_event(event, memo())
    except Misfit:
        return
    assert settled(v1_0.FORM.lift_event(deepcopy(lifted), memo())) == settled(lifted)
    (lowered,) = FORM.lower_event(deepcopy(lifted), memo(), last=False)
    assert settled(FORM.lift_event(lowered, memo())) == settled(lifted)


def settled(tree: Any) -> Any:
    """Without what may be said or not, and what a part's metadata keeps for the gateway."""
    if isinstance(tree, dict):
        kept = {name: settled(value) for name, value in tree.items()}
        return {name: value for name, value in kept.items() if value not in ("", {}, [], None) or name in _TELLING}
    return [settled(value) for value in tree] if isinstance(tree, list) else tree


_TELLING = ("text", "raw", "url", "data")


def long_answer(length: int) -> Tree:
    parts: list[Tree] = [{"kind": "file", "file": {"uri": "u"}, "metadata": {"a": None}} for _ in range(length)]
    message = {"kind": "message", "messageId": "m", "role": "agent", "parts": parts, "extensions": ["e"] * length}
    return {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}, "history": [message]}


def test_a_tree_takes_time_by_its_length() -> None:
    def there_and_back(length: int) -> None:
        # An answer of its own each time: lifting changes it.
        lifted = FORM.lift_result(Operation.GET_TASK, long_answer(length), memo())
        FORM.lower_result(Operation.GET_TASK, lifted, memo())

    # Eight times the length; were it quadratic, 64 times the time.
    assert growth(lambda: there_and_back(2_000), lambda: there_and_back(16_000)) < 32
