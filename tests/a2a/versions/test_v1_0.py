"""The hub's own generation."""

import copy
from typing import Any

import pytest

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v1_0 import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.table import for_each

SEND, GET, LIST = Operation.SEND_MESSAGE, Operation.GET_TASK, Operation.LIST_TASKS
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
STATUS = {"state": "TASK_STATE_WORKING"}
TASK = {"id": "t", "contextId": "c", "status": STATUS}


def lifted(operation: Operation, params: Tree) -> Tree:
    return FORM.lift_params(operation, copy.deepcopy(params), Memo())


def answered(operation: Operation, result: Any, memo: Memo | None = None) -> Tree:
    return FORM.lift_result(operation, copy.deepcopy(result), memo or Memo())


def told(event: Tree, memo: Memo | None = None) -> Tree:
    return FORM.lift_event(copy.deepcopy(event), memo or Memo())


def sent(**message: Any) -> Tree:
    """A message as the hub has it, sent with these members."""
    found: Tree = lifted(SEND, {"message": {**MESSAGE, **message}})["message"]
    return found


def part_of_agent(part: Tree) -> Any:
    return answered(SEND, {"message": {**MESSAGE, "parts": [part]}})["message"]["parts"][0]


def misfit(operation: Operation, params: Tree) -> str:
    with pytest.raises(Misfit) as caught:
        lifted(operation, params)
    return caught.value.field


# ---- Spellings -------------------------------------------------------------------------------------------------------


def test_a_request_in_snake_case_is_read() -> None:
    assert lifted(
        SEND,
        {
            "message": {
                "message_id": "m",
                "context_id": "c",
                "task_id": "t",
                "role": 1,
                "parts": [{"raw": "_-8", "media_type": "a/b"}],
                "reference_task_ids": ["r"],
            },
            "configuration": {
                "accepted_output_modes": ["text/plain"],
                "history_length": "3",
                "return_immediately": True,
                "task_push_notification_config": {"task_id": "", "url": "https://x", "authentication": {"scheme": "s"}},
            },
        },
    ) == {
        "message": {
            "messageId": "m",
            "contextId": "c",
            "taskId": "t",
            "role": "ROLE_USER",
            "parts": [{"raw": "/+8=", "mediaType": "a/b"}],
            "referenceTaskIds": ["r"],
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "historyLength": 3,
            "returnImmediately": True,
            "taskPushNotificationConfig": {"url": "https://x", "authentication": {"scheme": "s"}},
        },
    }


def test_a_part_of_null_data_stays() -> None:
    assert sent(parts=[{"data": None}])["parts"] == [{"data": None}]
    assert sent(parts=[{"text": "a", "data": None, "url": None}])["parts"] == [{"text": "a"}]


# ---- What a client has to say ----------------------------------------------------------------------------------------


