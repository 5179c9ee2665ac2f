"""An agent is asked in its caller's own dialect where it speaks that one, and else in one of its own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.gateway import CALL, RESULT, Running, agent, bearer, keys, running
from tests.support.scripted import Received, Script, ScriptedBackend, Wire, answers, head, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

SEND_0_1 = (
    b'{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"mine","sessionId":"s-1",'
    b'"message":{"role":"user","parts":[{"type":"text","text":"hi"}]}}}'
)
GET_OLDER = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"mine"}}'
TENANTS = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [echo], globex: [echo] }}
defaults: {{ isolation: none }}
"""
TASK = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}


async def tracks(wire: Wire) -> None:
    """An agent of 1.0 that works on one task."""
    while True:
        frame = json.loads((await wire.request()).body)
        told = {"task": TASK} if frame["method"] == "SendMessage" else TASK
        await wire.send(whole(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": told}).encode()))


@asynccontextmanager
async def speaking(dialect: str, script: Script, preface: str = "") -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """A gateway in front of an agent at /echo that speaks one dialect alone, such as `jsonrpc 1.0`.

    Args:
        preface: Text in front of the agents.
    """
    protocol, version = dialect.split(" ")
    async with ScriptedBackend(agent(script)) as backend:
        at = f'{{ url: "{backend.url}", protocol: {protocol}, a2a_version: "{version}" }}'
        async with running(f"{preface}\nagents: {{ echo: {{ backend: {at} }} }}") as gateway:
            yield gateway, backend


def frame(request: Received) -> dict[str, Any]:
    return dict(json.loads(request.body))


# ---- Relay or translate --------------------------------------------------------------------------------------------


@for_each("version", ["0.1", "0.3"])
async def test_a_method_of_two_generations_is_relayed_to_an_agent_of_either(version: str) -> None:
    given = b'{"jsonrpc":"2.0","id":1, "result":{"id":"mine","status":{"state":"working"}}}'
    async with speaking(f"jsonrpc {version}", answers(whole(given))) as (gateway, backend):
        assert (await gateway.post("/echo", GET_OLDER)).body == given
        assert backend.requests[0].body == GET_OLDER


async def test_unknown_values_reach_an_agent_of_the_same_dialect() -> None:
    odd = CALL.replace(b'"role":"ROLE_USER"', b'"role":7')
    async with speaking("jsonrpc 1.0", answers(whole(RESULT))) as (gateway, backend):
        assert (await gateway.post("/echo", odd)).body == RESULT
        assert backend.requests[0].body == odd
    async with speaking("jsonrpc 0.3", answers(whole(RESULT))) as (gateway, backend):
        assert (await gateway.post("/echo", odd)).json["error"]["code"] == -32602
        assert backend.requests == []


# ---- Names that clients give ---------------------------------------------------------------------------------------


async def test_a_message_without_an_id_gets_the_same_one_when_it_comes_again_and_another_when_it_differs() -> None:
    async with speaking("jsonrpc 1.0", tracks, TENANTS) as (gateway, backend):
        for body, name in (
            (SEND_0_1, "acme"),
            (SEND_0_1, "acme"),
            (SEND_0_1.replace(b"hi", b"ho"), "acme"),
            (SEND_0_1, "globex"),
        ):
            await gateway.post("/echo", body, [bearer(name)])
        first, again, *others = (frame(each)["params"]["message"]["messageId"] for each in backend.requests)
        assert first == again
        assert len({first, *others}) == 3


# ---- On the way ----------------------------------------------------------------------------------------------------


async def test_an_agent_that_goes_before_it_is_asked_by_the_other_verb_is_asked_again() -> None:
    async def goes(wire: Wire) -> None:
        await wire.request()
        wire.backend.deafen()
        await wire.send(head(b"content-length: 0", b"connection: close", status=b"405 Method Not Allowed"))

    subscribing = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t-1"}}'
    async with speaking("rest 1.0", goes) as (gateway, backend):
        answer = await gateway.post("/echo", subscribing)
        assert answer.json["error"]["data"][0]["reason"] == "UPSTREAM_CONNECT"
        assert len(backend.requests) == 1
        # The call that was answered, and two repeats of the one that was not.
        assert (await gateway.line())["attempts"] == 3
