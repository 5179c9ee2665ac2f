"""A gateway process that lacks something it needs: a Redis (R17), a log that takes lines (R18), an address (R10)."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.faults import Caller, calling, figure, ms, now, quantile, site
from tests.e2e.process import gateway_process
from tests.e2e.shared_site import tenancy
from tests.e2e.site import ACME_KEY
from tests.support.gateway import CALL, JSON, RESULT, agent
from tests.support.redis_server import RedisServer, needs_redis, redis_server
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

# ---- R17 -------------------------------------------------------------------------------------------------------------

KEY = (b"X-API-Key", ACME_KEY.encode())
TASK = (
    b'{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}}'
)
GET = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}'
CALLS = 20


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@needs_redis
async def test_r17_without_redis_limits_go_on_and_tasks_are_refused(tmp_path: Path, redis: RedisServer) -> None:
    def fill() -> None:
        redis.ask("CONFIG", "SET", "maxmemory", "1")

    def empty() -> None:
        redis.ask("CONFIG", "SET", "maxmemory", "0")

    # The fault, its repair, and a call that needs the store meanwhile: a full store is still read.
    faults: dict[str, tuple[Callable[[], None], Callable[[], None], bytes]] = {
        "killed": (redis.stop, redis.start, GET),
        "frozen": (redis.freeze, redis.thaw, GET),
        "full": (fill, empty, CALL),
    }
    async with ScriptedBackend(agent(answers(whole(TASK)))) as backend:
        agents = {"owned": {"backend": backend.url}, "open": {"backend": backend.url, "isolation": "none"}}
        file = {**site(agents, state=redis.url), **tenancy()}
        file["tenants"]["acme"] = {"agents": ["*"], "limits": {"requests": "100000/min"}}
        told, holds = [], True
        with gateway_process(file, tmp_path) as process:
            async with calling(process) as caller:
                await caller.until_answered("/open", 200, [KEY])
                assert (await caller.post("/owned", CALL, [KEY])).status == 200
                for name, (fail, mend, needs) in faults.items():
                    await asyncio.to_thread(fail)
                    await caller.until_answered("/owned", 503, [KEY], needs)
                    limited, refused = [], []
                    for _ in range(CALLS):
                        took, answer = await caller.timed("/open", CALL, [KEY])
                        assert answer.status == 200
                        limited.append(took)
                        asked = len(backend.requests)
                        took, answer = await caller.timed("/owned", needs, [KEY])
                        assert (answer.status, answer.reasons) == (503, ["STATE_UNAVAILABLE"])
                        # About a task nobody is asked; what came of a message is withheld.
                        assert needs is CALL or len(backend.requests) == asked
                        refused.append(took)
                    await asyncio.to_thread(mend)
                    back = await caller.until_answered("/owned", 200, [KEY], needs)
                    assert (await caller.post("/open", CALL, [KEY])).status == 200
                    worst = max(limited), max(refused)
                    told.append(f"{name}: {ms(worst[0])}, {ms(worst[1])}, back {back:.2f} s later")
                    holds = holds and max(worst) < 0.15 and back < 1.0
    figure(
        "R17",
        f"worst of {CALLS} calls that are limited (all 200) and of as many about tasks (all 503): {'; '.join(told)}",
        holds=holds,
    )


# ---- R18 -------------------------------------------------------------------------------------------------------------

LINES = 12_500
"""More than wait at a time, and a pipe holds."""
FEW = 800
"""Enough where each line is refused at once."""


async def failed_calls(caller: Caller, count: int, clients: int = 8) -> list[float]:
    """Calls whose line is all that they cost; the seconds of each."""
    times: list[float] = []

    async def call_once() -> None:
        client = await caller.client()
        for _ in range(count // clients):
            began = now()
            await client.ask("POST", "/nobody", CALL, [JSON])
            assert (await client.answer()).status == 404
            times.append(now() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(call_once())
    return times


@pytest.mark.long
async def test_r18_a_log_that_nobody_takes_costs_lines_and_no_calls(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told, holds = [], True
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        # Somebody has it open for reading, and reads nothing.
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            for name, place, calls in (
                ("a full disk", "/dev/full", FEW),
                ("a pipe that nobody reads", str(pipe), LINES),
            ):
                before = ("sh", "-c", 'exec "$@" > "$0"', place)
                with gateway_process(site({"echo": backend.url}), tmp_path, before=before) as process:
                    async with calling(process) as caller:
                        await caller.until_answered("/echo", 200)
                        times = await failed_calls(caller, calls)
                        async with asyncio.timeout(30):
                            while not (dropped := await caller.metric("log_dropped_total")):  # noqa: ASYNC110 - it tells nobody
                                await asyncio.sleep(0.05)
                        answer = await caller.post("/echo")
                        assert answer.status == 200
                        stalls = await caller.metric("event_loop_stalls_total")
                told.append(
                    f"{name}: {len(times):,} calls answered, p99 {ms(quantile(times, 0.99))}, {dropped:,.0f} lines "
                    f"dropped and counted, {stalls:.0f} stalls of the loop"
                )
                holds = holds and stalls == 0
        finally:
            os.close(reader)
    figure("R18", "; ".join(told), holds=holds)


# ---- R10 -------------------------------------------------------------------------------------------------------------


def may_mount() -> bool:
    """Whether a process of ours may have files of its own in the place of the system's."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="the system lets nobody have a file system of its own")
@pytest.mark.parametrize(
    "headless", [pytest.param(False, marks=pytest.mark.long, id="a name"), pytest.param(True, id="headless")]
)
async def test_r10_another_address_of_a_name_is_used_soon(tmp_path: Path, headless: bool) -> None:  # noqa: FBT001 - a parameter
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.2 agents.test\n")
    before = ("unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts))
    script = agent(answers(whole(RESULT)))
    async with (
        ScriptedBackend(script, host="127.0.0.2") as old,
        ScriptedBackend(script, host="127.0.0.3", port=old.port) as new,
    ):
        backend = {"url": f"http://agents.test:{old.port}", "protocol": "jsonrpc", "a2a_version": "1.0"}
        file = site({"echo": {"backend": {**backend, **({"dns": "headless"} if headless else {})}}})
        with gateway_process({**file, "defaults": {"allow_insecure": True}}, tmp_path, before=before) as process:
            async with calling(process) as caller:
                await caller.until_answered("/echo", 200)
                assert (len(old.requests) > 0, new.requests) == (True, [])
                # In its place: what is mounted is the file, not its name.
                hosts.write_text("127.0.0.1 localhost\n127.0.0.3 agents.test\n")
                began = now()
                async with asyncio.timeout(100):
                    while not new.requests:
                        assert (await caller.post("/echo")).status == 200
                        await asyncio.sleep(0.05)
                    took = now() - began
                    while old.open:
                        assert (await caller.post("/echo")).status == 200
                        await asyncio.sleep(0.05)
                drained = now() - began
    figure(
        "R10",
        f"{'headless' if headless else 'a name'}: the new address is asked {took:.1f} s after DNS says so, under calls "
        f"without a pause, and the last connection to the old one is closed after {drained:.1f} s",
        holds=took < 30,
    )
