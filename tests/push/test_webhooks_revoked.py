"""Principals that may not call an agent any more get no notification of it, whatever webhooks they left behind."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.push.queue import ENTRY
from gateway.reload import ReloadResult
from tests.support.gateway import Running, bearer, keys
from tests.support.reloading import Site, serving
from tests.support.scripted import WAIT, ScriptedBackend, answers, whole
from tests.support.trusting import Trusting

pytestmark = pytest.mark.anyio

KEYS = keys(acme="acme", more="acme", globex="globex")
FILE = f"""\
{KEYS}
tenants: {{ acme: [crm], globex: [crm] }}
push:
  {{ mode: relay, allow: ["RECEIVER/*"], block_private_networks: false, deliver: {{ first_pause: 50ms }} }}
agents:
  crm: "AGENT"
"""
NARROWED = KEYS.replace("tenant: acme }", "tenant: acme, agents: [] }", 1)
EXPIRED = KEYS.replace("tenant: acme }", "tenant: acme, expires: 2020-01-01 }", 1)
REVOKED = {
    "its tenant": FILE.replace(KEYS, keys(globex="globex")).replace("acme: [crm], ", ""),
    "its tenant's agent": FILE.replace("acme: [crm]", "acme: []"),
    "by the agent": FILE.replace("acme: [crm]", 'acme: ["*"]').replace(
        '"AGENT"', '{ backend: "AGENT", allow: [globex] }'
    ),
    "its key": FILE.replace(KEYS, keys(more="acme", globex="globex")),
    "its key's agents": FILE.replace(KEYS, NARROWED),
    "its key's time": FILE.replace(KEYS, EXPIRED),
    "its agent": FILE.replace("[crm]", "[new]").replace("crm:", "new:"),
}
GRANTED = {
    "another key": FILE.replace(KEYS, keys(acme="acme", globex="globex")),
    "another tenant": FILE.replace(KEYS, keys(acme="acme", more="acme")).replace(", globex: [crm]", ""),
}


class Revoking:
    """A gateway that reads its file again, an agent that was given a callback for acme, and acme's webhook."""

    def __init__(self, site: Site, agent: ScriptedBackend, receiver: ScriptedBackend) -> None:
        self.site = site
        self.agent = agent
        self.receiver = receiver
        self.given: Any = {}

    @property
    def gateway(self) -> Running:
        return self.site.running

    async def set(self) -> None:
        """Have acme begin a task with a webhook."""
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        brought = {"taskPushNotificationConfig": {"url": f"{self.receiver.url}/hook"}}
        params = {"message": message, "configuration": brought}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
        answer = await self.gateway.post("/crm", body, [bearer("acme"), (b"A2A-Version", b"1.0")])
        assert answer.json["result"]["task"]["id"] == "task-1"

    async def notify(self, state: str = "TASK_STATE_WORKING") -> int:
        path = self.given["url"].removeprefix(self.gateway.gateway.public_url)
        update = {"statusUpdate": {"taskId": "task-1", "contextId": "context-1", "status": {"state": state}}}
        headers = [(b"X-A2A-Notification-Token", self.given["token"].encode()), (b"content-type", b"application/json")]
        return (await self.gateway.ask("POST", path, json.dumps(update).encode(), headers)).status

    async def challenge(self) -> int:
        path = self.given["url"].removeprefix(self.gateway.gateway.public_url)
        return (await self.gateway.get(f"{path}?validationToken=abc")).status

    async def put(self, text: str) -> None:
        """Have the gateway go on with another file."""
        text = text.replace("AGENT", self.agent.url).replace("RECEIVER", self.receiver.url)
        assert (await self.site.rewrite(text)).result is ReloadResult.APPLIED

    async def waiting(self) -> int:
        """Return how many notifications are on their way."""
        ledger = self.gateway.gateway.ledger
        assert ledger is not None
        return sum(note.kind == ENTRY for note in await ledger.store.notes((ENTRY, ""), 10))

    def delivered(self, result: str) -> float:
        return self.gateway.metric("push_deliveries_total", result=result)


@asynccontextmanager
async def revoking(folder: Path, *received: bytes) -> AsyncIterator[Revoking]:
    agent = Trusting("TASK_STATE_WORKING")
    agent.fixed = "context-1"
    async with (
        ScriptedBackend(agent.script) as backend,
        ScriptedBackend(answers(*received)) as receiver,
        serving(folder, FILE.replace("AGENT", backend.url).replace("RECEIVER", receiver.url)) as site,
    ):
        there = Revoking(site, backend, receiver)
        await there.set()
        there.given = agent.asked[0]["params"]["configuration"]["taskPushNotificationConfig"]
        yield there


@pytest.mark.parametrize("what", REVOKED)
async def test_a_callback_refuses_notifications_for_revoked_callers(tmp_path: Path, what: str) -> None:
    async with revoking(tmp_path) as there:
        await there.put(REVOKED[what])
        assert await there.notify() == 403
        assert await there.challenge() == 404
        assert there.delivered("refused") == 1
        await there.put(FILE)
        assert await there.challenge() == 200


@pytest.mark.parametrize("what", REVOKED)
async def test_waiting_notifications_of_a_revoked_caller_are_not_delivered(tmp_path: Path, what: str) -> None:
    busy = whole(b"", b"connection: close", status=b"503 Busy")
    async with revoking(tmp_path, *[busy] * 1000) as there:
        assert await there.notify() == 200
        await there.gateway.until(lambda: there.delivered("retried") > 0)
        await there.put(REVOKED[what])
        if what == "its agent":
            # The series of an agent that is in no file any more are gone, sometimes before they can be read.
            async with asyncio.timeout(WAIT):
                while await there.waiting():  # noqa: ASYNC110 - it is read from the store
                    await asyncio.sleep(0.01)
        else:
            await there.gateway.until(lambda: there.delivered("refused") == 1)
            assert await there.waiting() == 0
            assert len(there.receiver.requests) == there.delivered("retried")


@pytest.mark.parametrize("what", GRANTED)
async def test_others_that_go_leave_a_webhook_as_it_is(tmp_path: Path, what: str) -> None:
    async with revoking(tmp_path, whole(b"")) as there:
        await there.put(GRANTED[what])
        assert await there.notify() == 200
        await there.gateway.until(lambda: there.delivered("delivered") == 1)
