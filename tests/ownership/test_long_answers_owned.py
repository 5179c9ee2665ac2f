"""Ownership of long answers: wherever they name their task, they go out once it is known whose that is."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.ownership.test_task_ownership import MESSAGE, Site
from tests.support.gateway import Answer, keys, running
from tests.support.mark import shows_mark
from tests.support.scripted import Received, ScriptedBackend, Wire, chunk, head
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

FILLER = 3 * 1024 * 1024


class Lengthy(Trusting):
    """Answers sends with a long artifact, and what names the task behind it, in pieces of some size."""

    def __init__(self, piece: int) -> None:
        super().__init__()
        self.piece = piece

    async def _reply(self, wire: Wire, request: Received, call: dict[str, Any]) -> None:
        answer = self._answer(call)
        if "SendMessage" in call["method"]:
            task = answer["result"]["task"]
            artifacts = [{"artifactId": "a", "parts": [{"text": "x" * FILLER}]}]
            answer = {"jsonrpc": "2.0", "id": call["id"], "result": {"task": {"artifacts": artifacts, **task}}}
        body = json.dumps(answer).encode()
        await wire.send(head(b"transfer-encoding: chunked"))
        # The end in small pieces: ids are cut in two.
        cut = max(len(body) - 400, 0)
        pieces = [body[at : min(at + 65536, cut)] for at in range(0, cut, 65536)]
        pieces += [body[at : at + self.piece] for at in range(cut, len(body), self.piece)]
        for part in pieces:
            await wire.send(chunk(part))
            await asyncio.sleep(0)
        await wire.send(b"0\r\n\r\n")


@asynccontextmanager
async def site(piece: int, more: str = "") -> AsyncIterator[Site]:
    agent = Lengthy(piece)
    async with ScriptedBackend(agent.script) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents: {{ crm: "{backend.url}" }}
{more}
"""
        async with running(text) as gateway:
            yield Site(gateway, agent)


async def sent(there: Site, who: str, **members: Any) -> Answer:
    return await there.call(who, "SendMessage", {"message": {**MESSAGE, **members}})


@for_each("piece", [1, 7, 400])
async def test_the_task_of_a_long_answer_is_its_receivers(piece: int) -> None:
    async with site(piece) as there:
        answer = await sent(there, "acme", contextId="chat-1")
        task = answer.json["result"]["task"]
        assert len(answer.body) > FILLER
        assert task["contextId"] == "chat-1"
        assert not shows_mark(answer.body)
        assert (await there.call("globex", "GetTask", {"id": task["id"]})).json["error"]["code"] == -32001
        assert (await there.call("acme", "GetTask", {"id": task["id"]})).json["result"]["id"] == task["id"]
        line = await there.gateway.line(0, of=3)
        assert (line["task_id"], line["context_id"]) == (task["id"], "chat-1")


@for_each("piece", [1, 7, 400])
async def test_a_long_answer_with_anothers_ids_is_withheld_wholly(piece: int) -> None:
    """The id stands behind three megabytes that are another's, too."""
    async with site(piece) as there:
        await sent(there, "acme")
        there.agent.made = 0
        answer = await sent(there, "globex")
        assert answer.json["error"]["code"] == -32006
        assert b"xxx" not in answer.body
        assert b"task-" not in answer.body
        line = await there.gateway.line(of=2)
        assert (line["reason"], line["outcome"]) == ("upstream_protocol", "upstream_error")


async def test_a_longer_answer_than_the_file_allows_is_refused() -> None:
    async with site(400, "defaults: { connections: { kept: 2MiB } }") as there:
        answer = await sent(there, "acme")
        assert answer.json["error"]["code"] == -32006
        assert b"xxx" not in answer.body
