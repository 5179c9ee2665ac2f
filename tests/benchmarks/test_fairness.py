"""The benchmark of fairness is runnable, its load says what became of each call, and its page is kept.

F1 and F2, with what they must show, are in `tests/e2e/test_fairness.py`.
"""

import asyncio
import json
import math
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.process import free_port
from benchmarks.fairness import agent
from benchmarks.fairness.bench import Bench, Row, Size, Window, _bound, bench
from benchmarks.fairness.load import carry_out, loading
from benchmarks.fairness.plan import ANSWERED, BROKEN, Outcome, Plan, Source, quantile
from benchmarks.fairness.report import tables, write
from benchmarks.fairness.scenario import SCENARIOS
from benchmarks.fairness.site import STREAMS, WEIGHTS
from benchmarks.page import BEGIN, END

QUICK = Size(seconds=0.5, rounds=1, pace=40.0, lead=0.5)


# ---- Scenarios -----------------------------------------------------------------------------------------------------


def holding(row: Row) -> set[str]:
    return {check.what for check in row.checks if check.holds}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("fairness"), QUICK) as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize("name", ["F3", "F4", "F5", "F6", "F8"])
def test_every_scenario_loses_nothing_and_tells_what_the_others_got(name: str, found: Bench) -> None:
    row = SCENARIOS[name](found)
    assert row.lost == 0
    assert row.others
    assert len(row.alone) == len(row.beside) == (0 if name == "F6" else 1)
    if name == "F3":
        assert "streams" in holding(row)
        assert row.count(ANSWERED) == STREAMS
    if name == "F4":
        assert row.count(ANSWERED) > 0
    if name == "F5":
        assert {"forged tokens that passed", "reads of the key set"} <= holding(row)
        assert row.count("rate_limited") > 0
    if name == "F8":
        assert {"reloads", "neither granted nor refused"} <= holding(row)
    if name == "F6":
        got = {outcome.name: outcome.count(ANSWERED) for outcome in row.others}
        light, weighty = ([got[name] for name, weight in WEIGHTS.items() if weight == which] for which in (1, 4))
        assert max(light) < min(weighty)
        assert row.count("concurrency_limited") > 0


# ---- Load ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    at = free_port()
    with agent.running(tmp_path, ROOT, at):
        yield at


def plan(*sources: Source, seconds: float = 0.3, patience: float = 10.0) -> Plan:
    return Plan(sources, time.monotonic() + 0.2, 0.1, seconds, patience)


def source(port: int, path: str, **how: object) -> Source:
    bodies = [agent.send().decode()]
    return Source(path, f"http://127.0.0.1:{port}/{path}", {}, bodies, agent.ANSWERED, **how)  # type: ignore[arg-type]


def test_load_says_what_became_of_each_call(port: int) -> None:
    with loading(ROOT) as load:
        load.begin(plan(source(port, "prompt", pace=50.0), source(port, "prompt", lines=2, rest=0.01)))
        paced, lines = load.end()
        assert paced.begun == paced.count(ANSWERED) == len(paced.late) == 15
        assert lines.begun == lines.count(ANSWERED) > 0
        assert paced.lost == lines.lost == paced.unanswered == lines.under_way == 0
        # The same process again.
        load.begin(plan(source(port, "hangs", pace=50.0), source(port, "endless", deaf=3), patience=0.0))
        hanging, deaf = load.end()
        assert hanging.begun == hanging.unanswered == hanging.lost == 15
        assert hanging.under_way >= 15
        assert deaf.begun == 3


def test_what_is_no_answer_is_lost() -> None:
    [outcome] = asyncio.run(carry_out(plan(source(free_port(), "prompt", pace=20.0))))
    assert outcome.begun == outcome.lost == outcome.count(BROKEN) == 6


def test_each_answer_is_of_a_task_of_its_own_and_a_known_one_is_found_again(port: int) -> None:
    answers = agent.Answers()
    first, second = (json.loads(answers.to(agent.send()).partition(b"\r\n\r\n")[2])["result"]["task"] for _ in "ab")
    assert first["id"] != second["id"]
    assert first["contextId"] != second["contextId"]
    told = answers.to(agent.get(first["id"])).partition(b"\r\n\r\n")[2]
    assert json.loads(told)["result"] == first
    assert agent.task_of(told) == first["id"]
    assert agent.ANSWERED.encode() in told


def test_a_heavy_body_has_the_size_and_the_members_that_were_asked_for() -> None:
    def members(tree: object) -> int:
        if isinstance(tree, dict):
            return len(tree) + sum(members(value) for value in tree.values())
        return sum(members(value) for value in tree) if isinstance(tree, list) else 0

    body = agent.send(size=100_000, members=500)
    assert len(body) == 100_000
    assert members(json.loads(body)) == 500


def test_of_a_distribution_only_what_was_counted_meanwhile_counts() -> None:
    before = {0.01: 100.0, 0.05: 100.0, math.inf: 100.0}
    assert _bound(before, {0.01: 150.0, 0.05: 199.0, math.inf: 200.0}) == 0.05
    assert _bound(before, {0.01: 150.0, 0.05: 198.0, math.inf: 200.0}) == math.inf
    assert _bound({}, {0.01: 10.0, math.inf: 10.0}) == 0.01


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 201)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1.0)) == (100.0, 198.0, 200.0)
    assert quantile([7.0], 0.99) == 7.0
    assert quantile([], 0.99) == 0.0


# ---- The page ------------------------------------------------------------------------------------------------------


def row(p99: float) -> Row:
    found = Row("F2", "asks for more than it may")
    found.alone = [Window(100, 100, 0.001, 0.004, 0.0005, 0.1)]
    found.beside = [Window(100, 99, 0.001, p99, 0.0005, 0.2)]
    found.others = [Outcome("eager", 10, {ANSWERED: [0.1], "rate_limited": [0.001] * 9})]
    found.must_not_suffer(factor=2.0)
    return found


def test_what_does_not_hold_is_said_so() -> None:
    text = tables([row(0.008)])
    assert "| F2 | 1.0, 4.0 | 1.0, 8.0 | 2.00 | 1 of 100 | 99.0% | 10%, 20% | 0.5 |" in text
    assert "| F2 | p99 | ≤ 2 x alone | 8.0 ms of 8.0 ms | holds |" in text
    assert "| F2 | lost | 0 | 1 | **FAILS** |" in text
    assert "- F2: asks for more than it may: 1 answered, 9 rate_limited.\n" in text
    assert "| F2 | p99 | ≤ 2 x alone | 8.1 ms of 8.0 ms | **FAILS** |" in tables([row(0.0081)])


def test_what_is_written_by_hand_survives_the_next_page(tmp_path: Path) -> None:
    page = tmp_path / "performance-fairness.md"
    write(page, [row(0.005)], "One window.", date(2026, 11, 22))
    page.write_text(page.read_text().replace(f"{BEGIN}\n\nTo be written.", f"{BEGIN}\n\nIt holds."))
    write(page, [row(0.005)], "One window.", date(2026, 11, 23))
    text = page.read_text()
    assert f"{BEGIN}\n\nIt holds.\n\n{END}" in text
    assert "To be written" not in text
    assert "2026-11-23" in text
