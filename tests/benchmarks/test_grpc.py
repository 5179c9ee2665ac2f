"""The benchmark of gRPC is runnable: every contestant starts, answers, streams and is stopped, and the page is kept."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.load import LoadFailed
from benchmarks.edge.measure import Figure
from benchmarks.edge.workload import Workload
from benchmarks.grpc import agent
from benchmarks.grpc.contestant import PROXIES, Contestant, Field, absent, contestants
from benchmarks.grpc.gateway import Agents
from benchmarks.grpc.load import Streams, calls, once
from benchmarks.grpc.measure import check
from benchmarks.grpc.report import Results, tables, write
from benchmarks.grpc.workload import answer, events, is_answer
from benchmarks.page import BEGIN, END

EVENTS = 3


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """The agent; each of its streams has three events."""
    with agent.running(tmp_path_factory.mktemp("agent"), ROOT, events=EVENTS, every=0.001) as found:
        yield found


@pytest.mark.anyio
@pytest.mark.parametrize("proxy", [name for name in PROXIES if name != "before"])
async def test_every_contestant_does_the_job_that_it_is_measured_for_and_is_stopped(
    proxy: str, agents: Agents, tmp_path: Path
) -> None:
    if why := absent(proxy):
        pytest.skip(why)
    made = Workload.make()
    with contestants(Field(tmp_path, made), agents, [proxy]) as found:
        assert found
        for each in found:
            await asyncio.to_thread(check, each)
            if each.over_grpc and proxy in ("gateway", "envoy"):
                await _refuses(each, made)
        [streaming] = [each for each in found if each.job in ("plain", "tenant")]
        await _streams(streaming)
        process = found[0].process
        assert process.cpu() >= 0.0  # ticks of 10 ms
        assert process.resident() > 0
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def _refuses(each: Contestant, made: Workload) -> None:
    """Who verifies, and who looks for a tenant, is measured at that."""
    assert is_answer(await once(each))
    forged = replace(made, token=made.token[:-8] + "AAAAAAAA")
    with pytest.raises(LoadFailed, match="UNAUTHENTICATED"):
        await once(replace(each, workload=forged))
    if each.job != "path":
        with pytest.raises(LoadFailed):
            await once(replace(each, tenant="somebody"))


async def _streams(each: Contestant) -> None:
    """It relays streams, event by event, and a crowd."""
    first, *rest = events(EVENTS)
    async with Streams(each) as streams:
        await streams.more(1, first)
        assert streams.opened[0].is_open
        await streams.opened[0].read(rest)
    assert await calls(each, answer(), together=6, seconds=0.1) >= 6


@pytest.mark.anyio
async def test_answers_and_events_of_another_kind_are_no_figure(agents: Agents, tmp_path: Path) -> None:
    with contestants(Field(tmp_path, Workload.make()), agents, ["bare"]) as [bare]:
        with pytest.raises(LoadFailed, match="other than"):
            await calls(bare, b"something else", together=1, seconds=0.1)
        first, second, last = events(EVENTS)
        async with Streams(bare) as streams:
            with pytest.raises(LoadFailed, match="other than"):
                await streams.more(1, last)
            await streams.more(1, first)
            with pytest.raises(LoadFailed, match="other than"):
                await streams.opened[0].read([second])


def test_what_is_written_by_hand_survives_the_next_page(tmp_path: Path) -> None:
    page = tmp_path / "performance-grpc.md"
    results = Results(calls={16: [Figure("gateway", "tenant", (150.0,)), Figure("bare", "plain", (100.0,))]})
    write(page, results, date(2026, 11, 20))
    page.write_text(page.read_text().replace(f"{BEGIN}\n\nTo be written.", f"{BEGIN}\n\nIn the frames."))
    write(page, results, date(2026, 11, 21))
    text = page.read_text()
    assert f"{BEGIN}\n\nIn the frames.\n\n{END}" in text
    assert "To be written" not in text
    assert "2026-11-21" in text


def test_figures_are_given_as_ratios_to_the_bare_proxy() -> None:
    figures = [
        Figure("gateway", "tenant", (400.0, 500.0, 600.0)),
        Figure("bare", "plain", (400.0,)),
        Figure("envoy", "tenant", (200.0,)),
    ]
    text = tables(Results(calls={16: figures}, idle=[Figure("gateway", "tenant", (12_345.0,))]))
    assert "| a call, beside the bare proxy, 16 at a time | ≤ 1.3 x | 1.25 |" in text
    assert "| gateway, tenant | 500.0 (400.0 … 600.0) | 1.25 | 2.50 |" in text
    assert "| gateway, tenant | 12.3 | - | - |" in text
