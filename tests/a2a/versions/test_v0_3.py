"""0.3 over JSON-RPC and 1.0 say the same: by the vectors, there and back, and whatever outsiders send."""

from copy import deepcopy
from typing import Any

import pytest

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3 import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.table import for_each


def memo() -> Memo:
    return Memo(message_id="made")


def part_up(part: Tree) -> Tree:
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [part]}
    lifted = FORM.lift_params(Operation.SEND_MESSAGE, {"message": message}, memo())
    return dict(lifted["message"]["parts"][0])


def part_down(part: Tree) -> Tree:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
    lowered = FORM.lower_params(Operation.SEND_MESSAGE, {"message": message}, memo())
    return dict(lowered["message"]["parts"][0])


def configuration_down(configuration: Tree | None) -> Tree:
    sent: Tree = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}
    if configuration is not None:
        sent["configuration"] = configuration
    return dict(FORM.lower_params(Operation.SEND_MESSAGE, sent, memo())["configuration"])


def refused(operation: Operation, sent: Tree) -> str:
    with pytest.raises(Misfit) as caught:
        FORM.lift_params(operation, sent, memo())
    return caught.value.field


# ---- Parameters ------------------------------------------------------------------------------------------------------


def test_agents_are_always_told_whether_to_wait() -> None:
    assert configuration_down(None) == {"blocking": True}
    assert configuration_down({}) == {"blocking": True}
    assert configuration_down({"returnImmediately": False}) == {"blocking": True}
    assert configuration_down({"returnImmediately": True}) == {"blocking": False}


def test_names_that_mean_something_in_the_other_generation_alone_are_not_passed_on() -> None:
    assert FORM.lift_params(Operation.GET_PUSH_CONFIG, {"id": "mine", "taskId": "theirs"}, memo()) == {"taskId": "mine"}
    assert FORM.lower_params(
        Operation.GET_PUSH_CONFIG, {"taskId": "mine", "push_notification_config_id": "x"}, memo()
    ) == {"id": "mine"}
    both = {"pushNotificationConfig": {"url": "a"}, "taskPushNotificationConfig": {"url": "b", "tenant": "x"}}
    message = {"messageId": "m", "role": "user", "parts": []}
    told = refused(Operation.SEND_MESSAGE, {"message": message, "configuration": both})
    assert told == "configuration.pushNotificationConfig"
    assert configuration_down({"push_notification_config": {"url": "x"}, "pushNotificationConfig": 1}) == {
        "blocking": True
    }


def test_names_in_snake_case_are_read_once_and_as_one() -> None:
    # The models of Python accept both; 1.0's parsers do too, and so nothing may pass under the other name.
    message = {"message_id": "m", "task_id": "t", "taskId": "t", "role": "user", "parts": []}
    lifted = FORM.lift_params(Operation.SEND_MESSAGE, {"message": message}, memo())
    assert lifted["message"] == {"messageId": "m", "taskId": "t", "role": "ROLE_USER", "parts": []}
    message = {"messageId": "m", "task_id": "theirs", "taskId": "mine", "role": "user", "parts": []}
    assert refused(Operation.SEND_MESSAGE, {"message": message}) == "message.task_id"


