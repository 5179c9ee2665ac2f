"""A call whose ids could be read in two ways, or not at all, is refused."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.a2a.call import MOST_REFERENCED_TASKS
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey
from gateway.a2a.ids import referenced_ids
from gateway.a2a.params import NO_PARAMS
from tests.a2a.test_referenced_ids import HOOK, SAID, over_http, rpc
from tests.table import for_each


@for_each("wrong", [1, True, {}, [], ["t"], 1.5])
@for_each("name", ["taskId", "task_id", "contextId", "context_id", "id", "sessionId", "session_id"])
def test_what_is_no_string_where_an_id_stands_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(BadParams):
        referenced_ids(rpc("message/send", {"message": SAID, name: wrong}))
    with pytest.raises(BadParams):
        referenced_ids(rpc("tasks/get", {"id": "t", name: wrong}))
    if "ask" in name or "ontext" in name:
        with pytest.raises(BadParams):
            referenced_ids(rpc("message/send", {"message": {**SAID, name: wrong}}))
        with pytest.raises(BadParams):
            referenced_ids(rpc("tasks/send", {"id": "t", "message": {**SAID, name: wrong}}))


@for_each("wrong", ["r", {}, [1], [None], ["r", {}], 1, True])
@for_each("name", ["referenceTaskIds", "reference_task_ids"])
def test_what_is_no_list_of_references_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(BadParams, match=name):
        referenced_ids(rpc("message/send", {"message": {**SAID, name: wrong}}))


def test_a_list_under_both_spellings_is_refused() -> None:
    with pytest.raises(BadParams, match="two names"):
        referenced_ids(
            rpc("SendMessage", {"message": {**SAID, "referenceTaskIds": ["r"], "reference_task_ids": ["r"]}})
        )


@for_each(
    "params",
    [
        {"message": {**SAID, "contextId": "c"}, "contextId": "d"},
        {"message": {**SAID, "context_id": "c"}, "sessionId": "d"},
        {"message": SAID, "sessionId": "c", "session_id": "d"},
    ],
)
def test_two_places_that_name_two_contexts_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadParams, match="context"):
        referenced_ids(rpc("SendMessage", params))
    with pytest.raises(BadParams, match="context"):
        referenced_ids(over_http("POST", "message:send", params))


def test_a_query_that_names_another_context_is_refused() -> None:
    with pytest.raises(BadParams, match="context"):
        referenced_ids(rpc("SendMessage", {"message": {**SAID, "contextId": "c"}}, b"contextId=d"))


@for_each("push", [{"url": 1}, {"url": HOOK, "token": []}, {"url": HOOK, "authentication": "s"}, {"taskId": 1}])
def test_a_push_configuration_of_a_wrong_shape_is_refused(push: dict[str, Any]) -> None:
    with pytest.raises(BadParams):
        referenced_ids(rpc("SendMessage", {"message": SAID, "configuration": {"taskPushNotificationConfig": push}}))


@for_each("name", ["URL", "Url", "uRl"])
def test_a_webhook_in_another_case_is_refused(name: str) -> None:
    """Parsers of Go take it."""
    for push in ({"url": HOOK, name: "https://10.0.0.1"}, {name: "https://10.0.0.1"}):
        with pytest.raises(BadRequest, match="name 'url' in another spelling"):
            referenced_ids(rpc("SendMessage", {"message": SAID, "configuration": {"pushNotificationConfig": push}}))
        with pytest.raises(BadRequest, match="name 'url' in another spelling"):
            referenced_ids(rpc("CreateTaskPushNotificationConfig", {"taskId": "t", **push}))


def test_no_request_names_too_many_tasks() -> None:
    many = [f"r{number}" for number in range(MOST_REFERENCED_TASKS)]
    assert (
        len(referenced_ids(rpc("SendMessage", {"message": {**SAID, "referenceTaskIds": many * 2}})).tasks)
        == MOST_REFERENCED_TASKS
    )
    with pytest.raises(BadParams, match="more than"):
        referenced_ids(rpc("SendMessage", {"message": {**SAID, "taskId": "t", "referenceTaskIds": many}}))


def test_twins_in_a_body_that_nobody_has_read_are_refused() -> None:
    call = rpc("SendMessage", {"message": {**SAID, "taskId": "t"}})
    body = call.body.replace(b'"taskId": "t"', b'"taskId": "t", "taskId": "u"')
    with pytest.raises(DuplicateKey):
        referenced_ids(replace(call, params=NO_PARAMS, body=body))
