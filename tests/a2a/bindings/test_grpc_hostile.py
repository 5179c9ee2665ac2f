"""Whatever peers may send over gRPC, and all that 1.0 can say."""

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import grpc
from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, Fault, UpstreamProtocol
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import json_values, messages, methods, without_empties
from tests.a2a.versions.trees import MORE, Hub

V1_0 = Version.V1_0
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
        strict_json.write(grpc.read_event(method.version, message))
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
        grpc.write_event(version, tree)
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
def test_what_1_0_can_ask_survives_the_way_there(method: GrpcMethod, data: st.DataObject) -> None:
    params = data.draw(HUB.params[method.operation])
    written = grpc.write_call(method.operation, V1_0, params)
    read = grpc.read_params(grpc.read_call(method, written))
    assert moments(without_empties(read)) == moments(without_empties(params))


@MORE
@given(st.sampled_from(sorted(HUB.results)), st.data())
def test_what_1_0_can_answer_survives_the_way_back(operation: Operation, data: st.DataObject) -> None:
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
