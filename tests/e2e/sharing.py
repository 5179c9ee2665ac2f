"""A gateway of several workers, and of two that share a file: which of them serves is for the test to say."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.agents.agent import Agent
from tests.e2e.process import GatewayProcess, write
from tests.e2e.shared_site import tenancy
from tests.e2e.wire import V1, frame, message

COUNT = 2


def configuration(agent: Agent, folder: Path, **more: Any) -> dict[str, Any]:
    """A file with one agent that two tenants share, and a state that lies in a file."""
    return {
        **tenancy(),
        "gateway": {
            "state": f"sqlite://{folder / 'state.db'}",
            "reload": {"watch": False, "poll": "0s"},
            "drain": {"delay": "0s", "timeout": "5s"},
        },
        "agents": {"shared": agent.url},
        **more,
    }


@asynccontextmanager
async def workers(file: Mapping[str, Any], folder: Path, count: int = COUNT) -> AsyncIterator[GatewayProcess]:
    """All of them serve, until the end of the block."""
    process = GatewayProcess(write(file, folder), "--workers", str(count), forked=True)
    try:
        process.await_serving()
        await asyncio.to_thread(process.said, f"{count} workers serve")
        yield process
    finally:
        process.close()


def pids(process: GatewayProcess) -> list[int]:
    """Return the pids of the workers."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@contextmanager
def only(process: GatewayProcess, pid: int) -> Iterator[None]:
    """Let only this worker accept connections in the block: all others are stopped."""
    others = [each for each in pids(process) if each != pid]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


class Caller:
    """One who calls the agent, with a connection of its own for each call."""

    def __init__(self, http: httpx.AsyncClient, url: str, shown: Mapping[str, str]) -> None:
        self._http = http
        self._url = url
        self._headers = {**V1, **shown}

    async def call(self, method: str, params: Mapping[str, Any] | None = None, **members: Any) -> httpx.Response:
        return await self._http.post(self._url, content=frame(method, params, **members), headers=self._headers)

    async def send(self, text: str, **members: Any) -> httpx.Response:
        return await self.call("SendMessage", message(text, **members))

    async def begin(self, text: str = "ask") -> str:
        """The id of a task that was begun."""
        task: str = (await self.send(text)).json()["result"]["task"]["id"]
        return task

    async def owns(self, task: str) -> bool:
        """Whether a task is this caller's."""
        answer = (await self.call("GetTask", {"id": task})).json()
        if "result" in answer:
            assert answer["result"]["id"] == task
            return True
        assert answer["error"]["code"] == -32001, answer
        return False

    @asynccontextmanager
    async def stream(self, text: str) -> AsyncIterator[AsyncIterator[str]]:
        """A stream that has begun: the lines of its events."""
        body = frame("SendStreamingMessage", message(text))
        async with self._http.stream("POST", self._url, content=body, headers=self._headers) as answer:
            yield answer.aiter_lines()


@asynccontextmanager
async def callers(process: GatewayProcess, *shown: Mapping[str, str]) -> AsyncIterator[list[Caller]]:
    """One for each credential."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=30) as http:
        yield [Caller(http, f"{process.url}/shared", each) for each in shown]
