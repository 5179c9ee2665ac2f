"""Statuses of gRPC: what a fault or an agent's error says there, and what is made of whatever an agent sends."""

import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote_to_bytes

import grpc  # type: ignore[import-untyped]  # it ships no types
import pytest
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.client.transports.grpc import GrpcTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import a2a_pb2
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from google.protobuf import (  # type: ignore[import-untyped]  # it ships none  # type: ignore[import-untyped]  # it ships none
    any_pb2,
    duration_pb2,
    json_format,
    struct_pb2,
)
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # it ships none
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.a2a import fault as faults
from gateway.a2a.agent_error import (
    LONGEST_DETAILS,
    LONGEST_MESSAGE,
    MOST_DETAILS,
    NOT_ACCEPTED,
    STRUCT,
    AgentError,
    read_jsonrpc,
    write_rest,
)
from gateway.a2a.bindings.grpc_status import (
    CODES,
    LONGEST_TRAILERS,
    LONGEST_WRITTEN,
    NAMES,
    Status,
    of_error,
    of_fault,
    read,
    trailers,
)
from gateway.a2a.dialect import Version
from gateway.a2a.fault import (
    A2A_DOMAIN,
    BAD_REQUEST,
    BODY_TOO_LARGE,
    BY_REASON,
    ERROR_INFO,
    GATEWAY_DOMAIN,
    KINDS,
    RATE_LIMIT_EXCEEDED,
    TASK_NOT_FOUND,
    ErrorKind,
)
from gateway.a2a.json import write
from tests.a2a.sample import vector
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0
VERSIONS = [V0_3, V1_0]

ENTRIES: list[dict[str, Any]] = vector("errors")["a2a"]
ALL_KINDS = [pytest.param(kind, id=kind.name) for kind in KINDS]


def error_of(code: int, message: str = "so", **more: Any) -> AgentError:
    found = read_jsonrpc(json.dumps({"code": code, "message": message, **more}).encode(), V1_0)
    assert found is not None
    return found


def inside(status: Status) -> Any:
    return status_pb2.Status.FromString(status.details)


def packed(*messages: Any, code: int = 13, message: str = "so") -> Status:
    """An agent's status with these details."""
    told = status_pb2.Status(code=code, message=message)
    for each in messages:
        told.details.add().Pack(each)
    return Status(code, message, told.SerializeToString())


def with_any(*details: Any) -> Status:
    return Status(13, "so", status_pb2.Status(code=13, message="so", details=details).SerializeToString())


def own(reason: str, **metadata: str) -> Any:
    return error_details_pb2.ErrorInfo(reason=reason, domain=A2A_DOMAIN, metadata=metadata)


def size(status: Status) -> int:
    """Bytes of the message and the details in the trailers."""
    return sum(len(value) for name, value in trailers(status) if name != b"grpc-status")


def without_metadata(details: Iterable[Any]) -> list[Any]:
    """a2a-sdk has some over HTTP that it does not have over gRPC."""
    return [{**detail, "metadata": {}} if detail["@type"] == ERROR_INFO else detail for detail in details]


# ---- As the vectors have it ------------------------------------------------------------------------------------------


@for_each("entry", ENTRIES)
def test_statuses_of_1_0_are_those_of_the_vectors(entry: dict[str, Any]) -> None:
    grpc = entry["v1.0-grpc"]["grpc"]
    binary = base64.b64decode(grpc["trailers"]["grpc-status-details-bin_b64"])
    found = read(Status(grpc["code"], grpc["message"], binary), V1_0)
    assert (found.code, found.reason, found.message) == (entry["jsonrpc_code"], entry["reason"], grpc["message"])
    assert list(found.details) == without_metadata(entry["v1.0-rest"]["http"]["body"]["error"]["details"])
    written = of_error(found, V1_0)
    assert (NAMES[written.code], written.message) == (grpc["status"], grpc["message"])
    assert inside(written) == status_pb2.Status.FromString(binary)


