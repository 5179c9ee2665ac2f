"""What is kept of a push configuration."""

import time
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from gateway.a2a.dialect import Version
from gateway.a2a.push_config import PushConfig
from gateway.push.subscription import CONFIRMED, KIND, Subscription, Subscriptions, digest, new_secrets
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner, Store

pytestmark = pytest.mark.anyio

NOW = int(time.time())
CONFIG = PushConfig("https://hooks.example/key", "cfg-1", "task-7", "tok-123", "Bearer", "s3cret")


def hook(name: str = "a", config: PushConfig = CONFIG, **more: object) -> Subscription:
    made = Subscription(digest(name), digest("token"), "crm/acme", Owner("acme", "ann"), config, Version.V0_3)
    return replace(made, until=NOW + 100, **more)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made: Store = SqliteStore(wall=lambda: float(NOW))
    await made.open()
    yield made
    await made.aclose()


def test_secrets_are_long_and_never_the_same() -> None:
    one, other = new_secrets(), new_secrets()
    assert len({*one, *other}) == 4
    assert all(len(secret) == 43 for secret in (*one, *other))


def test_nothing_that_calls_anybody_is_in_what_is_printed() -> None:
    printed = repr(hook())
    for secret in ("hooks.example", "tok-123", "s3cret", hook().key, hook().proof):
        assert secret not in printed


def test_its_agent_is_that_of_its_scope() -> None:
    assert hook().agent == "crm"
    assert replace(hook(), scope="crm").agent == "crm"


async def test_a_hook_is_found_as_it_was_kept_and_goes_with_its_tenant(store: Store) -> None:
    hooks, kept = (
        Subscriptions(store),
        hook(context_prefix="gw-x-", task_name="mine", asked=Version.V1_0, confirmed=True),
    )
    await hooks.write(kept)
    assert await hooks.find(kept.key) == kept
    assert await hooks.find(digest("other")) is None
    assert await hooks.of("crm/acme", "task-7") == [kept]
    assert await hooks.of("crm/acme", "task-8") == []
    assert await hooks.of("crm", "acme task-7") == []
    await store.erase("acme")
    assert await hooks.find(kept.key) is None


async def test_a_hook_whose_task_is_not_known_is_listed_with_none(store: Store) -> None:
    hooks, unbound = Subscriptions(store), hook(config=replace(CONFIG, task_id=""))
    await hooks.write(unbound)
    assert await hooks.of("crm/acme", "") == []
    settled = await hooks.confirm(unbound, NOW, task_id="task-7")
    assert (settled.task, settled.confirmed, settled.until) == ("task-7", True, NOW + CONFIRMED)
    assert await hooks.of("crm/acme", "task-7") == [settled]


async def test_one_that_is_settled_takes_the_place_of_another_of_its_id(store: Store) -> None:
    hooks = Subscriptions(store)
    old, pending, other = hook("a", confirmed=True), hook("b"), hook("c", replace(CONFIG, id="cfg-2"), confirmed=True)
    unnamed = hook("d", replace(CONFIG, id=""), confirmed=True)
    for each in (old, pending, other, unnamed):
        await hooks.write(each)
    new = await hooks.confirm(pending, NOW, id="cfg-1")
    assert {each.key for each in await hooks.of("crm/acme", "task-7")} == {new.key, other.key, unnamed.key}
    # Without an id of its own one is called as its task.
    named = hook("e", replace(CONFIG, id="task-7"))
    await hooks.write(named)
    await hooks.confirm(named, NOW)
    assert await hooks.find(unnamed.key) is None


async def test_one_that_was_dropped_meanwhile_does_not_come_back(store: Store) -> None:
    hooks, gone = Subscriptions(store), hook()
    await hooks.rewrite(gone)
    await hooks.confirm(gone, NOW)
    assert await store.note(KIND, gone.key) is None


async def test_one_that_is_past_its_time_is_gone(store: Store) -> None:
    hooks = Subscriptions(store)
    await hooks.write(replace(hook(), until=NOW - 10))
    assert await hooks.find(hook().key) is None
