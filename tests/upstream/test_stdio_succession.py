"""Processes that take the place of others: calls always find those that are ready."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.a2a.dialect import Version
from gateway.a2a.fault import Draining
from gateway.upstream.stdio_child import Command
from gateway.upstream.stdio_link import Link
from gateway.upstream.stdio_pool import StdioPool
from gateway.upstream.stdio_succession import Stage
from gateway.upstream.stdio_worker import Spec
from tests.upstream.stdio_spec import processes, spec
from tests.upstream.test_stdio_pool import WAIT, say

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def place(how: Spec) -> AsyncIterator[tuple[StdioPool, Link]]:
    """Processes that serve, and their pipe."""
    pool = StdioPool("notes", how)
    try:
        yield pool, await pool.link(None, None, WAIT)
    finally:
        await pool.aclose()


@asynccontextmanager
async def successor(old: StdioPool, how: Spec) -> AsyncIterator[StdioPool]:
    pool = StdioPool("notes", how)
    pool.succeed(old)
    try:
        yield pool
    finally:
        await pool.aclose()
        assert pool.before is None


async def reached(pool: StdioPool, stage: Stage) -> None:
    async with asyncio.timeout(WAIT):
        while pool._succession is None or pool._succession.stage is not stage:
            await pool.change()


async def test_calls_go_to_the_old_ones_until_the_new_ones_are_ready_and_then_those_end(tmp_path: Path) -> None:
    async with (
        place(spec()) as (old, link),
        successor(old, spec("waits-to-start", journal=tmp_path / "j")) as new,
    ):
        assert new.link_nowait() is link
        assert (new.before, new.is_ready) == (old, False)
        (tmp_path / "j.go").touch()
        await reached(new, Stage.OVER)
        own = new.link_nowait()
        assert own is not None
        assert own is not link
        async with asyncio.timeout(WAIT):
            await link.broken
        assert (await say(own, "ok"))["message"]["parts"][0]["text"] == "ok"


async def test_calls_that_are_open_at_the_old_ones_go_on_to_their_end() -> None:
    async with place(spec("says-nothing")) as (old, link):
        asking = asyncio.ensure_future(link.request("X", b"", Version.V1_0, WAIT))
        await asyncio.sleep(0)
        async with successor(old, spec()) as new:
            await reached(new, Stage.OVER)
            assert new.link_nowait() is not link
            assert (new.is_busy, link.is_up) == (True, True)
            asking.cancel()
            async with asyncio.timeout(WAIT):
                await link.broken


async def test_who_waits_for_the_old_ones_is_served_by_the_new_ones() -> None:
    old = StdioPool("notes", spec("never-starts"))
    waiting = asyncio.ensure_future(old.link(None, None, WAIT))
    await asyncio.sleep(0)
    async with successor(old, spec()) as new:
        # What never got ready is no help.
        assert new.before is None
        found = await waiting
        assert found is new.link_nowait()


async def test_where_there_can_only_be_one_the_old_one_makes_room(tmp_path: Path) -> None:
    async with (
        place(spec("is-alone", journal=tmp_path / "j")) as (old, link),
        successor(old, spec("is-alone", "7", journal=tmp_path / "j")) as new,
    ):
        await reached(new, Stage.OVER)
        assert not link.is_up
        assert [worker.why for worker in new.workers] == ["it exited with code 4"]
        own = new.link_nowait()
        assert own is not None
        assert (await say(own, "ok"))["message"]["parts"][0]["text"] == "ok"


async def test_what_does_not_start_alone_either_leaves_the_place_to_the_old_ones(tmp_path: Path) -> None:
    async with place(spec(journal=tmp_path / "j")) as (old, link), successor(old, spec("exits-at-start")) as new:
        assert new.link_nowait() is link
        await reached(new, Stage.BACK)
        again = await new.link(None, None, WAIT)
        assert again is not link
        assert (await say(again, "ok"))["message"]["parts"][0]["text"] == "ok"
        assert len(processes(tmp_path / "j")) == 2
        # Whoever comes third takes the place of those that serve.
        async with successor(new, spec("waits-to-start", journal=tmp_path / "k")) as third:
            assert third.link_nowait() is again
            (tmp_path / "k.go").touch()
            await reached(third, Stage.OVER)
            async with asyncio.timeout(WAIT):
                await again.broken


@pytest.mark.parametrize("never", [False, True])
async def test_what_cannot_be_run_or_not_again_is_not_given_the_place(*, never: bool) -> None:
    how = spec("exits-at-start", restart="never")
    if not never:
        how = Spec(Command(("/no/such/program",), "/", {}), pace=how.pace)
    async with place(spec()) as (old, link), successor(old, how) as new:
        async with asyncio.timeout(WAIT):
            while new.failures < (1 if never else 5):
                await new.change()
        assert new.link_nowait() is link
        assert await new.link(None, None, WAIT) is link


async def test_what_it_tells_of_itself_is_waited_for(tmp_path: Path) -> None:
    async with place(spec()) as (old, _), successor(old, spec("waits-to-start", journal=tmp_path / "j")) as new:
        asking = asyncio.ensure_future(new.introduction(new._manner(), WAIT))
        await asyncio.sleep(0.05)
        assert not asking.done()
        (tmp_path / "j.go").touch()
        card = (await asking).card
        assert str(new.workers[0].pid).encode() in (card or b"")


async def test_closing_in_the_middle_ends_both(tmp_path: Path) -> None:
    async with place(spec()) as (old, link):
        async with successor(old, spec("waits-to-start", journal=tmp_path / "j")) as new:
            asking = asyncio.ensure_future(new.introduction(new._manner(), WAIT))
            await asyncio.sleep(0)
        assert not link.is_up
        with pytest.raises(Draining):
            await asking
