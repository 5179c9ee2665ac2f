"""Hosts of agents that are behind `a2a-gateway stdio`, in the test's own loop.

async with bridged(url) as host:
    answer = await host.ask("GetTask", {"id": "t"})
"""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gateway.a2a.framing.lsp import Framing
from gateway.commands.stdio import Bridge, Session, bridge
from tests.support.gateway import Running, agent, card_of, keys, running
from tests.support.scripted import WAIT, Script, ScriptedBackend, Wire
from tests.support.stdio_host import Host, over_pipes


@asynccontextmanager
async def bridged(
    url: str, *, framing: str = "lsp", key: str | None = None, token: str | None = None, tenant: str | None = None
) -> AsyncIterator[Host]:
    """A host, and the agent that it believes to have started; in this process."""
    found = await asyncio.to_thread(bridge, url, key=key, token=token, tenant=tenant)
    async with served(found, framing) as (host, running):
        yield host
        host.leave()
        async with asyncio.timeout(WAIT):
            assert await running == 0
    assert host.strays == []


@asynccontextmanager
async def served(found: Bridge, framing: str = "lsp") -> AsyncIterator[tuple[Host, asyncio.Future[int]]]:
    source, says = os.pipe()
    hears, target = os.pipe()
    session = Session(found.examined(), io.BytesIO())
    running = asyncio.ensure_future(session.run(source, target, Framing(framing)))
    running.add_done_callback(lambda _: os.close(target))
    try:
        async with over_pipes(hears, says, framing) as host:
            yield host, running
    finally:
        running.cancel()
        os.close(source)


@asynccontextmanager
async def fronting(fleet: str, grpc: int) -> AsyncIterator[Running]:
    """A gateway in front of the fleet, with keys; the clock is behind gRPC, and travel found by its tenant."""
    text = f"""
    {{auth}}
    tenants: {{{{ acme: [echo, clock, travel, rest] }}}}
    agents:
      echo: {fleet}/echo
      clock: {{{{ backend: "grpc://127.0.0.1:{grpc}", card: {fleet}/clock }}}}
      travel: {{{{ backend: {fleet}/travel, match: {{{{ path: /a2a, tenant: travel }}}} }}}}
      rest: {{{{ backend: {fleet}/travel, expose: [rest], visibility: private }}}}
    """
    auth = keys(acme="acme").replace("\n", "\n    ")
    async with running(text.format(auth=auth)) as gateway:
        yield gateway


async def until(host: Host, queue: Any, last: Callable[[Any], bool]) -> Any:
    """The first event of which this is true; that a task waits is not always the end."""
    while not last(event := (await host.answer(queue))["result"]):
        pass
    return event


def sse(result: Any) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\n\n"


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[tuple[Host, ScriptedBackend]]:
    """A host of one scripted agent."""
    places: list[str] = []

    async def played(wire: Wire) -> None:
        await agent(script, card_of(f"{places[0]}/rpc", "JSONRPC 1.0"))(wire)

    async with ScriptedBackend(played) as backend:
        places.append(backend.url)
        async with bridged(backend.url) as host:
            yield host, backend
