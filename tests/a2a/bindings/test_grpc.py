"""Calls, answers and events of gRPC: beside the same in JSON, and whatever else a peer may send."""

import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import grpc
from gateway.a2a.bindings.grpc_message import request_class, result_class
from gateway.a2a.bindings.grpc_method import (
    BY_PATH,
    SCOPE_FIELD,
    SCOPED_0_3,
    SERVICE_0_3,
    SERVICE_1_0,
    GrpcMethod,
    method_of,
)
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, BadRequest, Fault, ParseFailed, UpstreamProtocol
from gateway.a2a.json import BodyBounds
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.paths import PathCall
from gateway.a2a.translation import FORMS
from gateway.a2a.versions.version import Form, Memo
from tests.a2a.bindings.grpc_sample import VERSIONS, json_values, made, messages, methods, without_empties
from tests.a2a.versions.trees import MORE, Hub
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0


def read(operation: Operation, version: Version, **members: Any) -> Call:
    return grpc.read_call(method_of(operation, version), made(operation, version, **members))


def form(version: Version) -> Form:
    """Return the HTTP+JSON form of the same generation."""
    return FORMS[Dialect(Binding.REST, version)]


# ---- Calls -----------------------------------------------------------------------------------------------------------


@for_each("version", VERSIONS)
def test_a_send_names_the_task_and_the_context_of_its_message(version: Version) -> None:
    member = "message" if version is V1_0 else "request"
    for operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE):
        call = read(operation, version, **{member: {"task_id": "t", "context_id": "c"}})
        assert (call.task_id, call.context_id, call.path) == ("t", "c", PathCall(operation))
        call = read(operation, version)
        assert (call.task_id, call.context_id) == (None, None)


@for_each("message", [b"\x8a\x00\x04acme", b"\x53\x54", b"\x92\x00\x00"])
def test_a_message_that_others_could_read_otherwise_is_refused(message: bytes) -> None:
    request_class(method_of(Operation.GET_TASK, V1_0)).FromString(message)
    for version in VERSIONS:
        with pytest.raises(BadRequest) as caught:
            grpc.read_call(method_of(Operation.GET_TASK, version), message)
        assert not isinstance(caught.value, ParseFailed)


def test_a_message_of_too_many_fields_is_refused_before_it_is_built() -> None:
    crowd = made(Operation.SEND_MESSAGE, V1_0, message={"parts": [{}] * 1_000})
    method = method_of(Operation.SEND_MESSAGE, V1_0)
    assert grpc.read_call(method, crowd).operation is Operation.SEND_MESSAGE
    with pytest.raises(BadRequest, match="too many fields"):
        grpc.read_call(method, crowd, bounds=BodyBounds(members=100, elements=100))
    long = made(Operation.SEND_MESSAGE, V1_0, message={"parts": [{"text": "x" * 1_000}] * 10})
    call = grpc.read_call(method, long, bounds=BodyBounds(members=100, elements=100))
    assert call.operation is Operation.SEND_MESSAGE


def test_no_tenant_is_among_the_parameters() -> None:
    config = {"tenant": "acme", "url": "https://x", "task_id": "t"}
    call = read(Operation.SEND_MESSAGE, V1_0, tenant="acme", configuration={"task_push_notification_config": config})
    assert grpc.read_params(call) == {
        "configuration": {"taskPushNotificationConfig": {"url": "https://x", "taskId": "t"}}
    }
    assert grpc.read_params(read(Operation.CREATE_PUSH_CONFIG, V1_0, **config)) == {"url": "https://x", "taskId": "t"}
    assert grpc.read_params(read(Operation.GET_EXTENDED_CARD, V1_0, tenant="acme")) == {}
    method = method_of(Operation.GET_TASK, V0_3, scoped=True)
    scoped = grpc.read_call(method, made(Operation.GET_TASK, V0_3, name="tasks/t") + b"\xa2\x06\x04acme")
    assert grpc.read_params(scoped) == {"id": "t"}


