"""Retries: what is sent again, where, and what is never sent twice. `test_failure_table` has every kind of failure."""

import asyncio
import sys
import time

import pytest

from gateway.a2a.operation import Operation
from tests.support.gateway import CALL, JSON, agent, fronted, running
from tests.support.grpc_agent import Asked, grpc_over
from tests.support.grpc_gateway import grpc_fronted
from tests.support.replicated import asks, count, get, named, replicated, sent
from tests.support.scripted import Script, ScriptedBackend, Wire, answers_and_hangs, head, refused_port, whole
from tests.support.undisturbed import undisturbed
from tests.table import for_each

__all__ = ("grpc_over",)

pytestmark = pytest.mark.anyio

STREAMED = CALL.replace(b"SendMessage", b"SendStreamingMessage")
IDEMPOTENT = "    message_id_idempotent: true\n"
CALLBACK = b'"configuration":{"taskPushNotificationConfig":{"url":"https://hooks.example.com/x"}},"message"'
LOOKED_UP = CALL.replace(b'"message"', CALLBACK)
"""Between the choice of a replica and the call to it a name is looked up."""


async def resets(wire: Wire) -> None:
    """Reads a call and resets."""
    await wire.request()
    wire.reset()


async def hangs(wire: Wire) -> None:
    await wire.request()
    await wire.hang()


# ---- Among replicas --------------------------------------------------------------------------------------------------


async def test_a_send_that_never_went_out_goes_to_another_replica() -> None:
    port = refused_port()
    async with ScriptedBackend(named("a")) as there:
        text = (
            "agents:\n  echo:\n    backend:\n"
            f"      - {{ url: 'http://127.0.0.1:{port}', label: away }}\n      - {{ url: {there.url}, label: there }}\n"
        )
        async with running(text, settled=False) as gateway:
            spent = []
            for _ in range(30):
                began = time.monotonic()
                assert "result" in await sent(gateway)
                spent.append(time.monotonic() - began)
            assert count(there) == 30
            sys.stdout.write(f"R1: with another replica answered in {max(spent) * 1e3:.1f} ms at the worst of 30\n")
            assert gateway.metric("backend_retries_total", backend="echo@away", reason="connect") >= 5
            assert gateway.metric("backend_ejections_total", backend="echo@away") == 1
            assert gateway.metric("backend_up", backend="echo@away") == 0
            assert gateway.metric("backend_up", backend="echo@there") == 1
            page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
            away, there_ = page["replicas"]
            assert away["state"].startswith("ejected")
            assert (page["up"], there_["state"]) == (True, "up")


@for_each(
    ("more", "body", "tries"),
    [
        ("", CALL, [0, 1]),
        ("", STREAMED, [0, 1]),
        ("", asks("GetTask", id="t"), [1, 1]),
        # The message may have been seen: only the same replica knows it again, unless replicas share a store.
        (IDEMPOTENT, CALL, [0, 2]),
        (IDEMPOTENT + "    affinity: none\n", CALL, [1, 1]),
    ],
)
async def test_a_call_that_may_have_been_seen_is_sent_again_only_where_that_is_safe(
    more: str, body: bytes, tries: list[int]
) -> None:
    async with replicated(agent(resets), agent(resets), more=more) as (gateway, backends):
        answer = await sent(gateway, body)
        assert [each["reason"] for each in answer["error"]["data"]] == ["UPSTREAM_RESET"]
        assert sorted(map(count, backends)) == tries


async def test_a_replica_without_a_connection_left_leaves_its_calls_to_another() -> None:
    more = "    connections: { max: 1, queue: 1, queue_timeout: 10ms }\n    affinity: none\n"
    weights = (", weight: 1000", ", weight: 1")
    async with replicated(agent(hangs), named("b"), more=more, lines=weights) as (gateway, (full, there)):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL, (JSON,))
        await full.until(lambda: count(full) == 1)
        for _ in range(5):
            assert "result" in await sent(gateway)
        assert (count(full), count(there)) == (1, 5)
        # A busy replica has not failed.
        assert gateway.metric("backend_up", backend="echo@a") == 1


