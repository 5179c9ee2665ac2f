"""Every fault as each client sees it: the table of the design, in both bindings and both generations."""

import json

import pytest

from gateway.a2a import fault as faults
from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import Fault
from gateway.proxy.error_response import refuse
from gateway.proxy.request import RequestContext
from gateway.telemetry.metrics import AgentMeter, GatewayMetrics
from tests.a2a.test_fault import classes
from tests.support.wire import RecordedWire
from tests.table import for_each

pytestmark = pytest.mark.anyio


def made(kind: type[Fault]) -> Fault:
    if kind is faults.WrongHttpMethod:
        return faults.WrongHttpMethod("told", allowed=("GET", "HEAD"))
    return kind("told", detail="http://10.0.0.1:7000 said no")


async def refused(
    fault: Fault, binding: Binding, version: Version = Version.V1_0, *, opened: bool = False, stream: bool = False
) -> tuple[RecordedWire, RequestContext]:
    exchange = RequestContext(
        Head("POST", b"/"), "0123456789abcdef", 0.0, AgentMeter(GatewayMetrics("test"), "-", frozenset())
    )
    exchange.binding, exchange.version, exchange.stream, exchange.rpc_id = binding, version, stream, b'"\\u0061"'
    wire = RecordedWire(opened=opened)
    await refuse(exchange, wire, fault, challenge='Bearer realm="a2a"', clock=lambda: 1.0)
    return wire, exchange


VISIBLE = [kind for kind in classes() if kind is not faults.ClientGone]

# reason: JSON-RPC status and code, HTTP+JSON status, gRPC status (design §12).
TABLE: dict[str, set[tuple[int, int, int, str]]] = {
    "no_route": {(404, -31404, 404, "NOT_FOUND"), (200, -32602, 404, "NOT_FOUND")},
    "tenant_denied": {
        (404, -31404, 404, "NOT_FOUND"),
        (200, -32602, 404, "NOT_FOUND"),
        (403, -31403, 403, "PERMISSION_DENIED"),
    },
    "route_conflict": {(403, -31403, 403, "PERMISSION_DENIED"), (200, -32602, 404, "NOT_FOUND")},
    "insufficient_scope": {(403, -31403, 403, "PERMISSION_DENIED")},
    "auth_missing": {(401, -31401, 401, "UNAUTHENTICATED")},
    "auth_invalid": {(401, -31401, 401, "UNAUTHENTICATED")},
    "auth_expired": {(401, -31401, 401, "UNAUTHENTICATED")},
    "rate_limited": {(429, -31429, 429, "RESOURCE_EXHAUSTED")},
    "streams_limited": {(429, -31429, 429, "RESOURCE_EXHAUSTED")},
    "tasks_limited": {(429, -31429, 429, "RESOURCE_EXHAUSTED")},
    "concurrency_limited": {(429, -31429, 429, "RESOURCE_EXHAUSTED")},
    "push_denied": {(200, -32602, 400, "INVALID_ARGUMENT")},
    "state_unavailable": {(503, -31503, 503, "UNAVAILABLE")},
    "body_too_large": {(413, -31413, 413, "RESOURCE_EXHAUSTED")},
    "draining": {(503, -31503, 503, "UNAVAILABLE")},
    "overloaded": {(503, -31503, 503, "UNAVAILABLE")},
    "no_healthy_backend": {(503, -31503, 503, "UNAVAILABLE")},
    "auth_unavailable": {(503, -31503, 503, "UNAVAILABLE")},
    "upstream_auth_failed": {(200, -32603, 503, "UNAVAILABLE")},
    "upstream_connect": {(200, -32603, 502, "UNAVAILABLE")},
    "upstream_reset": {(200, -32603, 502, "UNAVAILABLE")},
    "upstream_timeout": {(200, -32603, 504, "DEADLINE_EXCEEDED")},
    "upstream_idle": {(200, -32603, 504, "DEADLINE_EXCEEDED")},
    "upstream_protocol": {
        (200, -32006, 502, "INTERNAL"),
        (429, -32006, 429, "RESOURCE_EXHAUSTED"),
        (503, -32006, 503, "UNAVAILABLE"),
    },
    "card_untrusted": {(200, -32006, 502, "INTERNAL")},
    "version_unsupported": {(200, -32009, 400, "FAILED_PRECONDITION")},
    "method_not_allowed": {(200, -32004, 400, "FAILED_PRECONDITION"), (405, -32600, 405, "FAILED_PRECONDITION")},
    "task_not_owned": {(200, -32001, 404, "NOT_FOUND")},
    "bad_request": {
        (200, -32600, 400, "INVALID_ARGUMENT"), (200, -32700, 400, "INVALID_ARGUMENT"),
        (200, -32602, 400, "INVALID_ARGUMENT"), (200, -32601, 404, "NOT_FOUND"),
        (415, -32600, 415, "INVALID_ARGUMENT"), (415, -32005, 415, "INVALID_ARGUMENT"),
        (408, -32600, 408, "INVALID_ARGUMENT"),
    },
    "duplicate_key": {(200, -32600, 400, "INVALID_ARGUMENT")},
    "internal": {(500, -32603, 500, "INTERNAL"), (200, -32603, 500, "INTERNAL")},
}  # fmt: skip


@for_each("kind", VISIBLE)
async def test_a_fault_has_the_statuses_and_codes_of_the_table(kind: type[Fault]) -> None:
    rpc, _ = await refused(made(kind), Binding.JSONRPC)
    rest, _ = await refused(made(kind), Binding.REST)
    error = rest.json["error"]
    assert error["code"] == rest.status
    assert (rpc.status, rpc.json["error"]["code"], rest.status, error["status"]) in TABLE[kind.reason]


