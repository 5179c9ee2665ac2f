"""A configuration that nobody uses any more goes piece by piece."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import dismantling
from gateway.config.check import Examined, examine
from gateway.dismantling import dismantle
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import Metrics
from tests.doubles.gateway import whole_file

pytestmark = pytest.mark.anyio

MANY = 300
PIECE = 500
"""Blocks of memory that go at once, at most; an agent is some 100 of them."""


def text(agents: int) -> str:
    several = "{ backend: [{ url: 'http://127.0.0.1:1', label: a }, { url: 'http://127.0.0.1:2', label: b }] }"
    auth = "auth: { api_keys: { k: { sha256: '%s', tenant: t } } }\ntenants: { t: ['*'] }\n" % ("0" * 64)
    return auth + "agents:\n" + "".join(f"  agent-{number}: {several}\n" for number in range(agents))


def examined(folder: Path, agents: int = MANY) -> Examined:
    path = folder / "gateway.yaml"
    path.write_text(whole_file(text(agents)))
    found = examine(path, {})
    assert found.config is not None, found.errors
    return found


def snapshot(folder: Path) -> Snapshot:
    return Snapshot.build(examined(folder), Metrics("0"), "http://127.0.0.1:1")


class Steps:
    """Takes the place of what lets go of pieces: how much goes with each of them, and before the first."""

    def __init__(self) -> None:
        self.began = 0
        self.sizes: list[int] = []

    def __call__(self, pieces: list[object]) -> None:
        self.sizes.append(self.began - sys.getallocatedblocks())
        while pieces:
            before = sys.getallocatedblocks()
            pieces.pop()
            self.sizes.append(before - sys.getallocatedblocks())


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    found = Steps()
    monkeypatch.setattr(dismantling, "_drop", found)
    gc.disable()
    yield found
    gc.enable()


async def test_no_step_of_taking_a_snapshot_apart_takes_long(tmp_path: Path, steps: Steps) -> None:
    last = [snapshot(tmp_path)]
    # What is closed later, and goes then; and what is let go before the rest, a backend at a time.
    holdings = last[0].holdings
    members = [
        member for backing in last[0].backings.values() if backing.group for member in backing.group.members.values()
    ]
    assert len(members) == 2 * MANY
    gc.collect()
    steps.began = sys.getallocatedblocks()
    dismantle(last)
    del holdings, members
    assert sum(steps.sizes) > MANY * 50
    assert max(steps.sizes) < PIECE
    assert last == []
    dismantle(last)
    # Nothing is left that only the collector would find.
    assert gc.collect() == 0