@for_each(
    ("operation", "members", "expected"),
    [
        (Operation.GET_TASK, {"name": "tasks/t", "history_length": 3}, {"id": "t", "historyLength": 3}),
        (Operation.GET_TASK, {"name": "t"}, {"id": "t"}),
        (Operation.CANCEL_TASK, {"name": "tasks/t"}, {"id": "t"}),
        (Operation.SUBSCRIBE_TO_TASK, {"name": "tasks/t"}, {"id": "t"}),
        (Operation.GET_PUSH_CONFIG, {"name": "tasks/t/pushNotificationConfigs/c"}, {"taskId": "t", "id": "c"}),
        (Operation.GET_PUSH_CONFIG, {"name": "tasks/t/pushNotificationConfigs/"}, {"taskId": "t"}),
        (Operation.DELETE_PUSH_CONFIG, {"name": "tasks/t/pushNotificationConfigs/c"}, {"taskId": "t", "id": "c"}),
        (Operation.LIST_PUSH_CONFIGS, {"parent": "tasks/t", "page_size": 5, "page_token": "p"},
         {"taskId": "t", "pageSize": 5, "pageToken": "p"}),
        (Operation.CREATE_PUSH_CONFIG, {"parent": "tasks/t", "config_id": "c"}, {"taskId": "t", "configId": "c"}),
        (Operation.CREATE_PUSH_CONFIG, {"parent": "tasks/t/pushNotificationConfigs"}, {"taskId": "t"}),
        (Operation.GET_EXTENDED_CARD, {}, {}),
        (Operation.GET_TASK, {}, {}),
    ],
)  # fmt: skip
def test_names_of_0_3_become_the_ids_of_a_path(operation: Operation, members: Any, expected: Any) -> None:
    assert grpc.read_params(read(operation, V0_3, **members)) == expected


# ---- Calls that are written ------------------------------------------------------------------------------------------


@for_each("number", [2**31, -(2**31) - 1, 10**30, "x", 3.5, True, []])
def test_parameters_that_do_not_fit_are_the_clients_mistake(number: Any) -> None:
    for version in VERSIONS:
        with pytest.raises(BadParams) as caught:
            grpc.write_call(Operation.GET_TASK, version, {"id": "t", "historyLength": number})
        assert str(number) not in caught.value.message


def test_a_generation_without_an_operation_cannot_be_asked_for_it() -> None:
    with pytest.raises(KeyError):
        grpc.write_call(Operation.LIST_TASKS, V0_3, {})


# ---- Answers ---------------------------------------------------------------------------------------------------------


