"""What is sent again, and what is never, with several replicas and with one."""

import asyncio
import sys
import time

import pytest

from gateway.a2a.operation import Operation
from tests.doubles.gateway import CALL, JSON, agent, fronted, running
from tests.doubles.grpc_agent import Asked, grpc_over
from tests.doubles.grpc_gateway import standing
from tests.doubles.replicated import asks, count, get, named, replicated, sends, sent
from tests.doubles.scripted import Script, ScriptedBackend, Wire, answers_and_hangs, chunk, head, refused_port, whole
from tests.doubles.undisturbed import undisturbed

__all__ = ("grpc_over",)

pytestmark = pytest.mark.anyio


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
            assert page["up"] is True
            away, there_ = page["replicas"]
            assert "ejected" in away["state"]
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


async def test_a_replica_without_a_connection_left_leaves_its_calls_to_another() -> None:
    async def hangs(wire: Wire) -> None:
        await wire.request()
        await wire.hang()

    more = "    connections: { max: 1, queue: 1, queue_timeout: 10ms }\n    affinity: none\n"
    weights = (", weight: 1000", ", weight: 1")
    async with replicated(agent(hangs), named("b"), more=more, lines=weights) as (gateway, (full, there)):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL, (JSON,))
        await full.until(lambda: count(full) == 1)
        for number in range(10):
            assert "result" in await sent(gateway)
            assert count(there) == number + 1
        assert count(full) == 1
        # It has much to do, which is no failure.
        assert gateway.metric("backend_up", backend="echo@a") == 1


async def test_where_there_is_no_other_the_caller_is_told_at_once() -> None:
    async def hangs(wire: Wire) -> None:
        await wire.request()
        await wire.hang()

    async with fronted(agent(hangs), "connections: { max: 1, queue: 1, queue_timeout: 10ms }") as (gateway, backend):
        client = await gateway.client()
        await client.ask("POST", "/echo", CALL, (JSON,))
        await backend.until(lambda: count(backend) == 1)
        assert (await sent(gateway))["error"]["data"][0]["reason"] == "OVERLOADED"
        assert gateway.metric("backend_retries_total") == 0


BUSY = whole(b"{}", b"retry-after: 1", status=b"503 Service Unavailable")
_NOON = b"Mon, 23 Nov 2026 12:00:00 GMT"
BUSY_UNTIL = whole(b"{}", b"date: " + _NOON, b"retry-after: " + _NOON, status=b"503 Service Unavailable")


def busy_first(good: bytes, busy: bytes = BUSY) -> tuple[list[int], Script]:
    """An agent that is busy when it is asked for the first time."""
    asked: list[int] = []

    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            asked.append(1)
            await wire.send(busy if len(asked) == 1 else whole(good))

    return asked, play


async def test_who_leaves_meanwhile_leaves_no_half_of_an_answer_behind() -> None:
    half = head(b"content-length: 100", b"retry-after: 2", status=b"503 Service Unavailable") + b"{"
    async with fronted(answers_and_hangs(half)) as (gateway, backend):
        client = await gateway.client()
        await client.ask("GET", "/echo/tasks/t", None, [(b"a2a-version", b"1.0")])
        await gateway.until(lambda: gateway.metric("backend_retries_total", reason="503") == 1)
        client.leave()
        await backend.all_gone()
        await gateway.rested()


@pytest.mark.parametrize("busy", [BUSY, BUSY_UNTIL], ids=["for-a-second", "until-a-time-of-day"])
async def test_who_reads_asks_an_agent_again_that_is_busy_for_a_moment(busy: bytes) -> None:
    asked, play = busy_first(get("t"), busy)
    async with fronted(agent(play)) as (gateway, _):
        assert (await sent(gateway, asks("GetTask", id="t")))["result"]["id"] == "t"
        assert len(asked) == 2
        assert gateway.metric("backend_retries_total", reason="503") == 1
        assert (await gateway.line())["attempts"] == 2


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "CancelTask", "SubscribeToTask"])
async def test_nobody_else_does(method: str) -> None:
    asked, play = busy_first(get("t"))
    async with fronted(agent(play)) as (gateway, _):
        body = sends().replace(b"SendMessage", method.encode()) if "Send" in method else asks(method, id="t")
        assert (await gateway.post("/echo", body)).status == 503
        assert len(asked) == 1


