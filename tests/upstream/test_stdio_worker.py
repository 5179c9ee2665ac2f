"""One place for a process: kept running as the file says, and empty in the end."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.a2a.dialect import Version
from gateway.a2a.fault import Draining, Fault
from gateway.upstream.stdio_pacing import Pace
from gateway.upstream.stdio_worker import Spec, State, Worker
from tests.upstream.stdio_spec import processes, spec
from tests.upstream.test_stdio_pool import say

pytestmark = pytest.mark.anyio
WAIT = 30.0


class Watched:
    """A worker at work."""

    def __init__(self, how: Spec) -> None:
        self.states: list[State] = []
        self._news = asyncio.Event()
        self.worker = Worker("notes", how, changed=self._changed)
        self.run = asyncio.ensure_future(self.worker.run())

    def _changed(self) -> None:
        self.states.append(self.worker.state)
        self._news.set()

    async def is_ready(self) -> None:
        await self.until(lambda: self.worker.state is State.READY)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not true():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def at_work(how: Spec) -> AsyncIterator[Watched]:
    watched = Watched(how)
    try:
        yield watched
    finally:
        await watched.worker.stop()
        await asyncio.wait_for(watched.run, WAIT)
        assert watched.worker.state is State.ENDED
        assert watched.worker.pid is None


async def test_a_process_is_ready_once_it_has_introduced_itself() -> None:
    async with at_work(spec()) as watched:
        await watched.until(lambda: watched.worker.state is State.READY)
        worker = watched.worker
        assert watched.states == [State.STARTING, State.READY]
        assert worker.introduction is not None
        assert b"Misbehaving" in (worker.introduction.card or b"")
        assert worker.link is not None
        assert (worker.starts, worker.calls, worker.why) == (1, 0, None)
    assert watched.states[-1] is State.ENDED


async def test_one_that_dies_is_started_again_after_a_pause(tmp_path: Path) -> None:
    async with at_work(spec(journal=tmp_path / "j")) as watched:
        for number in (1, 2, 3):
            await watched.until(lambda: watched.worker.state is State.READY)
            assert len(processes(tmp_path / "j")) == number
            os.kill(processes(tmp_path / "j")[-1], 9)
            await watched.until(lambda: watched.worker.state is not State.READY)
            assert watched.worker.why == "it was ended by signal 9"


async def test_one_that_never_starts_is_broken_for_a_while_and_then_tried_again() -> None:
    pace = Pace(first=0.01, longest=0.01, most=3, window=60.0, rest=0.05)
    async with at_work(spec("exits-at-start", pace=pace)) as watched:
        await watched.until(lambda: watched.worker.starts == 5)
        assert State.BROKEN in watched.states
        assert State.READY not in watched.states
        assert watched.worker.why == "it exited with code 3"


async def test_one_that_cannot_be_run_says_why() -> None:
    how = spec()
    command = type(how.command)(("/no/such/program",), "/", {})
    async with at_work(Spec(command, pace=how.pace)) as watched:
        await watched.until(lambda: watched.worker.state is State.PAUSED)
        assert watched.worker.why == "it cannot be started: there is no such program"


async def test_one_that_must_not_start_again_does_not(tmp_path: Path) -> None:
    async with at_work(spec(journal=tmp_path / "j", restart="never")) as watched:
        await watched.until(lambda: watched.worker.state is State.READY)
        os.kill(processes(tmp_path / "j")[0], 9)
        await watched.until(lambda: watched.worker.state is State.ENDED)
    assert len(processes(tmp_path / "j")) == 1


async def test_one_that_left_in_peace_rests_until_it_is_wanted(tmp_path: Path) -> None:
    async with at_work(spec(journal=tmp_path / "j", restart="on-failure")) as watched:
        worker = watched.worker
        await watched.until(lambda: worker.state is State.READY)
        assert worker.link is not None
        await say(worker.link, "ok")
        assert worker._child is not None
        worker._child.close_input()
        await watched.until(lambda: worker.state is State.RESTING)
        assert len(processes(tmp_path / "j")) == 1
        worker.want()
        await watched.until(lambda: worker.state is State.READY)
        assert len(processes(tmp_path / "j")) == 2


async def test_one_that_answers_no_ping_is_started_again() -> None:
    async with at_work(spec("stops", ping=0.05, start=3.0)) as watched:
        worker = watched.worker
        await watched.until(lambda: worker.state is State.READY)
        assert worker.link is not None
        with pytest.raises(Fault):
            # From here on it reads nothing more.
            await worker.link.request("SendMessage", b"", Version.V1_0, 0.1)
        await watched.until(lambda: worker.starts == 2)
        assert "ping" in (worker.why or "")


async def test_one_that_prints_its_card_is_ready_with_it_and_one_that_does_not_is_never() -> None:
    async with at_work(spec("announces", card="printed")) as watched:
        await watched.until(lambda: watched.worker.state is State.READY)
        assert watched.worker.introduction is not None
        assert b"Misbehaving" in (watched.worker.introduction.card or b"")
    async with at_work(spec("exits-at-start", card="printed")) as watched:
        await watched.until(lambda: watched.worker.starts == 2)


async def test_stopping_is_gentle_first_and_fails_what_is_open(tmp_path: Path) -> None:
    for mode, words in (("says-nothing", ["eof"]), ("ignores-term", ["eof", "term"])):
        journal = tmp_path / mode
        watched = Watched(spec(mode, journal=journal))
        await watched.is_ready()
        assert watched.worker.link is not None
        asking = asyncio.ensure_future(watched.worker.link.request("X", b"", Version.V1_0, 10))
        await asyncio.sleep(0)
        await watched.worker.stop()
        await asyncio.wait_for(watched.run, WAIT)
        with pytest.raises(Draining):
            await asking
        assert [line for line in journal.read_text().split("\n") if line in ("eof", "term")] == words


async def test_stopping_while_it_starts_leaves_nothing() -> None:
    watched = Watched(spec("never-starts"))
    await watched.until(lambda: watched.worker.state is State.STARTING)
    await watched.worker.stop()
    watched.run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watched.run
    assert watched.worker.pid is None


async def test_one_that_leaves_in_peace_without_having_served_has_failed(tmp_path: Path) -> None:
    """Or every call that waits would start it anew, as fast as it can be started."""
    pace = Pace(first=60.0)
    async with at_work(spec("leaves", journal=tmp_path / "j", restart="on-failure", pace=pace)) as watched:
        worker = watched.worker
        await watched.is_ready()
        assert worker.link is not None
        with pytest.raises(Fault):
            await worker.link.request("SendMessage", b"", Version.V1_0, WAIT)
        await watched.until(lambda: worker.state is State.PAUSED)
        worker.want()
        assert worker.state is State.PAUSED
        worker.hurry()
        await watched.is_ready()
        assert len(processes(tmp_path / "j")) == 2
