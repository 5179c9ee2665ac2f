"""The tenant in messages of gRPC: wherever a client puts it, and another in its place.

What hostile clients try with it, a whole gateway is asked in `tests/grpc/test_grpc_bad_input.py`.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings import grpc
from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import TEXTS, made, messages, methods
from tests.a2a.sample import VECTORS
from tests.support.grpc_bytes import text_field
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0
SEND = method_of(Operation.SEND_MESSAGE, V1_0)
SCOPED = [each for each in BY_PATH.values() if each.scoped]
TENANTS = json.loads((VECTORS / "tenant.json").read_bytes())
OF_SCOPED = pytest.mark.parametrize("method", SCOPED, ids=lambda method: str(method.operation))


def read(method: GrpcMethod, more: bytes = b"", /, **members: Any) -> Call:
    """The call that has these fields, and these bytes behind them."""
    return grpc.read_call(method, made(method.operation, method.version, **members) + more)


def told(call: Call) -> tuple[str | None, bool, bool]:
    return call.tenant, call.in_body, call.told


# ---- 1.0 -------------------------------------------------------------------------------------------------------------


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
