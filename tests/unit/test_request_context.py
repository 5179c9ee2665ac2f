"""The context of one request, as metrics and the access log see it."""

import json
from typing import Any, cast

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import OUTCOMES, Fault
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.proxy.request import RequestContext
from gateway.routing.route import Place, Rule
from gateway.telemetry.access_log import LONGEST
from gateway.telemetry.metrics import NO_TENANT, AgentMeter
from tests.table import for_each

RULE = Rule("billing", None, ("billing",), frozenset(), Place("gateway.yaml", 7))


class Meter:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values: self.told.append((name, *values))


def exchange(path: bytes = b"/billing") -> tuple[RequestContext, Meter]:
    meter = Meter()
    # A meter for all that is called.
    return RequestContext(Head("POST", path), "r1", 100.0, cast("AgentMeter", meter), client_ip="203.0.113.9"), meter


def served() -> tuple[RequestContext, Meter]:
    """A message that was sent, one second each way, and answered."""
    found, meter = exchange()
    params = {"tenant": "eu", "message": {"taskId": "t", "contextId": "c"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
    found.call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
    found.operation, found.principal, found.rule = found.call.operation, Principal("acme", "alice", "jwt"), RULE
    found.agent = found.backend = "billing"
    found.status, found.bytes_in, found.bytes_out = 200, len(body), 5
    found.sent, found.received, found.first_byte, found.upstream = 101.0, 102.0, 103.0, 1.5
    return found, meter


def test_cached_log_fields_of_a_head_hold_for_no_other_caller() -> None:
    first, _ = served()
    said = first.close(104.0)
    changes: dict[str, tuple[object, dict[str, object]]] = {
        "id": ("r2", {"request_id": "r2"}),
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
        again, other = served()[0], served()[0]
        again.cache = other.cache = first.cache
        setattr(other, name, value)
        assert other.close(104.0) == said | differs
        assert again.close(104.0) == said


def test_log_lines_of_hostile_values_are_bounded() -> None:
    found, _ = served()
    found.head = Head("POST", b"/\xff" + b"x" * 1000)
    found.add_progress(Progress(b"1", "t" * 1000, "c" * 1000, "completed", "task"))
    found.fault = faults.Internal("no", detail="d" * 1000)
    line = found.close(104.0123456789)
    assert {len(line[name]) for name in ("path", "task_id", "context_id", "detail")} == {LONGEST + 1}
    assert line["path"].startswith("/\ufffdx")
    assert line["duration_s"] == 4.012346


def test_a_refused_request_is_logged_with_the_agents_that_it_may_have_meant() -> None:
    found, meter = exchange()
    found.fault = faults.TenantDenied("no agent here answers this request")
    found.rule = RULE
    line = found.close(100.5)
    assert (line["agent"], line["match_line"], line["backend"]) == ("billing", "gateway.yaml:7", None)
    assert meter.told[0][-1] == NO_TENANT
    assert ("rejected", "tenant_denied") in meter.told
    # Of thousands of contenders eight are named.
    found.rule, found.contenders = (
        None,
        tuple(
            Rule(f"a{number // 2}", None, (), frozenset(), Place("gateway.yaml", number + 1))
            for number in range(10_000)
        ),
    )
    line = found.close(100.5)
    assert (line["agent"], line["match_line"].count("gateway.yaml:")) == ("a0, a1, a2, a3", 8)


@for_each(
    ("fault", "status", "progress", "outcome"),
    [
        (None, 200, Progress(), "ok"),
        (None, 200, Progress(state="working"), "ok"),
        (None, 200, Progress(state="rejected"), "task_failed"),
        (None, 200, Progress(error=-32001), "client_error"),
        (None, 200, Progress(error=-32602), "client_error"),
        (None, 200, Progress(error=-32006), "upstream_error"),
        (None, 200, Progress(error=-32603), "upstream_error"),
        (None, 200, Progress(error=0), "upstream_error"),
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


def test_overhead_is_what_did_not_wait_for_the_agent_and_never_negative() -> None:
    found, _ = served()
    found.received, found.first_byte = 109.0, 103.0
    assert found.close(110.0)["overhead_s"] == 0.0
    never, _ = exchange()
    never.sent, never.first_byte = 100.25, 101.25
    line = never.close(101.25)
    assert (line["upstream_s"], line["overhead_s"]) == (1.0, 0.25)
