"""0.3 over HTTP+JSON and 1.0 say the same: by the vectors, there and back, and whatever outsiders send."""

from base64 import b64decode, b64encode, urlsafe_b64encode
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Memo, Misfit, Step
from tests.table import for_each


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


# ---- Parts in three spellings, and bytes that were encoded once or twice ---------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def lifted_part(part: Tree) -> Tree:
    message = {"messageId": "m", "role": "ROLE_USER", "content": [deepcopy(part)]}
    found: Tree = FORM.lift_params(Operation.SEND_MESSAGE, {"message": message}, Memo())["message"]["parts"][0]
    return found


def base64_of(raw: bytes) -> str:
    return b64encode(raw).decode()


@for_each(
    ("said", "meant"),
    [
        ({"text": ""}, {"text": ""}),
        ({"kind": "text", "text": "a"}, {"text": "a"}),
        ({"text": "a", "file": None, "metadata": {"k": 1}}, {"text": "a", "metadata": {"k": 1}}),
        ({"text": "a", "metadata": {"media_type_compat": "b"}}, {"text": "a", "mediaType": "b"}),
        ({"file": {"fileWithUri": "u", "mimeType": "m", "name": "n"}}, {"url": "u", "mediaType": "m", "filename": "n"}),
        ({"file": {"file_with_uri": "u", "mime_type": "m", "name": ""}}, {"url": "u", "mediaType": "m"}),
        ({"kind": "file", "file": {"uri": "u", "mimeType": "m"}}, {"url": "u", "mediaType": "m"}),
        ({"kind": "file", "file": {"bytes": "AP8="}}, {"raw": "AP8="}),
        ({"file": {"fileWithBytes": "AP8="}}, {"raw": "AP8="}),
        ({"file": {"file_with_bytes": "QVA4PQ=="}}, {"raw": "AP8="}),
        ({"file": {"fileWithBytes": "", "file_with_uri": None}}, {"raw": ""}),
        ({"data": {"data": {"a": None}}}, {"data": {"a": None}}),
        ({"data": {"data": {"data": {}}}}, {"data": {"data": {}}}),
        ({"data": {"data": None}}, {"data": {}}),
        ({"data": {}}, {"data": {}}),
        ({"data": {"a": 1}}, {"data": {"a": 1}}),
        ({"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
        ({"kind": "data", "data": {"data": {"a": 1}}}, {"data": {"data": {"a": 1}}}),
        ({"kind": "data", "data": {"data": 1, "a": 1}}, {"data": {"data": 1, "a": 1}}),
        ({"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": True}}, {"data": [1]}),
        (
            {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True, "k": 1}},
            {"data": None, "metadata": {"k": 1}},
        ),
        (
            {"data": {"data": {"value": 1, "more": 2}}, "metadata": {"data_part_compat": True}},
            {"data": {"value": 1, "more": 2}, "metadata": {"data_part_compat": True}},
        ),
        ({"raw": "AP8", "mediaType": "m"}, {"raw": "AP8=", "mediaType": "m"}),
    ],
)
def test_a_part_is_lifted_in_any_spelling(said: Tree, meant: Tree) -> None:
    assert lifted_part(said) == meant


