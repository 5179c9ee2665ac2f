"""Start and end of the gateway as a process: the signals, the exit codes, and what open calls are told."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.agents.agent import Agent
from tests.e2e.agents.grounds import Grounds
from tests.e2e.process import GatewayProcess, gateway_process, write
from tests.e2e.sdk import open_http
from tests.e2e.wire import V1, error, frame, message

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def agent(ground: Grounds) -> Agent:
    return ground.agent("steady")


def configuration(agent: Agent, **gateway: Any) -> dict[str, Any]:
    return {"gateway": gateway, "agents": {"steady": agent.url}}


async def ended(process: GatewayProcess) -> int:
    return await asyncio.to_thread(process.wait)


async def _waiting(agent: Agent) -> str:
    """The task that has begun to wait."""
    return await asyncio.to_thread(agent.executor.waiting.get, timeout=10)


async def _draining(process: GatewayProcess) -> None:
    """Nobody new is let in while the call that is there is waited for."""
    await asyncio.to_thread(process.said, "draining: up to")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(process.url.rpartition(":")[2]))


async def test_a_second_signal_waits_for_nobody(agent: Agent, tmp_path: Path) -> None:
    with gateway_process(configuration(agent), tmp_path) as process:
        async with open_http(V1) as http, asyncio.TaskGroup() as group:
            open_call = group.create_task(
                http.post(process.url + "/steady", content=frame("SendMessage", message("wait")))
            )
            await _waiting(agent)
            process.signal(signal.SIGTERM)
            await _draining(process)
            process.signal(signal.SIGTERM)
            answer = await open_call
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert answer.headers["retry-after"]
        assert error(answer)["code"] == -31503
        assert await ended(process) == 0
    assert "stopped" in process.log_text
    assert "Traceback" not in process.log_text
    # Records written before the end are there after it.
    assert [line["operation"] for line in process.access_lines] == ["SendMessage"]


def test_a_file_with_mistakes_ends_with_exit_code_1_and_no_traceback(tmp_path: Path) -> None:
    file = write({"agents": {"a": {"backend": "ftp://x", "pathh": "/y"}}}, tmp_path)
    process = GatewayProcess(file, forked=True)
    try:
        assert process.wait() == 1
    finally:
        process.close()
    assert "gateway.yaml:" in process.log_text
    assert "pathh" in process.log_text
    assert "Traceback" not in process.log_text


@pytest.mark.parametrize("key", ["listen", "listen_grpc"])
async def test_an_address_that_is_taken_ends_with_exit_code_1(agent: Agent, tmp_path: Path, key: str) -> None:
    file = write(configuration(agent, **{key: f"127.0.0.1:{agent.port}"}), tmp_path)
    process = GatewayProcess(file, forked=True)
    try:
        assert await ended(process) == 1
    finally:
        process.close()
    assert f"127.0.0.1:{agent.port}" in process.log_text
    assert "Traceback" not in process.log_text
