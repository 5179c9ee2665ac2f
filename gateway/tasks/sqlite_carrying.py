"""Carries the arrivals of the ledger in a file over into its tables.

Sorted by their ids, many entries touch few pages each, so it is done with thousands at a time: in short transactions,
for others write to the database meanwhile, and one after the other until few are left that came in the meantime. Those
are carried over while the arrivals are held, and in that transaction the epoch ends: then the file is begun anew. Where
others write so fast that few are never left, more and more count as few: else it would not end before the file is full.

Whoever carries over takes a *turn*, a number in the database, before it looks at the arrivals; and each transaction
asks whether that is the last one still. So nobody writes what has changed since, though several begin. A thread leaves
it alone for a while where another one has a turn.
"""

import contextlib
import operator
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from msgspec.structs import astuple

from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_file import step
from gateway.tasks.sqlite_layout import HEAD
from gateway.tasks.sqlite_seen import Succession
from gateway.tasks.sqlite_young import Entry
from gateway.tasks.store import OPEN

MANY = 4 << 20
"""Bytes of arrivals that are carried over at once: about 16,000 tasks with their contexts."""
LATER = 30.0
"""Seconds after which fewer are carried over as well."""

# Entries of one transaction, while which others wait: a few milliseconds.
_AT_A_TIME = 200
# Entries that are sorted at a time, before what is sorted is merged: a millisecond or two, for which the event loop
# has to wait.
_SORTED = 4_000
# Entries that are carried over while the arrivals are held: twice as many with each round, 8,192 in the last.
_FEW = 16
_MOST_ROUNDS = 10
# Rounds after which the log is put on the disk: that takes time, in which more comes.
_SYNCED_ROUNDS = 3
# Seconds between two thousand rows of the tables that are gone through.
_PAUSE = 0.002
# Seconds after its last transaction for which a turn is left to whoever has it; a killed one keeps it for no longer.
_TURN = 10.0

_ROW = f"({', '.join('?' * len(Entry.__struct_fields__))})"
_OPEN = ", ".join(f"'{state}'" for state in sorted(OPEN))
# Columns of VALUES are those of an entry, in its order.
_CARRY = """
    INSERT INTO record (
        kind, scope, id, tenant, principal, context, state, replica, dialect, made, seen, aged, open, epoch
    ) SELECT *, column1 = 1 AND column7 IN ({open}), ? FROM (VALUES {rows}) WHERE true
    ON CONFLICT (kind, scope, id) DO UPDATE
    SET context = excluded.context, state = excluded.state, open = excluded.open, seen = excluded.seen,
        aged = excluded.aged, epoch = excluded.epoch
    WHERE tenant = excluded.tenant AND principal = excluded.principal"""
_BY_NAME = operator.attrgetter("kind", "scope", "id")
_BY_ID = operator.attrgetter("id")


class Overtaken(Exception):  # noqa: N818 - nothing is wrong
    """Somebody else carries over."""


class Carrier:
    """Carries over from a thread: when there is much, or it has been there for long.

    Args:
        path: Of the database.

    Attributes:
        succession: How it begins the arrivals anew.
        loop: What the event loop has read of the arrivals, which is not read again here; and whose filter is filled
            from the tables in the same thread. None for nothing.
    """

    def __init__(self, path: Path, *, many: int = MANY, later: float = LATER) -> None:
        self.succession = Succession()
        self.loop: Arrivals | None = None
        self._path = path
        self._many = many
        self._later = later
        self._arrivals: Arrivals | None = None
        self._db: sqlite3.Connection | None = None
        # When something was found there first that is there still.
        self._since: float | None = None

    def round(self, db: sqlite3.Connection) -> None:
        """Put what has arrived on the disk, and carry it over if it is time.

        Raises:
            sqlite3.Error, OSError: it cannot be now.
        """
        arrivals = self._of(db)
        if self.loop is not None:
            self.loop.watch()
        if self._is_time(arrivals.sync()) and not _is_busy(db):
            carry_over(db, arrivals, self.loop)
        # Last, for nobody has to wait for it.
        if self.loop is not None:
            self.loop.seen.fill(db, lambda: time.sleep(_PAUSE))

    def _is_time(self, size: int) -> bool:
        if size <= HEAD:
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if size < self._many and now < self._since + self._later:
            return False
        self._since = None
        return True

    def leave(self, db: sqlite3.Connection) -> None:
        """Carry over what is left, and remove the file of arrivals if nobody wrote to it meanwhile.

        Raises:
            sqlite3.Error, OSError: it cannot be now; it is read again at the next start.
        """
        arrivals = self._of(db)
        carry_over(db, arrivals, self.loop)
        arrivals.close(leave=True)

    def let_go(self) -> None:
        """Close the file."""
        if self._arrivals is not None:
            self._arrivals.close()
        self._arrivals = self._db = None

    def _of(self, db: sqlite3.Connection) -> Arrivals:
        if self._arrivals is None or self._db is not db:
            self.let_go()
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA wal_autocheckpoint = 0")
            self._arrivals, self._db = arrivals_of(db, self._path, self.succession), db
        return self._arrivals


def arrivals_of(db: sqlite3.Connection, path: Path, succession: Succession | None = None) -> Arrivals:
    """The arrivals of a database.

    Args:
        succession: How this process begins them anew.
    """
    (name,) = db.execute("SELECT id FROM arrivals").fetchone()
    # As SQLite's own log: beside the file itself, by whichever link each process knows it.
    path = path.resolve()
    place = path.with_name(f"{path.name}-{name}")
    return Arrivals(place, lambda: _next_epoch(db), beside=path, succession=succession)


