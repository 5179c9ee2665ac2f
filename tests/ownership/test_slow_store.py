"""Ownership where the ledger is asked over a network: nothing leaves before it is written down, and order is kept."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.ownership.test_task_ownership import MESSAGE, Site, shared
from tests.support.gateway import JSON, Running, bearer, keys, running
from tests.support.scripted import SSE, ScriptedBackend, Wire, chunk, head
from tests.support.trusting import Trusting
from tests.support.waited import Waited

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> Waited:
    return Waited()


async def test_no_event_leaves_before_its_task_is_written_down(store: Waited) -> None:
    async with shared(store=store.store) as site:
        release = asyncio.Event()
        client = await site.gateway.client()
        asked = asyncio.Event()

        async def waits() -> None:
            if site.agent.asked:
                asked.set()
                await release.wait()

        store.waits = waits
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": MESSAGE}}
        ).encode()
        await client.ask("POST", "/crm", body, [JSON, bearer("acme"), (b"A2A-Version", b"1.0")])
        await client.head()
        await asked.wait()
        piece = asyncio.ensure_future(client.piece())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not piece.done()
        release.set()
        first = await piece
        assert b'"task"' in first
        rest = first + await client.rest()
        assert [b'"task"' in rest, b"artifactUpdate" in rest, b"statusUpdate" in rest] == [True] * 3
        assert rest.index(b"artifactUpdate") < rest.index(b"statusUpdate")


async def test_while_the_store_is_down_what_needs_it_is_refused_and_the_rest_goes_on(store: Waited) -> None:
    async with both(store) as (gateway, agent):
        task = (await post(gateway, "/crm", "SendMessage", {"message": MESSAGE}))["result"]["task"]["id"]
        store.down = True
        asked = len(agent.asked)
        answer = await Site(gateway, agent).call("acme", "GetTask", {"id": task})
        assert answer.status == 503
        assert answer.reasons[-1] == "STATE_UNAVAILABLE"
        assert answer.header("retry-after") is not None
        assert len(agent.asked) == asked
        # A new task cannot be told of: nobody would own it.
        assert "error" in await post(gateway, "/crm", "SendMessage", {"message": MESSAGE})
        assert len(agent.asked) == asked
        assert "result" in await post(gateway, "/open", "GetTask", {"id": task})
        store.down = False
        assert (await post(gateway, "/crm", "GetTask", {"id": task}))["result"]["id"] == task


async def test_a_stream_whose_first_event_cannot_be_written_down_ends_with_the_reason(store: Waited) -> None:
    async def plays(wire: Wire) -> None:
        request = await wire.request()
        if request.method == b"GET":
            await wire.send(head(b"content-length: 0", status=b"404 Not Found"))
            return
        await wire.send(SSE)
        store.down = True
        result = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
        event = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
        await wire.send(chunk(b"data: " + event + b"\n\n"))
        await wire.hang()

    async with ScriptedBackend(plays) as backend:
        text = f"{keys(acme='acme')}\ntenants: {{ acme: [crm] }}\nagents: {{ crm: '{backend.url}' }}\n"
        async with running(text, store=store.store) as gateway:
            answer = await Site(gateway, Trusting()).call("acme", "SendStreamingMessage", {"message": MESSAGE})
            assert b'"t"' not in answer.body
            assert b"STATE_UNAVAILABLE" in answer.body


@asynccontextmanager
async def both(store: Waited) -> AsyncIterator[tuple[Running, Trusting]]:
    """One agent twice: with owners, and without."""
    agent = Trusting()
    async with ScriptedBackend(agent.script) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants:
  acme: [crm, open]
  globex: [crm]
agents:
  crm: "{backend.url}"
  open: {{ backend: "{backend.url}", isolation: none }}
"""
        async with running(text, store=store.store) as gateway:
            yield gateway, agent


async def post(gateway: Running, path: str, method: str, params: object) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    answer = await gateway.post(path, body, [bearer("acme"), (b"A2A-Version", b"1.0")])
    return answer.json