async def test_an_agent_that_asks_for_more_patience_is_not_asked_again() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(whole(b"{}", b"retry-after: 3", status=b"503 Service Unavailable"))

    async with fronted(agent(play)) as (gateway, backend):
        assert (await gateway.post("/echo", asks("GetTask", id="t"))).status == 503
        assert len(backend.requests) == 1


async def test_an_answer_that_breaks_off_before_anybody_was_told_is_asked_for_again() -> None:
    broken = 0

    async def play(wire: Wire) -> None:
        nonlocal broken
        while True:
            await wire.request()
            if not broken:
                broken += 1
                await wire.send(whole(get("t"))[:-5])
                wire.reset()
                return
            await wire.send(whole(get("t")))

    async with fronted(agent(play)) as (gateway, backend):
        assert (await sent(gateway, asks("GetTask", id="t")))["result"]["id"] == "t"
        assert len(backend.requests) == 2
        broken = 0
        answer = await sent(gateway)
        assert answer["error"]["data"][0]["reason"] == "UPSTREAM_RESET"
        assert len(backend.requests) == 3


@pytest.mark.parametrize(
    ("params", "times"),
    [
        ({"taskId": "t", "url": "https://hooks.example.com/x", "id": "mine"}, 2),
        ({"taskId": "t", "url": "https://hooks.example.com/x"}, 1),
    ],
    ids=["named", "not named"],
)
async def test_a_push_configuration_is_set_again_where_the_client_named_it(
    params: dict[str, object], times: int
) -> None:
    async with fronted(agent(answered_once)) as (gateway, backend):
        answer = await sent(gateway, asks("CreateTaskPushNotificationConfig", **params))
        assert answer["error"]["data"][0]["reason"] == "UPSTREAM_RESET"
        assert len(backend.requests) == times


@pytest.mark.parametrize(
    ("target", "body", "times"),
    [
        ("/echo/message:send", b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}', 2),
        ("/echo/tasks/t/pushNotificationConfigs", b'{"id":"p","url":"https://93.184.216.34/"}', 2),
        ("/echo/tasks/t/pushNotificationConfigs", b'{"url":"https://93.184.216.34/"}', 1),
    ],
)
async def test_what_was_translated_is_sent_again_by_what_its_client_named(target: str, body: bytes, times: int) -> None:
    async with ScriptedBackend(agent(answered_once)) as backend:
        where = f'{{ url: "{backend.url}", protocol: jsonrpc, a2a_version: "1.0" }}'
        async with running(f"agents: {{ echo: {{ backend: {where}, message_id_idempotent: true }} }}") as gateway:
            answer = await gateway.ask("POST", target, body, [JSON, (b"a2a-version", b"1.0")])
            assert answer.reasons == ["UPSTREAM_RESET"]
            assert len(backend.requests) == times


async def test_with_no_repeats_there_are_none() -> None:
    async with fronted(agent(answered_once), "retry: { max: 0 }") as (gateway, backend):
        await sent(gateway, asks("GetTask", id="t"))
        assert len(backend.requests) == 1


async def test_repeats_have_a_budget() -> None:
    async with fronted(agent(answered_once), "retry: { budget: 0 }") as (gateway, backend):
        for _ in range(40):
            await sent(gateway, asks("GetTask", id="t"))
        # Twenty in any ten seconds, however many calls there are.
        assert len(backend.requests) == 60


async def test_a_backend_whose_calls_all_fail_is_left_alone_and_tried_by_one_call() -> None:
    more = "health: { breaker: { after: 3, time: 300ms } }\nretry: { max: 0 }"
    async with fronted(agent(answered_once), more) as (gateway, backend):
        for _ in range(3):
            assert (await sent(gateway))["error"]["data"][0]["reason"] == "UPSTREAM_RESET"
        answer = await gateway.post("/echo", CALL)
        assert (answer.status, answer.json["error"]["data"][0]["reason"]) == (503, "NO_HEALTHY_BACKEND")
        assert answer.header("retry-after") == "1"
        assert len(backend.requests) == 3
        page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
        assert "open" in page["breaker"]
        backend.script = named("a")
        balancer = gateway.gateway.snapshot.backings["echo"].balancer
        await gateway.until(lambda: balancer.breaker.admits(balancer.clock()))
        assert "result" in await sent(gateway)
        assert not balancer.breaker.is_open


