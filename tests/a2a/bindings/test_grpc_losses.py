"""Losses between gRPC and JSON, as the manual lists them: every row is checked against a call that shows it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # protobuf ships no types

from gateway.a2a.bindings import grpc
from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import BY_PATH, method_of
from gateway.a2a.card_rewriting import Edition, Served, ServedInterface, rebuild
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, UpstreamProtocol
from gateway.a2a.framing.grpc import unframe
from gateway.a2a.operation import Operation
from gateway.a2a.sanitized_card import Discretion, sanitize
from gateway.a2a.translation import FORMS, Translation
from tests.a2a.dialects import call_of

MANUAL = Path(__file__).parents[3] / "docs" / "translation.md"
JSON = Dialect(Binding.JSONRPC, Version.V1_0)
GRPC = Dialect(Binding.GRPC, Version.V1_0)
GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)
WORKING = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}

ROWS: list[str] = []


def row(what: str, toward: str, instead: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Mark a test as the proof of a row of the manual."""
    ROWS.append(f"| {what} | {toward} | {instead} |")
    return lambda test: test


# ---- JSON-RPC on one side, gRPC on the other -------------------------------------------------------------------------


def saying(**part: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}}


def asked(params: Any, method: str = "SendMessage", theirs: Dialect = GRPC) -> Any:
    """The message that an agent gets for what a client says in JSON."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    call = Translation(call_of({"http": {"body": body}}, JSON), theirs, message_id="m").call
    return request_class(BY_PATH[call.method]).FromString(call.body)


def answered(task: Any) -> Any:
    """The message that a client gets for what an agent answers in JSON."""
    call = grpc.read_call(method_of(Operation.GET_TASK, Version.V1_0), new.GetTaskRequest(id="t").SerializeToString())
    [answer] = unframe(
        Translation(call, JSON).answer(json.dumps({"jsonrpc": "2.0", "id": "1", "result": task}).encode())
    )
    return new.Task.FromString(answer)


def asked_in_json(request: Any, operation: Operation = Operation.SEND_MESSAGE) -> Any:
    """The parameters that an agent gets in JSON for a client's message."""
    call = grpc.read_call(method_of(operation, Version.V1_0), request.SerializeToString())
    return json.loads(Translation(call, JSON, message_id="m").call.body)["params"]


