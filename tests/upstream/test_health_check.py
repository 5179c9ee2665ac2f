"""Replicas are asked how they are: by GET, and over gRPC by grpc.health.v1."""

from typing import Any, cast

import pytest

from gateway.upstream.grpc import GrpcUpstream
from gateway.upstream.grpc_library import grpc
from gateway.upstream.health_check import HealthCheck, HealthChecker
from gateway.upstream.http import HttpUpstream
from gateway.upstream.replica import Target
from tests.support.gateway import Running, fronted, running
from tests.support.grpc_agent import Answer, fails, grpc_agent, hangs, says
from tests.support.scripted import Script, Wire, resets_at_once, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

HEALTH = "/grpc.health.v1.Health/Check"


def checker(gateway: Running, **more: Any) -> HealthChecker:
    [replica] = gateway.gateway.snapshot.backends["echo"].replicas
    upstream = cast("HttpUpstream | GrpcUpstream", replica.upstream)
    target = Target(upstream.pool if isinstance(upstream, HttpUpstream) else upstream.channel, replica.condition)
    check = HealthCheck("/healthz", **{"fail_after": 1, "timeout": 0.2, **more})
    return HealthChecker("echo", replica.url, lambda: (target,), check)


def state(gateway: Running) -> str:
    [replica] = gateway.gateway.snapshot.backends["echo"].replicas
    return replica.condition.state(0.0)


def answering(*statuses: bytes) -> Script:
    """Answers with one status after the other; the last one is kept."""
    left = list(statuses)

    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            status = left.pop(0) if len(left) > 1 else left[0]
            await wire.send(whole(b"well", status=status))

    return play


@for_each(
    ("status", "told"),
    [
        (b"200 OK", "up"),
        (b"404 Not Found", "down: /healthz answers 404"),
        (b"500 Internal Server Error", "down: /healthz answers 500"),
    ],
)
async def test_a_replica_is_as_it_answers(status: bytes, told: str) -> None:
    async with fronted(answering(status)) as (gateway, backend):
        await checker(gateway).check_all()
        assert state(gateway) == told
        assert gateway.metric("backend_up", agent="echo") == (1 if told == "up" else 0)
        assert backend.requests[-1].target == b"/healthz"


async def test_a_replica_is_down_after_repeated_failures_until_it_answers() -> None:
    async with fronted(resets_at_once) as (gateway, backend):
        asking = checker(gateway, fail_after=2, pass_after=2)
        await asking.check_all()
        assert state(gateway) == "up"
        await asking.check_all()
        assert state(gateway).startswith("down: the agent closed the connection")
        backend.script = answering(b"200 OK")
        await asking.check_all()
        assert "down" in state(gateway)
        await asking.check_all()
        assert state(gateway).startswith("up")


async def test_configured_health_checks_repeat() -> None:
    more = "health: { path: /healthz, every: 10ms, fail_after: 1 }\nupstream_auth: { bearer: secret-of-the-gateway }"
    script = answering(*[b"503 Service Unavailable"] * 30, b"200 OK")
    async with fronted(script, more) as (gateway, backend):
        await gateway.until(lambda: gateway.metric("backend_up", agent="echo") == 0)
        await gateway.until(lambda: gateway.metric("backend_up", agent="echo") == 1)
        asked = next(each for each in backend.requests if each.target == b"/healthz")
        assert asked.header(b"authorization") == b"Bearer secret-of-the-gateway"


def checking(answer: Answer) -> Answer:
    async def play(asked: object) -> None:
        await (answer if asked.path == HEALTH else fails("UNIMPLEMENTED"))(asked)  # type: ignore[attr-defined, arg-type]

    return play


@for_each(
    ("answer", "told"),
    [
        (says(b"\x08\x01"), "up"),
        (says(b"\x08\x02"), "down: grpc.health.v1 says that it is not serving"),
        (fails("UNIMPLEMENTED"), "up"),
        (fails("INTERNAL", "broken"), f"down: grpc.health.v1 answers with status {grpc.StatusCode.INTERNAL.value[0]}"),
        (hangs(), "down: the agent did not answer in time"),
    ],
)
async def test_a_replica_behind_grpc_is_asked_by_the_standard_service(answer: Answer, told: str) -> None:
    async with grpc_agent(checking(answer)) as one, running(f"agents:\n  echo: {one.url}\n") as gateway:
        await checker(gateway).check_all()
        assert state(gateway).startswith(told)


async def test_an_answer_that_does_not_end_is_late() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(whole(b"x" * 2_000)[:-1])
        await wire.hang()

    async with fronted(play) as (gateway, _):
        await checker(gateway).check_all()
        assert state(gateway) == "down: the agent did not answer in time"
        await gateway.rested()
