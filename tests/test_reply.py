"""How a translated answer is told: status, headers or trailers, by what the client speaks."""

import json
from typing import Any

import pytest

from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.grpc import frame
from gateway.a2a.headers import Pairs
from gateway.a2a.operation import Operation
from gateway.a2a.translation import Translation
from gateway.exchange import Exchange
from gateway.reply import Reply
from gateway.telemetry.metrics import AgentMeter, Metrics
from tests.a2a.dialects import DIALECTS, call_of, vector
from tests.doubles.wire import RecordedWire

pytestmark = pytest.mark.anyio

PASSED: Pairs = [
    (b"a2a-extensions", b"https://ext.example/a"),
    (b"a2a-version", b"0.3"),
    (b"cache-control", b"no-store"),
    (b"content-language", b"en"),
    (b"content-type", b"application/json"),
    (b"retry-after", b"3"),
    (b"x-request-id", b"r-1"),
]
THEIRS: Pairs = [(b"x-a2a-extensions", b"https://ext.example/a"), (b"set-cookie", b"a=b")]
JSONRPC, JSONRPC_0_3 = Dialect(Binding.JSONRPC, Version.V1_0), Dialect(Binding.JSONRPC, Version.V0_3)
REST, REST_0_3 = Dialect(Binding.REST, Version.V1_0), Dialect(Binding.REST, Version.V0_3)
GRPC, GRPC_0_3 = Dialect(Binding.GRPC, Version.V1_0), Dialect(Binding.GRPC, Version.V0_3)
NAMES = {dialect: name for name, dialect in DIALECTS.items() if not name.endswith("snake")}
EVERY = pytest.mark.parametrize("dialect", [JSONRPC, JSONRPC_0_3, REST, REST_0_3, GRPC, GRPC_0_3], ids=str)
GONE = AgentError(
    code=-32001,
    reason="TASK_NOT_FOUND",
    message="gone",
    details=(
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org",
            "metadata": {},
        },
    ),
    http_status=404,
)


def exchange_of(dialect: Dialect, *headers: tuple[bytes, bytes], operation: Operation = Operation.GET_TASK) -> Exchange:
    head = Head("POST", b"/", headers=headers)
    exchange = Exchange(head, "r-1", 0.0, AgentMeter(Metrics("test"), "-", frozenset()))
    exchange.binding, exchange.version, exchange.operation = dialect.binding, dialect.version, operation
    return exchange


def reply(exchange: Exchange, dialect: Dialect) -> Reply:
    return Reply(exchange, lambda: 2.0, dialect, PASSED, THEIRS)


async def complained(
    dialect: Dialect, error: AgentError = GONE, *headers: tuple[bytes, bytes], file: str = "GetTask"
) -> tuple[RecordedWire, Exchange]:
    """A client of this dialect that asked an agent of another, which complains."""
    theirs = REST if dialect is not REST else JSONRPC
    exchange = exchange_of(dialect, *headers, operation=Operation(file))
    wire = RecordedWire()
    translation = Translation(call_of(vector(file)["request"][NAMES[dialect]], dialect), theirs)
    await reply(exchange, dialect).complain(wire, error, translation.error)
    return wire, exchange


# ---- What is well ----------------------------------------------------------------------------------------------------


@EVERY
async def test_a_good_answer_is_told_whole_and_noted(dialect: Dialect) -> None:
    exchange, wire = exchange_of(dialect), RecordedWire()
    said = frame(b"task") if dialect.binding is Binding.GRPC else b'{"id":"t"}'
    await reply(exchange, dialect).tell(wire, said)
    assert (wire.status, wire.body, wire.closed) == (200, said, True)
    assert (exchange.status, exchange.bytes_out, exchange.first_byte) == (200, len(said), 2.0)
    assert (exchange.grpc_status, exchange.progress.error) == (0, None)


@EVERY
async def test_headers_are_those_that_passed_and_extensions_as_the_client_calls_them(dialect: Dialect) -> None:
    headers = dict(reply(exchange_of(dialect), dialect).headers(b"application/json"))
    named = b"a2a-extensions" if dialect.version is Version.V1_0 else b"x-a2a-extensions"
    assert headers.pop(named) == b"https://ext.example/a"
    over_http = {b"content-type": b"application/json", b"cache-control": b"no-store", b"retry-after": b"3"}
    plain = {b"content-language": b"en", b"x-request-id": b"r-1"}
    # What is HTTP's own is nothing to clients of gRPC.
    assert headers == (plain if dialect.binding is Binding.GRPC else plain | over_http)


