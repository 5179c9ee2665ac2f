"""Objects that are written parse strictly in stock software, and mean to it the same as a2a-sdk's own conversions."""

from copy import deepcopy
from decimal import Decimal
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3 import conversions, proto_utils
from a2a.compat.v0_3 import types as models
from a2a.types import a2a_pb2 as new
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import Memo
from tests.a2a.versions.trees import MORE, TEXTS, Hub

# Numbers that a google.protobuf.Struct holds as they are: others are lost in any proto (losses of the form).
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31).map(float) | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=6,
)
_METADATA = st.dictionaries(TEXTS.map("k-".__add__), _VALUES, min_size=1, max_size=2)
HUB = Hub(data=_VALUES, metadata=_METADATA)
MARKED = Hub(data=_VALUES, metadata=_METADATA, marks="nobody")

RESULTS: dict[Operation, Any] = {
    Operation.SEND_MESSAGE: old.SendMessageResponse,
    Operation.GET_TASK: old.Task,
    Operation.CANCEL_TASK: old.Task,
    Operation.CREATE_PUSH_CONFIG: old.TaskPushNotificationConfig,
    Operation.GET_PUSH_CONFIG: old.TaskPushNotificationConfig,
    Operation.LIST_PUSH_CONFIGS: old.ListTaskPushNotificationConfigResponse,
}


def memo() -> Memo:
    return Memo(message_id="made")