@for_each("kind", VISIBLE)
@for_each("version", list(Version))
@for_each("binding", [Binding.JSONRPC, Binding.REST])
async def test_every_refusal_names_the_request_and_its_reason_and_nothing_of_our_inside(
    kind: type[Fault], version: Version, binding: Binding
) -> None:
    wire, exchange = await refused(made(kind), binding, version)
    said = wire.json
    assert dict(wire.headers)[b"x-request-id"] == b"0123456789abcdef"
    assert dict(wire.headers)[b"content-type"] == b"application/json"
    assert b"10.0.0.1" not in wire.body
    error = said["error"]
    assert error["message"] == "told"
    told = error["data"] if binding is Binding.JSONRPC else error["details"]
    assert {each["metadata"]["requestId"] for each in told} == {"0123456789abcdef"}
    ours = [each["reason"] for each in told if each["domain"] == "a2a-gateway"]
    if kind is faults.TaskNotFound:
        assert ours == []
    else:
        assert ours == [(kind.shown or kind.reason).upper()]
    if binding is Binding.JSONRPC:
        assert (said["jsonrpc"], said["id"], b'"id":"\\u0061"' in wire.body) == ("2.0", "a", True)
        if version is Version.V0_3:
            # They came with 1.0; in 0.1 they meant something else.
            assert error["code"] not in (-32008, -32009)
    else:
        assert ("type" in said) == (version is not Version.V1_0)
        assert said.get("message", "told") == "told"
    assert (exchange.status, exchange.bytes_out, exchange.first_byte) == (wire.status, len(wire.body), 1.0)
    assert exchange.fault is not None
    assert not wire.was_cut


async def test_a_version_that_0_3_cannot_name_is_an_internal_error_there() -> None:
    old, exchange = await refused(faults.VersionUnsupported("no"), Binding.JSONRPC, Version.V0_3)
    assert old.json["error"]["code"] == -32603
    assert exchange.close(2.0)["rpc_code"] == -32603
    new, exchange = await refused(faults.VersionUnsupported("no"), Binding.JSONRPC)
    assert new.json["error"]["code"] == exchange.close(2.0)["rpc_code"] == -32009


@for_each(("given", "sent"), [(None, b"1"), (0.2, b"1"), (2.4, b"3"), (30.0, b"30")])
async def test_a_503_says_when_to_try_again(given: float | None, sent: bytes) -> None:
    wire, _ = await refused(faults.Overloaded("busy", retry_after=given), Binding.JSONRPC)
    assert dict(wire.headers)[b"retry-after"] == sent
    # Other statuses than 503 have none here: the SDKs do not look for it.
    rpc, _ = await refused(faults.UpstreamConnect("no", retry_after=3.0), Binding.JSONRPC)
    assert b"retry-after" not in dict(rpc.headers)


async def test_a_client_that_has_left_is_told_nothing() -> None:
    for binding in (Binding.JSONRPC, Binding.REST):
        for version in Version:
            wire, exchange = await refused(faults.ClientGone("gone"), binding, version)
            assert (wire.sent, wire.was_cut, exchange.status) == (b"", True, 499)
    wire, exchange = await refused(faults.ClientGone("gone"), Binding.JSONRPC, opened=True, stream=True)
    assert (wire.sent, wire.was_cut) == (b"", True)


# ---- In the middle of an answer ------------------------------------------------------------------------------------


@for_each("kind", VISIBLE)
@for_each("version", [Version.V0_3, Version.V1_0])
async def test_the_last_event_of_a_json_rpc_stream_is_an_internal_error_with_the_reason(
    kind: type[Fault], version: Version
) -> None:
    wire, exchange = await refused(made(kind), Binding.JSONRPC, version, opened=True, stream=True)
    first, _, rest = wire.sent.partition(b"data: ")
    assert first == (b"event: error\n" if version is Version.V1_0 else b"")
    assert rest.endswith(b"\n\n")
    said = json.loads(rest)
    assert (said["id"], said["error"]["code"], said["error"]["message"]) == ("a", -32603, "told")
    assert (wire.closed, wire.was_cut) == (True, False)
    assert exchange.close(2.0)["rpc_code"] == -32603


async def test_the_last_event_of_an_http_json_stream_is_its_error_body() -> None:
    wire, _ = await refused(faults.UpstreamReset("told"), Binding.REST, opened=True, stream=True)
    assert wire.sent.startswith(b"event: error\ndata: ")
    said = json.loads(wire.sent.partition(b"data: ")[2])
    assert said["error"]["code"] == 502
    assert (wire.closed, wire.was_cut) == (True, False)


@for_each(("binding", "stream"), [(Binding.REST, True), (Binding.REST, False), (Binding.JSONRPC, False)])
async def test_a_response_without_an_error_form_is_cut(binding: Binding, *, stream: bool) -> None:
    wire, _ = await refused(faults.UpstreamReset("told"), binding, Version.V0_3, opened=True, stream=stream)
    assert (wire.sent, wire.closed, wire.was_cut) == (b"", False, True)


def test_hidden_and_missing_agents_have_equal_errors() -> None:
    for group in (
        {faults.NoEndpoint, faults.TenantDeniedEndpoint},
        {faults.NoRoute, faults.TenantDenied, faults.HiddenConflict},
    ):
        seen = {
            (
                kind.rpc_code,
                kind.rpc_status,
                kind.http_status,
                kind.grpc_status,
                kind.shown or kind.reason,
                kind.a2a_reason,
            )
            for kind in group
        }
        assert len(seen) == 1
