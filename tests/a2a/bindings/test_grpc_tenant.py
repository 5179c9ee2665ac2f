"""The tenant in messages of gRPC: wherever a client puts it, and another in its place.

What hostile clients try with it, a whole gateway is asked in `tests/grpc/test_grpc_bad_input.py`.
"""

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
from tests.support.grpc_bytes import held, text_field
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0
SEND = method_of(Operation.SEND_MESSAGE, V1_0)
SCOPED = [each for each in BY_PATH.values() if each.scoped]
TENANTS = json.loads((VECTORS / "tenant.json").read_bytes())
OF_1_0 = pytest.mark.parametrize("method", methods(V1_0), ids=lambda method: str(method.operation))
OF_SCOPED = pytest.mark.parametrize("method", SCOPED, ids=lambda method: str(method.operation))


def read(method: GrpcMethod, more: bytes = b"", /, **members: Any) -> Call:
    """The call that has these fields, and these bytes behind them."""
    return grpc.read_call(method, made(method.operation, method.version, **members) + more)


def told(call: Call) -> tuple[str | None, bool, bool]:
    return call.tenant, call.in_body, call.told


def push(tenant: str | None = None, *more: bytes) -> bytes:
    """A configuration with a push configuration in it, as a field of a send."""
    return held(3, held(2, (b"" if tenant is None else text_field(1, tenant)) + b"".join(more)))


# ---- 1.0 -------------------------------------------------------------------------------------------------------------


@OF_1_0
def test_every_request_of_1_0_tells_its_tenant_once(method: GrpcMethod) -> None:
    number = TENANTS["field_numbers_v1.0"][request_class(method).DESCRIPTOR.name]
    assert told(read(method, tenant="acme")) == told(read(method, text_field(number, "acme"))) == ("acme", True, True)
    assert told(read(method)) == told(read(method, text_field(number, ""))) == (None, False, True)
    for first, second in (("acme", "globex"), ("acme", "acme"), ("acme", ""), ("", "")):
        with pytest.raises(DuplicateKey):
            grpc.read_call(
                method, text_field(number, first) + made(method.operation, V1_0) + text_field(number, second)
            )


@for_each("value", TENANTS["values"])
def test_the_tenants_of_the_vectors_are_read_as_they_are(value: Any) -> None:
    assert grpc.read_call(SEND, b64decode(value["grpc"]["SendMessageRequest_b64"])).tenant == (value["tenant"] or None)


@for_each("operation", [Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE])
def test_the_tenant_in_the_push_configuration_of_a_send_counts(operation: Operation) -> None:
    method = method_of(operation, V1_0)
    assert told(read(method, push("acme"), tenant="acme")) == ("acme", True, True)
    # Where an agent looks first, nobody tells it.
    assert told(read(method, push("acme"))) == ("acme", True, False)
    for empty in (push(), push("")):
        assert told(read(method, empty, tenant="acme")) == ("acme", True, True)
    for other in (push("globex"), push("globex") + push(), push(None, text_field(2, "id")) + push("globex")):
        with pytest.raises(BadParams, match="two places of the request name a different tenant"):
            read(method, other, tenant="acme")
    for twice in (push("acme", text_field(1, "")), push("acme") + push(""), held(3, held(2, text_field(1, "a")) * 2)):
        with pytest.raises(DuplicateKey):
            read(method, twice)


@pytest.mark.parametrize("tenant", ["globex", "g" * 200, None])
@OF_1_0
def test_another_tenant_stands_in_the_place_of_the_first(method: GrpcMethod, tenant: str | None) -> None:
    unknown = text_field(90, "kept")
    for call in (read(method, unknown, tenant="acme"), read(method, unknown)):
        expected = request_class(method).FromString(call.body)
        expected.tenant = tenant or ""
        written = grpc.with_tenant(call, tenant)
        assert request_class(method).FromString(written) == expected
        assert unknown in written


