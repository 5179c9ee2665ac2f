"""From the hub to a version and back only known losses change a thing; what outsiders send is lifted or a misfit."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.versions import v0_3, v0_3_proto, v1_0
from gateway.a2a.versions.version import Form, Memo, Misfit
from tests.a2a.versions.trees import ANYTHING, HUB, MORE, Hub, damaged
from tests.support.yardstick import growth

SPOKEN = sorted(CALLABLE, key=CALLABLE.index)[:-1]
ANSWERED = [operation for operation in SPOKEN if operation in HUB.results]
CONFIGS = (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS)
PAGELESS = (Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS, Operation.DELETE_PUSH_CONFIG)
PAGES = ("pageSize", "page_size", "pageToken", "page_token")
"""Members that 0.3 leaves out: it has no pages of push configurations."""
NAMES = [
    "kind", "text", "data", "file", "bytes", "uri", "fileWithBytes", "file_with_uri", "raw", "url", "metadata", "parts",
    "content", "role", "status", "state", "message", "msg", "request", "task", "statusUpdate", "artifact", "update",
    "artifactUpdate", "artifact_update", "messageId", "message_id", "taskId", "task_id", "contextId", "context_id",
    "id", "name", "parent", "history", "artifacts", "blocking", "returnImmediately", "pushNotification",
    "pushNotificationConfig", "taskPushNotificationConfig", "push_notification_config", "authentication", "schemes",
    "timestamp", "configs", "config", "config_id", "tenant", "data_part_compat", "media_type_compat", "value", "append",
    "configuration", "historyLength", "history_length", "pageSize", "page_size", "tasks", "final", "lastUpdatedAfter",
    "statusTimestampAfter",
]  # fmt: skip
VERSIONS = [v0_3.FORM, v0_3_proto.FORM, v1_0.FORM]


def memo() -> Memo:
    return Memo(message_id="made")


def kept_in_0_3(tree: Any) -> Any:
    """Return what of the hub comes back from 0.3 over JSON-RPC: everything."""
    return tree


def kept_in_proto(tree: Any) -> Any:
    """Return what of the hub comes back from `a2a.v1`: no references, nothing empty where empty means absent."""
    if not isinstance(tree, dict):
        return tree
    kept = {name: value for name, value in tree.items() if name != "referenceTaskIds"}
    for name in ("message", "status", "task", "statusUpdate", "artifactUpdate", "artifact"):
        if name in kept:
            kept[name] = kept_in_proto(kept[name])
    for name in ("history", "artifacts", "tasks", "configs"):
        if name in kept:
            kept[name] = [kept_in_proto(value) for value in kept[name]]
    if "url" in kept:
        kept = kept_of_config(kept)
    if isinstance(configuration := kept.pop("configuration", None), dict):
        configuration = {name: value for name, value in configuration.items() if value != []}
        if "taskPushNotificationConfig" in configuration:
            configuration["taskPushNotificationConfig"] = kept_of_config(configuration["taskPushNotificationConfig"])
        if configuration:
            kept["configuration"] = configuration
    return kept


def kept_of_config(config: Tree) -> Tree:
    config = {name: value for name, value in config.items() if value != ""}
    if "authentication" in config:
        config["authentication"] = {name: value for name, value in config["authentication"].items() if value != ""}
    if "taskId" in config:
        config.setdefault("id", config["taskId"])
    return config


def nameable(tree: Tree) -> bool:
    """Return whether a resource name can carry the ids of all push configurations in it."""
    return not any("/" in each.get("taskId", "") + each.get("id", "") for each in tree.get("configs", [tree]))


OF_0_3 = pytest.mark.parametrize(
    ("form", "kept"), [(v0_3.FORM, kept_in_0_3), (v0_3_proto.FORM, kept_in_proto)], ids=["json-rpc", "proto"]
)
OF_ALL = pytest.mark.parametrize("form", VERSIONS, ids=["0.3", "0.3 of the proto", "1.0"])
Kept = Callable[[Any], Any]

# ---- There and back --------------------------------------------------------------------------------------------------


@OF_0_3
@MORE
@given(operation=st.sampled_from(SPOKEN), data=st.data())
def test_parameters_come_back_as_they_went(form: Form, kept: Kept, operation: Operation, data: st.DataObject) -> None:
    params = data.draw(HUB.params[operation])
    proto = form is v0_3_proto.FORM
    assume(not proto or "url" not in params or "/" not in params["taskId"])
    expected = kept(deepcopy(params))
    if operation.sends and not proto:
        # Said outright where 1.0 need not.
        expected.setdefault("configuration", {})
    if operation is Operation.CANCEL_TASK and proto:
        expected.pop("metadata", None)
    if expected.get("status") == "TASK_STATE_UNSPECIFIED":
        # No filter at all.
        del expected["status"]
    assert form.lift_params(operation, form.lower_params(operation, params, memo()), memo()) == expected


@OF_0_3
@MORE
@given(operation=st.sampled_from(ANSWERED), data=st.data())
def test_results_come_back_as_they_went(form: Form, kept: Kept, operation: Operation, data: st.DataObject) -> None:
    result = data.draw(HUB.results[operation])
    assume(form is v0_3.FORM or operation not in CONFIGS or nameable(result))
    expected = kept(deepcopy(result))
    assert form.lift_result(operation, form.lower_result(operation, result, memo()), memo()) == expected


@OF_0_3
@given(event=HUB.event, last=st.booleans())
def test_events_come_back_as_they_went(form: Form, kept: Kept, event: Tree, *, last: bool) -> None:
    expected = kept(deepcopy(event))
    (lowered,) = form.lower_event(event, memo(), last=last)
    assert form.lift_event(lowered, memo()) == expected


UNKNOWN = Hub(marks="x-unknown")


@given(UNKNOWN.event, UNKNOWN.params[Operation.SEND_MESSAGE], UNKNOWN.params[Operation.CREATE_PUSH_CONFIG])
def test_members_that_nobody_knows_survive_0_3(event: Tree, send: Tree, push: Tree) -> None:
    form = v0_3.FORM
    (lowered,) = form.lower_event(deepcopy(event), memo(), last=False)
    assert "x-unknown" in lowered
    assert form.lift_event(lowered, memo()) == event
    for operation, hub in ((Operation.SEND_MESSAGE, send), (Operation.CREATE_PUSH_CONFIG, push)):
        lowered = form.lower_params(operation, deepcopy(hub), memo())
        if operation.sends:
            hub.setdefault("configuration", {})
        assert form.lift_params(operation, lowered, memo()) == hub


# ---- Whatever outsiders send -----------------------------------------------------------------------------------------


@OF_ALL
@MORE
@given(operation=st.sampled_from(SPOKEN), data=st.data())
def test_parameters_are_lifted_or_a_misfit(form: Form, operation: Operation, data: st.DataObject) -> None:
    lowered = form.lower_params(operation, data.draw(HUB.params[operation]), memo())
    sent = data.draw(damaged(st.just(lowered), NAMES) | st.dictionaries(st.sampled_from(NAMES), ANYTHING))
    try:
        lifted = form.lift_params(operation, sent, memo())
    except Misfit:
        return
    for other in VERSIONS:
        other.lower_params(operation, deepcopy(lifted), memo())
    if form is v0_3_proto.FORM:
        return
    again = form.lift_params(operation, form.lower_params(operation, deepcopy(lifted), memo()), memo())
    if operation.sends and form is v0_3.FORM:
        lifted.setdefault("configuration", {})
        lifted["message"]["messageId"] = lifted["message"]["messageId"] or "made"
    if operation in PAGELESS and form is v0_3.FORM:
        lifted = {name: value for name, value in lifted.items() if name not in PAGES}
    assert settled(again) == settled(lifted)


@OF_ALL
@MORE
@given(operation=st.sampled_from(ANSWERED), data=st.data())
def test_results_are_lifted_or_a_misfit(form: Form, operation: Operation, data: st.DataObject) -> None:
    answer: Any = {"it": form.lower_result(operation, data.draw(HUB.results[operation]), memo())}
    answer = data.draw(damaged(st.just(answer), NAMES).map(lambda tree: tree.get("it")) | ANYTHING)
    try:
        lifted = form.lift_result(operation, answer, memo())
    except Misfit:
        return
    assert settled(v1_0.FORM.lift_result(operation, deepcopy(lifted), memo())) == settled(lifted)
    for other in VERSIONS:
        other.lower_result(operation, deepcopy(lifted), memo())
    if form is not v0_3.FORM:
        return
    again = form.lift_result(operation, form.lower_result(operation, deepcopy(lifted), memo()), memo())
    if operation is Operation.LIST_PUSH_CONFIGS:
        # A list has no room for more.
        lifted = {"configs": lifted["configs"]}
    assert settled(again) == settled(lifted)


@OF_ALL
@given(data=st.data())
def test_events_are_lifted_or_a_misfit(form: Form, data: st.DataObject) -> None:
    (event,) = form.lower_event(data.draw(HUB.event), memo(), last=True)
    try:
        lifted = form.lift_event(data.draw(damaged(st.just(event), NAMES) | ANYTHING), memo())
    except Misfit:
        return
    assert settled(v1_0.FORM.lift_event(deepcopy(lifted), memo())) == settled(lifted)
    for other in VERSIONS:
        other.lower_event(deepcopy(lifted), memo(), last=True)
    if form is v0_3.FORM:
        (lowered,) = form.lower_event(deepcopy(lifted), memo(), last=False)
        assert settled(form.lift_event(lowered, memo())) == settled(lifted)


def settled(tree: Any) -> Any:
    """Return a tree without members that may be said or not."""
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
        lifted = v0_3.FORM.lift_result(Operation.GET_TASK, long_answer(length), memo())
        v0_3.FORM.lower_result(Operation.GET_TASK, lifted, memo())

    # Eight times the length; were it quadratic, 64 times the time.
    assert growth(lambda: there_and_back(2_000), lambda: there_and_back(16_000)) < 32
