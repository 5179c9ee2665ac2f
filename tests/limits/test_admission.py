"""Rates and concurrency of tenants and agents, as callers see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.gateway import CALL, JSON, RESULT, STREAM, Answer, Running, agent, bearer, keys, running
from tests.support.scripted import SSE, Script, ScriptedBackend, Wire, chunk, whole

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def limited(tenant: str = "{}", of_agent: str = "{}", script: Script | None = None) -> AsyncIterator[Running]:
    async def replies(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(whole(RESULT))

    async with ScriptedBackend(agent(script or replies)) as backend:
        text = f"""\
{keys(acme="acme", globex="globex", other="other")}
tenants:
  acme: {{ agents: [echo], limits: {tenant} }}
  globex: [echo]
  other: [echo]
defaults: {{ isolation: none }}
agents:
  echo: {{ backend: "{backend.url}", limits: {of_agent} }}
"""
        async with running(text) as gateway:
            yield gateway


async def post(gateway: Running, who: str, body: bytes = CALL) -> Answer:
    return await gateway.post("/echo", body, [bearer(who)])


async def test_a_tenant_makes_so_many_requests_and_is_told_how_it_stands() -> None:
    async with limited("{ requests: 3/min }") as gateway:
        answers = [await post(gateway, "acme") for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert [answer.header("ratelimit-policy") for answer in answers] == ['"requests";q=3;w=60'] * 4
        told = [answer.header("ratelimit") or "" for answer in answers]
        assert [line.split(";")[1] for line in told] == ["r=2", "r=1", "r=0", "r=0"]
        refused = answers[-1]
        assert refused.json["error"]["code"] == -31429
        assert refused.reasons == ["RATE_LIMITED"]
        assert 1 <= int(refused.header("retry-after") or 0) <= 20
        assert told[-1].endswith(f"t={refused.header('retry-after')}")
        # Nobody else is.
        assert (await post(gateway, "globex")).status == 200
        assert gateway.metric("limit_hits_total", limit="requests", scope="tenant") == 1
        line = await gateway.line(3, of=5)
        assert (line["outcome"], line["reason"]) == ("limited", "rate_limited")


async def test_a_request_over_the_rate_is_refused_before_its_body_comes() -> None:
    async with limited("{ requests: 1/min }") as gateway:
        await post(gateway, "acme")
        client = await gateway.client()
        length = (b"Content-Length", b"1000")
        await client.ask("POST", "/echo", None, [JSON, bearer("acme"), length])
        assert (await client.head())[0] == 429


async def test_cards_are_read_without_being_counted() -> None:
    async with limited("{ requests: 1/min }") as gateway:
        for _ in range(5):
            assert (await gateway.get("/echo/.well-known/agent-card.json", [bearer("acme")])).status != 429
        assert (await post(gateway, "acme")).status == 200


async def test_a_body_is_as_long_as_the_tenant_and_the_agent_may_have_it() -> None:
    longer = CALL.replace(b'"hi"', b'"%b"' % (b"x" * 2000))
    async with limited("{ body: 1KiB }") as gateway:
        assert (await post(gateway, "acme", longer)).status == 413
        assert (await post(gateway, "acme")).status == 200
        assert (await post(gateway, "globex", longer)).status == 200


async def test_calls_wait_for_a_place_and_are_refused_where_none_comes() -> None:
    held = asyncio.Event()
    arrived: list[int] = []

    async def holds(wire: Wire) -> None:
        while True:
            await wire.request()
            arrived.append(1)
            await held.wait()
            await wire.send(whole(RESULT))

    async with limited(of_agent="{ concurrency: 1, queue: 1, queue_timeout: 30s }", script=holds) as gateway:
        first = asyncio.ensure_future(post(gateway, "acme"))
        await gateway.until(lambda: len(arrived) == 1)
        second = asyncio.ensure_future(post(gateway, "acme"))
        await gateway.until(lambda: gateway.serving == 2)
        third = await post(gateway, "acme")
        assert third.status == 429
        assert third.reasons == ["CONCURRENCY_LIMITED"]
        assert third.header("retry-after") is not None
        assert len(arrived) == 1
        held.set()
        assert [(await each).status for each in (first, second)] == [200, 200]
        assert gateway.metric("limit_hits_total", limit="concurrency", scope="agent") == 1


async def test_a_caller_that_leaves_the_queue_frees_its_place() -> None:
    held = asyncio.Event()
    arrived: list[int] = []

    async def holds(wire: Wire) -> None:
        while True:
            await wire.request()
            arrived.append(1)
            await held.wait()
            await wire.send(whole(RESULT))

    async with limited(of_agent="{ concurrency: 1, queue: 1, queue_timeout: 30s }", script=holds) as gateway:
        first = asyncio.ensure_future(post(gateway, "acme"))
        await gateway.until(lambda: len(arrived) == 1)
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL, [JSON, bearer("acme")])
        await gateway.until(lambda: gateway.serving == 2)
        client.leave()
        await gateway.until(lambda: gateway.serving == 1)
        second = asyncio.ensure_future(post(gateway, "globex"))
        await gateway.until(lambda: gateway.serving == 2)
        held.set()
        assert [(await each).status for each in (first, second)] == [200, 200]
        assert len(arrived) == 2


async def test_a_tenant_has_so_many_streams_open_and_they_hold_no_place_for_calls() -> None:
    ended = asyncio.Event()

    async def streams(wire: Wire) -> None:
        while True:
            request = await wire.request()
            if b"Streaming" not in request.body:
                await wire.send(whole(RESULT))
                continue
            await wire.send(SSE + chunk(b"data: " + RESULT + b"\n\n"))
            await ended.wait()
            await wire.send(b"0\r\n\r\n")

    async with limited("{ streams: 1, concurrency: 1 }", script=streams) as gateway:
        client = await gateway.client()
        await client.ask("POST", "/echo", STREAM, [JSON, bearer("acme")])
        await client.head()
        await client.piece()
        refused = await post(gateway, "acme", STREAM)
        assert refused.status == 429
        assert json.loads(refused.body)["error"]["data"][0]["reason"] == "STREAMS_LIMITED"
        assert (await post(gateway, "acme")).status == 200
        ended.set()
        await client.rest()
        await gateway.until(lambda: gateway.serving == 0)
        assert (await post(gateway, "acme", STREAM)).status == 200


async def test_bytes_of_a_stream_are_charged_once_while_it_is_open() -> None:
    ended = asyncio.Event()
    event = b"data: " + RESULT.replace(b'"result":{', b'"result":{"metadata":{"x":"%b"},' % (b"x" * 100_000)) + b"\n\n"

    async def streams(wire: Wire) -> None:
        await wire.request()
        await wire.send(SSE + chunk(event))
        await ended.wait()
        await wire.send(b"0\r\n\r\n")

    async with limited("{ bandwidth: 1KiB/s }", script=streams) as gateway:
        client = await gateway.client()
        await client.ask("POST", "/echo", STREAM, [JSON, bearer("acme")])
        await client.head()
        read = 0
        while read < len(event):
            read += len(await client.piece())
        meanwhile = await post(gateway, "acme")
        assert (meanwhile.status, meanwhile.reasons) == (429, ["RATE_LIMITED"])
        assert int(meanwhile.header("retry-after") or 0) > 60
        ended.set()
        await client.rest()
        await gateway.until(lambda: gateway.serving == 0)
        afterwards = await post(gateway, "acme")
        assert afterwards.status == 429
        assert int(afterwards.header("retry-after") or 0) <= int(meanwhile.header("retry-after") or 0) + 1
