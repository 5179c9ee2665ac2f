"""A gateway that is killed in the middle of its work: whatever was answered is in the file, and the file is whole."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Observed, Owner, RecordedOwners

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent

KILLS = 8
TOLD = 150
"""Ids that each process tells at least before it is killed."""

# Meets tasks for ever, and tells each id when it is written.
MEETING = """
import asyncio, pathlib, sys
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Bounds, Note, Owner, Observed

async def main(path: pathlib.Path, life: str) -> None:
    store = SqliteStore(path)
    await store.open()
    number = 0
    while True:
        owner, task, context = Owner(f"tenant-{number % 3}", "ann"), f"t-{life}-{number}", f"c-{life}-{number}"
        met = await store.record("crm", Observed(owner, task, context, "working", now=number))
        assert met.task == met.context == owner
        await store.keep(Note("name", task, context.encode(), owner.tenant, due=1.0))
        print(number, flush=True)
        await store.record("crm", Observed(owner, task, context, "completed", now=number))
        number += 1

asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
"""


def killed(path: Path, life: int) -> list[int]:
    """What a process told before it was killed, at another place in its work each time."""
    with subprocess.Popen(
        [sys.executable, "-c", MEETING, str(path), str(life)], cwd=ROOT, text=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        numbers = [int(process.stdout.readline()) for _ in range(TOLD + 7 * life)]
        os.kill(process.pid, signal.SIGKILL)
        # What was told before the signal came; a last line may be torn.
        numbers += [int(line) for line in process.stdout if line.endswith("\n")]
        assert process.wait(60) == -signal.SIGKILL
    return numbers


async def test_whatever_was_told_before_a_kill_is_known_after_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    lives = [killed(path, life) for life in range(KILLS)]
    assert sum(map(len, lives)) >= 1000

    store = SqliteStore(path)
    await store.open()
    for life, numbers in enumerate(lives):
        assert numbers == list(range(len(numbers)))
        for number in numbers:
            owner, task, context = Owner(f"tenant-{number % 3}", "ann"), f"t-{life}-{number}", f"c-{life}-{number}"
            (known,) = await store.tasks("crm", [task])
            assert known is not None
            assert (known.owner, known.context) == (owner, context)
            assert known.state == "completed" or number == numbers[-1]
            assert await store.context("crm", context) == owner
            assert await store.note("name", task) == context.encode()
            thief = Observed(Owner("thief"), task, context, "completed", now=number)
            assert await store.record("crm", thief) == RecordedOwners(owner, owner)
    await store.aclose()

    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
