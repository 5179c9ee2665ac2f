"""Methods that agents before 1.0 know under one of two names: clients may use either."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Scripted
from tests.support.scripted import Received, Script, Wire
from tests.support.translated import (
    TASK_0_3,
    Answer,
    agent,
    call,
    complaint,
    document,
    events,
    plays,
    result,
    rpc_event,
    stream,
)
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

CARD = {
    "name": "extended",
    "description": "",
    "url": "http://10.1.2.3/",
    "version": "1",
    "protocolVersion": "0.3.0",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
}
PATH = b"/agent/authenticatedExtendedCard"


def knows(*, path: Answer | None = None, method: Answer | None = None, nothing: bytes = b"404 Not Found") -> Script:
    """An agent that has its extended card at the path of 0.2, behind the method of 0.3, or nowhere."""

    def answer(request: Received) -> bytes:
        if request.method == b"GET":
            at_path = request.target == PATH and path is not None
            return path(request) if at_path and path is not None else document({"detail": "no"}, nothing)
        known = method is not None and json.loads(request.body)["method"] == "agent/getAuthenticatedExtendedCard"
        return method(request) if known and method is not None else complaint(-32601)(request)

    return plays(answer)


def card(_: Received) -> bytes:
    return document(CARD)


async def asked(client: httpx.AsyncClient, gateway: Scripted, how: str) -> Any:
    """The name on the card that a client gets which asks in some way; an error's code, if it gets one."""
    if how.startswith("/"):
        version = {"a2a-version": "1.0"} if how == "/extendedAgentCard" else {}
        answer = await client.get(gateway.url + how, headers=version)
        shown = answer.json()
    else:
        frame = await call(client, gateway, how, {})
        shown = frame.get("result", frame)
    assert "10.1.2.3" not in json.dumps(shown)
    return shown["error"]["code"] if "error" in shown else shown["name"]


ALIAS = "agent/authenticatedExtendedCard"
"""The name in a draft of 0.2 of the method of 0.3."""
WAYS = [
    "/agent/authenticatedExtendedCard", "agent/getAuthenticatedExtendedCard", ALIAS, "/v1/card", "/extendedAgentCard",
    "GetExtendedAgentCard",
]  # fmt: skip


