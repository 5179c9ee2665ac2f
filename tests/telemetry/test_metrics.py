from gateway.a2a.operation import Kind
from gateway.telemetry.metrics import AgentMeter, Metrics, Sample


def rendered(metrics: Metrics) -> list[str]:
    return metrics.render().decode().splitlines()


def test_a_tenant_that_the_file_does_not_name_is_other() -> None:
    metrics = Metrics("1")
    meter = AgentMeter(metrics, "echo", frozenset({"acme"}))
    for tenant in ("acme", "stranger-1", "stranger-2"):
        meter.request("SendMessage", "rest", "ok", tenant)
    lines = rendered(metrics)
    assert 'a2a_gateway_tenant_requests_total{agent="echo",outcome="ok",tenant="acme"} 1.0' in lines
    assert 'a2a_gateway_tenant_requests_total{agent="echo",outcome="ok",tenant="other"} 2.0' in lines
    assert not any("stranger" in line for line in lines)


def test_no_histogram_carries_a_tenant() -> None:
    metrics = Metrics("1")
    AgentMeter(metrics, "echo", frozenset({"acme"})).timed(Kind.SEND, 1.0, 0.5, 0.001)
    assert not any("_bucket" in line and "tenant" in line for line in rendered(metrics))


def test_an_agent_that_nobody_called_has_no_series_of_times() -> None:
    metrics = Metrics("1")
    AgentMeter(metrics, "idle", frozenset())
    assert not any("_bucket" in line and "idle" in line for line in rendered(metrics))


def test_sends_last_up_to_a_quarter_of_an_hour_and_the_buckets_reach_so_far() -> None:
    metrics = Metrics("1")
    AgentMeter(metrics, "echo", frozenset()).timed(Kind.SEND, 899.0, None, None)
    assert 'a2a_gateway_request_duration_seconds_bucket{agent="echo",kind="send",le="900.0"} 1.0' in rendered(metrics)


def test_gauges_go_up_and_down() -> None:
    metrics = Metrics("1")
    meter = AgentMeter(metrics, "echo", frozenset())
    meter.forwarding(1)
    meter.streaming(1)
    assert 'a2a_gateway_streams_open{agent="echo"} 1.0' in rendered(metrics)
    meter.forwarding(-1)
    meter.streaming(-1)
    assert 'a2a_gateway_requests_in_flight{agent="echo"} 0.0' in rendered(metrics)
    assert 'a2a_gateway_streams_open{agent="echo"} 0.0' in rendered(metrics)


def test_figures_of_the_moment_are_asked_for_at_each_scrape() -> None:
    age = iter((1.0, 2.0))
    metrics = Metrics("1", lambda: [Sample("card_age_seconds", "Age.", ("agent",), ((("echo",), next(age)),))])
    assert 'a2a_gateway_card_age_seconds{agent="echo"} 1.0' in rendered(metrics)
    assert 'a2a_gateway_card_age_seconds{agent="echo"} 2.0' in rendered(metrics)


def test_an_answer_is_counted_by_its_class_and_a_missing_one_as_an_error() -> None:
    metrics = Metrics("1")
    meter = AgentMeter(metrics, "echo", frozenset())
    for status in (200, 204, 503, None):
        meter.answered("echo", status)
    lines = rendered(metrics)
    for word, count in (("2xx", 2), ("5xx", 1), ("error", 1)):
        assert f'a2a_gateway_backend_requests_total{{agent="echo",backend="echo",status="{word}"}} {count}.0' in lines


def test_no_series_tells_when_it_was_created() -> None:
    metrics = Metrics("1")
    AgentMeter(metrics, "echo", frozenset()).request("GetTask", "rest", "ok", "")
    assert not any("_created" in line for line in rendered(metrics))
