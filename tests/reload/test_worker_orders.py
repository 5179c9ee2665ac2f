"""Orders of an operator to any worker hold for all of them, also for those that start later."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.e2e import sharing
from tests.e2e.process import GatewayProcess

pytestmark = pytest.mark.anyio

FILE = {
    "gateway": {"drain": {"delay": "0s", "timeout": "1s"}, "reload": {"watch": False, "poll": "0s"}},
    "agents": {"a": "http://127.0.0.1:1"},
}


async def levels(process: GatewayProcess, http: httpx.AsyncClient) -> set[str]:
    found = set()
    for pid in sharing.pids(process):
        with sharing.only(process, pid):
            found.add((await http.get(process.admin + "/-/log-level")).json()["level"])
    return found


async def test_the_log_level_and_drain_reach_all_workers(tmp_path: Path) -> None:
    limits = httpx.Limits(max_keepalive_connections=0)
    async with (
        sharing.workers(FILE, tmp_path) as process,
        httpx.AsyncClient(trust_env=False, limits=limits, timeout=30) as http,
    ):
        answer = await http.put(process.admin + "/-/log-level", json={"level": "debug"})
        assert (answer.status_code, answer.json()) == (200, {"level": "debug", "unheard": 0})
        assert await levels(process, http) == {"debug"}
        answer = await http.post(process.admin + "/-/drain")
        assert (answer.status_code, answer.json()) == (200, {"draining": True, "unheard": 0})
        first = sharing.pids(process)
        os.kill(first[0], signal.SIGKILL)
        async with asyncio.timeout(30):
            while len(now := set(sharing.pids(process)) - {first[0]}) < 2:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)
        for pid in now:
            with sharing.only(process, pid):
                assert (await http.get(process.url + "/-/ready")).status_code == 503
        assert await levels(process, http) == {"debug"}
