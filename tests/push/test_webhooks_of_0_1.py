"""Webhooks that the gateway calls in the place of agents, where a client or an agent is of 0.1."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.ancient_agent import AncientAgent, ancient_agent
from tests.support.gateway import LISTENS, Running, bearer, keys, running
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

TEXT = {"role": "user", "parts": [{"type": "text", "text": "wait for it"}]}


class Site:
    """A gateway in front of one agent that acme and globex share; both speak 0.1."""

    def __init__(self, gateway: Running, receiver: ScriptedBackend) -> None:
        self.gateway = gateway
        self.receiver = receiver

    @property
    def hook(self) -> str:
        return f"{self.receiver.url}/hook"

    async def call(self, method: str, who: str = "acme", **params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return (await self.gateway.post("/crm", body, [bearer(who)])).json

    async def notify(self, config: Any, payload: Any) -> int:
        path = config["url"].removeprefix(self.gateway.gateway.public_url)
        headers = [(b"X-A2A-Notification-Token", config["token"].encode()), (b"content-type", b"application/json")]
        return (await self.gateway.ask("POST", path, json.dumps(payload).encode(), headers)).status

    async def told(self, count: int = 1) -> Any:
        await self.receiver.until(lambda: len(self.receiver.requests) == count)
        return json.loads(self.receiver.requests[-1].body)


@asynccontextmanager
async def site(agent: str, tenants: str = "{ acme: [crm], globex: [crm] }") -> AsyncIterator[Site]:
    async with ScriptedBackend(answers(whole(b""), whole(b""))) as receiver:
        text = f"""\
{LISTENS}
{keys(acme="acme", globex="globex")}
tenants: {tenants}
agents:
  crm: {agent}
push: {{ mode: relay, allow: ["{receiver.url}/*"], block_private_networks: false }}
"""
        async with running(text) as gateway:
            yield Site(gateway, receiver)


async def test_a_task_with_a_client_given_id_may_have_a_webhook() -> None:
    trusting = Trusting("TASK_STATE_WORKING")
    async with ScriptedBackend(trusting.script) as backend, site(f'"{backend.url}"') as there:
        pushed = {"url": there.hook, "token": "t"}
        task = await there.call("tasks/send", id="mine", sessionId="talk", message=TEXT, pushNotification=pushed)
        assert task["result"]["id"] == "mine"
        given = trusting.asked[-1]["params"]["configuration"]["taskPushNotificationConfig"]
        assert given["url"] != there.hook
        assert await there.notify(given, {"task": trusting.tasks["task-1"]}) == 200
        told = await there.told()
        assert (told["id"], told["sessionId"]) == ("mine", "talk")


@asynccontextmanager
async def between_two_of_0_1(tenants: str) -> AsyncIterator[tuple[Site, AncientAgent]]:
    async with ancient_agent() as agent, site(f'"{agent.url}"', tenants) as there:
        yield there, agent


@for_each(
    ("authentication", "shown"),
    [
        ({"schemes": ["Basic", "Bearer"], "credentials": "dTpw"}, b"Basic dTpw"),
        ({"schemes": ["Bearer"], "credentials": "s3cret"}, b"Bearer s3cret"),
        ({"schemes": [], "credentials": "s3cret"}, b"Bearer s3cret"),
    ],
)
@for_each("begins", [True, False])
async def test_a_client_of_0_1_is_shown_the_credentials_that_it_asked_for(
    authentication: Any, shown: bytes, *, begins: bool
) -> None:
    async with between_two_of_0_1(TENANTS["shared"]) as (there, agent):
        pushed = {"url": there.hook, "authentication": authentication}
        sent: dict[str, Any] = {"message": {**TEXT, "parts": [{"type": "text", "text": "ask me"}]}}
        if begins:
            sent["pushNotification"] = pushed
        await there.call("tasks/send", id="mine", **sent)
        if not begins:
            await there.call("tasks/pushNotification/set", id="mine", pushNotificationConfig=pushed)
        ((name, given),) = agent.push.items()
        # The agent gets what it shows to the gateway instead.
        assert given["authentication"] == {"schemes": ["Bearer"], "credentials": given["token"]}
        told = (await there.call("tasks/pushNotification/get", id="mine"))["result"]["pushNotificationConfig"]
        assert told["authentication"] == {**authentication, "schemes": authentication["schemes"][:1]}
        assert await there.notify(given, agent.tasks[name]) == 200
        await there.told()
        [request] = there.receiver.requests
        assert request.header(b"authorization") == shown


TENANTS = {"shared": "{ acme: [crm], globex: [crm] }", "of one tenant": "{ acme: [crm], globex: [] }"}


@for_each("tenants", TENANTS.values())
async def test_an_agent_of_0_1_is_given_a_callback_with_the_task_that_begins(tenants: str) -> None:
    async with between_two_of_0_1(tenants) as (there, agent):
        pushed = {"url": there.hook, "token": "t"}
        sent: dict[str, Any] = {
            "message": {**TEXT, "parts": [{"type": "text", "text": "ask me"}]},
            "pushNotification": pushed,
        }
        for _ in range(2):
            # The second goes on with the first.
            task = await there.call("tasks/send", id="mine", **sent)
            assert task["result"]["id"] == "mine"
        ((name, given),) = agent.push.items()
        assert given["url"] != there.hook
        assert await there.notify(given, agent.tasks[name]) == 200
        assert (await there.told())["id"] == "mine"


@for_each("tenants", TENANTS.values())
async def test_a_webhook_of_0_3_at_an_agent_of_0_1_is_called_as_its_task_without_a_mark(tenants: str) -> None:
    async with between_two_of_0_1(tenants) as (there, _):
        message = {**TEXT, "parts": [{"type": "text", "text": "ask me"}]}
        await there.call("tasks/send", id="mine", message=message)
        config = {"url": there.hook, "token": "t"}
        made = await there.call("tasks/pushNotificationConfig/set", taskId="mine", pushNotificationConfig=config)
        assert made["result"] == {"taskId": "mine", "pushNotificationConfig": {"id": "mine", **config}}
        assert (await there.call("tasks/pushNotificationConfig/get", id="mine"))["result"] == made["result"]


async def test_names_of_0_1_are_no_tasks_for_methods_of_0_3() -> None:
    trusting = Trusting("TASK_STATE_WORKING")
    async with ScriptedBackend(trusting.script) as backend, site(f'"{backend.url}"') as there:
        await there.call("tasks/send", id="mine", sessionId="talk", message=TEXT)
        asked = len(trusting.asked)
        config = {"url": there.hook, "token": "t"}
        calls: dict[str, dict[str, Any]] = {
            "set": {"taskId": "mine", "pushNotificationConfig": config},
            "get": {"id": "mine"},
            "list": {"id": "mine"},
            "delete": {"id": "mine", "pushNotificationConfigId": "mine"},
        }
        for name, params in calls.items():
            answer = await there.call(f"tasks/pushNotificationConfig/{name}", **params)
            assert answer["error"]["code"] == -32001
        assert len(trusting.asked) == asked
        made = await there.call("tasks/pushNotification/set", id="mine", pushNotificationConfig=config)
        assert made["result"] == {"id": "mine", "pushNotificationConfig": config}
        assert (await there.call("tasks/pushNotification/get", id="mine"))["result"] == made["result"]
