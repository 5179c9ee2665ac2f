"""Clients that send nothing, read nothing or do nothing, before a gateway process: R23, R24 and R25."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.faults import Caller, calling, figure, ms, now, resident, site
from tests.e2e.process import gateway_process
from tests.listener.front import slow_socket
from tests.support.gateway import CALL, JSON, RESULT, STREAM, agent, request
from tests.support.scripted import SSE, ScriptedBackend, answers, chunk, endless, whole

pytestmark = pytest.mark.anyio

FLOOD = chunk(b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n' * 100)
POST = b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@asynccontextmanager
async def serving(folder: Path, **http: str) -> AsyncIterator[tuple[Caller, ScriptedBackend]]:
    """A gateway whose agent at /echo answers, and whose agent at /flood never ends."""
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
        ScriptedBackend(agent(endless(SSE, FLOOD))) as flooding,
    ):
        flood = {"backend": flooding.url, "connections": {"max": 500}}
        file = site({"echo": backend.url, "flood": flood}, http=http)
        with gateway_process(file, folder, forked=False) as process:
            async with calling(process) as caller:
                await caller.until_answered("/echo", 200)
                yield caller, flooding


# ---- R23 -------------------------------------------------------------------------------------------------------------

DEAF = 20
STALL = 2.0


async def test_r23_a_stream_that_nobody_reads_costs_little_and_ends(tmp_path: Path) -> None:
    async with serving(tmp_path, write_stall=f"{STALL:g}s") as (caller, flooding):
        port = urlsplit(caller.process.url).port
        assert port is not None
        before, loop = resident(caller.process), asyncio.get_running_loop()
        deaf = [slow_socket(port) for _ in range(DEAF)]
        try:
            for each in deaf:
                await loop.sock_sendall(each, request("POST", "/flood", STREAM, [JSON]))
            began = now()
            await flooding.until(lambda: sum(wire.stuck or wire.gone for wire in flooding.wires) == DEAF)
            stuck, held, slowest = now(), 0, 0.0
            while flooding.open:
                held = max(held, resident(caller.process) - before)
                took, answer = await caller.timed("/echo")
                assert answer.status == 200
                slowest = max(slowest, took)
                await asyncio.sleep(0.05)
        finally:
            for each in deaf:
                each.close()
    cut = max(wire.left_at or 0.0 for wire in flooding.wires)
    kept = held / DEAF / 1024
    figure(
        "R23",
        f"{DEAF} streams that nobody reads hold {kept:.0f} KiB each; all are cut, and their agents left, "
        f"{cut - began:.1f} s after they began (limit: {STALL:g} s unread); others are served within {ms(slowest)}",
        holds=cut - stuck < STALL + 1,
    )
    assert kept < 256


# ---- R24 -------------------------------------------------------------------------------------------------------------

LIMIT = 1.0
HEADS, BODIES = 100, 50


async def test_r24_requests_that_stop_coming_are_refused_in_time(tmp_path: Path) -> None:
    limit = f"{LIMIT:g}s"
    async with serving(tmp_path, header_timeout=limit, body_idle=limit) as (caller, _):

        async def given_up(begun: bytes) -> float:
            """Seconds until it is refused and its connection closed."""
            client = await caller.client()
            began = now()
            await client.send(begun)
            assert (await client.ended()).startswith(b"HTTP/1.1 408 ")
            return now() - began

        async with asyncio.TaskGroup() as group:
            heads = [group.create_task(given_up(POST)) for _ in range(HEADS)]
            bodies = [group.create_task(given_up(POST + b"Content-Length: 100\r\n\r\n{")) for _ in range(BODIES)]
            await asyncio.sleep(LIMIT / 2)
            good, answer = await caller.timed("/echo")
            assert answer.status == 200
    took = [task.result() for task in (*heads, *bodies)]
    figure(
        "R24",
        f"{HEADS} heads and {BODIES} bodies that stop coming: all 408 and closed, {min(took):.2f} to {max(took):.2f} s "
        f"after they began at limits of {LIMIT:g} s; a good call meanwhile takes {ms(good)}",
        holds=max(took) < LIMIT + 1,
    )
    assert min(took) > LIMIT * 0.9


@pytest.mark.long
async def test_r24_a_body_that_drips_is_refused_once_its_rate_counts(tmp_path: Path) -> None:
    async with serving(tmp_path) as (caller, _):
        client = await caller.client()
        began = now()
        await client.send(POST + b"Content-Length: 100000\r\n\r\n{")
        reading = asyncio.ensure_future(client.reader.readuntil(b"\r\n"))
        while not reading.done():
            client.writer.write(b" " * 10)
            await asyncio.wait({reading}, timeout=0.1)
        took = now() - began
        assert (await reading).startswith(b"HTTP/1.1 408 ")
    figure("R24", f"a body of 100 B/s is refused after {took:.1f} s", holds=took < 12)


# ---- R25 -------------------------------------------------------------------------------------------------------------

IDLE = 2000


@contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Let this process have so many, as far as the system grants it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
async def test_r25_idle_connections_by_the_thousand_do_not_matter(tmp_path: Path) -> None:
    with open_files(IDLE + 500):
        async with serving(tmp_path) as (caller, _):
            port = urlsplit(caller.process.url).port
            before, loop = resident(caller.process), asyncio.get_running_loop()
            idle = []
            try:
                for _ in range(IDLE):
                    connection = socket.socket()
                    connection.setblocking(False)
                    idle.append(connection)
                    await loop.sock_connect(connection, ("127.0.0.1", port))
                # The last accepted connection is served.
                first, answer = await caller.timed("/echo", CALL)
                assert answer.status == 200
                slowest = max([first, *[(await caller.timed("/echo"))[0] for _ in range(20)]])
                each = (resident(caller.process) - before) / IDLE / 1024
            finally:
                for connection in idle:
                    connection.close()
    figure(
        "R25",
        f"a good call beside {IDLE:,} idle connections takes {ms(slowest)}, worst of 21; each holds {each:.1f} KiB",
        holds=slowest < 1,
    )
