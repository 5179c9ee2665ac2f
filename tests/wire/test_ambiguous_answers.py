"""No answer, event or error leaves in which two readers could see two tasks."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.push.test_webhooks import RELAY, site
from tests.support.gateway import Running, running
from tests.support.scripted import ScriptedBackend, Wire, whole
from tests.support.translated import MESSAGE_0_3, MESSAGE_1_0, document, stream
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

SECRET = "of somebody else"
STATE = {"state": "TASK_STATE_WORKING"}
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": SECRET}], "taskId": "t"}
MINE = {"id": "t", "contextId": "c", "status": STATE, "history": []}
THEIRS = {"id": "u", "contextId": "d", "status": STATE, "history": [MESSAGE]}
TWICE: dict[str, Any] = {
    "the task": {"task": MINE, "task~": THEIRS},
    "its id": {"task": {**MINE, "id~": "u", "metadata": {"note": SECRET}}},
    "its history": {"task": {**MINE, "history~": [MESSAGE]}},
    "a task in its history": {"task": {**MINE, "history": [{**MESSAGE, "taskId~": "u"}]}},
    "its status": {"task": {**MINE, "status~": {**STATE, "message": MESSAGE}}},
    "a message in its status": {"task": {**MINE, "status": {**STATE, "message": MESSAGE, "message~": MESSAGE}}},
    "a message": {"message": {**MESSAGE, "contextId": "c", "contextId~": "d"}},
}


class Speaker:
    """An agent that answers with whatever it is given, as one document or as the one event of a stream."""

    def __init__(self) -> None:
        self.said: Any = None
        self.error = False

    async def play(self, wire: Wire) -> None:
        while True:
            request = await wire.request()
            if request.method == b"GET":
                await wire.send(document({}, b"404 Not Found"))
                continue
            called = json.loads(request.body)
            said, wrapped = self.said, "jsonrpc" in called
            if wrapped:
                said = {"jsonrpc": "2.0", "id": called["id"], "error" if self.error else "result": said}
            elif self.error:
                said = {"error": said}
            streams = b"tream" in request.target + str(called.get("method", "")).encode()
            if streams and not (self.error and not wrapped):
                await wire.send(stream(b"data: " + written(said) + b"\n\n"))
            else:
                status = b"400 Bad Request" if self.error and not wrapped else b"200 OK"
                await wire.send(whole(written(said), status=status))


def written(tree: Any) -> bytes:
    return json.dumps(tree).replace('~"', '"').encode()


@asynccontextmanager
async def speaking(spoken: str) -> AsyncIterator[tuple[Running, Speaker]]:
    """A gateway in front of such an agent, which speaks one binding of 1.0."""
    speaker = Speaker()
    async with ScriptedBackend(speaker.play) as backend:
        way = f'backend: {{ url: "{backend.url}", protocol: {spoken}, a2a_version: "1.0" }}'
        async with running(f"agents: {{ crm: {{ {way} }} }}") as gateway:
            yield gateway, speaker


async def told(gateway: Running, client: str, *, streams: bool) -> bytes:
    """All that a client of a dialect is told to a send."""
    if client == "rest":
        body = json.dumps({"message": MESSAGES["1.0"]}).encode()
        return (await gateway.post(f"/crm/message:{'stream' if streams else 'send'}", body, VERSION)).body
    methods = {"1.0": ("SendMessage", "SendStreamingMessage"), "0.3": ("message/send", "message/stream")}
    method = methods[client][streams]
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": MESSAGES[client]}}
    return (await gateway.post("/crm", json.dumps(call).encode())).body


MESSAGES = {"1.0": MESSAGE_1_0, "0.3": MESSAGE_0_3}
VERSION = ((b"A2A-Version", b"1.0"),)


@for_each("said", TWICE)
@for_each("streams", [False, True])
@for_each("client", ["1.0", "0.3", "rest"])
@for_each("spoken", ["jsonrpc", "rest"])
async def test_ambiguous_answers_are_refused(spoken: str, client: str, said: str, *, streams: bool) -> None:
    async with speaking(spoken) as (gateway, speaker):
        speaker.said = TWICE[said]
        answer = await told(gateway, client, streams=streams)
        assert SECRET.encode() not in answer
        assert b"UPSTREAM_PROTOCOL" in answer


@for_each("client", ["1.0", "0.3", "rest"])
@for_each("spoken", ["jsonrpc", "rest"])
async def test_an_error_that_can_be_read_in_two_ways_is_refused(spoken: str, client: str) -> None:
    details = [{"@type": "x", "metadata": {"taskId": "t", "taskId~": "u", "note": SECRET}}]
    async with speaking(spoken) as (gateway, speaker):
        speaker.error = True
        speaker.said = {"code": -32001 if spoken == "jsonrpc" else 400, "message": SECRET, "data~": 1, "data": details}
        speaker.said["details"] = details
        answer = await told(gateway, client, streams=False)
        assert SECRET.encode() not in answer
        assert b"UPSTREAM_PROTOCOL" in answer


async def test_such_a_notification_is_refused() -> None:
    async with site(RELAY) as there:
        task = (await there.send("acme"))["id"]
        await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, id="mine", url=there.hook)
        given = there.agent.configs[task]["mine"]
        mine = {"id": task, "contextId": "context-1", "status": STATE}
        for told in ({"task": mine, "task~": THEIRS}, {"task": {**mine, "history": [MESSAGE], "history~": []}}):
            path = given["url"].removeprefix(there.gateway.gateway.public_url)
            headers = [(b"X-A2A-Notification-Token", given["token"].encode()), (b"content-type", b"application/json")]
            assert (await there.gateway.ask("POST", path, written(told), headers)).status == 400
        assert await there.notify(given, {"task": mine}) == 200
