"""Rates that gateways share through a real Redis, and what each gives alone while there is none."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gateway.a2a.fault import RateLimited, StateUnavailable
from gateway.policy.limits import OverRate, Quota, QuotaEnforcer, RateLimitState
from gateway.policy.shared_rates import PATIENCE, PAUSE, Rate, SharedRates
from gateway.policy.token_bucket import Bucket
from gateway.tasks.redis_client import RedisClient, Reply
from gateway.tasks.state_url import RedisAddress, read_redis
from tests.policy.simulated import now, run
from tests.support.redis_peer import until_up
from tests.support.redis_server import RedisServer, needs_redis, redis_server

ACME = "acme"
KEY = "{a2a}:rate:tenant:acme"
# So slow that nothing comes back while a test runs, and so patient that a busy machine is no Redis that is down.
HOURLY = Rate(10 / 3600, 10.0)
PATIENT = 60.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Gateway:
    """One process: its way to Redis, and its own share."""

    def __init__(self, link: RedisClient, patience: float) -> None:
        self.link = link
        self.clock = Clock()
        self.shared = SharedRates(link, link.address.named, patience=patience, clock=self.clock)
        self.own = Bucket(HOURLY.per_second / 2, HOURLY.burst / 2)

    async def take(self, rate: Rate = HOURLY, tenant: str = ACME) -> tuple[float, float]:
        return await self.shared.take("tenant", tenant, rate=rate, own=self.own, now=self.clock.now)

    async def taken(self, rate: Rate = HOURLY, tenant: str = ACME) -> int:
        """Return how many tokens can be taken now."""
        taken = 0
        while (await self.take(rate, tenant))[0] == 0.0:
            taken += 1
        return taken


@asynccontextmanager
async def gateway(server: RedisServer, patience: float = PATIENT) -> AsyncIterator[Gateway]:
    link = RedisClient(read_redis(server.url))
    await link.open()
    try:
        yield Gateway(link, patience)
    finally:
        await link.aclose()


def earlier(server: RedisServer, seconds: float) -> None:
    """Make the stored state of the tenant older by so many seconds."""
    spent, seen = server.ask("GET", KEY).split()
    server.ask("SET", KEY, f"{spent} {int(seen) - round(seconds * 1e6)}")


# ---- While Redis answers ---------------------------------------------------------------------------------------------


@needs_redis
@pytest.mark.anyio
async def test_gateways_together_give_what_one_would(server: RedisServer) -> None:
    async with gateway(server) as here, gateway(server) as there:
        answers = await asyncio.gather(*(each.take() for each in (here, there) * 20))
        assert sum(delay == 0.0 for delay, _ in answers) == 10
        assert all(delay == pytest.approx(360.0, rel=0.5) for delay, _ in answers if delay)
        assert await there.taken(tenant="globex") == 10


@needs_redis
@pytest.mark.anyio
async def test_time_brings_requests_back_up_to_the_burst(server: RedisServer) -> None:
    async with gateway(server) as here:
        assert await here.taken() == 10
        earlier(server, 3 * 360.0)
        assert await here.taken() == 3
        earlier(server, 1e6)
        assert await here.taken() == 10


@needs_redis
@pytest.mark.anyio
async def test_a_clock_that_went_back_gives_nothing_and_goes_on(server: RedisServer) -> None:
    async with gateway(server) as here:
        assert await here.taken() == 10
        earlier(server, -1e6)
        assert await here.taken() == 0
        earlier(server, 360.0)
        assert await here.taken() == 1


@needs_redis
@pytest.mark.anyio
async def test_changed_limits_keep_spent_quota(server: RedisServer) -> None:
    async with gateway(server) as here:
        assert await here.taken() == 10
        assert await here.taken(Rate(20 / 3600, 15.0)) == 5
        assert await here.taken(Rate(1 / 3600, 3.0)) == 0
        delay, _ = await here.take(Rate(1 / 3600, 3.0))
        assert 3000 < delay <= 3600


@needs_redis
@pytest.mark.anyio
async def test_a_bucket_that_is_full_again_is_forgotten(server: RedisServer) -> None:
    async with gateway(server) as here:
        await here.take()
        assert 360_000 - PATIENT * 1000 < int(server.ask("PTTL", KEY)) <= 361_000


@needs_redis
@pytest.mark.anyio
@pytest.mark.parametrize("kept", ["", "nonsense", "x 5", "3.5", "3.5 x"])
async def test_an_unreadable_bucket_is_full(server: RedisServer, kept: str) -> None:
    async with gateway(server) as here:
        server.ask("SET", KEY, kept)
        assert await here.taken() == 10


@needs_redis
@pytest.mark.anyio
async def test_keys_of_different_names_differ(server: RedisServer) -> None:
    async with gateway(server) as here:
        for tenant in ("a", "a:b", "{x}", "tenant:a", "ä b\r\n", ""):
            assert await here.taken(tenant=tenant) == 10


# ---- While it does not -----------------------------------------------------------------------------------------------


@needs_redis
@pytest.mark.anyio
@pytest.mark.parametrize("away", ["killed", "frozen"])
async def test_without_redis_each_gives_its_own_share_and_shares_again_when_it_is_back(
    server: RedisServer, away: str
) -> None:
    goes, returns = (server.stop, server.start) if away == "killed" else (server.freeze, server.thaw)
    async with gateway(server, PATIENCE) as here, gateway(server, PATIENCE) as there:
        goes()
        assert (await here.taken(), await there.taken()) == (5, 5)
        assert not here.shared.up
        assert not there.shared.up
        returns()
        for each in (here, there):
            each.shared.patience = PATIENT
            async with asyncio.timeout(PATIENT):
                while not each.shared.up:
                    await asyncio.sleep(0)
                    await until_up(each.link)
                    each.clock.now += PAUSE
                    await each.take()
            assert (await each.take())[0] == 0.0


@needs_redis
@pytest.mark.anyio
async def test_tokens_granted_by_redis_count_against_the_local_share(server: RedisServer) -> None:
    async with gateway(server) as here, gateway(server) as there:
        for _ in range(3):
            assert (await here.take())[0] == 0.0
        server.stop()
        assert (await here.taken(), await there.taken()) == (2, 5)


class Silent:
    """A Redis that is asked and says nothing, until it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Reply | Exception = None

    async def run(self, script: str, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.get_running_loop().create_future()
        return self.answer


def alone(link: Silent) -> tuple[SharedRates, Bucket]:
    return SharedRates(link, RedisAddress().named, clock=now), Bucket(0.001, 1000.0)


def test_a_silent_redis_delays_one_call_alone() -> None:
    async def main() -> None:
        link = Silent()
        shared, own = alone(link)

        async def take() -> float:
            began = now()
            assert (await shared.take("tenant", ACME, rate=HOURLY, own=own, now=now()))[0] == 0.0
            return now() - began

        assert await take() == pytest.approx(PATIENCE)
        assert [await take() for _ in range(100)] == [0.0] * 100
        assert link.asked == 1
        await asyncio.sleep(PAUSE)
        waited = await asyncio.gather(*(take() for _ in range(100)))
        assert sorted(waited) == [0.0] * 99 + [pytest.approx(PATIENCE)]
        assert link.asked == 2

    run(main())


def test_a_redis_that_is_down_delays_no_call_and_its_return_is_seen() -> None:
    async def main() -> None:
        link = Silent()
        shared, own = alone(link)

        async def take() -> tuple[float, float]:
            return await shared.take("tenant", ACME, rate=HOURLY, own=own, now=now())

        link.answer = StateUnavailable("down", detail="redis: down")
        assert await take() == (0.0, 999.0)
        assert not shared.up
        link.answer = [1, 4_000_000]
        assert await take() == (0.0, 998.0)
        assert now() == 0.0
        await asyncio.sleep(PAUSE)
        assert await take() == (0.0, 4.0)
        assert shared.up
        link.answer = [0, 250_000]
        assert await take() == (pytest.approx(270.0), 0.25)

    run(main())


def test_the_log_says_when_it_goes_and_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        link = Silent()
        shared, own = alone(link)
        answers: list[Reply] = [None, None, [1, 0]]
        for answer in answers:
            link.answer = answer
            await shared.take("tenant", ACME, rate=HOURLY, own=own, now=now())
            await asyncio.sleep(PAUSE)

    run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "rate limits are not shared, each process applies its share: silent for 0.05 s",
        "rate limits are shared through Redis again",
    ]


