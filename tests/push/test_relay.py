"""The gateway's callbacks: what agents are given in the place of webhooks, and what clients see."""

import asyncio
import json
from collections.abc import Callable

import pytest

from gateway.a2a.fault import BadParams, PushDenied
from gateway.push.hook import KIND, PENDING, SETTLED, Hooks
from gateway.push.relay import Adopted
from gateway.push.webhook import WebhookPolicy
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store
from tests.push.desk import ANN, BOB, CLIENT, EVE, PREFIX, PUBLIC_URL, V1_0, Desk, id_of, told
from tests.push.receiving import Names
from tests.push.working import Remote

pytestmark = pytest.mark.anyio


# ---- Adopted ---------------------------------------------------------------------------------------------------------


async def test_the_agent_is_given_a_callback_and_nothing_of_the_client_s() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    config = adopted.config
    assert set(config) == {"id", "taskId", "url", "token", "authentication"}
    assert (config["id"], config["taskId"]) == ("cfg-1", "task-7")
    assert config["url"].startswith(PREFIX)
    assert config["authentication"] == {"scheme": "Bearer", "credentials": config["token"]}
    written = json.dumps(config)
    for secret in ("hooks.example", "tok-123", "s3cret"):
        assert secret not in written
    assert adopted.hook_id not in written


async def test_no_two_callbacks_are_alike_and_none_can_be_read_from_the_store() -> None:
    desk = Desk()
    one, other = await desk.adopt(), await desk.adopt({**CLIENT, "id": "cfg-2"})
    secrets = {id_of(one), id_of(other), one.config["token"], other.config["token"]}
    assert len(secrets) == 4
    kept = await desk.store.notes(("", ""), 100)
    assert {note.kind for note in kept} == {KIND}
    for note in kept:
        assert note.tenant == "acme"
        for secret in secrets:
            assert secret not in note.key + note.value.decode() + note.group


@pytest.mark.parametrize("bad", ["http://hooks.example/", "https://user@hooks.example/", "https://10.0.0.1/"])
async def test_a_webhook_that_may_not_be_called_is_refused_when_it_is_set(bad: str) -> None:
    desk = Desk()
    with pytest.raises(PushDenied):
        await desk.adopt({**CLIENT, "url": bad})
    assert await desk.store.notes(("", ""), 10) == []


async def test_a_name_that_leads_within_is_refused_when_it_is_set() -> None:
    desk = Desk(policy=WebhookPolicy(resolve=Names(("10.0.0.1",))))
    with pytest.raises(PushDenied):
        await desk.adopt()


@pytest.mark.parametrize("public_url", [PUBLIC_URL, "https://gateway.example:443/a2a/"])
async def test_the_gateway_s_own_callbacks_are_no_webhooks(public_url: str) -> None:
    desk = Desk(public_url=public_url)
    for own in (PREFIX + "x", "https://GATEWAY.example:443/a2a/-/push/x"):
        with pytest.raises(PushDenied, match="own"):
            await desk.adopt({**CLIENT, "url": own})
    await desk.adopt({**CLIENT, "url": "https://gateway.example/hooks"})
    await desk.adopt({**CLIENT, "url": "https://gateway.example:8443/a2a/-/push/x"})


async def test_what_is_no_configuration_is_refused() -> None:
    with pytest.raises(BadParams):
        await Desk().adopt({"taskId": "task-7"})


async def test_a_task_has_no_more_webhooks_than_it_may_have() -> None:
    desk = Desk(max_per_task=2)
    for number in range(2):
        await desk.adopt({**CLIENT, "id": f"cfg-{number}"})
    with pytest.raises(PushDenied, match="more than 2"):
        await desk.adopt({**CLIENT, "id": "cfg-2"})
    # In the place of one that is there, on another task, or at another backend.
    await desk.adopt({**CLIENT, "id": "cfg-1"})
    await desk.adopt({**CLIENT, "id": "cfg-2"}, task="task-8")
    await desk.relay.adopt(dict(CLIENT, id="cfg-2"), ANN, "crm/globex", "task-7", V1_0)


@pytest.mark.parametrize("make", [SqliteStore, Remote])
async def test_those_that_come_at_a_time_are_no_more_than_those_that_come_in_turn(make: Callable[[], Store]) -> None:
    names = Late()
    desk = Desk(make(), policy=WebhookPolicy(resolve=names), max_per_task=3)
    asked = [asyncio.ensure_future(desk.adopt({**CLIENT, "id": f"cfg-{number}"})) for number in range(10)]
    await asyncio.gather(*(names.asked.get() for _ in asked))
    names.known.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, PushDenied) for each in found) >= 7
    assert all(isinstance(each, Adopted | PushDenied) for each in found)
    taken = sum(isinstance(each, Adopted) for each in found)
    hooks = await Hooks(desk.store).of("crm/acme", "task-7", 100)
    assert len(hooks) == taken <= 3


