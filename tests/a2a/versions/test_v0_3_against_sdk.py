"""The gateway translates 0.3 and 1.0 objects as a2a-sdk does, but for the differences listed here."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from a2a.compat.v0_3 import conversions as sdk
from a2a.compat.v0_3 import types as v03
from a2a.types import a2a_pb2 as v10
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs
from google.protobuf.message import Message  # type: ignore[import-untyped]  # as above
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3 import FORM
from gateway.a2a.versions.version import Memo
from tests.a2a.versions.trees import IDS, MORE, Hub

# Numbers pass through protobuf as doubles there, which changes others.
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.sampled_from([0.5, -2.25, 1e300]) | IDS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(IDS, values, max_size=3),
    max_leaves=6,
)
HUB = Hub(VALUES, st.dictionaries(IDS.map("k-".__add__), VALUES, min_size=1, max_size=3))


_CONTENTS = ("text", "raw", "bytes", "url", "uri", "data")


# ---- The differences -------------------------------------------------------------------------------------------------


def _without_kept(part: Tree) -> None:
    if "text" in part or "data" in part:
        for name in ("mediaType", "filename"):
            part.pop(name, None)
        metadata = part.get("metadata", {})
        for name in ("media_type_compat", "filename_compat"):
            metadata.pop(name, None)


def _without_final(event: Tree) -> None:
    event.pop("final", None)


def _without_false(event: Tree) -> None:
    for name in ("append", "lastChunk", "returnImmediately"):
        if event.get(name) is False:
            del event[name]


def _with_whole_nanoseconds(status: Tree) -> None:
    if found := re.fullmatch(r"([^.Z]+)(?:\.([0-9]+))?Z", str(status.get("timestamp", ""))):
        status["timestamp"] = f"{found[1]}.{found[2] or '':0<9}Z"


def _without_default_state(status: Tree) -> None:
    if status.get("state") == "TASK_STATE_UNSPECIFIED":
        del status["state"]


def _without_empty(tree: Tree) -> None:
    for name in [name for name, value in tree.items() if value in ("", [], {}) and name not in _CONTENTS]:
        del tree[name]


def _without_default_configuration(params: Tree) -> None:
    if params.get("configuration") == {"blocking": True}:
        del params["configuration"]


DIFFERENCES: dict[str, Callable[[Tree], None]] = {
    "mediaType and filename of text and data parts: lost there, kept in metadata here": _without_kept,
    "final: there of every terminal state, here of the last event only, then also of interrupted ones": _without_final,
    "false in 1.0: written there where 0.3 said it, left out here": _without_false,
    "digits of a second: 0, 3, 6 or 9 there, as they were here": _with_whole_nanoseconds,
    "no state: left out there as protobuf does with what is 0, said here": _without_default_state,
    "empty strings, lists and objects: left out there, as they were here": _without_empty,
    "no configuration: none there, blocking said outright here": _without_default_configuration,
}
"""Differences, and the change that makes both sides equal; inside of `metadata` and `data` nothing may differ."""


def same(tree: Any) -> Any:
    """The tree without the differences."""
    if isinstance(tree, list):
        return [same(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    # A part's content beside its kind is no object of A2A's; a file within is.
    made = {name: value if name in ("metadata", "data") else same(value) for name, value in tree.items()}
    for settle in DIFFERENCES.values():
        settle(made)
    return made


def text(tree: Any) -> str:
    """JSON, so that true is not 1; whole numbers are whole however they came."""
    return json.dumps(_plain(same(deepcopy(tree))), sort_keys=True, indent=1)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def memo() -> Memo:
    return Memo(message_id="made")


def written(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


# ---- Events ----------------------------------------------------------------------------------------------------------


@given(HUB.event, st.booleans())
def test_events_are_lowered_alike(hub: Tree, last: bool) -> None:  # noqa: FBT001 - drawn
    theirs = sdk.to_compat_stream_response(ParseDict(hub, v10.StreamResponse()), "1").result
    (ours,) = FORM.lower_event(deepcopy(hub), memo(), last=last)
    assert text(ours) == text(written(theirs))


@given(HUB.event)
def test_events_are_lifted_alike(hub: Tree) -> None:
    (event,) = FORM.lower_event(hub, memo(), last=True)
    read = v03.SendStreamingMessageSuccessResponse.model_validate({"id": "1", "result": deepcopy(event)})
    theirs = MessageToDict(sdk.to_core_stream_response(read))
    assert text(FORM.lift_event(event, memo())) == text(theirs)


# ---- Parameters ------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The SDK's names for the parameters of an operation in both generations, and its conversion between them."""

    core: type[Message]
    lower: Callable[[Any, str], BaseModel]
    compat: type[BaseModel]
    lift: Callable[[Any], Message]


