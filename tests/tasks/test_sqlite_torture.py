"""Processes that share a ledger in a file while they are killed, stopped, started and ended at random moments."""

import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Figures, Owner

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
MEMBERS = 4
LIVES = (0.1, 0.5, 2.0, 60.0)
"""Seconds after which one leaves by itself, if it is not killed before."""


class Members:
    """The processes of one run."""

    def __init__(self, folder: Path, chance: random.Random, ids: int) -> None:
        self.path = folder / "state.db"
        self.killed = 0
        self._folder = folder
        self._chance = chance
        self._ids = ids
        self._started = 0
        self._living: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Have as many as there should be."""
        self._bury()
        while len(self._living) < MEMBERS:
            self._started += 1
            life, told = self._chance.choice(LIVES), self._folder / f"told-{self._started}"
            words = (self.path, self._chance.randrange(1 << 30), life, told, self._ids)
            self._living.append(
                subprocess.Popen([sys.executable, "-m", "tests.tasks.sqlite_member", *map(str, words)], cwd=ROOT)
            )

    def harm(self) -> None:
        """Kill one or stop it for a while, and look after those that left."""
        process = self._chance.choice(self._living)
        how = self._chance.random()
        if how < 0.3:
            process.kill()
            self.killed += 1
        elif how < 0.6:
            process.send_signal(signal.SIGSTOP)
        self.rest()
        if 0.3 <= how < 0.6:
            process.send_signal(signal.SIGCONT)

    def _bury(self) -> None:
        for each in self._living:
            assert each.poll() in (None, 0, -signal.SIGKILL)
        self._living = [each for each in self._living if each.returncode is None]

    def rest(self) -> None:
        """Let them work: as long as it takes any of them to end, and a fraction of a second at most."""
        try:
            self._living[-1].wait(self._chance.uniform(0.02, 0.3))
        except subprocess.TimeoutExpired:
            return

    def end(self) -> None:
        for process in self._living:
            process.kill()
            process.wait()

    def left(self) -> list[str]:
        """The files that are there beside what was told."""
        return [each.name for each in self._folder.iterdir() if not each.name.startswith("told-")]

    def told(self) -> tuple[dict[str, Owner], int]:
        """Return the owner of every id by the answers to all processes, and the number of answers."""
        owners: dict[str, Owner] = {}
        count = 0
        for file in self._folder.glob("told-*"):
            for line in file.read_text().splitlines(keepends=True):
                # A last line may be torn.
                if line.endswith("\n"):
                    name, tenant, principal = line.split()
                    assert owners.setdefault(name, Owner(tenant, principal)) == Owner(tenant, principal)
                    count += 1
        return owners, count


@contextmanager
def members(folder: Path, seed: int, ids: int) -> Iterator[Members]:
    some = Members(folder, random.Random(seed), ids)
    try:
        yield some
    finally:
        some.end()


async def torture(folder: Path, seed: int, harms: int, ids: int) -> None:
    with members(folder, seed, ids) as some:
        for _ in range(harms):
            some.start()
            some.harm()
    owners, count = some.told()
    assert some.killed > 0
    assert count > len(owners) > 0

    store = SqliteStore(some.path)
    await store.open()
    tasks, contexts = Counter[str](), Counter[str]()
    for name, owner in owners.items():
        if name.startswith("t"):
            (task,) = await store.tasks("s", [name])
            assert task is not None
            assert task.owner == owner
            tasks[owner.tenant] += 1
        else:
            assert await store.context("s", name) == owner
            contexts[owner.tenant] += 1
    # One that was killed may have written down what it did not say any more.
    unsaid = MEMBERS + some.killed
    for figures in await store.figures():
        assert_counts(figures, tasks, contexts, unsaid)
        assert await store.count("s", Owner(figures.tenant)) == figures.tasks
    await store.aclose()
    assert some.left() == ["state.db"]


def assert_counts(figures: Figures, tasks: Counter[str], contexts: Counter[str], unsaid: int) -> None:
    assert 0 <= figures.tasks - tasks[figures.tenant] <= unsaid
    assert 0 <= figures.contexts - contexts[figures.tenant] <= unsaid


async def test_every_id_keeps_one_owner_when_processes_that_share_a_file_are_killed(tmp_path: Path) -> None:
    await torture(tmp_path, seed=1, harms=25, ids=300)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "ids"), [(2, 300), (3, 2_000), (4, 30)])
async def test_nor_in_a_minute_of_it(tmp_path: Path, seed: int, ids: int) -> None:
    await torture(tmp_path, seed=seed, harms=400, ids=ids)
