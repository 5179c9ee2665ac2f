"""The push service that `push:` of the configuration makes."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from gateway.a2a.progress import Progress
from gateway.app import push_settings
from gateway.config.model import Push
from gateway.push.service import PushService
from gateway.push.ssrf import Resolver
from gateway.push.subscription import Subscription
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner
from gateway.telemetry.audit_log import AuditEvent
from tests.push.support import CLIENT, TASK, V1_0, Names, id_of
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio


async def owned(_subscription: Subscription, _told: Progress) -> bool:
    return True


def service(written: Push, store: SqliteStore | None = None) -> PushService:
    return PushService(
        push_settings(written), "https://gw.test", store, observe=owned, count=lambda _agent, _result: None
    )


async def test_a_webhook_that_may_not_be_called_any_more_is_an_event_of_the_audit_log() -> None:
    names, store, events = Names(("93.184.216.34",), ("10.0.0.7",)), SqliteStore(None), asyncio.Queue[Any]()
    made = PushService(
        push_settings(Push(mode="relay")), "https://gw.test", store, observe=owned,
        count=lambda _agent, _result: None, audit=lambda event, fields: events.put_nowait((event, fields)),
        resolver=cast("Resolver", names),
    )  # fmt: skip
    assert made.relay is not None
    adopted = await made.relay.register(dict(CLIENT), Owner("acme", "corp/ann/1"), "crm/acme", "task-7", V1_0)
    found = await made.relay.authenticate(
        id_of(adopted), {b"x-a2a-notification-token": adopted.config["token"].encode()}
    )
    assert found is not None
    assert await made.relay.receive(found, TASK) == 200
    task = asyncio.get_running_loop().create_task(made.run())
    async with asyncio.timeout(WAIT):
        event, fields = await events.get()
    assert event is AuditEvent.WEBHOOK_REFUSED
    assert (fields["tenant"], fields["principal"], fields["agent"]) == ("acme", "ann/1", "crm")
    assert fields["task_id"] == "task-7"
    assert fields["detail"].startswith("https://hooks.example: ")
    assert "key" not in str(fields)
    assert "10.0.0.7" not in str(fields)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
