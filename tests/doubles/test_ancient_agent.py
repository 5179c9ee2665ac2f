"""The agent of 0.1 with its client, and what it refuses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.doubles.ancient import Tree, insist
from tests.doubles.ancient_agent import AncientAgent, ancient_agent
from tests.doubles.ancient_client import AncientClient

pytestmark = pytest.mark.anyio

HELLO: Tree = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


@asynccontextmanager
async def meeting(**manners: bool) -> AsyncIterator[tuple[AncientAgent, AncientClient]]:
    async with ancient_agent(**manners) as agent, httpx.AsyncClient(trust_env=False, verify=False) as http:
        yield agent, AncientClient(http, agent.url)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/send", {"message": HELLO}),
        ("tasks/send", {"id": "t"}),
        ("tasks/send", {"id": "", "message": HELLO}),
        ("tasks/send", {"id": "t", "message": {**HELLO, "kind": "message"}}),
        ("tasks/send", {"id": "t", "message": {**HELLO, "messageId": "m"}}),
        ("tasks/send", {"id": "t", "message": {**HELLO, "role": "ROLE_USER"}}),
        ("tasks/send", {"id": "t", "message": {"role": "user", "parts": [{"kind": "text", "text": "hello"}]}}),
        ("tasks/send", {"id": "t", "message": {"role": "user", "parts": [{"text": "hello"}]}}),
        ("tasks/send", {"id": "t", "message": {"role": "user", "parts": [{"type": "file", "file": {}}]}}),
        ("tasks/send", {"id": "t", "message": HELLO, "configuration": {}}),
        ("tasks/send", {"id": "t", "message": HELLO, "sessionId": None}),
        ("tasks/sendSubscribe", {"message": HELLO}),
        ("tasks/get", {"id": "t", "historyLength": "1"}),
        ("tasks/cancel", {"taskId": "t"}),
        ("tasks/pushNotification/set", {"id": "t", "pushNotificationConfig": {"url": "https://h", "id": "c"}}),
        ("tasks/pushNotification/get", {"id": "t", "pushNotificationConfigId": "c"}),
        ("tasks/get", None),
    ],
)
async def test_what_is_not_0_1_by_the_letter_is_refused(method: str, params: Tree | None) -> None:
    async with meeting() as (agent, client):
        frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await client._http.post(agent.url, json=frame)).json()
        assert (answer["id"], answer["error"]["code"]) == (1, -32602)
        insist("Error", answer["error"])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","method":"tasks/get"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}', -32601),
    ],
)
async def test_what_is_no_call_of_0_1_is_refused(body: bytes, code: int) -> None:
    async with meeting() as (agent, client):
        answer = (await client._http.post(agent.url, content=body)).json()
        assert answer["error"]["code"] == code
        assert agent.received == []


async def test_an_untidy_agent_writes_nulls_and_moments_without_a_zone() -> None:
    async with meeting(untidy=True) as (agent, client):
        frame = {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"id": "t", "message": HELLO}}
        task = (await client._http.post(agent.url, json=frame)).json()["result"]
        assert task["metadata"] is None
        assert task["artifacts"][0]["description"] is None
        assert not task["status"]["timestamp"].endswith("Z")
