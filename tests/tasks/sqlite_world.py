"""Several processes' stores on one file, each with its thread, driven step by step at random beside a plain dictionary.

All of it is in one process: where a thread of a store would leave the interpreter to others, others act here. Disks
fill, and processes are killed, wherever something is written.
"""

import json
import random
import sqlite3
import time
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite, sqlite_arrivals, sqlite_carrying, sqlite_schema, sqlite_seen, sqlite_upkeep
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_carrying import carry_over, settle
from gateway.tasks.sqlite_layout import HEAD, read_head
from gateway.tasks.sqlite_schema import CONTEXT, TASK
from gateway.tasks.store import Bounds, Met, Owner, Row, Sighting, Task
from tests.tasks.asking import NOW
from tests.tasks.sqlite_faults import Faults

OWNERS = [Owner(tenant, principal) for tenant in ("acme", "globex") for principal in ("", "ann")]
SCOPE = "s"
_DEEPEST = 2

Name = tuple[int, str]


class Killed(BaseException):
    """A process was ended here."""


class Process:
    """One store, and what its thread has."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.store._file.open()
        self.thread = sqlite_schema.dial(path, 0.0)
        self.loop_is_busy = False
        self.thread_is_busy = False

    @property
    def arrivals(self) -> Arrivals:
        with self.store._file as db:
            return self.store._of(db)

    def end(self) -> None:
        """As if it were killed: nothing is carried over, nothing removed."""
        self.store._carrier.let_go()
        if self.store._arrivals is not None:
            self.store._arrivals.close()
        self.store._file.close()
        self.thread.close()


class World:
    """Everything of one run.

    Attributes:
        owners: Whose everything is.
        done: How often each thing was done, and how often a filter said that something is not there.
    """

    def __init__(self, path: Path, seed: int, *, processes: int, ids: int, faults: float = 0.02) -> None:
        self.chance = random.Random(seed)
        self.owners: dict[Name, Owner] = {}
        self.done: Counter[str] = Counter()
        self._path = path
        self._ids = ids
        self._faults = faults
        self._now = NOW
        self._depth = 0
        self._hushed = 0
        self._fresh = 0
        self.processes = [Process(path) for _ in range(processes)]
        self._acting = self.processes[0]
        self._looking = sqlite_schema.dial(path, 1.0)
        self._weights: dict[Callable[[Process], None], float] = {
            self.meet: 60,
            self.look: 15,
            self.round: 25,
            self.carry: 4,
            self.settle: 1,
            self.expire: 1,
            self.put_rows: 0.4,
            self.erase: 0.2,
            self.count: 0.5,
            self.kill: 0.3,
            self.tear: 0.3,
            self.leave: 0.3,
            self.remove: 0.3,
        }

    def end(self) -> None:
        for process in self.processes:
            process.end()
        self._looking.close()

    # ---- Steps -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Have one of them do something."""
        (what,) = self.chance.choices([*self._weights], [*self._weights.values()])
        in_thread = what in (self.round, self.carry)
        process = self.chance.choice(self.processes)
        if not in_thread:
            # One goes on for a while, and the others fall behind.
            process = self._acting = process if self.chance.random() < 0.2 else self._acting
        if process.thread_is_busy if in_thread else process.loop_is_busy:
            return
        if what in (self.kill, self.leave) and (process.thread_is_busy or process.loop_is_busy):
            return
        self.done[what.__name__] += 1
        self._now += self.chance.choice((0, 0, 1, 70))
        kind = "thread_is_busy" if in_thread else "loop_is_busy"
        setattr(process, kind, True)
        try:
            what(process)
        except Killed:
            self._restart(process)
        finally:
            setattr(process, kind, False)

    def meet(self, process: Process) -> None:
        if self.chance.random() < 0.5:
            self._fresh += 1
            number = self._fresh
        else:
            number = max(0, self._fresh - self.chance.randrange(self._ids))
        task, context = self.chance.choice(
            ((f"t{number}", ""), ("", f"c{number}"), (f"t{number}", f"c{number}"), (f"t{number}", f"c{number // 3}"))
        )
        owner = self.chance.choice(OWNERS)
        seen = Sighting(
            owner, task, context, self.chance.choice(("", "working", "completed")), now=self._now,
            apart=self.chance.random() < 0.5, marked=self.chance.random() < 0.1,
        )  # fmt: skip
        names = [name for name in ((TASK, task), (CONTEXT, context)) if name[1]]
        try:
            met = process.store.meet(SCOPE, seen)
        except (StateUnavailable, MemoryError, Killed) as fault:
            self.done["not told"] += 1
            self._learn(names, owner)
            if isinstance(fault, Killed):
                raise
            return
        # As it was when it was decided: who else did anything meanwhile did it before.
        of_task, of_context = self.owners.get((TASK, task)), self.owners.get((CONTEXT, context))
        if seen.is_foreign(of_task, of_context):
            assert met == Met(of_task, of_context)
        else:
            assert met == Met((of_task or owner) if task else None, (of_context or owner) if context else None)
            for name in names:
                self.owners.setdefault(name, owner)

    def look(self, process: Process) -> None:
        kind, number = self.chance.choice((TASK, CONTEXT)), self._fresh - self.chance.randrange(self._ids)
        id_ = f"t{number}" if kind == TASK else f"c{number}"
        found: Owner | None
        try:
            if kind == TASK:
                (task,) = process.store.tasks(SCOPE, [id_])
                found = None if task is None else task.owner
            else:
                found = process.store.context(SCOPE, id_)
        except (StateUnavailable, MemoryError):
            self.done["not told"] += 1
            return
        # What is gone may be told of until whoever has had it forgotten says so.
        assert (kind, id_) not in self.owners or found == self.owners[kind, id_]

    def round(self, process: Process) -> None:
        """As the thread does every two seconds, though it never thinks it time to carry over."""
        self._in_thread(process, lambda: process.store._carrier.round(process.thread))

    def carry(self, process: Process) -> None:
        carrier = process.store._carrier
        loop = self.chance.choice((carrier.loop, None))
        self._in_thread(process, lambda: carry_over(process.thread, carrier._of(process.thread), loop))

    def settle(self, process: Process) -> None:
        def work() -> None:
            with process.store._file as db:
                settle(db, process.store._of(db))

        self._excused(work)

    def expire(self, process: Process) -> None:
        kept = self.chance.choice((50, 200, 1000))
        bounds = Bounds(ended=kept, open=kept, tasks=self.chance.choice((self._ids, 2 * self._ids)))
        self._excused(lambda: process.store.expire(self._now, bounds, 1000), forgets=True)

    def erase(self, process: Process) -> None:
        self._excused(lambda: process.store.erase(self.chance.choice(OWNERS).tenant), forgets=True)

    def count(self, process: Process) -> None:
        self._excused(process.store.figures)

    def put_rows(self, process: Process) -> None:
        rows: list[Row] = []
        for _ in range(3):
            owner, number = self.chance.choice(OWNERS), max(0, self._fresh + 20 - self.chance.randrange(self._ids))
            if self.chance.random() < 0.5:
                rows.append(Row(SCOPE, f"t{number}", task=Task(owner, made=self._now, seen=self._now), seen=self._now))
            else:
                rows.append(Row(SCOPE, f"c{number}", context=owner, seen=self._now))
        try:
            process.store.put_rows(rows)
        except (StateUnavailable, MemoryError, Killed) as fault:
            for row in rows:
                self._learn([(TASK if row.task else CONTEXT, row.id)], row.task.owner if row.task else row.context)
            if isinstance(fault, Killed):
                raise
            return
        for row in rows:
            whose = row.task.owner if row.task else row.context
            assert whose is not None
            self.owners.setdefault((TASK if row.task else CONTEXT, row.id), whose)

    def kill(self, process: Process) -> None:
        self._restart(process)

    def leave(self, process: Process) -> None:
        """It ends in order, and another one starts."""

        def work() -> None:
            process.store._carrier.leave(process.thread)

        process.thread_is_busy = True
        try:
            self._in_thread(process, work)
        finally:
            process.thread_is_busy = False
        self._restart(process)

    def tear(self, _: Process) -> None:
        """Somebody was killed while it wrote, or a power cut damaged a line that was not told of."""
        place = self._place()
        if place.exists() and (found := read_head(place.read_bytes()[:HEAD])) is not None:
            with place.open("r+b") as file:
                file.seek(found[1])
                file.write(self.chance.choice((b"0", b'12345678[[1,"s","t', b"00000000[]\n", b"\n", b"1234\n567")))

    def remove(self, _: Process) -> None:
        """Somebody removes the file while nothing is in it, and all find out before they do anything else."""
        place = self._place()
        if place.exists() and (found := read_head(place.read_bytes()[:HEAD])) is not None and found[1] == HEAD:
            with self.hushed():
                place.unlink()
            self.done["removed"] += 1
            for process in self.processes:
                for view in (process.store._arrivals, process.store._carrier._arrivals):
                    if view is not None:
                        view.watch()

    # ---- What is true ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Nobody's filter says of what is in the tables that it is not, and nothing is lost."""
        tables, young = self._written()
        assert {**young, **tables} == self.owners
        # Of one of them: the others stay as far behind as they are.
        process = self.chance.choice(self.processes)
        if process.loop_is_busy:
            return
        with self.hushed(), (arrivals := process.arrivals) as known:
            seen = arrivals.seen
            if not seen.ready:
                return
            self.done["ready"] += 1
            for kind, id_ in tables:
                assert (kind, SCOPE, id_) in known.entries or seen.may_hold((kind, SCOPE, id_)), (kind, id_)
            self.done["told new"] += sum(not seen.may_hold((TASK, SCOPE, f"never-{number}")) for number in range(20))

    def _written(self) -> tuple[dict[Name, Owner], dict[Name, Owner]]:
        """What is in the tables, and in whole lines of the arrivals."""
        found = self._looking.execute("SELECT kind, id, tenant, principal FROM record").fetchall()
        tables = {(kind, id_): Owner(tenant, principal) for kind, id_, tenant, principal in found}
        place, young = self._place(), {}
        data = place.read_bytes() if place.exists() else b""
        if (head := read_head(data[:HEAD])) is not None:
            epoch, end = head
            for line in data[HEAD:end].split(b"\n")[:-1]:
                if line[:8] == b"%08x" % zlib.crc32(line[8:], epoch):
                    for entry in json.loads(line[8:]):
                        young[entry[0], entry[2]] = Owner(entry[3], entry[4])
        for name in tables.keys() & young.keys():
            assert tables[name] == young[name]
        return tables, young

    def _learn(self, names: list[Name], owner: Owner | None) -> None:
        """Of what nobody was told it may have been written down, or not."""
        tables, young = self._written()
        for name in names:
            found = {**young, **tables}.get(name)
            if name in self.owners:
                assert found == self.owners[name]
            elif found is not None:
                assert found == owner
                self.owners[name] = found

    def forget(self) -> None:
        """Some of it may be gone, for somebody has had it forgotten or erased."""
        tables, young = self._written()
        left = {**young, **tables}
        self.owners = {name: owner for name, owner in self.owners.items() if name in left}
        assert left == self.owners

    def _place(self) -> Path:
        (name,) = self._looking.execute("SELECT id FROM arrivals").fetchone()
        return self._path.with_name(f"{self._path.name}-{name}")

    # ---- How it goes wrong -----------------------------------------------------------------------------------------

    def others(self) -> None:
        """Whoever would be running now."""
        if self._hushed or self._depth >= _DEEPEST:
            return
        self._depth += 1
        try:
            for _ in range(self.chance.randrange(4)):
                self.step()
        finally:
            self._depth -= 1

    def happens(self, chance: float) -> bool:
        """Whether something does that is this likely."""
        return not self._hushed and self.chance.random() < chance

    def fault(self, *, most: int) -> int | None:
        """How much of so many bytes is written before the disk is full; None for all of it.

        Raises:
            Killed: nothing is.
        """
        if self._hushed or self.chance.random() >= self._faults:
            return None
        if self.chance.random() < 0.4:
            raise Killed
        return self.chance.randrange(most + 1)

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Nothing goes wrong inside, and nobody else acts."""
        self._hushed += 1
        try:
            yield
        finally:
            self._hushed -= 1

    def _in_thread(self, process: Process, work: Callable[[], object]) -> None:
        try:
            work()
        except (sqlite3.Error, OSError):
            # As `Checkpoints` does.
            process.store._carrier.let_go()

    def _excused(self, work: Callable[[], object], *, forgets: bool = False) -> None:
        try:
            work()
        except (StateUnavailable, MemoryError):
            self.done["not told"] += 1
        finally:
            if forgets:
                self.forget()

    def _restart(self, process: Process) -> None:
        with self.hushed():
            if process.thread_is_busy and process.loop_is_busy:
                # The other half of it is in the midst of something, further up; that is another run's.
                return
            process.end()
            Process.__init__(process, self._path)

    def turn(self) -> None:
        """One step, and now and then a look at everything."""
        self.step()
        if self.chance.random() < 0.2:
            self.check()


@contextmanager
def world(path: Path, seed: int, *, processes: int, ids: int, faults: float = 0.02) -> Iterator[World]:
    """One run, with everything patched that it needs."""
    made: list[World] = []
    faults_of = Faults(lambda: made[0] if made else None)
    say_changed = sqlite._say_changed

    def saying_changed(arrivals: Arrivals) -> None:
        # By now it is gone from the tables, so whoever acts meanwhile may have it.
        made[0].forget()
        say_changed(arrivals)

    clock = types.SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=lambda _: made[0].others())
    quick = types.SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=lambda _: None)
    chance = random.Random(seed)
    with ExitStack() as stack:
        for owner, name, value in (
            (sqlite_arrivals, "fcntl", faults_of.locks()),
            (sqlite_arrivals, "os", faults_of.system()),
            (sqlite_arrivals, "Seen", faults_of.seen()),
            (Path, "unlink", faults_of.unlink()),
            (sqlite, "_say_changed", saying_changed),
            (sqlite, "_AT_ONCE_OVER", chance.choice((0, 3, 100))),
            (sqlite_carrying, "Arrivals", faults_of.arrivals()),
            (sqlite_carrying, "step", faults_of.step),
            (sqlite_carrying, "time", clock),
            (sqlite_carrying, "_FEW", chance.choice((0, 1, 16))),
            (sqlite_carrying, "_AT_A_TIME", chance.choice((1, 3, 200))),
            (sqlite_upkeep, "time", quick),
            (sqlite_seen, "_AGAIN", 0.0),
            (sqlite_seen, "_FIRST", chance.choice((16, 64, 200_000))),
            (sqlite_seen, "_MOST_FILTERS", chance.choice((2, 4, 6))),
            (sqlite_seen, "_MOST_YOUNG", chance.choice((10, 4_000))),
            (sqlite_seen, "_AT_A_TIME", chance.choice((1, 7, 1_000))),
            (sqlite_seen, "_PAGES", chance.choice((1, 5, 200))),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        made.append(World(path, seed, processes=processes, ids=ids, faults=faults))
        try:
            yield made[0]
        finally:
            with made[0].hushed():
                made[0].end()
