"""An agent is asked in its caller's own dialect where it speaks that one, and else in one of its own."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.a2a.translation import Translation
from gateway.proxy import forward
from tests.support.gateway import CALL, JSON, RESULT, Running, agent, bearer, keys, running
from tests.support.scripted import Received, Script, ScriptedBackend, Wire, answers, head, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

SEND_0_3 = (
    b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1",'
    b'"role":"user","parts":[{"kind":"text","text":"hi"}]}}}'
)
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
        preface: What the file says before its agents.
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


async def test_what_the_callers_generation_does_not_say_is_the_agents_to_judge_where_it_speaks_the_same() -> None:
    odd = CALL.replace(b'"role":"ROLE_USER"', b'"role":7')
    async with speaking("jsonrpc 1.0", answers(whole(RESULT))) as (gateway, backend):
        assert (await gateway.post("/echo", odd)).body == RESULT
        assert backend.requests[0].body == odd
    async with speaking("jsonrpc 0.3", answers(whole(RESULT))) as (gateway, backend):
        assert (await gateway.post("/echo", odd)).json["error"]["code"] == -32602
        assert backend.requests == []


async def test_an_operation_that_the_agents_generation_lacks_goes_nowhere() -> None:
    listing = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}'
    async with speaking("jsonrpc 0.3", answers(whole(RESULT))) as (gateway, backend):
        assert "error" in (await gateway.post("/echo", listing)).json
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


async def test_a_long_body_is_translated_in_a_thread_and_a_short_one_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    class Watched(Translation):
        def __init__(self, *args: Any, **named: Any) -> None:
            threads.append(threading.current_thread())
            super().__init__(*args, **named)

    monkeypatch.setattr(forward, "Translation", Watched)
    async with speaking("jsonrpc 1.0", tracks) as (gateway, backend):
        for text in (b"hi", b"x" * 128 * 1024):
            assert "result" in (await gateway.post("/echo", SEND_0_3.replace(b"hi", text))).json
        assert frame(backend.requests[1])["params"]["message"]["parts"] == [{"text": "x" * 128 * 1024}]
    assert [each is threading.main_thread() for each in threads] == [True, False]


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


@for_each("call", [CALL, SEND_0_3])
async def test_what_is_forwarded_is_counted_while_it_is_and_by_its_status_afterwards(call: bytes) -> None:
    held, go = asyncio.Event(), asyncio.Event()

    async def waits(wire: Wire) -> None:
        asked = frame(await wire.request())
        held.set()
        await go.wait()
        await wire.send(whole(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": TASK}}).encode()))

    async with speaking("jsonrpc 1.0", waits) as (gateway, _):
        client = await gateway.client()
        await client.ask("POST", "/echo", call, [JSON])
        await held.wait()
        assert gateway.metric("requests_in_flight") == 1
        go.set()
        assert "result" in (await client.answer()).json
        await gateway.rested()
        assert gateway.metric("backend_requests_total", status="2xx") == 1
