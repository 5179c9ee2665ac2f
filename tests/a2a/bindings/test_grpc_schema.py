"""Which classes the methods of gRPC have."""

import subprocess
import sys

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.bindings.grpc_schema import event_class, request_class, result_class, scope_class
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import Sample, samples
from tests.doubles.grpc_bytes import text_field


@pytest.mark.parametrize("sample", [each for each in samples() if each.method is not None], ids=str)
def test_a_request_has_the_class_of_its_method(sample: Sample) -> None:
    assert sample.method is not None
    found = request_class(sample.method).FromString(sample.message)
    assert found.SerializeToString(deterministic=True) == sample.message


def test_a_scoped_method_takes_what_the_plain_one_takes() -> None:
    for operation in (Operation.SEND_MESSAGE, Operation.GET_TASK, Operation.GET_EXTENDED_CARD):
        plain, scoped = (method_of(operation, Version.V0_3, scoped=scoped) for scoped in (False, True))
        assert request_class(plain) is request_class(scoped)


def test_each_operation_has_the_answer_of_its_generation() -> None:
    assert result_class(Operation.SEND_MESSAGE, Version.V1_0) is new.SendMessageResponse
    assert result_class(Operation.GET_EXTENDED_CARD, Version.V0_3) is old.AgentCard
    assert result_class(Operation.LIST_PUSH_CONFIGS, Version.V1_0) is new.ListTaskPushNotificationConfigsResponse
    assert event_class(Version.V1_0) is result_class(Operation.SUBSCRIBE_TO_TASK, Version.V1_0) is new.StreamResponse
    assert event_class(Version.V0_3) is old.StreamResponse


def test_a_generation_without_an_operation_has_no_class_for_it() -> None:
    with pytest.raises(KeyError):
        result_class(Operation.LIST_TASKS, Version.V0_3)
    with pytest.raises(KeyError):
        result_class(Operation.GET_TASK, Version.V0_1)


def test_a_scope_is_read_and_changed_beside_fields_that_stay_as_they_are() -> None:
    before, after = text_field(1, "a"), text_field(90, "b")
    scoped = scope_class(7).FromString(before + text_field(7, "acme") + after)
    assert scoped.scope == "acme"
    scoped.scope = ""
    assert scoped.SerializeToString() == before + after


def test_the_classes_are_not_imported_before_one_is_asked_for() -> None:
    code = """
import sys
import gateway.a2a.bindings.grpc, gateway.a2a.bindings.grpc_progress
assert not any(name.startswith(("a2a", "grpc", "httpx", "pydantic")) for name in sys.modules), sorted(sys.modules)
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.bindings.grpc_schema import request_class
request_class(BY_PATH["/a2a.v1.A2AService/GetTask"])
assert "a2a.compat.v0_3.a2a_v0_3_pb2" in sys.modules
assert "a2a.types.a2a_pb2" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
