"""A referenced task or context is found in every place and every dialect."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a.bindings import grpc, jsonrpc, rest
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.call import MOST_REFERENCED_TASKS, NO_IDS, Call, ReferencedIds, Webhook
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey
from gateway.a2a.ids import referenced_ids, with_context, with_task, without
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import NO_PARAMS
from gateway.a2a.paths import PathCall, read_rest
from gateway.a2a.translation import Translation
from tests.a2a.bindings.grpc_sample import made
from tests.a2a.dialects import DIALECTS, FILES, Case, asked, call_of, hub_params, pairs, vector
from tests.a2a.sample import CONTEXT, TASK
from tests.support.grpc_bytes import text_field
from tests.table import for_each

V0_1, V0_3, V1_0 = Version.V0_1, Version.V0_3, Version.V1_0
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
HOOK = "https://hooks.example.net/a2a"
VECTORS = [(file, name) for file in FILES for name in vector(file)["request"] if name in DIALECTS]


def rpc(method: str, params: object, query: bytes = b"") -> Call:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), query, None)


def over_http(method: str, path: str, body: object = None, query: bytes = b"", version: Version = V1_0) -> Call:
    found = read_rest(method, tuple(path.split("/")), tenanted=False)
    assert found is not None
    return rest.read_call(found, b"" if body is None else json.dumps(body).encode(), query, version)


def over_grpc(operation: Operation, version: Version, *, more: bytes = b"", **members: Any) -> Call:
    return grpc.read_call(method_of(operation, version), made(operation, version, **members) + more)


def named(call: Call) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
    """Return the ids in a call: the same ones whether read from the parsed call or from its bytes alone."""
    found = referenced_ids(call)
    unread = replace(call, params=NO_PARAMS)
    if call.dialect.binding is not Binding.GRPC:
        again = referenced_ids(unread)
        assert (set(again.tasks), again.context, again.webhooks) == (set(found.tasks), found.context, found.webhooks)
    return found.tasks, found.references, found.context


# ---- The vectors -----------------------------------------------------------------------------------------------------


def expected(file: str, dialect: Dialect) -> ReferencedIds:
    operation = Operation(file.partition("_")[0])
    hooks = (Webhook(HOOK, token=True),) if file in ("SendMessage", "CreateTaskPushNotificationConfig") else ()
    if operation.sends:
        return ReferencedIds((TASK,) if dialect.version is V0_1 else (), (), CONTEXT, hooks)
    if operation is Operation.LIST_TASKS:
        return ReferencedIds(context=CONTEXT)
    return ReferencedIds((TASK,), webhooks=hooks)


@for_each(("file", "name"), VECTORS)
def test_ids_of_the_vectors_are_found_in_every_dialect(file: str, name: str) -> None:
    call = call_of(vector(file)["request"][name], DIALECTS[name])
    assert referenced_ids(call) == expected(file, DIALECTS[name])
    assert named(call)


@for_each("pair", pairs())
def test_translated_calls_name_the_same_ids(pair: list[Case]) -> None:
    for case in pair:
        _names_what_its_client_named(case)


def _names_what_its_client_named(case: Case) -> None:
    call = call_of(vector(case.file)["request"][case.ours], DIALECTS[case.ours])
    theirs = DIALECTS[case.theirs]
    asked = Translation(call, theirs, new_id="new", message_id="m").call
    told = expected(case.file, theirs)
    if told.tasks and call.operation.sends:
        # An agent of 0.1 wants its client to name a task, and nobody else a task that it did not make.
        told = replace(told, tasks=("new",))
    found = referenced_ids(asked)
    assert (found.tasks, found.context, found.webhooks) == (told.tasks, told.context, told.webhooks), case


def test_a_card_names_nothing() -> None:
    card = vector("GetExtendedAgentCard")["request"]
    for name, entry in card.items():
        assert referenced_ids(call_of(entry, DIALECTS[name])) is NO_IDS


# ---- Every position, in JSON -----------------------------------------------------------------------------------------

PUSHES = (
    "taskPushNotificationConfig", "task_push_notification_config", "pushNotificationConfig", "push_notification_config",
    "pushNotification", "push_notification",
)  # fmt: skip

SENDS: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], str | None]] = [
    ({"message": SAID}, (), (), None),
    ({"message": {**SAID, "taskId": "t", "contextId": "c"}}, ("t",), (), "c"),
    ({"message": {**SAID, "task_id": "t", "context_id": "c"}}, ("t",), (), "c"),
    ({"message": {**SAID, "taskId": "t", "task_id": "t", "contextId": "c", "context_id": ""}}, ("t",), (), "c"),
    ({"message": {**SAID, "taskId": "", "contextId": "", "referenceTaskIds": []}}, (), (), None),
    ({"message": {**SAID, "taskId": None, "contextId": None, "referenceTaskIds": None}}, (), (), None),
    ({"request": {**SAID, "task_id": "t", "referenceTaskIds": ["r"]}}, ("t", "r"), ("r",), None),
    ({"message": SAID, "referenceTaskIds": ["r"]}, ("r",), ("r",), None),
    ({"message": {**SAID, "referenceTaskIds": ["r"]}, "reference_task_ids": ["s"]}, ("r", "s"), ("r", "s"), None),
    ({"message": {**SAID, "referenceTaskIds": ["r", "s", "r", ""]}}, ("r", "s"), ("r", "s"), None),
    ({"message": {**SAID, "reference_task_ids": ["r"], "taskId": "r"}}, ("r",), (), None),
    ({"message": {**SAID, "taskId": "t", "reference_task_ids": ["r", "t"]}}, ("t", "r"), ("r",), None),
    ({"message": SAID, "taskId": "t", "contextId": "c"}, ("t",), (), "c"),
    ({"message": SAID, "task_id": "t", "session_id": "c"}, ("t",), (), "c"),
    ({"message": {**SAID, "taskId": "t"}, "id": "u", "sessionId": "c"}, ("t", "u"), (), "c"),
    ({"message": {**SAID, "contextId": "c"}, "sessionId": "c"}, (), (), "c"),
    ({"message": SAID, "metadata": {"taskId": "x", "contextId": "x"}}, (), (), None),
    ({"message": {**SAID, "metadata": {"reference_task_ids_compat": ["x"]}}}, (), (), None),
    ({"message": {**SAID, "parts": [{"data": {"taskId": "x"}, "metadata": {"contextId": "x"}}]}}, (), (), None),
    ({"message": SAID, "configuration": {"taskId": "x", "historyLength": 1}}, (), (), None),
    *[({"message": SAID, "configuration": {name: {"taskId": "r", "url": "u"}}}, ("r",), ("r",), None)
      for name in PUSHES],
    *[({"message": SAID, name: {"task_id": "r"}}, ("r",), ("r",), None) for name in PUSHES],
    ({"message": {**SAID, "taskId": "t"}, "configuration": {"pushNotificationConfig": {"taskId": "t", "task_id": "r"}}},
     ("t", "r"), ("r",), None),
    ({"message": SAID, "configuration": {"pushNotificationConfig": {"pushNotification": {"taskId": "r"}}}},
     ("r",), ("r",), None),
]  # fmt: skip


@for_each(("params", "tasks", "references", "context"), SENDS)
def test_a_send_may_name_them_in_many_places(
    params: dict[str, Any], tasks: tuple[str, ...], references: tuple[str, ...], context: str | None
) -> None:
    for method in ("SendMessage", "SendStreamingMessage", "message/send", "message/stream"):
        assert named(rpc(method, params)) == (tasks, references, context)
    for version in (V0_3, V1_0):
        for path in ("message:send", "message:stream"):
            assert named(over_http("POST", path, params, b"A2A-Version=1.0", version)) == (tasks, references, context)


OLDEST: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], str | None]] = [
    ({"id": "t", "message": SAID}, ("t",), (), None),
    ({"id": "t", "sessionId": "c", "message": SAID}, ("t",), (), "c"),
    ({"id": "t", "session_id": "c", "message": {**SAID, "contextId": "c"}}, ("t",), (), "c"),
    ({"id": "t", "message": {**SAID, "taskId": "u"}}, ("t", "u"), (), None),
    ({"message": {**SAID, "taskId": "u", "contextId": "c"}}, ("u",), (), "c"),
    ({"id": "t", "message": {**SAID, "referenceTaskIds": ["r"]}}, ("t", "r"), ("r",), None),
    ({"id": "t", "message": {**SAID, "metadata": {"reference_task_ids_compat": ["r"]}}}, ("t", "r"), ("r",), None),
    ({"id": "t", "message": {**SAID, "metadata": {"reference_task_ids_compat": [1]}}}, ("t",), (), None),
    ({"id": "t", "message": {**SAID, "metadata": "x"}}, ("t",), (), None),
    ({"id": "t", "message": SAID, "pushNotification": {"url": HOOK, "taskId": "r"}}, ("t", "r"), ("r",), None),
]


@for_each(("params", "tasks", "references", "context"), OLDEST)
def test_a_send_of_0_1_names_its_task_and_its_session(
    params: dict[str, Any], tasks: tuple[str, ...], references: tuple[str, ...], context: str | None
) -> None:
    for method in ("tasks/send", "tasks/sendSubscribe"):
        assert named(rpc(method, params)) == (tasks, references, context)


@for_each("written", ['{"reference_task_ids_compat":["r"]}', '{"\\u0072eference_task_ids_compat":["r"]}'])
def test_references_kept_in_metadata_of_0_1_become_references(written: str) -> None:
    params = {"id": "t", "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}], "metadata": {"k": 1}}}
    body = rpc("tasks/send", params).body.replace(b'{"k": 1}', written.encode())
    call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
    assert referenced_ids(call).references == ("r",)
    for dialect in (DIALECTS["v1.0-jsonrpc"], DIALECTS["v1.0-grpc"], DIALECTS["v0.3-jsonrpc"]):
        assert referenced_ids(Translation(call, dialect).call).references == ("r",)


OTHERS: list[tuple[str, dict[str, Any], tuple[str, ...], str | None]] = [
    ("GetTask", {"id": "t"}, ("t",), None),
    ("GetTask", {"id": ""}, (), None),
    ("GetTask", {}, (), None),
    ("GetTask", {"id": "t", "taskId": "u", "task_id": "v"}, ("t", "u", "v"), None),
    ("GetTask", {"id": "t", "contextId": "c", "metadata": {"id": "x"}}, ("t",), "c"),
    ("GetTask", {"name": "tasks/t"}, ("t",), None),
    ("tasks/get", {"id": "t", "name": "tasks/u/pushNotificationConfigs/c"}, ("t", "u"), None),
    ("tasks/get", {"id": "t", "name": "my task"}, ("t",), None),
    ("tasks/get", {"id": "t", "sessionId": "c"}, ("t",), "c"),
    ("tasks/cancel", {"task_id": "t"}, ("t",), None),
    ("CancelTask", {"id": "t", "parent": "tasks/u"}, ("t", "u"), None),
    ("SubscribeToTask", {"id": "t"}, ("t",), None),
    ("tasks/resubscribe", {"id": "t", "taskId": "t"}, ("t",), None),
    ("ListTasks", {}, (), None),
    ("ListTasks", {"contextId": "c", "status": "TASK_STATE_WORKING"}, (), "c"),
    ("ListTasks", {"context_id": "c", "contextId": ""}, (), "c"),
    ("tasks/list", {"contextId": "c", "id": "t"}, ("t",), "c"),
    ("tasks/list", {"sessionId": "c"}, (), "c"),
    ("CreateTaskPushNotificationConfig", {"taskId": "t", "id": "x", "url": "u"}, ("t",), None),
    ("CreateTaskPushNotificationConfig", {"task_id": "t", "id": "x"}, ("t",), None),
    ("CreateTaskPushNotificationConfig", {"id": "t", "pushNotificationConfig": {"id": "x"}}, ("t",), None),
    ("CreateTaskPushNotificationConfig", {"parent": "tasks/t", "config": {"name": "tasks/u"}}, ("t", "u"), None),
    ("tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": {"id": "x", "taskId": "u"}},
     ("t", "u"), None),
    ("tasks/pushNotificationConfig/set", {"id": "u", "taskId": "t", "pushNotificationConfig": {}}, ("t", "u"), None),
    ("tasks/pushNotificationConfig/set", {"id": "x", "taskId": "t", "url": "u"}, ("t",), None),
    ("tasks/pushNotification/set", {"id": "t", "pushNotificationConfig": {"url": "u"}}, ("t",), None),
    ("tasks/pushNotification/set", {"id": "u", "taskId": "t", "pushNotificationConfig": {}}, ("u", "t"), None),
    ("tasks/pushNotification/set", {"taskId": "t", "pushNotificationConfig": {}}, ("t",), None),
    ("GetTaskPushNotificationConfig", {"taskId": "t", "id": "x"}, ("t",), None),
    ("GetTaskPushNotificationConfig", {"id": "t", "pushNotificationConfigId": "x"}, ("t",), None),
    ("tasks/pushNotificationConfig/get", {"id": "t", "pushNotificationConfigId": "x"}, ("t",), None),
    # Params with a `taskId` are of 1.0, where `id` is the configuration; agents get them in their own words.
    ("tasks/pushNotificationConfig/get", {"id": "t", "taskId": "u"}, ("u",), None),
    ("tasks/pushNotification/get", {"id": "t"}, ("t",), None),
    ("tasks/pushNotification/get", {"taskId": "t"}, ("t",), None),
    ("ListTaskPushNotificationConfigs", {"taskId": "t", "id": "u"}, ("t", "u"), None),
    ("ListTaskPushNotificationConfig", {"taskId": "t"}, ("t",), None),
    ("tasks/pushNotificationConfig/list", {"id": "t"}, ("t",), None),
    ("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "x"}, ("t",), None),
    ("tasks/pushNotificationConfig/delete", {"id": "t", "pushNotificationConfigId": "x"}, ("t",), None),
]  # fmt: skip


@for_each(("method", "params", "tasks", "context"), OTHERS)
def test_any_other_operation_may_too(
    method: str, params: dict[str, Any], tasks: tuple[str, ...], context: str | None
) -> None:
    assert named(rpc(method, params)) == (tasks, (), context)


@for_each(
    ("query", "tasks", "context"),
    [
        (b"taskId=u&contextId=c", ("t", "u"), "c"),
        (b"task_id=u", ("t", "u"), None),
        (b"context_id=%63", ("t",), "c"),
        (b"taskId=t&x=1&id=9&name=n&assistant_id=a", ("t",), None),
        (b"contextId=", ("t",), None),
        (b"name=tasks/u", ("t", "u"), None),
        (b"parent=tasks%2fu/pushNotificationConfigs&name=tasks/t", ("t", "u"), None),
    ],
)
def test_the_query_of_a_json_rpc_request_is_a_place(query: bytes, tasks: tuple[str, ...], context: str | None) -> None:
    assert named(rpc("GetTask", {"id": "t"}, query)) == (tasks, (), context)
    assert named(rpc("SendMessage", {"message": {**SAID, "taskId": "t"}}, query)) == (tasks, (), context)


@for_each(
    ("method", "path", "body", "query"),
    [
        ("GET", "tasks/t", None, b"historyLength=1&id=t&name=tasks/t"),
        ("POST", "tasks/t:cancel", {"id": "t", "metadata": {}}, b""),
        ("POST", "tasks/t:cancel", {"name": "tasks/t"}, b""),
        ("POST", "tasks/t:subscribe", {"id": "not read, and not sent"}, b""),
        ("POST", "tasks/t/pushNotificationConfigs", {"taskId": "t", "id": "x", "url": HOOK}, b""),
        ("GET", "tasks/t/pushNotificationConfigs/x", None, b"name=tasks/t/pushNotificationConfigs/x"),
        ("GET", "tasks/t/pushNotificationConfigs", None, b"parent=tasks/t"),
        ("DELETE", "tasks/t/pushNotificationConfigs/x", None, b""),
    ],
)
def test_over_http_the_path_names_the_task(method: str, path: str, body: object, query: bytes) -> None:
    for version in (V0_3, V1_0):
        assert named(over_http(method, path, body, query, version)) == (("t",), (), None)


@for_each(
    ("query", "context"),
    [(b"contextId=c&pageSize=1", "c"), (b"context_id=c%2B", "c+"), (b"contextId=", None), (b"", None)],
)
def test_over_http_a_list_has_its_context_in_the_query(query: bytes, context: str | None) -> None:
    assert named(over_http("GET", "tasks", query=query)) == ((), (), context)


# ---- Every position, over gRPC ---------------------------------------------------------------------------------------


def test_a_send_over_grpc_names_them_in_its_fields() -> None:
    for operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE):
        push = {"task_id": "r", "url": HOOK, "token": "s"}
        call = over_grpc(
            operation,
            V1_0,
            message={"task_id": "t", "context_id": "c", "reference_task_ids": ["q", "t"]},
            configuration={"task_push_notification_config": push},
        )
        assert referenced_ids(call) == ReferencedIds(("t", "q", "r"), ("q", "r"), "c", (Webhook(HOOK, token=True),))
        assert referenced_ids(over_grpc(operation, V1_0, message={"message_id": "m"}, configuration={})) == NO_IDS
        call = over_grpc(
            operation,
            V0_3,
            request={"task_id": "t", "context_id": "c"},
            configuration={"push_notification": {"url": HOOK, "authentication": {"credentials": "s"}}},
        )
        assert referenced_ids(call) == ReferencedIds(("t",), (), "c", (Webhook(HOOK, token=True),))
        assert referenced_ids(
            over_grpc(operation, V0_3, configuration={"push_notification": {"url": HOOK}})
        ) == ReferencedIds(webhooks=(Webhook(HOOK),))


def test_the_references_that_a_candidate_of_1_0_finds_in_a_message_of_0_3_are_found() -> None:
    """It has the paths of 0.3, whose classes do not know the field."""
    inside = text_field(3, "t") + text_field(8, "r") + b"\x40\x01" + text_field(8, "s") + text_field(90, "x")
    more = b"\x0a" + bytes([len(inside)]) + inside
    assert named(over_grpc(Operation.SEND_MESSAGE, V0_3, more=more)) == (("t", "r", "s"), ("r", "s"), None)
    with pytest.raises(BadParams, match="UTF-8"):
        referenced_ids(over_grpc(Operation.SEND_MESSAGE, V0_3, more=b"\x0a\x03\x42\x01\xff"))


@for_each("operation", [each for each in Operation if each.kind in (Kind.TASK, Kind.PUSH)])
def test_any_other_operation_over_grpc_has_it_in_a_field_or_a_name(operation: Operation) -> None:
    if operation is Operation.LIST_TASKS:
        assert referenced_ids(over_grpc(operation, V1_0, context_id="c")) == ReferencedIds(context="c")
        assert referenced_ids(over_grpc(operation, V1_0)) == NO_IDS
        return
    field = "task_id" if operation.kind is Kind.PUSH else "id"
    fields: dict[str, Any] = {field: "t"}
    assert named(over_grpc(operation, V1_0, **fields)) == (("t",), (), None)
    name = "tasks/t"
    if operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG):
        name += "/pushNotificationConfigs/x"
    field = "parent" if operation in (Operation.CREATE_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS) else "name"
    fields = {field: name}
    assert named(over_grpc(operation, V0_3, **fields)) == (("t",), (), None)
    assert referenced_ids(over_grpc(operation, V0_3)) == NO_IDS


def test_a_push_configuration_over_grpc_has_its_webhook() -> None:
    call = over_grpc(Operation.CREATE_PUSH_CONFIG, V1_0, task_id="t", url=HOOK, authentication={"credentials": "s"})
    assert referenced_ids(call) == ReferencedIds(("t",), webhooks=(Webhook(HOOK, token=True),))
    call = over_grpc(
        Operation.CREATE_PUSH_CONFIG, V0_3, parent="tasks/t", config={"push_notification_config": {"url": HOOK}}
    )
    assert referenced_ids(call) == ReferencedIds(("t",), webhooks=(Webhook(HOOK),))


# ---- Webhooks --------------------------------------------------------------------------------------------------------


@for_each(
    ("push", "token"),
    [
        ({}, False),
        ({"token": "s"}, True),
        ({"token": "", "authentication": None}, False),
        ({"authentication": {"schemes": ["Bearer"]}}, False),
        ({"authentication": {"scheme": "Bearer", "credentials": "s"}}, True),
    ],
)
def test_the_webhook_of_every_push_configuration_is_told(push: dict[str, Any], token: bool) -> None:  # noqa: FBT001 - a column
    push, hooks = {"url": HOOK, **push}, (Webhook(HOOK, token=token),)
    assert referenced_ids(rpc("CreateTaskPushNotificationConfig", {"taskId": "t", **push})).webhooks == hooks
    for name in PUSHES:
        assert referenced_ids(rpc("tasks/pushNotificationConfig/set", {"taskId": "t", name: push})).webhooks == hooks
        assert referenced_ids(rpc("tasks/send", {"id": "t", "message": SAID, name: push})).webhooks == hooks
        assert referenced_ids(rpc("message/send", {"message": SAID, "configuration": {name: push}})).webhooks == hooks
    wrapped = {"parent": "tasks/t", "config": {"pushNotificationConfig": push}}
    assert referenced_ids(over_http("POST", "tasks/t/pushNotificationConfigs", wrapped, version=V0_3)).webhooks == hooks
    wrapped = {"parent": "tasks/t", "config": push}
    assert referenced_ids(over_http("POST", "tasks/t/pushNotificationConfigs", wrapped, version=V0_3)).webhooks == hooks


def test_every_webhook_of_several_configurations_is_found() -> None:
    call = rpc("SendMessage", {"message": SAID, "pushNotification": {"url": "a"}, "configuration": {
        "taskPushNotificationConfig": {"url": "b", "pushNotificationConfig": {"url": "c"}}}})  # fmt: skip
    assert {hook.url for hook in referenced_ids(call).webhooks} == {"a", "b", "c"}


@for_each("push", [{}, {"url": ""}, {"url": None}, {"token": "s"}])
def test_a_configuration_without_a_url_has_no_webhook(push: dict[str, Any]) -> None:
    assert referenced_ids(rpc("SendMessage", {"message": SAID, "pushNotificationConfig": push})).webhooks == ()


# ---- Wherever it stands ----------------------------------------------------------------------------------------------

spots = st.sampled_from(
    [("message", name) for name in ("taskId", "task_id", "referenceTaskIds", "reference_task_ids")]
    + [("params", name) for name in ("id", "taskId", "task_id")]
    + [(push, name) for push in PUSHES for name in ("taskId", "task_id")]
)


@given(st.lists(spots, max_size=6, unique=True), st.sampled_from(["SendMessage", "message/stream", "tasks/send"]))
def test_no_task_is_overlooked(places: list[tuple[str, str]], method: str) -> None:
    message: dict[str, Any] = dict(SAID)
    params: dict[str, Any] = {"message": message, "configuration": {}}
    expected: set[str] = set()
    for number, (where, name) in enumerate(places):
        task = f"t{number}"
        if where in PUSHES:
            holder = params["configuration"].setdefault(where, {})
        else:
            holder = message if where == "message" else params
        twin = {"taskId": "task_id", "task_id": "taskId"}.get(name)
        # Two spellings of one member agree.
        task = holder.get(twin, task)
        holder[name] = [task] if name.startswith("reference") else task
        expected.add(task)
    try:
        found = referenced_ids(rpc(method, params))
    except BadParams:
        lists = {name for where, name in places if where == "message" and name.startswith("reference")}
        pushes = [PUSHES.index(where) // 2 for where, _ in dict.fromkeys(places) if where in PUSHES]
        assert len(lists) == 2 or len({where for where, _ in places if where in PUSHES}) > len(set(pushes))
        return
    assert set(found.tasks) == expected
    assert found.tasks[len(found.tasks) - len(found.references) :] == found.references


# ---- A call whose ids could be read in two ways, or not at all, is refused -------------------------------------------


@for_each("wrong", [1, True, {}, [], ["t"], 1.5])
@for_each("name", ["taskId", "task_id", "contextId", "context_id", "id", "sessionId", "session_id"])
def test_an_id_that_is_no_string_is_refused(name: str, wrong: object) -> None:
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
def test_references_that_are_no_list_are_refused(name: str, wrong: object) -> None:
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


# ---- Another id stands in place of one, in what is relayed and in what is translated, and nothing else chang----------

MARK = "gw-0123abcd-"
OTHER = MARK + CONTEXT
NAMING = [(file, name) for file, name in VECTORS if file == "ListTasks" or file.startswith("Send")]


def renamed(tree: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(tree).replace(json.dumps(old), json.dumps(new)))


# ---- Contexts --------------------------------------------------------------------------------------------------------


@for_each(("file", "name"), NAMING)
def test_another_context_is_relayed_and_translated_in_every_dialect(file: str, name: str) -> None:
    call = call_of(vector(file)["request"][name], DIALECTS[name])
    changed = with_context(call, OTHER)
    assert changed.context_id == referenced_ids(changed).context == OTHER
    assert referenced_ids(changed).tasks == referenced_ids(call).tasks
    # The hub, and the agent of the same dialect.
    assert hub_params(changed) == renamed(hub_params(call), CONTEXT, OTHER)
    assert asked(changed).context_id == referenced_ids(asked(changed)).context == OTHER
    # Back again it is what it was, but that gRPC orders its fields.
    back = with_context(changed, CONTEXT)
    assert hub_params(back) == hub_params(call)
    if call.dialect.binding is not Binding.GRPC and call.body:
        assert json.loads(back.body) == json.loads(call.body)


@for_each("pair", pairs())
def test_another_context_is_put_into_what_the_gateway_has_written(pair: list[Case]) -> None:
    for case in pair:
        _has_another_context(case)


def _has_another_context(case: Case) -> None:
    client = call_of(vector(case.file)["request"][case.ours], DIALECTS[case.ours])
    call = Translation(client, DIALECTS[case.theirs], new_id="new", message_id="m").call
    context = referenced_ids(call).context
    changed = with_context(call, OTHER)
    if context is None:
        assert changed is call
        return
    assert referenced_ids(changed).context == changed.context_id == OTHER, case
    assert referenced_ids(with_context(changed, context)) == referenced_ids(call), case
    if call.dialect.binding is Binding.JSONRPC:
        assert json.loads(changed.body) == renamed(json.loads(call.body), context, OTHER)


def test_an_empty_twin_says_the_same_afterwards() -> None:
    """A reader may look at either."""
    call = rpc("SendMessage", {"message": {**SAID, "contextId": "", "context_id": "c"}, "sessionId": None})
    tree = json.loads(with_context(call, "d").body)["params"]
    assert (tree["message"]["contextId"], tree["message"]["context_id"], tree["sessionId"]) == ("d", "d", "d")


@for_each(
    "call",
    [
        rpc("SendMessage", {"message": SAID}),
        rpc("SendMessage", {"message": {**SAID, "contextId": "", "context_id": None}, "metadata": {"contextId": "c"}}),
        rpc("GetTask", {"id": "t"}, b"x=1"),
        over_http("GET", "tasks", query=b"contextId=&status=c"),
        over_http("POST", "tasks/t:cancel"),
        over_grpc(Operation.SEND_MESSAGE, Version.V1_0, message={"task_id": "t"}),
    ],
)
def test_a_call_that_names_no_context_stays_the_call_that_it_is(call: Call) -> None:
    assert with_context(call, "d") is call


contexts = st.dictionaries(st.sampled_from(["contextId", "context_id"]), st.just("c"), min_size=1)
others = st.dictionaries(
    st.sampled_from(["x", "metadata", "\u00e4", "parts"]), st.sampled_from([1, "c", [], {"contextId": "c"}])
)
styles = st.tuples(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:  ")]), st.booleans())


@given(contexts, others, others, styles, st.text(st.characters(codec="utf-8"), min_size=1, max_size=9))
def test_any_body_has_the_other_context_where_it_had_one_and_nowhere_else(
    pair_name: dict[str, str],
    beside: dict[str, Any],
    around: dict[str, Any],
    style: tuple[tuple[str, str], bool],
    context: str,
) -> None:
    tree = {"jsonrpc": "2.0", **around, "id": 1, "method": "SendMessage", "params": {**around, "message": {}}}
    tree["params"]["message"] = {**beside, **pair_name}
    body = json.dumps(tree, separators=style[0], ensure_ascii=style[1]).encode()
    call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
    changed = with_context(call, context)
    tree["params"]["message"] |= dict.fromkeys(pair_name, context)
    assert json.loads(changed.body) == tree
    unread = with_context(replace(call, params=NO_PARAMS), context)
    assert (unread.body, unread.params) == (changed.body, NO_PARAMS)


# ---- Tasks -----------------------------------------------------------------------------------------------------------


@for_each(
    ("method", "params", "places"),
    [
        ("tasks/send", {"id": "t", "message": {**SAID, "metadata": {"id": "t"}}}, ["id"]),
        ("tasks/sendSubscribe", {"message": {**SAID, "taskId": "t"}, "id": "t", "taskId": "t"}, ["id", "taskId"]),
        ("tasks/get", {"id": "t", "historyLength": 3}, ["id"]),
        ("tasks/cancel", {"id": "t"}, ["id"]),
        ("tasks/resubscribe", {"id": "t"}, ["id"]),
        ("tasks/pushNotification/set", {"id": "t", "pushNotificationConfig": {"url": "t"}}, ["id"]),
        ("tasks/pushNotification/get", {"id": "t"}, ["id"]),
    ],
)
def test_a_task_that_its_client_named_is_another_to_the_agent(
    method: str, params: dict[str, Any], places: list[str]
) -> None:
    call = rpc(method, params)
    changed = with_task(call, MARK + "t")
    expected = {**params, **dict.fromkeys(places, MARK + "t")}
    if "taskId" in params.get("message", {}):
        expected["message"] = {**params["message"], "taskId": MARK + "t"}
    assert json.loads(changed.body)["params"] == expected
    assert changed.task_id == MARK + "t"
    assert referenced_ids(changed).tasks == (MARK + "t",)
    assert json.loads(with_task(changed, "t").body) == json.loads(call.body)


@for_each(
    "call",
    [
        rpc("tasks/send", {"message": {**SAID, "referenceTaskIds": ["t"]}}),
        rpc("ListTasks", {"contextId": "c"}),
        over_http("GET", "tasks/t"),
        over_grpc(Operation.GET_TASK, Version.V1_0, id="t"),
    ],
)
def test_no_other_call_has_a_task_that_its_client_named(call: Call) -> None:
    with pytest.raises(ValueError, match="no task"):
        with_task(call, "u")


# ---- Without a mark --------------------------------------------------------------------------------------------------


@for_each("binding", [Binding.JSONRPC, Binding.REST])
def test_a_mark_is_cut_out_of_json(binding: Binding) -> None:
    tree = {"id": f"{MARK}t", MARK: [f"a{MARK}", f"{MARK}{MARK}"], "text": f"see {MARK}chat-1, \u00e4", "n": 1.5}
    for frame in (json.dumps(tree, indent=1).encode(), json.dumps(tree, ensure_ascii=False).encode()):
        found = without(frame, MARK.encode(), binding, version=Version.V1_0, operation=Operation.GET_TASK, event=False)
        assert json.loads(found) == {"id": "t", "": ["a", ""], "text": "see chat-1, \u00e4", "n": 1.5}


@for_each("binding", list(Binding))
def test_a_frame_without_a_mark_is_the_frame(binding: Binding) -> None:
    frame = made(Operation.GET_TASK, Version.V1_0, id="t") if binding is Binding.GRPC else b'{"id":"t"}'
    assert (
        without(frame, MARK.encode(), binding, version=Version.V1_0, operation=Operation.GET_TASK, event=False) is frame
    )


@given(st.recursive(st.text(max_size=5), lambda below: st.lists(below) | st.dictionaries(st.text(max_size=5), below)))
def test_json_without_a_mark_is_json_all_the_same(tree: Any) -> None:
    frame = msgspec.json.encode({"x": tree, "t": MARK})
    found = without(
        frame, MARK.encode(), Binding.JSONRPC, version=Version.V1_0, operation=Operation.GET_TASK, event=True
    )
    assert json.loads(found) == {"x": tree, "t": ""}


def test_a_mark_is_cut_out_of_a_message_of_grpc() -> None:
    # The answer has its message under the number that the request has.
    answer, plain = (
        over_grpc(Operation.SEND_MESSAGE, Version.V1_0, message={"context_id": context}).body
        for context in (OTHER, CONTEXT)
    )
    found = without(
        answer, MARK.encode(), Binding.GRPC, version=Version.V1_0, operation=Operation.SEND_MESSAGE, event=False
    )
    assert found == plain
