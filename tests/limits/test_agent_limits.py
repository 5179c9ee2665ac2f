"""Every bound on the connections to an agent and on its answers is the operator's to set, and holds."""

import asyncio

import pytest

from tests.support.gateway import CALL, JSON, RESULT, Running, fronted
from tests.support.pool import pool_of
from tests.support.scripted import ScriptedBackend, Wire, answers, whole
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio


class Turnstile:
    """Answers each request when the test lets it."""

    def __init__(self) -> None:
        self.let = asyncio.Semaphore(0)

    async def __call__(self, wire: Wire) -> None:
        while True:
            await wire.request()
            await self.let.acquire()
            await wire.send(whole(RESULT))


async def calling(gateway: Running, backend: ScriptedBackend, number: int) -> None:
    """Have `number` calls on their way, and wait until the agent has them."""
    for _ in range(number):
        await (await gateway.client()).ask("POST", "/echo", CALL, [JSON])
    await backend.until(lambda: len(backend.requests) == number)


async def test_no_more_connections_than_the_file_says() -> None:
    turnstile = Turnstile()
    more = "connections: { max: 2, queue: 8, queue_timeout: 5s }"
    async with fronted(turnstile, more) as (gateway, backend):
        for_cards = len(backend.wires)
        await calling(gateway, backend, 2)
        pool = pool_of(gateway.gateway.snapshot.backends["echo"])
        waiting = [asyncio.ensure_future(gateway.post("/echo")) for _ in range(3)]
        await gateway.until(lambda: pool.waiting == 3)
        assert (pool.active, len(backend.requests)) == (2, 2)
        for _ in range(5):
            turnstile.let.release()
        assert {answer.body for answer in await asyncio.gather(*waiting)} == {RESULT}
        assert len(backend.wires) == for_cards + 2


async def test_no_more_calls_wait_than_the_file_says() -> None:
    async with fronted(Turnstile(), "connections: { max: 1, queue: 0 }") as (gateway, backend):
        await calling(gateway, backend, 1)
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["error"]["code"], answer.header("retry-after")) == (503, -31503, "1")
        assert (await gateway.line())["reason"] == "overloaded"


@undisturbed(0.2)
async def test_no_call_waits_longer_than_the_file_says() -> None:
    async with fronted(Turnstile(), "connections: { max: 1, queue_timeout: 50ms }") as (gateway, backend):
        await calling(gateway, backend, 1)
        began = asyncio.get_running_loop().time()
        assert (await gateway.post("/echo")).status == 503
        assert 0.04 < asyncio.get_running_loop().time() - began < 0.6


async def test_no_connection_rests_longer_than_the_file_says() -> None:
    async with fronted(answers(whole(RESULT)), "connections: { idle: 50ms }") as (gateway, backend):
        assert (await gateway.post("/echo")).body == RESULT
        await backend.all_gone()
        assert (await gateway.post("/echo")).body == RESULT


@for_each(
    ("more", "raw"),
    [
        ("connections: { headers: 1KiB }", whole(RESULT, b"x: " + b"y" * 1000)),
        ("connections: { header_count: 5 }", whole(RESULT, b"a: b", b"a: b", b"a: b", b"a: b")),
    ],
)
async def test_no_head_is_longer_than_the_file_says(more: str, raw: bytes) -> None:
    async with fronted(answers(raw)) as (gateway, _):
        assert (await gateway.post("/echo")).body == RESULT
    async with fronted(answers(raw), more) as (gateway, _):
        assert (await gateway.post("/echo")).json["error"]["code"] == -32006
        assert (await gateway.line())["reason"] == "upstream_protocol"
