"""Replicas on the official SDK that are killed and restarted under load: safety R1 and R9, with figures (`-rP`).

Each replica answers for its own tasks only, which outlive it; every execution is counted, over all of them. Some
clients send and ask, others follow streams. A stream that is open at a kill ends behind a whole event, with an error
event, and its task can be subscribed to again.
"""

import asyncio
import json
import os
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

from tests.e2e.agents.replica import LONG
from tests.e2e.faults import figure
from tests.e2e.process import ROOT, GatewayProcess, gateway_process
from tests.program import Forked

pytestmark = pytest.mark.anyio

SCRIPT = ROOT / "tests/e2e/agents/replica.py"
CLIENTS = 8
FOLLOWERS = 4
OVER = -32004
"""The SDK's error code for a subscription to a task that is over."""
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
WAIT = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Replica:
    """One process, on a port that is its own for as long as the test lasts."""

    def __init__(self, name: str, folder: Path, binding: str) -> None:
        self.name = name
        self.port = free_port()
        self.folder = folder / name
        self.folder.mkdir()
        self._binding = binding
        self._process: Forked | None = None

    @property
    def url(self) -> str:
        return f"{'grpc' if self._binding == 'GRPC' else 'http'}://127.0.0.1:{self.port}"

    @property
    def spoken(self) -> dict[str, str]:
        """Return the configuration of its dialect, so that nobody waits for its card."""
        words = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest"}
        return {} if self._binding == "GRPC" else {"protocol": words[self._binding], "a2a_version": "1.0"}

    @property
    def executed(self) -> list[str]:
        """The message ids of all executions, of every life."""
        file = self.folder / "executed"
        return file.read_text().split() if file.exists() else []

    async def start(self) -> None:
        arguments = [str(SCRIPT), self.name, str(self.port), str(self.folder), self._binding]
        read, out = os.pipe()
        with os.fdopen(read, "rb") as said:
            try:
                self._process = await asyncio.to_thread(
                    Forked, arguments, ROOT, dict(os.environ), out, 2, interpreter=sys.executable
                )
            finally:
                os.close(out)
            async with asyncio.timeout(WAIT):
                assert await asyncio.to_thread(said.readline) == b"ready\n"

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            await asyncio.to_thread(self._process.wait, WAIT)


@asynccontextmanager
async def replicas(folder: Path, binding: str, *names: str) -> AsyncIterator[list[Replica]]:
    found = [Replica(name, folder, binding) for name in names]
    try:
        await asyncio.gather(*(each.start() for each in found))
        yield found
    finally:
        for each in found:
            await each.end()


def site(found: list[Replica], **more: Any) -> dict[str, Any]:
    backend = [{"url": each.url, "label": each.name, **each.spoken} for each in found]
    # On a busy machine a replica takes half a minute to come back; clients wait for a whole one.
    agent = {"backend": backend, "affinity": {"by": "task", "wait": "50s"}, **more}
    return {"agents": {"agent": agent}}


class Load:
    """Clients that send, and ask for the tasks that they were given.

    Attributes:
        done: Calls by method and outcome.
        sent: Message ids, by whether the send was answered well.
        told: The errors.
        begun: Sends that were begun, by method; a stream is one until its end.
        over: Those that are over.
    """

    def __init__(self, gateway: GatewayProcess) -> None:
        self._url = gateway.url + "/agent"
        self.done: Counter[tuple[str, str]] = Counter()
        self.sent: dict[str, bool] = {}
        self.begun: Counter[str] = Counter()
        self.over: Counter[str] = Counter()
        self.longest = 0.0
        self.told: list[Any] = []
        self.news = asyncio.Event()

    async def run(self, over: asyncio.Event) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=WAIT) as http, asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._client(http, over))
            for _ in range(FOLLOWERS):
                group.create_task(self._follower(http, over))

    async def _client(self, http: httpx.AsyncClient, over: asyncio.Event) -> None:
        known: list[tuple[str, str]] = []
        while not over.is_set():
            task = await self._send(http)
            if task is not None:
                known.append(task)
            for id_, name in known[-3:]:
                await self._get(http, id_, name)

    async def _send(self, http: httpx.AsyncClient) -> tuple[str, str] | None:
        message_id, message = self._message("hi")
        self.begun["SendMessage"] += 1
        try:
            answer = await self._ask(http, "SendMessage", {"message": message})
        finally:
            self.over["SendMessage"] += 1
        if answer is None:
            return None
        self.sent[message_id] = True
        return answer["task"]["id"], answer["task"]["artifacts"][0]["name"]

    def _message(self, text: str) -> tuple[str, dict[str, Any]]:
        message_id = str(uuid.uuid4())
        self.sent[message_id] = False
        return message_id, {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}

    async def _follower(self, http: httpx.AsyncClient, over: asyncio.Event) -> None:
        while not over.is_set():
            message_id, message = self._message(LONG)
            self.begun["SendStreamingMessage"] += 1
            events = await self._stream(http, "SendStreamingMessage", {"message": message})
            self.over["SendStreamingMessage"] += 1
            last = events[-1]
            outcome = "ok" if completed(last) else "told" if "error" in last else "short"
            if "result" not in events[0]:
                self.done["SendStreamingMessage", "failed"] += 1
                continue
            self.sent[message_id] = True
            self.done["SendStreamingMessage", outcome] += 1
            if outcome == "ok":
                continue
            if outcome == "told":
                assert [each["reason"] for each in last["error"]["data"]] == ["UPSTREAM_RESET"], last
            task = events[0]["result"]["task"]["id"]
            again = await self._stream(http, "SubscribeToTask", {"id": task}, most=1)
            if again[0].get("error", {}).get("code") == OVER:
                # It was finished in the meantime; there is nothing to subscribe to, but all of it to get.
                found = await self._ask(http, "GetTask", {"id": task})
                assert found["status"]["state"] == "TASK_STATE_COMPLETED"
                self.done["SubscribeToTask", "over"] += 1
            else:
                assert again[0]["result"]["task"]["id"] == task, again
                self.done["SubscribeToTask", "ok"] += 1

    async def _stream(
        self, http: httpx.AsyncClient, method: str, params: dict[str, Any], most: int | None = None
    ) -> list[Any]:
        """The events of a stream, each whole; or the one answer that there is in its place.

        Args:
            most: After how many the client leaves.
        """
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        events: list[Any] = []
        async with http.stream("POST", self._url, json=call, headers={"A2A-Version": "1.0"}) as answer:
            if not answer.headers["content-type"].startswith("text/event-stream"):
                return [json.loads(await answer.aread())]
            rest = ""
            # Where the end is missing this raises.
            async for piece in answer.aiter_text():
                *whole, rest = (rest + piece).replace("\r\n", "\n").split("\n\n")
                lines = [line for event in whole for line in event.split("\n") if line.startswith("data:")]
                events += [json.loads(line.removeprefix("data:")) for line in lines]
                self.news.set()
                if most is not None and len(events) >= most:
                    return events
        assert not rest, rest
        return events

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
        if outcome == "failed":
            self.told.append(answer["error"])
        self.done[method, outcome] += 1
        return answer.get("result")

    def failed(self, method: str) -> int:
        return self.done[method, "failed"]

    def good(self, method: str) -> int:
        return self.done[method, "ok"]