@for_each("how", WAYS)
@for_each("nothing", [b"404 Not Found", b"405 Method Not Allowed"])
async def test_an_agent_that_knows_the_method_alone_is_asked_by_it(how: str, nothing: bytes, tmp_path: Path) -> None:
    async with agent(knows(method=result(CARD), nothing=nothing), tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert await asked(client, gateway, how) == "extended"


@for_each("how", WAYS)
@for_each("named", [True, False])
@for_each("code", [-32601, -32600])
async def test_an_agent_that_knows_the_path_alone_is_asked_there(
    how: str, code: int, named: object, tmp_path: Path
) -> None:
    """a2a-sdk 0.2 takes a method that it does not know for no request at all, and says so without an id."""
    script = knows(path=card, method=complaint(code, named=bool(named)))
    async with agent(script, tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert await asked(client, gateway, how) == "extended"
        last = gateway.backend.requests[-1]
    assert (last.method, last.target, last.body) == (b"GET", PATH, b"")
    assert last.header(b"content-type") is None


async def test_a_card_requested_by_path_has_its_generation_and_no_envelope(tmp_path: Path) -> None:
    async with agent(knows(method=result(CARD)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.get(gateway.url + PATH.decode())
        url = gateway.url
    shown = answer.json()
    assert shown["url"] == url
    assert {"jsonrpc", "result", "supportedInterfaces"}.isdisjoint(shown)


async def test_an_agent_that_knows_both_is_asked_once(tmp_path: Path) -> None:
    async with agent(knows(path=card, method=result(CARD)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        ways = [how for how in WAYS if how != ALIAS]
        for how in ways:
            assert await asked(client, gateway, how) == "extended"
        assert len(gateway.backend.requests) == len(ways)


async def test_the_agents_own_error_is_returned_without_a_card(tmp_path: Path) -> None:
    async with agent(knows(), tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert await asked(client, gateway, "agent/getAuthenticatedExtendedCard") == -32601
        answer = await client.get(gateway.url + PATH.decode())
        assert (answer.status_code, answer.json()["code"]) == (404, -32601)


async def test_an_agent_that_has_no_extended_card_for_this_caller_is_not_asked_again(tmp_path: Path) -> None:
    async with agent(knows(path=card, method=complaint(-32007)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert await asked(client, gateway, "agent/getAuthenticatedExtendedCard") == -32007
        assert len(gateway.backend.requests) == 1


async def test_a_refusal_at_the_path_is_not_asked_around(tmp_path: Path) -> None:
    script = knows(path=lambda _: document({"message": "no"}, b"403 Forbidden"), method=result(CARD))
    async with agent(script, tmp_path, "jsonrpc 0.3") as (gateway, client):
        answer = await client.get(gateway.url + PATH.decode())
        assert answer.status_code == 403
        assert len(gateway.backend.requests) == 1


@for_each("learns", [True, False])
@for_each("how", ["agent/getAuthenticatedExtendedCard", "/v1/card"])
async def test_a_broken_fallback_asks_the_agent_anew(how: str, learns: object, tmp_path: Path) -> None:
    """Another replica may know the first way."""
    cut = 0

    async def script(wire: Wire) -> None:
        nonlocal cut
        while True:
            request = await wire.request()
            if request.method != b"GET":
                await wire.send(result(CARD)(request) if cut and learns else complaint(-32601)(request))
            elif cut:
                await wire.send(card(request))
            else:
                cut += 1
                await wire.send(card(request)[:-5])
                wire.close()
                return

    async with agent(script, tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert await asked(client, gateway, how) == "extended"
        methods = [request.method for request in gateway.backend.requests]
    assert methods == [b"POST", b"GET", b"POST", b"GET"][: 3 if learns else 4]


# ---- Subscriptions ---------------------------------------------------------------------------------------------------

SUBSCRIPTIONS = ["tasks/resubscribe", "tasks/subscribe", "SubscribeToTask"]


def subscribing(known: str | None, code: int = -32601) -> Script:
    """An agent that knows subscriptions under one name, or under none."""

    def answer(request: Received) -> bytes:
        if json.loads(request.body)["method"] != known:
            return complaint(code)(request)
        return stream(rpc_event(request, {**TASK_0_3, "status": {"state": "working"}}))

    return plays(answer)


@for_each("how", SUBSCRIPTIONS)
@for_each("known", ["tasks/resubscribe", "tasks/subscribe"])
@for_each("code", [-32601, -32600])
async def test_a_subscription_is_asked_for_under_the_name_that_its_agent_knows(
    how: str, known: str, code: int, tmp_path: Path
) -> None:
    async with agent(subscribing(known, code), tmp_path, "jsonrpc 0.3") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": "mine", "method": how, "params": {"id": "t-1"}}
        answer = await client.post(gateway.url, json=body)
        asked = [json.loads(request.body) for request in gateway.backend.requests]
    [event] = events(answer.content)
    assert event["id"] == "mine"
    task = event["result"]
    assert task.get("task", task)["id"] == "t-1"
    assert [each["params"]["id"] for each in asked] == ["t-1"] * len(asked)
    assert len(asked) == (1 if how == known or (how == "SubscribeToTask" and known == "tasks/resubscribe") else 2)


@for_each("how", SUBSCRIPTIONS)
async def test_an_agent_that_knows_no_subscription_says_so(how: str, tmp_path: Path) -> None:
    async with agent(subscribing(None), tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert (await call(client, gateway, how, {"id": "t-1"}))["error"]["code"] == -32601
        assert len(gateway.backend.requests) == 2


@for_each("code", [-32001, -32004, -32602])
async def test_a_subscription_that_its_agent_refuses_is_not_asked_for_again(code: int, tmp_path: Path) -> None:
    async with agent(subscribing(None, code), tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert (await call(client, gateway, "tasks/resubscribe", {"id": "t-1"}))["error"]["code"] == code
        assert len(gateway.backend.requests) == 1


async def test_a_long_answer_in_the_place_of_a_stream_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    task = {**TASK_0_3, "metadata": {"long": "x" * 5_000_000}}
    async with agent(plays(result(task)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        assert (await call(client, gateway, "tasks/resubscribe", {"id": "t-1"}))["result"] == task
        assert len(gateway.backend.requests) == 1
