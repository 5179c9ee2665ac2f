"""The arrivals: what several processes read of each other, what is cut off, and what is refused."""

import errno
import fcntl
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_arrivals
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_layout import HEAD, LAYOUT
from gateway.tasks.sqlite_seen import Seen, Succession
from gateway.tasks.sqlite_young import Entry
from gateway.tasks.store import Met
from tests.tasks.asking import ACME, GLOBEX, sighting


def entry(name: str, state: str = "working") -> Entry:
    return Entry(1, "crm", name, "acme", "", "", state, "", "", 1, 1)


class Epochs:
    """Gives one after the other."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> int:
        self.last += 1
        return self.last


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db-0"


@pytest.fixture
def epochs() -> Epochs:
    return Epochs()


@pytest.fixture
def arrivals(path: Path, epochs: Epochs) -> Iterator[Arrivals]:
    arrivals = Arrivals(path, epochs)
    yield arrivals
    arrivals.close()


@pytest.fixture
def other(path: Path, epochs: Epochs) -> Iterator[Arrivals]:
    arrivals = Arrivals(path, epochs)
    yield arrivals
    arrivals.close()


def put(arrivals: Arrivals, *names: str) -> None:
    with arrivals:
        arrivals.append([entry(name) for name in names])


def known(arrivals: Arrivals) -> list[str]:
    return [entry.id for entry in arrivals.current().entries.values()]


def test_what_one_writes_the_other_knows_and_what_is_begun_anew_both_forget(
    arrivals: Arrivals, other: Arrivals
) -> None:
    put(arrivals, "t1", "t2")
    assert known(other) == ["t1", "t2"]
    put(other, "t3")
    with arrivals as young:
        assert len(young.entries) == 3
        arrivals.renew(7)
    assert known(other) == known(arrivals) == []
    assert other.epoch == arrivals.epoch == 7
    # As long as before, and yet another one.
    put(arrivals, "t4", "t5")
    put(arrivals, "t6")
    assert known(other) == ["t4", "t5", "t6"]


def test_it_is_the_owners_alone(arrivals: Arrivals, path: Path) -> None:
    put(arrivals, "t1")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("torn", [b"0", b"00000000[]\n", b"\0" * 5000])
def test_what_was_begun_and_told_to_nobody_is_not_there_and_what_comes_after_counts(
    arrivals: Arrivals, other: Arrivals, path: Path, torn: bytes
) -> None:
    put(arrivals, "t1")
    with path.open("r+b") as file:
        file.seek(arrivals.end)
        file.write(torn)
    assert known(other) == ["t1"]
    put(arrivals, "t2")
    assert known(other) == known(arrivals) == ["t1", "t2"]


def test_lines_of_an_epoch_before_are_never_read_again(
    arrivals: Arrivals, other: Arrivals, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut may leave the head of one epoch before the lines of another."""
    put(arrivals, "t1")
    put(arrivals, "t2")
    end = arrivals.end
    with arrivals:
        arrivals.renew(7)
    with path.open("r+b") as file:
        file.write(LAYOUT % (7, end))
    assert known(other) == []
    assert "2 lines in it are damaged" in caplog.text
    put(other, "t3")
    assert known(arrivals) == known(other) == ["t3"]


