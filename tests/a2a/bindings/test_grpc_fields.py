"""The tenant in messages of gRPC: wherever a client puts it, and another in its place.

What hostile clients try with it, a whole gateway is asked in `tests/grpc/test_grpc_bad_input.py`.
"""

import json
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf has no types of its own
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import grpc, grpc_fields
from gateway.a2a.bindings.grpc_fields import read_name, write_name
from gateway.a2a.bindings.grpc_message import event_class, request_class, result_class, to_tree
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed, UpstreamProtocol
from gateway.a2a.operation import Operation
from gateway.a2a.progress import NOTHING, Progress, read_bare
from gateway.a2a.task_state import STATES
from tests.a2a.bindings.grpc_sample import TEXTS, VERSIONS, made, messages, methods, samples
from tests.a2a.sample import VECTORS
from tests.a2a.versions.trees import MORE
from tests.support.grpc_bytes import text_field
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0
SEND = method_of(Operation.SEND_MESSAGE, V1_0)
SCOPED = [each for each in BY_PATH.values() if each.scoped]
TENANTS = json.loads((VECTORS / "tenant.json").read_bytes())
OF_SCOPED = pytest.mark.parametrize("method", SCOPED, ids=lambda method: str(method.operation))


def read(method: GrpcMethod, more: bytes = b"", /, **members: Any) -> Call:
    """The call that has these fields, and these bytes behind them."""
    return grpc.read_call(method, made(method.operation, method.version, **members) + more)


def told(call: Call) -> tuple[str | None, bool, bool]:
    return call.tenant, call.in_body, call.tenant_written


# ---- 1.0 -------------------------------------------------------------------------------------------------------------


@given(messages(request_class(SEND)), TEXTS.filter(bool))
def test_nothing_else_of_a_message_changes(message: Any, tenant: str) -> None:
    message.configuration.task_push_notification_config.tenant = ""
    call = grpc.read_call(SEND, message.SerializeToString())
    for other in (tenant, ""):
        message.tenant = other
        assert request_class(SEND).FromString(grpc.with_tenant(call, other or None)) == message


# ---- The scope of 0.3 ------------------------------------------------------------------------------------------------


@OF_SCOPED
def test_a_scoped_call_has_one_scope_which_is_its_tenant(method: GrpcMethod) -> None:
    call = read(method, text_field(100, "acme"))
    assert (told(call), call.method) == (("acme", True, True), method.path)
    message = made(method.operation, V0_3) + text_field(7, "globex")
    assert grpc.read_call(method, message, scope_field=7).tenant == "globex"
    for missing in (b"", text_field(100, ""), text_field(99, "acme")):
        with pytest.raises(BadParams, match="scope is") as caught:
            read(method, missing)
        assert caught.value.field == "scope"
    with pytest.raises(DuplicateKey, match="the scope stands twice"):
        read(method, text_field(100, "acme") * 2)
    for wrong in (b"\xa0\x06\x01", b"\xa2\x86\x00\x04acme"):
        with pytest.raises(BadRequest):
            read(method, wrong)
    with pytest.raises(ParseFailed):
        read(method, b"\xa2\x06\x01\xff")


@for_each("method", [*methods(V0_3), *SCOPED])
def test_the_tenant_of_a_candidate_of_1_0_is_refused(method: GrpcMethod) -> None:
    """It has the paths of 0.3, and its agents would follow a tenant that nobody here has routed by."""
    scope = text_field(100, "acme") if method.scoped else b""
    name = method.operation.value.replace("Streaming", "").replace("Configs", "Config")
    number = TENANTS["field_numbers_v1.0.0-rc (package a2a.v1)"][f"{name}Request"]
    with pytest.raises(BadParams, match="of a release candidate") as caught:
        read(method, scope + text_field(number, "globex"))
    assert caught.value.field == "tenant"
    # Fields with other numbers may be of a later generation.
    assert read(method, scope + text_field(90, "kept")).tenant == ("acme" if method.scoped else None)


@OF_SCOPED
@given(texts=st.lists(TEXTS, max_size=3), tenant=TEXTS.filter(bool), number=st.sampled_from([7, 100]))
def test_the_scope_is_cut_out_and_all_else_stays(
    method: GrpcMethod, texts: list[str], tenant: str, number: int
) -> None:
    before, after = (b"".join(text_field(other, text) for text in texts) for other in (90, 91))
    call = grpc.read_call(method, before + text_field(number, "acme") + after, scope_field=number)
    assert grpc.with_tenant(call, None, scope_field=number) == before + after
    other = grpc.with_tenant(call, tenant, scope_field=number)
    assert grpc.read_call(method, other, scope_field=number).tenant == tenant


