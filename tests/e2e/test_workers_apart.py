"""Several workers that share a file: they know alike whose a task is, and each gives its share of limits."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import ListTasksRequest
from a2a.utils.errors import InvalidParamsError

from gateway.demo.stage import free_port
from tests.e2e.agents.agent import Agent
from tests.e2e.agents.grounds import Grounds
from tests.e2e.foreign import check_apart, tasks_of
from tests.e2e.shared_site import ACME, GLOBEX, Speech, party
from tests.e2e.sharing import Caller, callers, configuration, only, pids, workers
from tests.program import run
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

SPEECH = Speech("1.0", "JSONRPC")


@pytest.fixture
def agent(ground: Grounds) -> Agent:
    return ground.agent("shared")


# ---- Whose a task is -------------------------------------------------------------------------------------------------


async def test_each_worker_knows_the_owners_of_the_others_tasks(agent: Agent, tmp_path: Path) -> None:
    async with workers(configuration(agent, tmp_path), tmp_path) as process:
        one, two = pids(process)
        with only(process, one):
            async with party(process.url, "shared", ACME, SPEECH) as acme:
                await acme.send("remember this", context="chat-1")
                tasks = await tasks_of(acme)
                page = await acme.unary.list_tasks(ListTasksRequest(page_size=2))
        with only(process, two):
            async with (
                party(process.url, "shared", ACME, SPEECH) as acme,
                party(process.url, "shared", GLOBEX, SPEECH) as globex,
            ):
                rest = ListTasksRequest(page_size=100, page_token=page.next_page_token)
                with pytest.raises(InvalidParamsError):
                    await globex.unary.list_tasks(rest)
                listed = await acme.unary.list_tasks(rest)
                assert len(page.tasks) + len(listed.tasks) == listed.total_size == len(tasks) + 1
                assert "this" in str(await acme.send("recall", context="chat-1"))
                assert "this" not in str(await globex.send("recall", context="chat-1"))
                # All there is, SubscribeToTask among it.
                await check_apart(acme, globex, agent, tasks)


async def test_owners_survive_a_worker_killed_among_sends(agent: Agent, tmp_path: Path) -> None:
    async with (
        workers(configuration(agent, tmp_path), tmp_path) as process,
        callers(process, ACME, GLOBEX) as parties,
    ):
        seen: list[set[str]] = [set(), set()]
        enough, lost = asyncio.Event(), 0

        async def sends(number: int) -> None:
            nonlocal lost
            caller, mine = parties[number % 2], seen[number % 2]
            while len(mine) < 30:
                try:
                    if number < 4:
                        mine.add(await caller.begin())
                    else:
                        mine.add(await _first_task(caller))
                except (httpx.TransportError, StopAsyncIteration):
                    lost += 1
                if len(seen[0]) >= 10 and len(seen[1]) >= 10:
                    enough.set()

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(sends(number))
            await enough.wait()
            victim = pids(process)[0]
            os.kill(victim, signal.SIGKILL)
        await asyncio.to_thread(process.said, f"worker {victim} ended")
        # Only what it was serving.
        assert lost <= 8
        acme, globex = parties
        assert all([await acme.owns(task) for task in seen[0]])
        assert all([await globex.owns(task) for task in seen[1]])
        assert not any([await acme.owns(task) for task in seen[1]])
        assert not any([await globex.owns(task) for task in seen[0]])


async def _first_task(caller: Caller) -> str:
    async with caller.stream("ask") as lines:
        async for line in lines:
            if line.startswith("data:"):
                task: str = json.loads(line[5:])["result"]["task"]["id"]
                return task
    raise StopAsyncIteration


# ---- Limits ----------------------------------------------------------------------------------------------------------


async def test_each_worker_enforces_its_share_of_a_rate_limit_and_says_so(agent: Agent, tmp_path: Path) -> None:
    file = configuration(agent, tmp_path)
    file["tenants"]["acme"] = {"agents": ["*"], "limits": {"requests": "5/h"}}
    async with workers(file, tmp_path) as process, callers(process, ACME, GLOBEX) as (acme, globex):
        for pid in pids(process):
            with only(process, pid):
                # 3 of 5: an N-th, rounded up.
                for left in (2, 1, 0):
                    answer = await acme.send("hello")
                    assert answer.status_code == 200
                    assert answer.headers["ratelimit-policy"] == '"requests";q=3;w=3600'
                    assert answer.headers["ratelimit"].startswith(f'"requests";r={left};t=')
                refused = await acme.send("hello")
                assert refused.status_code == 429
                assert refused.headers["ratelimit-policy"] == '"requests";q=3;w=3600'
                assert refused.headers["ratelimit"] == f'"requests";r=0;t={refused.headers["retry-after"]}'
                assert 1100 < int(refused.headers["retry-after"]) <= 1200
                assert "the 3 in 3600 s" in refused.text
                assert (await globex.send("hello")).status_code == 200


async def test_calls_and_streams_have_shares_and_open_tasks_are_counted_together(agent: Agent, tmp_path: Path) -> None:
    file = configuration(agent, tmp_path)
    limits = {"concurrency": 2, "queue": 0, "streams": 2, "open_tasks": 3}
    file["tenants"]["acme"] = {"agents": ["*"], "limits": limits}
    async with workers(file, tmp_path) as process, callers(process, ACME) as (acme,):
        tasks = []
        for pid in pids(process):
            with only(process, pid):
                async with acme.stream("wait") as lines:
                    tasks.append(await _task_in(lines))
                    # Its one place is free again, its one stream is not.
                    refused = await acme.call("SubscribeToTask", {"id": tasks[-1]})
                    assert refused.status_code == 429
                    assert "streams" in refused.text
                    assert await acme.owns(tasks[-1])
        tasks.append(await acme.begin())
        for pid in pids(process):
            with only(process, pid):
                refused = await acme.send("ask")
                assert refused.status_code == 429
                assert "too many tasks are open" in refused.text
        with only(process, pids(process)[0]):
            await acme.call("CancelTask", {"id": tasks.pop()})
        with only(process, pids(process)[1]):
            tasks.append(await acme.begin())
            assert (await acme.send("ask")).status_code == 429
        for task in tasks:
            agent.let_go(task)


async def _task_in(lines: Any) -> str:
    async for line in lines:
        if line.startswith("data:"):
            told = json.loads(line[5:])["result"]
            task: str = told["task"]["id"] if "task" in told else told["statusUpdate"]["taskId"]
            return task
    raise AssertionError("the stream has no event")


# ---- Webhooks --------------------------------------------------------------------------------------------------------


def relaying(agent: Agent, folder: Path, hook: str) -> dict[str, Any]:
    push = {"mode": "relay", "allow": [hook], "block_private_networks": False}
    file = configuration(agent, folder, push=push)
    # Where agents find their callbacks has to be known beforehand.
    file["gateway"]["listen"] = authority = f"127.0.0.1:{free_port(0)}"
    file["gateway"]["public_url"] = f"http://{authority}"
    return file


class AgentsHook:
    """A webhook as the agent was given it: it posts there as an agent does."""

    def __init__(self, agent: Agent, task: str) -> None:
        asked = next(
            call.tree["params"] for call in agent.calls
            if b"CreateTaskPushNotificationConfig" in call.body and task in call.body.decode()
        )  # fmt: skip
        given = asked.get("pushNotificationConfig") or asked.get("config") or asked
        self._url = given["url"]
        self._token = given["token"]
        self._task = task

    async def post(self, http: httpx.AsyncClient, state: str, number: int = 0) -> int:
        status = {"state": state, "timestamp": f"2026-01-01T00:00:{number:02}Z"}
        body = {"statusUpdate": {"taskId": self._task, "contextId": "c", "status": status}}
        shown = {"X-A2A-Notification-Token": self._token, "content-type": "application/a2a+json"}
        return (await http.post(self._url, json=body, headers=shown)).status_code


async def test_a_callback_that_another_worker_gets_is_delivered_once(agent: Agent, tmp_path: Path) -> None:
    limits = httpx.Limits(max_keepalive_connections=0)
    async with (
        ScriptedBackend(answers(whole(b"{}", b"connection: close"))) as receiver,
        httpx.AsyncClient(trust_env=False, limits=limits) as http,
    ):
        hook = f"http://127.0.0.1:{receiver.port}/hook"
        async with workers(relaying(agent, tmp_path, hook), tmp_path) as process, callers(process, ACME) as (acme,):
            one, two = pids(process)
            with only(process, one):
                task = await acme.begin()
                set_ = await acme.call("CreateTaskPushNotificationConfig", {"taskId": task, "id": "h", "url": hook})
                assert "result" in set_.json(), set_.text
                keys = (await http.get(f"{process.url}/.well-known/jwks.json")).json()
            with only(process, two):
                assert (await http.get(f"{process.url}/.well-known/jwks.json")).json() == keys
                given = AgentsHook(agent, task)
                assert await given.post(http, "TASK_STATE_WORKING") == 200
                await receiver.until(lambda: len(receiver.requests) == 1)
            # Both look for what is due, and both have it in their hands again and again.
            posts = await asyncio.gather(*(given.post(http, "TASK_STATE_WORKING", n) for n in range(1, 31)))
            assert set(posts) == {200}
            await receiver.until(lambda: len(receiver.requests) == 31, for_ever=True)
            # The same once more is known, whoever gets it.
            for pid in pids(process):
                with only(process, pid):
                    assert await given.post(http, "TASK_STATE_WORKING", 7) == 200
            assert await given.post(http, "TASK_STATE_COMPLETED", 59) == 200
            await receiver.until(lambda: len(receiver.requests) == 32)
            assert b"COMPLETED" in receiver.requests[-1].body
        deliveries = {each.header(b"x-a2a-delivery") for each in receiver.requests}
        assert len(deliveries) == len({each.body for each in receiver.requests}) == len(receiver.requests) == 32


async def test_each_worker_adopts_a_new_key_soon_and_without_a_restart(agent: Agent, tmp_path: Path) -> None:
    file = relaying(agent, tmp_path, "http://127.0.0.1:9/hook")
    limits = httpx.Limits(max_keepalive_connections=0)
    async with workers(file, tmp_path) as process, httpx.AsyncClient(trust_env=False, limits=limits) as http:

        async def kids(pid: int) -> list[str]:
            with only(process, pid):
                keys = (await http.get(f"{process.url}/.well-known/jwks.json")).json()["keys"]
                return [key["kid"] for key in keys]

        [first] = await kids(pids(process)[0])
        for option in ((), ("--now",)):
            told = json.loads(await asyncio.to_thread(_rotate, tmp_path, *option))
            for pid in pids(process):
                async with asyncio.timeout(30):
                    while told["kid"] not in (found := await kids(pid)):  # noqa: ASYNC110 - it tells nobody
                        await asyncio.sleep(0.05)
                # It is announced before it signs, or the only one.
                assert found == ([told["kid"]] if option else [first, told["kid"]])


def _rotate(folder: Path, *options: str) -> str:
    file = str(folder / "gateway.yaml")
    return run("state", "rotate-key", "-c", file, "--output", "json", *options, cwd=folder).stdout


# ---- Beside that -----------------------------------------------------------------------------------------------------


async def test_events_of_the_audit_are_whole_lines_and_none_is_missing(agent: Agent, tmp_path: Path) -> None:
    file = configuration(agent, tmp_path, observe={"audit": str(tmp_path / "audit.jsonl")})
    async with workers(file, tmp_path) as process, callers(process, ACME, GLOBEX) as (acme, globex):
        task = await acme.begin()
        for _ in range(5):
            assert not any(await asyncio.gather(*(globex.owns(task) for _ in range(40))))
        process.signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0
    events = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events].count("task_denied") == 200
    assert len({event["request_id"] for event in events if event["event"] == "task_denied"}) == 200
