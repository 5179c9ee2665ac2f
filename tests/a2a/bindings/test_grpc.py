"""Calls, answers and events of gRPC: beside the same in JSON, and whatever else a peer may send."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings import grpc
from gateway.a2a.bindings.grpc_message import request_class, result_class
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, BadRequest, ParseFailed, UpstreamProtocol
from gateway.a2a.json import BodyBounds
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.paths import PathCall
from gateway.a2a.translation import FORMS
from gateway.a2a.versions.version import Form, Memo, Misfit
from tests.a2a.bindings.grpc_sample import VERSIONS, made
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0


def read(operation: Operation, version: Version, **members: Any) -> Call:
    return grpc.read_call(method_of(operation, version), made(operation, version, **members))


def form(version: Version) -> Form:
    """That of HTTP+JSON of the same generation."""
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


@for_each(
    "message",
    [
        b"\x0a\x01\xff",
        b"\x0a\x03\xed\xa0\x80",
        b"\x0a\x05a",
        b"\x12\x02\x0a\xff",
        b"\x12\x03\x0a\x01\xc0",
        b"{}",
        b"\xff",
    ],
)
def test_bytes_that_are_no_such_message_are_refused(message: bytes) -> None:
    with pytest.raises(ParseFailed):
        grpc.read_call(method_of(Operation.SEND_MESSAGE, V1_0), message)


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


def test_a_value_of_an_enumeration_that_nobody_knows_is_refused_and_never_no_filter() -> None:
    later = grpc.read_call(method_of(Operation.LIST_TASKS, V1_0), b"\x18\x63")
    assert grpc.read_params(later) == {"status": 99}
    with pytest.raises(Misfit, match="status: must be the name of a task state"):
        form(V1_0).lift_params(Operation.LIST_TASKS, grpc.read_params(later), Memo())
    for version in VERSIONS:
        member = "message" if version is V1_0 else "request"
        call = read(Operation.SEND_MESSAGE, version, **{member: {"message_id": "m", "role": 7, "task_id": "t"}})
        with pytest.raises(Misfit, match="role"):
            form(version).lift_params(Operation.SEND_MESSAGE, grpc.read_params(call), Memo())


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
        grpc.read_event(version, b"\xff")
    task = result_class(Operation.GET_TASK, version)(metadata={"a": float("nan")}).SerializeToString()
    with pytest.raises(UpstreamProtocol) as caught:
        grpc.read_answer(Operation.GET_TASK, version, task)
    assert "a number that JSON has not" in caught.value.detail


@for_each("version", VERSIONS)
def test_a_result_that_does_not_fit_is_the_agents_fault(version: Version) -> None:
    results: list[Any] = [None, [], {"id": 1}, {"id": "\ud800"}, {"metadata": {"a": 10**400}}, {"history": [None]}]
    for result in results:
        with pytest.raises(UpstreamProtocol):
            grpc.write_answer(Operation.GET_TASK, version, result)
        with pytest.raises(UpstreamProtocol):
            grpc.write_event(version, {"task": result} if result else result)


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
