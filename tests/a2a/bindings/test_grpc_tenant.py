"""The tenant in messages of gRPC: wherever a client puts it, and wherever an agent echoes it."""

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings import grpc
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.bindings.grpc_schema import request_class
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import TEXTS, made, messages, methods
from tests.a2a.sample import VECTORS
from tests.doubles.grpc_bytes import held, text_field

V0_3, V1_0 = Version.V0_3, Version.V1_0
SEND = method_of(Operation.SEND_MESSAGE, V1_0)
LIST = method_of(Operation.LIST_PUSH_CONFIGS, V1_0)
SCOPED = [each for each in BY_PATH.values() if each.scoped]
TENANTS = json.loads((VECTORS / "tenant.json").read_bytes())


def read(method: GrpcMethod, more: bytes = b"", /, **members: Any) -> Call:
    """The call that has these fields, and these bytes behind them."""
    return grpc.read_call(method, made(method.operation, method.version, **members) + more)


def push(tenant: str | None = None, *more: bytes) -> bytes:
    """A configuration with a push configuration in it, as a field of a send."""
    inner = (b"" if tenant is None else text_field(1, tenant)) + b"".join(more)
    return held(3, held(2, inner))


# ---- Where it stands -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", methods(V1_0), ids=lambda method: str(method.operation))
def test_every_request_of_1_0_tells_its_tenant(method: GrpcMethod) -> None:
    call = read(method, tenant="acme")
    assert (call.tenant, call.in_body, call.told) == ("acme", True, True)
    call = read(method)
    assert (call.tenant, call.in_body, call.told) == (None, False, True)
    number = TENANTS["field_numbers_v1.0"][request_class(method).DESCRIPTOR.name]
    assert read(method, text_field(number, "acme")).tenant == "acme"
    # An empty one is none.
    call = read(method, text_field(number, ""))
    assert (call.tenant, call.in_body, call.told) == (None, False, True)


@pytest.mark.parametrize("value", TENANTS["values"], ids=lambda value: str(value["tenant"]))
def test_the_tenants_of_the_vectors_are_read_as_they_are(value: Any) -> None:
    assert grpc.read_call(SEND, b64decode(value["grpc"]["SendMessageRequest_b64"])).tenant == (value["tenant"] or None)


def test_the_first_field_of_a_list_is_no_tenant() -> None:
    """There it is the task, and a reader that looks for field 1 alone would route by that."""
    call = read(LIST, task_id="globex", tenant="acme")
    assert (call.tenant, call.task_id) == ("acme", "globex")
    assert read(LIST, task_id="globex").tenant is None


@pytest.mark.parametrize("method", methods(V1_0), ids=lambda method: str(method.operation))
def test_a_tenant_that_stands_twice_is_refused(method: GrpcMethod) -> None:
    number = TENANTS["field_numbers_v1.0"][request_class(method).DESCRIPTOR.name]
    for first, second in (("acme", "globex"), ("acme", "acme"), ("acme", ""), ("", "acme"), ("", "")):
        twice = text_field(number, first) + made(method.operation, V1_0) + text_field(number, second)
        with pytest.raises(DuplicateKey):
            grpc.read_call(method, twice)


# ---- The one in the push configuration of a send ---------------------------------------------------------------------


@pytest.mark.parametrize("operation", [Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE])
def test_the_inner_tenant_of_a_send_counts(operation: Operation) -> None:
    method = method_of(operation, V1_0)
    both = read(method, push("acme"), tenant="acme")
    assert (both.tenant, both.in_body, both.told) == ("acme", True, True)
    inner = read(method, push("acme"))
    # Where an agent looks first, nobody tells it.
    assert (inner.tenant, inner.in_body, inner.told) == ("acme", True, False)
    outer = read(method, push(), tenant="acme")
    assert (outer.tenant, outer.in_body, outer.told) == ("acme", True, True)
    empty = read(method, push(""), tenant="acme")
    assert (empty.tenant, empty.in_body, empty.told) == ("acme", True, True)
    with pytest.raises(BadParams, match="two places of the request name a different tenant"):
        read(method, push("globex"), tenant="acme")


