"""What `push:` of the configuration makes."""

import pytest

from gateway.config.push import Push
from gateway.push.service import PushService
from gateway.tasks.memory import MemoryStore

pytestmark = pytest.mark.anyio


def service(written: Push, store: MemoryStore | None = None) -> PushService:
    return PushService(
        written, "https://gw.test", store, meet=lambda _hook, _told: True, count=lambda _agent, _result: None
    )


async def test_with_passthrough_webhooks_are_judged_and_nothing_runs() -> None:
    made = service(Push(), MemoryStore())
    assert made.policy is not None
    assert made.relay is None
    assert await made.jwks() is None
    await made.run()
    made.close()


def test_with_none_no_webhook_may_be_called() -> None:
    made = service(Push(mode="none"))
    assert (made.policy, made.relay) == (None, None)
    made.close()


async def test_with_relay_the_gateway_calls_them_and_shows_its_keys() -> None:
    made = service(Push(mode="relay"), MemoryStore())
    assert made.relay is not None
    keys = await made.jwks()
    assert keys is not None
    assert keys["keys"][0]["kty"] == "EC"
    assert "d" not in keys["keys"][0]
    made.close()


async def test_what_is_not_signed_has_no_keys() -> None:
    made = service(Push(mode="relay", sign=False), MemoryStore())
    assert made.relay is not None
    assert await made.jwks() is None
    made.close()
