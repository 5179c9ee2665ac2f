"""Events that are none of the call's end its stream; what says nothing passes."""

import asyncio

import pytest

from tests.doubles.gateway import STREAM, fronted
from tests.doubles.scripted import SSE, answers, chunk
from tests.doubles.streaming import frame, opened, reasons, said
from tests.loops import both_loops

pytestmark = pytest.mark.anyio
anyio_backend = both_loops


NO_EVENTS = {
    "text": b"data: no json\n\n",
    "a string": b'data: "text"\n\n',
    "a list": b"data: []\n\n",
    "half an object": b'data: {"jsonrpc":"2.0","id":1,"result":\n\n',
    "two objects": b"data: " + frame(7) * 2 + b"\n\n",
    "no name that is known": b"event: ping\ndata: 2026-01-01\n\n",
    "html": b"data: <script>alert(1)</script>\n\n",
    "NaN": b'data: {"jsonrpc":"2.0","id":1,"result":NaN}\n\n',
    "bytes that are no text": b'data: {"jsonrpc":"2.0","id":1,"result":"\xff"}\n\n',
    "many lines": b"data:x\n" * 20_000 + b"\n",
    "at the end, without one": b"data: half",
}


@pytest.mark.parametrize("raw", NO_EVENTS.values(), ids=NO_EVENTS)
@pytest.mark.parametrize("target", ["/echo", "/echo/message:stream"])
async def test_an_event_that_is_no_answer_ends_the_stream(raw: bytes, target: str) -> None:
    good = b"data: " + frame(1) + b"\n\n"
    async with fronted(answers(SSE + chunk(good) + chunk(raw) + chunk(b""))) as (gateway, _):
        client = await opened(gateway, target, STREAM if target == "/echo" else b'{"message":{}}')
        await client.head()
        body = await client.rest()
        assert body.startswith(good + b"event: error\ndata: ")
        assert body.count(b"\n\n") == 2
        error = said(body)["error"]
        assert reasons(error.get("data") or error["details"])[-1] == "UPSTREAM_PROTOCOL"
        line = await gateway.line()
        assert (line["reason"], line["outcome"], line["closed_by"]) == (
            "upstream_protocol",
            "upstream_error",
            "gateway",
        )
        await gateway.rested()


@pytest.mark.parametrize(
    "data", [b"{}", b'{"task":{"id":"t"}}', b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":1,"error":"x"}']
)
async def test_an_event_of_a_json_rpc_stream_is_an_envelope(data: bytes) -> None:
    async with fronted(answers(SSE + chunk(b"data: " + data + b"\n\n") + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        assert reasons(said(await client.rest())["error"]["data"])[-1] == "UPSTREAM_PROTOCOL"


async def test_what_says_nothing_passes() -> None:
    raw = b": ping\n\n\n\nevent: ping\n\nid: 7\n\nretry: 1\n\ndata:\n\nevent: x\ndata\n\nunknown: {\n\n:\n\n"
    async with fronted(answers(SSE + chunk(raw) + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        assert await client.rest() == raw
        assert (await gateway.line())["outcome"] == "ok"


async def test_an_agents_own_error_event_passes() -> None:
    raw = b'event: error\ndata: {"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"x"}}\n\n'
    async with fronted(answers(SSE + chunk(raw) + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        assert await client.rest() == raw
        assert (await gateway.line())["rpc_code"] == -32001


async def test_a_flood_of_events_leaves_other_requests_their_turn() -> None:
    flood = (b"data: " + frame(1) + b"\n\n") * 3000
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with fronted(answers(SSE + chunk(flood) + chunk(b""))) as (gateway, _):
        counting = asyncio.ensure_future(count())
        client = await opened(gateway)
        await client.head()
        assert await client.rest() == flood
        counting.cancel()
        # At least one for every 16 KiB, however much arrives at once.
        assert turns > len(flood) // (16 * 1024)
