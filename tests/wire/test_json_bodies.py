"""Bodies on a real socket: what two parsers could read in two ways reaches no agent, and a long one holds nobody up."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.a2a.bindings import jsonrpc
from tests.a2a.corpus import DOCUMENTS, DOUBLED, ENVELOPE, MESSAGE, OTHER_TENANTS, PARAMS, SEND, TENANTS, VALUES
from tests.support.gateway import CALL, JSON, RESULT, Answer, Running, agent, fronted, running
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.support.yardstick import slowness

pytestmark = pytest.mark.anyio

SENDS = {name: ENVELOPE % (SEND % text) for name, text in VALUES.items()} | DOCUMENTS
TAKEN = [body for name, body in SENDS.items() if name[0] == "y" or name.endswith("_taken")]
REFUSED = {name: body for name, body in SENDS.items() if body not in TAKEN}
TWINS = {name: ENVELOPE % params for name, params in PARAMS.items()} | DOUBLED
OVER_REST = "/echo/message:send"


@asynccontextmanager
async def configured(text: str) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """A gateway from a file, where URL is an agent."""
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
        running(text.replace("URL", backend.url)) as gateway,
    ):
        yield gateway, backend


def code(answer: Answer) -> Any:
    assert (answer.status, answer.header("content-type")) == (200, "application/json")
    return answer.json["error"]["code"]


async def test_strict_json_is_forwarded_byte_for_byte() -> None:
    async with fronted(answers(whole(RESULT.replace(b'"id":1', b'"id":"c-1"')))) as (gateway, backend):
        client = await gateway.client()
        for body in TAKEN:
            await client.ask("POST", "/echo", body, [JSON])
            assert (await client.answer()).status == 200
        assert [request.body for request in backend.requests] == TAKEN


async def test_malformed_json_is_refused_without_an_id_and_reaches_no_agent() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        client = await gateway.client()
        for name, body in REFUSED.items():
            await client.ask("POST", "/echo", body, [JSON])
            answer = await client.answer()
            hostile = name[0] == "i" or "a_hundred_thousand" in name
            assert (name, code(answer)) == (name, -32600 if hostile else -32700)
            assert answer.json["id"] is None
            assert answer.reasons == ["INVALID_REQUEST" if hostile else "PARSE_ERROR", "BAD_REQUEST"]
        assert backend.requests == []


async def test_malformed_json_is_a_bad_request_over_http_json() -> None:
    async with fronted(answers(whole(b"{}"))) as (gateway, backend):
        client = await gateway.client()
        for name in REFUSED:
            body = SEND % VALUES[name] if name in VALUES else DOCUMENTS[name]
            await client.ask("POST", OVER_REST, body, [JSON])
            answer = await client.answer()
            assert (name, answer.status) == (name, 400)
            assert answer.json["error"]["status"] == "INVALID_ARGUMENT"
        assert backend.requests == []


async def test_a_member_in_two_guises_reaches_nobody() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        client = await gateway.client()
        for name, body in TWINS.items():
            await client.ask("POST", "/echo", body, [JSON])
            answer = await client.answer()
            assert code(answer) == -32600
            assert answer.reasons[-1] == "DUPLICATE_KEY"
            # The id is known, but where the twin stands beside it.
            assert (name, answer.json["id"]) == (name, None if name in DOUBLED else "c-1")
        for body in PARAMS.values():
            await client.ask("POST", OVER_REST, body, [JSON])
            answer = await client.answer()
            assert (answer.status, answer.reasons[-1]) == (400, "DUPLICATE_KEY")
        assert backend.requests == []


async def test_an_inexact_tenant_reaches_no_agent() -> None:
    text = "agents: { echo: { backend: URL, match: { path: /echo, tenant: acme } } }"
    async with configured(text) as (gateway, backend):
        client = await gateway.client()
        for name, tenant in TENANTS.items():
            for place in (
                b'{"message":{%b},"tenant":%%b}',
                b'{"message":{%b},"configuration":{"pushNotificationConfig":{"tenant":%%b}}}',
            ):
                params = place % MESSAGE % tenant
                await client.ask("POST", "/echo", ENVELOPE % params, [JSON])
                answer = await client.answer()
                assert (name, code(answer), answer.json["id"]) == (name, -32602, "c-1")
                # A valid tenant is another one.
                reason = "NO_ROUTE" if name in OTHER_TENANTS else "BAD_REQUEST"
                assert (name, answer.reasons[-1]) == (name, reason)
                await client.ask("POST", OVER_REST, params, [JSON])
                assert (name, (await client.answer()).status) == (name, 404 if name in OTHER_TENANTS else 400)
        assert backend.requests == []


async def test_the_bounds_of_the_file_hold() -> None:
    text = """
        gateway:
          listen: "127.0.0.1:0"
          admin: "127.0.0.1:0"
          body: { depth: 5, members: 12, elements: 6 }
        agents:
          echo: URL
    """
    async with configured(text) as (gateway, backend):
        assert (await gateway.post("/echo")).status == 200
        assert len(backend.requests) == 1
        for more, fits in [
            (b'[{"a":1}]', True), (b"[[[]]]", False), (b"[1,2,3,4,5]", True), (b"[1,2,3,4,5,6]", False),
            (b'{"a":1,"b":2}', True), (b'{"a":1,"b":2,"c":3,"d":4}', False),
        ]:  # fmt: skip
            for filler in (b"", b" " * 2000):
                backend.requests.clear()
                body = CALL.replace(b'"hi"', b'"hi"' + filler).replace(b'"parts"', b'"metadata":%b,"parts"' % more)
                answer = await gateway.post("/echo", body)
                assert ("error" in answer.json, len(backend.requests)) == (not fits, int(fits)), more
                if not fits:
                    assert code(answer) == -32600


# ---- Long bodies -----------------------------------------------------------------------------------------------------

LONG = CALL.replace(b"hi", b"x" * 300_000)


class SlowReading:
    """Long bodies are read when the test lets them be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go = threading.Event()
        self._begun = threading.Event()
        self._open = jsonrpc.open_envelope
        monkeypatch.setattr(jsonrpc, "open_envelope", self._read)

    async def begun(self) -> None:
        """Wait until one is about to be read."""
        assert await asyncio.to_thread(self._begun.wait, 10)

    def _read(self, body: bytes, *more: Any) -> Any:
        if len(body) > 256 * 1024:
            self._begun.set()
            assert self.let_go.wait(10)
        return self._open(body, *more)