# ---- 503 -------------------------------------------------------------------------------------------------------------

_NOON = b"Mon, 23 Nov 2026 12:00:00 GMT"


@for_each("after", [(b"retry-after: 1",), (b"date: " + _NOON, b"retry-after: " + _NOON)])
async def test_a_read_waits_for_an_agent_that_is_busy_for_a_moment(after: tuple[bytes, ...]) -> None:
    busy = [whole(b"{}", *after, status=b"503 Service Unavailable")]

    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(busy.pop() if busy else whole(get("t")))

    async with fronted(agent(play)) as (gateway, backend):
        assert (await sent(gateway, asks("GetTask", id="t")))["result"]["id"] == "t"
        assert len(backend.requests) == 2
        assert gateway.metric("backend_retries_total", reason="503") == 1
        assert (await gateway.line())["attempts"] == 2


async def test_a_client_that_leaves_meanwhile_leaves_no_half_of_an_answer_behind() -> None:
    half = head(b"content-length: 100", b"retry-after: 2", status=b"503 Service Unavailable") + b"{"
    async with fronted(answers_and_hangs(half)) as (gateway, backend):
        client = await gateway.client()
        await client.ask("GET", "/echo/tasks/t", None, [(b"a2a-version", b"1.0")])
        await gateway.until(lambda: gateway.metric("backend_retries_total", reason="503") == 1)
        client.leave()
        await backend.all_gone()
        await gateway.rested()


HOOKED = "/echo/tasks/t/pushNotificationConfigs"


@for_each("binding", ["jsonrpc", "rest"])
@for_each(
    ("target", "body", "times"),
    [
        ("/echo/message:send", b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}', 2),
        (HOOKED, b'{"id":"p","url":"https://93.184.216.34/"}', 2),
        (HOOKED, b'{"url":"https://93.184.216.34/"}', 1),
    ],
)
async def test_idempotent_sends_are_retried_after_translation_too(
    target: str, body: bytes, times: int, binding: str
) -> None:
    async with ScriptedBackend(agent(resets)) as backend:
        where = f'{{ url: "{backend.url}", protocol: {binding}, a2a_version: "1.0" }}'
        async with running(f"agents: {{ echo: {{ backend: {where}, message_id_idempotent: true }} }}") as gateway:
            answer = await gateway.ask("POST", target, body, [JSON, (b"a2a-version", b"1.0")])
            assert answer.reasons == ["UPSTREAM_RESET"]
            assert len(backend.requests) == times


# ---- Bounds ----------------------------------------------------------------------------------------------------------


@for_each(("retry", "retries"), [("max: 0", 0), ("budget: 0", 20)])
async def test_retries_have_a_bound_and_a_budget(retry: str, retries: int) -> None:
    async with fronted(agent(resets), f"retry: {{ {retry} }}") as (gateway, backend):
        await asyncio.gather(*(sent(gateway, asks("GetTask", id="t")) for _ in range(30)))
        # Twenty in any ten seconds, however many calls there are.
        assert len(backend.requests) == 30 + retries


async def test_a_backend_whose_calls_all_fail_gets_none_until_a_trial_succeeds() -> None:
    more = "health: { breaker: { after: 3, time: 300ms } }\nretry: { max: 0 }"
    async with fronted(agent(resets), more) as (gateway, backend):
        for _ in range(3):
            assert (await sent(gateway))["error"]["data"][0]["reason"] == "UPSTREAM_RESET"
        answer = await gateway.post("/echo", CALL)
        assert (answer.status, answer.json["error"]["data"][0]["reason"]) == (503, "NO_HEALTHY_BACKEND")
        assert answer.header("retry-after") == "1"
        assert len(backend.requests) == 3
        page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
        assert "open" in page["breaker"]
        backend.script = named("a")
        balancer = gateway.gateway.snapshot.backends["echo"].balancer
        await gateway.until(lambda: balancer.breaker.admits(balancer.clock()))
        assert "result" in await sent(gateway)
        assert not balancer.breaker.is_open


