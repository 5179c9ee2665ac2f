"""The messages of the vectors over gRPC, beside the same in every dialect of JSON."""

import json
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings import grpc, rest
from gateway.a2a.bindings.echo import forget_tenants
from gateway.a2a.bindings.grpc_schema import event_class, request_class, result_class
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall
from gateway.a2a.versions.forms import FORMS
from gateway.a2a.versions.version import Form, Memo
from tests.a2a import dialects
from tests.a2a.bindings.grpc_sample import Sample, samples, without_empties
from tests.a2a.sample import CONTEXT, TASK, TENANT
from tests.table import for_each

REQUESTS = [each for each in samples() if each.place == "request"]
ANSWERS = [each for each in samples() if each.place == "response" and "Card" not in each.file]
EVENTS = [each for each in samples() if isinstance(each.place, int)]
V0_3, V1_0 = Version.V0_3, Version.V1_0


def form(version: Version) -> Form:
    """That of HTTP+JSON of the same generation."""
    return FORMS[Dialect(Binding.REST, version)]


def twins(sample: Sample, place: str) -> list[str]:
    """The dialects of JSON that have the same message."""
    content = dialects.vector(sample.file)[place]
    return [name for name in content if name in dialects.DIALECTS and not name.endswith("grpc")]


def alike(ours: Any, theirs: Any, name: str) -> None:
    """See to it that a dialect of JSON says the same, as far as it can."""
    loose = "0.1" in name
    for each in (ours, theirs):
        # Configurations echo one in 1.0; whoever translates takes it out.
        forget_tenants(each)
    assert dialects.comparable(ours, loose=loose) == dialects.comparable(theirs, loose=loose), name


@for_each("sample", REQUESTS)
def test_the_requests_of_both_generations_are_read(sample: Sample) -> None:
    assert sample.method is not None
    call = grpc.read_call(sample.method, sample.message)
    assert call.operation is sample.operation
    assert call.dialect == Dialect(Binding.GRPC, sample.version)
    assert call.method == sample.method.path
    assert call.id == b"null"
    assert call.tenant == (TENANT if sample.version is V1_0 else None)
    assert call.in_body == (sample.version is V1_0)
    assert call.told
    assert call.body == sample.message
    of_task = "Task" in sample.operation and sample.operation is not Operation.LIST_TASKS
    assert call.task_id == call.path.task_id == (TASK if of_task else None)
    has_context = sample.operation.sends or sample.operation is Operation.LIST_TASKS
    assert call.context_id == (CONTEXT if has_context else None)
    one_config = sample.operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG)
    assert call.path == PathCall(sample.operation, task_id=call.path.task_id, config_id="cfg-1" if one_config else None)


@for_each("sample", REQUESTS)
def test_a_request_says_what_it_says_in_every_dialect_of_json(sample: Sample) -> None:
    assert sample.method is not None
    call = grpc.read_call(sample.method, sample.message)
    if sample.operation is Operation.GET_EXTENDED_CARD:
        assert grpc.read_params(call) == {}
        return
    memo = Memo(message_id="made")
    params = form(sample.version).lift_params(sample.operation, grpc.read_params(call), memo)
    names = twins(sample, "request")
    assert f"v{sample.version}-rest" in names
    content = dialects.vector(sample.file)["request"]
    for name in names:
        alike(params, dialects.hub_params(dialects.call_of(content[name], dialects.DIALECTS[name])), name)


@for_each("sample", REQUESTS)
def test_the_parameters_are_those_of_the_same_call_over_http_json(sample: Sample) -> None:
    """To the letter, before a form has seen them."""
    assert sample.method is not None
    if sample.operation is Operation.GET_EXTENDED_CARD:
        return
    name = f"v{sample.version}-rest"
    call = dialects.call_of(dialects.vector(sample.file)["request"][name], dialects.DIALECTS[name])
    theirs = rest.read_params(call)
    ours = grpc.read_params(grpc.read_call(sample.method, sample.message))
    if sample.version is V0_3:
        # Who asks by a path need not say it again, but some do.
        theirs.pop("parent", None)
    if sample.operation is Operation.LIST_PUSH_CONFIGS:
        # Which page, the path of the vector does not say.
        ours.pop("pageSize", None)
        theirs.pop("pageSize", None)
    assert ours == theirs


