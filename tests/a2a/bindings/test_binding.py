"""The envelope of each binding: the same parameters, results and events in every dialect."""

import json
from typing import Any

import msgspec
import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings import binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import ParseFailed, UpstreamProtocol
from gateway.a2a.operation import Operation
from gateway.a2a.paths import rest_path
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0
RPC, RPC_0_3 = Dialect(Binding.JSONRPC, V1_0), Dialect(Binding.JSONRPC, V0_3)
REST, REST_0_3 = Dialect(Binding.REST, V1_0), Dialect(Binding.REST, V0_3)
GRPC, GRPC_0_3 = Dialect(Binding.GRPC, V1_0), Dialect(Binding.GRPC, V0_3)
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
TASK_MESSAGE = bytes(
    new.Task(id="t", context_id="c", status=new.TaskStatus(state="TASK_STATE_WORKING")).SerializeToString()
)
UPDATE = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}


def made(operation: Operation, dialect: Dialect, identity: bytes = b"null") -> Call:
    """A call without contents, as a client or the gateway makes it."""
    return Call(operation=operation, dialect=dialect, method=operation.value, id=identity)


# ---- Calls -----------------------------------------------------------------------------------------------------------


def asked(operation: Operation, theirs: Dialect, params: dict[str, Any], tenant: str | None = "acme") -> Call:
    given = Call(operation=operation, dialect=RPC, method=operation.value, task_id="t", context_id="c")
    return binding.of(theirs).make_call(
        given, operation, theirs, params, tenant=tenant, id="r-1", context_id=given.context_id
    )


SEND: dict[str, Any] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
SEND_0_3: dict[str, Any] = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}}


@for_each(
    ("operation", "params", "repeats"),
    [
        (Operation.SEND_MESSAGE, SEND, True),
        (Operation.SEND_STREAMING_MESSAGE, SEND, True),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t", "id": "a", "url": "u"}, True),
        (Operation.CANCEL_TASK, {"id": "t"}, False),
        (Operation.GET_TASK, {"id": "t"}, False),
    ],
)
def test_over_http_json_the_path_says_the_tenant_and_1_0_repeats_it_where_its_sdks_do(
    operation: Operation, params: dict[str, Any], *, repeats: bool
) -> None:
    call = asked(operation, REST, dict(params))
    # The client puts the tenant in front of the path.
    assert call.tenant == "acme"
    assert (b'"tenant":"acme"' in call.body) is repeats
    assert "acme" not in rest_path(call.path, V1_0)
    assert b"tenant" not in call.query
    # Strict parsers of 0.3 know no such member.
    older = asked(operation, REST_0_3, dict(SEND_0_3 if operation.sends else params))
    assert b"tenant" not in older.body + older.query
    assert older.tenant == "acme"
    assert (call.id, older.id) == (b"null", b"null")


# ---- Answers and events ----------------------------------------------------------------------------------------------


GET = {dialect: made(Operation.GET_TASK, dialect, b"7" if dialect is RPC else b"null") for dialect in (RPC, REST, GRPC)}
ANSWERS = {
    RPC: json.dumps({"jsonrpc": "2.0", "id": 7, "result": TASK}).encode(),
    REST: json.dumps(TASK).encode(),
    GRPC: TASK_MESSAGE,
}


@for_each("dialect", ANSWERS)
def test_an_answer_that_is_none_is_refused(dialect: Dialect) -> None:
    wrong = {RPC: b'{"jsonrpc":"2.0","id":7,', REST: b'{"id":', GRPC: b"\x0a\xff"}[dialect]
    with pytest.raises(ParseFailed if dialect is REST else UpstreamProtocol):
        binding.of(dialect).read_result(GET[dialect], wrong)
    if dialect is RPC:
        with pytest.raises(UpstreamProtocol, match="no JSON-RPC answer"):
            binding.of(dialect).raw_result(GET[dialect], b"[]")


STREAMS = {dialect: made(Operation.SEND_STREAMING_MESSAGE, dialect, b'"a"') for dialect in (RPC, REST, GRPC)}


@for_each("wrap", [lambda tree: tree, lambda tree: msgspec.Raw(json.dumps(tree, indent=1).encode())])
def test_an_event_over_sse_is_on_one_line(wrap: Any) -> None:
    for dialect in (RPC, REST):
        event = binding.of(dialect).event(STREAMS[dialect], wrap(UPDATE))
        assert event.startswith(b"data: {")
        assert event.endswith(b"}\n\n")
        assert event.count(b"\n") == 2
        tree = json.loads(event[6:])
        assert (tree["result"] if dialect is RPC else tree) == UPDATE