def test_an_inner_tenant_that_stands_twice_is_refused() -> None:
    for message in (
        push("acme", text_field(1, "acme")),
        push("acme", text_field(1, "")),
        push("acme") + push("acme"),
        push("acme") + push(""),
        push("globex") + push() + push("acme"),
    ):
        with pytest.raises(DuplicateKey):
            read(SEND, message)
    with pytest.raises(DuplicateKey):
        read(SEND, held(3, held(2, text_field(1, "acme")) * 2))


def test_configurations_that_stand_twice_are_one() -> None:
    call = read(SEND, push(None, text_field(2, "id")) + push("acme"), tenant="acme")
    assert (call.tenant, call.told) == ("acme", True)
    # And the tenant of one that another overrules in all else is still a tenant.
    with pytest.raises(BadParams):
        read(SEND, push("globex") + push(), tenant="acme")


# ---- The scope of 0.3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SCOPED, ids=lambda method: str(method.operation))
def test_the_scope_is_the_tenant_of_a_scoped_call(method: GrpcMethod) -> None:
    call = read(method, text_field(100, "acme"))
    assert (call.tenant, call.in_body, call.told) == ("acme", True, True)
    assert call.method == method.path
    message = made(method.operation, V0_3) + text_field(7, "globex")
    assert grpc.read_call(method, message, scope_field=7).tenant == "globex"


@pytest.mark.parametrize("method", SCOPED, ids=lambda method: str(method.operation))
def test_a_scoped_call_has_one_scope(method: GrpcMethod) -> None:
    for missing in (b"", text_field(100, ""), text_field(99, "acme")):
        with pytest.raises(BadParams, match="scope is") as caught:
            read(method, missing)
        assert caught.value.field == "scope"
    with pytest.raises(DuplicateKey, match="the scope stands twice"):
        read(method, text_field(100, "acme") * 2)
    with pytest.raises(BadRequest, match="not of its type"):
        read(method, b"\xa0\x06\x01")
    with pytest.raises(BadRequest, match="longer than it need be"):
        read(method, b"\xa2\x86\x00\x04acme")
    with pytest.raises(ParseFailed):
        read(method, b"\xa2\x06\x01\xff")


@pytest.mark.parametrize("method", methods(V0_3), ids=lambda method: str(method.operation))
def test_the_plain_service_has_no_scope(method: GrpcMethod) -> None:
    call = read(method)
    assert (call.tenant, call.in_body, call.told) == (None, False, True)
    with pytest.raises(BadParams, match="for the scoped service alone"):
        read(method, text_field(100, "acme"))
    # Nor has that of 1.0: there it is a field that nobody knows.
    assert read(SEND, text_field(100, "globex"), tenant="acme").tenant == "acme"


@pytest.mark.parametrize("method", [*methods(V0_3), *SCOPED], ids=lambda method: method.path[1:])
def test_the_tenant_of_a_candidate_of_1_0_is_refused(method: GrpcMethod) -> None:
    """It has the paths of 0.3, and its agents would follow a tenant that nobody here has routed by."""
    scope = text_field(100, "acme") if method.scoped else b""
    name = method.operation.value.replace("Streaming", "").replace("Configs", "Config")
    number = TENANTS["field_numbers_v1.0.0-rc (package a2a.v1)"][f"{name}Request"]
    with pytest.raises(BadParams, match="of a candidate") as caught:
        read(method, scope + text_field(number, "globex"))
    assert caught.value.field == "tenant"
    # What has another number may be of a later generation.
    assert read(method, scope + text_field(90, "kept")).tenant == ("acme" if method.scoped else None)
    if method.scoped and number > 3:
        message = made(method.operation, V0_3) + text_field(number, "acme")
        assert grpc.read_call(method, message, scope_field=number).tenant == "acme"


