"""Several views of the arrivals in one process: one goes on from another, and none loses what it could not take in."""

import mmap
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_carrying import arrivals_of, settle
from gateway.tasks.sqlite_schema import connect
from gateway.tasks.sqlite_seen import Seen
from gateway.tasks.sqlite_young import Entry, Name
from gateway.tasks.store import Met
from tests.tasks.asking import ACME, sighting
from tests.tasks.sqlite_alone import ended, opened

NAMES = [f"t{number}" for number in range(5)]


class Interrupted(Arrivals):
    """Somebody else goes on wherever this one changes while it holds nothing."""

    meanwhile: Callable[[], None] | None = None

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if self.meanwhile is not None and name in {"young", "joined", "end", "epoch", "identity"}:
            self.meanwhile()


class Forgetful(Seen):
    """A filter that has no memory once."""

    def __init__(self) -> None:
        super().__init__()
        self.doubts = 0
        self.heard: list[str] = []
        self.fails = False

    def add(self, name: Name) -> None:
        if self.fails:
            self.fails = False
            raise MemoryError
        self.heard.append(name[2])

    def doubt(self) -> None:
        self.doubts += 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db-0"


@pytest.fixture
def view(path: Path) -> Iterator[Callable[..., Arrivals]]:
    """Makes views, which are closed."""
    epochs, made = iter(range(1, 1000)), list[Arrivals]()

    def view(of: type[Arrivals] = Arrivals, seen: Seen | None = None) -> Arrivals:
        made.append(of(path, lambda: next(epochs), seen=seen))
        return made[-1]

    yield view
    for each in made:
        each.close()


def put(arrivals: Arrivals, *names: str) -> None:
    with arrivals:
        arrivals.append([Entry(1, "crm", name, "acme", "", "", "working", "", "", 1, 1) for name in names])


def known(arrivals: Arrivals) -> list[str]:
    arrivals.current()
    return [entry.id for entry in arrivals.arrived()]


def test_who_goes_on_where_another_is_has_what_that_has_and_reads_the_rest(view: Callable[..., Arrivals]) -> None:
    one, other, third = view(), view(), view()
    put(one, "t1")
    assert known(other) == ["t1"]
    put(one, "t2")
    third.join(other)
    assert [each.id for each in third.joined] == ["t1"]
    assert known(third) == ["t1", "t2"]
    with other:
        other.renew(700)
    put(other, "t3")
    # Of the epoch before, nothing is taken.
    third.join(one)
    assert known(third) == ["t3"]
    assert third.joined == []


@pytest.mark.parametrize("how", ["it reads on", "it begins anew", "it reads another epoch", "it reads another file"])
def test_who_goes_on_from_another_at_any_moment_lacks_nothing(
    view: Callable[..., Arrivals], path: Path, how: str
) -> None:
    writer, loop, joined = view(), view(Interrupted), 0
    for name in NAMES[:3]:
        put(writer, name)
    assert known(loop) == NAMES[:3]
    expected = list(NAMES)
    if how == "it reads another epoch":
        with writer:
            writer.renew(700)
        expected = NAMES[3:]
    if how == "it reads another file":
        path.rename(path.with_name("moved"))
        path.write_bytes(path.with_name("moved").read_bytes())
        for each in (loop, writer):
            each.watch()
    for name in NAMES[3:]:
        put(writer, name)
    if how == "it begins anew":
        # As after a failure to take something in.
        loop._head = b""

    def joins() -> None:
        nonlocal joined
        thread = view()
        thread.join(loop)
        joined += bool(thread.joined)
        assert sorted(set(known(thread))) == expected

    joins()
    assert isinstance(loop, Interrupted)
    loop.meanwhile = joins
    loop.read_ahead()
    joins()
    assert joined > 0