def carry_over(db: sqlite3.Connection, arrivals: Arrivals, loop: Arrivals | None = None) -> None:
    """Carry over all that has arrived, a part at a time; others write meanwhile.

    Args:
        loop: Another view of this process, which may have read most of it.

    Raises:
        sqlite3.Error, OSError: it cannot be now; nothing is lost.
    """
    with step(db):
        turn = _take_turn(db, time.time() + _TURN)  # noqa: TID251 - for other processes
    try:
        if loop is not None:
            arrivals.join(loop)
        _carry_over(db, arrivals, turn)
    except Overtaken:
        return
    finally:
        # Whatever went wrong, the next one need not wait.
        with contextlib.suppress(sqlite3.Error):
            db.execute("UPDATE arrivals SET until = 0 WHERE turn = ? AND until <> 0", (turn,))


def _carry_over(db: sqlite3.Connection, arrivals: Arrivals, turn: int) -> None:
    arrivals.read_ahead()
    with arrivals as young:
        epoch, young.news = arrivals.epoch, {}
        entries = arrivals.arrived()
    for number in range(_MOST_ROUNDS):
        for part in _parts(entries):
            began = time.monotonic()
            with step(db):
                _ask(db, turn)
                _put(db, part, epoch)
            time.sleep(min(time.monotonic() - began, 0.1))
        if number < _SYNCED_ROUNDS:
            # The log gets onto the disk before the arrivals leave it; who writes next may have to wait for the disk,
            # which nobody does while they are held.
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        arrivals.read_ahead()
        with arrivals as young:
            if arrivals.epoch != epoch or young.news is None:
                return
            entries = list(young.news.values())
            if len(entries) <= _FEW << number:
                _end_epoch(db, arrivals, sorted(entries, key=_BY_NAME), lambda: _ask(db, turn))
                return
            young.news = {}


def settle(db: sqlite3.Connection, arrivals: Arrivals) -> None:
    """Carry over all that has arrived at once: for few, or where nobody else has to wait.

    Raises:
        sqlite3.Error, OSError: as `carry_over`.
    """
    with arrivals:
        if entries := arrivals.arrived():
            _end_epoch(db, arrivals, sorted(entries, key=_BY_NAME), lambda: _take_turn(db, 0.0))


def _end_epoch(
    db: sqlite3.Connection, arrivals: Arrivals, entries: Sequence[Entry], turn: Callable[[], object]
) -> None:
    """Carry over the last entries while the arrivals are held, and begin these anew."""
    with step(db):
        turn()
        for start in range(0, len(entries), _AT_A_TIME):
            _put(db, entries[start : start + _AT_A_TIME], arrivals.epoch)
        # A power cut may have taken the database further back than the arrivals.
        db.execute("UPDATE arrivals SET epoch = max(epoch, ?), until = 0", (arrivals.epoch,))
        epoch = _following(db)
    arrivals.renew(epoch)


def _parts(entries: Iterable[Entry]) -> Iterator[Sequence[Entry]]:
    """What is carried over at a time, in the order of the table; of two with one name, the last is the last."""
    alike: dict[tuple[int, str], list[Entry]] = {}
    for entry in entries:
        alike.setdefault((entry.kind, entry.scope), []).append(entry)
    ordered = chain.from_iterable(_by_id(alike[key]) for key in sorted(alike))
    while part := list(islice(ordered, _AT_A_TIME)):
        yield part


def _by_id(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Them in the order of their ids; where `MANY` come at once, nobody waits longer than `_SORTED` says."""
    runs = [sorted(entries[at : at + _SORTED], key=_BY_ID) for at in range(0, len(entries), _SORTED)]
    while len(runs) > 1:
        # What is sorted already is found out, and only merged.
        runs = [sorted(chain.from_iterable(runs[at : at + 2]), key=_BY_ID) for at in range(0, len(runs), 2)]
    return runs[0]


def _put(db: sqlite3.Connection, entries: Sequence[Entry], epoch: int) -> None:
    at = 0
    while left := len(entries) - at:
        # All at once, or a power of two: of each number, Python keeps a statement, up to 150 KiB of them.
        number = left if left == _AT_A_TIME else 1 << left.bit_length() - 1
        some = entries[at : at + number]
        statement = _CARRY.format(open=_OPEN, rows=", ".join([_ROW] * number))
        db.execute(statement, [epoch, *chain.from_iterable(map(astuple, some))])
        at += number


def _next_epoch(db: sqlite3.Connection) -> int:
    with step(db):
        return _following(db)


def _following(db: sqlite3.Connection) -> int:
    db.execute("UPDATE arrivals SET epoch = epoch + 1")
    (epoch,) = db.execute("SELECT epoch FROM arrivals").fetchone()
    return int(epoch)


def _is_busy(db: sqlite3.Connection) -> bool:
    """Whether somebody carries over; who seems to be at it for longer than anybody is has another clock."""
    (until,) = db.execute("SELECT until FROM arrivals").fetchone()
    return 0 < until - time.time() <= _TURN  # type: ignore[no-any-return]  # noqa: TID251 - as above


def _take_turn(db: sqlite3.Connection, until: float) -> int:
    db.execute("UPDATE arrivals SET turn = turn + 1, until = ?", (until,))
    (turn,) = db.execute("SELECT turn FROM arrivals").fetchone()
    return int(turn)


def _ask(db: sqlite3.Connection, turn: int) -> None:
    """Go on with a turn, if it is the last one still."""
    until = time.time() + _TURN  # noqa: TID251 - for other processes
    if not db.execute("UPDATE arrivals SET until = ? WHERE turn = ?", (until, turn)).rowcount:
        raise Overtaken
