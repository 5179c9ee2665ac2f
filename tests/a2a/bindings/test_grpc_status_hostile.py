"""Statuses of agents that mean no good: nothing raises, nothing is long, and what is written says what was read."""

from typing import Any

from google.protobuf import any_pb2, duration_pb2, struct_pb2  # type: ignore[import-untyped]  # it ships none
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # it ships none
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.a2a.agent_error import LONGEST_DETAILS, LONGEST_MESSAGE, MOST_DETAILS, NOT_ACCEPTED, AgentError
from gateway.a2a.bindings.grpc_status import LONGEST_TRAILERS, Status, of_error, read, trailers
from gateway.a2a.dialect import Version
from gateway.a2a.fault import A2A_DOMAIN, BY_REASON, GATEWAY_DOMAIN, KINDS
from gateway.a2a.json import write
from tests.a2a.bindings.test_grpc_status import V0_3, V1_0, VERSIONS, own, packed, size, with_any
from tests.table import for_each


def pack(message: Any) -> Any:
    whole = any_pb2.Any()
    whole.Pack(message)
    return whole


def bounded(error: AgentError) -> None:
    assert len(error.message) <= LONGEST_MESSAGE
    assert len(error.details) <= MOST_DETAILS
    assert sum(len(write(detail)) for detail in error.details) <= LONGEST_DETAILS
    for version in VERSIONS:
        status = of_error(error, version)
        assert size(status) <= LONGEST_TRAILERS
        for name, value in trailers(status):
            assert name.islower()
            assert value.isascii()
            assert value.decode().isprintable()
        back = read(status, version)
        assert (back.code, back.reason) == (
            (error.code, error.reason) if not error.challenges else (NOT_ACCEPTED.code, NOT_ACCEPTED.reason)
        )


infos = st.builds(
    error_details_pb2.ErrorInfo,
    reason=st.sampled_from(sorted(BY_REASON)) | st.text(max_size=5) | st.just("BODY_TOO_LARGE"),
    domain=st.sampled_from(["", A2A_DOMAIN, GATEWAY_DOMAIN, "x"]),
    metadata=st.dictionaries(
        st.text(max_size=3) | st.just("jsonrpcCode"), st.text(max_size=9) | st.sampled_from(["-32050", "-32001"])
    ),
)
types = [
    "google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo", "google.rpc.Status", "google.rpc.Help",
    "google.protobuf.Any", "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue",
    "google.protobuf.Duration", "google.protobuf.Timestamp", "google.protobuf.FieldMask", "google.protobuf.Empty",
    "google.protobuf.BytesValue", "google.protobuf.DoubleValue", "google.protobuf.StringValue",
    "google.protobuf.FileDescriptorProto", "no.such.Type", "",
]  # fmt: skip
anys = st.builds(
    any_pb2.Any,
    type_url=st.tuples(
        st.sampled_from(["type.googleapis.com/", "x/", "", "/"]), st.sampled_from(types) | st.text(max_size=4)
    ).map("".join),
    value=st.binary(max_size=30) | infos.map(lambda info: info.SerializeToString()),
)
told_details = st.lists(anys | infos.map(pack), max_size=5).map(
    lambda details: status_pb2.Status(details=details).SerializeToString()
)
TOO_LARGE = status_pb2.Status(
    details=[pack(error_details_pb2.ErrorInfo(reason="BODY_TOO_LARGE", domain=GATEWAY_DOMAIN))]
).SerializeToString()


@given(
    st.builds(
        Status,
        st.integers(min_value=-2, max_value=20) | st.integers(),
        st.text() | st.sampled_from([kind.name + ": so" for kind in KINDS]) | st.just("\ud800%00"),
        st.binary() | told_details,
    ),
    st.sampled_from(Version),
)
@example(Status(8, "RateLimitExceededError: so", TOO_LARGE), Version.V0_3)
def test_nothing_that_an_agent_sends_raises(status: Status, version: Version) -> None:
    bounded(read(status, version))
    trailers(status)


@for_each(
    "details",
    [
        b"\xff" * 1000,
        b"\x1a\xff\xff\xff\xff\x0f",
        status_pb2.Status(code=5).SerializeToString() + b"\x12\x02\xff\xfe",
        status_pb2.Status(message="x" * 1_000_000).SerializeToString(),
        b"\x1a\x00" * 100_000,
        b"{}",
    ],
)
def test_details_that_are_none_leave_code_and_message(details: bytes) -> None:
    found = read(Status(5, "so", details), V1_0)
    assert (found.reason, found.message) == ("TASK_NOT_FOUND", "so")
    bounded(found)


def test_a_huge_message_is_a_short_one() -> None:
    for letter in ("x", "%", "\x00", "🙂"):
        found = read(Status(5, letter * 1_000_000), V0_3)
        assert len(found.message) == LONGEST_MESSAGE
        bounded(found)


def test_the_reason_is_found_behind_details_that_are_too_many_or_too_long() -> None:
    flood = error_details_pb2.DebugInfo(stack_entries=["x" * 1000] * 12)
    many = [error_details_pb2.LocalizedMessage(message=str(number)) for number in range(60)]
    for status in (
        packed(flood, flood, own("TASK_NOT_FOUND")),
        packed(*many, own("TASK_NOT_FOUND")),
        packed(own("NO_SUCH_REASON", x="y" * 20_000), own("TASK_NOT_FOUND")),
    ):
        found = read(status, V1_0)
        assert found.reason == "TASK_NOT_FOUND"
        bounded(found)


def test_depth_costs_nothing() -> None:
    value = struct_pb2.Value(string_value="x")
    for _ in range(45):
        value = struct_pb2.Value(list_value=struct_pb2.ListValue(values=[value]))
    whole = pack(own("TASK_NOT_FOUND"))
    for _ in range(300):
        whole = pack(whole)
    for status in (packed(struct_pb2.Struct(fields={"a": value})), with_any(whole), with_any(whole, whole)):
        found = read(status, V1_0)
        assert found.reason == "INTERNAL_ERROR"
        assert len(found.details) == 1
        bounded(found)


def test_values_that_json_has_no_word_for_are_told_as_bytes() -> None:
    endless = struct_pb2.Struct(fields={"x": struct_pb2.Value(number_value=float("inf"))})
    for odd in (endless, duration_pb2.Duration(seconds=2**62)):
        found = read(packed(odd), V1_0)
        assert found.details[1]["value"]["@type"] == pack(odd).type_url
        bounded(found)