@for_each(
    ("operation", "params", "field"),
    [
        (SEND, {}, "message"),
        (SEND, {"message": None}, "message"),
        (SEND, {"message": []}, "message"),
        (SEND, {"message": {**MESSAGE, "messageId": ""}}, "message.messageId"),
        (SEND, {"message": {**MESSAGE, "messageId": None}}, "message.messageId"),
        (SEND, {"message": {**MESSAGE, "message_id": "n"}}, "message.message_id"),
        (SEND, {"message": {**MESSAGE, "role": "user"}}, "message.role"),
        (SEND, {"message": {**MESSAGE, "role": "ROLE_UNSPECIFIED"}}, "message.role"),
        (SEND, {"message": {**MESSAGE, "role": 3}}, "message.role"),
        (SEND, {"message": {**MESSAGE, "parts": []}}, "message.parts"),
        (SEND, {"message": {**MESSAGE, "parts": [{}]}}, "message.parts[0]"),
        (SEND, {"message": {**MESSAGE, "parts": [{"text": "a"}, {"text": "a", "url": "b"}]}}, "message.parts[1]"),
        (SEND, {"message": {**MESSAGE, "parts": [{"text": 1}]}}, "message.parts[0].text"),
        (SEND, {"message": {**MESSAGE, "parts": [{"raw": "A"}]}}, "message.parts[0].raw"),
        (SEND, {"message": {**MESSAGE, "parts": [{"kind": "file", "file": {}}]}}, "message.parts[0]"),
        (SEND, {"message": {**MESSAGE, "extensions": ["a", 1]}}, "message.extensions[1]"),
        (SEND, {"message": MESSAGE, "metadata": "x"}, "metadata"),
        (SEND, {"message": MESSAGE, "configuration": {"historyLength": -1}}, "configuration.historyLength"),
        (SEND, {"message": MESSAGE, "configuration": {"history_length": "x"}}, "configuration.history_length"),
        (
            SEND,
            {"message": MESSAGE, "configuration": {"taskPushNotificationConfig": {}}},
            "configuration.taskPushNotificationConfig.url",
        ),
        (GET, {}, "id"),
        (GET, {"id": ""}, "id"),
        (GET, {"id": 7}, "id"),
        (GET, {"id": "t", "historyLength": True}, "historyLength"),
        (LIST, {"pageSize": 0}, "pageSize"),
        (LIST, {"pageSize": 101}, "pageSize"),
        (LIST, {"page_size": "101"}, "page_size"),
        (LIST, {"status": "working"}, "status"),
        (LIST, {"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        (LIST, {"includeArtifacts": "true"}, "includeArtifacts"),
        (Operation.CANCEL_TASK, {"metadata": {}}, "id"),
        (Operation.SUBSCRIBE_TO_TASK, {}, "id"),
        (Operation.CREATE_PUSH_CONFIG, {"url": "https://x"}, "taskId"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t"}, "url"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t", "url": "u", "authentication": []}, "authentication"),
        (Operation.GET_PUSH_CONFIG, {"id": "c"}, "taskId"),
        (Operation.LIST_PUSH_CONFIGS, {"taskId": "t", "pageSize": 101}, "pageSize"),
        (Operation.LIST_PUSH_CONFIGS, {"taskId": "t", "pageSize": -1}, "pageSize"),
        (Operation.DELETE_PUSH_CONFIG, {"taskId": "t"}, "id"),
    ],
)
def test_missing_and_wrong_params_are_named(operation: Operation, params: Tree, field: str) -> None:
    assert misfit(operation, params) == field


# ---- What an agent may leave out -------------------------------------------------------------------------------------


def test_a_part_that_is_empty_is_an_empty_text() -> None:
    assert part_of_agent({"metadata": {"a": 1}}) == {"metadata": {"a": 1}, "text": ""}
    assert part_of_agent({"text": None}) == {"text": ""}


def test_the_task_of_an_event_is_remembered_for_the_next() -> None:
    memo = Memo()
    told({"task": TASK}, memo)
    found = told({"artifactUpdate": {"artifact": {"artifactId": "a", "parts": []}}}, memo)["artifactUpdate"]
    assert (found["taskId"], found["contextId"]) == ("t", "c")


def test_tasks_of_a_list_are_not_remembered() -> None:
    memo = Memo()
    answered(LIST, {"tasks": [TASK]}, memo)
    assert memo == Memo()


@for_each(
    ("event", "field"),
    [
        ({}, ""), ([], ""), ({"task": TASK, "message": MESSAGE}, ""),
        ({"statusUpdate": {"status": STATUS}}, "statusUpdate.taskId"),
        ({"statusUpdate": {"taskId": "t"}}, "statusUpdate.status"), ({"artifactUpdate": {}}, "artifactUpdate.artifact"),
        ({"artifactUpdate": {"taskId": "t", "artifact": {}, "append": 1}}, "artifactUpdate.append"),
    ],
)  # fmt: skip
def test_an_event_that_is_none_is_told_by_the_way_to_it(event: Any, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        told(event)
    assert caught.value.field == field


# ---- What is written -------------------------------------------------------------------------------------------------


def test_a_list_has_all_that_strict_readers_want() -> None:
    assert FORM.lower_result(LIST, {"tasks": [TASK]}, Memo()) == {
        "tasks": [TASK], "nextPageToken": "", "pageSize": 1, "totalSize": 1,
    }  # fmt: skip
    assert FORM.lower_result(LIST, {}, Memo()) == {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
    assert FORM.lower_result(Operation.LIST_PUSH_CONFIGS, {}, Memo()) == {"configs": []}


def test_a_deletion_has_no_result() -> None:
    results: tuple[Any, ...] = (None, {}, {"id": "c"}, [])
    for said in results:
        assert answered(Operation.DELETE_PUSH_CONFIG, said) == {}
    assert FORM.lower_result(Operation.DELETE_PUSH_CONFIG, {}, Memo()) is None


def test_an_event_names_its_task_even_if_only_the_call_did() -> None:
    memo = Memo(task_id="t", context_id="c")
    assert FORM.lower_event({"statusUpdate": {"status": STATUS}}, memo, last=True) == (
        {"statusUpdate": {"status": STATUS, "taskId": "t", "contextId": "c"}},
    )