def completed(event: Any) -> bool:
    """Whether it says that the task is over, and well."""
    return bool(
        event.get("result", {}).get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED"
    )


async def rolled(folder: Path, binding: str, restarts: list[signal.Signals], *, seconds: float = 0.0) -> str:
    """Restart one replica after the other under load; gives the figures, once all of it held."""
    async with replicas(folder, binding, "a", "b") as found:
        more = {"health": {"eject": {"time": "500ms"}}}
        config = {**site(found, **more), "defaults": {"allow_insecure": True}}
        with gateway_process(config, folder) as gateway:
            load, over = Load(gateway), asyncio.Event()
            running = asyncio.create_task(load.run(over))
            number = 0
            flying: Counter[str] = Counter()
            began = time.monotonic()
            async with asyncio.timeout(WAIT + seconds + 20 * len(restarts)):
                while number < len(restarts) or time.monotonic() - began < seconds:
                    # Both have some tasks, and much is on its way.
                    before = load.good("SendMessage")
                    while load.good("SendMessage") < before + 50 and not running.done():
                        await load.news.wait()
                        load.news.clear()
                    over_before = load.over.copy()
                    await found[number % 2].end(restarts[number % len(restarts)])
                    for method, begun in load.begun.items():
                        flying[method] += begun - over_before[method]
                    await found[number % 2].start()
                    number += 1
                over.set()
                await running
            fields = ("operation", "reason", "detail", "attempts", "duration_s")
            lines = [str([line[name] for name in fields]) for line in gateway.access_lines if line["outcome"] != "ok"]
            executed = Counter(each for replica in found for each in replica.executed)
    twice = sum(times > 1 for times in executed.values())
    assert load.failed("GetTask") == 0, "\n".join([*lines, *map(str, load.told)])
    assert twice == 0
    for method in ("SendMessage", "SendStreamingMessage"):
        assert load.failed(method) <= flying[method], "\n".join(lines)
    told, short = load.done["SendStreamingMessage", "told"], load.done["SendStreamingMessage", "short"]
    assert told + short <= flying["SendStreamingMessage"], "\n".join(lines)
    # A killed replica sends nothing more; one that shuts down may end its streams as well.
    assert short == 0 or signal.SIGTERM in restarts
    resumed, over_by_then = load.good("SubscribeToTask"), load.done["SubscribeToTask", "over"]
    assert resumed + over_by_then == told + short
    # Calls with a good answer were executed, and once.
    assert all(executed[each] == 1 for each, good in load.sent.items() if good)
    return (
        f"{binding}: {number} restarts, {load.good('GetTask')} GetTask: 0 failed; "
        f"{load.good('SendMessage')} SendMessage: {load.failed('SendMessage')} failed of {flying['SendMessage']} on "
        "their way at a kill; "
        f"{load.good('SendStreamingMessage')} streams to their end, of {flying['SendStreamingMessage']} open at a kill "
        f"{load.failed('SendStreamingMessage')} failed, {told} ended with an error event and {short} by their agent, "
        f"{resumed} resumed, {over_by_then} over by then; 0 executed twice; {load.longest:.1f} s at the longest"
    )


# Over the other bindings a call is sent again by the same rules as over JSON-RPC.
@pytest.mark.parametrize(
    "binding", ["JSONRPC", *[pytest.param(each, marks=pytest.mark.long) for each in ("HTTP+JSON", "GRPC")]]
)
async def test_r9_replicas_are_restarted_one_after_the_other_and_nothing_repeatable_fails(
    binding: str, tmp_path: Path
) -> None:
    figure("R9", await rolled(tmp_path, binding, [signal.SIGTERM, signal.SIGKILL]))


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_r9_for_a_minute(binding: str, tmp_path: Path) -> None:
    restarts = [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]
    figure("R9", await rolled(tmp_path, binding, restarts, seconds=60))
