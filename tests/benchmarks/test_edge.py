"""The benchmark beside the peers is runnable: every contestant starts, answers and is stopped, and the page is kept."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from benchmarks.edge import agent, load
from benchmarks.edge.contestant import PROXIES, ROOT, Contestant, Field, absent, contestants
from benchmarks.edge.measure import Crowd, Figure, check
from benchmarks.edge.process import free_port
from benchmarks.edge.report import Results, tables, write
from benchmarks.edge.stream import Stream
from benchmarks.edge.workload import Workload, answer, call
from benchmarks.page import BEGIN, END

EVENTS = 3


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An agent's port: each of its streams has three events."""
    found = free_port()
    with agent.running(tmp_path_factory.mktemp("agent"), ROOT, found, events=EVENTS, every=0.0005):
        yield found


@pytest.mark.anyio
@pytest.mark.parametrize("proxy", [name for name in PROXIES if name != "before"])
async def test_every_contestant_does_the_job_that_it_is_measured_for_and_is_stopped(
    proxy: str, port: int, tmp_path: Path
) -> None:
    if why := absent(proxy):
        pytest.skip(why)
    with contestants(Field(tmp_path, Workload.make()), port, [proxy]) as found:
        assert found
        for each in found:
            await check(each)
            await _refuses(each)
            if proxy == "naive":
                continue
            stream = await Stream.opened(each.url, each.headers, each.tenant)
            await stream.ended
            assert stream.events == EVENTS
        process = found[0].process
        assert process.cpu() >= 0.0  # ticks of 10 ms
        assert process.resident() > 0
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def _refuses(each: Contestant) -> None:
    """Who verifies, and who looks for a tenant, is measured at that."""
    forged = {**each.headers, "Authorization": each.headers["Authorization"][:-8] + "AAAAAAAA"}
    if each.job != "plain":
        with pytest.raises(load.LoadFailed, match="401"):
            await check(replace(each, headers=forged))
    if each.job.startswith("tenant"):
        with pytest.raises(load.LoadFailed):
            await check(replace(each, tenant="somebody"))


def test_our_own_load_counts_answers(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    began = time.monotonic()
    answered = load.calls(f"http://127.0.0.1:{port}/", {}, call(), answer(), connections=4, seconds=1, folder=tmp_path)
    assert answered >= 4
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("path", [None, ""], ids=["whatever is installed", "our own"])
def test_calls_that_are_refused_are_no_figure(
    path: str | None, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path is not None:
        monkeypatch.setenv("PATH", path)
    with (
        contestants(Field(tmp_path, Workload.make()), port, ["naive"]) as [naive],
        pytest.raises(load.LoadFailed, match=r"401|Non-2xx"),
    ):
        load.calls(naive.url, {}, call(), answer(), connections=1, seconds=1, folder=tmp_path)


@pytest.mark.parametrize("path", [None, ""], ids=["whatever is installed", "our own"])
def test_answers_of_another_kind_are_no_figure(
    path: str | None, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path is not None:
        monkeypatch.setenv("PATH", path)
    longer = answer(4096)
    with pytest.raises(load.LoadFailed, match="other than"):
        load.calls(f"http://127.0.0.1:{port}/", {}, call(), longer, connections=1, seconds=1, folder=tmp_path)


def test_what_is_written_by_hand_survives_the_next_page(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    results = Results(calls={16: [Figure("gateway", "tenant", (150.0,)), Figure("envoy", "tenant", (100.0,))]})
    write(page, results, date(2026, 11, 20))
    page.write_text(page.read_text().replace(f"{BEGIN}\n\nTo be written.", f"{BEGIN}\n\nIn the parser."))
    write(page, results, date(2026, 11, 21))
    text = page.read_text()
    assert f"{BEGIN}\n\nIn the parser.\n\n{END}" in text
    assert "To be written" not in text
    assert "2026-11-21" in text


def test_figures_are_given_as_ratios_to_the_same_job() -> None:
    figures = [
        Figure("gateway", "path", (90.0, 100.0, 200.0)),
        Figure("gateway", "tenant", (180.0,)),
        Figure("envoy", "path", (50.0,)),
        Figure("envoy", "tenant", (100.0,)),
        Figure("naive", "path", (1500.0,)),
    ]
    text = tables(Results(calls={1: figures}, crowd=Crowd(5_000, 2_000, 20, 0.25)))
    assert "| gateway, path | 100.0 (90.0 … 200.0) | 2.00 | 1.00 | 1/15.0 |" in text
    assert "| gateway, tenant | 180.0 (180.0 … 180.0) | 1.80 | 1.80 | 1/8.3 |" in text
    assert "250 ms" in text