def test_cancelling_is_not_taken_for_silence() -> None:
    async def main() -> None:
        shared, own = alone(Silent())
        taking = shared.take("tenant", ACME, rate=HOURLY, own=own, now=now())
        call = asyncio.get_running_loop().create_task(taking)
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        assert shared.up
        assert own.left == 1000.0

    run(main())


# ---- Along the line --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def limited(server: RedisServer, agents: dict[str, Quota]) -> AsyncIterator[QuotaEnforcer]:
    async with gateway(server) as here:
        limits = QuotaEnforcer(shared=here.shared, clock=here.clock)
        limits.configure({ACME: Quota(requests=(3.0, 3600.0))}, agents, replicas=2)
        yield limits


async def arrived(limits: QuotaEnforcer, tenant: str = ACME) -> RateLimitState | None:
    return await limits.arrive(tenant, 0.0)


@needs_redis
@pytest.mark.anyio
async def test_a_tenants_requests_are_those_at_all_gateways(server: RedisServer) -> None:
    async with limited(server, {}) as here, limited(server, {}) as there:
        told = [await arrived(limits) for limits in (here, there, here)]
        assert [(each.limit, each.window, each.remaining) for each in told if each] == [(3, 3600, r) for r in (2, 1, 0)]
        with pytest.raises(OverRate) as refused:
            await arrived(there)
        assert refused.value.state is not None
        assert refused.value.retry_after == refused.value.state.reset
        assert refused.value.state.remaining == 0
        assert 600 < refused.value.state.reset <= 1200
        assert await here.arrive("globex", 0.0) is None


@needs_redis
@pytest.mark.anyio
async def test_an_agents_requests_are_those_at_all_gateways_and_a_refused_call_holds_nothing(
    server: RedisServer,
) -> None:
    agents = {"crm": Quota(requests=(2.0, 3600.0), concurrency=2, streams=2)}
    async with limited(server, agents) as here, limited(server, agents) as there:
        for limits in (here, there):
            permit = await limits.admit("globex", "crm", stream=True, now=0.0)
            assert permit is not None
            permit.release()
        for limits in (here, there):
            with pytest.raises(RateLimited, match="agent"):
                await limits.admit("globex", "crm", stream=True, now=0.0)
            assert limits.agents["crm"].idle
