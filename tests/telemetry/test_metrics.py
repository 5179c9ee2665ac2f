"""The catalogue of metrics: its names, its labels from closed sets, and what a request costs."""

import re

from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Kind
from gateway.a2a.paths import RESERVED
from gateway.config.model import Buckets
from gateway.telemetry.metrics import NO_AGENT, NO_TENANT, OTHER, AgentMeter, GatewayMetrics, Sample
from tests.table import for_each

REST = Dialect(Binding.REST, Version.V1_0)


def used() -> tuple[GatewayMetrics, AgentMeter]:
    """Metrics with one series of each."""
    metrics = GatewayMetrics("1.2.3")
    meter = AgentMeter(metrics, "echo", frozenset({"acme"}))
    meter.request("SendMessage", "jsonrpc", "ok", "acme")
    meter.rejected("no_route")
    meter.timed(Kind.SEND, 2.0, 1.0, 0.0002)
    meter.forwarding(1)
    meter.streaming(1)
    meter.stream_closed("agent", 2.0)
    meter.sized(100, 3000)
    meter.task_ended(60.0)
    meter.task_denied("GetTask")
    meter.translated(Dialect(Binding.JSONRPC, Version.V0_3), REST)
    metrics.limit_hits.add(("requests", "tenant", "acme"))
    metrics.state_operations.add(("meet", "ok"))
    metrics.state_duration.of(("meet",)).observe(0.001)
    metrics.push_deliveries.add(("echo", "delivered"))
    meter.event("task")
    meter.task("completed")
    meter.answered("echo", 200)
    meter.repeated("echo", "connect")
    metrics.backend_ejections.add(("echo", "echo@a"))
    metrics.auth.add(("jwt", "corp", "ok"))
    metrics.card_fetches.add(("echo", "ok"))
    metrics.reloads.add(("applied", "signal"))
    return metrics, meter