async def test_a_long_body_is_read_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = SlowReading(monkeypatch)
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        try:
            first = asyncio.ensure_future(gateway.post("/echo", LONG))
            await reading.begun()
            assert (await gateway.post("/echo")).body == RESULT
            assert [request.body for request in backend.requests] == [CALL]
        finally:
            reading.let_go.set()
        assert (await first).body == RESULT
        assert [request.body for request in backend.requests] == [CALL, LONG]


async def test_another_tenant_is_written_into_a_long_body_where_it_stands() -> None:
    text = """
        gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0" }
        agents:
          echo: { backend: URL, upstream_tenant: inside, match: [{ path: /echo, tenant: acme }] }
    """
    body = LONG.replace(b'"params":{', b'"params":{ "tenant" : "acme" , "metadata":{"n":1e5,"tenant":"acme"}, ')
    async with configured(text) as (gateway, backend):
        assert (await gateway.post("/echo", body)).body == RESULT
    expected = body.replace(b'"tenant" : "acme"', b'"tenant" : "inside"')
    assert json.loads(backend.requests[0].body) == json.loads(expected)
    # Values keep their bytes.
    assert b'"n":1e5' in backend.requests[0].body


@pytest.mark.long
async def test_the_loop_turns_while_long_bodies_come_in() -> None:
    metadata = {f"k{index}": "x" * 400 for index in range(9_900)}
    body = json.dumps({**json.loads(CALL), "params": {**json.loads(CALL)["params"], "metadata": metadata}}).encode()
    assert len(body) > 4_000_000
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        lags: list[float] = []
        done = asyncio.Event()

        async def watch() -> None:
            while not done.is_set():
                # In CPU time: what other processes were given the processor for is no fault of the gateway.
                before = time.process_time()
                await asyncio.sleep(0.002)
                lags.append(time.process_time() - before)

        slow = slowness()
        watching = asyncio.ensure_future(watch())
        started = time.perf_counter()
        for number in range(100):
            assert (await gateway.post("/echo", body)).body == RESULT
            await asyncio.sleep(max(0.0, started + (number + 1) / 20 - time.perf_counter()))
        done.set()
        await watching
        # Safety F4: the 99th percentile of what everybody waits for.
        assert sorted(lags)[len(lags) * 99 // 100] < 0.05 * max(slow, slowness())
