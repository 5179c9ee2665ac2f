"""An answer that is too long to be kept is looked at as it passes, and cut where it turns out to be none."""

import asyncio

import pytest

from tests.doubles.gateway import CALL, fronted
from tests.doubles.scripted import Wire, answers, head, whole

pytestmark = pytest.mark.anyio

KEPT = 1 << 20


def lengthy(opening: bytes, closing: bytes, size: int = 2 * KEPT) -> bytes:
    return opening + b'"result":"' + b"x" * size + b'"' + closing


@pytest.mark.parametrize("identity", [b"2", b'"1"', b"true", b"null"])
async def test_a_long_answer_under_an_id_of_the_agents_own_is_kept_and_gets_the_clients_id_back(
    identity: bytes,
) -> None:
    body = lengthy(b'{"jsonrpc":"2.0","id":' + identity + b",", b"}")
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.post("/echo")).body == body.replace(b'"id":' + identity, b'"id":1', 1)


async def test_an_answer_that_is_too_long_to_be_kept_is_refused_under_an_id_of_the_agents_own() -> None:
    body = lengthy(b'{"jsonrpc":"2.0","id":"made up",', b"}")
    async with fronted(answers(whole(body)), "connections: { kept: 64KiB, event: 64KiB }") as (gateway, backend):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (200, 1, -32006)
        assert b"xxx" not in answer.body
        assert (await gateway.line())["detail"] == "its id has to be changed, and it is not kept"
        await gateway.rested()
        await backend.all_gone()


async def test_a_long_answer_whose_id_comes_last_is_kept_until_it_is_known() -> None:
    for identity in (b"1", b"2"):
        body = lengthy(b"{", b',"id":' + identity + b',"jsonrpc":"2.0"}')
        async with fronted(answers(whole(body))) as (gateway, _):
            assert (await gateway.post("/echo")).body == body.replace(b'"id":2', b'"id":1')


async def test_a_long_answer_that_does_not_say_soon_enough_whose_it_is_is_refused() -> None:
    body = lengthy(b"{", b',"id":1}', 5 * KEPT)
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.post("/echo")).json["error"]["code"] == -32006
        assert (await gateway.line())["detail"] == "its id does not stand in front"
    async with fronted(answers(whole(body)), "connections: { kept: 6MiB }") as (gateway, _):
        assert (await gateway.post("/echo")).body == body


@pytest.mark.parametrize(
    "closing",
    [
        b"",
        b',"id":2}',
        b',"id":1}',
        b',"result":{}}',
        b',"error":{"code":1}}',
        b"}{}",
        b"}}",
        b"]",
        b',"jsonrpc":"1.0"}',
    ],
)
async def test_a_long_answer_that_turns_out_to_be_none_is_cut(closing: bytes) -> None:
    body = lengthy(b'{"id":1,', closing)
    async with fronted(answers(whole(body))) as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL)
        assert (await client.head())[0] == 200
        with pytest.raises(asyncio.IncompleteReadError):
            await client.rest()
        line = await gateway.line()
        assert (line["reason"], line["outcome"]) == ("upstream_protocol", "upstream_error")
        await gateway.rested()


async def test_a_long_answer_of_neither_result_nor_error_is_cut() -> None:
    body = b'{"id":1,"x":"' + b"x" * (2 * KEPT) + b'"}'
    async with fronted(answers(whole(body))) as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL)
        await client.head()
        with pytest.raises(asyncio.IncompleteReadError):
            await client.rest()


async def test_a_long_error_is_passed_and_told_to_the_log() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"' + b"x" * (2 * KEPT) + b'"}}'
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.post("/echo")).body == body
        assert (await gateway.line())["outcome"] == "upstream_error"


@pytest.mark.parametrize("raw", [b"\x1f\x8b\x08\x00" * KEPT, b"<p>" * KEPT, b'"' + b"x" * (2 * KEPT) + b'"'])
async def test_what_is_long_and_no_object_is_refused_over_http_json(raw: bytes) -> None:
    bare = whole(raw).replace(b"content-type: application/json\r\n", b"")
    async with fronted(answers(bare)) as (gateway, _):
        assert (await gateway.get("/echo/tasks/t1")).status == 502


async def test_how_much_is_kept_is_the_operators_choice() -> None:
    body = lengthy(b'{"id":1,', b"}", 2000)

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"content-length: %d" % len(body)) + body[:1500])
        await held.wait()
        await wire.send(body[1500:])
        await wire.hang()

    held = asyncio.Event()
    async with fronted(script, "connections: { kept: 1KiB }") as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL)
        assert (await client.head())[0] == 200
        assert await client.piece() == body[:1500]
        held.set()
        assert await client.rest() == body[1500:]
