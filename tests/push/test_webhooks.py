"""Webhooks of clients: which may be named, and the gateway calling them in the agents' place."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest

from tests.support.gateway import LISTENS, Answer, Running, bearer, keys, running
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
AUTHENTICATION = {"scheme": "Basic", "credentials": "c2VjcmV0"}


class Site:
    """A gateway in front of one agent that acme and globex share, and a webhook that both may name."""

    def __init__(self, gateway: Running, agent: Trusting, receiver: ScriptedBackend) -> None:
        self.gateway = gateway
        self.agent = agent
        self.receiver = receiver

    async def call(self, who: str, method: str, version: str = "1.0", **params: Any) -> Answer:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return await self.gateway.post("/crm", body, [bearer(who), (b"A2A-Version", version.encode())])

    async def send(self, who: str, **configuration: Any) -> Any:
        return (await self.call(who, "SendMessage", message=MESSAGE, configuration=configuration)).json["result"][
            "task"
        ]

    @property
    def hook(self) -> str:
        return f"{self.receiver.url}/hook?secret=of-the-client"

    async def notify(self, config: Any, payload: Any, token: str | None = None) -> int:
        """Post a notification for a configuration, as an agent does; return the status."""
        path = config["url"].removeprefix(self.gateway.gateway.public_url)
        shown = config["token"] if token is None else token
        headers = [(b"X-A2A-Notification-Token", shown.encode()), (b"content-type", b"application/json")]
        return (await self.gateway.ask("POST", path, json.dumps(payload).encode(), headers)).status


class Evasive(Trusting):
    """Goes on with its tasks, but answers what is about webhooks with what it was given to say."""

    def __init__(self, **said: Any) -> None:
        super().__init__("TASK_STATE_WORKING")
        self.said = said

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        said = {"jsonrpc": "2.0", "id": call["id"], **self.said}
        if "PushNotification" in call["method"]:
            return said
        answer = super()._answer(call)
        return said if "configuration" in call["params"] else answer


@asynccontextmanager
async def site(push: str, agent: Trusting | None = None) -> AsyncIterator[Site]:
    trusting = agent or Trusting("TASK_STATE_WORKING")
    async with (
        ScriptedBackend(trusting.script) as backend,
        ScriptedBackend(answers(whole(b""), whole(b""), whole(b""))) as receiver,
    ):
        text = f"""\
{LISTENS}
{keys(acme="acme", globex="globex")}
tenants:
  acme: [crm]
  globex: [crm]