def test_a_page_of_tasks_has_all_that_is_required_of_it() -> None:
    """As servers of 1.0 print it over HTTP+JSON, and strict readers insist on (protocol §9.2)."""
    page = {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
    assert grpc.read_answer(Operation.LIST_TASKS, V1_0, b"") == page
    told = new.ListTasksResponse(tasks=[{"id": "t"}], total_size=7).SerializeToString()
    assert grpc.read_answer(Operation.LIST_TASKS, V1_0, told) == {**page, "tasks": [{"id": "t"}], "totalSize": 7}
    listed = form(V1_0).lower_result(Operation.LIST_TASKS, {"tasks": []}, Memo())
    assert grpc.write_answer(Operation.LIST_TASKS, V1_0, listed) == b""


@for_each("version", VERSIONS)
def test_an_answer_that_is_no_such_message_is_the_agents_fault(version: Version) -> None:
    for operation in CALLABLE:
        if (operation, version) == (Operation.LIST_TASKS, V0_3):
            continue
        with pytest.raises(UpstreamProtocol):
            grpc.read_answer(operation, version, b"\x0a\xff")
    with pytest.raises(UpstreamProtocol):
        grpc.read_answer(Operation.SEND_STREAMING_MESSAGE, version, b"\xff")
    task = result_class(Operation.GET_TASK, version)(metadata={"a": float("nan")}).SerializeToString()
    with pytest.raises(UpstreamProtocol) as caught:
        grpc.read_answer(Operation.GET_TASK, version, task)
    assert "a number that JSON has not" in caught.value.detail


# ---- What agents echo ------------------------------------------------------------------------------------------------


def test_other_answers_stay_as_they_are() -> None:
    for operation in CALLABLE:
        if operation.kind != "push" or operation is Operation.DELETE_PUSH_CONFIG:
            assert grpc.restore_tenant(operation, V1_0, b"\xff", "acme") == b"\xff"
        assert grpc.restore_tenant(operation, V0_3, b"\xff", "acme") == b"\xff"
    assert old.TaskPushNotificationConfig.DESCRIPTOR.fields_by_name.get("tenant") is None


def test_an_echo_that_is_no_message_is_the_agents_fault() -> None:
    with pytest.raises(UpstreamProtocol):
        grpc.restore_tenant(Operation.GET_PUSH_CONFIG, V1_0, b"\xff", "acme")


# ---- Another tenant; cards ------------------------------------------------------------------------------------------


def test_a_page_of_the_clients_own_context_is_known() -> None:
    assert read(Operation.LIST_TASKS, V1_0, context_id="c").context_id == "c"
    assert read(Operation.LIST_TASKS, V1_0).context_id is None


# ---- The methods of gRPC, beside the services as the official SDK has them -------------------------------------------

OFFICIAL = {V1_0: new.DESCRIPTOR, V0_3: old.DESCRIPTOR}
OWN = {V1_0: SERVICE_1_0, V0_3: SERVICE_0_3}


def service(version: Version) -> Any:
    """A2A's own service of a generation."""
    return OFFICIAL[version].services_by_name["A2AService"]


@for_each("version", OFFICIAL)
def test_every_method_of_the_official_service_is_known_and_no_other(version: Version) -> None:
    official = service(version)
    assert official.full_name == OWN[version]
    known = {path for path, method in BY_PATH.items() if method.version is version and not method.scoped}
    assert known == {f"/{official.full_name}/{method.name}" for method in official.methods}


@for_each("version", OFFICIAL)
def test_streaming_methods_agree_with_the_schema(version: Version) -> None:
    for method in service(version).methods:
        operation = BY_PATH[f"/{OWN[version]}/{method.name}"].operation
        assert operation.streams is method.server_streaming
        assert not method.client_streaming


def test_the_scoped_service_has_the_methods_of_0_3() -> None:
    plain = {
        path.rpartition("/")[2]: each for path, each in BY_PATH.items() if each.version is V0_3 and not each.scoped
    }
    scoped = {path.rpartition("/")[2]: each for path, each in BY_PATH.items() if each.scoped}
    assert plain.keys() == scoped.keys()
    for name, method in scoped.items():
        assert method.path == f"/{SCOPED_0_3}/{name}"
        assert (method.operation, method.version) == (plain[name].operation, V0_3)


def test_the_field_of_a_scope_is_nobody_elses() -> None:
    for method in service(V0_3).methods:
        assert SCOPE_FIELD not in method.input_type.fields_by_number


def test_the_classes_are_not_imported_before_one_is_asked_for() -> None:
    code = """
import sys
import gateway.a2a.bindings.grpc, gateway.a2a.bindings.grpc_fields
assert not any(name.startswith(("a2a", "grpc", "httpx", "pydantic")) for name in sys.modules), sorted(sys.modules)
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.bindings.grpc_message import request_class
request_class(BY_PATH["/a2a.v1.A2AService/GetTask"])
assert "a2a.compat.v0_3.a2a_v0_3_pb2" in sys.modules
assert "a2a.types.a2a_pb2" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ---- Whatever peers may send over gRPC, and all that 1.0 can say -----------------------------------------------------

METHODS = st.sampled_from([*BY_PATH.values()])


@MORE
@given(METHODS, st.binary(max_size=80))
def test_any_bytes_are_a_call_or_a_fault(method: GrpcMethod, message: bytes) -> None:
    try:
        call = grpc.read_call(method, message)
        grpc.read_params(call)
    except Fault:
        return
    assert call.body == message


@MORE
@given(METHODS, st.data())
def test_a_message_with_a_byte_changed_is_a_call_or_a_fault(method: GrpcMethod, data: st.DataObject) -> None:
    message = bytearray(data.draw(messages(request_class(method))).SerializeToString())
    if message:
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        call = grpc.read_call(method, bytes(message))
        params = grpc.read_params(call)
        grpc.write_call(method.operation, method.version, params)
        grpc.with_tenant(call, "acme")
    except Fault:
        return


@MORE
@given(METHODS, st.binary(max_size=80))
def test_any_bytes_are_an_answer_or_a_fault(method: GrpcMethod, message: bytes) -> None:
    with suppress(UpstreamProtocol):
        strict_json.write(grpc.read_answer(method.operation, method.version, message))
    with suppress(UpstreamProtocol):
        strict_json.write(grpc.read_answer(Operation.SEND_STREAMING_MESSAGE, method.version, message))
    with suppress(UpstreamProtocol):
        grpc.restore_tenant(method.operation, method.version, message, "acme")


@MORE
@given(METHODS, json_values() | st.dictionaries(st.sampled_from(["id", "taskId", "task", "message", "config", "name",
       "parent", "status", "metadata", "configs", "tasks", "security", "skills"]), json_values()))  # fmt: skip
def test_any_tree_is_a_message_or_a_fault(method: GrpcMethod, tree: Any) -> None:
    operation, version = method.operation, method.version
    with suppress(UpstreamProtocol):
        grpc.write_answer(operation, version, tree)
    with suppress(UpstreamProtocol):
        grpc.write_answer(Operation.SEND_STREAMING_MESSAGE, version, tree)
    with suppress(BadParams):
        grpc.write_call(operation, version, tree if isinstance(tree, dict) else {})


# ---- The hub's own words ---------------------------------------------------------------------------------------------

# What a Struct holds as it is: other numbers are doubles in it.
NUMBERS = st.integers(-(2**53), 2**53)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(codec="utf-8"), max_size=6),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.text(max_size=4), values, max_size=2),
    max_leaves=5,
)
HUB = Hub(data=VALUES, metadata=st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=2))


@MORE
@given(st.sampled_from(methods(V1_0)).filter(lambda method: method.operation in HUB.params), st.data())
def test_params_of_1_0_survive_grpc(method: GrpcMethod, data: st.DataObject) -> None:
    params = data.draw(HUB.params[method.operation])
    written = grpc.write_call(method.operation, V1_0, params)
    read = grpc.read_params(grpc.read_call(method, written))
    assert moments(without_empties(read)) == moments(without_empties(params))


@MORE
@given(st.sampled_from(sorted(HUB.results)), st.data())
def test_results_of_1_0_survive_grpc(operation: Operation, data: st.DataObject) -> None:
    result = data.draw(HUB.results[operation])
    read = grpc.read_answer(operation, V1_0, grpc.write_answer(operation, V1_0, result))
    assert moments(without_empties(read)) == moments(without_empties(result))


def moments(tree: Any) -> Any:
    """A tree without the zeros at the end of its moments, which protobuf counts by three."""
    if isinstance(tree, dict):
        return {
            name: moment(value) if name in ("timestamp", "statusTimestampAfter") else moments(value)
            for name, value in tree.items()
        }
    return [moments(each) for each in tree] if isinstance(tree, list) else tree


def moment(text: str) -> tuple[str, str]:
    seconds, _, digits = text.removesuffix("Z").partition(".")
    return seconds, digits.rstrip("0")
