"""Which sends of 1.0 are right as they stand; what is let through unread is what the form lets through read."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from gateway.a2a.operation import Operation
from gateway.a2a.versions import v1_0
from gateway.a2a.versions.v1_0 import is_right
from gateway.a2a.versions.version import Memo, Misfit
from tests.a2a.versions.trees import HUB, damaged
from tests.table import for_each

_encode = msgspec.json.Encoder(decimal_format="number").encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
MESSAGE: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}


def right(params: Any) -> bool:
    members = _members.decode(_encode(params))
    try:
        message = _members.decode(members["message"])
    except (KeyError, msgspec.DecodeError):
        message = {}
    return is_right(members, message)


@for_each(
    "more",
    [
        {},
        {"contextId": "c", "taskId": "", "metadata": {"a": [1]}, "extensions": ["e"], "referenceTaskIds": []},
        {"parts": [{"raw": "AA==", "mediaType": "m/t", "filename": "f"}, {"url": "u"}, {"data": None}, {"data": 7}]},
        {"unknown": {"any": 1}},
    ],
)
def test_a_message_that_is_spelled_as_1_0_spells_it_is_right(more: dict[str, Any]) -> None:
    assert right({"message": {**MESSAGE, **more}})
    configuration = {"acceptedOutputModes": ["a"], "historyLength": 0, "returnImmediately": True, "unknown": 1}
    assert right({"message": {**MESSAGE, **more}, "configuration": configuration, "metadata": {}})


@for_each(
    "more",
    [
        {"messageId": ""}, {"messageId": 7}, {"role": "user"}, {"role": None}, {"parts": []}, {"parts": [{}]},
        {"parts": [{"text": 7}]}, {"parts": [{"text": "a", "url": "b"}]}, {"parts": ["a"]}, {"parts": None},
        {"contextId": 7}, {"metadata": []}, {"extensions": [7]}, {"task_id": "t"}, {"metadata": None},
    ],
)  # fmt: skip
def test_a_message_that_has_to_be_looked_at_is_not_certain_to_be_right(more: dict[str, Any]) -> None:
    assert not right({"message": {**MESSAGE, **more}})


@for_each(
    "more",
    [
        {"configuration": {"historyLength": -1}}, {"configuration": {"historyLength": "5"}}, {"configuration": []},
        {"configuration": {"history_length": 5}}, {"configuration": {"taskPushNotificationConfig": {}}},
        {"metadata": 7}, {"message": 7}, {"message": None},
    ],
)  # fmt: skip
def test_what_stands_beside_the_message_has_to_be_right_too(more: dict[str, Any]) -> None:
    assert not right({"message": MESSAGE, **more})


@given(damaged(HUB.params[Operation.SEND_MESSAGE], ["role", "text", "raw", "message_id", "messageId", "metadata"]))
def test_nothing_is_let_through_unread_that_would_be_refused_when_read(params: Any) -> None:
    if not isinstance(params, dict) or not right(params):
        return
    try:
        v1_0.FORM.lift_params(Operation.SEND_MESSAGE, msgspec.json.decode(_encode(params)), Memo(message_id="made"))
    except Misfit as misfit:
        pytest.fail(f"{misfit}: {params}")
