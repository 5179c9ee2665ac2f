"""Tenants who share the connections of an agent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.gateway import CALL, JSON, LISTENS, RESULT, STREAM, Client, Running, agent, bearer, keys, running
from tests.support.scripted import SSE, ScriptedBackend, Wire, chunk, whole
from tests.support.streaming import frame, reasons, said

pytestmark = pytest.mark.anyio

EVENT = b"data: " + frame(1) + b"\n\n"
TENANTS = "{ acme: [echo], globex: { agents: [echo], limits: { weight: 3 } } }"


async def script(wire: Wire) -> None:
    """Streams without an end, and plain answers."""
    while True:
        if b"SendStreamingMessage" in (await wire.request()).body:
            await wire.send(SSE + chunk(EVENT))
            await wire.hang()
        await wire.send(whole(RESULT))


@asynccontextmanager
async def shared(more: str = "") -> AsyncIterator[Running]:
    async with ScriptedBackend(agent(script)) as backend:
        text = f"{keys(acme='acme', globex='globex')}{LISTENS}\ndefaults: {{ isolation: none }}\ntenants: {TENANTS}\n"
        async with running(f"{text}agents: {{ echo: {{ backend: '{backend.url}'{more} }} }}\n") as gateway:
            yield gateway


async def stream(gateway: Running, tenant: str) -> Client:
    """A stream whose first event has come."""
    client = await gateway.client()
    await client.ask("POST", "/echo", STREAM, [JSON, bearer(tenant)])
    assert (await client.head())[0] == 200
    await client.reader.readuntil(EVENT + b"\r\n")
    return client


async def test_no_tenant_keeps_more_than_its_share_while_another_waits() -> None:
    async with shared(", connections: { max: 8 }") as gateway:
        acme = [await stream(gateway, "acme") for _ in range(8)]
        assert (await gateway.post("/echo", CALL, [bearer("globex")])).body == RESULT
        last = said(await acme.pop().rest())
        assert reasons(last["error"]["data"])[-1] == "OVERLOADED"
        await gateway.until(lambda: any(line["stream"] for line in gateway.lines))
        line = next(line for line in gateway.lines if line["stream"])
        assert (line["reason"], line["outcome"], line["closed_by"]) == ("overloaded", "limited", "gateway")
        # Three of four are globex', by its weight.
        globex = [await stream(gateway, "globex") for _ in range(6)]
        assert (await gateway.post("/echo", CALL, [bearer("globex")])).status == 503
        for client in acme[2:]:
            assert b"OVERLOADED" in await client.rest()
        # The others go on.
        for client in (*acme[:2], *globex):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await client.reader.read(1)
            client.writer.close()