ASKED = {
    Operation.SEND_MESSAGE: Asked(
        v10.SendMessageRequest,
        sdk.to_compat_send_message_request,
        v03.SendMessageRequest,
        sdk.to_core_send_message_request,
    ),
    Operation.GET_TASK: Asked(
        v10.GetTaskRequest, sdk.to_compat_get_task_request, v03.GetTaskRequest, sdk.to_core_get_task_request
    ),
    Operation.CANCEL_TASK: Asked(
        v10.CancelTaskRequest, sdk.to_compat_cancel_task_request, v03.CancelTaskRequest, sdk.to_core_cancel_task_request
    ),
    Operation.SUBSCRIBE_TO_TASK: Asked(
        v10.SubscribeToTaskRequest,
        sdk.to_compat_subscribe_to_task_request,
        v03.TaskResubscriptionRequest,
        sdk.to_core_subscribe_to_task_request,
    ),
    Operation.CREATE_PUSH_CONFIG: Asked(
        v10.TaskPushNotificationConfig,
        sdk.to_compat_create_task_push_notification_config_request,
        v03.SetTaskPushNotificationConfigRequest,
        sdk.to_core_create_task_push_notification_config_request,
    ),
    Operation.GET_PUSH_CONFIG: Asked(
        v10.GetTaskPushNotificationConfigRequest,
        sdk.to_compat_get_task_push_notification_config_request,
        v03.GetTaskPushNotificationConfigRequest,
        sdk.to_core_get_task_push_notification_config_request,
    ),
    Operation.LIST_PUSH_CONFIGS: Asked(
        v10.ListTaskPushNotificationConfigsRequest,
        sdk.to_compat_list_task_push_notification_config_request,
        v03.ListTaskPushNotificationConfigRequest,
        sdk.to_core_list_task_push_notification_config_request,
    ),
    Operation.DELETE_PUSH_CONFIG: Asked(
        v10.DeleteTaskPushNotificationConfigRequest,
        sdk.to_compat_delete_task_push_notification_config_request,
        v03.DeleteTaskPushNotificationConfigRequest,
        sdk.to_core_delete_task_push_notification_config_request,
    ),
}


@MORE
@given(st.sampled_from(sorted(ASKED)), st.data())
def test_parameters_are_lowered_alike(operation: Operation, data: st.DataObject) -> None:
    hub, asked = data.draw(HUB.params[operation]), ASKED[operation]
    theirs = written(asked.lower(ParseDict(hub, asked.core()), "1"))["params"]
    assert text(FORM.lower_params(operation, hub, memo())) == text(theirs)


@MORE
@given(st.sampled_from(sorted(ASKED)), st.data())
def test_parameters_are_lifted_alike(operation: Operation, data: st.DataObject) -> None:
    asked = ASKED[operation]
    params = FORM.lower_params(operation, data.draw(HUB.params[operation]), memo())
    theirs = asked.lift(asked.compat.model_validate({"id": "1", "params": deepcopy(params)}))
    assert text(FORM.lift_params(operation, params, memo())) == text(MessageToDict(theirs))


# ---- Results ---------------------------------------------------------------------------------------------------------


class Answered(NamedTuple):
    """The same for results."""

    core: type[Message]
    lower: Callable[[Any], Any]
    compat: type[BaseModel]
    lift: Callable[[Any], Message]


def inside(response: Any) -> Any:
    """Return the content of a response that is no error."""
    return response.root.result


ANSWERED = {
    Operation.SEND_MESSAGE: Answered(
        v10.SendMessageResponse,
        lambda core: inside(sdk.to_compat_send_message_response(core, "1")),
        v03.SendMessageResponse,
        sdk.to_core_send_message_response,
    ),
    Operation.GET_TASK: Answered(
        v10.Task,
        sdk.to_compat_task,
        v03.GetTaskSuccessResponse,
        lambda response: sdk.to_core_task(response.result),
    ),
    Operation.CREATE_PUSH_CONFIG: Answered(
        v10.TaskPushNotificationConfig,
        sdk.to_compat_task_push_notification_config,
        v03.SetTaskPushNotificationConfigSuccessResponse,
        lambda response: sdk.to_core_task_push_notification_config(response.result),
    ),
    Operation.LIST_PUSH_CONFIGS: Answered(
        v10.ListTaskPushNotificationConfigsResponse,
        lambda core: inside(sdk.to_compat_list_task_push_notification_config_response(core, "1")),
        v03.ListTaskPushNotificationConfigResponse,
        sdk.to_core_list_task_push_notification_config_response,
    ),
}


@MORE
@given(st.sampled_from(sorted(ANSWERED)), st.data())
def test_results_are_lowered_alike(operation: Operation, data: st.DataObject) -> None:
    hub, answered = data.draw(HUB.results[operation]), ANSWERED[operation]
    theirs = answered.lower(ParseDict(hub, answered.core()))
    theirs = [written(each) for each in theirs] if isinstance(theirs, list) else written(theirs)
    assert text(FORM.lower_result(operation, hub, memo())) == text(theirs)


@MORE
@given(st.sampled_from(sorted(ANSWERED)), st.data())
def test_results_are_lifted_alike(operation: Operation, data: st.DataObject) -> None:
    answered = ANSWERED[operation]
    result = FORM.lower_result(operation, data.draw(HUB.results[operation]), memo())
    theirs = answered.lift(answered.compat.model_validate({"id": "1", "result": deepcopy(result)}))
    assert text(FORM.lift_result(operation, result, memo())) == text(MessageToDict(theirs))


# ---- The SDK reads what the gateway writes ---------------------------------------------------------------------------


@given(HUB.event)
def test_the_sdk_reads_lowered_and_lifted_events(hub: Tree) -> None:
    (event,) = FORM.lower_event(hub, memo(), last=True)
    kind = event["kind"]
    read = v03.SendStreamingMessageSuccessResponse.model_validate({"id": "1", "result": deepcopy(event)}).result
    assert read.kind == kind
    ParseDict(FORM.lift_event(event, memo()), v10.StreamResponse(), ignore_unknown_fields=False)