@for_each(
    ("operation", "sent", "field"),
    [
        ("SendMessage", {}, "message"),
        ("SendMessage", {"message": []}, "message"),
        ("SendMessage", {"message": {"role": "user", "parts": []}}, "message.messageId"),
        ("SendMessage", {"message": {"messageId": "m", "parts": []}}, "message.role"),
        ("SendMessage", {"message": {"messageId": "m", "role": "user"}}, "message.parts"),
        ("SendMessage", {"message": {"messageId": "m", "role": "system", "parts": []}}, "message.role"),
        ("SendMessage", {"message": {"kind": "task", "messageId": "m", "role": "user", "parts": []}}, "message.kind"),
        ("SendMessage", {"message": {"messageId": "m", "role": "user", "parts": [1]}}, "message.parts[0]"),
        (
            "SendMessage",
            {"message": {"messageId": "m", "role": "user", "parts": [{"kind": 1}]}},
            "message.parts[0].kind",
        ),
        (
            "SendMessage",
            {"message": {"messageId": "m", "role": "user", "parts": [], "extensions": ["a", 1]}},
            "message.extensions[1]",
        ),
        ("SendMessage", {"message": {"messageId": 1, "role": "user", "parts": []}}, "message.messageId"),
        ("GetTask", {}, "id"),
        ("GetTask", {"id": "t", "historyLength": True}, "historyLength"),
        ("CancelTask", {"id": "t", "metadata": "m"}, "metadata"),
        ("SubscribeToTask", {"id": None}, "id"),
        ("SubscribeToTask", {"id": ""}, "id"),
        ("DeleteTaskPushNotificationConfig", {"id": "t", "pushNotificationConfigId": ""}, "pushNotificationConfigId"),
        ("ListTasks", {"status": "done"}, "status"),
        ("ListTasks", {"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ("CreateTaskPushNotificationConfig", {"taskId": "t"}, "pushNotificationConfig"),
        ("CreateTaskPushNotificationConfig", {"pushNotificationConfig": {"url": "u"}}, "taskId"),
        (
            "CreateTaskPushNotificationConfig",
            {"taskId": "t", "pushNotificationConfig": {}},
            "pushNotificationConfig.url",
        ),
        (
            "CreateTaskPushNotificationConfig",
            {"taskId": "t", "pushNotificationConfig": {"url": "u", "authentication": {"schemes": "Bearer"}}},
            "pushNotificationConfig.authentication.schemes",
        ),
        ("ListTaskPushNotificationConfigs", {}, "id"),
    ],
)
def test_a_client_is_told_where_it_is_wrong(operation: str, sent: Tree, field: str) -> None:
    assert refused(Operation(operation), sent) == field


def test_a_misfit_repeats_no_value() -> None:
    with pytest.raises(Misfit) as caught:
        part_up({"kind": "s3cret", "text": "s3cret"})
    assert "s3cret" not in str(caught.value)


# ---- Results ---------------------------------------------------------------------------------------------------------


@for_each("answer", [None, [], "x", 1, {}, {"kind": "x"}, {"kind": ["task"]}, {"result": {}}])
def test_an_answer_to_a_send_must_be_a_task_or_a_message(answer: Any) -> None:
    with pytest.raises(Misfit):
        FORM.lift_result(Operation.SEND_MESSAGE, answer, memo())


# ---- Parts, tasks and events ---------------------------------------------------------------------------------------


def wrong(part: Tree) -> str:
    field = refused(Operation.SEND_MESSAGE, {"message": {"messageId": "m", "role": "user", "parts": [part]}})
    return field.removeprefix("message.parts[0].")


def lift_task(task: Tree, memo: Memo) -> Tree:
    return FORM.lift_result(Operation.GET_TASK, task, memo)


def status_of(status: Any) -> Any:
    return lift_task({"kind": "task", "id": "t", "status": status}, Memo())["status"]


lift_any = FORM.lift_event


def lower_any(event: Tree, memo: Memo, *, last: bool) -> Tree:
    (lowered,) = FORM.lower_event(event, memo, last=last)
    return lowered


def up(part: Tree) -> Tree:
    return part_up(deepcopy(part))


def down(part: Tree) -> Tree:
    return part_down(deepcopy(part))


@for_each(
    ("part", "field"),
    [
        ({}, "kind"),
        ({"text": "t", "data": {}}, "kind"),
        ({"kind": "image"}, "kind"),
        ({"kind": {}}, "kind"),
        ({"kind": "text"}, "text"),
        ({"kind": "text", "text": 1}, "text"),
        ({"kind": "text", "text": "t", "metadata": []}, "metadata"),
        ({"kind": "data"}, "data"),
        ({"kind": "data", "data": [1]}, "data"),
        ({"kind": "file"}, "file"),
        ({"kind": "file", "file": "f"}, "file"),
        ({"kind": "file", "file": {}}, "file"),
        ({"kind": "file", "file": {"bytes": "", "uri": ""}}, "file"),
        ({"kind": "file", "file": {"bytes": 1}}, "file.bytes"),
        ({"kind": "file", "file": {"uri": "u", "name": 1}}, "file.name"),
        ({"raw": 1}, "raw"),
    ],
)
def test_a_part_that_cannot_be_told_is_a_misfit(part: Tree, field: str) -> None:
    assert wrong(part) == field


def test_a_part_is_one_thing_to_every_reader() -> None:
    others = {"raw": "AA==", "url": "u", "data": {}, "file": {"uri": "u"}}
    assert up({"kind": "text", "text": "t", **others}) == {"text": "t"}
    assert up({"kind": "data", "data": {"a": 1}, "text": "t", "raw": 5}) == {"data": {"a": 1}}
    assert up({"kind": "file", "file": {"uri": "u"}, "text": "t"}) == {"url": "u"}
    assert down({"text": "t", "file": {"uri": "u"}, "kind": "file"}) == {"kind": "text", "text": "t"}
    assert down({"data": {}, "file": {"uri": "u"}}) == {"kind": "data", "data": {}}


def test_file_members_of_other_parts_are_kept_in_metadata() -> None:
    parts: tuple[Tree, ...] = ({"text": "t"}, {"data": {}}, {"data": 5})
    for part in parts:
        said = {**part, "mediaType": "m/t", "filename": "f"}
        lowered = down(said)
        assert lowered["metadata"]["media_type_compat"] == "m/t"
        assert lowered["metadata"]["filename_compat"] == "f"
        assert not {"mediaType", "filename"} & lowered.keys()
        assert up(lowered) == said
        beside = {**said, "metadata": {"k": "v"}}
        assert up(down(beside)) == beside
    # A file's metadata is its own.
    file = {"kind": "file", "file": {"uri": "u"}, "metadata": {"filename_compat": "f"}}
    assert up(file) == {"url": "u", "metadata": {"filename_compat": "f"}}


@for_each("said", ["", "now", "2026-02-30T04:05:06Z", 1770091506, None, {}])
def test_a_status_of_no_time_is_still_a_status(said: Any) -> None:
    assert status_of({"state": "working", "timestamp": said}) == {"state": "TASK_STATE_WORKING"}


def test_a_task_that_does_not_name_itself_is_what_the_call_is_about() -> None:
    working = {"state": "working"}
    memo = Memo(task_id="t", context_id="c")
    assert lift_task({"status": dict(working), "contextId": ""}, memo).items() >= {"id": "t", "contextId": "c"}.items()
    with pytest.raises(Misfit, match="id: is required"):
        lift_task({"kind": "task", "status": working}, Memo())
    with pytest.raises(Misfit, match="kind: must be task"):
        lift_task({"kind": "message", "id": "t", "status": working}, Memo())
    with pytest.raises(Misfit, match="status: is required"):
        lift_task({"kind": "task", "id": "t"}, Memo())


def test_a_nested_misfit_is_found() -> None:
    task: Tree = {"id": "t", "status": {"state": "working"}, "artifacts": [{"artifactId": "a", "parts": [{}]}]}
    with pytest.raises(Misfit) as caught:
        lift_task(task, Memo())
    assert caught.value.field == "artifacts[0].parts[0].kind"
    task = {"id": "t", "status": {"state": "working", "message": {"parts": {}}}}
    with pytest.raises(Misfit) as caught:
        lift_task(task, Memo())
    assert caught.value.field == "status.message.parts"


@for_each(
    ("event", "name"),
    [
        ({"id": "t", "status": {"state": "working"}}, "task"),
        ({"taskId": "t", "status": {"state": "working"}}, "statusUpdate"),
        ({"task_id": "t", "status": {"state": "working"}}, "statusUpdate"),
        ({"status": {"state": "working"}, "final": True}, "statusUpdate"),
        ({"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}, "artifactUpdate"),
        ({"messageId": "m", "role": "agent", "parts": []}, "message"),
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}, "task"),
        ({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}, "message"),
        ({"statusUpdate": {"taskId": "t", "status": {"state": "working"}}}, "statusUpdate"),
        ({"status_update": {"taskId": "t", "status": {"state": "working"}}}, "statusUpdate"),
        ({"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}}, "artifactUpdate"),
    ],
)
def test_an_event_without_a_kind_is_known_by_its_members(event: Tree, name: str) -> None:
    assert list(lift_any(event, Memo(task_id="call"))) == [name]


@for_each(
    ("event", "field"),
    [
        ({}, ""),
        ({"kind": "status"}, "kind"),
        ({"kind": 1}, "kind"),
        ({"task": []}, "task"),
        ({"task": {"status": {"state": "working"}}}, "task.id"),
        ({"kind": "status-update", "status": {"state": "working"}}, "taskId"),
        ({"kind": "status-update", "taskId": "t"}, "status"),
        ({"kind": "artifact-update", "taskId": "t"}, "artifact"),
        ({"kind": "artifact-update", "taskId": "t", "artifact": {"parts": []}}, "artifact.artifactId"),
        ({"kind": "artifact-update", "taskId": "t", "append": "yes"}, "append"),
    ],
)
def test_an_event_that_cannot_be_told_is_a_misfit(event: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_any(event, Memo())
    assert caught.value.field == field


def test_an_event_of_no_context_is_in_one_of_its_task() -> None:
    memo = Memo()
    for _ in range(2):
        event = {"kind": "status-update", "taskId": "t", "contextId": "", "status": {"state": "working"}}
        assert lift_any(event, memo)["statusUpdate"]["contextId"] == "t"
    # A made-up id is not remembered.
    assert memo == Memo(task_id="t")
    lowered = lower_any(
        {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}, Memo(), last=False
    )
    assert lowered["contextId"] == "t"
    lowered = lower_any({"statusUpdate": {}}, Memo(task_id="call"), last=True)
    assert lowered == {
        "kind": "status-update", "taskId": "call", "contextId": "call", "status": {"state": "unknown"}, "final": False,
    }  # fmt: skip


def test_chunks_of_an_artifact_always_have_their_flags() -> None:
    hub: Tree = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}}
    lowered = lower_any({"artifactUpdate": deepcopy(hub)}, Memo(), last=False)
    assert (lowered["append"], lowered["lastChunk"]) == (False, False)
    assert lift_any(lowered, Memo()) == {"artifactUpdate": hub}
    lowered = lower_any({"artifactUpdate": {**deepcopy(hub), "append": True}}, Memo(), last=True)
    assert (lowered["append"], lowered["lastChunk"]) == (True, False)
