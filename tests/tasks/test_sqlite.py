"""The ledger in a file of SQLite: the contract of every store, and what is its own."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_schema import dial
from gateway.tasks.store import SEEN_AGAIN, Bounds, Met, Note, Sighting, Soon
from tests.tasks.asking import ACME, ANN, BOB, DAY, GLOBEX, HOUR, NOW, settle, sighting
from tests.tasks.contract import Contract

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent

# Another process with a store of its own: meets what it is told to, and tells whose it is.
OTHER = """
import asyncio, pathlib, sys
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner, Sighting

async def main() -> None:
    store = SqliteStore(pathlib.Path(sys.argv[1]))
    await store.open()
    for line in sys.stdin:
        tenant, task, context, state = line.rstrip("\\n").split(" ")
        met = store.meet("crm", Sighting(Owner(tenant), task, context, state, now=1))
        print(met.task.tenant, met.context.tenant, flush=True)
    await store.aclose()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.aclose()


class TestSqlite(Contract):
    """Run over the fixture `store`."""


def changes(store: SqliteStore) -> tuple[int, int]:
    """How many rows and how many bytes of arrivals were written so far."""
    with store._file as db:
        return db.total_changes, store._of(db).end


def scalar(store: SqliteStore, sql: str) -> object:
    with store._file as db:
        return db.execute(sql).fetchone()[0]


async def test_it_is_known_for_what_it_is(store: SqliteStore, path: Path) -> None:
    assert (store.local, store.shared, store.label) == (True, False, f"sqlite://{path}")


async def test_what_was_written_is_there_after_a_restart(store: SqliteStore, path: Path) -> None:
    store.meet("crm", sighting(ANN, "t1", "c1", "working", replica="r1", dialect="jsonrpc/1.0"))
    store.keep(Note("hook", "n1", b"\0\xff", "acme", "g1", 1.5, NOW + DAY))
    rows, notes = store.rows(("", "", ""), 10), store.notes(("", ""), 10)
    await store.aclose()
    again = SqliteStore(path)
    await again.open()
    assert again.rows(("", "", ""), 10) == rows
    assert again.notes(("", ""), 10) == notes
    assert again.open_tasks("acme") == 1
    await again.aclose()


async def test_only_the_gateways_own_user_may_read_the_files(store: SqliteStore, path: Path) -> None:
    store.meet("crm", sighting(task="t1"))
    files = sorted(path.parent.iterdir())
    name = scalar(store, "SELECT id FROM arrivals")
    assert {file.name for file in files} == {"state.db", "state.db-shm", "state.db-wal", f"state.db-{name}"}
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 4


async def test_nothing_is_left_beside_the_file_when_it_is_closed(store: SqliteStore, path: Path) -> None:
    store.meet("crm", sighting(task="t1"))
    await store.aclose()
    assert [file.name for file in path.parent.iterdir()] == ["state.db"]
    with pytest.raises(StateUnavailable):
        store.tasks("crm", ["t1"])
    await store.aclose()


@pytest.mark.parametrize("is_carried", [True, False])
async def test_what_is_met_again_with_nothing_new_is_not_written(store: SqliteStore, *, is_carried: bool) -> None:
    for again in range(2):
        at = NOW + again * (SEEN_AGAIN - 1)
        for met in (sighting(ACME, "t1", "c1", "working", at=at), sighting(task="t1", at=at), sighting(context="c1")):
            store.meet("crm", met)
        if not again:
            if is_carried:
                settle(store)
            before = changes(store)
    assert changes(store) == before
    store.meet("crm", sighting(ACME, "t1", "c1", "working", at=NOW + SEEN_AGAIN))
    rows, size = changes(store)
    assert (rows - before[0], size > before[1]) == (2 if is_carried else 0, True)
    assert store.tasks("crm", ["t1"])[0].seen == NOW + SEEN_AGAIN  # type: ignore[union-attr]  # it is known


@pytest.mark.parametrize("is_carried", [True, False])
async def test_whether_it_has_just_arrived_or_is_in_the_tables_it_is_its_owners(
    store: SqliteStore, *, is_carried: bool
) -> None:
    store.meet("crm", sighting(ANN, "t1", "c1", "working"))
    if is_carried:
        settle(store)
    assert store.meet("crm", sighting(GLOBEX, "t1", "c1", "completed")) == Met(ANN, ANN)
    assert store.meet("crm", sighting(BOB, "t1", "c2", "completed")) == Met(ANN, BOB)
    assert store.open_tasks("acme") == 0


