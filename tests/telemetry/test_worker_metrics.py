"""`/metrics` of any worker shows all of them, and no counter goes back when one of them has ended."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.a2a.operation import Kind
from gateway.telemetry.metrics import AgentMeter, GatewayMetrics
from gateway.telemetry.worker_metrics import WorkerMetrics


class Workers:
    """Several workers in one process: `turn` says which of them it is."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.files = WorkerMetrics(folder)
        self._patch = patch

    def turn(self, pid: int) -> None:
        self._patch.setattr(os, "getpid", lambda: pid)

    def busy(self, calls: int, agent: str = "echo") -> GatewayMetrics:
        metrics = GatewayMetrics("1", workers=self.files)
        meter = AgentMeter(metrics, agent, frozenset())
        for _ in range(calls):
            meter.request("SendMessage", "JSONRPC", "ok", "-")
        meter.streaming(calls)
        metrics.loop_lag.observe(0.3)
        metrics.reload_ok.set((), calls % 2)
        metrics.reload_time.set((), calls)
        return metrics

    def ended(self, *pids: int) -> None:
        for pid in pids:
            self.turn(pid)
            self.files.write(self.busy(3).registry)
            self.files.bury(pid)


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(tmp_path, monkeypatch)


def shown(metrics: GatewayMetrics) -> dict[str, float]:
    return {
        sample.name.removeprefix("a2a_gateway_"): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_counts_are_added_up_and_what_describes_the_whole_gateway_is_not(workers: Workers) -> None:
    workers.turn(1)
    workers.files.write(workers.busy(3).registry)
    workers.turn(2)
    # Its own file is older than what it knows itself.
    workers.files.write(workers.busy(1).registry)
    found = shown(workers.busy(4))
    assert found["requests_total"] == 7
    assert found["streams_open"] == 7
    assert (found["event_loop_lag_seconds_count"], found["event_loop_lag_seconds_sum"]) == (2, 0.6)
    assert found["config_last_reload_successful"] == 0
    assert found["config_last_reload_success_timestamp_seconds"] == 4
    assert found["build_info"] == 1


def test_exemplars_of_other_workers_are_shown(workers: Workers) -> None:
    workers.turn(1)
    metrics = workers.busy(0)
    AgentMeter(metrics, "echo", frozenset()).timed(Kind.SEND, 0.3, None, None, "a" * 32)
    workers.files.write(metrics.registry)
    workers.turn(2)
    text = workers.busy(0).render(openmetrics.generate_latest).decode()
    assert [line.partition(" # ")[2] for line in text.splitlines() if " # " in line] == [
        f'{{trace_id="{"a" * 32}"}} 0.3'
    ]


def test_counts_of_workers_that_ended_stay_and_their_gauges_do_not(workers: Workers) -> None:
    workers.ended(1, 2)
    # One that never wrote anything, too.
    workers.files.bury(77)
    workers.turn(3)
    found = shown(workers.busy(1))
    assert (found["requests_total"], found["streams_open"]) == (7, 1)
    assert found["event_loop_lag_seconds_count"] == 3
    assert found["config_last_reload_successful"] == 1


def test_a_count_that_was_shown_is_kept_although_its_worker_is_killed_at_once(workers: Workers) -> None:
    workers.turn(1)
    metrics = workers.busy(3)
    workers.files.write(workers.busy(1).registry)
    assert shown(metrics)["requests_total"] == 3
    workers.turn(2)
    assert shown(workers.busy(0))["requests_total"] == 3
    workers.files.bury(1)
    assert shown(workers.busy(0))["requests_total"] == 3


def test_counts_of_workers_that_ended_go_with_the_agents_that_no_worker_has(workers: Workers) -> None:
    workers.ended(1)
    workers.turn(2)
    found = shown(workers.busy(1, agent="other"))
    assert found["requests_total"] == 1
    assert found["event_loop_lag_seconds_count"] == 2


def test_a_worker_may_write_once_more_while_it_still_writes(workers: Workers, tmp_path: Path) -> None:
    registry = workers.busy(3).registry
    with ThreadPoolExecutor(4) as threads:
        for written in [threads.submit(workers.files.write, registry) for _ in range(100)]:
            written.result()
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


def test_a_file_that_a_killed_worker_did_not_finish_is_removed(workers: Workers, tmp_path: Path) -> None:
    workers.ended(1)
    for pid in (1, 12):
        (tmp_path / f"{pid}.new").write_bytes(b"half")
    workers.files.bury(1)
    assert {path.name for path in tmp_path.iterdir()} == {"12.new", "ended", "lock"}
