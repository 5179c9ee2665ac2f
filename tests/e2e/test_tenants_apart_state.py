"""Owners of tasks outlive a gateway, several gateways know them alike, and nobody learns a task whose owner is lost."""

import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.types import ListTasksRequest
from a2a.utils.errors import InvalidParamsError

from tests.e2e.agents.agent import Agent
from tests.e2e.agents.grounds import Grounds
from tests.e2e.foreign import check_apart, tasks_of
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.shared_site import ACME, GLOBEX, Party, Speech, party, tenancy
from tests.support.redis_server import RedisServer, needs_redis, redis_server

pytestmark = pytest.mark.anyio

SPEECH = Speech("1.0", "JSONRPC")


def configuration(agent: Agent, state: str) -> dict[str, Any]:
    """A file with one agent that two tenants share."""
    return {**tenancy(), "gateway": {"state": state}, "agents": {"shared": agent.url}}


@asynccontextmanager
async def both(gateway: GatewayProcess) -> AsyncIterator[tuple[Party, Party]]:
    """Clients of acme and globex."""
    async with (
        party(gateway.url, "shared", ACME, SPEECH) as acme,
        party(gateway.url, "shared", GLOBEX, SPEECH) as globex,
    ):
        yield acme, globex


# ---- SQLite ----------------------------------------------------------------------------------------------------------


async def test_a_task_has_its_owner_after_a_kill(ground: Grounds, tmp_path: Path) -> None:
    agent = ground.agent("kept")
    file = configuration(agent, f"sqlite://{tmp_path / 'state.db'}")
    with gateway_process(file, tmp_path) as gateway:
        async with both(gateway) as (acme, globex):
            await acme.send("remember this", context="chat-1")
            tasks = await tasks_of(acme)
            await globex.send("remember that", context="chat-1")
            page = await acme.unary.list_tasks(ListTasksRequest(page_size=2))
        gateway.signal(signal.SIGKILL)
        gateway.wait()
    with gateway_process(file, tmp_path) as gateway:
        async with both(gateway) as (acme, globex):
            rest = ListTasksRequest(page_size=100, page_token=page.next_page_token)
            with pytest.raises(InvalidParamsError):
                await globex.unary.list_tasks(rest)
            listed = await acme.unary.list_tasks(rest)
            assert listed.total_size == page.total_size == len(tasks) + 1
            assert len(page.tasks) + len(listed.tasks) == listed.total_size
            assert "this" in str(await acme.send("recall", context="chat-1"))
            assert "that" in str(await globex.send("recall", context="chat-1"))
            await check_apart(acme, globex, agent, tasks)


# ---- Redis -----------------------------------------------------------------------------------------------------------


@contextmanager
def gateways(file: Mapping[str, Any], folder: Path) -> Iterator[list[GatewayProcess]]:
    """Two that have one file."""
    with ExitStack() as stack:
        found = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            found.append(stack.enter_context(gateway_process(file, folder / name)))
        yield found


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """One that forgets nothing when it is killed."""
    with redis_server("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@needs_redis
async def test_two_gateways_know_the_same_owner_of_a_task(ground: Grounds, tmp_path: Path, redis: RedisServer) -> None:
    agent = ground.agent("shared")
    with gateways(configuration(agent, redis.url), tmp_path) as (one, two):
        async with both(one) as (acme, _), both(two) as (acme_there, globex_there):
            await acme.send("remember this", context="chat-1")
            assert "this" in str(await acme_there.send("recall", context="chat-1"))
            assert "this" not in str(await globex_there.send("recall", context="chat-1"))
            page = await acme.unary.list_tasks(ListTasksRequest(page_size=1))
            rest = ListTasksRequest(page_size=1, page_token=page.next_page_token)
            with pytest.raises(InvalidParamsError):
                await globex_there.unary.list_tasks(rest)
            listed = await acme_there.unary.list_tasks(rest)
            assert {page.tasks[0].id} != {task.id for task in listed.tasks}
            assert listed.total_size == page.total_size == 2
            await check_apart(acme_there, globex_there, agent, await tasks_of(acme))