def test_of_a_file_that_a_power_cut_made_shorter_the_rest_counts(
    arrivals: Arrivals, other: Arrivals, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(arrivals, "t1")
    end = arrivals.end
    put(arrivals, "t2")
    arrivals.close()
    os.truncate(path, end + 10)
    assert known(other) == ["t1"]
    assert "1 lines in it are damaged" in caplog.text
    put(arrivals, "t3")
    assert known(other) == known(arrivals) == ["t1", "t3"]


def test_room_is_made_now_and_then_and_used_again(arrivals: Arrivals, other: Arrivals, path: Path) -> None:
    put(arrivals, "t1")
    size = path.stat().st_size
    assert size > 50 * arrivals.end
    many = [f"t{number}" for number in range(20_000)]
    put(arrivals, *many)
    put(arrivals, "u1")
    grown = path.stat().st_size
    assert grown > arrivals.end > size
    with other:
        other.renew(7)
    put(other, "t2")
    assert (path.stat().st_size, known(arrivals)) == (grown, ["t2"])


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("damage", [b"\0", b"x", b"\n"])
def test_of_what_a_power_cut_damaged_in_the_middle_the_rest_counts(
    arrivals: Arrivals, other: Arrivals, path: Path, damage: bytes, caplog: pytest.LogCaptureFixture, *, ahead: bool
) -> None:
    ends = []
    for name in ("t1", "t2", "t3", "t4"):
        put(arrivals, name)
        ends.append(arrivals.end)
    with path.open("r+b") as file:
        file.seek(ends[0] + 20)
        file.write(damage * 30)
    with caplog.at_level(logging.WARNING, "gateway.tasks.sqlite"):
        if ahead:
            other.read_ahead()
        assert known(other) == ["t1", "t3", "t4"]
    assert "lines in it are damaged, as by a power cut" in caplog.text
    put(other, "t5")
    arrivals.close()
    assert known(arrivals) == known(other) == ["t1", "t3", "t4", "t5"]


def test_who_reads_ahead_has_what_is_told_by_then(arrivals: Arrivals, other: Arrivals) -> None:
    put(arrivals, "t1")
    other.read_ahead()
    put(arrivals, "t2")
    other.read_ahead()
    other.read_ahead()
    assert known(other) == ["t1", "t2"]
    with arrivals:
        arrivals.renew(9)
    other.read_ahead()
    assert known(other) == []
    assert other.epoch == 9


def test_who_reads_ahead_what_is_begun_anew_meanwhile_is_in_doubt(path: Path, epochs: Epochs) -> None:
    """Lines of one length lie where those lay that were not read: by the length nothing was missed."""
    succession, doubts = Succession(), list[str]()

    class Doubting(Seen):
        def doubt(self) -> None:
            doubts.append("not all was heard of")

    class Slow(Arrivals):
        meanwhile: Callable[[], None] = staticmethod(lambda: None)

        def _read(self, end: int) -> None:
            self.meanwhile()
            super()._read(end)

    def renewed() -> None:
        slow.meanwhile = lambda: None
        with carrier:
            carrier.renew(2)
        put(writer, "u1")
        put(writer, "u2")

    writer, carrier = Arrivals(path, epochs), Arrivals(path, epochs, succession=succession)
    slow = Slow(path, epochs, succession=succession, seen=Doubting())
    put(writer, "t1")
    assert known(slow) == ["t1"]
    put(writer, "t2")
    doubts.clear()
    slow.meanwhile = renewed
    slow.read_ahead()
    assert known(slow) == ["u1", "u2"]
    assert doubts
    for each in (writer, carrier, slow):
        each.close()


@pytest.mark.parametrize("left", [b"", b"A2A gate", b"\0" * 5000])
def test_a_head_that_was_never_written_is_written(arrivals: Arrivals, path: Path, left: bytes, epochs: Epochs) -> None:
    path.write_bytes(left)
    epochs.last = 3
    put(arrivals, "t1")
    assert arrivals.epoch == 4
    assert path.read_bytes().startswith(b"A2A gateway arrivals 2 ")


def test_something_else_in_its_place_is_refused_and_left_alone(arrivals: Arrivals, path: Path) -> None:
    text = b"somebody's own notes, which they may want back\n" * 3
    path.write_bytes(text)
    with pytest.raises(OSError, match="holds something else"):
        put(arrivals, "t1")
    assert path.read_bytes() == text


def test_a_file_that_is_removed_from_outside_begins_anew(arrivals: Arrivals, other: Arrivals, path: Path) -> None:
    put(arrivals, "t1")
    put(other, "t2")
    path.unlink()
    assert known(arrivals) == ["t1", "t2"]
    arrivals.watch()
    assert known(arrivals) == []
    put(arrivals, "t3")
    other.watch()
    assert known(other) == ["t3"]
    other.watch()
    put(other, "t4")
    assert known(arrivals) == ["t3", "t4"]


def test_a_file_that_is_moved_is_left_by_all_also_where_it_has_another_name(
    arrivals: Arrivals, other: Arrivals, path: Path
) -> None:
    """A tool that keeps copies gives a file a second name: then nothing tells by the file that it was removed."""
    put(arrivals, "t1")
    kept = path.with_name("kept")
    kept.hardlink_to(path)
    path.unlink()
    other.watch()
    put(other, "t2")
    arrivals.watch()
    assert known(arrivals) == known(other) == ["t2"]
    path.rename(kept)
    assert arrivals.sync() == HEAD
    other.watch()
    put(other, "t3")
    assert known(arrivals) == ["t3"]
    assert arrivals.sync() == other.end


def test_what_whoever_leaves_removes_is_left_by_all_at_once(arrivals: Arrivals, other: Arrivals, path: Path) -> None:
    assert known(arrivals) == known(other) == []
    other.close(leave=True)
    assert not path.exists()
    put(arrivals, "t1")
    assert known(other) == ["t1"]
    assert path.exists()


def test_who_is_killed_while_it_removes_the_file_keeps_nobody_from_it(
    arrivals: Arrivals, other: Arrivals, path: Path, epochs: Epochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def ends(*_: object, **__: object) -> None:
        raise Ended

    assert known(arrivals) == known(other) == []
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", ends)
        with pytest.raises(Ended):
            other.close(leave=True)
    assert path.exists()
    put(arrivals, "t1")
    third = Arrivals(path, epochs)
    assert known(third) == known(other) == ["t1"]
    third.close()


def test_a_link_is_not_followed(arrivals: Arrivals, path: Path) -> None:
    somebodys = path.with_name("somebody's")
    somebodys.write_bytes(b"")
    path.symlink_to(somebodys)
    with pytest.raises(OSError, match="symbolic links"):
        put(arrivals, "t1")
    assert somebodys.read_bytes() == b""


def test_a_file_that_is_removed_as_often_as_it_is_opened_is_an_error(
    arrivals: Arrivals, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = fcntl.flock

    def too_late(file: int, how: int) -> None:
        take(file, how)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with pytest.raises(OSError, match="as often as it is opened"):
        put(arrivals, "t1")


def test_who_may_use_the_database_may_use_what_has_arrived(path: Path, epochs: Epochs) -> None:
    """Root asks for the state while the gateway's own user serves: the file must not become root's."""
    database = path.with_name("state.db")
    database.touch(0o600)
    database.chmod(0o660)
    if os.geteuid() == 0:
        os.chown(database, 1234, 1235)
    arrivals = Arrivals(path, epochs, beside=database)
    put(arrivals, "t1")
    made, like = path.stat(), database.stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (like.st_uid, like.st_gid, 0o660)
    arrivals.close()


def test_whoever_leaves_removes_only_what_is_empty(arrivals: Arrivals, other: Arrivals, path: Path) -> None:
    put(arrivals, "t1")
    arrivals.close(leave=True)
    assert path.exists()
    with other:
        other.renew(2)
    other.close(leave=True)
    other.close(leave=True)
    assert not path.exists()


def test_a_disk_that_is_full_takes_nothing_and_then_goes_on(arrivals: Arrivals, other: Arrivals, path: Path) -> None:
    put(arrivals, "t1")
    size = arrivals.end
    os.truncate(path, size)
    arrivals.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for room in (0, 20):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
            with pytest.raises(OSError, match=r"No space left|File too large") as caught:
                put(arrivals, "t2")
            assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert known(arrivals) == known(other) == ["t1"]
    put(arrivals, "t2")
    assert known(other) == ["t1", "t2"]


def test_what_cannot_be_carried_over_does_not_pile_up(arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_arrivals, "MOST", HEAD)
    put(arrivals, "t1")
    with pytest.raises(OSError, match="cannot be carried over"):
        put(arrivals, "t2")
    assert known(arrivals) == ["t1"]


def test_where_somebody_holds_it_one_call_waits_and_the_others_do_not(
    arrivals: Arrivals, other: Arrivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_arrivals, "_PAUSE", 0.05)
    put(other, "t1")
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    arrivals._patience = 0.001
    with other:
        with pytest.raises(OSError, match="another process holds"):
            put(arrivals, "t2")
        waited = len(pauses)
        for _ in range(3):
            with pytest.raises(OSError, match="another process holds"):
                known(arrivals)
        assert len(pauses) == waited >= 1
    assert known(arrivals) == ["t1"]
    assert arrivals._patience > 0
    # Who waits has it once it is let go of.
    with other:
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(other._file, fcntl.LOCK_UN))
        put(arrivals, "t3")
    assert known(arrivals) == ["t1", "t3"]


@pytest.mark.anyio
async def test_a_store_whose_arrivals_cannot_be_used_knows_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db")
    await store.open()
    assert store.meet("crm", sighting(ACME, "t1")) == Met(ACME)
    assert store._arrivals is not None
    place = store._arrivals._path
    place.unlink()
    place.mkdir()
    store._arrivals.watch()
    for _ in range(2):
        with pytest.raises(StateUnavailable) as caught:
            store.meet("crm", sighting(GLOBEX, "t1"))
        assert "Is a directory" in caught.value.detail
        assert str(tmp_path) not in caught.value.message
    with pytest.raises(StateUnavailable):
        store.tasks("crm", ["t1"])
    place.rmdir()
    assert store.meet("crm", sighting(ACME, "t2")) == Met(ACME)
    await store.aclose()
