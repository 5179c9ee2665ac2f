"""Each benchmark of calls runs for a moment; the figures mean nothing here."""

from pathlib import Path

import pytest

from benchmarks import ledger, stdio
from benchmarks.edge import agent, load
from benchmarks.edge.contestant import ROOT, Field, contestants
from benchmarks.edge.measure import check
from benchmarks.edge.process import free_port
from benchmarks.edge.workload import Workload, answer, call
from benchmarks.grpc import agent as grpc_agent
from benchmarks.grpc import contestant as grpc
from benchmarks.grpc.measure import check as grpc_check
from benchmarks.ledger_alone import PLACES, measured
from benchmarks.translation import PAIRS, measure


@pytest.mark.anyio
async def test_the_gateway_takes_part_beside_the_peers(tmp_path: Path) -> None:
    port = free_port()
    with (
        agent.running(tmp_path, ROOT, port, events=3, every=0.0005),
        contestants(Field(tmp_path, Workload.make()), port, ["gateway"]) as found,
    ):
        for each in found:
            await check(each)


def test_answers_of_another_kind_are_no_figure(tmp_path: Path) -> None:
    port = free_port()
    with agent.running(tmp_path, ROOT, port), pytest.raises(load.LoadFailed, match="other than"):
        load.calls(f"http://127.0.0.1:{port}/", {}, call(), answer(4096), connections=1, seconds=1, folder=tmp_path)


@pytest.mark.long
def test_the_gateway_takes_part_over_grpc(tmp_path: Path) -> None:
    with (
        grpc_agent.running(tmp_path, ROOT, events=3, every=0.001) as agents,
        grpc.contestants(grpc.Field(tmp_path, Workload.make()), agents, ["gateway"]) as found,
    ):
        for each in found:
            grpc_check(each)


@pytest.mark.long
def test_every_place_of_the_ledger_is_measured(tmp_path: Path) -> None:
    results = ledger.measure(tmp_path, ledger.Size(1, 0.1, 1, 2, 4, 0.005))
    assert all(used.keys() == set(ledger.PLACES) - set(results.absent) for used in results.used.values())
    assert "### CPU: GetTask" in ledger.tables(results)


@pytest.mark.long
def test_both_wires_of_stdio_are_measured(tmp_path: Path) -> None:
    results = stdio.measure(tmp_path, stdio.Size(1, 0.1, 2, 4, 0.005))
    assert all(used.keys() == set(stdio.WIRES) for used in results.used.values())


def test_a_translation_is_measured() -> None:
    assert measure(PAIRS[0]()[0], rounds=1, seconds=0.0001).ours > 0


@pytest.mark.parametrize("place", PLACES)
def test_the_ledger_is_measured_by_itself(place: str, tmp_path: Path) -> None:
    assert all(each > 0 for each in measured(tmp_path, place, 20))
