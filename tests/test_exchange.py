"""The record of one request."""

import json
from typing import Any, cast

import pytest

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import OUTCOMES, Fault
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.path import PathCall
from gateway.a2a.progress import Progress
from gateway.exchange import FIELDS, Exchange, unread_line
from gateway.principal import Principal
from gateway.routing.route import Place, Rule
from gateway.telemetry.access import LONGEST
from gateway.telemetry.metrics import NO_AGENT, AgentMeter


class Meter:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values: self.told.append((name, *values))


def exchange(path: bytes = b"/billing", query: bytes = b"") -> tuple[Exchange, Meter]:
    meter = Meter()
    head = Head("POST", path, query)
    made = Exchange(head, "r1", 100.0, cast("AgentMeter", meter), client_ip="203.0.113.9")  # an AgentMeter in use
    return made, meter


def served() -> tuple[Exchange, Meter]:
    """A message that was sent, one second each way, and answered."""
    found, meter = exchange()
    params = {"tenant": "eu", "message": {"taskId": "t", "contextId": "c"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
    found.call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
    found.operation = found.call.operation
    found.principal = Principal("acme", "alice", "jwt")
    found.rule = Rule("billing", None, ("billing",), frozenset(), Place("gateway.yaml", 7))
    found.agent = found.backend = "billing"
    found.status, found.bytes_in, found.bytes_out = 200, len(body), 5
    found.sent, found.received, found.first_byte, found.upstream = 101.0, 102.0, 103.0, 1.5
    return found, meter


def test_a_line_of_the_access_log_has_every_field() -> None:
    found, _ = served()
    found.saw(Progress(b"1", "t", "c", "completed", "task"))
    line = found.close(104.0)
    assert line == {
        "request_id": "r1", "trace_id": None, "agent": "billing", "backend": "billing",
        "match_line": "gateway.yaml:7", "tenant": "acme", "principal": "alice", "auth_method": "jwt",
        "binding": "jsonrpc", "operation": "SendMessage", "a2a_version": "1.0", "a2a_tenant": "eu", "task_id": "t",
        "context_id": "c", "task_state": "completed", "status": 200, "rpc_code": None, "outcome": "ok", "reason": None,
        "detail": None, "duration_s": 4.0, "first_byte_s": 3.0, "upstream_s": 1.5, "overhead_s": 2.0, "attempts": 1,
        "bytes_in": found.bytes_in, "bytes_out": 5, "stream": False, "events": 0, "closed_by": None,
        "client_ip": "203.0.113.9", "method": "POST", "path": "/billing",
    }  # fmt: skip


def test_every_line_has_the_same_fields_also_of_what_was_no_request() -> None:
    found, _ = served()
    unread = unread_line("203.0.113.9", "r1", 503, "too many connections")
    assert tuple(found.close(104.0)) == tuple(unread) == FIELDS
    assert {name for name in FIELDS if unread[name] is not None} == {
        "request_id", "status", "outcome", "reason", "detail", "client_ip",
    }  # fmt: skip
    assert (unread["outcome"], unread["reason"]) == (faults.Overloaded.outcome, faults.Overloaded.reason)
    assert unread_line("203.0.113.9", "r1", 400, "no")["outcome"] == faults.BadRequest.outcome


def test_what_the_lines_of_one_head_have_in_common_is_made_once_and_holds_for_nobody_else() -> None:
    first, _ = served()
    said = first.close(104.0)
    kept = first.cache.log_fields
    assert kept is not None
    again, other = served()[0], served()[0]
    for found in (again, other):
        found.head, found.rule, found.principal = first.head, first.rule, first.principal
    assert again.close(104.0) == said
    assert again.cache.log_fields is kept
    changes: dict[str, tuple[object, dict[str, object]]] = {
        "principal": (Principal("globex", "bob", "api_key"),
                      {"tenant": "globex", "principal": "bob", "auth_method": "api_key"}),
        "rule": (Rule("billing", None, ("billing",), frozenset(), Place("gateway.yaml", 8)),
                 {"match_line": "gateway.yaml:8"}),
        "backend": ("billing/eu", {"backend": "billing/eu"}),
        "operation": (Operation.GET_TASK, {"operation": "GetTask"}),
        "version": (Version.V0_3, {"a2a_version": "0.3"}),
        "binding": (Binding.REST, {"binding": "rest"}),
        "client_ip": ("203.0.113.8", {"client_ip": "203.0.113.8"}),
    }  # fmt: skip
    for name, (value, differs) in changes.items():
        other, _ = served()
        other.head, other.rule, other.principal = first.head, first.rule, first.principal
        setattr(other, name, value)
        assert other.close(104.0) == said | differs
        assert again.close(104.0) == said


def test_a_stream_leaves_nothing_at_its_head() -> None:
    found, _ = served()
    found.stream = True
    found.close(104.0)
    assert found.head.cache is None


def test_what_a_client_or_an_agent_said_does_not_decide_how_long_a_line_is() -> None:
    found, _ = served()
    found.head = Head("POST", b"/" + b"x" * 1000)
    found.saw(Progress(b"1", "t" * 1000, "c" * 1000, "completed", "task"))
    found.fault = faults.Internal("no", detail="d" * 1000)
    line = found.close(104.0123456789)
    assert {len(line[name]) for name in ("path", "task_id", "context_id", "detail")} == {LONGEST + 1}
    assert line["duration_s"] == 4.012346


def test_what_is_counted_is_what_is_logged() -> None:
    found, meter = served()
    found.saw(Progress(state="failed", event="task"))
    line = found.close(104.0)
    assert line["outcome"] == "task_failed"
    assert meter.told == [
        ("request", "SendMessage", "jsonrpc", "task_failed", "acme"),
        ("timed", Kind.SEND, 4.0, 3.0, 2.0),
        ("task", "failed"),
    ]


def test_a_stranger_at_no_agent_is_counted_without_either() -> None:
    found, meter = exchange(b"/nothing", b"access_token=secret")
    found.fault = faults.AuthMissing("show a credential", detail="none")
    found.status = 401
    line = found.close(100.5)
    assert "secret" not in str(line)
    assert (found.agent, line["agent"], line["tenant"], line["match_line"]) == (NO_AGENT, None, None, None)
    assert (line["reason"], line["detail"], line["rpc_code"]) == ("auth_missing", "none", -31401)
    assert (line["attempts"], line["upstream_s"], line["overhead_s"]) == (0, None, None)
    assert meter.told == [
        ("request", "other", "jsonrpc", "denied", "-"),
        ("rejected", "auth_missing"),
        ("timed", Kind.OTHER, 0.5, None, None),
    ]


def test_a_denial_tells_operators_which_agent_was_denied() -> None:
    found, _ = exchange()
    found.fault = faults.TenantDenied("no agent here answers this request")
    found.rule = Rule("billing", None, ("billing",), frozenset(), Place("gateway.yaml", 7))
    line = found.close(100.5)
    assert (line["agent"], line["match_line"], line["backend"]) == ("billing", "gateway.yaml:7", None)


def test_a_conflict_tells_operators_which_agents_contended_but_not_thousands() -> None:
    found, _ = exchange()
    rules = [Rule(f"a{number}", None, (), frozenset(), Place("gateway.yaml", number)) for number in range(10_000)]
    found.fault = faults.RouteConflict("the request names two agents")
    found.contenders = (*rules[:2], rules[0])
    line = found.close(100.5)
    assert (line["agent"], line["match_line"]) == ("a0, a1", "gateway.yaml:0, gateway.yaml:1, gateway.yaml:0")
    found.contenders = tuple(rules)
    assert found.close(100.5)["agent"] == "a0, a1, a2, a3, a4, a5, a6, a7"


def test_a_client_that_left_was_told_no_code() -> None:
    found, _ = served()
    found.fault = faults.ClientGone("the client left")
    assert found.close(104.0)["rpc_code"] is None


@pytest.mark.parametrize(
    ("fault", "status", "progress", "outcome"),
    [
        (None, 200, Progress(), "ok"),
        (None, 200, Progress(state="working"), "ok"),
        (None, 200, Progress(state="failed"), "task_failed"),
        (None, 200, Progress(state="rejected"), "task_failed"),
        (None, 200, Progress(error=-32001), "client_error"),
        (None, 200, Progress(error=-32602), "client_error"),
        (None, 200, Progress(error=-32009), "client_error"),
        (None, 200, Progress(error=-32006), "upstream_error"),
        (None, 200, Progress(error=-32603), "upstream_error"),
        (None, 200, Progress(error=0), "upstream_error"),
        (None, 200, Progress(error=1), "upstream_error"),
        (None, 404, Progress(), "client_error"),
        (None, 429, Progress(error=-32000), "limited"),
        (None, 500, Progress(), "upstream_error"),
        (faults.TenantDenied("no"), 404, Progress(), "denied"),
        (faults.Overloaded("no"), 503, Progress(), "limited"),
        (faults.ClientGone("no"), 200, Progress(state="failed"), "client_gone"),
        (faults.Internal("no"), 500, Progress(), "gateway_error"),
    ],
)
def test_an_outcome_is_one_of_the_closed_set(
    fault: Fault | None, status: int, progress: Progress, outcome: str
) -> None:
    found, _ = exchange()
    found.fault, found.status, found.progress = fault, status, progress
    assert found.outcome == outcome
    assert outcome in OUTCOMES


def test_what_one_frame_told_stays_true_until_another_says_more() -> None:
    found, _ = exchange()
    found.saw(Progress(b"1", "t", "c", "working", "task"))
    found.saw(Progress(b"1", event="artifact"))
    assert found.progress == Progress(b"1", "t", "c", "working", "artifact")
    found.saw(Progress(b"1", "t", "c", "completed", "status"))
    assert found.progress.state == "completed"


def test_ids_of_the_call_are_logged_where_the_agent_told_none() -> None:
    line = served()[0].close(104.0)
    assert (line["task_id"], line["context_id"], line["task_state"]) == ("t", "c", None)


def test_the_code_is_one_of_json_rpc_only_there() -> None:
    found, _ = exchange()
    found.fault, found.binding = faults.AuthMissing("no"), Binding.REST
    assert found.close(101.0)["rpc_code"] is None
    other, _ = exchange()
    other.saw(Progress(error=-32001, event="error"))
    assert other.close(101.0)["rpc_code"] == -32001


def test_a_clock_that_ran_ahead_of_the_answer_makes_no_negative_overhead() -> None:
    found, _ = served()
    found.received, found.first_byte = 109.0, 103.0
    assert found.close(110.0)["overhead_s"] == 0.0


def test_only_sends_are_counted_by_the_state_of_their_task() -> None:
    found, meter = exchange()
    found.operation, found.version = Operation.GET_TASK, Version.V0_3
    found.saw(Progress(state="completed", event="task"))
    assert found.close(101.0)["a2a_version"] == "0.3"
    assert [told[0] for told in meter.told] == ["request", "timed"]


def test_a_path_of_any_bytes_is_logged_as_text() -> None:
    assert exchange(b"/\xff\xfe")[0].close(101.0)["path"] == "/��"


def test_what_waited_for_an_answer_that_never_began_is_no_overhead() -> None:
    found, _ = exchange()
    found.sent, found.first_byte = 100.25, 101.25
    line = found.close(101.25)
    assert (line["upstream_s"], line["overhead_s"]) == (1.0, 0.25)
