"""Records of push configurations."""

import time

import pytest
from msgspec.structs import replace

from gateway.a2a.dialect import Version
from gateway.a2a.push_config import PushConfig
from gateway.push.subscription import CONFIRMED, Subscription, Subscriptions, digest, new_secrets
from gateway.tasks.store import Owner, Store

pytestmark = pytest.mark.anyio

NOW = int(time.time())
CONFIG = PushConfig("https://hooks.example/key", "cfg-1", "task-7", "tok-123", "Bearer", "s3cret")


def subscription(name: str = "a", config: PushConfig = CONFIG, **more: object) -> Subscription:
    made = Subscription(digest(name), digest("token"), "crm/acme", Owner("acme", "ann"), config, Version.V0_3)
    return replace(made, until=NOW + 86_400, **more)


def test_secrets_are_long_and_never_the_same() -> None:
    secrets = {*new_secrets(), *new_secrets()}
    assert [len(secret) for secret in secrets] == [43] * 4


def test_nothing_that_calls_anybody_is_in_what_is_printed() -> None:
    one = subscription()
    for secret in ("hooks.example", "tok-123", "s3cret", one.key, one.proof):
        assert secret not in repr(one)


async def test_a_subscription_is_found_as_it_was_written(store: Store) -> None:
    kept = subscription(context_prefix="gw-x-", task_name="mine", asked=Version.V1_0, confirmed=True)
    subscriptions = Subscriptions(store)
    await subscriptions.write(kept)
    assert await subscriptions.find(kept.key) == kept
    assert await subscriptions.of("crm/acme", "task-7") == [kept]
    assert (kept.agent, kept.client_task, replace(kept, scope="crm").agent) == ("crm", "mine", "crm")
    for scope, task in (("crm/acme", "task-8"), ("crm", "acme task-7"), ("crm/acme", "")):
        assert await subscriptions.of(scope, task) == []


async def test_one_whose_task_is_not_known_is_listed_once_it_is(store: Store) -> None:
    subscriptions, unbound = Subscriptions(store), subscription(config=replace(CONFIG, task_id=""))
    await subscriptions.write(unbound)
    assert await subscriptions.of("crm/acme", "") == []
    confirmed = await subscriptions.confirm(unbound, NOW, task_id="task-7")
    assert (confirmed.task, confirmed.confirmed, confirmed.until) == ("task-7", True, NOW + CONFIRMED)
    assert await subscriptions.of("crm/acme", "task-7") == [confirmed]


async def test_one_that_is_confirmed_replaces_another_of_its_id(store: Store) -> None:
    subscriptions = Subscriptions(store)
    other = subscription("c", replace(CONFIG, id="cfg-2"), confirmed=True)
    unnamed = subscription("d", replace(CONFIG, id=""), confirmed=True)
    for each in (subscription("a", confirmed=True), subscription("b"), other, unnamed):
        await subscriptions.write(each)
    new = await subscriptions.confirm(subscription("b"), NOW, id="cfg-1")
    assert {each.key for each in await subscriptions.of("crm/acme", "task-7")} == {new.key, other.key, unnamed.key}
    # One without an id of its own has that of its task.
    named = subscription("e", replace(CONFIG, id="task-7"))
    await subscriptions.write(named)
    await subscriptions.confirm(named, NOW)
    assert await subscriptions.find(unnamed.key) is None


async def test_one_that_is_confirmed_replaces_none_of_another_tenant(store: Store) -> None:
    subscriptions = Subscriptions(store)
    mine, theirs = subscription("a", confirmed=True), subscription("b", owner=Owner("globex", "ann"))
    for each in (mine, theirs):
        await subscriptions.write(each)
    await subscriptions.confirm(theirs, NOW)
    assert await subscriptions.find(mine.key) == mine


async def test_one_that_was_dropped_meanwhile_does_not_come_back(store: Store) -> None:
    subscriptions, gone = Subscriptions(store), subscription()
    await subscriptions.rewrite(gone)
    await subscriptions.confirm(gone, NOW)
    assert await subscriptions.find(gone.key) is None
