"""A client's connection: one request at a time, trailers that count for nothing, and a leave that is noticed."""

import asyncio
from functools import partial

import pytest
import uvicorn
from uvicorn.protocols.http import httptools_impl

from gateway.listener.protocol import CONNECTION, GONE, ClientConnection
from tests.doubles.gateway import CALL, JSON, RESULT, STREAM, Client, Running, fronted, request
from tests.doubles.scripted import ScriptedBackend, Wire, answers, answers_and_hangs, chunk, head, whole

pytestmark = pytest.mark.anyio

SSE = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
POST = request("POST", "/echo", CALL, [JSON])


class Patient:
    """Answers each request when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, wire: Wire) -> None:
        while True:
            await wire.request()
            await self.go.wait()
            await wire.send(whole(RESULT))


def only_connection(gateway: Running) -> ClientConnection:
    [connection] = gateway.gateway._servers[0]._server.server_state.connections
    assert isinstance(connection, ClientConnection)
    return connection


async def answered_and_closed(client: Client) -> None:
    answer = await client.answer()
    assert answer.body == RESULT
    assert answer.header("connection") == "close"
    assert await client.ended() == b""


async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        client = await gateway.client()
        for _ in range(5):
            await client.send(POST)
            assert (await client.answer()).header("connection") is None
        assert len(backend.requests) == 5


@pytest.mark.parametrize("together", [True, False])
async def test_a_request_behind_one_that_is_being_answered_is_not_served(*, together: bool) -> None:
    agent = Patient()
    async with fronted(agent) as (gateway, backend):
        client = await gateway.client()
        await client.send(POST + POST if together else POST)
        await backend.until(lambda: len(backend.requests) == 1)
        if not together:
            await client.send(POST)
            await client.send(POST)
        await asyncio.sleep(0.02)
        agent.go.set()
        await answered_and_closed(client)
        await gateway.rested()
        assert len(backend.requests) == 1


@pytest.mark.parametrize("more", [b"\x00\x01garbage\r\n\r\n", b"GET", b"POST /echo HTTP/1.1\r\nHost: x\r\n"])
async def test_garbage_behind_a_request_does_not_break_into_its_answer(more: bytes) -> None:
    agent = Patient()
    async with fronted(agent) as (gateway, backend):
        for together in (True, False):
            agent.go.clear()
            served = len(backend.requests)
            client = await gateway.client()
            await client.send(POST + more if together else POST)
            await backend.until(partial(_more, backend, served))
            if not together:
                await client.send(more)
                await asyncio.sleep(0.02)
            agent.go.set()
            answer = await client.answer()
            assert answer.body == RESULT


def _more(backend: ScriptedBackend, than: int) -> bool:
    return len(backend.requests) > than


async def test_garbage_behind_a_stream_does_not_break_into_it() -> None:
    async with fronted(answers_and_hangs(SSE + chunk(EVENT))) as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        await client.head()
        assert await client.piece() == EVENT
        await client.send(b"garbage\r\n\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.reader.read(1)
        client.leave()
        await gateway.rested()


async def test_a_flood_behind_a_request_is_not_kept() -> None:
    agent = Patient()
    async with fronted(agent) as (gateway, backend):
        client = await gateway.client()
        await client.send(POST)
        await backend.until(lambda: len(backend.requests) == 1)
        connection = only_connection(gateway)
        for _ in range(100):
            await client.send(b"x" * 65536)
        assert not connection.cycle.body
        assert not connection.pipeline
        agent.go.set()
        await answered_and_closed(client)


async def test_what_a_keep_alive_request_left_behind_is_not_called_for_a_later_one() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        client = await gateway.client()
        await client.send(POST)
        await client.answer()
        connection = only_connection(gateway)
        assert connection.cycle.response_complete
        called: list[int] = []
        connection.cycle.scope["state"][GONE] = lambda: called.append(1)
        client.leave()
        await gateway.until(lambda: not gateway.gateway._servers[0]._server.server_state.connections)
        assert called == []


async def test_a_cut_connection_is_closed_without_an_end() -> None:
    async with fronted(answers_and_hangs(SSE + chunk(EVENT))) as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        await client.head()
        await client.piece()
        connection = only_connection(gateway)
        connection.cut()
        with pytest.raises(asyncio.IncompleteReadError):
            await client.piece()
        await gateway.rested()


async def test_what_is_no_request_is_refused_where_nothing_is_being_answered() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        client = await gateway.client()
        await client.send(POST)
        await client.answer()
        await client.send(b"garbage\r\n\r\n")
        assert (await client.ended()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_connection_without_a_request_can_be_cut_and_left() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        client = await gateway.client()
        await gateway.until(lambda: len(gateway.gateway._servers[0]._server.server_state.connections) == 1)
        only_connection(gateway).cut()
        assert await client.ended() == b""
        await gateway.until(lambda: not gateway.gateway._servers[0]._server.server_state.connections)


async def test_requests_on_one_connection_do_not_share_their_state() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        client = await gateway.client()
        states = []
        for _ in range(2):
            await client.send(POST)
            await client.answer()
            connection = only_connection(gateway)
            states.append(connection.cycle.scope["state"])
            assert states[-1][CONNECTION] is connection
        assert states[0] is not states[1]


async def test_an_upgrade_is_not_made_and_what_follows_is_not_served() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        for upgrade in (b"h2c", b"websocket"):
            client = await gateway.client()
            headers = [
                JSON,
                (b"Connection", b"Upgrade, HTTP2-Settings"),
                (b"Upgrade", upgrade),
                (b"HTTP2-Settings", b"x"),
            ]
            await client.send(request("POST", "/echo", CALL, headers) + POST)
            assert (await client.answer()).status in (200, 400)
            client.leave()
        await gateway.rested()
        assert all(received.header(b"upgrade") is None for received in backend.requests)


# ---- What is used of uvicorn ---------------------------------------------------------------------------------------


def test_uvicorn_has_what_the_connection_overrides() -> None:
    assert uvicorn.__version__.startswith("0.54.")
    ours = {name for name in vars(ClientConnection) if not name.startswith("__")}
    theirs = set(dir(httptools_impl.HttpToolsProtocol))
    overridden = {"connection_lost", "data_received", "on_headers_complete", "on_message_begin", "send_400_response"}
    assert overridden <= ours & theirs


async def test_uvicorns_cycle_has_what_the_connection_reads() -> None:
    async with fronted(answers_and_hangs(SSE + chunk(EVENT))) as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        await client.head()
        cycle = only_connection(gateway).cycle
        found = (cycle.more_body, cycle.response_complete, cycle.keep_alive, cycle.disconnected)
        assert found == (False, False, True, False)
        assert cycle.scope["state"][GONE]
        client.leave()