@for_each("entry", ENTRIES)
def test_over_grpc_and_over_http_an_error_has_the_same_details(entry: dict[str, Any]) -> None:
    found = read_jsonrpc(json.dumps(entry["v1.0-jsonrpc"]["http"]["body"]["error"]).encode(), V1_0)
    assert found is not None
    details = json.loads(write_rest(found, version=V1_0)[1])["error"]["details"]
    assert without_metadata(read(of_error(found, V1_0), V1_0).details) == without_metadata(details)


# ---- There and back --------------------------------------------------------------------------------------------------


@for_each("version", VERSIONS)
@for_each("kind", ALL_KINDS)
def test_written_errors_are_read_again(kind: ErrorKind, version: Version) -> None:
    for error in (error_of(kind.code), AgentError(code=kind.code, reason=kind.reason, message="so")):
        if error.challenges or kind.challenges:
            continue
        status = of_error(error, version)
        assert NAMES[status.code] == kind.grpc_status
        found = read(status, version)
        assert (found.code, found.reason, found.message) == (kind.code, kind.reason, "so")
        assert found.http_status == kind.http_status
        again = of_error(found, version)
        assert (again.code, again.message, inside_or_none(again)) == (
            status.code,
            status.message,
            inside_or_none(status),
        )


def inside_or_none(status: Status) -> Any:
    return inside(status) if status.details else None


def test_a_code_of_the_agents_own_passes() -> None:
    for version in VERSIONS:
        status = of_error(error_of(-32050, "the printer is on fire"), version)
        assert NAMES[status.code] == "INTERNAL"
        found = read(status, version)
        assert (found.code, found.reason, found.message) == (-32050, None, "the printer is on fire")
        assert found.details == ()


def test_an_agents_challenge_is_flagged_and_never_written() -> None:
    for version in VERSIONS:
        for status in (
            Status(16, "who are you"),
            packed(own("UNAUTHENTICATED"), code=13),
            packed(own("TASK_NOT_FOUND"), code=16),
        ):
            assert read(status, version).challenges
            written = of_error(read(status, version), version)
            assert NAMES[written.code] == "INTERNAL"
            assert written.message.endswith(NOT_ACCEPTED.message)
            assert read(written, version).reason == "INVALID_AGENT_RESPONSE"


def test_the_reason_goes_before_the_name_and_the_name_before_the_code() -> None:
    info = packed(own("TASK_NOT_CANCELABLE"), code=5, message="TaskNotFoundError: so").details
    assert read(Status(5, "UnsupportedOperationError: so", info), V0_3).reason == "TASK_NOT_CANCELABLE"
    named = read(Status(5, "UnsupportedOperationError: so"), V0_3)
    assert (named.reason, named.message) == ("UNSUPPORTED_OPERATION", "so")
    assert read(Status(5, "so"), V0_3).reason == "TASK_NOT_FOUND"


def test_a_name_is_one_only_in_0_3_and_only_if_there_is_such_an_error() -> None:
    assert read(Status(9, "TaskNotFoundError: so"), V1_0).message == "TaskNotFoundError: so"
    for message in ("ValueError: so", "TaskNotFoundError:so", "x TaskNotFoundError: so", "TaskNotFoundError"):
        found = read(Status(13, message), V0_3)
        assert (found.reason, found.message) == ("INTERNAL_ERROR", message)


