"""A client that leaves takes its upstream call with it, wherever the call stands, and leaves nothing behind."""

import asyncio

import pytest

from tests.loops import both_loops
from tests.support.gateway import CALL, JSON, STREAM, card_of, fronted, request, running
from tests.support.pool import pool_of
from tests.support.scripted import (
    SSE,
    ScriptedBackend,
    Wire,
    answers_and_hangs,
    chunk,
    endless,
    head,
)
from tests.support.strict import strict_server_only
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio
anyio_backend = both_loops
EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'


# ---- The client leaves ---------------------------------------------------------------------------------------------

LEAVING = 0.2
"""Seconds within which the upstream call ends (safety R11)."""


async def upstream_closes(backend: ScriptedBackend, wire: Wire, left: float) -> None:
    await backend.until(lambda: wire.gone)
    assert wire.left_at is not None
    assert wire.left_at - left < LEAVING


@for_each("ends", ["reset", "close"])
@undisturbed(0.1)
async def test_a_client_that_leaves_a_stream_ends_the_upstream_call(ends: str) -> None:
    async with fronted(answers_and_hangs(SSE + chunk(EVENT))) as (gateway, backend):
        client = await gateway.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        await client.head()
        assert await client.piece() == EVENT
        left = asyncio.get_running_loop().time()
        client.leave() if ends == "reset" else client.writer.close()
        await upstream_closes(backend, backend.wires[-1], left)
        line = await gateway.line()
        assert (line["reason"], line["outcome"], line["closed_by"]) == ("client_gone", "client_gone", "client")
        assert (line["status"], line["task_id"], line["events"]) == (200, "t", 1)
        assert gateway.metric("streams_closed_total", by="client") == 1
        assert gateway.metric("requests_total", outcome="client_gone") == 1
        await gateway.rested()
        assert [received.method for received in backend.requests] == [b"POST"], "the task is not cancelled"


EXTENDED = b'{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard"}'
SUBSCRIBE = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}'


@for_each(
    ("speaks", "method", "path", "body"),
    [
        ("JSONRPC 0.3", "POST", "/echo", EXTENDED),
        ("JSONRPC 0.3", "GET", "/echo/agent/authenticatedExtendedCard", None),
        ("HTTP+JSON 1.0", "POST", "/echo", SUBSCRIBE),
    ],
)
async def test_an_answer_that_is_only_looked_at_ends_where_it_is_too_long(
    speaks: str, method: str, path: str, body: bytes | None
) -> None:
    """It is read before it is known whether the agent is asked in another way."""
    status = b"200 OK" if body == EXTENDED else b"404 Not Found"
    opening = head(b"transfer-encoding: chunked", status=status)
    card = card_of("http://127.0.0.1/", speaks)
    async with fronted(endless(opening, chunk(b" " * 65536)), card=card) as (gateway, backend):
        answer = await gateway.ask(method, path, body, [JSON])
        assert b"too long" in answer.body
        await backend.until(lambda: all(wire.gone for wire in backend.wires if wire.number))
        await gateway.rested()


@for_each("sent", [b"", b"HTTP/1.1 200 OK\r\n", head(b"content-length: 100") + b"{"])
@undisturbed(0.1)
async def test_a_client_that_leaves_a_unary_call_ends_the_upstream_call(sent: bytes) -> None:
    async with fronted(answers_and_hangs(sent)) as (gateway, backend):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL, [JSON])
        await backend.until(lambda: len(backend.requests) == 1)
        left = asyncio.get_running_loop().time()
        client.leave()
        await upstream_closes(backend, backend.wires[-1], left)
        line = await gateway.line()
        assert (line["reason"], line["outcome"], line["status"]) == ("client_gone", "client_gone", 499)
        await gateway.rested()


async def test_a_client_that_leaves_while_its_call_is_queued_is_never_sent() -> None:
    async with fronted(answers_and_hangs(), "connections: { max: 2 }") as (gateway, backend):
        pool = pool_of(gateway.gateway.snapshot.backends["echo"])
        busy = [await gateway.client() for _ in range(pool.limits.connections)]
        for client in busy:
            await client.ask("POST", "/echo", CALL, [JSON])
        await gateway.until(lambda: pool.active == len(busy))
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL.replace(b"hi", b"queued"), [JSON])
        await gateway.until(lambda: pool.waiting == 1)
        client.leave()
        await gateway.until(lambda: pool.waiting == 0)
        assert (await gateway.line())["reason"] == "client_gone"
        for each in busy:
            each.leave()
        await gateway.rested()
        assert not any(b"queued" in received.body for received in backend.requests)


async def test_a_client_that_leaves_while_the_card_is_awaited_leaves_nothing_behind() -> None:
    async def never(wire: Wire) -> None:
        await wire.request()
        await wire.hang()

    async with (
        ScriptedBackend(never) as backend,
        running(f"agents: {{ echo: '{backend.url}' }}", settled=False) as gateway,
    ):
        client = await gateway.client()
        await client.ask("GET", "/echo/.well-known/agent-card.json")
        await gateway.until(lambda: gateway.serving == 1)
        client.leave()
        assert (await gateway.line())["reason"] == "client_gone"
        assert gateway.serving == 0


@strict_server_only("request smuggling")  # A server that reads no further does not notice.
@undisturbed(0.1)
async def test_a_client_that_leaves_with_its_next_request_already_sent_ends_the_upstream_call() -> None:
    async with fronted(answers_and_hangs(SSE + chunk(EVENT))) as (gateway, backend):
        client = await gateway.client()
        both = request("POST", "/echo", STREAM, [JSON])
        await client.send(both + both)
        await client.head()
        assert await client.piece() == EVENT
        await client.send(both)
        left = asyncio.get_running_loop().time()
        client.leave()
        await upstream_closes(backend, backend.wires[-1], left)
        await gateway.rested()
        assert len(backend.requests) == 1
        assert (await gateway.line())["reason"] == "client_gone"
