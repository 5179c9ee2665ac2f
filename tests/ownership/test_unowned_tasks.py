"""Owners of tasks older than the gateway, with claiming: the first caller that the agent answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.loops import both_loops
from tests.ownership.test_task_ownership import Site, shared
from tests.support.gateway import keys, running
from tests.support.scripted import Received, ScriptedBackend, Wire
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio
anyio_backend = both_loops
OLD = {"id": "old", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
ADOPTS = ", unknown_tasks: adopt"


async def has(site: Site, who: str, task: str = "old") -> bool:
    return "result" in (await site.call(who, "GetTask", {"id": task})).json


@for_each("method", ["GetTask", "CancelTask", "SubscribeToTask"])
async def test_guessing_the_id_of_a_future_task_gives_no_access(method: str) -> None:
    async with shared(ADOPTS) as site:
        guessed = await site.call("globex", method, {"id": "task-1"})
        assert guessed.json["error"]["code"] == -32001
        assert (await site.send("acme"))["id"] == "task-1"
        assert await has(site, "acme", "task-1")
        assert not await has(site, "globex", "task-1")


async def test_a_task_in_the_context_of_another_is_not_adopted() -> None:
    async with shared(ADOPTS) as site:
        ours = await site.send("acme")
        site.agent.tasks["old"] = {**OLD, "contextId": ours["contextId"]}
        theirs = await site.call("globex", "GetTask", {"id": "old"})
        assert theirs.json["error"]["code"] == -32006
        assert (await site.call("globex", "ListTasks", {})).json["result"]["tasks"] == []
        assert await has(site, "acme")
        assert (await site.call("globex", "GetTask", {"id": "old"})).json["error"]["code"] == -32001


async def test_a_task_that_is_only_referred_to_is_nobodys_still() -> None:
    async with shared(ADOPTS) as site:
        site.agent.tasks["old"] = dict(OLD)
        await site.send("globex", referenceTaskIds=["old"])
        assert await has(site, "acme")
        assert not await has(site, "globex")


class Waiting(Trusting):
    """Answers a GetTask when it is told to, to whichever caller."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = [asyncio.Event(), asyncio.Event()]
        self.arrived = asyncio.Semaphore(0)

    async def _reply(self, wire: Wire, request: Received, call: dict[str, Any]) -> None:
        turn = self.answers[len(self.asked) - 1]
        self.arrived.release()
        await turn.wait()
        await super()._reply(wire, request, call)


@asynccontextmanager
async def waiting() -> AsyncIterator[tuple[Waiting, Site]]:
    agent = Waiting()
    async with ScriptedBackend(agent.script) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents:
  crm: {{ backend: "{backend.url}"{ADOPTS} }}
"""
        async with running(text) as gateway:
            yield agent, Site(gateway, agent)


async def test_an_unowned_task_belongs_to_the_caller_that_is_answered_first() -> None:
    async with waiting() as (agent, site):
        agent.tasks["old"] = dict(OLD)
        first = asyncio.ensure_future(site.call("acme", "GetTask", {"id": "old"}))
        await agent.arrived.acquire()
        second = asyncio.ensure_future(site.call("globex", "GetTask", {"id": "old"}))
        await agent.arrived.acquire()
        agent.answers[1].set()
        assert (await second).json["result"]["id"] == "old"
        agent.answers[0].set()
        late = await first
        assert late.json["error"]["code"] == -32001
        # It asks for no more than a task that was another's from the beginning.
        assert late.anonymous == (await site.call("acme", "GetTask", {"id": "old"})).anonymous
