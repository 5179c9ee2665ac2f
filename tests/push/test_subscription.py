"""Records of push configurations."""

import time

import pytest
from msgspec.structs import replace

from gateway.a2a.dialect import Version
from gateway.a2a.push_config import PushConfig
from gateway.push.subscription import CONFIRMED, Subscription, Subscriptions, digest
from gateway.tasks.store import Owner, Store

pytestmark = pytest.mark.anyio

NOW = int(time.time())
CONFIG = PushConfig("https://hooks.example/key", "cfg-1", "task-7", "tok-123", "Bearer", "s3cret")


def subscription(name: str = "a", config: PushConfig = CONFIG, **more: object) -> Subscription:
    made = Subscription(digest(name), digest("token"), "crm/acme", Owner("acme", "ann"), config, Version.V0_3)
    return replace(made, until=NOW + 86_400, **more)


def test_printed_subscriptions_show_no_url_and_no_secret() -> None:
    one = subscription()
    for secret in ("hooks.example", "tok-123", "s3cret", one.key, one.proof):
        assert secret not in repr(one)


async def test_a_subscription_is_listed_once_its_task_is_known(store: Store) -> None:
    subscriptions, unbound = Subscriptions(store), subscription(config=replace(CONFIG, task_id=""))
    await subscriptions.write(unbound)
    assert await subscriptions.of("crm/acme", "") == []
    confirmed = await subscriptions.confirm(unbound, NOW, task_id="task-7")
    assert (confirmed.task, confirmed.confirmed, confirmed.until) == ("task-7", True, NOW + CONFIRMED)
    assert await subscriptions.of("crm/acme", "task-7") == [confirmed]


async def test_a_confirmed_subscription_replaces_none_of_another_tenant(store: Store) -> None:
    subscriptions = Subscriptions(store)
    mine, theirs = subscription("a", confirmed=True), subscription("b", owner=Owner("globex", "ann"))
    for each in (mine, theirs):
        await subscriptions.write(each)
    await subscriptions.confirm(theirs, NOW)
    assert await subscriptions.find(mine.key) == mine


async def test_a_dropped_subscription_does_not_come_back(store: Store) -> None:
    subscriptions, gone = Subscriptions(store), subscription()
    await subscriptions.rewrite(gone)
    await subscriptions.confirm(gone, NOW)
    assert await subscriptions.find(gone.key) is None