# ---- Where it is sent again ------------------------------------------------------------------------------------------


async def test_a_message_that_may_have_been_seen_is_sent_to_no_other_replica() -> None:
    more = "    message_id_idempotent: true\n"
    async with replicated(agent(answered_once), agent(answered_once), more=more) as (gateway, backends):
        for number in range(4):
            before = list(map(count, backends))
            answer = await sent(gateway, CALL.replace(b'"m1"', b'"m%d"' % number))
            assert answer["error"]["data"][0]["reason"] == "UPSTREAM_RESET"
            assert sorted(after - was for after, was in zip(map(count, backends), before, strict=True)) == [0, 2]


async def test_where_replicas_know_of_each_others_messages_it_is() -> None:
    more = "    message_id_idempotent: true\n    affinity: none\n"
    async with replicated(agent(answered_once), named("b"), more=more) as (gateway, backends):
        for number in range(4):
            assert "result" in await sent(gateway, CALL.replace(b'"m1"', b'"m%d"' % number))
        assert count(backends[1]) == 4


async def test_a_replica_without_weight_is_not_asked_because_another_fails() -> None:
    lines = ("", ", weight: 0")
    async with replicated(agent(answered_once), named("b"), lines=lines) as (gateway, backends):
        await backends[0].__aexit__(None, None, None)
        for _ in range(8):
            assert (await sent(gateway))["error"]["data"][0]["reason"] == "UPSTREAM_CONNECT"
        assert count(backends[1]) == 0


# ---- Who tries -------------------------------------------------------------------------------------------------------

CALLBACK = b'"configuration":{"taskPushNotificationConfig":{"url":"https://hooks.example.com/x"}},"message"'
LOOKED_UP = CALL.replace(b'"message"', CALLBACK)
"""Between the choice of a replica and the call to it a name is looked up."""


async def hangs_up_never(wire: Wire) -> None:
    await wire.request()
    await wire.hang()


async def test_one_call_tries_a_backend_however_many_come_at_a_time() -> None:
    more = "health: { breaker: { after: 1, time: 50ms } }\nretry: { max: 0 }"
    async with fronted(agent(answered_once), more) as (gateway, backend):
        await sent(gateway)
        balancer = gateway.gateway.snapshot.backings["echo"].balancer
        # Long enough for the trial to be the only one.
        balancer.breaker._time = 60
        backend.script = agent(hangs_up_never)
        await gateway.until(lambda: balancer.breaker.admits(balancer.clock()))
        asking = [asyncio.create_task(sent(gateway, LOOKED_UP)) for _ in range(20)]
        await gateway.until(lambda: sum(each.done() for each in asking) == 19)
        await backend.until(lambda: len(backend.requests) == 2)
        assert {each.result()["error"]["data"][0]["reason"] for each in asking if each.done()} == {"NO_HEALTHY_BACKEND"}
        backend.script = named("a")
        await end(asking)


async def test_one_call_tries_a_replica_and_the_others_go_elsewhere() -> None:
    more = "    health: { eject: { after: 1, time: 50ms } }\n    retry: { max: 0 }\n"
    async with replicated(agent(answered_once), named("b"), more=more) as (gateway, backends):
        [tried, _] = gateway.gateway.snapshot.backings["echo"].replicas
        while not tried.condition.ejection.is_open:
            await sent(gateway)
        tried.condition.ejection._time = 60
        backends[0].script = agent(hangs_up_never)
        before = count(backends[0])
        await gateway.until(lambda: tried.condition.is_available(time.monotonic()))
        asking = [asyncio.create_task(sent(gateway, LOOKED_UP)) for _ in range(20)]
        await gateway.until(lambda: sum(each.done() for each in asking) == 19)
        await backends[0].until(lambda: count(backends[0]) == before + 1)
        assert all("result" in each.result() for each in asking if each.done())
        await end(asking)


