"""Replicas on the official SDK that are killed and restarted under load: safety R1 and R9, with figures (`-rP`).

Each replica answers for its own tasks only, which outlive it; every execution is counted, over all of them.
"""

import asyncio
import signal
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.faults import figure
from tests.e2e.process import ROOT, GatewayProcess, gateway_process

pytestmark = pytest.mark.anyio

CLIENTS = 8
WAIT = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Replica:
    """One process, on a port that is its own for as long as the test lasts."""

    def __init__(self, name: str, folder: Path, *, over_grpc: bool = False) -> None:
        self.name = name
        self.port = free_port()
        self.folder = folder / name
        self.folder.mkdir()
        self._over_grpc = over_grpc
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"{'grpc' if self._over_grpc else 'http'}://127.0.0.1:{self.port}"

    @property
    def executed(self) -> list[str]:
        """The message ids of all executions, of every life."""
        file = self.folder / "executed"
        return file.read_text().split() if file.exists() else []

    async def start(self) -> None:
        arguments = [self.name, str(self.port), str(self.folder), *(["grpc"] if self._over_grpc else [])]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.e2e.agents.replica", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT):
            assert await self._process.stdout.readline() == b"ready\n"

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            async with asyncio.timeout(WAIT):
                await self._process.wait()


@asynccontextmanager
async def replicas(folder: Path, *names: str, over_grpc: bool = False) -> AsyncIterator[list[Replica]]:
    found = [Replica(name, folder, over_grpc=over_grpc) for name in names]
    try:
        await asyncio.gather(*(each.start() for each in found))
        yield found
    finally:
        for each in found:
            await each.end()


def site(found: list[Replica], **more: Any) -> dict[str, Any]:
    backend = [{"url": each.url, "label": each.name} for each in found]
    agent = {"backend": backend, "affinity": {"by": "task", "wait": "30s"}, **more}
    return {"agents": {"agent": agent}}


class Load:
    """Clients that send, and ask for the tasks that they were given.

    Attributes:
        done: Calls by method and outcome.
        sent: Message ids, by whether the send was answered well.
        begun: Sends that were begun.
        over: Sends that are over.
    """

    def __init__(self, gateway: GatewayProcess) -> None:
        self._url = gateway.url + "/agent"
        self.done: Counter[tuple[str, str]] = Counter()
        self.sent: dict[str, bool] = {}
        self.begun = self.over = 0
        self.longest = 0.0
        self.news = asyncio.Event()

    async def run(self, over: asyncio.Event) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=WAIT) as http, asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._client(http, over))

    async def _client(self, http: httpx.AsyncClient, over: asyncio.Event) -> None:
        known: list[tuple[str, str]] = []
        while not over.is_set():
            task = await self._send(http)
            if task is not None:
                known.append(task)
            for id_, name in known[-3:]:
                await self._get(http, id_, name)

    async def _send(self, http: httpx.AsyncClient) -> tuple[str, str] | None:
        message_id = str(uuid.uuid4())
        message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        self.sent[message_id] = False
        self.begun += 1
        try:
            answer = await self._ask(http, "SendMessage", {"message": message})
        finally:
            self.over += 1
        if answer is None:
            return None
        self.sent[message_id] = True
        return answer["task"]["id"], answer["task"]["artifacts"][0]["name"]

    async def _get(self, http: httpx.AsyncClient, task: str, name: str) -> None:
        answer = await self._ask(http, "GetTask", {"id": task})
        if answer is not None:
            assert (answer["id"], answer["artifacts"][0]["name"]) == (task, name)

    async def _ask(self, http: httpx.AsyncClient, method: str, params: dict[str, Any]) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        began = time.monotonic()
        answer = (await http.post(self._url, json=call, headers={"A2A-Version": "1.0"})).json()
        self.longest = max(self.longest, time.monotonic() - began)
        self.news.set()
        outcome = "ok" if "result" in answer else "failed"
        self.done[method, outcome] += 1
        return answer.get("result")

    def failed(self, method: str) -> int:
        return self.done[method, "failed"]

    def good(self, method: str) -> int:
        return self.done[method, "ok"]


async def rolled(folder: Path, restarts: list[signal.Signals], *, seconds: float = 0.0, over_grpc: bool = False) -> str:
    """Restart one replica after the other under load; gives the figures, once all of it held."""
    async with replicas(folder, "a", "b", over_grpc=over_grpc) as found:
        more = {"health": {"eject": {"time": "500ms"}}}
        config = {**site(found, **more), "defaults": {"allow_insecure": True}}
        with gateway_process(config, folder) as gateway:
            load, over = Load(gateway), asyncio.Event()
            running = asyncio.create_task(load.run(over))
            flying = number = 0
            began = time.monotonic()
            async with asyncio.timeout(WAIT + seconds + 20 * len(restarts)):
                while number < len(restarts) or time.monotonic() - began < seconds:
                    # Both have some tasks, and much is on its way.
                    before = load.good("SendMessage")
                    while load.good("SendMessage") < before + 50 and not running.done():
                        await load.news.wait()
                        load.news.clear()
                    over_before = load.over
                    await found[number % 2].end(restarts[number % len(restarts)])
                    flying += load.begun - over_before
                    await found[number % 2].start()
                    number += 1
                over.set()
                await running
            told = ("operation", "reason", "detail", "attempts", "duration_s")
            lines = [str([line[name] for name in told]) for line in gateway.access_lines if line["outcome"] != "ok"]
            executed = Counter(each for replica in found for each in replica.executed)
    failed, twice = load.failed("SendMessage"), sum(times > 1 for times in executed.values())
    assert load.failed("GetTask") == 0, "\n".join(lines)
    assert twice == 0
    assert failed <= flying, "\n".join(lines)
    # What was answered well was executed, and once.
    assert all(executed[each] == 1 for each, good in load.sent.items() if good)
    return (
        f"{number} restarts, {load.good('GetTask')} GetTask: 0 failed; {load.good('SendMessage')} SendMessage: "
        f"{failed} failed of {flying} on their way at a kill, 0 executed twice; {load.longest:.1f} s at the longest"
    )


async def test_r9_replicas_are_restarted_one_after_the_other_and_nothing_repeatable_fails(tmp_path: Path) -> None:
    figure("R9", await rolled(tmp_path, [signal.SIGTERM, signal.SIGKILL]))


async def test_r9_replicas_behind_grpc_are_restarted_alike(tmp_path: Path) -> None:
    figure("R9", "gRPC: " + await rolled(tmp_path, [signal.SIGKILL, signal.SIGKILL], over_grpc=True))


@pytest.mark.long
async def test_r9_for_a_minute(tmp_path: Path) -> None:
    figure("R9", await rolled(tmp_path, [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL], seconds=60))
