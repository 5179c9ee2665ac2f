"""0.3 over HTTP+JSON and 1.0 say the same: by the vectors, there and back, and whatever outsiders send."""

from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Memo, Misfit
from tests.table import for_each

VECTORS = Path(__file__).parents[2] / "vectors"
OURS, SNAKE, HUBS = "v0.3-rest", "v0.3-rest-snake", "v1.0-jsonrpc"


def decode(text: bytes) -> Any:
    return msgspec.json.Decoder(float_hook=Decimal).decode(text)


def vector(name: str) -> Tree:
    return dict(decode((VECTORS / f"{name}.json").read_bytes()))


def events(name: str) -> list[tuple[Tree, Tree, bool]]:
    found = vector(name)["events"]
    pairs = [(event[OURS]["sse_data"], event["v1.0-rest"]["sse_data"]) for event in found]
    return [(mine, hub, index == len(pairs) - 1) for index, (mine, hub) in enumerate(pairs)]


def memo() -> Memo:
    return Memo(message_id="made")


def configuration_up(configuration: Any, operation: Operation = Operation.SEND_MESSAGE) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "content": []}
    return FORM.lift_params(operation, {"message": message, "configuration": configuration}, memo()).get(
        "configuration"
    )


def configuration_down(configuration: Tree | None) -> Tree:
    sent: Tree = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}
    if configuration is not None:
        sent["configuration"] = configuration
    return dict(FORM.lower_params(Operation.SEND_MESSAGE, sent, memo())["configuration"])


# ---- Vectors ---------------------------------------------------------------------------------------------------------


# ---- Requests --------------------------------------------------------------------------------------------------------


@for_each(("said", "meant"), [({}, None), ({"blocking": True}, None)])
def test_a_stream_that_is_not_told_to_block_is_still_a_stream(said: Tree, meant: Any) -> None:
    assert configuration_up(said, Operation.SEND_STREAMING_MESSAGE) == meant


@for_each(
    ("hub", "said"),
    [
        (None, {"blocking": True}),
        ({"returnImmediately": True}, {"blocking": False}),
        ({"returnImmediately": False, "historyLength": 3}, {"blocking": True, "historyLength": 3}),
        ({"historyLength": 0, "acceptedOutputModes": []}, {"blocking": True}),
    ],
)
def test_an_agent_is_always_told_whether_to_block(hub: Tree | None, said: Tree) -> None:
    assert configuration_down(hub) == said


def test_a_configuration_without_an_id_gets_the_id_of_its_task() -> None:
    lowered = FORM.lower_params(Operation.CREATE_PUSH_CONFIG, {"taskId": "t", "url": "u"}, memo())
    name = "tasks/t/pushNotificationConfigs/t"
    assert lowered == {
        "taskId": "t",
        "parent": "tasks/t",
        "configId": "t",
        "config": {"name": name, "pushNotificationConfig": {"id": "t", "url": "u"}},
    }
    assert FORM.lower_result(Operation.GET_PUSH_CONFIG, {"taskId": "t", "url": "u"}, memo())["name"] == name


def test_an_id_with_a_slash_never_names_another_task() -> None:
    lowered = FORM.lower_params(Operation.CREATE_PUSH_CONFIG, {"taskId": "a/b", "id": "c/d", "url": "u"}, memo())
    assert lowered["taskId"] == "a/b"
    assert lowered["parent"] == "tasks/a%2Fb"
    assert lowered["config"]["name"] == "tasks/a%2Fb/pushNotificationConfigs/c%2Fd"


# ---- Results and events ----------------------------------------------------------------------------------------------

DONE = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}
NONE = {"task": None, "status": None, "artifact": None}
SAID = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}


@for_each(
    ("answered", "meant"),
    [
        ({"task": DONE}, {"task": DONE}),
        ({"task": DONE, "messageId": "outside"}, {"task": DONE, "messageId": "outside"}),
        ({"message": {**SAID, "content": SAID["parts"]}}, {"message": SAID}),
        ({"msg": SAID}, {"message": SAID}),
        (DONE, {"task": DONE}),
        ({"kind": "task", "id": "t", "status": {"state": "completed"}}, {"task": DONE}),
        ({"message_id": "m", "content": [{"text": "hi"}]}, {"message": SAID}),
        ({**SAID, "kind": "message", "role": "agent"}, {"message": SAID}),
        ({"message": SAID, "task": None, "statusUpdate": None, "artifactUpdate": None}, {"message": SAID}),
        ({"message": SAID, "statusUpdate": "what no answer is"}, {"message": SAID}),
        ({**SAID, "kind": None, "task": None, "status": None, "artifact": None}, {"message": {**SAID, **NONE}}),
        ({**DONE, "message": None}, {"task": {**DONE, "message": None}}),
    ],
)
def test_an_answer_may_come_with_or_without_its_wrapper(answered: Tree, meant: Tree) -> None:
    assert FORM.lift_result(Operation.SEND_MESSAGE, deepcopy(answered), memo()) == meant


@for_each(
    "event",
    [
        {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": 3}, "final": True}},
        {"status_update": {"task_id": "t", "context_id": "c", "status": {"state": "completed"}}},
        {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "completed"}, "final": False},
        {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}},
        {"status": {"state": "TASK_STATE_COMPLETED"}, "final": True},
        {"statusUpdate": {"status": {"state": "TASK_STATE_COMPLETED", "message": None, "timestamp": "soon"}}},
        {"statusUpdate": {"status": {"state": "TASK_STATE_COMPLETED"}}, "message": None, "artifact_update": None},
        {"status": {"state": "TASK_STATE_COMPLETED"}, "taskId": None, "kind": None},
    ],
)
def test_an_event_is_lifted_in_any_spelling(event: Tree) -> None:
    meant = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    assert FORM.lift_event(event, Memo(task_id="t", context_id="c")) == {"statusUpdate": meant}


@for_each(
    ("result", "field"),
    [
        ({}, ""),
        ([], ""),
        (None, ""),
        ({"task": DONE, "msg": SAID}, ""),
        ({"statusUpdate": {"taskId": "t", "status": {}}}, ""),
        ({"kind": "status-update", "taskId": "t", "status": {}}, "kind"),
        ({"kind": ["task"], "id": "t"}, "kind"),
        ({"task": {"id": "t"}}, "task.status"),
        ({"task": {"status": {}}}, "task.id"),
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_DONE"}}}, "task.status.state"),
        ({"task": {"id": "t", "status": {"state": 9}}}, "task.status.state"),
        ({"task": {"id": "t", "status": {"state": True}}}, "task.status.state"),
        ({"task": {"id": "t", "status": {"update": {"content": [{}]}}}}, "task.status.update.content[0]"),
        ({"message": {"message_id": 1}}, "message.message_id"),
    ],
)
def test_an_answer_that_is_none_is_a_misfit_that_names_the_place(result: Any, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        FORM.lift_result(Operation.SEND_MESSAGE, result, memo())
    assert caught.value.field == field


@for_each("state", sorted(TERMINAL | INTERRUPTED | {"TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"}))
@for_each("last", [True, False])
def test_the_last_event_says_so_where_the_task_is_over_or_waits(state: str, *, last: bool) -> None:
    event = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}, "final": True}}
    ((lowered),) = FORM.lower_event(event, memo(), last=last)
    assert lowered["statusUpdate"].get("final", False) is (last and state in TERMINAL | INTERRUPTED)