@for_each(
    ("said", "field"),
    [
        ({}, ""),
        ({"metadata": {}}, ""),
        ({"text": "a", "data": {"data": {}}}, ""),
        ({"text": "a", "url": "u"}, ""),
        ({"text": "a", "file": {"uri": "u"}}, ""),
        ({"file": {"uri": "u"}, "raw": ""}, ""),
        ({"text": 1}, "text"),
        ({"kind": 1, "text": "a"}, "kind"),
        ({"kind": "data", "text": "a"}, "kind"),
        ({"kind": "text", "file": {"uri": "u"}}, "kind"),
        ({"file": "u"}, "file"),
        ({"file": {}}, "file"),
        ({"file": {"uri": "u", "fileWithBytes": ""}}, "file"),
        ({"file": {"fileWithUri": "u", "file_with_uri": "v"}}, "file.file_with_uri"),
        ({"file": {"fileWithBytes": "AP8=", "bytes": "AP8A"}}, "file.bytes"),
        ({"file": {"fileWithBytes": "no base64"}}, "file.fileWithBytes"),
        ({"file": {"bytes": "A"}}, "file.bytes"),
        ({"file": {"bytes": "=AP8"}}, "file.bytes"),
        ({"file": {"bytes": "AP8=AP8="}}, "file.bytes"),
        ({"file": {"bytes": "\u00e4\u00e4\u00e4\u00e4"}}, "file.bytes"),
        ({"file": {"bytes": 7}}, "file.bytes"),
        ({"data": [1]}, "data"),
        ({"data": {"data": 1}}, "data.data"),
        ({"data": {"data": {}, "more": 1}}, "data"),
        ({"text": "a", "metadata": []}, "metadata"),
    ],
)
def test_a_part_that_is_none_is_a_misfit_that_names_the_place(said: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lifted_part(said)
    assert caught.value.field == f"message.content[0].{field}".removesuffix(".")


@for_each("spelling", ["fileWithBytes", "file_with_bytes", "bytes"])
@for_each("written", [base64_of(PNG), base64_of(PNG).rstrip("="), urlsafe_b64encode(PNG).decode()])
def test_bytes_end_in_the_standard_alphabet_and_padded(spelling: str, written: str) -> None:
    assert lifted_part({"file": {spelling: written}}) == {"raw": base64_of(PNG)}


@for_each("written", ["AP9=", "AP9", "AP-", "AP+"])
def test_stray_bits_behind_the_last_byte_are_cleared(written: str) -> None:
    raw = lifted_part({"file": {"bytes": written}})["raw"]
    assert raw == base64_of(b64decode(raw))
    assert b64decode(raw) == b64decode(written.replace("-", "+").rstrip("=") + "=")


@given(st.binary())
def test_bytes_are_lifted_as_they_were_whether_they_were_encoded_once_or_twice(raw: bytes) -> None:
    assert lifted_part({"file": {"fileWithBytes": base64_of(base64_of(raw).encode())}}) == {"raw": base64_of(raw)}
    if len(raw) % 4 or not raw.isascii():
        assert lifted_part({"file": {"fileWithBytes": base64_of(raw)}}) == {"raw": base64_of(raw)}


@for_each(
    ("part", "raw"),
    [
        # With stray bits, which no encoder writes, it is what the file holds.
        ({"file": {"fileWithBytes": base64_of(b"AP9=")}}, base64_of(b"AP9=")),
        # The known price: nothing tells a file of base64 text from one that was encoded twice (protocol §10.3).
        ({"file": {"fileWithBytes": base64_of(b"word")}}, "word"),
        # JSON-RPC encodes once.
        ({"kind": "file", "file": {"bytes": base64_of(b"word")}}, base64_of(b"word")),
    ],
)
def test_base64_is_decoded_twice_only_for_writers_that_encode_twice(part: Tree, raw: str) -> None:
    assert lifted_part(part) == {"raw": raw}


@given(st.recursive(st.none() | st.text(max_size=4) | st.integers(), lambda inner: st.dictionaries(st.sampled_from(
    ["kind", "text", "file", "data", "metadata", "bytes", "fileWithBytes", "uri", "value", "data_part_compat", "raw"],
), inner, max_size=4), max_leaves=8))  # fmt: skip
def test_every_part_is_one_content_or_a_misfit(tree: Any) -> None:
    try:
        part = lifted_part(tree if isinstance(tree, dict) else {"text": tree})
    except Misfit:
        return
    assert len(part.keys() & {"text", "raw", "url", "data"}) == 1
    assert not part.keys() & {"kind", "file"}


# ---- Push configurations with their names, in the shapes that clients and agents give them ---------------------------

CREATION = FORM.rules[Operation.CREATE_PUSH_CONFIG].params_up
CONFIG = FORM.rules[Operation.GET_PUSH_CONFIG].params_up
LISTING = FORM.rules[Operation.LIST_PUSH_CONFIGS].params_up
DELETION = FORM.rules[Operation.DELETE_PUSH_CONFIG].params_up
RESOURCE = FORM.rules[Operation.GET_PUSH_CONFIG].result_up

NAME = "tasks/t/pushNotificationConfigs/c"
FLAT = {"taskId": "t", "id": "c", "url": "u"}
SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=6)


def lifted_config(step: Step, tree: Tree, task: str | None = None) -> Tree:
    return dict(step(deepcopy(tree), Memo(task_id=task)))


def refused_config(step: Step, tree: Tree) -> str:
    with pytest.raises(Misfit) as caught:
        lifted_config(step, tree)
    return caught.value.field


# ---- Created ---------------------------------------------------------------------------------------------------------


@for_each(
    "asked",
    [
        # a2a-python
        {"taskId": "t", "parent": "tasks/t", "configId": "c",
         "config": {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}}},
        {"taskId": "t", "parent": "tasks/t", "config_id": "c",
         "config": {"name": NAME, "push_notification_config": {"id": "c", "url": "u"}}},
        # a2a-js
        {"taskId": "t", "name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}},
        {"taskId": "t", "name": NAME, "pushNotificationConfig": {"url": "u"}},
        # by hand
        {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": "u"}},
        {"task_id": "t", "configId": "c", "config": {"pushNotificationConfig": {"url": "u"}}},
    ],
)  # fmt: skip
def test_a_creation_is_lifted_in_any_shape(asked: Tree) -> None:
    assert lifted_config(CREATION, asked) == FLAT


def test_the_name_that_a2a_python_makes_up_is_no_id() -> None:
    config = {"name": "tasks/t/pushNotificationConfigs/None", "pushNotificationConfig": {"url": "u"}}
    assert lifted_config(CREATION, {"taskId": "t", "parent": "tasks/t", "config": config}) == {
        "taskId": "t",
        "url": "u",
    }


@for_each(
    ("change", "field"),
    [
        ({"configId": "d"}, "configId"),
        ({"config_id": "d"}, "config_id"),
        ({"config": None}, "pushNotificationConfig"),
        ({"config": {}}, "config.pushNotificationConfig"),
        ({"config": {"pushNotificationConfig": {"id": "c"}}}, "config.pushNotificationConfig.url"),
        ({"config": {"name": "t/c", "pushNotificationConfig": {"url": "u"}}}, "config.name"),
        ({"config": {"name": NAME + "/d", "pushNotificationConfig": {"url": "u"}}}, "config.name"),
        ({"name": NAME}, "config"),
        ({"pushNotificationConfig": {"url": "u"}}, "config"),
        ({"config": {"pushNotificationConfig": {"url": "u", "token": 1}}}, "config.pushNotificationConfig.token"),
    ],
)
def test_a_creation_that_says_two_things_is_a_misfit(change: Tree, field: str) -> None:
    config = {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}}
    asked = {"taskId": "t", "parent": "tasks/t", "configId": "c", "config": config}
    assert refused_config(CREATION, {**asked, **change}) == field


