"""Whatever comes as an object of 1.0 is brought to the hub's spelling for good, or refused."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.versions.v1_0 import FORM
from gateway.a2a.versions.version import Memo, Misfit

NAMES = [
    "message", "task", "statusUpdate", "artifactUpdate", "status", "state", "role", "parts", "text", "raw", "data",
    "id", "taskId", "task_id", "contextId", "context_id", "history", "artifacts", "artifact", "timestamp", "metadata",
    "url", "configuration", "historyLength", "history_length", "pageSize", "page_size", "tasks", "configs", "kind",
    "final", "authentication", "messageId", "lastUpdatedAfter", "statusTimestampAfter", "taskPushNotificationConfig",
]  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["ROLE_USER", "agent", "TASK_STATE_WORKING", "working", "2026-02-03T04:05:06", "7", "AP8"])
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=6),
    max_leaves=15,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), TREES, max_size=8)


def settled(lift: Any, tree: Any) -> None:
    """What is lifted is the hub's: lifting it once more changes nothing; what is not is a misfit."""
    try:
        once = lift(tree)
    except Misfit:
        return
    assert lift(copy.deepcopy(once)) == once


@given(st.sampled_from(CALLABLE), OBJECTS)
def test_any_parameters_are_lifted_for_good_or_refused(operation: Operation, params: Tree) -> None:
    settled(lambda tree: FORM.lift_params(operation, tree, Memo()), params)


@given(st.sampled_from(CALLABLE), OBJECTS | TREES)
def test_any_result_is_lifted_for_good_or_refused(operation: Operation, result: Any) -> None:
    settled(lambda tree: FORM.lift_result(operation, tree, Memo(task_id="t", message_id="m")), result)


@given(OBJECTS | TREES)
def test_any_event_is_lifted_for_good_or_refused(event: Any) -> None:
    settled(lambda tree: FORM.lift_event(tree, Memo(task_id="t", message_id="m")), event)
