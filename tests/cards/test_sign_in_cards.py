"""Cards for strangers at a URL where a credential picks the agent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.gateway import CALL, JSON, RESULT, Answer, Running, agent, bearer, card_of, keys, running
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

CARD, OLD = "/.well-known/agent-card.json", "/.well-known/agent.json"
AUTH = keys(bot="acme", other="acme", third="globex")


@asynccontextmanager
async def site(agents: str, settings: str = "") -> AsyncIterator[Running]:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", name="OF-THE-AGENT")
    async with ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend:
        tenants = 'tenants: { acme: ["*"], globex: [] }\n'
        listens = f'gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0"{settings} }}\n'
        async with running(f"{listens}{AUTH}{tenants}agents:\n{agents.replace('URL', backend.url)}\n") as gateway:
            yield gateway


def named(answer: Answer) -> str:
    assert answer.status == 200, answer
    return str(answer.json["name"])


ONE = '  one: { backend: "URL", match: { path: /a2a, key: bot } }\n'
TWO = '  two: { backend: "URL", match: { path: /a2a, key: other } }\n'
HIDDEN = '  hidden: { backend: "URL", visibility: private, match: { path: /a2a, key: other } }\n'


@for_each("settings", ["", ", anonymous: true"])
@for_each("path", [CARD, OLD])
async def test_anyone_reads_the_card_of_the_only_agent_at_a_path(path: str, settings: str) -> None:
    async with site(ONE, settings) as gateway:
        answer = await gateway.get("/a2a" + path)
        assert named(answer) == "OF-THE-AGENT"
        assert answer.json["securitySchemes"].keys() == {"api_key"}
        assert answer.header("cache-control") == "private, max-age=60"
        assert answer.header("vary") == "Authorization, X-API-Key, Accept, A2A-Version"
        again = await gateway.get("/a2a" + path, [(b"If-None-Match", (answer.header("etag") or "").encode())])
        assert again.status == 304
        # Calls are another matter, and so are those who are known and have nothing there.
        assert (await gateway.post("/a2a", CALL)).status == 401
        assert (await gateway.get("/a2a" + path, [bearer("third")])).status == 404


@for_each("path", [CARD, OLD])
async def test_a_stranger_gets_a_sign_in_card_at_a_path_of_several_agents(path: str) -> None:
    async with site(ONE + TWO + '  secretive: { backend: "URL", match: { path: /a2a, key: third } }\n') as gateway:
        answer = await gateway.get("/a2a" + path)
        assert named(answer) == "127.0.0.1"
        url = gateway.gateway.public_url + "/a2a"
        assert answer.json["securitySchemes"].keys() == {"api_key"}
        assert answer.json["skills"] == []
        assert answer.json["url"] == url
        if path == CARD:
            assert {each["url"] for each in answer.json["supportedInterfaces"]} == {url}
        for word in (b"OF-THE-AGENT", b"one", b"two", b"secretive"):
            assert word not in answer.body
        assert answer.header("cache-control") == "private, max-age=60"
        head = await gateway.ask("HEAD", "/a2a" + path, None, [])
        assert (head.status, head.body) == (200, b"")
        assert (await gateway.ask("DELETE", "/a2a" + path, None, [])).status in (401, 405)
        # With a credential it is the agent's.
        assert named(await gateway.get("/a2a" + path, [bearer("bot")])) == "OF-THE-AGENT"
        assert (await gateway.post("/a2a", CALL)).status == 401


async def test_a_private_agent_is_told_from_none_by_nobody() -> None:
    async with site(HIDDEN) as gateway:
        hidden, missing = await gateway.get("/a2a" + CARD), await gateway.get("/nothing" + CARD)
        assert (hidden.status, hidden.anonymous) == (401, missing.anonymous)
    async with site(ONE + HIDDEN) as gateway:
        beside = await gateway.get("/a2a" + CARD)
    async with site(ONE) as gateway:
        alone = await gateway.get("/a2a" + CARD)
    assert (beside.json["name"], beside.json["skills"]) == (alone.json["name"], alone.json["skills"])


async def test_an_agent_that_needs_no_credential_to_be_found_goes_before() -> None:
    general = '  general: { backend: "URL", match: { path: /a2a } , card: { set: { name: GENERAL } } }\n'
    async with site(ONE + TWO + general) as gateway:
        assert named(await gateway.get("/a2a" + CARD)) == "GENERAL"


async def test_agents_that_a_tenant_picks_have_cards_of_their_own() -> None:
    tenanted = (
        '  billing: { backend: "URL", match: { path: /a2a, tenant: billing }, card: { set: { name: BILLING } } }\n'
    )
    both = '  both: { backend: "URL", match: { path: /a2a, tenant: crm, key: bot }, card: { set: { name: BOTH } } }\n'
    async with site(ONE + tenanted + both) as gateway:
        assert named(await gateway.get("/a2a" + CARD)) == "OF-THE-AGENT"
        assert named(await gateway.get("/a2a/billing" + CARD)) == "BILLING"
        answer = await gateway.get("/a2a/crm" + CARD)
        assert named(answer) == "BOTH"
        assert {each.get("tenant") for each in answer.json["supportedInterfaces"]} == {"crm", None}
        assert (await gateway.get("/a2a/unknown" + CARD)).status == 401


async def test_at_a_pattern_of_hosts_the_card_shows_the_host_that_was_asked() -> None:
    hosted = (ONE + TWO).replace("path: /a2a", "host: '*.agents.test'")
    async with site(hosted) as gateway:
        client = await gateway.client()
        for host, status in ((b"eu.agents.test", 200), (b"evil.test", 401)):
            await client.send(b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (CARD.encode(), host))
            answer = await client.answer()
            assert answer.status == status
            if status == 200:
                assert named(answer) == "eu.agents.test"


async def test_cards_are_unchanged_without_sign_in() -> None:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0")
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend,
        running(f"agents: {{ a: {{ backend: '{backend.url}', match: {{ path: /a2a, tenant: x }} }} }}") as gateway,
    ):
        assert (await gateway.get("/a2a" + CARD)).status == 404


async def test_operators_are_told_what_a_stranger_reads() -> None:
    async def route(gateway: Running) -> dict[str, object]:
        body = json.dumps({"method": "GET", "path": "/a2a" + CARD}).encode()
        found: dict[str, object] = (await gateway.ask("POST", "/-/route", body, [JSON], admin=True)).json
        return found

    async with site(ONE) as gateway:
        alone = await route(gateway)
        assert (alone["agent"], alone["reason"]) == ("one", None)
        assert '"taken": true' in json.dumps(alone["candidates"])
    async with site(ONE + TWO) as gateway:
        several = await route(gateway)
        assert (several["agent"], several["reason"]) == (None, None)
        assert "says how to sign in" in str(several["hint"])