async def end(asking: list[asyncio.Task[object]]) -> None:
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_replica_whose_answers_break_off_is_left_alone() -> None:
    async def breaks_off(wire: Wire) -> None:
        await wire.request()
        await wire.send(whole(get("t"))[:-5])
        wire.reset()

    async with replicated(agent(breaks_off), named("b"), more="    retry: { max: 0 }\n") as (gateway, backends):
        for _ in range(60):
            await sent(gateway)
        assert gateway.metric("backend_ejections_total", backend="echo@a") == 1
        assert count(backends[0]) == 5


async def test_so_is_one_that_talks_nonsense() -> None:
    async def babbles(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"nonsense\r\n\r\n")
        wire.close()

    async with replicated(agent(babbles), named("b")) as (gateway, backends):
        for _ in range(60):
            await sent(gateway)
        assert gateway.metric("backend_ejections_total", backend="echo@a") == 1
        assert count(backends[0]) == 5


async def test_so_is_one_that_takes_calls_and_never_answers() -> None:
    more = "    timeouts: { send: 50ms }\n"
    async with replicated(agent(hangs_up_never), named("b"), more=more) as (gateway, backends):
        for _ in range(60):
            await sent(gateway)
        assert gateway.metric("backend_ejections_total", backend="echo@a") == 1
        assert count(backends[0]) == 5
        page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
        assert "did not answer in time" in page["replicas"][0]["state"]


async def test_callers_that_do_not_wait_tell_nothing_of_a_slow_replica() -> None:
    more = "    health: { breaker: { after: 5 } }\n"
    async with replicated(agent(hangs_up_never), agent(hangs_up_never), more=more) as (gateway, backends):
        for number in range(1, 31):
            client = await gateway.client()
            await client.ask("POST", "/echo", CALL, (JSON,))
            await gateway.until(lambda number=number: sum(map(count, backends)) == number)  # type: ignore[misc]
            client.leave()
        await gateway.rested()
        assert gateway.metric("backend_ejections_total") == 0
        assert gateway.metric("backend_up") == 2


async def test_a_backend_that_never_answers_opens_its_breaker() -> None:
    more = "health: { breaker: { after: 3, time: 1m } }\ntimeouts: { send: 50ms }"
    async with fronted(agent(hangs_up_never), more) as (gateway, backend):
        reasons = [(await sent(gateway))["error"]["data"][0]["reason"] for _ in range(4)]
        assert reasons == [*["UPSTREAM_TIMEOUT"] * 3, "NO_HEALTHY_BACKEND"]
        assert len(backend.requests) == 3


async def test_a_replica_that_begins_streams_and_breaks_them_off_is_left_alone() -> None:
    async def breaks_off(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream") + chunk(b": hi\n\n"))
        wire.reset()

    async with replicated(agent(breaks_off), named("b")) as (gateway, backends):
        for _ in range(60):
            await gateway.post("/echo", asks("SubscribeToTask", id="t"))
        assert gateway.metric("backend_ejections_total", backend="echo@a") == 1
        assert count(backends[0]) == 5


@pytest.mark.usefixtures("grpc_over")
@undisturbed(0.2)
async def test_an_agent_behind_grpc_is_told_what_is_left_of_the_callers_time() -> None:
    told: list[tuple[float, float | None]] = []

    async def answers_the_second_time(asked: Asked) -> None:
        told.append((asyncio.get_running_loop().time(), asked.timeout))
        if len(told) == 1:
            # It breaks off late, so that there is much less left.
            await asyncio.sleep(0.5)
        await (asked.fail("UNAVAILABLE", "going away") if len(told) == 1 else asked.write(b"\x0a\x01t"))

    async with standing(answers_the_second_time) as site:
        assert (await site.client.ask(Operation.GET_TASK, patience=5)).code == "OK"
        (first, whole), (second, left) = told
        assert whole is not None
        assert left is not None
        # What it is told is rounded up, and takes its time to arrive.
        assert left < whole - (second - first) + 0.25
