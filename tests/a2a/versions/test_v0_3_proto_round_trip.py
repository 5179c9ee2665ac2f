"""From the hub to 0.3 over HTTP+JSON and back only losses change a thing; what outsiders send is a misfit at worst."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.versions import v0_3, v1_0
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.a2a.versions.trees import ANYTHING, HUB, MORE, damaged

SPOKEN = sorted(CALLABLE, key=CALLABLE.index)[:-1]
CONFIGS = (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS)
NAMES = [
    "kind", "text", "data", "file", "bytes", "uri", "fileWithBytes", "file_with_uri", "raw", "url", "metadata", "parts",
    "content", "role", "status", "state", "message", "msg", "request", "task", "statusUpdate", "artifact", "update",
    "artifact_update", "messageId", "message_id", "taskId", "task_id", "contextId", "id", "name", "parent", "history",
    "blocking", "returnImmediately", "pushNotification", "pushNotificationConfig", "taskPushNotificationConfig",
    "push_notification_config", "authentication", "schemes", "timestamp", "configs", "config", "config_id", "tenant",
    "data_part_compat", "media_type_compat", "value", "append", "historyLength",
]  # fmt: skip


def memo() -> Memo:
    return Memo(message_id="made")


def settled(tree: Any) -> Any:
    """What of the hub comes back from 0.3: no references, nothing empty where empty means absent."""
    if not isinstance(tree, dict):
        return tree
    kept = {name: value for name, value in tree.items() if name != "referenceTaskIds"}
    for name in ("message", "status", "task", "statusUpdate", "artifactUpdate", "artifact"):
        if name in kept:
            kept[name] = settled(kept[name])
    for name in ("history", "artifacts", "tasks", "configs"):
        if name in kept:
            kept[name] = [settled(value) for value in kept[name]]
    if "url" in kept:
        kept = settled_config(kept)
    if isinstance(configuration := kept.pop("configuration", None), dict):
        configuration = {name: value for name, value in configuration.items() if value != []}
        if "taskPushNotificationConfig" in configuration:
            configuration["taskPushNotificationConfig"] = settled_config(configuration["taskPushNotificationConfig"])
        if configuration:
            kept["configuration"] = configuration
    return kept


def settled_config(config: Tree) -> Tree:
    config = {name: value for name, value in config.items() if value != ""}
    if "authentication" in config:
        config["authentication"] = {name: value for name, value in config["authentication"].items() if value != ""}
    if "taskId" in config:
        config.setdefault("id", config["taskId"])
    return config


def nameable(tree: Any) -> bool:
    """Whether the push configurations in it can be named and have what 0.3 requires."""
    if isinstance(tree, list):
        return all(map(nameable, tree))
    if not isinstance(tree, dict):
        return True
    if "url" in tree and "parts" not in tree and ("taskId" in tree or "token" in tree):
        return bool(tree["url"]) and "/" not in tree.get("taskId", "") + tree.get("id", "")
    return all(map(nameable, tree.values()))


@MORE
@given(operation=st.sampled_from(SPOKEN), data=st.data())
def test_parameters_come_back_as_they_went(operation: Operation, data: st.DataObject) -> None:
    params = data.draw(HUB.params[operation])
    push = params.get("configuration", {}).get("taskPushNotificationConfig", {"url": "u"})
    assume(push["url"] and ("url" not in params or (params["url"] and "/" not in params["taskId"])))
    expected = settled(deepcopy(params))
    if operation is Operation.CANCEL_TASK:
        expected.pop("metadata", None)
    if expected.get("status") == "TASK_STATE_UNSPECIFIED":
        del expected["status"]
    lowered = FORM.lower_params(operation, params, memo())
    assert FORM.lift_params(operation, lowered, memo()) == expected


@MORE
@given(operation=st.sampled_from([operation for operation in SPOKEN if operation in HUB.results]), data=st.data())
def test_results_come_back_as_they_went(operation: Operation, data: st.DataObject) -> None:
    result = data.draw(HUB.results[operation])
    assume(operation not in CONFIGS or nameable(result))
    expected = settled(deepcopy(result))
    lowered = FORM.lower_result(operation, result, memo())
    assert FORM.lift_result(operation, lowered, memo()) == expected


@given(HUB.event, st.booleans())
def test_events_come_back_as_they_went(event: Tree, last: bool) -> None:  # noqa: FBT001 - drawn
    expected = settled(deepcopy(event))
    (lowered,) = FORM.lower_event(event, memo(), last=last)
    assert FORM.lift_event(lowered, memo()) == expected


@MORE
@given(operation=st.sampled_from(CALLABLE), tree=ANYTHING)
def test_whatever_comes_is_lifted_or_a_misfit(operation: Operation, tree: Any) -> None:
    params = deepcopy(tree) if isinstance(tree, dict) else {"message": tree}
    with suppress(Misfit):
        FORM.lift_params(operation, params, memo())
    with suppress(Misfit):
        FORM.lift_result(operation, deepcopy(tree), memo())
    with suppress(Misfit):
        FORM.lift_event(deepcopy(tree), memo())


@MORE
@given(operation=st.sampled_from(SPOKEN), data=st.data())
def test_damage_is_a_misfit_at_worst_and_what_passes_can_be_lowered(operation: Operation, data: st.DataObject) -> None:
    lowered = FORM.lower_params(operation, data.draw(HUB.params[operation]), memo())
    params = data.draw(damaged(st.just(lowered), NAMES))
    try:
        lifted = FORM.lift_params(operation, params, memo())
    except Misfit:
        pass
    else:
        FORM.lower_params(operation, deepcopy(lifted), memo())
        v0_3.FORM.lower_params(operation, lifted, memo())
    if operation in HUB.results:
        result = FORM.lower_result(operation, data.draw(HUB.results[operation]), memo())
        try:
            lifted = FORM.lift_result(operation, data.draw(damaged(st.just(result), NAMES)), memo())
        except Misfit:
            return
        FORM.lower_result(operation, deepcopy(lifted), memo())
        v0_3.FORM.lower_result(operation, lifted, memo())


@given(st.data())
def test_damaged_events_are_misfits_at_worst(data: st.DataObject) -> None:
    (lowered,) = FORM.lower_event(data.draw(HUB.event), memo(), last=True)
    try:
        lifted = FORM.lift_event(data.draw(damaged(st.just(lowered), NAMES)), memo())
    except Misfit:
        return
    FORM.lower_event(deepcopy(lifted), memo(), last=True)
    v0_3.FORM.lower_event(lifted, memo(), last=True)


@MORE
@given(operation=st.sampled_from([operation for operation in SPOKEN if operation in HUB.results]), data=st.data())
def test_whatever_1_0_takes_can_be_said_in_0_3(operation: Operation, data: st.DataObject) -> None:
    with suppress(Misfit):
        params = v1_0.FORM.lift_params(operation, data.draw(damaged(HUB.params[operation], NAMES)), memo())
        FORM.lower_params(operation, params, memo())
    with suppress(Misfit):
        result = v1_0.FORM.lift_result(operation, data.draw(damaged(HUB.results[operation], NAMES)), memo())
        FORM.lower_result(operation, result, memo())
    with suppress(Misfit):
        event = v1_0.FORM.lift_event(data.draw(damaged(HUB.event, NAMES)), memo())
        FORM.lower_event(event, memo(), last=True)
