"""The processes of one backend: tasks stay where they were made, and calls wait for who is being started."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.bindings.stdio import hear
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import Draining, NoHealthyBackend, UpstreamReset
from gateway.a2a.operation import Operation
from gateway.upstream.stdio_introduction import MANNER
from gateway.upstream.stdio_link import Link
from gateway.upstream.stdio_pacing import Pace
from gateway.upstream.stdio_pool import StdioPool
from gateway.upstream.stdio_worker import Spec, State
from tests.upstream.stdio_spec import processes, spec

pytestmark = pytest.mark.anyio
WAIT = 30.0


@asynccontextmanager
async def pooled(how: Spec) -> AsyncIterator[StdioPool]:
    pool = StdioPool("notes", how)
    try:
        yield pool
    finally:
        await pool.aclose()
        assert all(worker.state is State.ENDED for worker in pool.workers)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def states_of_children() -> list[str]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] for each in children]


async def all_ready(pool: StdioPool) -> None:
    async with asyncio.timeout(WAIT):
        pool.start()
        while not all(worker.state is State.READY for worker in pool.workers):
            pool._changed.clear()
            await pool._changed.wait()


async def say(link: Link, text: str) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    heard = hear(json.dumps(body).encode())
    assert heard is not None
    call = Call(Operation.SEND_MESSAGE, Dialect(Binding.JSONRPC, Version.V1_0), "SendMessage", id=b"1")
    response = link.ask(call, heard.members, b"", Version.V1_0)
    await response.head(link.loop.time() + WAIT)
    return json.loads(await response.read(10_000, WAIT))["result"]


async def test_nothing_runs_before_it_is_needed(tmp_path: Path) -> None:
    async with pooled(spec(journal=tmp_path / "j")) as pool:
        assert processes(tmp_path / "j") == []
        link = await pool.link(None, None, WAIT)
        assert (await say(link, "ok"))["message"]["parts"][0]["text"] == "ok"
        assert len(processes(tmp_path / "j")) == 1


async def test_a_call_about_a_task_goes_to_the_process_that_made_it() -> None:
    async with pooled(spec(processes=3)) as pool:
        await all_ready(pool)
        links = [worker.link for worker in pool.workers]
        for link in links:
            assert link is not None
            task = (await say(link, "task"))["task"]
            assert pool.link_nowait(task["id"], None) is link
            # The context is the same everywhere; who named it last has it.
            assert pool.link_nowait(None, task["contextId"]) is link
            assert pool.link_nowait(task["id"], "another") is link


async def test_a_task_whose_process_is_gone_is_anybodys() -> None:
    async with pooled(spec(processes=2)) as pool:
        await all_ready(pool)
        first = pool.workers[0].link
        assert first is not None
        task = (await say(first, "task"))["task"]
        pid = pool.workers[0].pid
        assert pid is not None
        os.kill(pid, 9)
        async with asyncio.timeout(WAIT):
            await first.broken
        link = await pool.link(task["id"], task["contextId"], WAIT)
        assert link is not first


async def test_other_calls_go_to_the_process_with_the_fewest() -> None:
    async with pooled(spec("says-nothing", processes=2)) as pool:
        await all_ready(pool)
        busy = pool.link_nowait()
        assert busy is not None
        asking = asyncio.ensure_future(say(busy, "nothing"))
        await asyncio.sleep(0)
        assert pool.is_busy
        assert {pool.link_nowait() for _ in range(5)} == {worker.link for worker in pool.workers} - {busy}
        asking.cancel()
        await asyncio.wait([asking])


async def test_who_waits_too_long_or_for_nothing_is_told_so() -> None:
    async with pooled(spec("never-starts")) as pool:
        with pytest.raises(NoHealthyBackend, match="being started") as told:
            await pool.link(None, None, 0.01)
        assert told.value.retry_after == 1.0
    async with pooled(spec("exits-at-start", pace=Pace(first=0.01, most=2, rest=60.0))) as pool:
        with pytest.raises(NoHealthyBackend, match="keeps failing") as told:
            await pool.link(None, None, WAIT)
        assert told.value.detail == "it exited with code 3"
        assert 1.0 <= (told.value.retry_after or 0) <= 60.0


async def test_what_it_tells_of_itself_is_kept_or_asked_again() -> None:
    async with pooled(spec()) as pool:
        for again in (False, True):
            told = await pool.introduction(MANNER, WAIT, again=again)
            assert json.loads(told.card or b"")["name"] == "Misbehaving"


async def test_who_waits_while_it_is_closed_is_told_so() -> None:
    pool = StdioPool("notes", spec("never-starts"))
    waiting = asyncio.ensure_future(pool.link(None, None, WAIT))
    await asyncio.sleep(0)
    await pool.aclose()
    with pytest.raises(Draining):
        await waiting
    with pytest.raises(Draining):
        await pool.link(None, None, WAIT)


async def test_what_was_not_named_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.stdio_pool.MOST_KNOWN", 3)
    async with pooled(spec(processes=2)) as pool:
        await all_ready(pool)
        link = pool.workers[0].link
        assert link is not None
        for number in range(4):
            pool._learn(link, f"t{number}", None)
        assert len(pool._homes) == 3
        assert pool._home("t0", None) is None
        assert pool._home("t3", None) is link


async def test_a_process_that_dies_again_and_again_leaves_no_descriptor_and_no_zombie() -> None:
    async with pooled(spec("dies")) as pool:
        before = 0
        for number in range(12):
            link = await pool.link(None, None, WAIT)
            if number == 1:
                # What the loop opens once is open now.
                before = descriptors()
            with pytest.raises(UpstreamReset):
                await say(link, "now")
        await pool.link(None, None, WAIT)
        assert descriptors() <= before
        assert "Z" not in states_of_children()


async def test_a_context_stays_where_the_first_call_that_names_it_went() -> None:
    async with pooled(spec(processes=3)) as pool:
        await all_ready(pool)
        first = await pool.link(None, "mine", WAIT)
        asking = asyncio.ensure_future(say(first, "ok"))
        await asyncio.sleep(0)
        assert pool.link_nowait(None, None) is not first
        assert {pool.link_nowait(None, "mine") for _ in range(5)} == {first}
        assert pool.link_nowait("task", "mine") is first
        await asking


async def test_an_answer_is_waited_for_however_much_it_tells_that_nobody_asked_for() -> None:
    async with pooled(spec("notifies", "2000")) as pool:
        link = await pool.link(None, None, WAIT)
        assert (await say(link, "now"))["message"]["parts"][0]["text"] == "told"
        assert (link.is_up, link.notices) == (True, 2000)


async def test_who_needs_room_waits_for_it() -> None:
    room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pool = StdioPool("notes", spec(), after=room)
    waiting = asyncio.ensure_future(pool.link(None, None, WAIT))
    for _ in range(5):
        await asyncio.sleep(0)
    assert pool.is_busy
    assert [worker.starts for worker in pool.workers] == [0]
    room.set_result(None)
    assert (await waiting).is_up
    await pool.aclose()