def test_all_that_another_had_read_is_settled_as_well(tmp_path: Path) -> None:
    store, path = opened(tmp_path / "state.db"), tmp_path / "state.db"
    db = connect(path, 0.25, 0.0)
    for name in NAMES:
        assert store.meet("crm", sighting(ACME, name)) == Met(ACME)
    assert store._arrivals is not None
    arrivals = arrivals_of(db, path)
    arrivals.join(store._arrivals)
    assert store.meet("crm", sighting(ACME, "last")) == Met(ACME)
    settle(db, arrivals)
    assert sorted(rows(db)) == sorted([*NAMES, "last"])
    arrivals.close()
    ended(store)
    db.close()


def rows(db: sqlite3.Connection) -> list[str]:
    return [name for (name,) in db.execute("SELECT id FROM record")]


def test_what_could_not_be_taken_in_is_read_once_more(view: Callable[..., Arrivals]) -> None:
    """A filter that has not heard of a name would give it away once it is in the tables."""
    seen = Forgetful()
    writer, reader = view(), view(seen=seen)
    put(writer, "t0")
    assert known(reader) == ["t0"]
    put(writer, "t1", "t2")
    for take in (reader.current, reader.read_ahead, lambda: put(reader, "u1", "u2")):
        seen.heard, seen.doubts, seen.fails = [], 0, True
        with pytest.raises(MemoryError):
            take()
        expected = known(writer)
        assert known(reader) == expected
        assert (seen.heard, seen.doubts) == (expected, 1)
        put(writer, f"v{len(expected)}", f"w{len(expected)}")


def test_who_has_waited_in_vain_waits_again_once_somebody_has_let_go(
    view: Callable[..., Arrivals], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though that one wrote nothing: it may have read for long, or been stopped."""
    one, other = view(), view()
    put(one, "t1")
    assert known(other) == ["t1"]
    one._patience = 0.0
    with other, pytest.raises(OSError, match="another process holds"):
        put(one, "t2")
    put(one, "t2")
    other.__enter__()
    monkeypatch.setattr(time, "sleep", lambda _: other.__exit__(None, None, None))
    put(one, "t3")
    assert known(other) == ["t1", "t2", "t3"]


@pytest.mark.anyio
async def test_who_starts_reads_what_has_arrived_while_others_write_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read, written = opened(tmp_path / "state.db"), Arrivals._read, list[str]()
    assert store.meet("crm", sighting(ACME, "t0")) == Met(ACME)

    def reading(self: Arrivals, end: int) -> None:
        if not written:
            written.append("t1")
            assert store._arrivals is not None
            store._arrivals._patience = 0.0
            assert store.meet("crm", sighting(ACME, "t1")) == Met(ACME)
        read(self, end)

    monkeypatch.setattr(Arrivals, "_read", reading)
    other = SqliteStore(tmp_path / "state.db")
    monkeypatch.setattr("gateway.tasks.sqlite.Checkpoints", lambda *_, **__: None)
    await other.open()
    assert written
    assert [task and task.owner for task in other.tasks("crm", ["t0", "t1", "t2"])] == [ACME, ACME, None]
    for each in (store, other):
        ended(each)


def test_nothing_stays_open_or_held_whatever_fails(
    view: Callable[..., Arrivals], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock goes with the last descriptor of a file, and its map has one of its own."""
    one, other = view(), view()
    before = descriptors()

    def fails(*_: object, **__: object) -> None:
        raise OSError("it fails")

    for what in ("pwrite", "fstat", "pread", "lstat"):
        with monkeypatch.context() as patch:
            patch.setattr(os, what, fails)
            with pytest.raises(OSError, match="it fails"):
                put(one, "t1")
        with monkeypatch.context() as patch:
            patch.setattr(mmap, "mmap", fails)
            one.close()
            with pytest.raises(OSError, match="it fails"):
                one.join(other)
        other._patience = 0.0
        put(other, what)
        assert what in known(other)
    for each in (one, other):
        each.close()
    assert descriptors() == before


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])