# ---- Another in its place --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", ["globex", "g" * 200, None])
@pytest.mark.parametrize("method", methods(V1_0), ids=lambda method: str(method.operation))
def test_another_tenant_stands_in_the_place_of_the_first(method: GrpcMethod, tenant: str | None) -> None:
    unknown = text_field(90, "kept")
    for call in (read(method, unknown, tenant="acme"), read(method, unknown)):
        written = request_class(method).FromString(grpc.with_tenant(call, tenant))
        expected = request_class(method).FromString(call.body)
        expected.tenant = tenant or ""
        assert written == expected
        assert unknown in grpc.with_tenant(call, tenant)


@given(messages(request_class(SEND)), TEXTS.filter(bool))
def test_nothing_else_of_a_message_changes(message: Any, tenant: str) -> None:
    message.configuration.task_push_notification_config.tenant = ""
    call = grpc.read_call(SEND, message.SerializeToString())
    message.tenant = tenant
    assert request_class(SEND).FromString(grpc.with_tenant(call, tenant)) == message
    message.tenant = ""
    assert request_class(SEND).FromString(grpc.with_tenant(call, None)) == message


@pytest.mark.parametrize("tenant", ["globex", "g" * 200, None])
@pytest.mark.parametrize("inner", ["acme", ""])
def test_the_inner_place_tells_the_same(tenant: str | None, inner: str) -> None:
    unknown = text_field(90, "kept")
    for outer in ({"tenant": "acme"}, {}):
        call = read(SEND, push(inner, text_field(4, "https://x"), unknown) + unknown, **outer)
        written = grpc.with_tenant(call, tenant)
        found = request_class(SEND).FromString(written)
        assert found.tenant == (tenant or "")
        assert found.configuration.task_push_notification_config.tenant == (found.tenant if inner else "")
        assert found.configuration.task_push_notification_config.url == "https://x"
        # What the classes do not know is kept by them: at the top, and inside.
        assert written.count(b"kept") == 2


def test_a_push_configuration_without_a_tenant_gets_none() -> None:
    call = read(SEND, push(None, text_field(4, "https://x")), tenant="acme")
    found = request_class(SEND).FromString(grpc.with_tenant(call, "globex"))
    assert found.tenant == "globex"
    assert found.configuration.task_push_notification_config.tenant == ""


@pytest.mark.parametrize("method", SCOPED, ids=lambda method: str(method.operation))
@given(head=st.lists(TEXTS, max_size=3), tail=st.lists(TEXTS, max_size=3), tenant=TEXTS.filter(bool))
def test_the_scope_is_cut_out_and_all_else_stays(
    method: GrpcMethod, head: list[str], tail: list[str], tenant: str
) -> None:
    before, after = (b"".join(text_field(number, text) for text in texts) for number, texts in ((90, head), (91, tail)))
    call = grpc.read_call(method, before + text_field(100, "acme") + after)
    assert grpc.with_tenant(call, None) == before + after
    assert grpc.read_call(method, grpc.with_tenant(call, tenant)).tenant == tenant
    other = grpc.read_call(method, before + text_field(7, "acme") + after, scope_field=7)
    assert grpc.with_tenant(other, None, scope_field=7) == before + after


def test_a_call_of_the_plain_service_of_0_3_stays_as_it_is() -> None:
    call = read(method_of(Operation.GET_TASK, V0_3), name="tasks/t")
    assert grpc.with_tenant(call, "acme") == grpc.with_tenant(call, None) == call.body


def test_a_call_that_was_written_for_an_agent_is_told_its_tenant_as_well() -> None:
    method = method_of(Operation.GET_TASK, V1_0)
    call = grpc.read_call(method, grpc.write_call(Operation.GET_TASK, V1_0, {"id": "t", "tenant": "acme"}))
    assert call.tenant == "acme"
    assert grpc.with_tenant(call, None) == grpc.write_call(Operation.GET_TASK, V1_0, {"id": "t"})
