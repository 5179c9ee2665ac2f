"""The processes of backends: shared by who wants the same, a tenant's own where the file says so, and bounded."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.dialect import Version
from gateway.a2a.fault import Draining, Overloaded
from gateway.upstream.stdio_agent import TENANT_VARIABLE, StdioAgent
from gateway.upstream.stdio_worker import State
from tests.upstream.stdio_spec import processes, spec
from tests.upstream.test_stdio_pool import WAIT, say

pytestmark = pytest.mark.anyio


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def variables(agent: StdioAgent, tenant: str) -> dict[str, Any]:
    link = await agent.pool(tenant).link(None, None, WAIT)
    parts = (await say(link, "environment"))["message"]["parts"]
    environ: dict[str, Any] = parts[1]["data"]["environ"]
    return environ


async def test_everybody_shares_processes_unless_the_file_says_otherwise() -> None:
    agent = StdioAgent("notes", spec())
    assert agent.pool("acme") is agent.pool("globex") is agent.show()
    assert TENANT_VARIABLE not in await variables(agent, "acme")
    await agent.aclose()


async def test_each_tenant_has_its_own_and_they_know_whose_they_are() -> None:
    agent = StdioAgent("notes", spec(per_tenant=True))
    assert (await variables(agent, "acme"))[TENANT_VARIABLE] == "acme"
    assert (await variables(agent, "globex"))[TENANT_VARIABLE] == "globex"
    assert TENANT_VARIABLE not in await variables(agent, "")
    assert {tenant for tenant, _ in agent.workers()} == {"acme", "globex", ""}
    assert agent.figures().running == 3
    await agent.aclose()
    assert all(worker.state is State.ENDED for _, worker in agent.workers())


async def test_who_was_needed_least_lately_makes_room_and_nobody_who_is_at_work(tmp_path: Path) -> None:
    agent = StdioAgent("notes", spec("says-nothing", per_tenant=True, tenants=2, journal=tmp_path / "j"))
    for tenant in ("acme", "globex"):
        await agent.pool(tenant).link(None, None, WAIT)
    agent.pool("acme")
    await agent.pool("initech").link(None, None, WAIT)
    assert {tenant for tenant, _ in agent.workers()} == {"acme", "initech"}
    links = [await agent.pool(tenant).link(None, None, WAIT) for tenant in ("acme", "initech")]
    tasks = [asyncio.ensure_future(link.request("X", b"", Version.V1_0, WAIT)) for link in links]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        agent.pool("globex")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await agent.aclose()


async def test_who_waits_for_a_start_is_at_work_and_makes_no_room() -> None:
    agent = StdioAgent("notes", spec("never-starts", per_tenant=True, tenants=1))
    waiting = asyncio.ensure_future(agent.pool("acme").link(None, None, WAIT))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        agent.pool("globex")
    await agent.aclose()
    with pytest.raises(Draining):
        await waiting


async def test_the_process_that_shows_the_agent_takes_no_tenants_place(tmp_path: Path) -> None:
    agent = StdioAgent("notes", spec(per_tenant=True, tenants=1, journal=tmp_path / "j"))
    link = await agent.pool("acme").link(None, None, WAIT)
    shown = await agent.show().link(None, None, WAIT)
    assert (link.is_up, shown.is_up) == (True, True)
    await agent.pool("globex").link(None, None, WAIT)
    assert shown.is_up
    assert {tenant for tenant, _ in agent.workers()} == {"", "globex"}
    await agent.aclose()


async def test_who_comes_new_is_started_when_who_makes_room_has_ended(tmp_path: Path) -> None:
    how = spec("ignores-term", per_tenant=True, tenants=1, journal=tmp_path / "j")
    agent = StdioAgent("notes", how)
    await agent.pool("acme").link(None, None, WAIT)
    [first] = processes(tmp_path / "j")
    await agent.pool("globex").link(None, None, WAIT)
    # It was asked, told, and killed before.
    assert not is_there(first)
    back = agent.pool("acme")
    assert [worker.starts for worker in back.workers] == [0]
    await agent.aclose()
    assert len(processes(tmp_path / "j")) == 2


async def test_processes_of_another_configuration_serve_until_these_do(tmp_path: Path) -> None:
    first = StdioAgent("notes", spec(per_tenant=True, journal=tmp_path / "j"))
    before = {tenant: await first.pool(tenant).link(None, None, WAIT) for tenant in ("acme", "globex", "initech", "")}
    second = StdioAgent("notes", spec("waits-to-start", per_tenant=True, tenants=2, journal=tmp_path / "k"))
    second.succeed(first)
    # Who was needed least lately has no place any more.
    assert {tenant for tenant, _ in second.workers()} == {"globex", "initech", ""}
    for tenant in ("globex", "initech", ""):
        assert second.pool(tenant) is first.pool(tenant)
        assert second.pool(tenant).link_nowait() is before[tenant]
    # What held the processes before lets go of them.
    await first.aclose()
    assert second.pool("globex").link_nowait() is before["globex"]
    (tmp_path / "k.go").touch()
    async with asyncio.timeout(WAIT):
        for link in before.values():
            await link.broken
    link = await second.pool("globex").link(None, None, WAIT)
    assert (await say(link, "ok"))["message"]["parts"][0]["text"] == "ok"
    await second.aclose()
    assert all(worker.state is State.ENDED for _, worker in second.workers())


async def test_who_takes_a_place_ends_those_too_that_were_leaving_it() -> None:
    first = StdioAgent("notes", spec("says-nothing", per_tenant=True))
    link = await first.pool("acme").link(None, None, WAIT)
    asking = asyncio.ensure_future(link.request("X", b"", Version.V1_0, WAIT))
    await asyncio.sleep(0)
    second = StdioAgent("notes", spec())
    # Nobody has processes of its own there.
    second.succeed(first)
    third = StdioAgent("notes", spec("behaves", "7"))
    third.succeed(second)
    await asyncio.gather(first.aclose(), second.aclose())
    assert link.is_up
    await third.aclose()
    assert not link.is_up
    with pytest.raises(Draining):
        await asking
    assert third._leaving == third._settling == set()


async def test_processes_that_no_configuration_has_any_more_end_with_their_calls() -> None:
    agent = StdioAgent("notes", spec("says-nothing"))
    link = await agent.pool("acme").link(None, None, WAIT)
    asking = asyncio.ensure_future(link.request("X", b"", Version.V1_0, WAIT))
    await asyncio.sleep(0)
    agent.retire()
    await asyncio.sleep(0.2)
    assert link.is_up
    asking.cancel()
    async with asyncio.timeout(WAIT):
        await link.broken
    await agent.aclose()


async def test_who_is_closed_while_it_waits_for_calls_to_end_waits_no_longer() -> None:
    agent = StdioAgent("notes", spec("says-nothing"))
    link = await agent.pool("acme").link(None, None, WAIT)
    asking = asyncio.ensure_future(link.request("X", b"", Version.V1_0, WAIT))
    await asyncio.sleep(0)
    agent.retire()
    await agent.aclose()
    with pytest.raises(Draining):
        await asking


async def test_figures_outlive_those_that_made_room(tmp_path: Path) -> None:
    agent = StdioAgent("notes", spec("floods-stdout", "5", per_tenant=True, tenants=1, journal=tmp_path / "j"))
    await say(await agent.pool("acme").link(None, None, WAIT), "now")
    agent.pool("globex")
    assert (agent.figures().strays, agent.figures().restarts) == (5, 0)
    await agent.aclose()