async def end(asking: list[asyncio.Task[object]]) -> None:
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_one_call_is_the_trial_of_a_backend_however_many_come_at_a_time() -> None:
    more = "health: { breaker: { after: 1, time: 50ms } }\nretry: { max: 0 }"
    async with fronted(agent(resets), more) as (gateway, backend):
        await sent(gateway)
        balancer = gateway.gateway.snapshot.backends["echo"].balancer
        # Long enough for the trial to be the only one.
        balancer.breaker.time = 60
        backend.script = agent(hangs)
        await gateway.until(lambda: balancer.breaker.admits(balancer.clock()))
        asking = [asyncio.create_task(sent(gateway, LOOKED_UP)) for _ in range(20)]
        await gateway.until(lambda: sum(each.done() for each in asking) == 19)
        await backend.until(lambda: len(backend.requests) == 2)
        assert {each.result()["error"]["data"][0]["reason"] for each in asking if each.done()} == {"NO_HEALTHY_BACKEND"}
        await end(asking)


async def test_one_call_is_the_trial_of_a_replica_and_the_others_go_elsewhere() -> None:
    more = "    health: { eject: { after: 1, time: 50ms } }\n    retry: { max: 0 }\n"
    async with replicated(agent(resets), named("b"), more=more) as (gateway, backends):
        [tried, _] = gateway.gateway.snapshot.backends["echo"].replicas
        while not tried.condition.ejection.is_open:
            await sent(gateway)
        tried.condition.ejection.time = 60
        backends[0].script = agent(hangs)
        before = count(backends[0])
        await gateway.until(lambda: tried.condition.is_available(time.monotonic()))
        asking = [asyncio.create_task(sent(gateway, LOOKED_UP)) for _ in range(20)]
        await gateway.until(lambda: sum(each.done() for each in asking) == 19)
        await backends[0].until(lambda: count(backends[0]) == before + 1)
        assert all("result" in each.result() for each in asking if each.done())
        await end(asking)


async def nonsense(wire: Wire) -> None:
    await wire.request()
    await wire.send(b"nonsense\r\n\r\n")
    wire.close()


@for_each(("script", "why"), [(hangs, "did not answer in time"), (nonsense, "not valid HTTP")])
async def test_a_replica_whose_calls_fail_is_ejected(script: Script, why: str) -> None:
    async with replicated(agent(script), named("b"), more="    timeouts: { send: 50ms }\n") as (gateway, backends):
        for _ in range(30):
            await sent(gateway)
        assert gateway.metric("backend_ejections_total", backend="echo@a") == 1
        assert count(backends[0]) == 5
        page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
        assert why in page["replicas"][0]["state"]


@pytest.mark.usefixtures("grpc_over")
@undisturbed(0.2)
async def test_a_grpc_agent_gets_the_remaining_deadline() -> None:
    told: list[tuple[float, float | None]] = []

    async def answers_the_second_time(asked: Asked) -> None:
        told.append((asyncio.get_running_loop().time(), asked.timeout))
        if len(told) == 1:
            # It breaks off late, so that there is much less left.
            await asyncio.sleep(0.5)
        await (asked.fail("UNAVAILABLE", "going away") if len(told) == 1 else asked.write(b"\x0a\x01t"))

    async with grpc_fronted(answers_the_second_time) as site:
        assert (await site.client.ask(Operation.GET_TASK, patience=5)).code == "OK"
        (first, whole), (second, left) = told
        assert whole is not None
        assert left is not None
        # The deadline is rounded up, and takes time to arrive.
        assert left < whole - (second - first) + 0.25
