"""The processes of an agent: kept running, found again by task and context, a tenant's own, and gone in the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.bindings.stdio import read_message
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import Draining, Fault, NoHealthyBackend, Overloaded
from gateway.a2a.operation import Operation
from gateway.upstream.stdio.agent import Backoff, CardQuery, Pace, Pool, Runner, Spec, State, StdioAgent
from gateway.upstream.stdio.rpc import Rpc
from tests.stdio.test_stdio_misbehaving import left
from tests.support.assembly import until
from tests.support.scripted import WAIT
from tests.table import for_each
from tests.upstream.stdio.specs import spec

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(how: Spec) -> AsyncIterator[StdioAgent]:
    agent = StdioAgent("notes", how)
    try:
        yield agent
    finally:
        await agent.aclose()
        assert all(runner.state in (State.RESTING, State.ENDED) for _, runner in agent.runners())
        assert all(runner.pid is None for _, runner in agent.runners())


async def ready(agent: StdioAgent, tenant: str = "") -> tuple[Pool, list[Rpc]]:
    """All processes of a tenant, once each of them is ready."""
    pool = agent.pool(tenant)
    await pool.rpc(None, None, WAIT)
    await until(lambda: all(runner.rpc is not None for runner in pool.runners))
    return pool, [runner.rpc for runner in pool.runners if runner.rpc is not None]


def only(agent: StdioAgent) -> Runner:
    [(_, runner)] = agent.runners()
    return runner


async def say(rpc: Rpc, text: str) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    received = read_message(json.dumps(body).encode())
    assert received is not None
    call = Call(Operation.SEND_MESSAGE, Dialect(Binding.JSONRPC, Version.V1_0), "SendMessage", id=b"1")
    response = rpc.ask(call, received.members, b"", Version.V1_0)
    await response.head(rpc.loop.time() + WAIT)
    return json.loads(await response.read(10_000, WAIT))["result"]


# ---- One process -----------------------------------------------------------------------------------------------------


async def test_nothing_runs_before_it_is_needed_and_it_is_ready_once_it_has_answered(tmp_path: Path) -> None:
    async with running(spec(journal=tmp_path / "journal")) as agent:
        pool = agent.pool("acme")
        assert left(tmp_path) == []
        rpc = await pool.rpc(None, None, WAIT)
        assert (await say(rpc, "ok"))["message"]["parts"][0]["text"] == "ok"
        assert pool.handshake is not None
        assert b"Misbehaving" in (pool.handshake.card or b"")
        assert left(tmp_path) == [only(agent).pid]
    assert left(tmp_path) == []


def test_pauses_grow_and_too_many_failures_make_a_long_one() -> None:
    backoff = Backoff(Pace(most=4))
    found = [backoff.after(ready, now) for ready, now in ((0, 0), (0, 10), (90, 100), (0, 200), (0, 201), (0, 202))]
    assert [state for state, _ in found] == [State.PAUSED] * 6
    for (_, pause), longest in zip(found, (0.5, 1.0, 0.5, 0.5, 1.0, 2.0), strict=True):
        assert 0.75 * longest <= pause <= longest
    assert backoff.after(0, 203) == (State.BROKEN, 60.0)
    assert backoff.after(0, 300)[0] is State.PAUSED


async def test_callers_of_one_that_keeps_failing_are_told_at_once() -> None:
    async with running(spec("exits-at-start", pace=Pace(first=0.01, most=2))) as agent:
        with pytest.raises(NoHealthyBackend, match="keeps failing") as told:
            await agent.pool("").rpc(None, None, WAIT)
        assert told.value.detail == "it exited with code 3"
        assert 1.0 <= (told.value.retry_after or 0) <= 60.0
        assert (only(agent).state, only(agent).starts) == (State.BROKEN, 2)


@for_each(
    ("mode", "restart", "state", "starts"),
    [
        ("behaves", "never", State.ENDED, 1),
        # It has served before it left.
        ("behaves", "on-failure", State.RESTING, 1),
        # It has not, and would be started as fast as it can be by calls that wait.
        ("leaves", "on-failure", State.PAUSED, 1),
        ("leaves", "always", State.PAUSED, 1),
    ],
)
async def test_when_it_is_started_again_is_what_the_file_says(
    mode: str, restart: str, state: State, starts: int
) -> None:
    async with running(spec(mode, restart=restart, pace=Pace(first=60.0))) as agent:
        rpc = await agent.pool("").rpc(None, None, WAIT)
        runner = only(agent)
        if mode == "behaves":
            await say(rpc, "ok")
            assert runner.process is not None
            runner.process.close_input()
        else:
            with pytest.raises(Fault):
                await rpc.request("SendMessage", b"", Version.V1_0, WAIT)
        await until(lambda: runner.state is state)
        assert runner.starts == starts
        if state is State.RESTING:
            await agent.pool("").rpc(None, None, WAIT)
            assert runner.starts == 2


async def test_a_call_that_waits_for_a_start_has_its_time_and_is_told_when_the_agent_ends() -> None:
    async with running(spec("never-starts")) as agent:
        with pytest.raises(NoHealthyBackend, match="being started"):
            await agent.pool("").rpc(None, None, 0.01)
        waiting = asyncio.ensure_future(agent.pool("").rpc(None, None, WAIT))
        await asyncio.sleep(0)
    with pytest.raises(Draining):
        await waiting
    with pytest.raises(Draining):
        agent.pool("")


async def test_calls_that_are_open_end_before_the_process_does_when_no_configuration_has_it_any_more() -> None:
    async with running(spec("says-nothing")) as agent:
        rpc = await agent.pool("").rpc(None, None, WAIT)
        asking = asyncio.ensure_future(rpc.request("X", b"", Version.V1_0, WAIT))
        await asyncio.sleep(0)
        agent.retire()
        await asyncio.sleep(0.2)
        assert rpc.is_open
        asking.cancel()
        await until(lambda: only(agent).state is State.ENDED)


# ---- The card --------------------------------------------------------------------------------------------------------


@for_each(("mode", "card"), [("behaves", "extended"), ("announces", "printed"), ("behaves", "GetTask")])
async def test_the_card_is_the_last_one_reported(mode: str, card: str) -> None:
    async with running(spec(mode, card=card)) as agent:
        for again in (False, True):
            told = await agent.handshake(CardQuery(), WAIT, again=again)
            if card == "GetTask":
                assert told.card is None
            else:
                assert json.loads(told.card or b"")["name"] == "Misbehaving"
        other = CardQuery(Version.V0_3)
        told = await agent.handshake(other, WAIT)
        assert told.query == (None if card == "printed" else other)


async def test_another_method_and_a_refusal_of_the_card_show_that_it_is_there() -> None:
    async with running(spec("refuses", card="agent/card")) as agent:
        assert (await agent.handshake(CardQuery(), WAIT)).card is None
    async with running(spec(card="none")) as agent:
        assert await agent.handshake(CardQuery(), WAIT) == await agent.handshake(CardQuery(), WAIT)


# ---- Several processes -----------------------------------------------------------------------------------------------


async def test_a_call_goes_to_the_process_of_its_task_then_of_its_context() -> None:
    async with running(spec(processes=3)) as agent:
        pool, rpcs = await ready(agent)
        for rpc in rpcs:
            task = (await say(rpc, "task"))["task"]
            assert pool.rpc_nowait(task["id"], None) is rpc
            # The context is the same everywhere; the process that named it last has it.
            assert pool.rpc_nowait(None, task["contextId"]) is rpc
            assert pool.rpc_nowait(task["id"], "another") is rpc
        # The first call that names a context decides.
        assert {pool.rpc_nowait(None, "mine") for _ in range(5)} == {pool.rpc_nowait(None, "mine")}


async def test_other_calls_go_to_the_process_with_the_fewest_open_ones() -> None:
    async with running(spec("says-nothing", processes=2)) as agent:
        pool, rpcs = await ready(agent)
        asking = asyncio.ensure_future(say(rpcs[0], "nothing"))
        await asyncio.sleep(0)
        assert {pool.rpc_nowait() for _ in range(5)} == {rpcs[1]}
        asking.cancel()
        await asyncio.wait([asking])


# ---- Processes of a tenant's own -------------------------------------------------------------------------------------


async def test_the_idle_tenant_that_called_least_recently_makes_room_and_never_one_at_work(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with running(spec("says-nothing", per_tenant=True, tenants=2, journal=journal)) as agent:
        for tenant in ("acme", "globex", "acme", "initech", ""):
            await agent.pool(tenant).rpc(None, None, WAIT)
        assert {tenant for tenant, _ in agent.runners()} == {"acme", "initech", ""}
        await until(lambda: len(left(tmp_path)) == 3)
        rpcs = [await agent.pool(tenant).rpc(None, None, WAIT) for tenant in ("acme", "initech")]
        tasks = [asyncio.ensure_future(rpc.request("X", b"", Version.V1_0, WAIT)) for rpc in rpcs]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            agent.pool("globex")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert left(tmp_path) == []