@for_each("sample", REQUESTS)
def test_what_the_form_writes_is_the_request_of_the_vectors(sample: Sample) -> None:
    assert sample.method is not None
    operation, version = sample.operation, sample.version
    params = grpc.read_params(grpc.read_call(sample.method, sample.message))
    if operation is not Operation.GET_EXTENDED_CARD:
        memo = Memo(message_id="made")
        params = form(version).lower_params(operation, form(version).lift_params(operation, params, memo), memo)
    if version is V1_0:
        params["tenant"] = TENANT
    kind = request_class(sample.method)
    written = kind.FromString(grpc.write_call(operation, version, params))
    expected = kind.FromString(sample.message)
    if version is V0_3 and operation.sends:
        # Always said towards agents (a loss of the form).
        expected.configuration.blocking = written.configuration.blocking
    assert written == expected


@for_each("sample", ANSWERS)
def test_an_answer_says_what_it_says_in_every_dialect_of_json(sample: Sample) -> None:
    memo = Memo(message_id="made")
    found = grpc.read_answer(sample.operation, sample.version, sample.message)
    result = form(sample.version).lift_result(sample.operation, found, memo)
    content = dialects.vector(sample.file)
    for name in twins(sample, "response"):
        call = dialects.call_of(content["request"][name], dialects.DIALECTS[name])
        told = content["response"][name]["http"]["body"]
        if sample.operation is Operation.LIST_TASKS:
            # Those of JSON are of an agent that prints what is empty, and lists no artifacts.
            told, result = without_empties(told), without_empties(result)
            result["tasks"][0].pop("artifacts", None)
        if told is not None:
            alike(result, dialects.hub_result(call, json.dumps(told).encode()), name)


@for_each("sample", ANSWERS)
def test_what_the_form_tells_is_the_answer_of_the_vectors(sample: Sample) -> None:
    operation, version = sample.operation, sample.version
    memo = Memo(message_id="made")
    hub = form(version).lift_result(operation, grpc.read_answer(operation, version, sample.message), memo)
    if operation.kind == "push" and version is V1_0:
        hub.get("configs", [hub])[0].setdefault("tenant", TENANT)
    written = grpc.write_answer(operation, version, form(version).lower_result(operation, hub, memo))
    kind = result_class(operation, version)
    assert kind.FromString(written) == kind.FromString(sample.message)


@for_each("sample", EVENTS)
def test_an_event_says_what_it_says_in_every_dialect_of_json(sample: Sample) -> None:
    memo = Memo(message_id="made", context_id=CONTEXT)
    event = form(sample.version).lift_event(grpc.read_event(sample.version, sample.message), memo)
    content = dialects.vector(sample.file)
    assert isinstance(sample.place, int)
    for name in twins(sample, "request"):
        told = content["events"][sample.place].get(name.removesuffix("-snake"))
        if told is not None and "0.1" not in name:
            call = dialects.call_of(content["request"][name], dialects.DIALECTS[name])
            alike(event, dialects.hub_event(call, json.dumps(told["sse_data"]).encode()), name)


@for_each("sample", EVENTS)
def test_what_the_form_tells_is_the_event_of_the_vectors(sample: Sample) -> None:
    memo = Memo(message_id="made", context_id=CONTEXT)
    event = form(sample.version).lift_event(grpc.read_event(sample.version, sample.message), memo)
    assert isinstance(sample.place, int)
    last = sample.place == len(dialects.vector(sample.file)["events"]) - 1
    (lowered,) = form(sample.version).lower_event(event, memo, last=last)
    kind = event_class(sample.version)
    assert kind.FromString(grpc.write_event(sample.version, lowered)) == kind.FromString(sample.message)


def test_old_and_new_messages_are_of_two_schemas() -> None:
    """A message of one half-parses as the other's (protocol trap 25), so the package in the path decides."""
    artifact = old.Artifact(artifact_id="a", name="n").SerializeToString()
    assert new.Artifact.FromString(artifact).description == "n"