def values(metrics: GatewayMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every series but the buckets, by its name without prefix and its labels in order."""
    return {
        (sample.name.removeprefix("a2a_gateway_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def value(metrics: GatewayMetrics, metric: str, **labels: str) -> float:
    return values(metrics)[metric, tuple(sorted(labels.items()))]


def test_no_histogram_has_a_tenant_and_none_ends_before_the_longest_send() -> None:
    metrics, _ = used()
    for family in text_string_to_metric_families(metrics.render().decode()):
        if family.type != "histogram":
            continue
        bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels}
        assert not any("tenant" in sample.labels for sample in family.samples)
        if family.name.endswith(("duration_seconds", "first_byte_seconds")):
            assert "900.0" in bounds


def test_events_are_counted() -> None:
    metrics, meter = used()
    meter.request("SendMessage", "jsonrpc", "ok", "acme")
    labels = {"agent": "echo", "operation": "SendMessage", "binding": "jsonrpc", "outcome": "ok"}
    assert value(metrics, "requests_total", **labels) == 2
    assert value(metrics, "tenant_requests_total", tenant="acme", agent="echo", outcome="ok") == 2
    assert value(metrics, "rejected_total", agent="echo", reason="no_route") == 1
    assert value(metrics, "request_duration_seconds_sum", agent="echo", kind="send") == 2.0
    assert value(metrics, "first_byte_seconds_sum", agent="echo", kind="send") == 1.0
    assert value(metrics, "overhead_seconds_count", kind="send") == 1
    assert value(metrics, "streams_closed_total", agent="echo", by="agent") == 1
    assert value(metrics, "stream_events_total", agent="echo", event="task") == 1
    assert value(metrics, "tasks_total", agent="echo", state="completed") == 1
    assert value(metrics, "build_info", version="1.2.3") == 1
    meter.translated(REST, REST)
    [translated] = [dict(labels) for name, labels in values(metrics) if name == "translations_total"]
    assert (translated["agent"], translated["from"] != translated["to"]) == ("echo", True)
    for _ in range(2):
        meter.event("task")
        meter.answered("echo", 204)
    assert value(metrics, "stream_events_total", agent="echo", event="task") == 3
    assert value(metrics, "backend_requests_total", agent="echo", backend="echo", status="2xx") == 3


@for_each(("status", "word"), [(None, "error"), (200, "2xx"), (404, "4xx"), (599, "5xx")])
def test_an_answer_is_counted_by_its_class(status: int | None, word: str) -> None:
    metrics = GatewayMetrics("x")
    AgentMeter(metrics, "echo", frozenset()).answered("echo/acme", status)
    assert value(metrics, "backend_requests_total", agent="echo", backend="echo/acme", status=word) == 1


def test_open_calls_and_streams_go_up_and_down() -> None:
    metrics, meter = used()
    assert value(metrics, "requests_in_flight", agent="echo") == 1
    meter.forwarding(-1)
    meter.streaming(-1)
    assert value(metrics, "requests_in_flight", agent="echo") == 0
    assert value(metrics, "streams_open", agent="echo") == 0


def test_a_tenant_that_is_not_in_the_file_is_other() -> None:
    metrics, meter = used()
    for number in range(100):
        meter.request("SendMessage", "jsonrpc", "ok", f"unknown{number}")
    meter.request("SendMessage", "jsonrpc", "denied", NO_TENANT)
    assert value(metrics, "tenant_requests_total", tenant=OTHER, agent="echo", outcome="ok") == 100
    tenants = {dict(labels)["tenant"] for name, labels in values(metrics) if name == "tenant_requests_total"}
    assert tenants == {"acme", OTHER, NO_TENANT}
    assert NO_TENANT in RESERVED


def test_buckets_are_those_of_the_configuration() -> None:
    metrics = GatewayMetrics("x", buckets={"request_body_bytes": (10.0, 1000.0)})
    AgentMeter(metrics, "echo", frozenset()).sized(500, 500)
    text = metrics.render().decode()
    assert re.findall(r'request_body_bytes_bucket{agent="echo",le="(\S+)"} (\S+)', text) == [
        ("10.0", "0.0"),
        ("1000.0", "1.0"),
        ("+Inf", "1.0"),
    ]
    histograms = {
        family.name.removeprefix("a2a_gateway_") for family in metrics.registry.collect() if family.type == "histogram"
    }
    assert histograms == set(Buckets.model_fields)


def test_the_last_trace_of_a_bucket_is_its_exemplar_in_openmetrics() -> None:
    metrics = GatewayMetrics("x")
    meter = AgentMeter(metrics, "echo", frozenset())
    for seconds, trace in ((0.3, "a" * 32), (0.4, "b" * 32), (0.45, None), (3.0, "c" * 32)):
        meter.timed(Kind.SEND, seconds, None, None, trace)
    text = metrics.render(openmetrics.generate_latest).decode()
    shown = [line for line in text.splitlines() if " # " in line]
    assert [line.partition(" # ")[2] for line in shown] == [
        f'{{trace_id="{"b" * 32}"}} 0.4',
        f'{{trace_id="{"c" * 32}"}} 3.0',
    ]
    assert all("request_duration_seconds_bucket" in line for line in shown)
    assert " # " not in metrics.render().decode()


def test_times_that_were_never_reached_are_not_observed() -> None:
    metrics = GatewayMetrics("x")
    AgentMeter(metrics, "echo", frozenset()).timed(Kind.STREAM, 1.0, None, None)
    assert value(metrics, "request_duration_seconds_count", agent="echo", kind="stream") == 1
    assert value(metrics, "first_byte_seconds_count", agent="echo", kind="stream") == 0
    assert value(metrics, "overhead_seconds_count", kind="stream") == 0


def test_an_agent_that_no_configuration_has_is_on_the_metrics_no_more() -> None:
    metrics, meter = used()
    meter.backends = frozenset({"echo@a"})
    strangers = AgentMeter(metrics, NO_AGENT, frozenset())
    strangers.rejected("no_route")
    for limit, scope, name in (("requests", "agent", "echo"), ("requests", "tenant", "echo"), ("body", "agent", OTHER)):
        metrics.limit_hits.add((limit, scope, name))
    for backend in ("echo@a", "echo@b"):
        meter.answered(backend, 200)
    metrics.sweep()
    assert value(metrics, "streams_open", agent="echo") == 1
    assert {dict(labels)["backend"] for name, labels in values(metrics) if name == "backend_requests_total"} == {
        "echo@a"
    }
    again = AgentMeter(metrics, "echo", frozenset())
    del meter
    metrics.sweep()
    # Another configuration has it as well.
    assert value(metrics, "streams_open", agent="echo") == 1
    assert not any(name == "backend_requests_total" for name, _ in values(metrics))
    del again
    metrics.sweep()
    left = {labels for _, labels in values(metrics) if ("agent", "echo") in labels}
    assert not left
    assert value(metrics, "rejected_total", agent=NO_AGENT, reason="no_route") == 1
    hits = {
        tuple(dict(labels)[each] for each in ("scope", "name"))
        for name, labels in values(metrics)
        if name == "limit_hits_total"
    }
    assert hits == {("tenant", "acme"), ("tenant", "echo"), ("agent", OTHER)}
    # It begins at nothing where it comes back.
    back = AgentMeter(metrics, "echo", frozenset())
    back.event("task")
    assert value(metrics, "stream_events_total", agent="echo", event="task") == 1
    assert value(metrics, "streams_open", agent="echo") == 0


def test_figures_are_read_when_the_metrics_are() -> None:
    held = [1.0]

    def read() -> list[Sample]:
        return [
            Sample("card_age_seconds", "Age.", ("agent",), ((("echo",), held[0]),)),
            Sample("log_dropped_total", "Lines.", (), (((), held[0]),)),
        ]

    metrics = GatewayMetrics("x", read)
    assert value(metrics, "card_age_seconds", agent="echo") == 1.0
    held[0] = 7.0
    assert value(metrics, "card_age_seconds", agent="echo") == 7.0
    assert value(metrics, "log_dropped_total") == 7.0
    types = {family.name: family.type for family in text_string_to_metric_families(metrics.render().decode())}
    assert (types["a2a_gateway_card_age_seconds"], types["a2a_gateway_log_dropped"]) == ("gauge", "counter")
