"""Messages, tasks and parameters in three spellings."""

from copy import deepcopy

import pytest

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.table import for_each

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}


def asked(operation: Operation, params: Tree) -> Tree:
    return FORM.lift_params(operation, deepcopy(params), Memo())


def answered(operation: Operation, result: Tree, memo: Memo | None = None) -> Tree:
    return FORM.lift_result(operation, deepcopy(result), memo or Memo(message_id="made"))


def refused(operation: Operation, params: Tree) -> str:
    with pytest.raises(Misfit) as caught:
        asked(operation, params)
    return caught.value.field


@for_each(
    ("params", "field"),
    [
        ({}, "message"),
        ({"message": None}, "message"),
        ({"message": []}, "message"),
        ({"message": MESSAGE, "request": {**MESSAGE, "messageId": "n"}}, "request"),
        ({"message": {**MESSAGE, "message_id": "n"}}, "message.message_id"),
        ({"message": {**MESSAGE, "contextId": "a", "context_id": "b"}}, "message.context_id"),
        ({"message": {**MESSAGE, "parts": []}}, "message.content"),
        ({"message": {**MESSAGE, "messageId": ""}}, "message.messageId"),
        ({"message": {**MESSAGE, "role": None}}, "message.role"),
        ({"message": {**MESSAGE, "role": "ROLE_UNSPECIFIED"}}, "message.role"),
        ({"message": {**MESSAGE, "role": 0}}, "message.role"),
        ({"message": {**MESSAGE, "role": "USER"}}, "message.role"),
        ({"message": {**MESSAGE, "role": ["user"]}}, "message.role"),
        ({"message": {**MESSAGE, "kind": "task"}}, "message.kind"),
        ({"message": {**MESSAGE, "content": {}}}, "message.content"),
        ({"request": {**MESSAGE, "content": ["hi"]}}, "request.content[0]"),
        ({"request": {**MESSAGE, "content": [{"text": "a"}, {"text": 1}]}}, "request.content[1].text"),
        ({"message": {**MESSAGE, "extensions": ["a", None]}}, "message.extensions[1]"),
        ({"message": {**MESSAGE, "metadata": 1}}, "message.metadata"),
        ({"message": MESSAGE, "metadata": []}, "metadata"),
        ({"message": MESSAGE, "configuration": {"blocking": "true"}}, "configuration.blocking"),
        ({"message": MESSAGE, "configuration": {"historyLength": -1}}, "configuration.historyLength"),
        ({"message": MESSAGE, "configuration": {"history_length": "x"}}, "configuration.history_length"),
        ({"message": MESSAGE, "configuration": {"history_length": 2**31}}, "configuration.history_length"),
        ({"message": MESSAGE, "configuration": {"historyLength": 1.5}}, "configuration.historyLength"),
        ({"message": MESSAGE, "configuration": {"historyLength": True}}, "configuration.historyLength"),
        (
            {
                "message": MESSAGE,
                "configuration": {"pushNotification": {"url": "a"}, "push_notification": {"url": "b"}},
            },
            "configuration.push_notification",
        ),
        ({"message": MESSAGE, "configuration": {"push_notification": {}}}, "configuration.push_notification.url"),
        (
            {"message": MESSAGE, "configuration": {"blocking": True, "returnImmediately": True}},
            "configuration.blocking",
        ),
    ],
)
def test_what_fits_no_spelling_is_a_misfit_in_the_words_of_its_writer(params: Tree, field: str) -> None:
    assert refused(Operation.SEND_MESSAGE, params) == field


def test_what_an_agent_leaves_out_is_told_by_the_call() -> None:
    memo = Memo(task_id="t", context_id="c", message_id="made")
    task = answered(Operation.GET_TASK, {"status": {"message": {}}}, memo)
    message = {"messageId": "made", "role": "ROLE_AGENT", "parts": []}
    assert task == {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_UNSPECIFIED", "message": message}}
    event = FORM.lift_event({"artifact_update": {"artifact": {}, "append": False, "last_chunk": True}}, memo)
    artifact = {"artifactId": "", "parts": []}
    assert event == {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "lastChunk": True}}


def test_a_listed_task_must_name_itself() -> None:
    memo = Memo(task_id="t", context_id="c")
    with pytest.raises(Misfit, match=r"^tasks\[0\]\.id: is required"):
        answered(Operation.LIST_TASKS, {"tasks": [{"status": {}}]}, memo)


@for_each(
    ("event", "field"),
    [
        ({"statusUpdate": {"taskId": "t"}}, "statusUpdate.status"),
        ({"status_update": {"status": {}}}, "status_update.taskId"),
        ({"artifactUpdate": {"taskId": "t"}}, "artifactUpdate.artifact"),
        ({"artifactUpdate": {"artifact": {}}}, "artifactUpdate.taskId"),
        ({"statusUpdate": {"kind": "task", "taskId": "t", "status": {}}}, "statusUpdate.kind"),
        ({"task": {"kind": "message", "id": "t", "status": {}}}, "task.kind"),
        ({"task": {"id": "t", "status": {}}, "statusUpdate": {"taskId": "t", "status": {}}}, ""),
    ],
)
def test_an_event_that_is_none_is_a_misfit_that_names_the_place(event: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        FORM.lift_event(event, Memo())
    assert caught.value.field == field


@for_each("operation", [Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK])
def test_a_task_may_be_named_as_a_resource(operation: Operation) -> None:
    assert asked(operation, {"name": "tasks/t"}) == {"id": "t"}
    assert asked(operation, {"name": "tasks/a/b", "id": "a/b"}) == {"id": "a/b"}
    assert refused(operation, {"name": "tasks/a/b"}) == "name"
    assert refused(operation, {"name": "tasks/s", "id": "t"}) == "name"
    assert refused(operation, {}) == "id"


def test_a_filter_that_names_no_moment_is_refused() -> None:
    assert refused(Operation.LIST_TASKS, {"statusTimestampAfter": "soon"}) == "statusTimestampAfter"
    assert asked(Operation.LIST_TASKS, {"status": "TASK_STATE_UNSPECIFIED"}) == {}
