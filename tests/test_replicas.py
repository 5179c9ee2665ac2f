"""Several replicas of one agent, through a whole gateway: who is asked, what follows a task, and what is sent again."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.doubles.gateway import CALL, Running, agent, bearer, keys, running
from tests.doubles.scripted import Script, ScriptedBackend, Wire, refused_port, whole

pytestmark = pytest.mark.anyio


def task(id: str, context: str = "c", state: str = "TASK_STATE_COMPLETED") -> bytes:  # noqa: A002 - the word
    return json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"task": {"id": id, "contextId": context, "status": {"state": state}}},
        }
    ).encode()


def get(id: str, context: str = "c") -> bytes:  # noqa: A002 - the word
    """The answer to GetTask."""
    tree = {"id": id, "contextId": context, "status": {"state": "TASK_STATE_COMPLETED"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": tree}).encode()


def asks(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def sends(context: str | None = None, task: str | None = None) -> bytes:
    message: dict[str, object] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    message |= {} if context is None else {"contextId": context}
    message |= {} if task is None else {"taskId": task}
    return asks("SendMessage", message=message)


def named(name: str) -> Script:
    """An agent that makes tasks `<name>-1`, `<name>-2` and so on, and knows those alone."""
    made = 0

    async def play(wire: Wire) -> None:
        nonlocal made
        while True:
            request = await wire.request()
            call = json.loads(request.body)
            params = call["params"]
            if call["method"] == "SendMessage":
                made += 1
                context = params["message"].get("contextId", f"{name}-context")
                answer = task(params["message"].get("taskId", f"{name}-{made}"), context)
            elif params["id"].startswith(name):
                answer = get(params["id"])
            else:
                error = {"code": -32001, "message": "Task not found"}
                answer = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
            await wire.send(whole(answer))

    return agent(play)


@asynccontextmanager
async def replicated(
    *scripts: Script, more: str = "", auth: str = "", lines: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Running, list[ScriptedBackend]]]:
    """A gateway in front of one agent, at /echo, with a replica for each script, called a, b and so on."""
    async with AsyncExitStack() as stack:
        backends = [await stack.enter_async_context(ScriptedBackend(each)) for each in scripts]
        replicas = "".join(
            f"      - {{ url: {each.url}, label: {name}{extra} }}\n"
            for each, name, extra in zip(backends, "abcdefgh", [*lines, *[""] * 8], strict=False)
        )
        text = f"{auth}agents:\n  echo:\n    backend:\n{replicas}{more}"
        yield await stack.enter_async_context(running(text, settled=False)), backends


def count(backend: ScriptedBackend) -> int:
    return len(backend.requests)


async def sent(gateway: Running, body: bytes = CALL, **more: Any) -> Any:
    return (await gateway.post("/echo", body, **more)).json


# ---- Who is asked ----------------------------------------------------------------------------------------------------


async def test_calls_go_to_all_replicas() -> None:
    async with replicated(named("a"), named("b")) as (gateway, backends):
        for _ in range(40):
            await sent(gateway)
        assert sum(map(count, backends)) == 40
        assert min(map(count, backends)) > 5
        assert {line["backend"] for line in gateway.lines} == {"echo@a", "echo@b"}
        assert gateway.metric("backend_requests_total", backend="echo@a", status="2xx") == count(backends[0])


async def test_a_canary_gets_its_share() -> None:
    async with replicated(named("a"), named("b"), lines=(", weight: 90", ", weight: 10")) as (gateway, backends):
        for _ in range(200):
            await sent(gateway)
        assert 2 <= count(backends[1]) <= 60


async def test_a_replica_without_weight_gets_the_follow_ups_of_its_tasks_alone() -> None:
    async with replicated(named("a"), named("b"), lines=("", ", weight: 0")) as (gateway, backends):
        for _ in range(10):
            await sent(gateway)
        assert list(map(count, backends)) == [10, 0]


# ---- Affinity --------------------------------------------------------------------------------------------------------

AUTH = keys(acme="acme") + "tenants: { acme: [echo] }\n"


@pytest.mark.parametrize("auth", ["", AUTH], ids=["nobody is proven", "a ledger is kept"])
async def test_a_task_is_answered_for_by_the_replica_that_made_it(auth: str) -> None:
    headers = (bearer("acme"),) if auth else ()
    async with replicated(named("a"), named("b"), named("c"), auth=auth) as (gateway, _):
        made = [(await sent(gateway, headers=headers))["result"]["task"]["id"] for _ in range(12)]
        assert len({each[0] for each in made}) == 3
        for each in made:
            for body in (asks("GetTask", id=each), asks("CancelTask", id=each)):
                assert (await sent(gateway, body, headers=headers))["result"]["id"] == each
            followed = (await sent(gateway, sends(task=each), headers=headers))["result"]["task"]["id"]
            assert followed == each
        assert gateway.metric("rejected_total") == 0


@pytest.mark.parametrize("auth", ["", AUTH], ids=["nobody is proven", "a ledger is kept"])
async def test_a_context_stays_where_it_began(auth: str) -> None:
    headers = (bearer("acme"),) if auth else ()
    async with replicated(named("a"), named("b"), named("c"), auth=auth) as (gateway, _):
        for context in map(str, range(8)):
            first = (await sent(gateway, sends(context), headers=headers))["result"]["task"]["id"]
            for _ in range(3):
                again = (await sent(gateway, sends(context), headers=headers))["result"]["task"]["id"]
                assert again[0] == first[0]


async def test_the_replica_of_a_task_stands_in_the_ledger() -> None:
    async with replicated(named("a"), named("b"), auth=AUTH) as (gateway, _):
        made = (await sent(gateway, headers=(bearer("acme"),)))["result"]["task"]["id"]
        ledger = gateway.gateway._ledger
        assert ledger is not None
        [known] = ledger.store.tasks("echo", [made])  # type: ignore[misc]  # the store in memory answers at once
        assert known is not None
        assert known.replica == made[0]


async def test_without_affinity_any_replica_is_asked() -> None:
    async with replicated(named("a"), named("b"), more="    affinity: none\n") as (gateway, backends):
        made = (await sent(gateway))["result"]["task"]["id"]
        for _ in range(20):
            await sent(gateway, asks("GetTask", id=made))
        assert min(map(count, backends)) > 2


async def test_a_task_whose_replica_is_gone_is_refused_clearly_or_asked_of_another() -> None:
    for gone, reason in (("refuse", "UPSTREAM_CONNECT"), ("other", None)):
        more = f"    affinity: {{ gone: {gone} }}\n"
        async with replicated(named("a"), named("b"), more=more) as (gateway, backends):
            while not (made := (await sent(gateway))["result"]["task"]["id"]).startswith("a"):
                pass
            await backends[0].__aexit__(None, None, None)
            answer = await sent(gateway, asks("GetTask", id=made))
            if reason is None:
                assert answer["error"]["code"] == -32001
            else:
                assert [each["reason"] for each in answer["error"]["data"]] == [reason]


# ---- What is sent again ----------------------------------------------------------------------------------------------


async def test_a_send_that_never_went_out_goes_to_another_replica() -> None:
    port = refused_port()
    async with ScriptedBackend(named("a")) as there:
        text = (
            "agents:\n  echo:\n    backend:\n"
            f"      - {{ url: 'http://127.0.0.1:{port}', label: away }}\n      - {{ url: {there.url}, label: there }}\n"
        )
        async with running(text, settled=False) as gateway:
            for _ in range(30):
                assert "result" in await sent(gateway)
            assert count(there) == 30
            assert gateway.metric("backend_retries_total", backend="echo@away", reason="connect") >= 5
            assert gateway.metric("backend_ejections_total", backend="echo@away") == 1
            assert gateway.metric("backend_up", backend="echo@away") == 0
            assert gateway.metric("backend_up", backend="echo@there") == 1
            page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
            assert page["up"] is True
            away, there_ = page["replicas"]
            assert "left alone" in away["state"]
            assert "in a row failed" in away["state"]
            assert there_["state"] == "up"


async def answered_once(wire: Wire) -> None:
    """Reads a call and resets."""
    await wire.request()
    wire.reset()


async def test_a_send_that_may_have_been_seen_is_never_sent_again() -> None:
    async with replicated(agent(answered_once), agent(answered_once)) as (gateway, backends):
        for body in (CALL, CALL.replace(b"SendMessage", b"SendStreamingMessage")):
            before = sum(map(count, backends))
            answer = await sent(gateway, body)
            assert [each["reason"] for each in answer["error"]["data"]] == ["UPSTREAM_RESET"]
            assert sum(map(count, backends)) == before + 1


async def test_what_may_be_repeated_is_sent_once_more() -> None:
    async with replicated(agent(answered_once), agent(answered_once)) as (gateway, backends):
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            before = sum(map(count, backends))
            answer = await sent(gateway, asks(method, id="t"))
            assert [each["reason"] for each in answer["error"]["data"]] == ["UPSTREAM_RESET"]
            assert sum(map(count, backends)) == before + 2