def answered_in_json(task: new.Task) -> Any:
    """Return the JSON that a client gets for an agent's message."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}
    translation = Translation(call_of({"http": {"body": body}}, JSON), GRPC)
    return json.loads(translation.answer(task.SerializeToString()))["result"]


def task(**status: Any) -> new.Task:
    return new.Task(id="t", context_id="c", status=new.TaskStatus(**{"state": 2, **status}))


# ---- Towards gRPC ----------------------------------------------------------------------------------------------------


@row("numbers in metadata and data", "gRPC", "doubles: `1.0` is 1, an integer beyond 2^53 the nearest double")
def test_numbers_are_doubles() -> None:
    [part] = asked(saying(data=[2**53 + 1, 1.0, 0.1])).message.parts
    assert [value.number_value for value in part.data.list_value.values] == [2**53, 1.0, 0.1]
    there_and_back = new.SendMessageRequest(message=new.Message(message_id="m", role="ROLE_USER", parts=[part]))
    [part] = asked_in_json(there_and_back)["message"]["parts"]
    assert json.dumps(part["data"]) == "[9007199254740992, 1, 0.1]"


@row("order of the members in metadata and data", "gRPC", "not kept")
def test_members_have_no_order() -> None:
    assert asked(saying(data={"a": 1, "b": 2})) == asked(saying(data={"b": 2, "a": 1}))


@row("members that the schema does not have, outside of metadata and data", "gRPC", "dropped")
def test_members_without_a_place_are_dropped() -> None:
    assert asked({**saying(text="x", odd=1), "more": {}}) == asked(saying(text="x"))
    assert answered({**WORKING, "odd": 1, "metadata": {"odd": 1}}) == answered({**WORKING, "metadata": {"odd": 1}})


@row("null, outside of metadata and data", "gRPC", "dropped, which means the same")
def test_a_null_is_nothing_but_where_any_value_may_stand() -> None:
    assert answered({**WORKING, "history": None, "metadata": None}) == answered(WORKING)
    assert MessageToDict(answered({**WORKING, "metadata": {"a": None}}))["metadata"] == {"a": None}
    assert asked(saying(data=None)).message.parts[0].data.HasField("null_value")


@row(
    "what is empty, false or 0",
    "gRPC",
    "dropped, which means the same; not a part's content, nor in 1.0 historyLength and includeArtifacts",
)
def test_empty_members_are_lost_unless_they_have_presence() -> None:
    empty = {"acceptedOutputModes": [], "returnImmediately": False, "historyLength": 0}
    sent = asked({**saying(text=""), "configuration": empty})
    assert sent.message.parts[0].HasField("text")
    assert MessageToDict(sent.configuration) == {"historyLength": 0}
    assert MessageToDict(asked({"contextId": "", "includeArtifacts": False}, "ListTasks")) == {
        "includeArtifacts": False
    }


@row("offset of a timestamp", "gRPC", "the same moment in UTC")
def test_moments_are_in_utc() -> None:
    status = {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-31T12:00:00.5+02:00"}
    assert answered({**WORKING, "status": status}).status.timestamp.ToJsonString() == "2026-01-31T10:00:00.500Z"


@row("timestamp that is no ISO 8601", "gRPC", "dropped")
def test_a_malformed_timestamp_is_dropped() -> None:
    status = {"state": "TASK_STATE_WORKING", "timestamp": "noon"}
    assert answered({**WORKING, "status": status}) == answered(WORKING)


@row("more than some 30 objects or 45 arrays inside one another", "gRPC", "refused: parsers read 100 messages deep")
def test_data_too_deep_for_parsers_is_refused() -> None:
    for levels, wrap in ((30, lambda inner: {"a": inner}), (45, lambda inner: [inner])):
        deep: Any = 1
        for _ in range(levels):
            deep = wrap(deep)
        assert asked(saying(data=deep))
        assert answered({**WORKING, "artifacts": [{"artifactId": "a", "parts": [{"data": deep}]}]})
        for _ in range(4):
            deep = wrap(deep)
        with pytest.raises(BadParams, match="nested too deeply"):
            asked(saying(data=deep))
        with pytest.raises(UpstreamProtocol):
            answered({**WORKING, "metadata": {"a": deep}})


@row("all that is lost towards 0.3 over HTTP+JSON", "0.3 over gRPC", "likewise: the messages are the same")
def test_0_3_has_one_form() -> None:
    assert FORMS[GRPC_0_3] is FORMS[Dialect(Binding.REST, Version.V0_3)]
    # One of them: the bytes of a file are what its base64 is written with.
    assert asked(saying(raw="AAAA"), theirs=GRPC_0_3).request.content[0].file.file_with_bytes == b"AAAA"


@row("an id that no path can carry, such as one with a `/`", "0.3 over gRPC", "refused")
def test_an_id_that_a_name_cannot_carry_is_refused() -> None:
    assert asked({"id": "a/b"}, "GetTask").id == "a/b"
    assert asked({"id": "a:b c"}, "GetTask", GRPC_0_3).name == "tasks/a:b c"
    with pytest.raises(BadParams, match="a path cannot carry"):
        asked({"id": "a/b"}, "GetTask", GRPC_0_3)


@row(
    "stateTransitionHistory and transportOptions of a card, and `type` and `in` of its schemes",
    "0.3 over gRPC",
    "dropped",
)
def test_a_card_has_the_members_of_its_message() -> None:
    agents = {"name": "A", "version": "1", "capabilities": {"stateTransitionHistory": True}}
    sanitized = sanitize(agents, Discretion())
    served = Served((ServedInterface("gw.example:443", GRPC_0_3, "acme"),), schemes=("api_key",))
    whole = rebuild(sanitized, served)
    assert whole["capabilities"]["stateTransitionHistory"]
    assert whole["transportOptions"]["GRPC"]["scope"] == "acme"
    assert whole["securitySchemes"]["api_key"]["type"] == "apiKey"
    tree = rebuild(sanitized, served, Edition.inside(GRPC_0_3))
    told = old.AgentCard.FromString(grpc.write_answer(Operation.GET_EXTENDED_CARD, Version.V0_3, tree))
    assert MessageToDict(told)["securitySchemes"] == {
        "api_key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}
    }
    assert tree["capabilities"] == {}
    assert "transportOptions" not in tree


# ---- From gRPC -------------------------------------------------------------------------------------------------------


@row("NaN and infinities in metadata and data", "JSON", "refused")
def test_numbers_that_json_has_not_are_refused() -> None:
    message = new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="x")])
    message.metadata["a"] = float("nan")
    with pytest.raises(BadParams, match="a number that JSON has not"):
        asked_in_json(new.SendMessageRequest(message=message))
    told = task()
    told.metadata["a"] = float("inf")
    with pytest.raises(UpstreamProtocol):
        answered_in_json(told)


@row("fields that the schema does not know", "JSON", "dropped; a relay keeps them")
def test_fields_that_nobody_knows_are_dropped() -> None:
    request = new.SendMessageRequest(message=new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="x")]))
    later = request.SerializeToString() + b"\xfa\x3f\x01x"
    assert asked_in_json(new.SendMessageRequest.FromString(later)) == asked_in_json(request)
    call = grpc.read_call(method_of(Operation.SEND_MESSAGE, Version.V1_0), later)
    assert grpc.with_tenant(call, "acme").endswith(b"x")


@row("a value of no kind in metadata and data", "JSON", "null")
def test_a_value_of_no_kind_is_a_null() -> None:
    told = task()
    told.metadata.fields["a"].SetInParent()
    assert answered_in_json(told)["metadata"] == {"a": None}


@row("a state or a role by a number that the schema does not know", "JSON", "refused")
def test_a_state_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UpstreamProtocol):
        answered_in_json(task(state=77))
    with pytest.raises(BadParams):
        asked_in_json(new.ListTasksRequest(status=77), Operation.LIST_TASKS)  # type: ignore[arg-type]  # that is it


@row("digits of a timestamp", "JSON", "none, 3, 6 or 9 behind the second")
def test_moments_have_digits_in_threes() -> None:
    told = task()
    for nanos, digits in ((0, ""), (500_000_000, ".500"), (1, ".000000001")):
        told.status.timestamp.seconds, told.status.timestamp.nanos = 0, nanos
        assert answered_in_json(told)["status"]["timestamp"] == f"1970-01-01T00:00:00{digits}Z"


@row("a timestamp outside of the years 1 to 9999", "JSON", "refused")
def test_moments_outside_of_the_calendar_are_refused() -> None:
    told = task()
    told.status.timestamp.seconds = 2**50
    with pytest.raises(UpstreamProtocol):
        answered_in_json(told)
    request = new.ListTasksRequest()
    request.status_timestamp_after.seconds = 2**50
    with pytest.raises(BadParams):
        asked_in_json(request, Operation.LIST_TASKS)


def test_the_manual_lists_every_loss() -> None:
    section = MANUAL.read_text().split("\n### gRPC\n")[1].split("\n### ")[0]
    assert section.strip().splitlines() == ["| what | towards | what happens |", "|---|---|---|", *ROWS]