async def test_what_is_remembered_of_the_tables_ends_with_whoever_erases_or_forgets_it(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(2)]
    for each in stores:
        await each.open()
    one, other = stores
    forgetting: tuple[Callable[[], int], ...] = (
        lambda: other.erase("acme"),
        lambda: other.expire(NOW + DAY, Bounds(ended=1, open=1), 500),
    )
    for forget in forgetting:
        one.meet("crm", sighting(ACME, "t1", "c1", "working"))
        settle(one)
        for store in stores:
            assert [None if it is None else it.owner for it in store.tasks("crm", ["t1", "t2"])] == [ACME, None]
        assert forget() == 2
        assert one.tasks("crm", ["t1"]) == other.tasks("crm", ["t1"]) == [None]
        assert one.meet("crm", sighting(GLOBEX, "t1")) == Met(GLOBEX)
        assert other.tasks("crm", ["t1"])[0].owner == GLOBEX  # type: ignore[union-attr]  # it is known
        one.erase("globex")
    for each in stores:
        await each.aclose()


async def test_what_is_remembered_of_the_tables_does_not_pile_up_and_is_what_was_written_last(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_MOST_REMEMBERED", 3)
    for number in range(10):
        store.meet("crm", sighting(task=f"t{number}", state="working"))
    settle(store)
    for state in ("working", "completed"):
        for number in range(10):
            [found] = store.tasks("crm", [f"t{number}"])
            assert found is not None
            assert found.state == state
            assert store._arrivals is not None
            assert len(store._arrivals.current().tables) <= 3
            store.meet("crm", sighting(task=f"t{number}", state="completed"))


class Other:
    """Another process that uses the same file."""

    def __init__(self, path: Path) -> None:
        arguments = [sys.executable, "-c", OTHER, str(path)]
        self.process = subprocess.Popen(arguments, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def meet(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def told(self) -> list[str]:
        """Whose the task and the context are."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()


@pytest.fixture
def other(path: Path) -> Iterator[Other]:
    other = Other(path)
    yield other
    other.process.communicate(timeout=60)
    assert other.process.returncode == 0


async def test_several_processes_share_a_file(store: SqliteStore, other: Other) -> None:
    store.meet("crm", sighting(ACME, "ours", "ours", "working"))
    other.meet("globex ours ours completed")
    assert other.told() == ["acme", "acme"]
    assert store.open_tasks("acme") == 1
    other.meet("globex theirs theirs working")
    assert other.told() == ["globex", "globex"]
    assert store.meet("crm", sighting(ACME, "theirs", "theirs", "completed")) == Met(GLOBEX, GLOBEX)
    assert [store.open_tasks(tenant) for tenant in ("acme", "globex")] == [1, 1]


async def test_a_task_that_two_processes_meet_at_a_time_has_one_owner_and_both_are_told(
    store: SqliteStore, other: Other
) -> None:
    for number in range(200):
        other.meet(f"globex t{number} c{number} working")
        mine = store.meet("crm", sighting(ACME, f"t{number}", f"c{number}", "working"))
        assert mine.task is not None
        assert mine.context is not None
        assert other.told() == [mine.task.tenant, mine.context.tenant]


async def test_while_somebody_writes_others_read_and_fail_to_write(store: SqliteStore, path: Path) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1", "working"))
    settle(store)
    rows = store.rows(("", "", ""), 10)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writes: tuple[Callable[[], object], ...] = (
        lambda: store.meet("crm", sighting(ACME, "t1", "c1", "completed")),
        lambda: store.keep(Note("hook", "n1", b"")),
        lambda: store.settle(Note("hook", "n1", b"")),
        lambda: store.put_rows(rows),
        lambda: store.expire(NOW, Bounds(), 500),
        lambda: store.erase("acme"),
    )
    for write in writes:
        with pytest.raises(StateUnavailable) as caught:
            write()
        assert caught.value.detail == "database is locked"
        assert str(path) not in caught.value.message
    assert store.meet("crm", sighting(ACME, "t1", "c1", "working")) == Met(ACME, ACME)
    # What is new goes to the arrivals, which nobody holds.
    assert store.meet("crm", sighting(GLOBEX, "t2")) == Met(GLOBEX)
    other.execute("ROLLBACK")
    for write in writes:
        write()
    other.close()
    assert store.meet("crm", sighting(ACME, "t2")) == Met(GLOBEX)


async def test_notes_end_by_the_clock_that_the_store_was_given(path: Path) -> None:
    clock = [float(NOW)]
    store = SqliteStore(path, wall=lambda: clock[0])
    await store.open()
    store.keep(Note("name", "n1", b"old", until=NOW + 10))
    assert store.note("name", "n1") == b"old"
    clock[0] += 10
    assert store.note("name", "n1") is None
    assert store.settle(Note("name", "n1", b"new")) == b"new"
    await store.aclose()


async def test_a_note_that_is_dropped_as_often_as_it_is_settled_is_a_fault(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.settle(Note("name", "n1", b"one"))
    monkeypatch.setattr(sqlite, "_NOTE", "SELECT value FROM note WHERE kind = ? AND key = ? AND 0 = ?")
    with pytest.raises(StateUnavailable):
        store.settle(Note("name", "n1", b"two"))


async def test_a_context_that_came_with_a_task_is_forgotten_after_it(store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1", "completed"))
    settle(store)
    assert scalar(store, "SELECT count(*) FROM record WHERE aged = 0") == 1
    assert [(it.tasks, it.contexts) for it in store.figures()] == [(1, 1)]
    assert store.expire(NOW + HOUR, Bounds(ended=1, open=DAY), 500) == 1
    assert store.context("crm", "c1") == ACME
    assert store.expire(NOW + 2 * DAY, Bounds(ended=1, open=DAY), 500) == 1
    assert store.figures() == []


@pytest.mark.parametrize(
    "sightings",
    [
        pytest.param([sighting(ACME, "t1", "c1"), sighting(ACME, "t1", "c2")], id="another one of the task"),
        pytest.param([sighting(GLOBEX, "t2", "c2"), sighting(ACME, "t1", "c2", marked=True)], id="another tenant's"),
        pytest.param([sighting(task="t1"), sighting(ACME, "t1", "c2")], id="after its task"),
        pytest.param([sighting(context="c2"), sighting(ACME, "t1", "c2")], id="before its task"),
        pytest.param([sighting(ACME, "t2", "c2"), sighting(BOB, "t1", "c2")], id="with another task before"),
    ],
)
@pytest.mark.parametrize("is_carried", [True, False])
async def test_every_context_is_forgotten_in_the_end(
    store: SqliteStore, sightings: list[Sighting], *, is_carried: bool
) -> None:
    for met in sightings:
        store.meet("crm", met)
        if is_carried:
            settle(store)
    assert store.context("crm", "c2") is not None
    store.expire(NOW + DAY, Bounds(ended=1, open=1), 500)
    assert store.rows(("", "", ""), 10) == []


async def test_what_takes_long_to_count_is_counted_aside_and_once_for_all_who_ask(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        store.meet("crm", sighting(ANN if number % 3 else BOB, f"t{number}", "c1"))
    assert store.count("crm", ACME) == 30
    settle(store)
    store.meet("crm", sighting(ANN, "young", "c1"))
    store.meet("crm", sighting(ANN, "another", "c2", "completed"))
    monkeypatch.setattr("gateway.tasks.sqlite._AT_ONCE", 10)
    dialled: list[Path] = []

    def counted(file: Path, timeout: float) -> sqlite3.Connection:
        dialled.append(file)
        return dial(file, timeout)

    monkeypatch.setattr("gateway.tasks.sqlite.dial", counted)
    asked = [asyncio.ensure_future(later(store.count("crm", ACME))) for _ in range(5)]
    asked[0].cancel()
    assert await asyncio.gather(*asked[1:]) == [32] * 4
    assert len(dialled) == 1
    assert await later(store.count("crm", ANN, "c1")) == 21
    assert await later(store.open_tasks("acme")) == 31
    assert store.count("crm", GLOBEX) == 0
    path.unlink()  # noqa: ASYNC240 - a file of the test
    with pytest.raises(StateUnavailable):
        await later(store.count("crm", ACME))


async def later(counting: Soon[int]) -> int:
    assert not isinstance(counting, int)
    return await counting