def test_a_creation_must_name_a_task() -> None:
    assert refused_config(CREATION, {"config": {"pushNotificationConfig": {"url": "u"}}}) == "parent"


# ---- Answered --------------------------------------------------------------------------------------------------------


@for_each(
    "answer",
    [
        {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}},
        {"name": NAME, "push_notification_config": {"url": "u", "token": ""}},
        {"name": NAME, "pushNotificationConfig": {"url": "u", "taskId": "x", "tenant": "y"}, "more": 1},
        {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": "u"}},
    ],
)
def test_a_resource_is_lifted_flat(answer: Tree) -> None:
    assert lifted_config(RESOURCE, answer) == FLAT


@for_each("name", ["tasks/t/pushNotificationConfigs/", None])
def test_a_resource_without_an_id_has_the_id_of_its_task(name: str | None) -> None:
    answer = {"name": name, "pushNotificationConfig": {"url": "u"}}
    assert lifted_config(RESOURCE, answer, "t") == {"taskId": "t", "id": "t", "url": "u"}


@for_each(
    ("answer", "field"),
    [
        ({"name": NAME}, "pushNotificationConfig"),
        ({"pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "tasks/a/b/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "tasks//pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "/" + NAME, "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": NAME + "\n/", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": 1, "pushNotificationConfig": {"url": "u"}}, "name"),
    ],
)
def test_a_resource_that_is_none_is_a_misfit_that_names_the_place(answer: Tree, field: str) -> None:
    assert refused_config(RESOURCE, answer) == field


def test_an_id_with_a_slash_is_known_only_where_the_call_says_it() -> None:
    answer = {"name": "tasks/a/b/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u"}}
    assert lifted_config(RESOURCE, answer, "a/b") == {"taskId": "a/b", "id": "c", "url": "u"}


@given(SEGMENTS, SEGMENTS)
def test_ids_stand_in_names_as_they_are(task: str, config: str) -> None:
    answer = {"name": f"tasks/{task}/pushNotificationConfigs/{config}", "pushNotificationConfig": {"url": "u"}}
    assert lifted_config(RESOURCE, answer) == {"taskId": task, "id": config, "url": "u"}


# ---- Got, listed, deleted --------------------------------------------------------------------------------------------


@for_each(
    ("step", "asked", "meant"),
    [
        (CONFIG, {"taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}),
        (CONFIG, {"taskId": "t"}, {"taskId": "t"}),
        (LISTING, {"taskId": "t", "page_size": "5", "pageToken": ""}, {"taskId": "t", "pageSize": 5}),
    ],
)
def test_requests_name_a_task_and_may_name_a_configuration(step: Step, asked: Tree, meant: Tree) -> None:
    assert lifted_config(step, asked) == meant


@for_each(
    ("step", "asked", "field"),
    [
        (CONFIG, {}, "taskId"),
        (DELETION, {"taskId": "t"}, "id"),
        (LISTING, {}, "taskId"),
    ],
)
def test_requests_that_name_too_little_are_misfits(step: Step, asked: Tree, field: str) -> None:
    assert refused_config(step, asked) == field


# ---- Messages, tasks and parameters in three spellings ---------------------------------------------------------------

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
def test_a_misfit_names_the_field_as_its_writer_does(params: Tree, field: str) -> None:
    assert refused(Operation.SEND_MESSAGE, params) == field


def test_omitted_members_are_filled_in_from_the_call() -> None:
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
def test_an_operation_on_a_task_names_it(operation: Operation) -> None:
    assert asked(operation, {"id": "t", "name": "tasks/t"}) == {"id": "t"}
    assert refused(operation, {}) == "id"


def test_a_filter_that_names_no_moment_is_refused() -> None:
    assert refused(Operation.LIST_TASKS, {"statusTimestampAfter": "soon"}) == "statusTimestampAfter"
    assert asked(Operation.LIST_TASKS, {"status": "TASK_STATE_UNSPECIFIED"}) == {}
