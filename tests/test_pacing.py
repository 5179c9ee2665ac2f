"""Work beside the loop gives way to it: whatever there is to read, the loop has a turn after a millisecond of it."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from gateway import pacing
from gateway.admission import quotas_of
from gateway.aside import aside
from gateway.config.check import Examined
from gateway.config.difference import changes
from gateway.config.files import files
from gateway.config.model import Config
from gateway.dismantling import dismantle, dismantle_file
from gateway.pacing import WORK, Pace, give_way, paced, unhurried
from gateway.reload import Origin, usable
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import Metrics
from tests.doubles.assembly import CARD

pytestmark = pytest.mark.anyio


class Hands:
    """Clocks that go on by hand, and a loop that turns at once."""

    def __init__(self, *, turns: bool = True) -> None:
        self.worked = self.now = 0.0
        self.asked = 0
        self._turns = turns

    def soon(self, call: Callable[[], None]) -> None:
        self.asked += 1
        if self._turns:
            call()

    def pace(self, patience: float = 5.0) -> Pace:
        return Pace(self.soon, worked=lambda: self.worked, now=lambda: self.now, patience=patience)

    def work(self, seconds: float) -> None:
        self.worked += seconds
        self.now += seconds


# ---- When it gives way -----------------------------------------------------------------------------------------------


def test_the_loop_has_a_turn_after_each_millisecond_of_work() -> None:
    hands = Hands()
    pace = hands.pace()
    for _ in pace.through(range(40)):
        hands.work(WORK / 4)
    assert hands.asked == pace.turns == 9


def test_time_in_which_others_had_the_processor_is_no_work() -> None:
    hands = Hands()
    pace = hands.pace()
    for _ in range(10):
        hands.now += 1.0
        pace.give_way()
    assert hands.asked == 0


def test_a_loop_that_does_not_turn_is_waited_for_no_longer_than_patience_lasts() -> None:
    asked: list[Callable[[], None]] = []
    pace = Pace(asked.append, worked=iter(range(100)).__next__, patience=0.01)
    for _ in pace.through(range(10)):
        busy_for(WORK)
    assert len(asked) == 1
    # It turns after all: nobody is there any more to hear of it.
    asked[0]()


def test_the_longer_the_loop_is_waited_for_the_more_is_done_in_one_go() -> None:
    hands = Hands()

    def turn(call: Callable[[], None]) -> None:
        hands.now += 0.5
        hands.soon(call)

    pace = Pace(turn, worked=lambda: hands.worked, now=lambda: hands.now, patience=8.0)
    for _ in pace.through(range(10_000)):
        hands.work(WORK / 10)
    # A second of work: 1 ms in one go at first, then 1.5 ms, at last 9 ms; nobody waits for longer than 8 s.
    assert pace.turns == hands.asked == 16
    assert hands.now == pytest.approx(9.0)


def test_a_loop_that_is_closed_is_not_waited_for() -> None:
    asked = 0

    def closed(_call: Callable[[], None]) -> None:
        nonlocal asked
        asked += 1
        raise RuntimeError("Event loop is closed")

    hands = Hands()
    pace = Pace(closed, worked=lambda: hands.worked, now=lambda: hands.now)
    for _ in pace.through(range(10)):
        hands.work(WORK)
    assert (asked, pace.turns) == (1, 0)


def test_where_there_is_no_pace_nothing_stands_between_the_items_and_who_goes_through_them() -> None:
    items = [1, 2]
    assert unhurried(items) is items
    give_way()


def test_a_pace_holds_for_its_work_alone() -> None:
    hands = Hands()

    def work() -> int:
        for _ in unhurried(range(3)):
            hands.work(WORK)
        give_way()
        return hands.asked

    assert paced(hands.pace(), work) == 3
    hands.work(WORK)
    give_way()
    assert hands.asked == 3


def test_what_the_work_has_another_thread_do_waits_for_nobody() -> None:
    # As the loop does what it is told by the work, in the same context: it would wait for itself.
    hands = Hands(turns=False)
    pace = hands.pace()
    hands.work(WORK)
    other = threading.Thread(target=paced, args=(pace, give_way))
    other.start()
    other.join()
    assert hands.asked == 0


# ---- Beside a loop ---------------------------------------------------------------------------------------------------


def busy_for(seconds: float) -> None:
    """Work for so long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_between_two_turns_of_the_loop_there_is_one_piece_of_work() -> None:
    turns = 0
    over = False

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not over:
            asyncio.get_running_loop().call_soon(turn)

    def work() -> list[int]:
        seen = []
        for _ in unhurried(range(12)):
            seen.append(turns)
            # More than is done in one go by who has waited for as long as may be.
            busy_for(10 * WORK)
        return seen

    turn()
    seen = await aside(work)
    over = True
    assert len(set(seen)) == len(seen)