# ---- Resource names of 0.3, read and written -------------------------------------------------------------------------

TASKS = (Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK)
CONFIGS = (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG)
PARENTS = (Operation.CREATE_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)


@for_each("name", ["tasks/", "tasks/a/b", "/t", "t/", "tasks//t", "/tasks/t", "Tasks/t", "tasks/t/x",
                                  "tasks/t/pushNotificationConfigs/c/d", "t/pushNotificationConfigs/c"])  # fmt: skip
def test_a_name_of_something_else_is_refused(name: str) -> None:
    for operation in TASKS:
        with pytest.raises(BadParams, match=r"name must be tasks/\{task\}$") as caught:
            read_name(operation, old.GetTaskRequest(name=name))
        assert caught.value.field == "name"
    for operation in CONFIGS:
        with pytest.raises(BadParams, match=r"name must be tasks/\{task\}/pushNotificationConfigs/\{id\}$"):
            read_name(operation, old.GetTaskPushNotificationConfigRequest(name=name))
    for operation in PARENTS:
        with pytest.raises(BadParams, match=r"parent must be tasks/\{task\}$"):
            read_name(operation, old.ListTaskPushNotificationConfigRequest(parent=name))


@for_each("name", ["t", "tasks/t", "tasks/t/pushNotificationConfigs"])
def test_a_configuration_is_not_named_by_its_task_alone(name: str) -> None:
    for operation in CONFIGS:
        with pytest.raises(BadParams):
            read_name(operation, old.GetTaskPushNotificationConfigRequest(name=name))


@given(IDS, IDS)
def test_written_resource_names_are_read_again(task: str, config: str) -> None:
    params = {"id": task, "historyLength": 1}
    for method in methods(Version.V0_3):
        operation = method.operation
        if operation in (*CONFIGS, *PARENTS):
            params = {"taskId": task, "id": config}
        try:
            written = write_name(operation, params)
        except BadParams:
            assert any(not each.isalnum() or not each.isascii() for each in (task, config))
            return
        named = request_class(method)(**{name: written[name] for name in ("name", "parent") if name in written})
        found = read_name(operation, named)
        assert found.task_id == (task if operation in (*TASKS, *CONFIGS, *PARENTS) else None)
        assert found.config_id == (config if operation in CONFIGS else None)


# ---- Ids in messages of gRPC: no two that differ, and others in their place ------------------------------------------

MARK = "gw-0123abcd-"
CREATE = Operation.CREATE_PUSH_CONFIG
UPDATES = [each for each in samples() if each.place != "request"]


def call_with(operation: Operation, version: Version, *, more: bytes = b"", **members: Any) -> Call:
    return grpc.read_call(method_of(operation, version), made(operation, version, **members) + more)


# ---- Two that differ -------------------------------------------------------------------------------------------------


@for_each("name", ["tasks/u", "t", "u", "tasks/u/pushNotificationConfigs/x", "tasks/t/x"])
@for_each("parent", ["tasks/t", ""])
def test_a_created_config_cannot_name_another_task(parent: str, name: str) -> None:
    """Servers differ in which of the two they follow."""
    with pytest.raises(BadParams, match="another task"):
        call_with(CREATE, V0_3, parent=parent, config={"name": name})


def test_a_push_configuration_of_0_3_has_no_place_for_another_webhook() -> None:
    """Agents of candidates of 1.0 are called by the same paths, and have other members."""
    push = text_field(2, "https://10.0.0.1")
    for inside in (push, text_field(2, push.decode())):
        for number in (3, 5, 8, 15):
            with pytest.raises(BadParams):
                call_with(
                    CREATE, V0_3, parent="tasks/t", more=text_field(3, text_field(number, inside.decode()).decode())
                )
            if number > 4:
                with pytest.raises(BadParams, match="does not know"):
                    call_with(CREATE, V0_3, parent="tasks/t", more=text_field(number, inside.decode()))


# ---- Another context -------------------------------------------------------------------------------------------------


