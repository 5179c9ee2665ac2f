"""Several processes tell of one gateway, and no counter goes back when one of them is gone."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from gateway.telemetry.board import Board
from gateway.telemetry.metrics import AgentMeter, Metrics


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> "As":
    return As(monkeypatch)


class As:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, pid: int) -> None:
        self._patch.setattr(os, "getpid", lambda: pid)


def told(metrics: Metrics) -> dict[str, float]:
    return {
        sample.name.removeprefix("a2a_gateway_"): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def busy(board: Board, calls: int) -> Metrics:
    metrics = Metrics("1", board=board)
    meter = AgentMeter(metrics, "echo", frozenset())
    for _ in range(calls):
        meter.request("SendMessage", "JSONRPC", "ok", "-")
    meter.streaming(calls)
    metrics.loop_lag.observe(0.3)
    metrics.reload_ok.set((), calls % 2)
    metrics.reload_time.set((), calls)
    return metrics


def test_what_each_counts_is_added_up_and_what_is_one_things_is_not(tmp_path: Path, as_process: As) -> None:
    board = Board(tmp_path)
    as_process(1)
    board.post(busy(board, 3).registry)
    as_process(2)
    all_of_them = told(busy(board, 4))
    assert all_of_them["requests_total"] == 7
    assert all_of_them["streams_open"] == 7
    assert (all_of_them["event_loop_lag_seconds_count"], all_of_them["event_loop_lag_seconds_sum"]) == (2, 0.6)
    assert all_of_them["config_last_reload_successful"] == 0
    assert all_of_them["config_last_reload_success_timestamp_seconds"] == 4
    assert all_of_them["build_info"] == 1


def test_of_itself_a_process_knows_better_than_the_board(tmp_path: Path, as_process: As) -> None:
    board = Board(tmp_path)
    as_process(1)
    board.post(busy(board, 3).registry)
    assert told(busy(board, 5))["requests_total"] == 5


def test_who_is_gone_has_counted_and_has_nothing_open(tmp_path: Path, as_process: As) -> None:
    board = Board(tmp_path)
    for pid in (1, 2):
        as_process(pid)
        board.post(busy(board, 3).registry)
        board.bury(pid)
    # One that never told anything, too.
    board.bury(77)
    as_process(3)
    after = told(busy(board, 1))
    assert (after["requests_total"], after["streams_open"]) == (7, 1)
    assert after["event_loop_lag_seconds_count"] == 3
    assert after["config_last_reload_successful"] == 1


def test_who_is_gone_tells_nothing_of_agents_that_nobody_has_any_more(tmp_path: Path, as_process: As) -> None:
    board = Board(tmp_path)
    as_process(1)
    board.post(busy(board, 3).registry)
    board.bury(1)
    as_process(2)
    metrics = Metrics("1", board=board)
    other = AgentMeter(metrics, "other", frozenset())
    other.request("SendMessage", "JSONRPC", "ok", "-")
    assert told(metrics)["requests_total"] == 1
    # What is of no agent stays.
    assert told(metrics)["event_loop_lag_seconds_count"] == 1


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "board"
    folder.mkdir()
    board = Board(folder)
    board.post(busy(board, 1).registry)
    board.bury(1)
    board.close()
    assert not folder.exists()


def test_a_process_may_write_once_more_while_it_still_writes(tmp_path: Path) -> None:
    board = Board(tmp_path)
    registry = busy(board, 3).registry
    with ThreadPoolExecutor(4) as threads:
        for written in [threads.submit(board.post, registry) for _ in range(100)]:
            written.result()
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


def test_who_began_before_the_last_writing_does_not_write_over_it(tmp_path: Path, as_process: As) -> None:
    board = Board(tmp_path)
    last = busy(board, 3)

    class Overtaken(Collector):
        def collect(self) -> Iterable[Metric]:
            # As at the end of a process, while a thread has begun to put up what was counted until then.
            board.post(last.registry)
            return []

    slow = CollectorRegistry()
    slow.register(Overtaken())
    board.post(slow)
    as_process(os.getpid() + 1)
    assert told(Metrics("1", board=board))["requests_total"] == 3


def test_what_a_process_did_not_write_to_its_end_goes_with_it(tmp_path: Path, as_process: As) -> None:
    board = Board(tmp_path)
    as_process(1)
    board.post(busy(board, 3).registry)
    (tmp_path / "1.x.new").write_bytes(b"half")
    (tmp_path / "12.x.new").write_bytes(b"of another")
    board.bury(1)
    assert {path.name for path in tmp_path.iterdir()} == {"12.x.new", "gone", "lock"}