# ---- What gives way --------------------------------------------------------------------------------------------------


class Places:
    """Counts what is done between two places to stop, in calls: that is the same on any machine."""

    def __init__(self) -> None:
        self.most = 0
        self._calls = 0

    def give_way(self) -> None:
        self.most = max(self.most, self._calls)
        self._calls = 0

    def through(self, items: Iterator[object]) -> Iterator[object]:
        for item in items:
            self.give_way()
            yield item

    def count(self, work: Callable[[], object]) -> None:
        def called(_frame: FrameType, event: str, _about: object) -> None:
            if event in ("call", "c_call"):
                self._calls += 1

        self.give_way()
        before = sys.getprofile()
        sys.setprofile(called)
        try:
            work()
        finally:
            sys.setprofile(before)
        self.give_way()


def written(agents: int, more: str) -> str:
    """A file with so many of all that a file may have many of."""
    tenants = "".join(f"  t-{number}: [one-{number}]\n" for number in range(agents))
    keys = "".join(f"    k-{number}: {{ sha256: '{number:064x}', tenant: t-{number} }}\n" for number in range(agents))
    each = (
        "backend: 'http://127.0.0.1:1/{}', expose: [jsonrpc, grpc], card: {{ file: card.json }}, match: {{ host: {} }}"
    )
    own = "".join(f"  one-{number}: {{ {each.format(number, f'h{number}.example')} }}\n" for number in range(agents))
    return (
        f"version: 1\ngateway: {{ listen_grpc: '127.0.0.1:0' }}\nauth:\n  api_keys:\n{keys}tenants:\n{tenants}"
        f"defaults: {{ {more} }}\nagents:\n{own}"
    )


def most_between(folder: Path, agents: int) -> dict[str, int]:
    """What is done between two places to stop at most, in each part of a reload."""
    file = folder / "gateway.yaml"
    (folder / "card.json").write_bytes(CARD)
    metrics = Metrics("1")
    found: dict[str, int] = {}

    def part(name: str, work: Callable[[], object]) -> None:
        places = Places()
        token = pacing._pace.set(places)  # type: ignore[arg-type]  # it counts, and waits for nobody
        try:
            places.count(work)
        finally:
            pacing._pace.reset(token)
        found[name] = places.most

    def examined(more: str) -> tuple[Examined, Config]:
        file.write_text(written(agents, more))
        made = Origin(file, {}).read()
        assert made.config is not None, made.problems
        return made, made.config

    def built(of: Examined, before: Snapshot | None) -> Snapshot:
        return Snapshot.build(of, metrics, "http://127.0.0.1:1", "127.0.0.1:2", before=before)

    (old, running), (new, config) = examined("retry: { max: 1 }"), examined("retry: { max: 2 }")
    before = built(old, None)
    last = [built(new, before)]
    part("read", Origin(file, {}).read)
    part("use", lambda: usable(running, new, has_store=True))
    part("limits", lambda: quotas_of(config))
    part("build", lambda: built(new, before))
    part("look", lambda: files(new))
    part("compare", lambda: changes(running, config))
    part("render", metrics.render)
    part("let go", lambda: dismantle(last))
    part("let go of the file", lambda: dismantle_file([replace(old)]))
    return found


def test_with_more_agents_there_are_more_places_to_stop_and_no_more_work_between_two(tmp_path: Path) -> None:
    few, many = (most_between(tmp_path, agents) for agents in (50, 150))
    # A look at one key of each agent, or at its name, is done in one go: a microsecond.
    grown = {name: (few[name], many[name]) for name in few if many[name] > few[name] + 100 * 10}
    assert not grown
