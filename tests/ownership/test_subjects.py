"""Owners of tasks of callers with tokens, at an agent that keeps principals apart."""

import json
import time

import pytest

from tests.identity.corpus.genuine import good
from tests.identity.front import Front, front, shown
from tests.ownership.test_task_ownership import MESSAGE
from tests.support.gateway import Answer
from tests.support.trusting import Trusting
from tests.table import for_each

pytestmark = pytest.mark.anyio

APART = "defaults: { isolation: principal }\n"


async def asked(there: Front, method: str, params: object, **ownership: object) -> Answer:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = [shown(good(time.time(), **ownership)), (b"A2A-Version", b"1.0")]
    return await there.gateway.post("/echo", body, headers)


async def test_each_subject_has_its_own_tasks() -> None:
    agent = Trusting()
    async with front(script=agent.script, more=APART) as there:
        task = (await asked(there, "SendMessage", {"message": MESSAGE}, sub="ada")).json["result"]["task"]["id"]
        assert (await asked(there, "GetTask", {"id": task}, sub="ada")).json["result"]["id"] == task
        assert (await asked(there, "GetTask", {"id": task}, sub="eve")).json["error"]["code"] == -32001


@for_each("ownership", [{"sub": ...}, {"sub": ""}, {"sub": ..., "client_id": "ada"}])
async def test_a_token_without_a_subject_is_refused(ownership: dict[str, object]) -> None:
    """All tokens without a subject would be one principal, whoever they are of."""
    agent = Trusting()
    async with front(script=agent.script, more=APART) as there:
        for method in ("SendMessage", "ListTasks"):
            answer = await asked(there, method, {"message": MESSAGE} if method == "SendMessage" else {}, **ownership)
            assert (answer.status, answer.json["error"]["code"]) == (403, -31403)
        assert agent.asked == []
