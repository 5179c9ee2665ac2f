"""Several replicas of one agent: who is asked, and what follows a task."""

import pytest

from tests.doubles.gateway import bearer, keys
from tests.doubles.replicated import asks, count, named, replicated, sends, sent

pytestmark = pytest.mark.anyio


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