def test_a_message_without_a_context_is_unchanged() -> None:
    for call in (
        call_with(Operation.SEND_MESSAGE, V1_0, message={"task_id": "t"}),
        call_with(Operation.SEND_MESSAGE, V0_3),
        call_with(Operation.LIST_TASKS, V1_0),
        call_with(Operation.GET_TASK, V1_0, id="c"),
    ):
        assert grpc_fields.with_context(call, "d") is call.body


# ---- Without a mark --------------------------------------------------------------------------------------------------


def cut(tree: Any) -> Any:
    """A tree without the mark, in its names as well."""
    if isinstance(tree, dict):
        return {name.replace(MARK, ""): cut(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [cut(each) for each in tree]
    return tree.replace(MARK, "") if isinstance(tree, str) else tree


def mark_all(message: Message) -> None:
    """Put the mark before every text, and before the names in every struct."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for name in list(value):
                if field.message_type.fields_by_name["value"].message_type is None:
                    value[MARK + name] = MARK + value[name]
                else:
                    mark_all(value[name])
                    value[MARK + name].CopyFrom(value[name])
                del value[name]
        elif field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                mark_all(each)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [MARK + each for each in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, value + MARK)


def without(message: bytes, operation: Operation, version: Version, *, event: bool) -> bytes:
    return grpc_fields.without(message, MARK, version=version, operation=operation, event=event)


@for_each("sample", UPDATES)
def test_a_mark_is_cut_out_of_every_text_of_the_vectors(sample: Any) -> None:
    event = sample.place != "response"
    kind = event_class(sample.version) if event else result_class(sample.operation, sample.version)
    marked = kind.FromString(sample.message)
    mark_all(marked)
    if marked.ByteSize():
        written = marked.SerializeToString()
        assert MARK.encode() in written
        found = without(written, sample.operation, sample.version, event=event)
        assert kind.FromString(found) == kind.FromString(sample.message)


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_mark_is_cut_out_of_any_event(data: st.DataObject, version: Version) -> None:
    kind = event_class(version)
    event = data.draw(messages(kind))
    before = to_tree(event)
    mark_all(event)
    found = without(event.SerializeToString(), Operation.SEND_STREAMING_MESSAGE, version, event=True)
    assert to_tree(kind.FromString(found)) == before == cut(before)


def test_a_mark_is_cut_out_of_names_and_texts_of_a_map() -> None:
    kind = result_class(Operation.GET_EXTENDED_CARD, V1_0)
    scopes = {f"{MARK}read": f"may {MARK}read", "write": "w", f"{MARK}none": ""}
    flows = {"client_credentials": {"token_url": "https://x", "scopes": scopes}}
    card = kind(security_schemes={"o": {"oauth2_security_scheme": {"flows": flows}}}).SerializeToString()
    found = kind.FromString(without(card, Operation.GET_EXTENDED_CARD, V1_0, event=False))
    told = found.security_schemes["o"].oauth2_security_scheme.flows.client_credentials.scopes
    assert dict(told) == {"read": "may read", "write": "w", "none": ""}


def test_a_mark_in_bytes_is_none() -> None:
    kind = event_class(V1_0)
    event = kind(task={"artifacts": [{"parts": [{"raw": MARK.encode()}]}]}).SerializeToString()
    assert without(event, Operation.SEND_STREAMING_MESSAGE, V1_0, event=True) == event


def test_a_malformed_answer_is_refused() -> None:
    with pytest.raises(UpstreamProtocol):
        without(b"\x0a\xff" + MARK.encode(), Operation.GET_TASK, V1_0, event=False)


# ---- What messages of gRPC tell of a task ----------------------------------------------------------------------------

STREAMS = (Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK)
PUSHING = (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS)
TOLD = [Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SEND_MESSAGE, *STREAMS, *PUSHING]


@MORE
@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_every_event_has_the_progress_of_its_json(version: Version, data: st.DataObject) -> None:
    message = data.draw(messages(event_class(version))).SerializeToString()
    for operation in STREAMS:
        assert grpc_fields.read_progress(operation, version, message) == in_json(
            grpc.read_answer(Operation.SEND_STREAMING_MESSAGE, version, message)
        )


def in_json(tree: Any) -> Progress | None:
    """Return the progress that the same event tells over HTTP+JSON."""
    for held in tree.values():
        if isinstance(held, dict) and isinstance(held.get("status"), dict):
            # Left out in ProtoJSON, because it is the first.
            held["status"].setdefault("state", "TASK_STATE_UNSPECIFIED")
    told = read_bare(strict_json.write(tree.get("message", tree)))
    return replace(told, event="message") if told is not None and "message" in tree else told


@for_each("version", VERSIONS)
def test_every_state_has_its_word(version: Version) -> None:
    schema = new if version is Version.V1_0 else old
    for value in schema.TaskState.DESCRIPTOR.values:
        task = schema.Task(id="t", context_id="c", status={"state": value.number}).SerializeToString()
        told = grpc_fields.read_progress(Operation.GET_TASK, version, task)
        word = value.name.removeprefix("TASK_STATE_").lower().replace("_", "-")
        expected = {"cancelled": "canceled", "unspecified": "unknown"}.get(word, word)
        assert told == Progress(task_id="t", context_id="c", state=expected, event="task")
        assert expected in STATES
    for number in (9, 99, -1):
        later = schema.Task(id="t", status={"state": number}).SerializeToString()
        told = grpc_fields.read_progress(Operation.GET_TASK, version, later)
        assert told == Progress(task_id="t", state="unknown", event="task")


@for_each("version", VERSIONS)
def test_each_kind_of_event_is_told(version: Version) -> None:
    schema = new if version is Version.V1_0 else old
    name = "message" if version is Version.V1_0 else "msg"
    of_task = {"task_id": "t", "context_id": "c"}
    for held, expected in (
        ({"task": {"id": "t", "context_id": "c"}}, Progress(task_id="t", context_id="c", event="task")),
        ({"status_update": of_task}, Progress(task_id="t", context_id="c", event="status")),
        ({"status_update": {**of_task, "status": {}}}, Progress(b"", "t", "c", "unknown", "status")),
        ({"artifact_update": of_task}, Progress(task_id="t", context_id="c", event="artifact")),
        ({name: {**of_task, "message_id": "m"}}, Progress(task_id="t", context_id="c", event="message")),
        ({}, NOTHING),
    ):
        event = schema.StreamResponse(**held).SerializeToString()
        for operation in STREAMS:
            assert grpc_fields.read_progress(operation, version, event) == expected


@for_each("version", VERSIONS)
def test_push_configurations_name_their_task(version: Version) -> None:
    schema = new if version is Version.V1_0 else old

    def config(task: str) -> Any:
        if version is Version.V1_0:
            return new.TaskPushNotificationConfig(task_id=task, id="c")
        return old.TaskPushNotificationConfig(name=f"tasks/{task}/pushNotificationConfigs/c" if task else "")

    def listed(*tasks: str) -> bytes:
        methods = schema.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
        listing = getattr(
            schema, methods[method_of(Operation.LIST_PUSH_CONFIGS, version).path.rpartition("/")[2]].output_type.name
        )
        return bytes(listing(configs=[config(task) for task in tasks]).SerializeToString())

    for operation in (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG):
        for task, expected in (("t", Progress(task_id="t")), ("", NOTHING)):
            assert grpc_fields.read_progress(operation, version, config(task).SerializeToString()) == expected
    for tasks, expected in (
        ((), NOTHING),
        (("t", "t"), Progress(task_id="t")),
        (("t", "u"), Progress(legible=False)),
    ):
        assert grpc_fields.read_progress(Operation.LIST_PUSH_CONFIGS, version, listed(*tasks)) == expected


def test_a_task_that_names_nothing_tells_nothing_of_itself() -> None:
    assert grpc_fields.read_progress(Operation.GET_TASK, Version.V1_0, b"") == Progress(event="task")


@for_each("method", BY_PATH.values())
def test_a_malformed_message_differs_from_one_without_progress(method: GrpcMethod) -> None:
    for message in (b"\xff", b"\x0a\x05a", b"{}"):
        assert grpc_fields.read_progress(method.operation, method.version, message) is None
    if method.operation not in TOLD:
        assert grpc_fields.read_progress(method.operation, method.version, b"") == NOTHING


@given(st.sampled_from([*BY_PATH.values()]), st.binary(max_size=60))
def test_any_bytes_tell_something_or_are_none(method: GrpcMethod, message: bytes) -> None:
    told = grpc_fields.read_progress(method.operation, method.version, message)
    assert told is None or told.state is None or told.state in STATES
