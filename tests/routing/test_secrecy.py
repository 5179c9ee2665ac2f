"""Indistinguishable answers: for an agent, a tenant or a card that one may not have, and for none at all."""

import time

import pytest

from tests.identity.corpus.genuine import good
from tests.identity.front import front, shown
from tests.support.gateway import (
    CALL,
    JSON,
    RESULT,
    Answer,
    Running,
    agent,
    bearer,
    keys,
    running,
)
from tests.support.scripted import (
    ScriptedBackend,
    answers,
    whole,
)
from tests.support.tenancy import guarded
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

SEND = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}'


# ---- What cannot be told apart -------------------------------------------------------------------------------------

REQUESTS: list[tuple[str, str, bytes | None]] = [
    ("POST", "", CALL),
    ("POST", "", b"{"),
    ("POST", "", b""),
    ("POST", "", CALL.replace(b'"id":1', b'"id":"my-own"')),
    ("POST", "", CALL.replace(b"SendMessage", b"Nonsense")),
    ("POST", "/", CALL),
    ("GET", "", None),
    ("PUT", "", b"{}"),
    ("OPTIONS", "", None),
    ("HEAD", "", None),
    ("POST", "/message:send", SEND),
    ("POST", "/message:send", b"{"),
    ("POST", "/v1/message:send", SEND),
    ("GET", "/message:send", None),
    ("GET", "/tasks", None),
    ("GET", "/tasks/t1", None),
    ("GET", "/tasks/%41", None),
    ("GET", "/tasks/%ff", None),
    ("GET", "/tasks/t%0a", None),
    ("DELETE", "/tasks/t1", None),
    ("POST", "/tasks/t1:cancel", b""),
    ("GET", "/v1/tasks/t1", None),
    ("GET", "/v1/card", None),
    ("GET", "/extendedAgentCard", None),
    ("GET", "/agent/authenticatedExtendedCard", None),
    ("GET", "/.well-known/agent-card.json", None),
    ("HEAD", "/.well-known/agent-card.json", None),
    ("POST", "/.well-known/agent-card.json", b"{}"),
    ("GET", "/.well-known/agent.json", None),
    ("GET", "/what", None),
    ("POST", "/what/ever", CALL),
    ("GET", "/tasks/t1?tenant=a&tenant=b", None),
    ("GET", "/tasks/t1?A2A-Version=9.9", None),
    ("POST", "?A2A-Version=%ff", CALL),
]


@for_each("request_", REQUESTS)
@for_each("who", ["a stranger", "globex"])
async def test_an_agent_one_may_not_call_looks_like_no_agent(who: str, request_: tuple[str, str, bytes | None]) -> None:
    method, rest, body = request_
    async with guarded() as (gateway, backend):
        headers = [JSON] if who == "a stranger" else [JSON, bearer(who)]
        for extra in ([], [(b"A2A-Version", b"0.3")], [(b"Content-Encoding", b"gzip")]):
            hidden = await gateway.ask(method, "/hermit" + rest, body, [*headers, *extra])
            missing = await gateway.ask(method, "/horror" + rest, body, [*headers, *extra])
            assert hidden.anonymous == missing.anonymous
            # A malformed path or query is told to every known caller.
            odd = hidden.status in (200, 400) and hidden.reasons[-1] == "BAD_REQUEST"
            assert hidden.status == (401 if who == "a stranger" else 404) or (odd and ("%" in rest or "?" in rest))
        assert backend.requests == []


@for_each("shape", ["POST", "REST", "java"])
@for_each("who", ["globex", "acme"])
async def test_a_tenant_one_may_not_name_looks_like_no_tenant(who: str, shape: str) -> None:
    hidden = {"globex": "billing", "acme": "ledger"}[who]

    async def call_hidden(gateway: Running, tenant: str) -> Answer:
        if shape == "REST":
            return await gateway.post(f"/a2a/{tenant}/message:send", SEND, [bearer(who)])
        if shape == "java":
            return await gateway.post(f"/a2a/{tenant}", CALL, [bearer(who)])
        call = CALL.replace(b'"params":{', b'"params":{"tenant":"' + tenant.encode() + b'",')
        return await gateway.post("/a2a", call, [bearer(who)])

    async with guarded() as (gateway, backend):
        secretive, missing = await call_hidden(gateway, hidden), await call_hidden(gateway, "nothing")
        assert secretive.anonymous == missing.anonymous
        assert missing.status == (404 if shape == "REST" else 200)
        assert missing.reasons == ["NO_ROUTE"]
        if shape != "REST":
            assert missing.json["error"]["code"] == -32602
        assert backend.requests == []
        lines = [await gateway.line(number, of=2) for number in (0, 1)]
        assert [line["reason"] for line in lines] == ["tenant_denied", "no_route"]


async def test_a_tenant_without_agents_finds_none() -> None:
    async with guarded() as (gateway, _):
        hidden, missing = [await gateway.post(path, CALL, [bearer("idle")]) for path in ("/hermit", "/horror")]
        assert hidden.anonymous == missing.anonymous
        assert hidden.status == 404


async def test_a_hidden_agents_card_looks_like_no_card_over_every_tenant() -> None:
    async with guarded() as (gateway, _):
        for who in ([], [bearer("globex")], [bearer("idle")]):
            seen = {
                (await gateway.get(f"/a2a/{tenant}/.well-known/agent-card.json", who)).anonymous
                for tenant in ("billing", "research", "nothing")
            }
            assert len(seen) == 1
        assert (await gateway.get("/a2a/billing/.well-known/agent-card.json", [bearer("acme")])).status == 200


async def test_a_tenant_that_is_not_admitted_gets_the_same_refusal_at_every_path() -> None:
    async with front(others='hermit: {{ backend: "{url}", visibility: private }},') as place:
        token = shown(good(time.time(), org="unnamed"))
        for target in ("/echo", "/hermit", "/nothing"):
            answer = await place.gateway.post(target, CALL, [token])
            assert (answer.status, answer.json["error"]["code"]) == (403, -31403)
            assert answer.reasons == ["TENANT_DENIED"]


async def test_two_agents_that_both_fit_are_a_conflict_only_to_who_may_know_both() -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [one, two], globex: [one] }}
defaults: {{ isolation: none }}
agents:
  one: {{ match: [{{ path: /a2a, key: acme }}, {{ path: /a2a, key: globex }}], backend: {backend.url} }}
  two: {{ match: {{ path: /a2a, tenant: two }}, backend: {backend.url} }}
"""
        call = CALL.replace(b'"params":{', b'"params":{"tenant":"two",')
        async with running(text) as gateway:
            known = await gateway.post("/a2a", call, [bearer("acme")])
            assert (known.status, known.json["error"]["code"], known.reasons) == (403, -31403, ["ROUTE_CONFLICT"])
            told = "the request names two agents, one by its API key and one by its tenant"
            assert known.json["error"]["message"] == told
            hidden = await gateway.post("/a2a", call, [bearer("globex")])
            assert (hidden.status, hidden.json["error"]["code"], hidden.reasons) == (200, -32602, ["NO_ROUTE"])
            assert b"two agents" not in hidden.body
            assert backend.requests == []
            assert [(await gateway.line(number, of=2))["reason"] for number in (0, 1)] == ["route_conflict"] * 2
