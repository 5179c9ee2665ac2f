"""The processes of backends: shared by who wants the same, a tenant's own where the file says so, and bounded."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.dialect import Version
from gateway.a2a.fault import Overloaded
from gateway.upstream.stdio_agent import TENANT_VARIABLE, StdioAgent
from gateway.upstream.stdio_worker import State
from tests.upstream.stdio_spec import spec
from tests.upstream.test_stdio_pool import WAIT, say

pytestmark = pytest.mark.anyio


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


async def test_figures_outlive_those_that_made_room(tmp_path: Path) -> None:
    agent = StdioAgent("notes", spec("floods-stdout", "5", per_tenant=True, tenants=1, journal=tmp_path / "j"))
    await say(await agent.pool("acme").link(None, None, WAIT), "now")
    agent.pool("globex")
    assert (agent.figures().strays, agent.figures().restarts) == (5, 0)
    await agent.aclose()
