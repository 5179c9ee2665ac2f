"""What cannot be in the tables of a ledger in a file: so an id that is new need not be looked for there.

To look for an id that is not there costs more than all else that an answer waits for, and nearly all answers to sends
name two such. A Bloom filter says of an id that it is not in the tables for sure, or that it may be. It is filled from
the tables by a thread, and with whatever arrives from then on, so it must have heard of every arrival:

- While one process uses the file it hears of all, for it writes them. When the arrivals are begun anew, the thread that
  has carried them over says how far they went (`Succession`), and it is asked whether that is as far as was read.
- Where that is not so, or others have changed the tables, it is *in doubt*: everything is looked for until it has been
  filled again. Several processes that write to one file have none, for the most part.

Everything here is for the event loop, but for `Succession.ended` and `Seen.fill`, which are for the thread.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gateway.tasks.sqlite_schema import is_busy
from gateway.tasks.sqlite_young import Name

MOST_ROWS = 4_000_000
"""Rows of the tables beyond which there is none: it would hold 16 MiB and more."""

# Bits for each name: of a hundred that are not there one or two are looked for all the same.
_BITS = 16
# Names of the first filter for what arrives; each one after it is made for twice as many.
_FIRST = 200_000
# Filters, beyond which it is begun anew: by then what has expired is in them, too.
_MOST_FILTERS = 6
# Seconds for which it stays in doubt; doubled each time.
_AGAIN = 60.0
_LONGEST = 3_600.0
# Names that are young when it is begun: they are gone through on the loop, in a few milliseconds.
_MOST_YOUNG = 4_000
_AT_A_TIME = 1_000
# Parts of that size, and seconds, for one round: what has arrived waits for the thread, too. Where the interpreter is
# busy it takes longer, for the thread has to wait for it with each row.
_PAGES = 200
_ROUND = 1.0

_PAGE = """
    SELECT kind, scope, id FROM record WHERE (kind, scope, id) > (?, ?, ?) ORDER BY kind, scope, id LIMIT ?"""

logger = logging.getLogger("gateway.tasks.sqlite")


class Succession:
    """How the arrivals were begun anew by this process the last time."""

    def __init__(self) -> None:
        self._last = (0, 0, 0)

    def ended(self, epoch: int, end: int, following: int) -> None:
        """An epoch is over: all of its lines are in the tables; told before anybody can see the one that follows.

        Args:
            end: Bytes of the file by then.
        """
        self._last = (epoch, end, following)

    def forget(self) -> None:
        """Nothing joins what was before."""
        self._last = (0, 0, 0)

    def joins(self, epoch: int, end: int, following: int) -> bool:
        """Whether who has read so much of one epoch has missed nothing of what there was before the other."""
        return self._last == (epoch, end, following)


class Bits:
    """A Bloom filter of names.

    Args:
        names: How many it is made for.

    Attributes:
        left: How many it still takes.
    """

    def __init__(self, names: int) -> None:
        length = 1 << (_BITS * names - 1).bit_length()
        self.left = length // _BITS
        self._bits = bytearray(length >> 3)
        self._mask = length - 1

    def add(self, number: int) -> None:
        """Take a name in, by its hash."""
        bits, mask, other = self._bits, self._mask, number >> 30
        bits[(number & mask) >> 3] |= 1 << (number & 7)
        bits[(other & mask) >> 3] |= 1 << (other & 7)
        self.left -= 1

    def holds(self, number: int) -> bool:
        """Whether it may have been taken in; False only where it was not."""
        bits, mask = self._bits, self._mask
        if not bits[(number & mask) >> 3] >> (number & 7) & 1:
            return False
        number >>= 30
        return bool(bits[(number & mask) >> 3] >> (number & 7) & 1)


@dataclass(slots=True)
class _Filling:
    """A filter that is being filled from the tables.

    Attributes:
        after: The last row that was taken in.
    """

    turn: int
    bits: Bits
    after: tuple[int, str, str] = (-1, "", "")


class Seen:
    """What may be in the tables.

    Args:
        clock: Monotonic seconds.

    Attributes:
        ready: Whether it can tell; until then everything may be there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ready = False
        self._clock = clock
        # What was young when it was begun, and has arrived since; the thread's filter is the last one once it is there.
        self._filters: list[Bits] = []
        self._last: Bits | None = None
        # Grows with each beginning and each doubt: what was filled for another one is of no use.
        self._turn = 0
        self._filled: tuple[int, Bits | None] | None = None
        # How far the thread is, and the turn for which it is done; and whether it is about to begin.
        self._filling: _Filling | None = None
        self._done = 0
        self._asked = False
        self._pause = _AGAIN
        self._not_before = 0.0

    def may_hold(self, name: Name) -> bool:
        """Whether the tables may have an entry that has not arrived in this epoch."""
        if not self.ready:
            return True
        number = hash(name)
        for bits in self._filters:  # noqa: SIM110 - no generator: every new task asks twice
            if bits.holds(number):
                return True
        return False

    def add(self, name: Name) -> None:
        """Hear of an entry that has arrived."""
        last = self._last
        if last is None:
            return
        last.add(hash(name))
        if not last.left:
            if len(self._filters) >= _MOST_FILTERS:
                self._give_up()
            else:
                self._begin_next()

    def doubt(self) -> None:
        """Not all was heard of."""
        if self._last is not None:
            now = self._clock()
            if now > self._not_before + _LONGEST:
                # That was long ago.
                self._pause = _AGAIN
            self._not_before = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST)
            self._give_up()

    def go_on(self, young: Collection[Name]) -> None:
        """Do what is due on the loop until it is ready; only while the arrivals are held, all of which have been read.

        Args:
            young: The names of all that has arrived in this epoch.
        """
        if self._filled is not None:
            turn, bits = self._filled
            self._filled = None
            if turn == self._turn and self._last is not None:
                if bits is None:
                    # So that nothing is kept for it.
                    self.doubt()
                    return
                self._filters.append(bits)
                self.ready = True
        elif self._asked and self._last is None and len(young) <= _MOST_YOUNG:
            self._asked = False
            self._turn += 1
            first = self._begin_next()
            for name in young:
                first.add(hash(name))

    def fill(self, db: sqlite3.Connection, pause: Callable[[], object]) -> None:
        """Do what is due in the thread: go on through the tables for about a second, once the loop has begun to listen.

        Args:
            pause: Called now and then, to let others go on.
        """
        if self._last is None:
            self._asked = self._clock() >= self._not_before
            return
        turn = self._turn
        if turn == self._done:
            return
        try:
            self._go_through(db, turn, pause)
        except sqlite3.Error as error:
            if is_busy(error):
                return
            # A damaged page, say: then there is no filter, but what has arrived is carried over all the same.
            logger.warning("the ledger cannot be gone through, so each new id is looked for in it: %s", error)
            self._end(turn, None)
        except MemoryError:
            self._end(turn, None)

    def _go_through(self, db: sqlite3.Connection, turn: int, pause: Callable[[], object]) -> None:
        filling = self._filling
        if filling is None or filling.turn != turn:
            (rows,) = db.execute("SELECT count(*) FROM record").fetchone()
            if rows > MOST_ROWS:
                self._end(turn, None)
                return
            # Some come while it is filled, and do no harm.
            filling = self._filling = _Filling(turn, Bits(rows + _AT_A_TIME))
        until = time.monotonic() + _ROUND
        for _ in range(_PAGES):
            found = db.execute(_PAGE, (*filling.after, _AT_A_TIME)).fetchall()
            for name in found:
                filling.bits.add(hash(name))
            if len(found) < _AT_A_TIME:
                self._end(turn, filling.bits)
                return
            filling.after = found[-1]
            if time.monotonic() >= until:
                return
            pause()

    def _end(self, turn: int, bits: Bits | None) -> None:
        """Leave it to the loop: what was filled, or that there is none."""
        self._filled, self._done, self._filling = (turn, bits), turn, None

    def _begin_next(self) -> Bits:
        self._last = Bits(_FIRST << len(self._filters))
        self._filters.insert(0, self._last)
        return self._last

    def _give_up(self) -> None:
        self._turn += 1
        self.ready, self._last, self._filled = False, None, None
        self._filters.clear()