@pytest.mark.parametrize(
    ("dialect", "accepted", "told"),
    [
        (REST, b"application/a2a+json", b"application/a2a+json"),
        (REST, b"application/a2a+json;q=0.9, */*", b"application/a2a+json"),
        (REST, b"application/json", b"application/json"),
        (REST, b"*/*", b"application/json"),
        (REST, None, b"application/json"),
        (REST_0_3, b"application/a2a+json", b"application/json"),
        (JSONRPC, b"application/a2a+json", b"application/json"),
    ],
)
async def test_a_client_gets_the_type_that_it_knows(dialect: Dialect, accepted: bytes | None, told: bytes) -> None:
    exchange, wire = exchange_of(dialect, *([] if accepted is None else [(b"accept", accepted)])), RecordedWire()
    await reply(exchange, dialect).tell(wire, b"{}")
    assert [value for name, value in wire.headers if name == b"content-type"] == [told]


async def test_events_at_once_are_events() -> None:
    wire = RecordedWire()
    await reply(exchange_of(REST), REST).tell(wire, b"data: {}\n\n", streamed=True)
    assert dict(wire.headers)[b"content-type"] == b"text/event-stream"


# ---- What the agent refuses ------------------------------------------------------------------------------------------


@EVERY
async def test_an_agents_error_is_told_in_the_clients_words(dialect: Dialect) -> None:
    wire, exchange = await complained(dialect)
    assert exchange.progress.error == -32001
    assert exchange.outcome == "client_error"
    if dialect.binding is Binding.GRPC:
        headers = dict(wire.headers)
        assert (wire.status, wire.body, headers[b"grpc-status"]) == (200, b"", b"5")
        assert headers[b"grpc-message"] == (b"gone" if dialect is GRPC else b"TaskNotFoundError: gone")
        assert b"grpc-status-details-bin" in headers
        assert (exchange.status, exchange.grpc_status) == (200, 5)
        return
    error = wire.json["error"]
    assert error["message"] == "gone"
    if dialect.binding is Binding.JSONRPC:
        assert (wire.status, error["code"], wire.json["id"]) == (200, -32001, "req-1")
    else:
        assert (wire.status, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
    assert (exchange.status, exchange.grpc_status) == (wire.status, 0)
    assert dict(wire.headers)[b"content-type"] == b"application/json"


@pytest.mark.parametrize(("accept", "heard"), [(b"text/event-stream", True), (b"application/json", False)])
async def test_clients_that_hear_only_events_hear_it_as_one(accept: bytes, *, heard: bool) -> None:
    wire, _ = await complained(JSONRPC_0_3, GONE, (b"accept", accept), file="SendStreamingMessage")
    assert (dict(wire.headers)[b"content-type"] == b"text/event-stream") is heard
    assert wire.body.startswith(b"data: ") is heard
    assert json.loads(wire.body.removeprefix(b"data: "))["error"]["code"] == -32001


@EVERY
async def test_what_an_agent_does_not_accept_is_no_business_of_the_clients(dialect: Dialect) -> None:
    challenge = AgentError(code=-32603, reason=None, message="who are you", http_status=401, challenges=True)
    with pytest.raises(UpstreamProtocol) as refused:
        await complained(dialect, challenge)
    assert refused.value.message == "the agent does not accept the gateway"
    assert refused.value.detail == "who are you"


async def test_a_status_ends_a_call_over_grpc_before_anything_came_of_it() -> None:
    exchange, wire = exchange_of(GRPC), RecordedWire()
    await reply(exchange, GRPC).end(wire, Status(9, "too late", b"\x08\x09\x12\x08too late"))
    headers: dict[bytes, Any] = dict(wire.headers)
    assert (wire.status, wire.body, wire.closed) == (200, b"", True)
    assert (headers[b"grpc-status"], headers[b"grpc-message"]) == (b"9", b"too late")
    assert headers[b"x-request-id"] == b"r-1"
    assert (exchange.grpc_status, exchange.status, exchange.bytes_out) == (9, 200, 0)
