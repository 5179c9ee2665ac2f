"""Events that are none of the call's end its stream; what says nothing passes."""

import asyncio
import json

import pytest

from tests.loops import both_loops
from tests.support.gateway import STREAM, card_of, fronted
from tests.support.scripted import SSE, Wire, answers, chunk
from tests.support.streaming import Held, frame, opened, reasons, said
from tests.table import for_each

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


@for_each("raw", NO_EVENTS.values())
@for_each("target", ["/echo", "/echo/message:stream"])
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
        assert line["detail"].partition(":")[0] == "event 2"
        await gateway.rested()


ARTIFACT = (
    b'data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":%b}}}\n\n'
)
AFTER_REPEATS = {
    "alike": ARTIFACT % b'{"parts":[{"text":"three"}]}',
    "an empty text": ARTIFACT % b'{"parts":[{"text":""}]}',
    "escapes": ARTIFACT % b'{"parts":[{"text":"three\\n\\"\\u00e4"}]}',
    "beyond ASCII": ARTIFACT % '{"parts":[{"text":"drei ä"}]}'.encode(),
    "no UTF-8": ARTIFACT % b'{"parts":[{"text":"\xff"}]}',
    "a control character": ARTIFACT % b'{"parts":[{"text":"a\tb"}]}',
    "an escape of the quotation mark that ends the text": ARTIFACT % b'{"parts":[{"text":"\\"}]}',
    "a text that shares its quotation mark": ARTIFACT % b'{"parts":[{"text":"}]}',
    "another member behind the text": ARTIFACT % b'{"parts":[{"text":"a","text":"b"}]}',
    "another task behind the text": ARTIFACT
    % b'{"parts":[{"text":"a"}]},"taskId":"u","artifact":{"parts":[{"text":"b"}]}',
    "on two lines": ARTIFACT % b'{"parts":\n[]}',
    "on two lines that end in CR": ARTIFACT % b'{"parts":\r[]}',
    "on two lines of data": ARTIFACT % b'{"parts":\ndata: []}',
    "no value": ARTIFACT % b"",
    "half a value": ARTIFACT % b'{"parts":[',
    "another task behind the value": ARTIFACT % b'{},"taskId":"u"',
    "another task in a second object": ARTIFACT % b'{}}},"result":{"artifactUpdate":{"taskId":"u","artifact":{}',
    "no text": ARTIFACT % b'"\xff"',
    "two events": ARTIFACT % b"{}" * 2,
    "an event and half of one": ARTIFACT % b"{}" + b"data: x",
    "a name before it": b"event: message\n" + ARTIFACT % b"{}",
    "another task": ARTIFACT.replace(b'"t"', b'"u"') % b"{}",
    "a state": b"data: " + frame(3) + b"\n\n",
    "a comment": b": ping\n\n",
}


@for_each("piece", AFTER_REPEATS.values())
async def test_an_event_after_others_like_it_is_read_as_any_other(piece: bytes) -> None:
    told = []
    # Behind a comment in the same chunk it is decoded and read like every event.
    for comment in (b"", b": x\n\n"):
        agent = Held()
        async with fronted(agent) as (gateway, _):
            client = await opened(gateway)
            for text in (b"zero", b"one", b"two"):
                agent.say(chunk(ARTIFACT % (b'{"parts":[{"text":"%b"}]}' % text)))
                if text == b"zero":
                    await client.head()
                await client.piece()
            agent.say(chunk(comment + piece))
            body = (await client.piece()).removeprefix(comment)
            agent.say(chunk(ARTIFACT % b'"last"'), chunk(b""))
            body += await client.rest()
            line = await gateway.line()
            body = body.replace(line["request_id"].encode(), b"ID")
            told.append((body, line["reason"], line["detail"], line["events"]))
    assert told[0] == told[1]


GOOD = b"data: " + frame(1) + b"\n\n"
FAILING = {
    "first": (b": ping\n\n", b"data: no json\n\n", 1),
    "of many in one piece": (GOOD * 40 + b": ping\n\n" + GOOD, b"data: no json\n\n", 42),
    "behind more than one turn": (GOOD * 3000, b"data: []\n\n", 3001),
    "too long": (GOOD * 2, b"data: " + b" " * 17_000_000, 3),
    "never ended": (GOOD, b"data: half", 2),
}


@for_each(("before", "bad", "number"), FAILING.values())
@for_each("apart", [True, False])
async def test_the_log_says_which_event_could_not_be_passed_on(
    before: bytes, bad: bytes, number: int, *, apart: bool
) -> None:
    pieces = chunk(before) + chunk(bad) if apart else chunk(before + bad)
    async with fronted(answers(SSE + pieces + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        await client.rest()
        line = await gateway.line()
        assert line["reason"] == "upstream_protocol"
        assert line["detail"].partition(":")[0] == f"event {number}"


@for_each("padding", ["", "x" * 200_000])
async def test_the_log_says_which_event_could_not_be_translated(padding: str) -> None:
    """It is an answer, and found to be wrong when it is put into other words; a long one in a thread."""
    good = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    wrong = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": [], "metadata": {"x": padding}}}

    async def script(wire: Wire) -> None:
        asked = json.loads((await wire.request()).body)["id"]
        told = [json.dumps({"jsonrpc": "2.0", "id": asked, "result": result}) for result in (good, good, wrong)]
        await wire.send(SSE + chunk("".join(f"data: {each}\n\n" for each in told).encode()) + chunk(b""))

    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
    called = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
    async with fronted(script, card=card_of("http://x/rpc", "JSONRPC 1.0")) as (gateway, _):
        client = await opened(gateway, body=json.dumps(called).encode())
        await client.head()
        await client.rest()
        line = await gateway.line()
        assert line["reason"] == "upstream_protocol"
        assert line["detail"].partition(":")[0] == "event 3"


@for_each("data", [b"{}", b'{"task":{"id":"t"}}', b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":1,"error":"x"}'])
async def test_an_event_of_a_json_rpc_stream_is_an_envelope(data: bytes) -> None:
    async with fronted(answers(SSE + chunk(b"data: " + data + b"\n\n") + chunk(b""))) as (gateway, _):
        client = await opened(gateway)
        await client.head()
        assert reasons(said(await client.rest())["error"]["data"])[-1] == "UPSTREAM_PROTOCOL"


async def test_events_without_data_pass() -> None:
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
