"""The agent of 0.1 with its client, and what it refuses."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import httpx
import pytest

from tests.doubles.ancient import Tree, insist
from tests.doubles.ancient_agent import AncientAgent, ancient_agent
from tests.doubles.ancient_client import AncientClient, Failed

pytestmark = pytest.mark.anyio

HOOK = {"url": "https://hooks.example.net/a2a", "token": "t", "authentication": {"schemes": ["Bearer"]}}
HELLO: Tree = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


@asynccontextmanager
async def meeting(**manners: bool) -> AsyncIterator[tuple[AncientAgent, AncientClient]]:
    async with ancient_agent(**manners) as agent, httpx.AsyncClient(trust_env=False, verify=False) as http:
        yield agent, AncientClient(http, agent.url)


async def states(events: AsyncIterator[Tree]) -> list[str]:
    return [event["status"]["state"] if "status" in event else "artifact" async for event in events]


async def test_the_card_is_one_of_0_1() -> None:
    async with meeting() as (agent, client):
        card = await client.card()
        assert card["url"] == agent.url
        assert card["authentication"] == {"schemes": ["Bearer"]}


async def test_a_task_bears_the_id_and_session_of_its_client() -> None:
    async with meeting() as (agent, client):
        task = await client.send("hello", id="t-1", sessionId="s-1", metadata={"a": 1})
        assert (task["id"], task["sessionId"], task["status"]["state"]) == ("t-1", "s-1", "completed")
        assert task["artifacts"] == [{"name": "result", "parts": [{"type": "text", "text": "hello"}], "index": 0}]
        assert agent.received[0]["params"]["metadata"] == {"a": 1}


async def test_history_comes_only_if_asked_for() -> None:
    async with meeting() as (_, client):
        task = await client.send("ask")
        assert "history" not in task
        task = await client.send("the red one", id=task["id"], historyLength=2)
        said = [message["parts"][0]["text"] for message in task["history"]]
        assert (task["status"]["state"], said) == ("completed", ["Which one?", "the red one"])
        assert len((await client.get(task["id"], historyLength=9))["history"]) == 3


async def test_a_stream_has_an_event_for_each_step_and_a_final_one() -> None:
    async with meeting() as (_, client):
        events = [event async for event in client.stream("count")]
        assert [event["artifact"]["append"] for event in events if "artifact" in event] == [False, True, True]
        assert [event["artifact"]["lastChunk"] for event in events if "artifact" in event] == [False, False, True]
        assert await states(client.stream("ask")) == ["working", "input-required"]
        assert await states(client.stream("fail")) == ["working", "failed"]


async def test_who_waits_can_be_followed_again_and_cancelled() -> None:
    async with meeting() as (agent, client):
        async with aclosing(cast("Any", client.stream("wait", id="t-1"))) as first:
            assert (await anext(first))["status"]["state"] == "working"
            async with aclosing(cast("Any", client.resubscribe("t-1"))) as second:
                assert (await anext(second))["status"]["state"] == "working"
                assert agent.streams == 2
                assert (await client.cancel("t-1"))["status"]["state"] == "canceled"
                assert await states(second) == ["canceled"]
            assert await states(first) == ["canceled"]
        with pytest.raises(Failed, match="-32002"):
            await client.cancel("t-1")
        with pytest.raises(Failed, match="-32009"):
            await client.send("more", id="t-1")
        assert await states(client.resubscribe("t-1")) == ["canceled"]


async def test_a_task_that_waits_can_be_finished() -> None:
    async with meeting() as (agent, client):
        await client.send("wait", id="t-1")
        agent.finish("t-1")
        assert (await client.get("t-1"))["status"]["state"] == "completed"


async def test_a_task_has_one_push_configuration() -> None:
    async with meeting() as (_, client):
        await client.send("ask", id="t-1", pushNotification=HOOK)
        assert (await client.get_push("t-1"))["pushNotificationConfig"] == HOOK
        assert await client.set_push("t-1", {"url": "https://h/2"}) == await client.get_push("t-1")


async def test_an_agent_without_push_notifications_says_so() -> None:
    async with meeting(pushes=False) as (_, client):
        await client.send("ask", id="t-1")
        with pytest.raises(Failed, match="-32003"):
            await client.set_push("t-1", HOOK)


async def test_nobody_knows_a_task_that_is_not_there() -> None:
    async with meeting() as (_, client):
        with pytest.raises(Failed, match="-32001"):
            await client.get("t-1")
        with pytest.raises(Failed, match="-32001"):
            await states(client.resubscribe("t-1"))


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