agents:
  crm: "{backend.url}"
{push.replace("RECEIVER", receiver.url)}
"""
        async with running(text) as gateway:
            yield Site(gateway, trusting, receiver)


ALLOWED = 'push: { allow: ["RECEIVER/*"], block_private_networks: false }'
RELAY = ALLOWED.replace("{ allow", "{ mode: relay, allow")


async def test_by_default_webhooks_are_https_at_public_addresses() -> None:
    async with site("") as there:
        task = (await there.send("acme"))["id"]
        for url in (there.hook, "https://127.0.0.1/hook", "https://user@example.com/", "https://169.254.169.254/"):
            asked = len(there.agent.asked)
            answer = await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, url=url)
            assert answer.json["error"]["code"] == -32602
            assert answer.reasons[-1] == "PUSH_DENIED"
            brought = {"taskPushNotificationConfig": {"url": url}}
            answer = await there.call("acme", "SendMessage", message=MESSAGE, configuration=brought)
            assert answer.reasons[-1] == "PUSH_DENIED"
            assert len(there.agent.asked) == asked


@for_each("push", ["", "push: { mode: relay }"])
async def test_the_log_says_which_rule_a_webhook_broke_and_no_more_of_it_than_its_origin(push: str) -> None:
    async with site(push) as there:
        task = (await there.send("acme"))["id"]
        for number, (url, detail) in enumerate((
            ("https://127.0.0.1:8443/a?k=hunter2", "https://127.0.0.1:8443: the host of a webhook must have public"),
            ("http://93.184.216.34/hunter2", "http://93.184.216.34: a webhook must be https"),
            ("https://hunter2@93.184.216.34/", "the URL of a webhook must not have a user or a password"),
        )):  # fmt: skip
            answer = await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, url=url)
            assert answer.reasons[-1] == "PUSH_DENIED"
            line = await there.gateway.line(of=number + 2)
            assert line["detail"].startswith(detail)
            assert "hunter2" not in str(line)


async def test_webhooks_cannot_be_set_in_mode_none() -> None:
    async with site("push: { mode: none }") as there:
        task = (await there.send("acme"))["id"]
        answer = await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, url="https://example.com/")
        assert answer.reasons[-1] == "PUSH_DENIED"
        card = (await there.gateway.get("/crm/.well-known/agent-card.json")).json
        assert card["capabilities"]["pushNotifications"] is False


async def test_the_agent_is_given_a_callback_and_the_client_sees_its_own_webhook() -> None:
    async with site(RELAY) as there:
        task = (await there.send("acme"))["id"]
        asked = {"taskId": task, "id": "mine", "url": there.hook, "token": "t", "authentication": AUTHENTICATION}
        made = (await there.call("acme", "CreateTaskPushNotificationConfig", **asked)).json["result"]
        assert made == asked
        given = there.agent.configs[task]["mine"]
        assert given["url"].startswith(f"{there.gateway.gateway.public_url}/-/push/")
        assert "secret" not in json.dumps(there.agent.configs)
        assert AUTHENTICATION["credentials"] not in json.dumps(there.agent.configs)
        got = await there.call("acme", "GetTaskPushNotificationConfig", taskId=task, id="mine")
        assert got.json["result"] == asked
        listed = await there.call("acme", "ListTaskPushNotificationConfigs", taskId=task)
        assert listed.json["result"]["configs"] == [asked]
        foreign = await there.call("globex", "GetTaskPushNotificationConfig", taskId=task, id="mine")
        assert foreign.json["error"]["code"] == -32001


async def test_a_notification_goes_to_the_clients_webhook_signed_and_once() -> None:
    async with site(RELAY) as there:
        task = (await there.send("acme"))["id"]
        asked = {"taskId": task, "id": "mine", "url": there.hook, "token": "t"}
        await there.call("acme", "CreateTaskPushNotificationConfig", **asked)
        given = there.agent.configs[task]["mine"]
        payload = {
            "statusUpdate": {"taskId": task, "contextId": "context-1", "status": {"state": "TASK_STATE_COMPLETED"}}
        }
        assert await there.notify(given, payload) == 200
        assert await there.notify(given, payload) == 200
        await there.receiver.until(lambda: len(there.receiver.requests) == 1)
        (request,) = there.receiver.requests
        assert request.target == b"/hook?secret=of-the-client"
        assert json.loads(request.body) == payload
        assert request.header(b"x-a2a-notification-token") == b"t"
        shown = request.header(b"authorization")
        assert shown is not None
        jwks = (await there.gateway.get("/.well-known/jwks.json")).json
        key = jwt.PyJWK(jwks["keys"][0])
        claims = jwt.decode(shown.removeprefix(b"Bearer "), key, ["ES256"], audience=there.receiver.url)
        assert claims["iss"] == there.gateway.gateway.public_url
        await there.gateway.until(lambda: there.gateway.metric("push_deliveries_total", result="delivered") == 1)


async def test_guessed_callbacks_and_tokens_look_like_missing_ones() -> None:
    async with site(RELAY) as there:
        task = (await there.send("acme"))["id"]
        await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, id="mine", url=there.hook)
        given = there.agent.configs[task]["mine"]
        payload = {"task": {"id": task, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
        assert await there.notify(given, payload, token="guessed") == 404
        guessed = given["url"][:-43] + "A" * 43
        assert await there.notify({**given, "url": guessed}, payload) == 404
        other = {"task": {"id": "task-9", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
        assert await there.notify(given, other) == 403
        assert there.receiver.requests == []


async def test_a_context_that_clients_name_is_theirs_in_notifications_too() -> None:
    async with site(RELAY) as there:
        answer = await there.call("acme", "SendMessage", message={**MESSAGE, "contextId": "chat-1"})
        task = answer.json["result"]["task"]["id"]
        await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, id="mine", url=there.hook)
        raw = there.agent.tasks[task]
        assert raw["contextId"] != "chat-1"
        assert await there.notify(there.agent.configs[task]["mine"], {"task": raw}) == 200
        await there.receiver.until(lambda: len(there.receiver.requests) == 1)
        assert json.loads(there.receiver.requests[0].body)["task"]["contextId"] == "chat-1"


async def test_a_message_without_a_task_is_of_the_task_of_its_webhook() -> None:
    async with site(RELAY) as there:
        task = await there.send("acme", taskPushNotificationConfig={"id": "mine", "url": there.hook})
        given = there.agent.asked[-1]["params"]["configuration"]["taskPushNotificationConfig"]
        message = {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "hey"}]}
        for ids in ({}, {"contextId": task["contextId"]}, {"taskId": task["id"]}):
            assert await there.notify(given, {"message": {**message, **ids}}) == 200


async def test_notifications_of_anothers_context_are_not_delivered() -> None:
    async with site(RELAY) as there:
        chats = {"acme": "chat-1", "globex": ""}
        contexts = {}
        for who, chat in chats.items():
            configuration = {"taskPushNotificationConfig": {"url": there.hook}}
            message = {**MESSAGE, "contextId": chat}
            answer = await there.call(who, "SendMessage", message=message, configuration=configuration)
            contexts[who] = there.agent.tasks[answer.json["result"]["task"]["id"]]["contextId"]
        for number, who in enumerate(chats):
            given = there.agent.asked[number]["params"]["configuration"]["taskPushNotificationConfig"]
            update = {"taskId": f"task-{number + 1}", "status": {"state": "TASK_STATE_WORKING"}}
            for whose, context in contexts.items():
                status = await there.notify(given, {"statusUpdate": {**update, "contextId": context}})
                assert status == (200 if whose == who else 403)


SAID: dict[str, dict[str, Any]] = {
    "a message": {"result": {"message": {"messageId": "r", "role": "ROLE_AGENT", "parts": [{"text": "noted"}]}}},
    "a message of it": {
        "result": {"message": {"messageId": "r", "role": "ROLE_AGENT", "parts": [], "taskId": "task-1"}}
    },
    "an error": {"error": {"code": -32603, "message": "the model is busy"}},
}


@for_each("said", SAID)
async def test_a_webhook_of_a_continued_task_stays_after_any_answer(said: str) -> None:
    async with site(RELAY, Evasive(**SAID[said])) as there:
        task = (await there.call("acme", "SendMessage", message=MESSAGE)).json["result"]["task"]
        message = {**MESSAGE, "taskId": task["id"]}
        brought = {"taskPushNotificationConfig": {"url": there.hook}}
        await there.call("acme", "SendMessage", message=message, configuration=brought)
        given = there.agent.asked[-1]["params"]["configuration"]["taskPushNotificationConfig"]
        update = {"taskId": task["id"], "status": {"state": "TASK_STATE_COMPLETED"}}
        assert await there.notify(given, {"statusUpdate": update}) == 200


@for_each("said", ["a message", "-32001", "-32003", "-32601"])
async def test_a_webhook_that_no_agent_can_have_kept_is_let_go(said: str) -> None:
    answer = SAID.get(said) or {"error": {"code": int(said), "message": "no"}}
    async with site(RELAY, Evasive(**answer)) as there:
        brought = {"taskPushNotificationConfig": {"url": there.hook}}
        await there.call("acme", "SendMessage", message=MESSAGE, configuration=brought)
        given = there.agent.asked[-1]["params"]["configuration"]["taskPushNotificationConfig"]
        update = {"taskId": "task-1", "status": {"state": "TASK_STATE_COMPLETED"}}
        assert await there.notify(given, {"statusUpdate": update}) == 404


async def test_a_webhook_that_the_agent_refuses_to_set_is_let_go() -> None:
    async with site(RELAY, Evasive(**SAID["an error"])) as there:
        task = (await there.call("acme", "SendMessage", message=MESSAGE)).json["result"]["task"]["id"]
        await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, url=there.hook)
        update = {"taskId": task, "status": {"state": "TASK_STATE_COMPLETED"}}
        assert await there.notify(there.agent.asked[-1]["params"], {"statusUpdate": update}) == 404


@for_each("answered", [{"url": "https://other.example/hook", "id": "c"}, {}])
async def test_a_webhook_that_is_not_the_callers_is_none(answered: dict[str, str]) -> None:
    async with site(RELAY, Evasive(result=answered)) as there:
        task = (await there.call("acme", "SendMessage", message=MESSAGE)).json["result"]["task"]["id"]
        answer = await there.call("acme", "GetTaskPushNotificationConfig", taskId=task, id="c")
        assert answer.json["error"]["code"] == -32001
        assert b"other.example" not in answer.body


async def test_a_deleted_webhook_hears_nothing_more() -> None:
    async with site(RELAY) as there:
        task = (await there.send("acme"))["id"]
        await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, id="mine", url=there.hook)
        given = there.agent.configs[task]["mine"]
        assert (await there.call("acme", "DeleteTaskPushNotificationConfig", taskId=task, id="mine")).status == 200
        payload = {"task": {"id": task, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
        assert await there.notify(given, payload) == 404