@for_each(
    ("code", "reason"),
    [
        ("FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
        ("INVALID_ARGUMENT", "INVALID_PARAMS"),
        ("NOT_FOUND", "TASK_NOT_FOUND"),
        ("PERMISSION_DENIED", "UNAUTHORIZED"),
        ("RESOURCE_EXHAUSTED", None),
        ("UNAVAILABLE", None),
        ("UNIMPLEMENTED", "UNSUPPORTED_OPERATION"),
        ("UNKNOWN", "INTERNAL_ERROR"),
        ("DEADLINE_EXCEEDED", "INTERNAL_ERROR"),
        ("CANCELLED", "INTERNAL_ERROR"),
    ],
)
def test_the_code_tells_the_reason_if_no_detail_does(code: str, reason: str | None) -> None:
    for version in VERSIONS:
        assert read(Status(CODES[code], "so"), version).reason == reason


def test_the_usual_message_tells_apart_what_shares_a_code() -> None:
    assert read(Status(9, "Task cannot be canceled"), V1_0).reason == "TASK_NOT_CANCELABLE"
    assert read(Status(5, "method not found"), V1_0).reason == "METHOD_NOT_FOUND"
    assert read(Status(13, "Task cannot be canceled"), V1_0).reason == "INTERNAL_ERROR"


def test_a_status_without_a_message_has_the_usual_one() -> None:
    assert read(Status(5, ""), V1_0).message == read(Status(5, " \n"), V1_0).message == TASK_NOT_FOUND.words


def test_another_gateways_refusal_of_a_long_body_is_one() -> None:
    refused = of_fault(faults.BodyTooLarge("too long"), id="r1", version=V1_0)
    assert read(refused, V1_0).code == BODY_TOO_LARGE.code
    again = of_error(read(refused, V1_0), V1_0)
    assert inside(again) == inside(refused)
    assert read(Status(8, "too long"), V1_0).code == RATE_LIMIT_EXCEEDED.code


# ---- Details ---------------------------------------------------------------------------------------------------------


def test_details_that_protobuf_knows_are_theirs() -> None:
    fields = {"@type": BAD_REQUEST, "fieldViolations": [{"field": "id", "description": "no"}]}
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"}
    struct = {"@type": STRUCT, "value": {"a": [1.5, None, {"b": True}]}}
    error = error_of(-32602, data=[fields, retry, struct])
    told = inside(of_error(error, V1_0))
    assert [each.TypeName() for each in told.details] == [
        "google.rpc.ErrorInfo",
        "google.rpc.BadRequest",
        "google.rpc.RetryInfo",
        "google.protobuf.Struct",
    ]
    assert read(of_error(error, V1_0), V1_0).details == error.details


def test_details_of_unknown_types_become_structs() -> None:
    mine = {"@type": "example.com/mine.Detail", "count": 2**40, "list": [1, "x"], "deep": {"a": None}}
    no_duration = {"@type": "type.googleapis.com/google.protobuf.Duration", "value": {"no": "duration"}}
    no_value = {"@type": STRUCT}
    error = error_of(-32603, data=[mine, no_duration, no_value])
    told = inside(of_error(error, V1_0))
    assert {each.TypeName() for each in told.details[1:]} == {"google.protobuf.Struct"}
    found = read(of_error(error, V1_0), V1_0)
    assert [detail["value"] for detail in found.details[1:]] == [mine, no_duration, no_value]


def test_metadata_of_a_reason_are_strings() -> None:
    metadata = {"errors": [{"loc": ["a"], "n": 1.5}], "text": "x", "none": None}
    info = {"@type": ERROR_INFO, "reason": "INVALID_PARAMS", "domain": A2A_DOMAIN, "metadata": metadata}
    [told] = read(of_error(error_of(-32602, data=[info]), V1_0), V1_0).details
    assert told["metadata"] == {"errors": '[{"loc":["a"],"n":1.5}]', "text": "x", "none": "null"}
    odd = {"@type": ERROR_INFO, "reason": "INVALID_PARAMS", "metadata": ["x"]}
    [told] = read(of_error(error_of(-32602, data=[odd]), V1_0), V1_0).details
    assert (told["reason"], told["domain"], told["metadata"]) == ("INVALID_PARAMS", A2A_DOMAIN, {})


def test_a_status_has_one_a2a_reason_beside_others() -> None:
    """a2a-sdk believes the last one, and none where it does not know that."""
    other = error_details_pb2.ErrorInfo(reason="QUOTA", domain="example.com")
    status = packed(other, own("NO_SUCH_REASON"), own("TASK_NOT_FOUND"), own("INVALID_PARAMS"), code=9)
    found = read(status, V1_0)
    assert found.reason == "TASK_NOT_FOUND"
    told = json_format.MessageToDict(inside(of_error(found, V1_0)))["details"]
    assert [(each["reason"], each["domain"]) for each in told] == [
        ("TASK_NOT_FOUND", A2A_DOMAIN),
        ("QUOTA", "example.com"),
    ]


def test_a_reason_without_a_domain_is_a2as() -> None:
    assert read(packed(error_details_pb2.ErrorInfo(reason="TASK_NOT_FOUND")), V1_0).reason == "TASK_NOT_FOUND"
    elsewhere = error_details_pb2.ErrorInfo(reason="TASK_NOT_FOUND", domain="example.com")
    assert read(packed(elsewhere), V1_0).reason == "INTERNAL_ERROR"


def test_bytes_of_unknown_types_are_told_in_base64() -> None:
    found = read(with_any(any_pb2.Any(type_url="example.com/mine.Detail", value=b"\xff\x00")), V1_0)
    assert found.details[1:] == ({"@type": STRUCT, "value": {"@type": "example.com/mine.Detail", "value": "/wA="}},)


# ---- Trailers --------------------------------------------------------------------------------------------------------


@given(st.text())
def test_every_message_is_read_as_it_was_meant(message: str) -> None:
    [_, *told] = trailers(Status(13, message))
    value = told[0][1] if told else b""
    assert all(0x20 <= byte < 0x7F for byte in value)
    assert value == value.strip()
    assert unquote_to_bytes(value).decode() == message


@for_each("code", [0, -1, 17, 99, 2**31])
def test_a_code_that_does_not_exist_or_tells_of_success_is_unknown(code: int) -> None:
    assert trailers(Status(code, "so", b"\x08\x05")) == [(b"grpc-status", b"2"), (b"grpc-message", b"so")]


def test_details_that_are_too_long_stay_behind() -> None:
    """Together with the message: clients take 8 KiB of all that stands behind an answer, and more by chance."""
    for message, most in (("so", 5374), ("x" * 2048, 3840)):
        whole = trailers(Status(13, message, b"x" * most))
        assert len(whole) == 3
        assert LONGEST_TRAILERS - 1 <= sum(len(value) for _, value in whole[1:]) <= LONGEST_TRAILERS
        assert len(trailers(Status(13, message, b"x" * (most + 1)))) == 2


@for_each("letter", ["x", "%", " ", "é", "🙂", "\x00"])
def test_a_long_message_is_cut_between_characters_in_both_places(letter: str) -> None:
    """a2a-sdk raises ValueError where the two differ."""
    for status in (
        of_fault(faults.BadParams(letter * 100_000), id="r1", version=V0_3),
        of_error(AgentError(code=-32001, reason="TASK_NOT_FOUND", message=letter * LONGEST_MESSAGE), V0_3),
    ):
        written = dict(trailers(status))[b"grpc-message"]
        assert len(written) <= LONGEST_WRITTEN
        assert unquote_to_bytes(written).decode() == status.message == inside(status).message
        name, _, text = status.message.partition(": ")
        assert name in ("InvalidParamsError", "TaskNotFoundError")
        assert text.strip(letter + "…") == ""
        assert len(text) > LONGEST_WRITTEN // 13
        assert size(status) <= LONGEST_TRAILERS


def test_an_agents_message_that_has_to_be_cut_goes_without_its_details() -> None:
    status = packed(own("TASK_NOT_FOUND"), message="x" * 5000)
    assert [name for name, _ in trailers(status)] == [b"grpc-status", b"grpc-message"]
    assert len(trailers(of_error(read(status, V1_0), V1_0))) == 3


def test_details_are_cut_to_fit_and_the_reason_goes_first() -> None:
    long = {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": A2A_DOMAIN, "metadata": {"x": "y" * 9000}}
    others = [{"@type": "t", "x": letter * 2000} for letter in "abcd"]
    status = of_error(error_of(-32001, "x" * 100, data=[*others, long]), V1_0)
    told = json_format.MessageToDict(inside(status))["details"]
    assert told[0] == {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": A2A_DOMAIN}
    assert [each["value"]["x"][0] for each in told[1:]] == ["a", "b"]
    assert LONGEST_TRAILERS // 2 < size(status) <= LONGEST_TRAILERS


# ---- Statuses of agents that mean no good: nothing raises, nothing is long, and what is written says what wa----------


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


# ---- Statuses as the clients of a2a-sdk hear them: which exception they raise, with which words ----------------------

pytestmark = pytest.mark.anyio

GRPC_CODES = {code.value[0]: code for code in grpc.StatusCode}
BY_NAME = {kind.__name__: kind for kind in JSON_RPC_ERROR_CODE_MAP}


class Failing(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """A service whose answer to every call is this status and nothing else."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def service(self, _: Any) -> Any:
        async def fail(_request: bytes, context: Any) -> None:
            told = self._status
            behind = (("grpc-status-details-bin", told.details),) if told.details else ()
            await context.abort(GRPC_CODES[told.code], told.message, behind)

        return grpc.unary_unary_rpc_method_handler(fail)


@asynccontextmanager
async def failing(status: Status) -> AsyncIterator[Any]:
    """A channel to such a server."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Failing(status),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def heard(status: Status, version: Version) -> Exception:
    """Return the exception that the SDK's client of this version raises."""
    kind = GrpcTransport if version is V1_0 else CompatGrpcTransport
    async with failing(status) as channel:
        transport = kind(channel, a2a_pb2.AgentCard())
        with pytest.raises((A2AError, A2AClientError)) as caught:
            await transport.get_task(a2a_pb2.GetTaskRequest(id="t"), context=ClientCallContext())
    return caught.value


async def raw(status: Status) -> tuple[int, str, bytes]:
    """Code, message and details as any client of gRPC hears them, that of a2a-sdk 0.3 among them."""
    async with failing(status) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/a2a.v1.A2AService/GetTask")(b"")
    found = caught.value
    told = dict(found.trailing_metadata() or ())
    return found.code().value[0], found.details() or "", told.get("grpc-status-details-bin", b"")


# What only HTTP or go has a word for, and JSON-RPC's of which the SDK does not know the reason.
NAMELESS = {kind.name for kind in KINDS if kind.name not in BY_NAME}
WITHOUT_REASON = "JSONParseError"


@for_each("kind", ALL_KINDS)
async def test_an_agents_error_is_the_exception_of_that_name(kind: ErrorKind) -> None:
    if kind.challenges:
        return
    for version in VERSIONS:
        found = await heard(of_error(error_of(kind.code), version), version)
        if kind.name in NAMELESS or (kind.name == WITHOUT_REASON and version is V1_0):
            assert type(found) is A2AClientError
            assert f"gRPC Error {kind.grpc_status}: " in str(found)
            assert str(found).endswith("so")
        else:
            assert type(found) is BY_NAME[kind.name]
            assert str(found) == "so"


async def test_the_sdk_raises_the_exception_of_the_a2a_reason() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "a2a-protocol.org"}
    details = [{**info, "reason": "TASK_NOT_FOUND"}, {**info, "reason": "NO_SUCH"}, {**info, "domain": "example.com"}]
    found = await heard(of_error(error_of(-32603, data=details), V1_0), V1_0)
    assert type(found) is BY_NAME["TaskNotFoundError"]


async def test_in_0_3_the_words_begin_with_the_name() -> None:
    code, message, _ = await raw(of_error(AgentError(-32001, "TASK_NOT_FOUND", "no such task"), V0_3))
    assert (grpc.StatusCode.NOT_FOUND.value[0], "TaskNotFoundError: no such task") == (code, message)


async def test_written_statuses_fit_the_limits_of_clients() -> None:
    details = [{"@type": "t", "x": letter * 1000} for letter in "abcdefghij"]
    status = of_error(error_of(-32001, "%" * 10_000, data=details), V1_0)
    assert await raw(status) == (status.code, status.message, status.details)
