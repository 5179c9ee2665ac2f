"""Ownership at an agent of 0.1, whose clients name their tasks themselves, also with words that others have."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.tasks.sqlite import SqliteStore
from tests.ownership.test_task_ownership import shared as shared_by_names
from tests.support.ancient_agent import AncientAgent, ancient_agent
from tests.support.gateway import Running, bearer, keys, running
from tests.support.scripted import Received, ScriptedBackend, Wire
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

MESSAGE = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


class Headers(Trusting):
    """Remembers with which context it was called, by its header."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[bytes | None] = []

    async def _reply(self, wire: Wire, request: Received, call: dict[str, Any]) -> None:
        self.sessions.append(request.header(b"x-session"))
        await super()._reply(wire, request, call)


@asynccontextmanager
async def shared() -> AsyncIterator[tuple[Running, AncientAgent]]:
    async with ancient_agent() as agent:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents: {{ crm: "{agent.url}" }}
"""
        async with running(text) as gateway:
            yield gateway, agent


async def asked(gateway: Running, who: str, method: str, params: Any) -> Any:
    """Return the answer to a client of 0.1; of a stream the first event."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    answer = await gateway.post("/crm", body, [bearer(who)])
    assert b"gw-" not in answer.body
    return json.loads(answer.body.removeprefix(b"data: ").partition(b"\n\n")[0])


async def test_a_task_is_found_again_by_the_name_that_its_client_gave_it() -> None:
    async with shared() as (gateway, agent):
        for who in ("acme", "globex"):
            sent = await asked(gateway, who, "tasks/send", {"id": "X", "message": MESSAGE})
            assert sent["result"]["id"] == "X"
        ours, theirs = (received["params"]["id"] for received in agent.received)
        assert ours != theirs
        # Names of methods that 0.3 has as well.
        assert (await asked(gateway, "acme", "tasks/get", {"id": "X"}))["result"]["id"] == "X"
        assert (await asked(gateway, "acme", "tasks/resubscribe", {"id": "X"}))["result"]["id"] == "X"
        # It is over: the agent's own words.
        assert (await asked(gateway, "acme", "tasks/cancel", {"id": "X"}))["error"]["code"] == -32002
        assert [received["params"]["id"] for received in agent.received[2:]] == [ours] * 3


@for_each("method", ["tasks/get", "tasks/cancel", "tasks/resubscribe"])
async def test_anothers_name_of_a_task_finds_nothing(method: str) -> None:
    async with shared() as (gateway, agent):
        await asked(gateway, "acme", "tasks/send", {"id": "X", "message": MESSAGE})
        marked = agent.received[0]["params"]["id"]
        for name in ("X", marked, "never"):
            answer = await asked(gateway, "globex", method, {"id": name})
            assert answer["error"]["code"] == -32001
        assert len(agent.received) == 1


async def test_a_name_is_free_again_when_its_task_is_erased() -> None:
    """Also the names that are remembered in the process itself."""
    store = SqliteStore(None)
    async with shared_by_names(store=store) as site:
        for number in (1, 2):
            sent = await asked(site.gateway, "acme", "tasks/send", {"id": "X", "message": MESSAGE})
            assert sent["result"]["id"] == "X"
            assert [*site.agent.tasks] == [f"task-{made + 1}" for made in range(number)]
            assert (await asked(site.gateway, "acme", "tasks/get", {"id": "X"}))["result"]["id"] == "X"
            await store.erase("acme")
            assert (await asked(site.gateway, "acme", "tasks/get", {"id": "X"}))["error"]["code"] == -32001


async def test_a_continued_task_reaches_its_agent_with_its_own_context() -> None:
    """Not with another one that the client says, of its own or of somebody else's, in a header either."""
    agent = Headers()
    async with ScriptedBackend(agent.script) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents: {{ crm: {{ backend: "{backend.url}", identity_headers: {{ session: X-Session }} }} }}
"""
        async with running(text) as gateway:
            for said in ({}, {"sessionId": "theirs"}):
                await asked(gateway, "acme", "tasks/send", {"id": "X", **said, "message": MESSAGE})
        [_, again] = agent.asked
        own = agent.tasks["task-1"]["contextId"]
        assert again["params"]["message"]["taskId"] == "task-1"
        assert agent.sessions == [None, own.encode()]