class Late:
    """A resolver that knows nothing before it is told to."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.known = asyncio.Event()

    async def __call__(self, host: str) -> tuple[str]:
        self.asked.put_nowait(host)
        await self.known.wait()
        return ("93.184.216.34",)


async def test_one_without_an_id_is_called_as_its_task_and_replaced_by_the_next() -> None:
    desk = Desk(max_per_task=1)
    unnamed = {"url": CLIENT["url"]}
    first = await desk.adopt(unnamed)
    assert first.config["id"] == "task-7"
    # A send does not say which task its configuration is of.
    assert "taskId" not in first.config
    await desk.relay.bind(first.hook_id, "task-7")
    second = await desk.adopt(unnamed)
    assert await desk.post(first) == 200
    await desk.relay.bind(second.hook_id, "task-7")
    assert await desk.post(first) == 404
    assert await desk.post(second) == 200


async def test_a_hook_that_no_agent_has_agreed_to_is_soon_forgotten() -> None:
    desk = Desk()
    now = int(desk.wall.now)
    adopted = await desk.adopt(task=None)
    assert (await desk.hook(adopted)).until == now + PENDING
    await desk.relay.bind(adopted.hook_id, "task-9")
    hook = await desk.hook(adopted)
    assert (hook.task, hook.until) == ("task-9", now + SETTLED)
    desk.wall.now += 1000
    await desk.relay.bind(adopted.hook_id, "task-9")
    assert await desk.hook(adopted) == hook


async def test_a_hook_that_the_agent_refuses_is_let_go_and_one_that_it_has_called_is_not() -> None:
    desk = Desk()
    refused, called = await desk.adopt(task=None), await desk.adopt()
    await desk.relay.release(refused.hook_id)
    await desk.relay.bind(refused.hook_id, "task-7")
    assert await desk.post(refused) == 404
    assert await desk.post(called) == 200
    # The client was gone before the agent's answer came.
    await desk.relay.release(called.hook_id)
    assert await desk.post(called) == 200


# ---- Restored --------------------------------------------------------------------------------------------------------


async def test_a_client_sees_its_own_configuration() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    for _ in range(2):
        assert await desk.relay.restore(told(adopted), ANN, "crm/acme") == CLIENT
    assert (await desk.hook(adopted)).settled


async def test_nobody_sees_another_s() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    answer = told(adopted)
    restore = desk.relay.restore
    assert await restore(answer, EVE, "crm/acme") is None
    assert await restore(answer, BOB, "crm/acme") is None
    assert await restore(answer, ANN, "crm/globex") is None
    assert await restore(told(adopted, taskId="task-8"), ANN, "crm/acme") is None
    assert await restore({"url": "https://hooks.elsewhere/", "token": "x"}, ANN, "crm/acme") is None
    assert await restore({"url": PREFIX + "x" * 43}, ANN, "crm/acme") is None
    assert await restore({"url": PREFIX + "../x"}, ANN, "crm/acme") is None
    assert await restore({}, ANN, "crm/acme") is None
    assert not (await desk.hook(adopted)).settled
    assert await restore(answer, BOB, "crm/acme", by_principal=False) == CLIENT


async def test_what_the_agent_calls_it_is_what_the_client_sees_and_deletes() -> None:
    desk = Desk()
    adopted = await desk.adopt({"url": CLIENT["url"], "taskId": "task-7"})
    shown = await desk.relay.restore(told(adopted, id="made-up"), ANN, "crm/acme")
    assert shown == {"id": "made-up", "taskId": "task-7", "url": CLIENT["url"]}
    await desk.relay.forget("crm/acme", "task-7", "task-7")
    assert await desk.post(adopted) == 200
    await desk.relay.forget("crm/acme", "task-7", "made-up")
    assert await desk.post(adopted) == 404
    assert await desk.relay.restore(told(adopted), ANN, "crm/acme") is None


async def test_a_new_one_takes_the_place_of_an_old_one_when_the_agent_has_agreed() -> None:
    desk = Desk()
    old = await desk.adopt()
    await desk.relay.restore(told(old), ANN, "crm/acme")
    new = await desk.adopt({**CLIENT, "url": "https://hooks.example/new"})
    assert await desk.post(old) == 200
    shown = await desk.relay.restore(told(new), ANN, "crm/acme")
    assert shown is not None
    assert shown["url"] == "https://hooks.example/new"
    assert await desk.post(old) == 404