def plain(tree: Any) -> Any:
    """The tree as `json.loads` would give it."""
    if isinstance(tree, dict):
        return {name: plain(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    return float(tree) if isinstance(tree, Decimal) else tree


def parsed(tree: Tree, kind: Any) -> Any:
    """The message of a tree; what is not a member of it, or none of its type, raises."""
    return ParseDict(plain(tree), kind())


def said(message: Any) -> Any:
    """Return a message as JSON, without the empty Structs that some conversions leave behind."""
    return _filled(MessageToDict(message))


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _filled(held) for name, held in value.items() if held not in ({}, [])}
    return [_filled(held) for held in value] if isinstance(value, list) else value


def sdk_says(tree: Tree) -> Tree:
    """The same without what a2a-sdk loses and the gateway keeps: mediaType and filename of text and data."""
    tree = deepcopy(tree)
    _forget(tree)
    return tree


def _forget(tree: Any) -> None:
    if isinstance(tree, list):
        for value in tree:
            _forget(value)
    elif isinstance(tree, dict):
        if "text" in tree or "data" in tree:
            tree.pop("mediaType", None)
            tree.pop("filename", None)
            return
        for name in ("parts", "message", "status", "artifact", "artifacts", "history", "task", "statusUpdate"):
            _forget(tree.get(name))
        _forget(tree.get("artifactUpdate"))


# ---- Strict readers --------------------------------------------------------------------------------------------------


@given(MARKED.params[Operation.SEND_MESSAGE])
def test_a_strict_agent_reads_every_message_sent(params: Tree) -> None:
    parsed(FORM.lower_params(Operation.SEND_MESSAGE, params, memo()), old.SendMessageRequest)


@given(MARKED.params[Operation.CREATE_PUSH_CONFIG])
def test_a_strict_agent_reads_every_configuration_created(params: Tree) -> None:
    lowered = FORM.lower_params(Operation.CREATE_PUSH_CONFIG, params, memo())
    # Said by the path.
    task = lowered.pop("taskId")
    request = parsed(lowered, old.CreateTaskPushNotificationConfigRequest)
    read = proto_utils.FromProto.task_push_notification_config_request(request)
    assert read.task_id == task.replace("/", "%2F")
    assert read.push_notification_config.id == (params.get("id") or task)


@MORE
@given(operation=st.sampled_from(sorted(RESULTS)), data=st.data())
def test_a_strict_client_reads_every_answer(operation: Operation, data: st.DataObject) -> None:
    result = data.draw(MARKED.results[operation])
    parsed(FORM.lower_result(operation, result, memo()), RESULTS[operation])


@given(MARKED.config)
def test_a_stock_client_reads_the_name_of_every_configuration(config: Tree) -> None:
    lowered = FORM.lower_result(Operation.GET_PUSH_CONFIG, dict(config), memo())
    read = proto_utils.FromProto.task_push_notification_config(parsed(lowered, old.TaskPushNotificationConfig))
    assert read.task_id == config["taskId"].replace("/", "%2F")


@given(MARKED.event, st.booleans())
def test_a_strict_client_reads_every_event(event: Tree, last: bool) -> None:  # noqa: FBT001 - drawn
    (lowered,) = FORM.lower_event(event, memo(), last=last)
    parsed(lowered, old.StreamResponse)


# ---- As a2a-sdk converts the same ------------------------------------------------------------------------------------


@given(HUB.event)
def test_events_are_lowered_as_the_sdk_lowers_them(event: Tree) -> None:
    event = sdk_says(event)
    core = parsed(event, new.StreamResponse)
    theirs = said(proto_utils.ToProto.stream_response(conversions.to_compat_stream_response(core, "1").result))
    (lowered,) = FORM.lower_event(event, memo(), last=True)
    mine = said(parsed(lowered, old.StreamResponse))
    # The SDK has no final where a task waits, nor is it told which event is the last (protocol §8.2).
    for message in (mine, theirs):
        message.get("statusUpdate", {}).pop("final", None)
    assert mine == theirs


@given(HUB.params[Operation.SEND_MESSAGE])
def test_messages_are_lowered_as_the_sdk_lowers_them(params: Tree) -> None:
    _forget(params["message"])
    core = parsed(params, new.SendMessageRequest)
    sent = conversions.to_compat_send_message_request(core, "1").params
    theirs = old.SendMessageRequest(
        request=proto_utils.ToProto.message(sent.message),
        configuration=proto_utils.ToProto.message_send_configuration(sent.configuration),
        metadata=proto_utils.ToProto.metadata(sent.metadata),
    )
    assert said(parsed(FORM.lower_params(Operation.SEND_MESSAGE, params, memo()), old.SendMessageRequest)) == said(
        theirs
    )


@given(HUB.config)
def test_configurations_are_lowered_as_the_sdk_lowers_them(config: Tree) -> None:
    # Without an id the SDK names the resource "None"; a `/` makes it a name of something else.
    assume("id" in config and "/" not in config["id"] + config["taskId"])
    core = parsed(config, new.TaskPushNotificationConfig)
    theirs = proto_utils.ToProto.task_push_notification_config(
        conversions.to_compat_task_push_notification_config(core)
    )
    lowered = FORM.lower_result(Operation.GET_PUSH_CONFIG, dict(config), memo())
    assert said(parsed(lowered, old.TaskPushNotificationConfig)) == said(theirs)


@MORE
@given(snake=st.sampled_from([True, False]), event=HUB.event)
def test_events_are_lifted_as_the_sdk_lifts_them(event: Tree, *, snake: bool) -> None:
    (lowered,) = FORM.lower_event(sdk_says(event), memo(), last=True)
    written = parsed(lowered, old.StreamResponse)
    answer = models.SendStreamingMessageSuccessResponse(result=proto_utils.FromProto.stream_response(written))
    theirs = conversions.to_core_stream_response(answer)
    lifted = FORM.lift_event(MessageToDict(written, preserving_proto_field_name=snake), memo())
    assert said(parsed(lifted, new.StreamResponse)) == said(theirs)


@MORE
@given(snake=st.sampled_from([True, False]), params=HUB.params[Operation.SEND_MESSAGE])
def test_messages_are_lifted_as_the_sdk_lifts_them(params: Tree, *, snake: bool) -> None:
    _forget(params["message"])
    push = params["configuration"].get("taskPushNotificationConfig", {"url": "u"})
    # The gateway refuses a configuration that tells nobody where to.
    assume(push["url"])
    written = parsed(FORM.lower_params(Operation.SEND_MESSAGE, params, memo()), old.SendMessageRequest)
    request = models.SendMessageRequest(id="1", params=proto_utils.FromProto.message_send_params(written))
    theirs = conversions.to_core_send_message_request(request)
    tree = MessageToDict(written, preserving_proto_field_name=snake)
    lifted = FORM.lift_params(Operation.SEND_MESSAGE, tree, memo())
    assert said(parsed(lifted, new.SendMessageRequest)) == said(theirs)


@MORE
@given(snake=st.sampled_from([True, False]), config=HUB.config)
def test_configurations_are_lifted_as_the_sdk_lifts_them(config: Tree, *, snake: bool) -> None:
    assume("/" not in config.get("id", "") + config["taskId"])
    lowered = FORM.lower_result(Operation.GET_PUSH_CONFIG, dict(config), memo())
    written = parsed(lowered, old.TaskPushNotificationConfig)
    theirs = conversions.to_core_task_push_notification_config(
        proto_utils.FromProto.task_push_notification_config(written)
    )
    tree = MessageToDict(written, preserving_proto_field_name=snake)
    lifted = FORM.lift_result(Operation.GET_PUSH_CONFIG, tree, memo())
    assert said(parsed(lifted, new.TaskPushNotificationConfig)) == said(theirs)
