"""Push configurations in calls and answers, in the hub's words."""

import pytest

from gateway.a2a import push_config
from gateway.a2a.fault import BadParams
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.push_config import LONGEST_ID, LONGEST_TOKEN, PushConfig
from tests.table import for_each

URL = "https://hooks.example.net/a2a"
WHOLE: Tree = {
    "id": "cfg-1",
    "taskId": "task-7",
    "url": URL,
    "token": "tok-123",
    "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
}
READ = PushConfig(URL, "cfg-1", "task-7", "tok-123", "Bearer", "s3cret")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"url": ""},
        {"url": 1},
        {"url": URL, "token": ["x"]},
        {"url": URL, "id": "x" * (LONGEST_ID + 1)},
        {"url": URL, "token": "x" * (LONGEST_TOKEN + 1)},
        {"url": URL, "token": "x\r\nHost: elsewhere"},
        {"url": URL, "token": "x\0"},
        {"url": URL, "token": " x"},
        {"url": URL, "token": "schlüssel"},
        {"url": URL, "authentication": "Bearer"},
        {"url": URL, "authentication": {"scheme": "Bearer x"}},
        {"url": URL, "authentication": {"scheme": "Bearer\n"}},
        {"url": URL, "authentication": {"scheme": "Bearer", "credentials": "x\ny"}},
    ],
)
def test_what_no_header_could_hold_is_refused_without_repeating_it(wrong: Tree) -> None:
    with pytest.raises(BadParams) as refused:
        push_config.read(wrong)
    for value in ("elsewhere", "schlüssel", "x" * 20):
        assert value not in refused.value.message


def test_no_secret_and_no_url_is_in_what_is_printed() -> None:
    assert repr(READ) == "PushConfig(id='cfg-1', task_id='task-7')"


@for_each("operation", [Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE])
def test_it_is_found_and_replaced_in_a_send(operation: Operation) -> None:
    params: Tree = {"message": {}, "configuration": {"historyLength": 2, "taskPushNotificationConfig": dict(WHOLE)}}
    assert push_config.asked(operation, params) == WHOLE
    push_config.replace_asked(operation, params, {"url": "x"})
    assert params["configuration"] == {"historyLength": 2, "taskPushNotificationConfig": {"url": "x"}}


def test_those_of_an_answer_are_found_and_replaced() -> None:
    one, other = dict(WHOLE), {"url": "x"}
    for operation in (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG):
        result = dict(one)
        assert push_config.answered(operation, result) == [one]
        push_config.replace_answered(operation, result, [other])
        assert result == other
        push_config.replace_answered(operation, result, [])
        assert result == {}
        assert push_config.answered(operation, result) == []
    page: Tree = {"configs": [one, other], "nextPageToken": "n"}
    assert push_config.answered(Operation.LIST_PUSH_CONFIGS, page) == [one, other]
    push_config.replace_answered(Operation.LIST_PUSH_CONFIGS, page, [other])
    assert page == {"configs": [other], "nextPageToken": "n"}
    assert push_config.answered(Operation.LIST_PUSH_CONFIGS, {"configs": None}) == []
    assert push_config.answered(Operation.DELETE_PUSH_CONFIG, {"url": "x"}) == []
    assert push_config.answered(Operation.GET_TASK, {"url": "x"}) == []