@for_each("tenant", ["globex", None])
@for_each("inner", ["acme", "", None])
def test_the_place_in_the_push_configuration_tells_the_same_if_it_is_there(
    tenant: str | None, inner: str | None
) -> None:
    unknown = text_field(90, "kept")
    for outer in ({"tenant": "acme"}, {}):
        call = read(SEND, push(inner, text_field(4, "https://x"), unknown) + unknown, **outer)
        written = grpc.with_tenant(call, tenant)
        found = request_class(SEND).FromString(written)
        config = found.configuration.task_push_notification_config
        assert found.tenant == (tenant or "")
        assert (config.tenant, config.url) == (found.tenant if inner else "", "https://x")
        # What the classes do not know is kept by them: at the top, and inside.
        assert written.count(b"kept") == 2


@given(messages(request_class(SEND)), TEXTS.filter(bool))
def test_nothing_else_of_a_message_changes(message: Any, tenant: str) -> None:
    message.configuration.task_push_notification_config.tenant = ""
    call = grpc.read_call(SEND, message.SerializeToString())
    for other in (tenant, ""):
        message.tenant = other
        assert request_class(SEND).FromString(grpc.with_tenant(call, other or None)) == message


# ---- The scope of 0.3 ------------------------------------------------------------------------------------------------


@OF_SCOPED
def test_a_scoped_call_has_one_scope_which_is_its_tenant(method: GrpcMethod) -> None:
    call = read(method, text_field(100, "acme"))
    assert (told(call), call.method) == (("acme", True, True), method.path)
    message = made(method.operation, V0_3) + text_field(7, "globex")
    assert grpc.read_call(method, message, scope_field=7).tenant == "globex"
    for missing in (b"", text_field(100, ""), text_field(99, "acme")):
        with pytest.raises(BadParams, match="scope is") as caught:
            read(method, missing)
        assert caught.value.field == "scope"
    with pytest.raises(DuplicateKey, match="the scope stands twice"):
        read(method, text_field(100, "acme") * 2)
    for wrong in (b"\xa0\x06\x01", b"\xa2\x86\x00\x04acme"):
        with pytest.raises(BadRequest):
            read(method, wrong)
    with pytest.raises(ParseFailed):
        read(method, b"\xa2\x06\x01\xff")


@for_each("method", methods(V0_3))
def test_the_plain_service_has_no_scope_and_stays_as_it_is(method: GrpcMethod) -> None:
    call = read(method)
    assert told(call) == (None, False, True)
    assert grpc.with_tenant(call, "acme") == grpc.with_tenant(call, None) == call.body
    with pytest.raises(BadParams, match="for the scoped service alone"):
        read(method, text_field(100, "acme"))
    # Nor has that of 1.0: there it is a field that nobody knows.
    assert read(SEND, text_field(100, "globex"), tenant="acme").tenant == "acme"


@for_each("method", [*methods(V0_3), *SCOPED])
def test_the_tenant_of_a_candidate_of_1_0_is_refused(method: GrpcMethod) -> None:
    """It has the paths of 0.3, and its agents would follow a tenant that nobody here has routed by."""
    scope = text_field(100, "acme") if method.scoped else b""
    name = method.operation.value.replace("Streaming", "").replace("Configs", "Config")
    number = TENANTS["field_numbers_v1.0.0-rc (package a2a.v1)"][f"{name}Request"]
    with pytest.raises(BadParams, match="of a release candidate") as caught:
        read(method, scope + text_field(number, "globex"))
    assert caught.value.field == "tenant"
    # What has another number may be of a later generation.
    assert read(method, scope + text_field(90, "kept")).tenant == ("acme" if method.scoped else None)


@OF_SCOPED
@given(texts=st.lists(TEXTS, max_size=3), tenant=TEXTS.filter(bool), number=st.sampled_from([7, 100]))
def test_the_scope_is_cut_out_and_all_else_stays(
    method: GrpcMethod, texts: list[str], tenant: str, number: int
) -> None:
    before, after = (b"".join(text_field(other, text) for text in texts) for other in (90, 91))
    call = grpc.read_call(method, before + text_field(number, "acme") + after, scope_field=number)
    assert grpc.with_tenant(call, None, scope_field=number) == before + after
    other = grpc.with_tenant(call, tenant, scope_field=number)
    assert grpc.read_call(method, other, scope_field=number).tenant == tenant
