"""A process that runs out of open files refuses calls in words, answers health and metrics, and recovers by itself."""

import asyncio
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.demo.fleet import serving
from tests.e2e.process import GatewayProcess, gateway_process

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
    with gateway_process({"gateway": {}, "agents": {"echo": f"{fleet}/echo"}}, tmp_path) as process:
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
    print(f"\nR19: calls are served again {took:.2f} s after files are free")  # noqa: T201 - the figure
    assert "Traceback" not in process.log_text
