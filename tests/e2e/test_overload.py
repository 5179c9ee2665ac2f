"""A process that runs out of open files or memory refuses in words, answers health and metrics, and recovers."""

import asyncio
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.fleet import serving
from tests.e2e.faults import Caller, calling, figure, ms, now, resident, site
from tests.e2e.process import GatewayProcess, gateway_process, write
from tests.support.gateway import JSON, RESULT, STREAM, agent
from tests.support.scripted import SSE, ScriptedBackend, answers, answers_and_hangs, chunk, whole

pytestmark = pytest.mark.anyio

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
SEND = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
SPARE = 100


@pytest.fixture(scope="module")
def fleet() -> Iterator[str]:
    with serving() as agents:
        yield agents


def open_files(process: GatewayProcess) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


async def answered(http: httpx.AsyncClient, url: str, status: int) -> httpx.Response:
    async with asyncio.timeout(30):
        while (answer := await http.post(url, json=SEND)).status_code != status:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
    return answer


async def test_idle_connections_that_use_up_the_open_files_cost_no_health_and_no_metrics(
    fleet: str, tmp_path: Path
) -> None:
    with gateway_process({"gateway": {}, "agents": {"echo": f"{fleet}/echo"}}, tmp_path, forked=False) as process:
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(
            trust_env=False, headers={"A2A-Version": "1.0"}, limits=limits, timeout=60
        ) as http:
            await answered(http, process.url + "/echo", 200)
            used = open_files(process)
            most = used + SPARE
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, most))
            port = int(process.url.rpartition(":")[2])
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(int(most * 0.9) - used)]
            refused = await answered(http, process.url + "/echo", 503)
            assert refused.json()["error"]["data"][-1]["reason"] == "OVERLOADED"
            assert refused.headers["retry-after"] == "1"
            assert (await http.get(process.url + "/-/live")).status_code == 200
            metrics = (await http.get(process.admin + "/metrics")).text
            assert 'a2a_gateway_shedding{what="calls"} 1.0' in metrics
            for _, writer in idle:
                writer.close()
            freed = time.monotonic()
            await answered(http, process.url + "/echo", 200)
            took = time.monotonic() - freed
    figure(
        "R19",
        f"short of files: calls 503 with Retry-After, health and metrics answered; served again {took:.2f} s after "
        "files are free",
        holds=took < 1,
    )
    assert "Traceback" not in process.log_text


# ---- Memory ----------------------------------------------------------------------------------------------------------

STREAMS = 250
EVENT = chunk(
    b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
)


async def test_r20_a_stream_holds_little_and_none_is_begun_where_memory_ends(tmp_path: Path) -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:

        def file(limit: int | None) -> dict[str, Any]:
            echo = {"backend": backend.url, "connections": {"max": 2 * STREAMS}}
            return site({"echo": echo}, **({} if limit is None else {"memory_limit": str(limit)}))

        with gateway_process(file(None), tmp_path, forked=False) as process:
            async with calling(process) as caller:
                await caller.until_answered("/echo", 200)
                backend.script = agent(answers_and_hangs(SSE + EVENT))
                for wire in backend.wires:
                    wire.close()
                before = resident(process)
                for _ in range(STREAMS):
                    client = await caller.client()
                    await client.ask("POST", "/echo", STREAM, [JSON])
                    await client.head()
                    assert b"WORKING" in await client.piece()
                held = resident(process)
                each = (held - before) / STREAMS / 1024
                # It may have so much that what it has is between 80 and 90 % of it.
                await read_again(caller, file(int(held / 0.85)), tmp_path)
                await streams_are(caller, 503)
                await backend.until(lambda: backend.open == STREAMS)
                ready, metrics = await caller.ask_admin("/-/ready"), await caller.series("shedding")
                assert (ready.status, ({"what": "streams"}, 1.0) in metrics) == (200, True)
                await read_again(caller, file(4 * held), tmp_path)
                took = await streams_are(caller, 200)
    figure(
        "R20",
        f"{STREAMS} idle streams hold {each:.0f} KiB each; at 85 % of the limit no stream is begun (503), all that are "
        f"open go on, health and metrics are answered; {ms(took)} after there is more, streams are begun",
        holds=each < 256,
    )
    assert each < 256


async def read_again(caller: Caller, file: dict[str, Any], folder: Path) -> None:
    write(file, folder)
    client = await caller.client(caller.process.admin)
    await client.ask("POST", "/-/reload", b"")
    assert (await client.answer()).json["result"] == "applied"


async def streams_are(caller: Caller, status: int) -> float:
    """Begin streams until one is answered so; the seconds that it took."""
    began = now()
    async with asyncio.timeout(30):
        while True:
            client = await caller.client()
            await client.ask("POST", "/echo", STREAM, [JSON])
            found, _ = await client.head()
            client.leave()
            if found == status:
                return now() - began
            await asyncio.sleep(0.02)
