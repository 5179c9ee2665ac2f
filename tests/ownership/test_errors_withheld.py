"""An agent's errors over HTTP+JSON pass as they are, unless they tell of what is another's."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.gateway import Answer, Running, bearer, card_of, keys, running
from tests.support.scripted import SSE, ScriptedBackend, Wire, chunk, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

CARD = card_of("http://127.0.0.1/", "HTTP+JSON 1.0")
STATE = {"state": "TASK_STATE_WORKING"}
THEIRS = {"id": "T", "contextId": "of-T", "status": STATE}
TOLD: dict[str, Any] = {
    "its task": {"task": THEIRS},
    "its task alone": THEIRS,
    "news of it": {"statusUpdate": {"taskId": "T", "contextId": "new", "status": STATE}},
    "a message": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "contextId": "of-T"}},
    "its id": {"message": "no", "task_id": "T"},
    "a list": {"tasks": [THEIRS], "nextPageToken": ""},
    "its webhooks": {"configs": [{"taskId": "T", "url": "https://x/"}, {"taskId": "U", "url": "https://x/"}]},
    "both": {"task": {"id": "U", "contextId": "of-U", "status": STATE}, "statusUpdate": {"taskId": "T"}},
}
OWN: dict[str, Any] = {
    "an error": {"error": {"code": 404, "status": "NOT_FOUND", "message": "no task T"}},
    "an error of 0.3": {"code": -32001, "message": "Task not found", "data": {"taskId": "T"}},
    "an id of a request": {"id": "4711", "status": 404, "message": "no"},
    "a number": {"id": 7, "status": 404, "message": "no"},
    "an envelope": {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task not found"}},
    "one's own": {"task": {"id": "U", "contextId": "of-U", "status": STATE}},
    "what nobody has met": {"message": "no", "taskId": "V"},
}


class Site:
    """A gateway in front of an agent of HTTP+JSON that says what it is given."""

    def __init__(self, gateway: Running) -> None:
        self.gateway = gateway
        self.said = b""

    async def begins(self, who: str, task: str) -> None:
        """Have somebody begin a task."""
        self.said = whole(json.dumps({"task": {"id": task, "contextId": f"of-{task}", "status": STATE}}).encode())
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        answer = await self.gateway.post("/crm/message:send", json.dumps({"message": message}).encode(), [bearer(who)])
        assert answer.status == 200, answer.body

    async def fails(self, body: Any) -> Answer:
        """Return the answer to globex if the agent answers with an error."""
        self.said = whole(json.dumps(body).encode(), status=b"404 Not Found")
        return await self.gateway.get("/crm/tasks/U", [bearer("globex")])


@asynccontextmanager
async def site(more: str = "") -> AsyncIterator[Site]:
    found: list[Site] = []

    async def play(wire: Wire) -> None:
        while True:
            request = await wire.request()
            await wire.send(whole(CARD) if request.target.endswith(b".json") else found[0].said)

    async with ScriptedBackend(play) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents:
  crm: {{ backend: {{ url: "{backend.url}", protocol: rest, a2a_version: "1.0" }}{more} }}
"""
        async with running(text) as gateway:
            found.append(Site(gateway))
            await found[0].begins("acme", "T")
            await found[0].begins("globex", "U")
            yield found[0]


@for_each("told", TOLD.values())
async def test_an_error_that_tells_of_anothers_task_is_told_in_the_gateways_words(told: Any) -> None:
    async with site() as there:
        answer = await there.fails(told)
        assert answer.status == 502
        assert answer.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        assert json.dumps(told).encode() not in answer.body
    async with site(", isolation: none") as there:
        assert (await there.fails(told)).json == told


@for_each("told", OWN.values())
async def test_any_other_error_passes_as_it_is_and_makes_nobody_an_owner(told: Any) -> None:
    async with site() as there:
        answer = await there.fails(told)
        assert (answer.status, answer.json) == (404, told)
        await there.begins("acme", "V")


@for_each("names", ["T", "U"])
async def test_an_error_within_a_stream_names_nothing_of_anothers(names: str) -> None:
    async with site() as there:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "NO", "metadata": {"taskId": names}}
        error = json.dumps({"error": {"code": 500, "status": "INTERNAL", "message": "oh", "details": [info]}}).encode()
        there.said = SSE + chunk(b"event: error\ndata: %b\n\n" % error) + chunk(b"")
        answer = await there.gateway.get("/crm/tasks/U:subscribe", [bearer("globex")])
        assert (error in answer.body) is (names == "U")
