"""What messages of gRPC tell of a task."""

from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import grpc, grpc_fields
from gateway.a2a.bindings.grpc_message import event_class
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.a2a.progress import NOTHING, Progress, read_bare
from gateway.a2a.task_state import STATES
from tests.a2a.bindings.grpc_sample import VERSIONS, messages
from tests.a2a.versions.trees import MORE
from tests.table import for_each

STREAMS = (Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK)
CONFIGS = (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS)
TOLD = [Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SEND_MESSAGE, *STREAMS, *CONFIGS]


@MORE
@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_any_event_tells_what_it_does_in_json(version: Version, data: st.DataObject) -> None:
    message = data.draw(messages(event_class(version))).SerializeToString()
    for operation in STREAMS:
        assert grpc_fields.read_progress(operation, version, message) == in_json(grpc.read_event(version, message))


def in_json(tree: Any) -> Progress | None:
    """What the same tells over HTTP+JSON."""
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
def test_push_configurations_tell_whose_they_are(version: Version) -> None:
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
def test_what_is_no_such_message_is_told_from_what_tells_nothing(method: GrpcMethod) -> None:
    for message in (b"\xff", b"\x0a\x05a", b"{}"):
        assert grpc_fields.read_progress(method.operation, method.version, message) is None
    if method.operation not in TOLD:
        assert grpc_fields.read_progress(method.operation, method.version, b"") == NOTHING


@for_each("version", VERSIONS)
def test_an_answer_of_more_fields_than_anyone_reads_is_none(version: Version) -> None:
    """Each of two bytes would become a message of a hundred."""
    schema = new if version is Version.V1_0 else old
    task = schema.Task(artifacts=[schema.Artifact()] * 120_000)
    for operation, crowd in (
        (Operation.GET_TASK, task),
        (Operation.SEND_MESSAGE, schema.SendMessageResponse(task=task)),
        (Operation.SEND_STREAMING_MESSAGE, schema.StreamResponse(task=task)),
        (Operation.GET_EXTENDED_CARD, schema.AgentCard(skills=[schema.AgentSkill()] * 120_000)),
    ):
        assert grpc_fields.read_progress(operation, version, crowd.SerializeToString()) is None
    long = schema.Task(id="t", history=[{"message_id": "m" * 1_000_000}])
    assert grpc_fields.read_progress(Operation.GET_TASK, version, long.SerializeToString()) == Progress(
        task_id="t", event="task"
    )


@given(st.sampled_from([*BY_PATH.values()]), st.binary(max_size=60))
def test_any_bytes_tell_something_or_are_none(method: GrpcMethod, message: bytes) -> None:
    told = grpc_fields.read_progress(method.operation, method.version, message)
    assert told is None or told.state is None or told.state in STATES
